"""Our own decisions: what was concluded, folded right after its cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    PatchObject,
    RecordObjectEvent,
    SetStatus,
)
from tidewright.kube.keys import ObjectKey, PodKey, RequestKey, pod_key, request_key
from tidewright.provisioning.cluster.backoff import RESET_S, Entry
from tidewright.provisioning.cluster.limits import Learnt
from tidewright.provisioning.fold import buffers, consolidating, removals
from tidewright.provisioning.fold.common import (
    BEGINNING,
    DID_NOT_COME,
    NOT_READ,
    OF_WORKLOADS,
    REQUEST_KIND,
    STANDING,
    not_ordered,
    shrink_open,
)
from tidewright.provisioning.fold.forgetting import forget_told_unread, set_sets
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.foresight.kept import MOST_PLANS, Foreseen
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import doom, index_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import placeholders, reserved
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.scaleup.plans import NOT_NEEDED, SUCCESSFUL, Target
from tidewright.provisioning.scaleup.refusals import signature
from tidewright.provisioning.state import (
    Cost,
    GroupState,
    Lately,
    Load,
    Mark,
    Open,
    Paused,
    ShapeFields,
    State,
    Unneeded,
    owner_key,
)
from tidewright.provisioning.tell import counts
from tidewright.provisioning.unanswered import (
    CollectOrder,
    CreateOrder,
    DecreaseOrder,
    DeleteOrder,
    FreeOrder,
    HoldOrder,
    IncreaseOrder,
    MarkOrder,
    ReportOrder,
    StatusOrder,
)

_Kind = TypeVar("_Kind")


def _as_stored(value: Any, kind: type[_Kind]) -> _Kind:
    """As it is read back with its decision, where members have an order of their own: the state is the same then."""
    return msgspec.json.decode(msgspec.json.encode(value, order="deterministic"), type=kind)


def _accept(state: State, event: p.AcceptRequest, _touched: Touched) -> None:
    request = state.requests.get(request_key(event.namespace, event.name))
    if request is None:
        return
    request.accepted = True
    request.parameters = _as_stored(event.parameters, dict[str, str])
    request.costs = _as_stored(event.costs, tuple[Cost, ...])
    for digest, fields in _as_stored(event.shapes, dict[str, ShapeFields]).items():
        if digest not in state.shapes:
            state.shapes[digest] = msgspec.structs.replace(fields, told=False)
    set_sets(state, request, event.sets)


def _attempt(state: State, event: p.AttemptRequest, _touched: Touched) -> None:
    request = state.requests.get(request_key(event.namespace, event.name))
    if request is None:
        return
    labels = {"class": request.class_name, "result": event.result}
    counts.add(state.counts, "tidewright_provisioning_attempts_total", 1.0, **labels)
    _limited(state, event.verdicts)
    request.attempts, request.last_try = event.attempt, event.at
    request.wait_s = event.retry_at - event.at if event.retry_at else None
    request.seen_late = False
    if event.result in (SUCCESSFUL, NOT_NEEDED):
        request.awaits = tuple(map(NodeGroupId, event.awaits))
        request.missed = False
        request.domains = event.domains
        request.places = _as_stored(event.places, dict[str, dict[str, int]])
        for places in request.places.values():
            consolidating.room_taken(state, places, {})
        request.ordered = bool(event.awaits)


def _status(state: State, event: SetStatus, _touched: Touched) -> None:
    buffers.status_decided(state, event)
    if event.target.kind != REQUEST_KIND:
        return
    key = request_key(event.target.namespace, event.target.name)
    request = state.requests.get(key)
    if request is not None and request.uid == event.target.uid:
        before = request.conditions
        # Statuses were written whole once, with the conditions of others: those are known from facts.
        mine = tuple(c for c in cond.parse(event.status.get("conditions")) if cond.is_ours(c))
        types = {c.type for c in mine}
        request.conditions = (*mine, *(c for c in before if not cond.is_ours(c) and c.type not in types))
        if cond.find(mine, cond.CAPACITY_READY) != cond.find(before, cond.CAPACITY_READY):
            request.awaits, request.missed = (), False
        for kind, name in _MILESTONES.items():
            if cond.is_true(request.conditions, kind) and not cond.is_true(before, kind):
                counts.observe(
                    state.histograms, name, event.at - request.created_at, **{"class": request.class_name}
                )
        request.details = _as_stored(event.status.get("provisioningClassDetails") or {}, dict[str, str])
        request.rewrite = False
        state.orders[event.id] = StatusOrder(key)


def _delete_object(state: State, event: DeleteObject, _touched: Touched) -> None:
    target = event.target
    if target.kind == REQUEST_KIND:
        key = request_key(target.namespace, target.name)
        request = state.requests.get(key)
        if request is not None:
            request.deleting = True
            state.orders[event.id] = CollectOrder(key)
    elif target.kind == "Pod":
        name = pod_key(target.namespace, target.name)
        if name in state.held:
            state.held[name].leaving = True
            state.orders[event.id] = FreeOrder(name)
        buffers.object_deleted(state, event)


def _create_object(state: State, event: CreateObject, _touched: Touched) -> None:
    placeholder = placeholders.read(event)
    if placeholder is not None:
        name, held = placeholder
        state.held[name] = held
        state.orders[event.id] = HoldOrder(name)
    buffers.object_made(state, event)


def _patch_object(state: State, event: PatchObject, _touched: Touched) -> None:
    annotation = reserved.read(event)
    if annotation is not None:
        node, value = annotation
        state.marks[node] = Mark(value, event.id)
        state.orders[event.id] = MarkOrder(node)
    buffers.object_made(state, event)


def _book(state: State, event: p.BookCapacity, _touched: Touched) -> None:
    request = state.requests.get(request_key(event.namespace, event.name))
    if request is not None:
        request.booked, request.ordered = True, False


def _release(state: State, event: p.ReleaseCapacity, _touched: Touched) -> None:
    key = request_key(event.namespace, event.name)
    request = state.requests.get(key)
    if event.reason == "Deleted":
        if request is not None:
            set_sets(state, request, ())
            del state.requests[key]
        for execution in state.executions.values():
            if execution.request == key and execution.request_uid == event.uid:
                saga.stopped(execution)  # what has not gone out never does
                not_ordered(state, execution)
    elif request is not None:
        request.booked = request.ordered = False


def _plan(state: State, event: p.PlanScaleUp, _touched: Touched) -> None:
    execution = state.executions[event.plan] = saga.begin(
        event.plan,
        [
            Target(group=NodeGroupId(i.group), from_size=i.from_size, size=i.size, max_size=i.max_size)
            for i in event.increases
        ],
        at=event.at,
        parallel=event.parallel,
        request=RequestKey(ObjectKey(event.request)),
        request_uid=event.request_uid,
        all_or_nothing=event.all_or_nothing,
    )
    for share in event.expected:
        workload = state.workloads.get(share.workload)
        if workload is None or (workload.complete and not share.decision):
            continue  # all of them are there by now
        before = state.foreseen.get(share.workload)
        state.foreseen[share.workload] = Foreseen(
            uid=share.uid,
            plan=event.plan,
            pods=share.pods,
            at=event.at,
            decision=share.decision,
            earlier=() if before is None else (*before.earlier, before.plan)[-MOST_PLANS:],
        )
    beginning = {reason.values.get("group") for reason in event.because if reason.rule == BEGINNING}
    asked_for = not event.buffers and not event.replaces  # what nobody waits for keeps nobody else's nodes
    if asked_for:
        state.last_scale_up = event.at
    for increase in event.increases:
        if asked_for and state.scan.told:  # nobody asks for it before
            state.lately.setdefault(NodeGroupId(increase.group), Lately()).add = event.at
        opened = state.open.setdefault(NodeGroupId(increase.group), Open(increase=0, requested_at=event.at))
        added = increase.size - increase.from_size
        opened.increase += added
        opened.requested_at = event.at
        opened.plans[event.plan] = opened.plans.get(event.plan, 0) + added
        opened.loads += [
            Load(load.nodes, _as_stored(load.pods, dict[str, int]))
            for load in event.loads
            if load.group == increase.group
        ]
        group = state.groups.setdefault(NodeGroupId(increase.group), GroupState())
        group.wanted, group.answered_at = increase.size, None
        if group.initial and (increase.size >= group.initial or increase.group in beginning):
            group.initial = 0  # once, also where it had to be fewer
            state.begun[NodeGroupId(increase.group)] = None
    request = state.requests.get(execution.request)
    if request is not None:
        request.plan = event.plan


def _increase(state: State, event: p.IncreaseNodeGroup, _touched: Touched) -> None:
    execution = state.executions.get(event.plan)
    if execution is None:
        return
    for step in execution.steps:
        if step.group == event.target.name and step.status == saga.WAITING:
            step.status, step.decision = saga.ORDERED, event.id
            state.orders[event.id] = IncreaseOrder(event.plan)


def _decrease(state: State, event: p.DecreaseNodeGroup, _touched: Touched) -> None:
    name = NodeGroupId(event.target.name)
    group = state.groups.get(name)
    if group is not None:
        group.wanted, group.answered_at = event.size, None
    state.orders[event.id] = DecreaseOrder(name)
    execution = state.executions.get(event.plan)
    if execution is not None and execution.over:
        execution.reverted = True
    shrink_open(state, name, event.from_size - event.size, event.plan)


_MILESTONES = {
    cond.PROVISIONED: "tidewright_provisioning_provisioned_seconds",
    cond.CAPACITY_READY: "tidewright_provisioning_nodes_ready_seconds",
}


def _limited(state: State, verdicts: tuple[p.GroupVerdict, ...]) -> None:
    """Count increases that a limit kept from being, by the limit's resource."""
    for verdict in verdicts:
        if not verdict.reason.startswith("exceeded quota"):
            continue
        resources = verdict.reason.rpartition("resources: ")[2]
        for resource in sorted(resources.split(", ")):
            reason = f"{resource[:1].upper()}{resource[1:]}ResourceLimit"
            counts.add(
                state.counts, "cluster_autoscaler_skipped_scale_events_count", direction="up", reason=reason
            )


def _delete(state: State, event: p.DeleteInstances, _touched: Touched) -> None:
    name = NodeGroupId(event.target.name)
    group = state.groups.get(name)
    if group is not None:
        group.deleting.update(dict.fromkeys(event.instances, event.at))
        group.wanted = max(0, group.target - len(event.instances))
        group.answered_at = None
        doom(state, index_of(state), group)
    unborn = sum(not node for node in event.nodes)
    # Counted when it is done: it may be refused, and asked for again.
    idle = sum(bool(node) and node not in state.removals for node in event.nodes)
    state.orders[event.id] = DeleteOrder(name, unborn, idle)
    opened = state.open.get(name)
    for plan in opened.plans if opened is not None and unborn else ():
        if plan in state.executions:
            state.executions[plan].short += unborn
    shrink_open(state, name, unborn)
    for node in event.nodes:
        state.idle.pop(node, None)
    removals.deletion_decided(state, event)


def _create_group(state: State, event: p.CreateNodeGroup, _touched: Touched) -> None:
    state.orders[event.id] = CreateOrder(NodeGroupId(event.target.name))
    for name in map(NodeGroupId, (event.target.name, *event.also)):
        state.groups.setdefault(
            name,
            GroupState(
                max_size=event.max_size,
                template=_as_stored(event.template, p.TemplateNode),
                machine_type=event.machine_type,
                autoprovisioned=True,
            ),
        )


def _delete_group(state: State, event: p.DeleteNodeGroup, _touched: Touched) -> None:
    group = state.groups.get(NodeGroupId(event.target.name))
    if group is not None:
        group.exists = False


def _back_off(state: State, event: p.BackOffGroup, _touched: Touched) -> None:
    name = NodeGroupId(event.group)
    state.backoff[name] = Entry(
        until=event.until,
        duration_s=event.backoff_s,
        last=event.at,
        error_class=event.error_class,
        code=event.code,
        message=event.message,
        kept_s=RESET_S if event.kept_s is None else event.kept_s,
    )
    counts.add(state.counts, "cluster_autoscaler_failed_scale_ups_total", reason=event.code or "other")
    group = state.groups.get(name)
    if group is not None and event.code == "QuotaExceeded":
        # [B10]: the cloud said where its limit lies.
        state.learnt[name] = Learnt(nodes=group.target, at=event.at)


def _close(state: State, event: p.CloseScaleUp, _touched: Touched) -> None:
    name = NodeGroupId(event.group)
    opened = state.open.pop(name, None)
    if opened is not None and event.result != "Finished":
        for plan, nodes in opened.plans.items():
            if plan in state.executions:
                state.executions[plan].short += max(1, nodes)
    for request in state.requests.values():
        if name in request.awaits:
            request.awaits = tuple(group for group in request.awaits if group != name)
            request.missed = request.missed or event.result != "Finished"
    group = state.groups.get(name)
    if group is not None and event.boot_s:
        group.boot_s = event.boot_s


def _idle(state: State, event: p.TrackIdleNodes, _touched: Touched) -> None:
    for name in event.busy:
        state.idle.pop(name, None)
    state.idle.update(dict.fromkeys(event.idle, event.at))


def _unneeded(state: State, event: p.TrackUnneededNodes, _touched: Touched) -> None:
    for name in event.needed:
        found = state.unneeded.pop(name, None)
        if found is not None:
            removals.late(state, found.due, found.delayed, deleted=False)
    for node in event.unneeded:
        moves = {PodKey(ObjectKey(pod)): place for pod, place in node.moves.items()}
        state.unneeded[node.node] = Unneeded(
            node.since, moves, node.waits, node.risky, node.due, node.delayed
        )
    for name in [name for name, paused in state.paused.items() if paused.until <= event.at]:
        del state.paused[name]
    for node_paused in event.paused:
        state.paused[node_paused.node] = Paused(
            node_paused.until, node_paused.reason, node_paused.pod, node_paused.pod_reason, state.scan.changes
        )
    scan = state.scan
    for name in event.reached:
        scan.skipped.pop(name, None)
    scan.skipped.update(dict.fromkeys(event.skipped, event.at))
    if not event.more:
        scan.part, scan.began, scan.restarts = 0, None, 0
    elif scan.before is None:
        scan.part, scan.began = 1, event.at
    scan.before = event.before if event.more else None


def _decline(state: State, event: p.DeclineScaleUp, _touched: Touched) -> None:
    _limited(state, event.verdicts)
    state.declined[event.shape] = signature(event.verdicts)


def _report(state: State, event: p.ReportClusterStatus, _touched: Touched) -> None:
    before = state.reported
    before.digest, before.at = event.digest, event.at
    before.since = {
        key: before.since[key] if before.since.get(key, ("", 0.0))[0] == status else (status, event.at)
        for key, status in sorted(event.statuses.items())
    }
    state.orders[event.id] = ReportOrder()


def _said(state: State, event: RecordObjectEvent, _touched: Touched) -> None:
    if event.reason in STANDING:
        state.said[event.reason] = event.message
        state.said_at[event.reason] = event.at
    if event.target.kind == REQUEST_KIND and event.reason == "CapacityNotFound":
        request = state.requests.get(request_key(event.target.namespace, event.target.name))
        if request is not None:
            request.told = event.message
    if event.reason in OF_WORKLOADS:
        key = owner_key(event.target.kind, event.target.namespace, event.target.name)
        state.said[key] = event.message
    if event.reason == NOT_READ:
        forget_told_unread(state, event.target.kind)
    if event.reason == DID_NOT_COME:
        state.foreseen.pop(owner_key(event.target.kind, event.target.namespace, event.target.name), None)
    if event.target.kind == "Pod":
        state.said[pod_key(event.target.namespace, event.target.name)] = event.reason


DECISIONS: dict[type[Event], Callable[[State, Any, Touched], None]] = {
    p.AcceptRequest: _accept,
    p.AttemptRequest: _attempt,
    SetStatus: _status,
    CreateObject: _create_object,
    DeleteObject: _delete_object,
    PatchObject: _patch_object,
    p.BookCapacity: _book,
    p.ResolvePod: buffers.asked,
    p.FillBuffer: buffers.filled,
    p.ReleaseCapacity: _release,
    p.PlanScaleUp: _plan,
    p.IncreaseNodeGroup: _increase,
    p.DecreaseNodeGroup: _decrease,
    p.DeleteInstances: _delete,
    p.CreateNodeGroup: _create_group,
    p.DeleteNodeGroup: _delete_group,
    p.BackOffGroup: _back_off,
    p.CloseScaleUp: _close,
    p.TrackIdleNodes: _idle,
    p.TrackUnneededNodes: _unneeded,
    p.DeclineScaleUp: _decline,
    p.ReportClusterStatus: _report,
    RecordObjectEvent: _said,
    p.ProposeReplacement: consolidating.proposed,
    p.ReplaceNodes: consolidating.begun,
    p.EndReplacement: consolidating.ended,
    **removals.DECISIONS,
}
