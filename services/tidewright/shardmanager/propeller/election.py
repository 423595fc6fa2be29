"""Who leads: lock names and identities as the original's election uses them (section 1.11).

Our own manager does not elect: its slots belong to one replica at a time by fenced commits. It holds
the original's lock all the same (`manager_lock`), so that it and an original never act side by side;
the workers' names are needed to give them theirs.
"""

from __future__ import annotations

import msgspec

from tidewright.shardmanager.propeller.strategy import lock_name

LOCK_KIND = "Lease"
HOLDER = "tidewright-shard-manager"
"""How our identity on a manager's lock begins."""


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """The `propeller.leader-election` section. Durations in seconds."""

    enabled: bool = False
    namespace: str = ""
    name: str = ""
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    @property
    def manager_lease(self) -> str:
        """The manager's lock as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def worker_leases(self, count: int) -> list[str]:
        """The workers' locks: the name is overridden, the namespace is not."""
        return [f"{self.namespace}/{lock_name(index)}" for index in range(count)]


def native_identity(name: str, incarnation: str) -> str:
    """Ours: with the incarnation (of a pod its uid), because a name comes back and an incarnation does not (R1)."""
    return f"{name}_{incarnation}"
