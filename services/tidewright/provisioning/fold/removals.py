"""Nodes that go: what was decided about them, what came of it, and what of it was seen."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.events.decisions import EvictPod
from tidewright.kube.keys import PodKey, pod_key
from tidewright.kube.taints import TO_BE_DELETED
from tidewright.provisioning.fold import consolidating
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown.removal.marking import drain_of, shows
from tidewright.provisioning.scaledown.removal.saga import AGAIN_S, Leaving, Removal, Stuck
from tidewright.provisioning.state import Lately, Node, State
from tidewright.provisioning.tell import counts
from tidewright.provisioning.unanswered import DeleteOrder, EvictOrder, SoftOrder, TaintOrder, UnmarkOrder

NOT_YET = frozenset({"NodeNotEmpty", "Conflict"})
"""Reasons for which a deletion was refused because what was known was behind: it is decided anew a little later."""
NOT_YET_S = 5.0
LATENCY = "cluster_autoscaler_node_removal_latency_seconds"


def _remove(state: State, event: p.RemoveNode, _touched: Touched) -> None:
    if event.node not in state.nodes:
        return
    _lately(state, NodeGroupId(event.group)).delete = event.at
    found = state.unneeded.pop(event.node, None)
    state.removals[event.node] = Removal(
        decision=event.id,
        uid=event.uid,
        provider_id=event.provider_id,
        group=NodeGroupId(event.group),
        begun_at=event.at,
        drains=event.kind == "drain",
        whole=event.whole,
        daemons={pod_key(pod.namespace, pod.name): pod.uid for pod in event.daemons},
        emptied_at=None if event.node in index_of(state).busy else event.at,
        rule=event.rule,
        places=dict(found.moves) if found is not None else {},
        due=found.due if found is not None else None,
        delayed=found.delayed if found is not None else "",
    )
    consolidating.removal_begun(state, event.node, event.at)


def _undo(state: State, event: p.UndoRemoval, _touched: Touched) -> None:
    removal = state.removals.get(event.node)
    if removal is not None and removal.decision == event.removal:
        del state.removals[event.node]
        late(state, removal.due, removal.delayed, deleted=False)
        if event.failed and event.pod:
            counts.add(state.counts, "cluster_autoscaler_evicted_pods_total", eviction_result="failed")
        if event.failed:
            _lately(state, removal.group).failure = event.at


def _lately(state: State, group: NodeGroupId) -> Lately:
    """What is kept of a group, or of all that are gone together."""
    if group in state.groups:
        return state.lately.setdefault(group, Lately())
    if state.lately_of_gone is None:
        state.lately_of_gone = Lately()
    return state.lately_of_gone


def forget_group(state: State, group: NodeGroupId) -> None:
    """A group is gone. Delays that count for all groups go on when one of them is gone; nothing else does."""
    last = state.lately.pop(group, None)
    if last is None or (last.delete is None and last.failure is None):
        return
    kept = _lately(state, group)
    kept.delete = max((at for at in (kept.delete, last.delete) if at is not None), default=None)
    kept.failure = max((at for at in (kept.failure, last.failure) if at is not None), default=None)


def _mark(state: State, event: p.MarkNode, _touched: Touched) -> None:
    name = event.target.name
    if event.key != TO_BE_DELETED:
        state.softening[name] = event.id
        state.orders[event.id] = SoftOrder(name)
        return
    if not event.present:
        state.unmarking[name] = event.id
        state.orders[event.id] = UnmarkOrder(name)
        return
    removal = state.removals.get(name)
    if removal is not None and removal.decision == event.drain:
        removal.mark = event.id
        state.orders[event.id] = TaintOrder(name)


def _evict(state: State, event: EvictPod, _touched: Touched) -> None:
    removal = state.removals.get(event.node)
    if removal is None:
        return
    key = pod_key(event.target.namespace, event.target.name)
    pod, before = state.pods.get(key), removal.pods.get(key)
    asked_at = event.at if before is None or before.uid != event.target.uid else before.asked_at
    removal.pods[key] = Leaving(
        uid=event.target.uid,
        shape=pod.shape if pod is not None else "",
        asked_at=asked_at,
        order=event.id,
    )
    state.orders[event.id] = EvictOrder(event.node, key)
    if pod is not None and before is None:
        consolidating.evicted(state, key, pod, event.at)


DECISIONS: dict[type[Event], Callable[[State, Any, Touched], None]] = {
    p.RemoveNode: _remove,
    p.UndoRemoval: _undo,
    p.MarkNode: _mark,
    EvictPod: _evict,
}


def deletion_decided(state: State, event: p.DeleteInstances) -> None:
    """From here on nothing takes the removals of these nodes back."""
    for node in event.nodes:
        removal = state.removals.get(node)
        if removal is not None:
            removal.deletion = event.id


def reason_of(state: State, node: str) -> str:
    """Why a node goes, as the reference counts it."""
    removal, known = state.removals.get(node), state.nodes.get(node)
    if removal is None:
        return "empty"
    if known is not None and not known.ready:
        return "unready"
    return "underutilized" if removal.drains else "empty"


def count(state: State, node: str, nodes: int = 1) -> None:
    """More nodes are removed, for the reason of this one; none of several that were idle."""
    counts.add(
        state.counts, "cluster_autoscaler_scaled_down_nodes_total", nodes, reason=reason_of(state, node)
    )


def late(state: State, due: float | None, delayed: str, *, deleted: bool) -> None:
    """How long after its time was over a node went, or was needed again, and what kept it last; where that was asked for."""
    if due is not None and state.now >= due:
        counts.observe(
            state.histograms,
            LATENCY,
            state.now - due,
            deleted="true" if deleted else "false",
            delay_reason=delayed or "none",
        )


_Outcome = o.Applied | o.Rejected | o.Failed | o.Superseded


def deletion_answered(
    state: State, event: _Outcome, order: DeleteOrder, touched: Touched, *, applied: bool
) -> None:
    """What came of deleting instances: their nodes' removals are over, or have failed, or are looked at again.

    So are those of their group that wait for this answer, also where another node of the name has come meanwhile.
    """
    of_it = [(name, r) for name, r in state.removals.items() if r.deletion == event.decision]
    if order.of_removals:
        _call_answered(state, order.group, event, applied=applied)
        touched.removals += [
            name
            for name, r in state.removals.items()
            if r.group == order.group and not r.deletion and r.held_at is not None
        ]
    wrong = _refused(event, {name for name, removal in of_it if not removal.whole})
    for name, removal in of_it:
        touched.removals.append(name)
        if applied:
            touched.deleted.append((name, removal.uid, removal.drains))
            count(state, name)
            late(state, removal.due, removal.delayed, deleted=True)
            del state.removals[name]
            continue
        removal.deletion = ""
        if wrong and name not in wrong:
            continue  # nothing keeps it: it goes with the others in the next call
        alone = len(of_it) == 1 or bool(removal.whole)
        if _not_yet(event) or (
            isinstance(event, o.Rejected) and not alone
        ):  # by itself it may well be deleted
            removal.again_at = state.now + NOT_YET_S
        else:
            removal.failed = _why(event)


def _refused(event: _Outcome, nodes: Container[str]) -> set[str]:
    """Of several nodes of a call those that were not as they have to be, where the outcome names them."""
    named = event.result.get("nodes") if isinstance(event, o.Rejected) and event.reason in NOT_YET else None
    return {name for name in named if name in nodes} if isinstance(named, list) else set()


def _call_answered(state: State, group: NodeGroupId, event: _Outcome, *, applied: bool) -> None:
    """A group's cloud was asked to delete nodes, and did or refused; not where the actuator's last look kept it from asking."""
    lately = _lately(state, group)
    if applied:
        lately.deleted = event.at
    elif isinstance(event, o.Rejected | o.Failed) and event.reason not in NOT_YET:
        lately.refused = event.at


def _not_yet(event: _Outcome) -> bool:
    """Whether a deletion may still be made, or may have been: its node stays marked until that is known."""
    if isinstance(event, o.Failed):
        return event.reason == p.ANSWER_LOST
    return isinstance(event, o.Rejected) and event.reason in NOT_YET


def answered(
    state: State,
    event: _Outcome,
    order: TaintOrder | UnmarkOrder | EvictOrder | SoftOrder,
    touched: Touched,
    *,
    applied: bool,
) -> None:
    """What came of a mark, or of an eviction."""
    if isinstance(order, SoftOrder):  # one that failed is decided anew by the next pass
        if state.softening.get(order.node) == event.decision:
            del state.softening[order.node]
        touched.unsoftened = order.node not in index_of(state).soft
        return
    touched.removals.append(order.node)
    if isinstance(order, UnmarkOrder):
        if state.unmarking.get(order.node) == event.decision:
            del state.unmarking[order.node]
        _unmark_answered(state, event, order.node)
        return
    removal = state.removals.get(order.node)
    if removal is None:
        return
    if isinstance(order, TaintOrder):
        if removal.mark == event.decision:
            _mark_answered(state, event, order.node, removal, touched, applied=applied)
        return
    leaving = removal.pods.get(order.pod)
    if leaving is None or leaving.order != event.decision:
        return
    leaving.order = ""
    daemon = order.pod in removal.daemons
    if applied:
        leaving.evicted_at = event.at
        touched.evicted.append((order.pod, leaving.uid))
        if not daemon:
            counts.add(state.counts, "cluster_autoscaler_evicted_pods_total", eviction_result="succeeded")
    else:
        leaving.refused, leaving.refused_at = event.reason or "Refused", state.now
        leaving.replaced = False


def _unmark_answered(state: State, event: _Outcome, node: str) -> None:
    """Asked for again a while later as long as the node's own fact shows the mark, even if it is said to be off."""
    known = state.nodes.get(node)
    if known is None or drain_of(known) is None:
        _unmarked(state, node)
        return
    wait_s = AGAIN_S
    if isinstance(event, o.Rejected):  # no outage, which ends by itself
        before = state.stuck.get(node)
        stuck = state.stuck[node] = Stuck(
            (before.times if before is not None else 0) + 1, _why(event), state.now
        )
        wait_s = stuck.wait_s
    state.left[node] = state.now + wait_s


def _unmarked(state: State, node: str) -> None:
    """Nothing of ours is left on it."""
    state.left.pop(node, None)
    state.stuck.pop(node, None)


def _mark_answered(
    state: State, event: _Outcome, node: str, removal: Removal, touched: Touched, *, applied: bool
) -> None:
    if applied:
        removal.marked_at = event.at
        touched.marked.append(node)
        known = state.nodes.get(node)
        if known is not None:
            seen(state, node, known, touched)
    else:
        removal.failed = _why(event)


def _why(event: _Outcome) -> str:
    return event.message or event.reason or type(event).__name__


def seen(state: State, name: str, node: Node, touched: Touched) -> None:
    """A node's own fact: whether it shows our mark."""
    removal = state.removals.get(name)
    if removal is not None and removal.uid != node.uid:
        del state.removals[name]  # another node of the name
        removal = None
    if removal is not None:
        touched.removals.append(name)
        if not shows(node, removal):
            removal.unmarked = removal.seen_at is not None
        elif removal.seen_at is None:
            removal.seen_at = state.now
    elif drain_of(node) is not None:
        touched.removals.append(name)
    else:
        _unmarked(state, name)


def gone(state: State, name: str) -> None:
    """A node is no longer there: it is marked no more, and needs no removing."""
    removal = state.removals.get(name)
    if removal is not None and not removal.deletion:
        del state.removals[name]
    _unmarked(state, name)
    state.softening.pop(name, None)
    state.unmarking.pop(name, None)


def pod_changed(state: State, node: str, touched: Touched) -> None:
    """A pod came to a node, changed there, or left it."""
    removal = state.removals.get(node)
    if removal is None:
        return
    touched.removals.append(node)
    if node in index_of(state).busy:
        removal.emptied_at = None
    elif removal.emptied_at is None:
        removal.emptied_at = state.now


def pod_came(state: State, shape: str) -> None:
    """A pod is new: the first that was evicted of its shape is on its way no more."""
    for removal in state.removals.values():
        for leaving in removal.pods.values():
            asked = bool(leaving.order) or leaving.evicted_at is not None
            if leaving.shape == shape and asked and not leaving.replaced:
                leaving.replaced = True
                return


def budget_changed(state: State, namespace: str, touched: Touched) -> None:
    """A budget may have more room: nodes are looked at on which a pod of its namespace waits for its turn."""
    prefix = f"{namespace}/"
    on_node = index_of(state).on_node
    for name, removal in state.removals.items():
        if removal.held_at is not None and any(
            key.startswith(prefix) and _waits(state, removal, key) for key in on_node.get(name, ())
        ):
            touched.removals.append(name)


def _waits(state: State, removal: Removal, key: PodKey) -> bool:
    """Whether a pod was not asked to leave yet, or in vain."""
    leaving = removal.pods.get(key)
    asked = leaving is not None and (bool(leaving.order) or leaving.evicted_at is not None)
    return not asked and not state.pods[key].daemon


def group_changed(state: State, group: NodeGroupId, touched: Touched) -> None:
    """A group is of another size, or gone."""
    touched.removals += [name for name, removal in state.removals.items() if removal.group == group]


def forget(state: State) -> None:
    """Drop what was under way when the service was held back: marks that are left over come off."""
    state.removals.clear()
    state.unmarking.clear()
    state.softening.clear()
    state.left.clear()
    state.stuck.clear()
    consolidating.forget(state)


def leftovers(state: State) -> list[str]:
    """Nodes that say that we mark them."""
    return [name for name, node in state.nodes.items() if drain_of(node) is not None]
