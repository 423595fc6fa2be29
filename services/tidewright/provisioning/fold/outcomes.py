"""Outcomes: what came of orders and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tidewright.events import outcomes as o
from tidewright.events.acting import NOT_DONE
from tidewright.events.base import Event
from tidewright.events.provisioning import ANSWER_LOST
from tidewright.provisioning.fold import buffers, removals, workloads
from tidewright.provisioning.fold.common import (
    not_ordered,
    shrink_open,
    wake,
)
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import doom, index_of
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.state import GroupState, Request, Rest, State
from tidewright.provisioning.tell import counts
from tidewright.provisioning.unanswered import (
    BufferStatusOrder,
    CollectOrder,
    CreateOrder,
    DecreaseOrder,
    DeleteOrder,
    EvictOrder,
    FreeOrder,
    HoldOrder,
    IncreaseOrder,
    MarkOrder,
    Order,
    ReportOrder,
    ResolveOrder,
    SoftOrder,
    StatusOrder,
    TaintOrder,
    TemplateOrder,
    UnmarkOrder,
)

_OF_THE_API = (
    StatusOrder | CollectOrder | ReportOrder | MarkOrder | BufferStatusOrder | ResolveOrder | TemplateOrder
)
REFUSED_S, REFUSED_MOST_S = 10.0, 600.0
"""How long instances that came to nothing are left alone after their deletion was refused: twice as long each time."""
NOT_ALLOWED = "NotAllowed"
"""Reason of a refusal by the actuator's own table: it stays until somebody changes what the actuator is told."""


_Outcome: TypeAlias = o.Applied | o.Rejected | o.Failed | o.Superseded


def _outcome(state: State, event: _Outcome, touched: Touched) -> None:
    order = state.orders.pop(event.decision, None)
    if order is None:
        workloads.answered(state, event, touched)
    else:
        _answered(state, event, order, touched)


def _answered(state: State, event: _Outcome, order: Order, touched: Touched) -> None:
    applied = isinstance(event, o.Applied) and event.reason not in NOT_DONE
    if isinstance(event, o.Rejected | o.Failed):
        of_the_api = isinstance(order, _OF_THE_API)
        where = "apiCallError" if of_the_api else "cloudProviderError"
        counts.add(state.counts, "cluster_autoscaler_errors_total", type=where)
    if buffers.answered(state, event, order, touched):
        return
    match order:
        case StatusOrder(key) | CollectOrder(key):
            request = state.requests.get(key)
            if request is not None:
                _request_answered(state, event, order, request, touched, applied=applied)
        case HoldOrder() | FreeOrder():
            barred = isinstance(event, o.Rejected) and event.reason == NOT_ALLOWED
            _placeholder_answered(state, order, touched, applied=applied, barred=barred)
        case MarkOrder(node):
            _mark_answered(state, event, node, touched)
        case ReportOrder():
            if isinstance(event, o.Rejected | o.Failed):
                state.reported.digest = ""  # written again with the next evaluation
        case CreateOrder(group):
            if not applied:
                _not_created(state, event, group, touched)
        case IncreaseOrder(plan):
            _increase_answered(state, event, plan, touched, applied=applied)
            wake(state, touched)
        case TaintOrder() | UnmarkOrder() | EvictOrder() | SoftOrder():
            removals.answered(state, event, order, touched, applied=applied)
        case DecreaseOrder() | DeleteOrder():
            if isinstance(order, DeleteOrder):
                _deletion_answered(state, event, order, touched, applied=applied)
            _fewer_answered(state, event, order, touched, applied=applied)
            wake(state, touched)


def _request_answered(
    state: State,
    event: _Outcome,
    order: StatusOrder | CollectOrder,
    request: Request,
    touched: Touched,
    *,
    applied: bool,
) -> None:
    if isinstance(order, CollectOrder):
        if not applied:
            request.deleting = False
    elif isinstance(event, o.Failed):
        request.rewrite = True
        wake(state, touched)


def _placeholder_answered(
    state: State, order: HoldOrder | FreeOrder, touched: Touched, *, applied: bool, barred: bool
) -> None:
    held = state.held.get(order.pod)
    if held is None:
        return
    if barred:
        # Asked again at once it would be refused again at once: it rests like one that its node refused.
        held.refused_at, held.leaving = state.now, False
        return
    if isinstance(order, HoldOrder):
        if applied:
            return
        del state.held[order.pod]
    elif not applied:
        held.leaving = False  # tried again with the next evaluation
    elif order.pod not in state.pods:
        del state.held[order.pod]
    else:
        return
    wake(state, touched)


def _mark_answered(state: State, event: _Outcome, node: str, touched: Touched) -> None:
    mark = state.marks.get(node)
    undone = isinstance(event, o.Failed) or event.reason in NOT_DONE
    if undone and mark is not None and mark.decision == event.decision:
        del state.marks[node]  # tried again, from what the node says
        if isinstance(event, o.Failed):
            wake(state, touched)


def _deletion_answered(
    state: State, event: _Outcome, order: DeleteOrder, touched: Touched, *, applied: bool
) -> None:
    """Instances were to be deleted: of nodes that were drained for it, or such that came to nothing."""
    group = state.groups.get(order.group)
    removals.deletion_answered(state, event, order, touched, applied=applied)
    if applied and order.unborn:
        counts.add(state.counts, "cluster_autoscaler_old_unregistered_nodes_removed_count", order.unborn)
    if applied and order.idle:
        removals.count(state, "", order.idle)
    if group is None or order.of_removals:
        return
    group.refused_s = 0.0 if applied else min(max(2 * group.refused_s, REFUSED_S), REFUSED_MOST_S)
    group.refused_until = state.now + group.refused_s if group.refused_s else 0.0


def _fewer_answered(
    state: State, event: _Outcome, order: DecreaseOrder | DeleteOrder, touched: Touched, *, applied: bool
) -> None:
    """A group was to be smaller."""
    if isinstance(order, DecreaseOrder) and isinstance(event, o.Rejected | o.Failed):
        touched.not_decreased = order.group
    group = state.groups.get(order.group)
    if group is None:
        return
    _rest(group, event)
    if isinstance(order, DeleteOrder) and not applied:  # nothing goes but what the cloud says
        group.deleting = {instance: at for instance, at in group.deleting.items() if instance in group.going}
        doom(state, index_of(state), group)
    if not _outstanding(state, order.group):
        expected, group.answered_at = group.target, event.at
        size = event.result.get("size") if isinstance(event, o.Applied) and applied else None
        if not applied or size == group.target_size:
            group.wanted = None  # nothing has changed, so that the cloud will not be heard again
        elif isinstance(size, int):
            group.wanted = size
        touched.kept = group.target > expected


def _rest(group: GroupState, event: _Outcome) -> None:
    if isinstance(event, o.Failed) and event.reason == ANSWER_LOST:
        group.rest = Rest(since=event.at)


def _not_created(state: State, event: _Outcome, name: NodeGroupId, touched: Touched) -> None:
    """A group that the cloud did not make: it never was, and nothing that was to be ordered of it is."""
    group = state.groups.get(name)
    if group is None or group.observed_at:
        return
    plans = []
    for plan, execution in state.executions.items():
        for step in execution.steps:
            if step.group == name and step.status in (saga.WAITING, saga.ORDERED):
                step.decision = event.decision
                saga.answered(execution, name, applied=False, error=event.message, reason=event.reason)
                shrink_open(state, name, step.size - step.from_size, plan)
                not_ordered(state, execution)
                plans.append(plan)
    del state.groups[name]
    touched.plans = tuple(plans)
    wake(state, touched)


def _increase_answered(
    state: State,
    event: _Outcome,
    plan: str,
    touched: Touched,
    *,
    applied: bool,
) -> None:
    execution = state.executions.get(plan)
    if execution is None:
        return
    step = next((s for s in execution.steps if s.decision == event.decision), None)
    if step is None or step.status != saga.ORDERED:
        return
    # Superseded: a later order of ours, larger than this one, holds this one too.
    good = applied or isinstance(event, o.Superseded)
    saga.answered(execution, step.group, applied=good, error=event.message, reason=event.reason)
    group = state.groups.get(step.group)
    if group is not None:
        group.answered_at = event.at
    if good:
        learnt = state.learnt.get(step.group)
        if learnt is not None and step.size > learnt.nodes:
            del state.learnt[step.group]  # the cloud lets it grow again
        added = step.size - step.from_size
        counts.add(state.counts, "cluster_autoscaler_scaled_up_nodes_total", added)
    else:
        if group is not None:
            group.wanted = None
            _rest(group, event)
        shrink_open(state, step.group, step.size - step.from_size, plan)
    not_ordered(state, execution)
    request = state.requests.get(execution.request)
    if request is not None and execution.over:
        request.ordered = not execution.failed
        request.seen_late = execution.seen_late
        request.conflicts = request.conflicts + 1 if execution.seen_late else 0
    touched.plans = (plan,)


def _outstanding(state: State, group: NodeGroupId) -> bool:
    """Whether a later order for the group has no answer yet: then that one is what is wanted."""
    return any(
        isinstance(order, DecreaseOrder | DeleteOrder) and order.group == group
        for order in state.orders.values()
    ) or any(
        step.group == group and step.status in (saga.WAITING, saga.ORDERED)
        for execution in state.executions.values()
        for step in execution.steps
    )


OUTCOMES: dict[type[Event], Callable[[State, Any, Touched], None]] = {
    o.Applied: _outcome,
    o.Rejected: _outcome,
    o.Failed: _outcome,
    o.Superseded: _outcome,
}
