"""Which group a machine is of, over all clouds: one that two groups list is of the first one, and the second cannot be read.

Two clouds that select the same groups, or a group that is given directly and again over a server, would otherwise
be ordered at twice, and their machines counted twice. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidewright.cloud.errors import Conflict
from tidewright.events.provisioning import NodeGroupObserved

SHOWN: Final = 3
"""Machines that a message names."""


class Claims:
    """What was read last of all groups."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        """Machine to the name of its group."""
        self._of: dict[str, tuple[str, frozenset[str]]] = {}
        """Group to its cloud and machines."""

    def judged(self, fact: NodeGroupObserved) -> NodeGroupObserved:
        """A group that was read: as it is, or unreadable because of machines that are of another group, without these."""
        # What is only ordered has a name that the cloud's client made up.
        ids = frozenset(one.id for one in fact.machines if one.id and one.state != "creating")
        _, before = self._of.get(fact.name, ("", frozenset()))
        for machine in before - ids:
            self._release(machine, fact.name)
        self._of[fact.name] = (fact.cloud, ids)
        others = {
            machine: owner for machine in ids if (owner := self._owner.get(machine, fact.name)) != fact.name
        }
        if not others:
            self._owner.update(dict.fromkeys(ids, fact.name))
            return fact
        # Seen first here, a machine that comes would else be kept from the group that the others are of.
        for machine in ids:
            self._release(machine, fact.name)
        return msgspec.structs.replace(
            fact,
            instances=tuple(one for one in fact.machines if one.id not in others),
            many={},
            prefix="",
            error=Conflict.reason,
            message=self._words(fact, others),
        )

    def gone(self, name: str) -> None:
        """The group is no longer there."""
        _, machines = self._of.pop(name, ("", frozenset()))
        for machine in machines:
            self._release(machine, name)

    def _release(self, machine: str, name: str) -> None:
        if self._owner.get(machine) == name:
            del self._owner[machine]

    def _words(self, fact: NodeGroupObserved, others: dict[str, str]) -> str:
        names = sorted(others)
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        owners = ", ".join(
            f"{name} of cloud {self._of[name][0] or 'none'}" for name in sorted(set(others.values()))
        )
        return (
            f"its machines {shown} are of node group {owners} already: give each group to one cloud alone"
            f" (--cloud {fact.cloud}), and serve none with `tidewright cloud serve` that is given directly"
        )
