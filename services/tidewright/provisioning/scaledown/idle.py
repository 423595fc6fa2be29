"""Empty nodes that nobody needs any more.

The part of scale-down (spec 4) that requests rely on: what a cancelled or expired request leaves
behind goes once it has been empty for long enough. Nodes with pods are left alone here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.provisioning.group_ids import NodeGroupId

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class GroupNode(msgspec.Struct, frozen=True, kw_only=True):
    """A registered node of a group.

    Attributes:
        busy: it carries a pod other than DaemonSet and mirror pods, or room is booked on it.
    """

    name: str
    group: NodeGroupId
    busy: bool
    annotations: dict[str, str] = {}


class GroupSize(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes that bound removal; `target` counts what is not there yet."""

    min: int
    target: int
    zero_or_max: bool = False


def changes(nodes: Iterable[GroupNode], since: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Nodes that have become idle, and nodes that are no longer so (or are gone)."""
    idle = {node.name for node in nodes if not node.busy}
    return sorted(idle - set(since)), sorted(set(since) - idle)


def removable(
    nodes: Sequence[GroupNode],
    groups: Mapping[NodeGroupId, GroupSize],
    since: Mapping[str, float],
    now: float,
    *,
    unneeded_s: float,
    last_scale_up: float | None,
    delay_after_add_s: float,
) -> dict[NodeGroupId, list[str]]:
    """Group to the idle nodes that go now, by name. Strictly longer idle than the unneeded time.

    No group falls below its minimum; a zero-or-max group goes as a whole or not at all.
    """
    if last_scale_up is not None and last_scale_up + delay_after_add_s > now:
        return {}
    long_idle: dict[NodeGroupId, list[str]] = {}
    members: dict[NodeGroupId, int] = {}
    for node in sorted(nodes, key=lambda n: n.name):
        group = groups.get(node.group)
        if group is None:
            continue
        members[node.group] = members.get(node.group, 0) + 1
        if node.busy or node.annotations.get(SCALE_DOWN_DISABLED) == "true":
            continue
        began = since.get(node.name)
        if began is None or began + unneeded_s >= now:
            continue
        long_idle.setdefault(node.group, []).append(node.name)
    result: dict[NodeGroupId, list[str]] = {}
    for name in sorted(long_idle):
        group, ready = groups[name], long_idle[name]
        if group.zero_or_max:
            if len(ready) == members[name] == group.target and group.min == 0:
                result[name] = ready
            continue
        spare = max(0, group.target - group.min)
        if ready[:spare]:
            result[name] = ready[:spare]
    return result
