"""Nodes that are not there yet, as an evaluation has them among those that are: how they are named, and whose they are.

    upcoming/GROUP/NUMBER                          ordered before, and on their way
    planned/ROUND/GROUP/NODES/LAYOUT/NUMBER        ordered by this evaluation; NODES were there before them

A group's id may have slashes; the name of a node that is there has none.
"""

from __future__ import annotations

from typing import NamedTuple

from tidewright.provisioning.group_ids import NodeGroupId

_UPCOMING, _PLANNED = "upcoming", "planned"


class Coming(NamedTuple):
    """A node that is not there yet.

    Attributes:
        planned: this evaluation orders it.
    """

    group: NodeGroupId
    planned: bool


def upcoming(group: NodeGroupId, count: int) -> list[str]:
    """Names for nodes that a group has on their way."""
    return [f"{_UPCOMING}/{group}/{number}" for number in range(count)]


def planned(group: NodeGroupId, count: int, *, in_round: int, nodes: int, layout: int) -> list[str]:
    """Names for the nodes that a plan orders of a group, to hold one layout of pods."""
    return [f"{_PLANNED}/{in_round}/{group}/{nodes}/{layout}/{number}" for number in range(count)]


def coming(node: str) -> Coming | None:
    """What a node's name says; None for one that is there."""
    kind, _, rest = node.partition("/")
    if kind == _UPCOMING:
        return Coming(NodeGroupId(rest.rpartition("/")[0]), planned=False)
    if kind == _PLANNED:
        return Coming(NodeGroupId(rest.partition("/")[2].rsplit("/", 3)[0]), planned=True)
    return None
