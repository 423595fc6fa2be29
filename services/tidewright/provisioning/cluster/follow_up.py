"""What follows at once from an answer or a cancellation, without an evaluation of the cluster.

An order was answered: the next order of the plan goes out, a group that refused backs off, and when
the plan is over its request is told, or what was ordered is taken back. A request was deleted: what
only it asked for is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.events.base import Because, Decision
from tidewright.events.decisions import RecordObjectEvent
from tidewright.events.provisioning import ANSWER_LOST, BookCapacity, DecreaseNodeGroup, ReleaseCapacity
from tidewright.kube.keys import RequestKey, parts
from tidewright.kube.times import rfc3339
from tidewright.provisioning.cluster.cluster_state import OTHER, OUT_OF_RESOURCES, revert_failed_message
from tidewright.provisioning.cluster.upkeep import back_off
from tidewright.provisioning.cluster.view import View, look
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.spec import is_check_alias, parameters_of, topology_details
from tidewright.provisioning.requests.work import status_of, without_queue
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.scaleup.orders import (
    COMPONENT,
    MAX_MESSAGE,
    increases,
    pod_event,
    request_ref,
    status_event,
    taken_back,
)
from tidewright.provisioning.state import Request, State
from tidewright.provisioning.tell.sentences import because

__all__ = ["answered", "cancelled", "not_taken_back", "pod_event", "respecified"]


def answered(state: State, index: Index, plans: Sequence[str], decision: str) -> list[Decision]:
    """Follow up plans; `decision` is the order that was answered, empty when a group is gone."""
    decisions: list[Decision] = []
    view: View | None = None
    for plan in plans:
        execution = state.executions.get(plan)
        if execution is None:
            continue
        for step in execution.steps:
            if step.status == saga.FAILED and (step.decision == decision or not decision):
                decisions += _refused(state, index, step)
        if saga.due(execution):
            view = view or look(state, index, state.now)
            groups = {name: group.group for name, group in view.groups.items()}
            decisions += increases(execution, state.now, groups, index.settings.dry_run)
        if execution.over:
            decisions += _over(state, index, execution)
    return decisions


def not_taken_back(state: State, group: NodeGroupId, error: str) -> Decision:
    """Tell of a group whose order could not be taken back; the cloud says what it comes to. Spec 3.9."""
    message = revert_failed_message(group, error)
    return status_event(state.now, "FailedToRevertScaleUp", message, "Warning")


def _refused(state: State, index: Index, step: saga.Step) -> list[Decision]:
    """A group that refused an order backs off; a conflict says nothing against it, a lost answer has it rest."""
    if step.reason in saga.BLAMELESS or step.reason == ANSWER_LOST:
        return []
    exhausted = step.reason in ("OutOfCapacity", "QuotaExceeded")
    return [
        status_event(
            state.now,
            "FailedToScaleUpGroup",
            f"Scale-up failed for group {step.group}: {step.error or step.reason}",
            "Warning",
        ),
        back_off(
            state,
            index.settings,
            step.group,
            state.now,
            error_class=OUT_OF_RESOURCES if exhausted else OTHER,
            code=step.reason or "cloudProviderError",
            message=step.error,
            failed=step.size - step.from_size,
        ),
    ]


def _over(state: State, index: Index, execution: saga.Execution) -> list[Decision]:
    """A plan is carried out, or has failed: tell its request, take back what an all-or-nothing one left."""
    decisions: list[Decision] = []
    for step in saga.reverts(execution):
        group = state.groups.get(step.group)
        if group is None:
            continue
        arrived = sum(node.group == step.group for node in state.nodes.values())
        size = saga.unfulfilled(step.size, step.from_size, arrived, group.target)
        decisions += taken_back(state.now, step.group, size=size, from_size=group.target, plan=execution.plan)
    request = state.requests.get(execution.request)
    if request is None or request.uid != execution.request_uid or request.deleting:
        return decisions
    back = [f"{d.target.name} {d.from_size}->{d.size}" for d in decisions if isinstance(d, DecreaseNodeGroup)]
    if back:
        message = f"what was ordered beside what failed is taken back: {', '.join(back)}"
        decisions.append(_event(state, execution.request, request, "ScaleUpReverted", message))
    if not execution.all_or_nothing:
        return decisions  # a gang that has its minimum grows: what it is stays as it is
    if execution.seen_late and request.conflicts <= saga.MOST_CONFLICTS:
        return decisions  # tried again at once, on the sizes as they are
    if execution.failed:
        error = because("OrderFailed", group=execution.failed[0].group, error=execution.error)
        parameters = parameters_of(request.parameters, len(request.sets))
        condition = cond.GIVEN_UP if parameters.no_retry else cond.NOT_FOUND
        reason = "Failed" if parameters.no_retry else "CapacityNotFound"
        message = f"the order for group {execution.failed[0].group} failed: {execution.error}"
        decisions.append(_event(state, execution.request, request, reason, message))
        decisions.append(
            _told(state, execution.request, request, condition=condition, why=error, details=request.details)
        )
        return decisions
    if index.settings.hold:
        # `Provisioned=True` follows when the nodes are ready.
        groups = [state.groups.get(step.group) for step in execution.steps]
        boots = [group.boot_s for group in groups if group is not None]
        eta = execution.ordered_at + max(boots) if boots and all(boots) else None
        condition, why = (
            cond.nodes_ordered(eta),
            because("Ordered", nodes=sum(s.size - s.from_size for s in execution.steps)),
        )
        details = without_queue(request.details)
        decisions.append(
            _told(state, execution.request, request, condition=condition, why=why, details=details)
        )
        return decisions
    settings = index.settings
    own = parameters_of(request.parameters, len(request.sets)).booking_s
    until = state.now + (settings.booking_s if own is None else own)
    namespace, name = parts(execution.request)
    ordered = because("Ordered", nodes=sum(s.size - s.from_size for s in execution.steps))
    details = {
        **without_queue(request.details),
        "reservation": rfc3339(until),
    }
    decisions.append(
        _told(state, execution.request, request, condition=cond.ORDERED, why=ordered, details=details)
    )
    decisions.append(
        BookCapacity(
            at=state.now,
            namespace=namespace,
            name=name,
            uid=request.uid,
            until=until,
            pods=sum(n for _, n in request.sets),
        )
    )
    return decisions


def _told(
    state: State,
    key: RequestKey,
    request: Request,
    *,
    condition: Condition,
    why: Because,
    details: dict[str, str],
) -> Decision:
    additions = [condition]
    if is_check_alias(request.class_name):
        additions.append(cond.available(condition))
    if request.domains and condition.type == cond.PROVISIONED:
        parameters = parameters_of(request.parameters, len(request.sets))
        details = details | topology_details(parameters, request.domains)
    conditions, refresh = request.conditions, not index_of(state).settings.hold
    for addition in additions:
        conditions = cond.with_condition(
            conditions, addition, state.now, refresh=refresh, generation=request.generation
        )
    return status_of(state.now, key, request, conditions=conditions, details=details, why=(why,))


def _event(state: State, key: RequestKey, request: Request, reason: str, message: str) -> RecordObjectEvent:
    namespace, name = parts(key)
    return RecordObjectEvent(
        at=state.now,
        target=request_ref(namespace, name, request.uid),
        event_type="Warning",
        reason=reason,
        message=message[:MAX_MESSAGE],
        component=COMPONENT,
    )


def respecified(state: State, key: RequestKey) -> list[Decision]:
    """The spec of a request was changed: the one that was seen first stays in force. Spec 1.2."""
    message = (
        "the spec was changed after the request was seen: the first one stays in force;"
        " delete the request and make another one"
    )
    return [_event(state, key, state.requests[key], "SpecChangeIgnored", message)]


def cancelled(state: State, index: Index, key: RequestKey) -> list[Decision]:
    """A request was deleted: take back what only it asked for and what has not come. [B3]"""
    request = state.requests.get(key)
    if request is None:
        return []
    namespace, name = parts(key)
    decisions: list[Decision] = []
    view = look(state, index, state.now)
    for plan in sorted(state.executions):
        execution = state.executions[plan]
        if execution.request != key or execution.request_uid != request.uid:
            continue
        for step in execution.steps:
            if step.status == saga.WAITING:
                continue  # it never goes out now
            opened, group = state.open.get(step.group), view.groups.get(step.group)
            if opened is None or group is None or plan not in opened.plans:
                continue
            others = sum(n for other, n in opened.plans.items() if other != plan)
            coming = max(0, group.upcoming - group.counts.not_started)
            missing = min(opened.plans[plan], max(0, coming - others))
            target = state.groups[step.group].target
            decisions += taken_back(state.now, step.group, size=target - missing, from_size=target, plan=plan)
    decisions.append(
        ReleaseCapacity(
            at=state.now,
            namespace=namespace,
            name=name,
            uid=request.uid,
            reason="Deleted",
            because=(because("Gone"),),
        )
    )
    return decisions
