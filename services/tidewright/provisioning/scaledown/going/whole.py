"""Zero-or-max groups go as a whole or not at all; nodes wait for pods that have to complete. Spec 4.2, 4.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaledown.scene import GroupTraits

ATOMIC_FAILED = "AtomicScaleDownFailed"
WAITS_FOR_POD = "BlockedByOnCompletionPod"


class Leaver(msgspec.Struct, frozen=True, kw_only=True):
    """An unneeded node whose time has come.

    Attributes:
        drains: it has pods to be moved.
        waits: a pod has to complete on it first.
    """

    name: str
    group: NodeGroupId
    drains: bool = False
    waits: bool = False
    risky: bool = False


def in_order(leavers: Iterable[Leaver]) -> list[Leaver]:
    """Empty nodes, then those with pods, the risky ones last; else as they come."""
    return sorted(leavers, key=lambda leaver: (leaver.drains, leaver.drains and leaver.risky))


def chosen(
    leavers: Sequence[Leaver], groups: Mapping[NodeGroupId, GroupTraits], *, as_reference: bool
) -> tuple[list[Leaver], dict[str, str]]:
    """Of these those that may go, ordinary groups' first; and why the others may not.

    [B17] As the reference has it a waiting node is taken out after the group was found whole; ours keeps the group.
    """
    refused: dict[str, str] = {}
    ordinary: list[Leaver] = []
    whole: dict[NodeGroupId, list[Leaver]] = {}
    for leaver in leavers:
        group = groups.get(leaver.group)
        if group is not None and group.zero_or_max:
            whole.setdefault(leaver.group, []).append(leaver)
        else:
            ordinary.append(leaver)
    kept = ordinary
    for name in sorted(whole):
        members, group = whole[name], groups[name]
        going = members if as_reference else [leaver for leaver in members if not leaver.waits]
        if len(going) in (group.target, group.registered):
            kept = kept + members
            continue
        for leaver in members:
            refused[leaver.name] = WAITS_FOR_POD if leaver.waits and not as_reference else ATOMIC_FAILED
    refused.update({leaver.name: WAITS_FOR_POD for leaver in kept if leaver.waits})
    return [leaver for leaver in kept if not leaver.waits], refused
