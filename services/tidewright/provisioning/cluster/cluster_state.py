"""What became of increases: readiness sets, acceptable ranges, upcoming nodes, health, time-outs. Spec 3.9.

All functions are of counts and times; who counts is the decider's state.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from enum import Enum
from typing import Final

import msgspec

from tidewright.kube.durations import format_duration
from tidewright.kube.taints import Taint
from tidewright.provisioning.cluster.groups import STARTUP_TAINT_PREFIXES

NOT_READY_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)
"""A node that cannot be reached is not ready by its condition: the taint alone is one that is about to go."""
OUT_OF_RESOURCES, OTHER = 1, 99


class Readiness(Enum):
    """Which set a registered node is in."""

    READY = "ready"
    NOT_STARTED = "not_started"
    UNREADY = "unready"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """One group in numbers of nodes.

    Attributes:
        unregistered, long_unregistered: instances without a node, for less or more than the provision time.
        deleting: deletions under way.
        increase: what the open request asked for; 0 when there is none.
    """

    target: int = 0
    ready: int = 0
    unready: int = 0
    not_started: int = 0
    suspended: int = 0
    unregistered: int = 0
    long_unregistered: int = 0
    deleting: int = 0
    increase: int = 0
    backed_off: bool = False

    @property
    def registered(self) -> int:
        return self.ready + self.unready + self.not_started + self.suspended


class Health(msgspec.Struct, frozen=True):
    """When groups and the cluster count as unhealthy: more than both."""

    ok_unready: int = 3
    unready_percent: float = 45.0


def readiness(
    *,
    ready: bool,
    age_s: float,
    taints: Iterable[Taint],
    startup_s: float,
    startup_taints: Container[str] = (),
) -> Readiness:
    """The set of one registered node.

    Args:
        ready: its Ready condition is True.
        age_s: seconds since it was created.
        taints: of the node; one that says it is not ready, or has not started, counts as that.
        startup_s: `max-node-startup-time`.
        startup_taints: further keys of taints that say that a node has not started.
    """
    held_back = any(
        t.key in NOT_READY_TAINTS or t.key in startup_taints or t.key.startswith(STARTUP_TAINT_PREFIXES)
        for t in taints
    )
    if ready and not held_back:
        return Readiness.READY
    return Readiness.NOT_STARTED if age_s < startup_s else Readiness.UNREADY


def acceptable(counts: Counts) -> tuple[int, int]:
    """The range in which the number of nodes is as it should be."""
    return (
        counts.target - counts.long_unregistered - counts.increase,
        counts.target + counts.deleting,
    )


MOST_COMING: Final = 100_000
"""More nodes than a cluster has. A cloud that has more on their way says something wrong, and each would be laid out."""


def upcoming(counts: Counts) -> int:
    """Nodes that are ordered and not usable yet; only while an increase is open and not backed off."""
    if not counts.increase or counts.backed_off:
        return 0
    there = counts.ready + counts.unready + counts.suspended + counts.long_unregistered
    return min(max(0, counts.target - there), MOST_COMING)


def group_healthy(counts: Counts, health: Health) -> bool:
    if counts.target == 0:
        return True
    low, _ = acceptable(counts)
    missing = max(0, low - counts.ready - counts.suspended)
    if missing <= health.ok_unready:
        return True
    return missing <= counts.registered * health.unready_percent / 100


def cluster_healthy(groups: Iterable[Counts], health: Health, unmanaged_ready: int = 0) -> bool:
    """Whether not too many of all nodes are unready."""
    all_counts = list(groups)
    unready = sum(counts.unready for counts in all_counts)
    total = sum(counts.registered for counts in all_counts) + unmanaged_ready
    return unready <= health.ok_unready or unready <= total * health.unready_percent / 100


def scaling_up(counts: Counts) -> bool:
    """An increase is open and not complete."""
    low, _ = acceptable(counts)
    return counts.increase > 0 and (upcoming(counts) > 0 or low < counts.target)


class TimeOut(msgspec.Struct, frozen=True, kw_only=True):
    """An increase whose nodes did not come in time, and what is done about it.

    Attributes:
        missing: nodes that did not come: so many are taken back [B9].
        increase: nodes of the whole increase: the reference takes these back.
        since_s: how long ago they were ordered.
    """

    group: str
    missing: int
    increase: int
    since_s: float

    @property
    def event_message(self) -> str:
        return f"Nodes added to group {self.group} failed to register within {format_duration(round(self.since_s))}"

    @property
    def failure_message(self) -> str:
        return f"Scale-up timed out for node group {self.group} after {format_duration(round(self.since_s))}"


def timed_out(group: str, counts: Counts, requested_at: float, now: float, limit_s: float) -> TimeOut | None:
    """Whether the open increase has nodes outstanding beyond its expected time."""
    if not counts.increase or requested_at + limit_s >= now:
        return None
    missing = upcoming(msgspec.structs.replace(counts, backed_off=False))
    if not missing:
        return None
    return TimeOut(group=group, missing=missing, increase=counts.increase, since_s=now - requested_at)


def revert_failed_message(group: str, error: str) -> str:
    return f"Failed to decrease target size for group {group} after scale-up timeout: {error}"


def wrong_size(registered: int, target: int, unregistered: int) -> tuple[int, int] | None:
    """(registered, target) when they disagree beyond what is still registering."""
    if registered > target or registered < target - unregistered:
        return registered, target
    return None


def first_observed(before: tuple[tuple[int, int], float] | None, pair: tuple[int, int], now: float) -> float:
    """Since when the same wrong pair has been seen."""
    return before[1] if before is not None and before[0] == pair else now


class InstanceView(msgspec.Struct, frozen=True, kw_only=True):
    """What instances look like here."""

    id: str
    state: str = ""
    error_class: int = 0
    error_code: str = ""
    error_message: str = ""

    @property
    def failed(self) -> bool:
        return self.state == "creating" and self.error_class != 0


def failures(instances: Iterable[InstanceView]) -> dict[tuple[int, str], int]:
    """Instances that reported a creation error, by class and code."""
    counted: dict[tuple[int, str], int] = {}
    for instance in instances:
        if instance.failed:
            key = (instance.error_class, instance.error_code)
            counted[key] = counted.get(key, 0) + 1
    return dict(sorted(counted.items()))


def to_delete(instances: Sequence[InstanceView], *, zero_or_max: bool, allow_non_atomic: bool) -> list[str]:
    """Instances that are deleted because creations failed.

    In a zero-or-max group one failure takes all with it, unless it may be filled bit by bit: then
    nothing goes until all have failed.
    """
    failed = [i.id for i in instances if i.failed]
    if not zero_or_max or not failed:
        return failed
    if allow_non_atomic and len(failed) < len(instances):
        return []
    return [i.id for i in instances]
