"""Outcomes: what came of orders and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidewright.events import outcomes as o
from tidewright.events.acting import NOT_DONE
from tidewright.events.base import Event
from tidewright.provisioning.fold.common import (
    not_ordered,
    shrink_open,
    wake,
)
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.index.indexing import doom, index_of
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import counts

NOT_ALLOWED = "NotAllowed"
"""Reason of a refusal by the actuator's own table: it stays until somebody changes what the actuator is told."""


def _outcome(state: State, event: o.Applied | o.Rejected | o.Failed | o.Superseded, touched: Touched) -> None:  # noqa: C901  # a case per kind of order
    order = state.orders.pop(event.decision, None)
    if order is None:
        return
    kind, name = order
    applied = isinstance(event, o.Applied) and event.reason not in NOT_DONE
    if isinstance(event, o.Rejected | o.Failed):
        where = "apiCallError" if kind in ("status", "collect", "report", "mark") else "cloudProviderError"
        counts.add(state.counts, "cluster_autoscaler_errors_total", type=where)
    if kind == "status":
        request = state.requests.get(name)
        if isinstance(event, o.Failed) and request is not None:
            request.rewrite = True
            wake(state, touched)
        return
    if kind in ("hold", "free"):
        barred = isinstance(event, o.Rejected) and event.reason == NOT_ALLOWED
        _placeholder_answered(state, kind, name, touched, applied=applied, barred=barred)
        return
    if kind == "mark":
        mark = state.marks.get(name)
        undone = isinstance(event, o.Failed) or event.reason in NOT_DONE
        if undone and mark is not None and mark.decision == event.decision:
            del state.marks[name]  # tried again, from what the node says
            if isinstance(event, o.Failed):
                wake(state, touched)
        return
    if kind == "report":
        if isinstance(event, o.Rejected | o.Failed):
            state.reported.digest = ""  # written again with the next evaluation
        return
    if kind == "collect":
        request = state.requests.get(name)
        if request is not None and not applied:
            request.deleting = False
        return
    if kind == "create":
        if not applied:
            _not_created(state, event, name, touched)
        return
    if kind == "increase":
        _increase_answered(state, event, name, touched, applied=applied)
    else:
        if kind == "decrease" and isinstance(event, o.Rejected | o.Failed):
            touched.not_decreased = name
        group = state.groups.get(name)
        if group is not None and kind == "delete" and not applied:  # nothing goes but what the cloud says
            group.deleting = {one: at for one, at in group.deleting.items() if one in group.going}
            doom(state, index_of(state), group)
        if group is not None and not _outstanding(state, name):
            group.answered_at = event.at
            told = event.result.get("size") if isinstance(event, o.Applied) and applied else None
            if not applied or told == group.target_size:
                group.wanted = None  # nothing has changed, so that the cloud will not be heard again
            elif isinstance(told, int):
                group.wanted = told
    wake(state, touched)


def _placeholder_answered(
    state: State, kind: str, name: str, touched: Touched, *, applied: bool, barred: bool
) -> None:
    held = state.held.get(name)
    if held is None:
        return
    if barred:
        # Asked again at once it would be refused again at once: it rests like one that its node refused.
        held.refused_at, held.leaving = state.now, False
        return
    if kind == "hold" and not applied:
        del state.held[name]
    elif kind == "free" and not applied:
        held.leaving = False  # tried again with the next evaluation
    elif kind == "free" and name not in state.pods:
        del state.held[name]
    else:
        return
    wake(state, touched)


def _not_created(
    state: State, event: o.Applied | o.Rejected | o.Failed | o.Superseded, name: str, touched: Touched
) -> None:
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
    event: o.Applied | o.Rejected | o.Failed | o.Superseded,
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
        shrink_open(state, step.group, step.size - step.from_size, plan)
    not_ordered(state, execution)
    request = state.requests.get(execution.request)
    if request is not None and execution.over:
        request.ordered = not execution.failed
        request.seen_late = execution.seen_late
        request.conflicts = request.conflicts + 1 if execution.seen_late else 0
    touched.plans = (plan,)


def _outstanding(state: State, group: str) -> bool:
    """Whether a later order for the group has no answer yet: then that one is what is wanted."""
    return any(
        kind in ("decrease", "delete") and name == group for kind, name in state.orders.values()
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
