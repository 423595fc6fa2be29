"""How many nodes go at a time: `max-scale-down-parallelism`, and of those with pods `max-drain-parallelism`. Spec 4.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.scaledown.going.whole import Leaver
from tidewright.provisioning.scaledown.scene import GroupTraits


class Parallelism:
    """What deletions in progress have left, and what of it is taken.

    Attributes:
        overflow: one zero-or-max group of a pass may exceed it, while nothing was taken yet.
    """

    def __init__(self, nodes: int, drains: int) -> None:
        self.nodes = nodes
        self.drains = drains
        self.overflow = True

    def admits(self, nodes: int, drains: int) -> bool:
        """Whether a group of so many nodes, so many of them with pods, may go as a whole now."""
        if nodes <= self.nodes and drains <= self.drains:
            return True
        some_left = self.nodes > 0 and not (drains > 0 and self.drains <= 0)
        return some_left and self.overflow

    def take(self, nodes: int, drains: int) -> None:
        self.nodes -= nodes
        self.drains -= drains
        self.overflow = False


def cropped(
    leavers: Sequence[Leaver],
    groups: Mapping[NodeGroupId, GroupTraits],
    room: Parallelism,
    *,
    as_reference: bool,
) -> list[Leaver]:
    """Those that go now: zero-or-max groups first, empty ones before others, then ordinary empty nodes, then drained ones.

    [B18] As the reference has it the first group that does not fit ends the search; ours looks at those behind it.
    """
    members: dict[NodeGroupId, list[Leaver]] = {}
    for leaver in leavers:
        members.setdefault(leaver.group, []).append(leaver)
    atomic = {name for name in members if name in groups and groups[name].zero_or_max}
    going: list[Leaver] = []
    with_empty = [name for name in _first_seen(leavers, drains=False) if name in atomic]
    drained_only = [n for n in _first_seen(leavers, drains=True) if n in atomic and n not in with_empty]
    for names in (with_empty, drained_only):
        for name in names:
            pods = sum(leaver.drains for leaver in members[name])
            if not room.admits(len(members[name]), pods):
                if as_reference:
                    break
                continue
            if len(members[name]) in (groups[name].target, groups[name].registered):
                going += members[name]
                room.take(len(members[name]), pods)
    plain = [leaver for leaver in leavers if leaver.group not in atomic]
    for drains in (False, True):
        most = max(0, min(room.nodes, room.drains) if drains else room.nodes)
        ordered = [
            leaver
            for name in _first_seen(plain, drains=drains)
            for leaver in members[name]
            if leaver.drains is drains
        ][:most]
        going += ordered
        room.nodes -= len(ordered)
        room.drains -= len(ordered) if drains else 0
    return going


def _first_seen(leavers: Sequence[Leaver], *, drains: bool) -> list[NodeGroupId]:
    """Groups with such nodes, in the order in which their first ones stand."""
    return list(dict.fromkeys(leaver.group for leaver in leavers if leaver.drains is drains))
