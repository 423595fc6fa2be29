"""The soft taint of nodes that are not needed and wait: pods go elsewhere where they can. Addendum 3.4.

A node says itself whether it has the taint, and by its mark whether that is ours; `State.softening` only bridges the
time until the write has an outcome.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewright.events.provisioning import MarkNode
from tidewright.kube.taints import DELETION_CANDIDATE, TO_BE_DELETED, UNNEEDED
from tidewright.provisioning.scaledown.removal.marking import node_ref
from tidewright.provisioning.state import Node, State
from tidewright.provisioning.tell.sentences import because


class Soft(msgspec.Struct, frozen=True):
    """What one pass changes of soft taints; `more`: it left some for the next."""

    marks: tuple[MarkNode, ...] = ()
    more: bool = False


def soft_marks(state: State, unneeded: Mapping[str, float], most: int, now: float) -> Soft:
    """Nodes lose the taint, and then others get it: at most so many together.

    Args:
        state: with the nodes as they were seen.
        unneeded: nodes that wait, to the log time since when.
        most: 0 for none: then those that have it lose it, one pass after the other.
        now: log time.
    """
    bound = most or _CLEARING
    lose = [
        name
        for name, node in state.nodes.items()
        if UNNEEDED in node.annotations and _free(state, name, node) and (name not in unneeded or not most)
    ]
    get = [
        name for name in unneeded if most and name in state.nodes and _takes(state, name, state.nodes[name])
    ]
    chosen = [(name, False) for name in sorted(lose)] + [(name, True) for name in sorted(get)]
    marks = tuple(
        _mark(state, name, unneeded.get(name, now), now, present=present) for name, present in chosen[:bound]
    )
    return Soft(marks, len(chosen) > bound)


_CLEARING = 10


def _free(state: State, name: str, node: Node) -> bool:
    """Whether nothing is under way with a node: neither such a mark, nor its removal."""
    going = node.doomed or node.leaving or name in state.removals
    return not going and name not in state.softening and not _has(node, TO_BE_DELETED)


def _takes(state: State, name: str, node: Node) -> bool:
    """Whether a node is to get the taint: none of that key is there, an incumbent's neither."""
    return bool(node.uid) and _free(state, name, node) and not _has(node, DELETION_CANDIDATE)


def _has(node: Node, key: str) -> bool:
    return any(taint.get("key") == key for taint in node.taints)


def _mark(state: State, name: str, since: float, now: float, *, present: bool) -> MarkNode:
    uid = state.nodes[name].uid
    rule = because("SoftTainted" if present else "SoftUntainted", node=name)
    if not present:
        return MarkNode(
            at=now, target=node_ref(name, uid), key=DELETION_CANDIDATE, present=False, because=(rule,)
        )
    value = str(int(since))
    return MarkNode(
        at=now,
        target=node_ref(name, uid),
        key=DELETION_CANDIDATE,
        present=True,
        value=value,
        drain=value,
        because=(rule,),
    )
