"""Marks on nodes: taint, cordon and whose they are, in one decision; and marks that nobody needs any more."""

from __future__ import annotations

from tidewright.events.base import Because, ObjectRef
from tidewright.events.provisioning import MarkNode
from tidewright.kube.taints import CORDONED, DRAIN, TO_BE_DELETED
from tidewright.provisioning.scaledown.removal.saga import Removal
from tidewright.provisioning.state import Node, State
from tidewright.provisioning.tell.sentences import because


def node_ref(name: str, uid: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Node", name=name, uid=uid)


def mark(at: float, name: str, removal: Removal, *, cordon: bool) -> MarkNode:
    """The mark of a removal: from now on nothing is scheduled there."""
    return MarkNode(
        at=at,
        target=node_ref(name, removal.uid),
        key=TO_BE_DELETED,
        present=True,
        value=str(int(removal.begun_at)),
        drain=removal.decision,
        cordon=cordon,
        because=(because("RemovalBegins", node=name, removal=removal.decision),),
    )


def unmark(at: float, name: str, uid: str, drain: str, why: Because) -> MarkNode:
    """What a removal has set comes off."""
    return MarkNode(
        at=at, target=node_ref(name, uid), key=TO_BE_DELETED, present=False, drain=drain, because=(why,)
    )


def left_over(state: State, name: str, now: float) -> MarkNode | None:
    """Takes a mark of ours off a node that is not being removed; None where there is none, or it is under way."""
    node = state.nodes.get(name)
    if node is None or node.doomed or node.leaving or name in state.unmarking:
        return None
    drain = drain_of(node)
    if drain is None or name in state.removals:
        return None
    return unmark(now, name, node.uid, drain, because("LeftOver", node=name, removal=drain))


def drain_of(node: Node) -> str | None:
    """The removal on whose behalf a node is marked, as it says itself."""
    said = node.annotations.get(DRAIN)
    return None if said is None else said.removesuffix(CORDONED)


def shows(node: Node, removal: Removal) -> bool:
    """Whether a node's own fact shows the mark of its removal."""
    tainted = any(taint.get("key") == TO_BE_DELETED for taint in node.taints)
    return tainted and drain_of(node) == removal.decision
