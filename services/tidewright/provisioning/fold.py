"""Folding: what each event changes in the state. Total, and of its arguments alone.

Facts say what is; decisions of ours say what was concluded, and are folded right after their cause;
outcomes say what came of orders. `woken` tells `decide` that an evaluation may find something to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Event, Fact
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import (
    CancelTimer,
    CreateObject,
    DeleteObject,
    RecordObjectEvent,
    SetStatus,
    SetTimer,
)
from tidewright.events.timers import TimerFired
from tidewright.provisioning import counts, placeholders, saga
from tidewright.provisioning.backoff import Entry
from tidewright.provisioning.limits import Learnt
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.scaleup import Target
from tidewright.provisioning.state import (
    GroupState,
    Load,
    Node,
    Open,
    Pod,
    Request,
    ShapeFields,
    State,
    add_node,
    add_pod,
    index_of,
    pod_of,
    remove_node,
    remove_pod,
    reseat,
)

EVALUATE = "evaluate"
CONFIGURATION_IGNORED = "ConfigurationIgnored"
STANDING = frozenset(
    {
        CONFIGURATION_IGNORED,
        "ClusterUnhealthy",
        "MaxNodesTotalReached",
        "PriorityConfigMapInvalid",
        "PriorityConfigMapNoGroupMatched",
        "PriorityConfigMapNotMatchedGroup",
    }
)
"""Reasons of object events about a state that lasts: told when it begins, and again now and then."""
REQUEST_KIND = "ProvisioningRequest"


def evolve(state: State, event: Event) -> State:
    """Fold one event."""
    state.now = max(state.now, event.at)
    state.touched = ()
    apply = _FOLDS.get(type(event))
    if apply is not None and not (isinstance(event, Fact) and event.refresh):
        apply(state, event)
    return state


def key_of(event: Any) -> str:
    return f"{event.namespace}/{event.name}"


def wake(state: State) -> None:
    """Something came that an evaluation may answer."""
    state.woken = True
    state.last_wake = state.now
    if state.first_wake is None:
        state.first_wake = state.now


def _forget_index(state: State) -> None:
    state.__dict__.pop("index", None)


# --- Facts ---


def _shape(state: State, event: f.ShapeObserved) -> None:
    known = event.digest in state.shapes
    state.shapes[event.digest] = ShapeFields(
        requests=event.requests,
        scheduling=event.scheduling,
        namespace=event.namespace,
        labels=event.labels,
        priority=event.priority,
    )
    index = state.__dict__.get("index")
    if not known and index is not None and event.digest in index.grid.where:
        _forget_index(state)  # a pod came before its shape, and holds the wrong room


def _pod(state: State, event: f.PodObserved) -> None:
    index, key = index_of(state), key_of(event)
    # Taken out and put back at the end: the index, built anew, then has the same order as this one.
    old = state.pods.pop(key, None)
    if old is not None:
        remove_pod(state, index, key, old)
    if event.phase in ("Succeeded", "Failed"):
        state.said.pop(key, None)
        if old is not None:
            _left(state, old)
        return
    pod = pod_of(event)
    if pod.untried_at and old is not None and old.untried_at:
        pod.untried_at = old.untried_at
    state.pods[key] = pod
    add_pod(state, index, key, pod)
    came = pod.waiting and (old is None or not old.waiting)
    arrived = bool(pod.consumes and pod.node) and (old is None or not old.node)
    if came or arrived:
        wake(state)
    if pod.node:
        state.said.pop(key, None)


def _pod_gone(state: State, event: f.PodGone) -> None:
    key = key_of(event)
    old = state.pods.pop(key, None)
    state.said.pop(key, None)
    if state.held.pop(key, None) is not None:
        wake(state)
    if old is not None:
        remove_pod(state, index_of(state), key, old)
        _left(state, old)


def _left(state: State, pod: Pod) -> None:
    """A pod is no longer there: its room may help somebody, or its node may be empty now."""
    if not pod.node or pod.daemon:
        return
    node = state.nodes.get(pod.node)
    emptied = node is not None and bool(node.group) and pod.node not in index_of(state).busy
    if emptied or _someone_waits(state):
        wake(state)


def _someone_waits(state: State) -> bool:
    return (
        bool(index_of(state).waiting)
        or bool(state.idle)
        or any(request.accepted and not request.booked for request in state.requests.values())
    )


def _node(state: State, event: f.NodeObserved) -> None:
    index = index_of(state)
    old = state.nodes.get(event.name)
    node = Node(
        labels=event.labels,
        allocatable=event.allocatable,
        taints=event.taints,
        annotations=event.annotations,
        unschedulable=event.unschedulable,
        ready=bool(event.ready),
        ready_changed_at=event.ready_changed_at or event.at,
        created_at=event.created_at or event.at,
        leaving=event.deleting_at is not None,
        provider_id=event.provider_id,
        seen_at=old.seen_at if old is not None else event.at,
        group=index.owner.get(event.provider_id, ""),
    )
    state.nodes[event.name] = node
    if old is not None and old.provider_id != node.provider_id:
        index.machines.pop(old.provider_id, None)
    add_node(index, event.name, node)
    if old is None:
        reseat(state, index, event.name)
    wake(state)


def _node_gone(state: State, event: f.NodeGone) -> None:
    old = state.nodes.pop(event.name, None)
    if old is not None:
        group = state.groups.get(old.group)
        if group is not None:  # the last word on what a node of this group looks like
            group.remembered = p.TemplateNode(
                labels=old.labels, taints=old.taints, allocatable=old.allocatable
            )
        remove_node(index_of(state), event.name, old)
        wake(state)


def _group(state: State, event: p.NodeGroupObserved) -> None:
    group = state.groups.setdefault(event.name, GroupState())
    before = (group.target, group.instances, group.max_size, group.min_size, group.error)
    group.min_size, group.max_size = event.min_size, event.max_size
    group.zero_or_max, group.allow_non_atomic = event.zero_or_max, event.allow_non_atomic
    group.max_provision_s, group.price_micro = event.max_provision_s, event.price_micro
    group.atomic_increase, group.autoprovisioned = event.atomic_increase, event.autoprovisioned
    group.exists, group.machine_type = event.exists, event.machine_type
    group.template, group.error = event.template, event.error
    if not event.error:  # what could not be read says nothing new about sizes
        machines_there = event.machines
        left = {i.id for i in group.instances} - {i.id for i in machines_there}
        group.target_size, group.instances = event.target_size, machines_there
        group.observed_at = event.at
        answered = group.answered_at is not None and group.answered_at < event.at
        if group.wanted is not None and (answered or group.wanted == event.target_size):
            group.wanted = group.answered_at = None
        there = {instance.id for instance in machines_there}
        index = index_of(state)
        machines = index.machines
        for name in left:
            if index.owner.get(name) == event.name:
                del index.owner[name]
        for instance in machines_there:
            index.owner[instance.id] = event.name
            node = state.nodes.get(machines.get(instance.id, ""))
            if node is not None:
                node.group = event.name
        group.since = {i.id: group.since.get(i.id, event.at) for i in machines_there if i.id not in machines}
        group.deleting = {name: at for name, at in group.deleting.items() if name in there}
        registered = sum(name in machines for name in there)
        if registered < event.target_size - len(group.since):
            before_ = group.wrong
            same = before_ is not None and before_[:2] == (registered, event.target_size)
            since = before_[2] if same and before_ is not None else event.at
            group.wrong = (registered, event.target_size, since)
        else:
            group.wrong = None
    if before != (group.target, group.instances, group.max_size, group.min_size, group.error):
        wake(state)


def _group_gone(state: State, event: p.NodeGroupGone) -> None:
    group = state.groups.pop(event.name, None)
    owner = index_of(state).owner
    for instance in group.instances if group is not None else ():
        if owner.get(instance.id) == event.name:
            del owner[instance.id]
    # Its open increase is closed by the next evaluation, which tells the requests that it was for.
    for execution in state.executions.values():
        saga.answered(
            execution, event.name, applied=False, error=f"group {event.name} is gone", reason="NotFound"
        )
    state.touched = tuple(sorted(state.executions))
    wake(state)


def _request(state: State, event: p.ProvisioningRequestObserved) -> None:
    key = key_of(event)
    found = cond.parse(event.status.get("conditions"))
    request = state.requests.get(key)
    if request is None or request.uid != event.uid:
        request = Request(
            uid=event.uid,
            created_at=event.created_at or event.at,
            seen_at=event.at,
            class_name=str(event.spec.get("provisioningClassName", "")),
            spec=event.spec,
            conditions=found,
            details=dict(event.status.get("provisioningClassDetails") or {}),
        )
        request.booked = cond.is_true(found, cond.PROVISIONED)
        state.requests[key] = request
        wake(state)
    else:
        if event.spec != request.spec and not request.respecified:
            request.respecified = True
            state.touched = (key,)
        ours = {c.type for c in request.conditions}
        theirs = tuple(c for c in found if c.type not in ours)
        foreign = cond.find(found, cond.PROVISIONED)
        request.conditions += theirs
        if foreign is not None and foreign.status == "Unknown":
            request.conditions = tuple(
                foreign if c.type == cond.PROVISIONED else c for c in request.conditions
            )
        if theirs:
            wake(state)
    request.generation = event.generation
    request.annotations = event.annotations
    request.controlled = event.controlled
    request.deleting = event.deleting_at is not None


def _request_gone(state: State, event: p.ProvisioningRequestGone) -> None:
    # The request itself leaves the state when `decide` has answered; see `requests_gone`.
    if key_of(event) in state.requests:
        state.requests[key_of(event)].deleting = True
        wake(state)


def requests_gone(state: State, key: str) -> None:
    """Forget a deleted request: its cancellation has been decided."""
    state.requests.pop(key, None)


def _class(state: State, event: p.ProvisioningClassObserved) -> None:
    parameters = event.spec.get("parameters") or {}
    state.classes[event.name] = {str(k): str(v) for k, v in parameters.items()}
    wake(state)


def _class_gone(state: State, event: p.ProvisioningClassGone) -> None:
    state.classes.pop(event.name, None)


def _template(state: State, event: p.PodTemplateObserved) -> None:
    state.templates[key_of(event)] = event.template
    if any(not request.accepted for request in state.requests.values()):
        wake(state)


def _template_gone(state: State, event: p.PodTemplateGone) -> None:
    state.templates.pop(key_of(event), None)


def _daemon(state: State, event: p.DaemonSetObserved) -> None:
    state.daemons[key_of(event)] = event.template


def _daemon_gone(state: State, event: p.DaemonSetGone) -> None:
    state.daemons.pop(key_of(event), None)


def _quota(state: State, event: p.ResourceQuotaObserved) -> None:
    state.quotas[key_of(event)] = (event.hard, event.used)


def _quota_gone(state: State, event: p.ResourceQuotaGone) -> None:
    state.quotas.pop(key_of(event), None)


def _config(state: State, event: ConfigSet) -> None:
    if event.name == "provisioning":
        state.config = event.data
    elif event.name == "cluster-autoscaler-priority-expander":
        found = event.data.get("priorities")
        # Nothing there, or nothing that can be read: the expander says so, and keeps all groups.
        state.priorities = found if isinstance(found, dict) else None
    else:
        return
    _forget_index(state)
    wake(state)


# --- Our own decisions ---


def _set_timer(state: State, event: SetTimer) -> None:
    if event.key == EVALUATE:
        state.due = event.due
        state.woken = False


def _cancel_timer(state: State, event: CancelTimer) -> None:
    if event.key == EVALUATE:
        state.due = None


def rearmed(state: State) -> float | None:
    """When to look again, for a burst that is still going on; None when it is over."""
    settings = index_of(state).settings
    if state.last_wake is None or state.first_wake is None:
        return None
    end = state.first_wake + settings.burst_s
    due = min(state.last_wake + settings.quiet_s, end)
    if due <= state.now < end and _scheduler_is_busy(state, settings.burst_s):
        due = min(state.now + settings.quiet_s, end)
    return due if due > state.now else None


def _scheduler_is_busy(state: State, burst_s: float) -> bool:
    """Whether pods of the same burst have not been tried: the next ones to fit nowhere may be among them.

    Pods that have not been tried for longer than a burst lasts are another scheduler's, or gated.
    """
    last = state.last_wake or 0.0
    pods = (state.pods[key] for key in index_of(state).untried)
    return any(pod.untried_at <= last and state.now - pod.untried_at < burst_s for pod in pods)


def _timer(state: State, event: TimerFired) -> None:
    if event.key != EVALUATE:
        return
    state.due = None
    state.evaluating = rearmed(state) is None
    if state.evaluating:
        state.woken, state.first_wake, state.last_wake = False, None, None
        state.evaluated_at = state.now
        state.executions = {
            name: execution
            for name, execution in state.executions.items()
            if not execution.over or any(name in found.plans for found in state.open.values())
        }


def _accept(state: State, event: p.AcceptRequest) -> None:
    request = state.requests.get(key_of(event))
    if request is None:
        return
    request.accepted = True
    request.parameters, request.sets = event.parameters, event.sets
    for digest, fields in event.shapes.items():
        state.shapes.setdefault(digest, msgspec.convert(fields, ShapeFields))


def _attempt(state: State, event: p.AttemptRequest) -> None:
    request = state.requests.get(key_of(event))
    if request is None:
        return
    labels = {"class": request.class_name, "result": event.result}
    counts.add(state.counts, "tidewright_provisioning_attempts_total", 1.0, **labels)
    _limited(state, event.verdicts)
    request.attempts, request.last_try = event.attempt, event.at
    request.wait_s = event.retry_at - event.at if event.retry_at else None


def _status(state: State, event: SetStatus) -> None:
    if event.target.kind != REQUEST_KIND:
        return
    request = state.requests.get(f"{event.target.namespace}/{event.target.name}")
    if request is not None and request.uid == event.target.uid:
        before = request.conditions
        request.conditions = cond.parse(event.status.get("conditions"))
        for kind, name in _MILESTONES.items():
            if cond.is_true(request.conditions, kind) and not cond.is_true(before, kind):
                counts.observe(
                    state.histograms, name, event.at - request.created_at, **{"class": request.class_name}
                )
        request.details = dict(event.status.get("provisioningClassDetails") or {})
        request.rewrite = False
        state.orders[event.id] = ("status", f"{event.target.namespace}/{event.target.name}")


def _delete_object(state: State, event: DeleteObject) -> None:
    key = f"{event.target.namespace}/{event.target.name}"
    request = state.requests.get(key)
    if event.target.kind == REQUEST_KIND and request is not None:
        request.deleting = True
        state.orders[event.id] = ("collect", key)
    elif event.target.kind == "Pod" and key in state.held:
        state.held[key].leaving = True
        state.orders[event.id] = ("free", key)


def _create_object(state: State, event: CreateObject) -> None:
    found = placeholders.read(event)
    if found is not None:
        name, held = found
        state.held[name] = held
        state.orders[event.id] = ("hold", name)


def _book(state: State, event: p.BookCapacity) -> None:
    request = state.requests.get(key_of(event))
    if request is not None:
        request.booked, request.ordered = True, False


def _release(state: State, event: p.ReleaseCapacity) -> None:
    request = state.requests.get(key_of(event))
    if event.reason == "Deleted":
        state.requests.pop(key_of(event), None)
        for execution in state.executions.values():
            if execution.request == key_of(event) and execution.request_uid == event.uid:
                saga.stopped(execution)  # what has not gone out never does
                _not_ordered(state, execution)
    elif request is not None:
        request.booked = request.ordered = False


def _plan(state: State, event: p.PlanScaleUp) -> None:
    state.executions[event.plan] = saga.begin(
        event.plan,
        [
            Target(group=i.group, from_size=i.from_size, size=i.size, max_size=i.max_size)
            for i in event.increases
        ],
        at=event.at,
        parallel=event.parallel,
        request=event.request,
        request_uid=event.request_uid,
        all_or_nothing=event.all_or_nothing,
    )
    state.last_scale_up = event.at
    for increase in event.increases:
        found = state.open.setdefault(increase.group, Open(increase=0, requested_at=event.at))
        added = increase.size - increase.from_size
        found.increase += added
        found.requested_at = event.at
        found.plans[event.plan] = found.plans.get(event.plan, 0) + added
        found.loads += [
            Load(load.nodes, dict(load.pods)) for load in event.loads if load.group == increase.group
        ]
        group = state.groups.setdefault(increase.group, GroupState())
        group.wanted, group.answered_at = increase.size, None
    if event.request:
        request = state.requests.get(event.request)
        if request is not None:
            request.plan = event.plan


def _increase(state: State, event: p.IncreaseNodeGroup) -> None:
    execution = state.executions.get(event.plan)
    if execution is None:
        return
    for step in execution.steps:
        if step.group == event.target.name and step.status == saga.WAITING:
            step.status, step.decision = saga.ORDERED, event.id
            state.orders[event.id] = ("increase", event.plan)


def _decrease(state: State, event: p.DecreaseNodeGroup) -> None:
    name = event.target.name
    group = state.groups.get(name)
    if group is not None:
        group.wanted, group.answered_at = event.size, None
    state.orders[event.id] = ("decrease", name)
    execution = state.executions.get(event.plan)
    if execution is not None and execution.over:
        execution.reverted = True
    shrink_open(state, name, event.from_size - event.size, event.plan)


def shrink_open(state: State, name: str, nodes: int, plan: str = "") -> None:
    """A group's open increase is so many nodes smaller.

    At none left it is dropped, unless plans still wait to hear of it: then an evaluation closes it.
    """
    found = state.open.get(name)
    if found is None:
        return
    found.increase -= nodes
    if plan in found.plans:
        found.plans[plan] -= nodes
        if found.plans[plan] <= 0:
            del found.plans[plan]
    left = nodes
    while left > 0 and found.loads:  # the last ordered go first
        last = found.loads[-1]
        taken = min(left, last.nodes)
        last.nodes -= taken
        left -= taken
        if not last.nodes:
            found.loads.pop()
    if found.increase <= 0:
        found.increase = 0
        if not found.plans:
            del state.open[name]


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


def _delete(state: State, event: p.DeleteInstances) -> None:
    group = state.groups.get(event.target.name)
    if group is not None:
        group.deleting.update(dict.fromkeys(event.instances, event.at))
        group.wanted = max(0, group.target - len(event.instances))
        group.answered_at = None
    state.orders[event.id] = ("delete", event.target.name)
    unborn = sum(not name for name in event.nodes)
    if unborn:
        counts.add(state.counts, "cluster_autoscaler_old_unregistered_nodes_removed_count", unborn)
    if unborn < len(event.nodes):
        down = len(event.nodes) - unborn
        counts.add(state.counts, "cluster_autoscaler_scaled_down_nodes_total", down, reason="empty")
    opened = state.open.get(event.target.name)
    for plan in opened.plans if opened is not None and unborn else ():
        if plan in state.executions:
            state.executions[plan].short += unborn
    shrink_open(state, event.target.name, unborn)
    for node in event.nodes:
        state.idle.pop(node, None)


def _create_group(state: State, event: p.CreateNodeGroup) -> None:
    for name in (event.target.name, *event.also):
        state.groups.setdefault(
            name,
            GroupState(
                max_size=event.max_size,
                template=event.template,
                machine_type=event.machine_type,
                autoprovisioned=True,
            ),
        )


def _delete_group(state: State, event: p.DeleteNodeGroup) -> None:
    group = state.groups.get(event.target.name)
    if group is not None:
        group.exists = False


def _back_off(state: State, event: p.BackOffGroup) -> None:
    state.backoff[event.group] = Entry(
        until=event.until,
        duration_s=event.backoff_s,
        last=event.at,
        error_class=event.error_class,
        code=event.code,
        message=event.message,
    )
    counts.add(state.counts, "cluster_autoscaler_failed_scale_ups_total", reason=event.code or "other")
    group = state.groups.get(event.group)
    if group is not None and event.code == "QuotaExceeded":
        # [B10]: the cloud said where its limit lies.
        state.learnt[event.group] = Learnt(nodes=group.target, at=event.at)


def _close(state: State, event: p.CloseScaleUp) -> None:
    opened = state.open.pop(event.group, None)
    if opened is not None and event.result != "Finished":
        for plan, nodes in opened.plans.items():
            if plan in state.executions:
                state.executions[plan].short += max(1, nodes)
    group = state.groups.get(event.group)
    if group is not None and event.boot_s:
        group.boot_s = event.boot_s


def _idle(state: State, event: p.TrackIdleNodes) -> None:
    for name in event.busy:
        state.idle.pop(name, None)
    state.idle.update(dict.fromkeys(event.idle, event.at))


def _decline(state: State, event: p.DeclineScaleUp) -> None:
    _limited(state, event.verdicts)
    state.declined[event.shape] = signature(event.verdicts)


def signature(verdicts: tuple[p.GroupVerdict, ...]) -> str:
    """What a refusal says, for telling whether it changed."""
    return ";".join(f"{v.group}={v.reason}" for v in verdicts)


def _report(state: State, event: p.ReportClusterStatus) -> None:
    before = state.reported
    before.digest, before.at = event.digest, event.at
    before.since = {
        key: before.since[key] if before.since.get(key, ("", 0.0))[0] == status else (status, event.at)
        for key, status in event.statuses.items()
    }
    state.orders[event.id] = ("report", "")


def _said(state: State, event: RecordObjectEvent) -> None:
    if event.reason in STANDING:
        state.said[event.reason] = event.message
        state.said_at[event.reason] = event.at
    if event.target.kind == "Pod":
        state.said[f"{event.target.namespace}/{event.target.name}"] = event.reason


# --- Outcomes ---


def _outcome(state: State, event: o.Applied | o.Rejected | o.Failed | o.Superseded) -> None:
    order = state.orders.pop(event.decision, None)
    if order is None:
        return
    kind, name = order
    applied = isinstance(event, o.Applied)
    if isinstance(event, o.Rejected | o.Failed):
        where = "apiCallError" if kind in ("status", "collect", "report") else "cloudProviderError"
        counts.add(state.counts, "cluster_autoscaler_errors_total", type=where)
    if kind == "status":
        request = state.requests.get(name)
        if isinstance(event, o.Failed) and request is not None:
            request.rewrite = True
            wake(state)
        return
    if kind in ("hold", "free"):
        _placeholder_answered(state, kind, name, applied)
        return
    if kind == "report":
        if not applied and not isinstance(event, o.Superseded):
            state.reported.digest = ""  # written again with the next evaluation
        return
    if kind == "collect":
        request = state.requests.get(name)
        if request is not None and not applied:
            request.deleting = False
        return
    if kind == "increase":
        _increase_answered(state, event, name, applied)
    else:
        group = state.groups.get(name)
        if group is not None and not _outstanding(state, name):
            group.answered_at = event.at
            told = event.result.get("size") if isinstance(event, o.Applied) else None
            if not applied or told == group.target_size:
                group.wanted = None  # nothing has changed, so that the cloud will not be heard again
            elif isinstance(told, int):
                group.wanted = told
    wake(state)


def _placeholder_answered(state: State, kind: str, name: str, applied: bool) -> None:
    held = state.held.get(name)
    if held is None:
        return
    if kind == "hold" and not applied:
        del state.held[name]
    elif kind == "free" and not applied:
        held.leaving = False  # tried again with the next evaluation
    elif kind == "free" and name not in state.pods:
        del state.held[name]
    else:
        return
    wake(state)


def _increase_answered(
    state: State, event: o.Applied | o.Rejected | o.Failed | o.Superseded, plan: str, applied: bool
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
    _not_ordered(state, execution)
    request = state.requests.get(execution.request)
    if request is not None and execution.over:
        request.ordered = not execution.failed and index_of(state).settings.hold
        request.conflicts = request.conflicts + 1 if execution.seen_late else 0
        if 0 < request.conflicts <= saga.MOST_CONFLICTS:
            request.last_try = 0.0  # at once
    state.touched = (plan,)


def _outstanding(state: State, group: str) -> bool:
    """Whether a later order for the group has no answer yet: then that one is what is wanted."""
    return any(
        kind in ("decrease", "delete") and name == group for kind, name in state.orders.values()
    ) or any(
        step.group == group and step.status in (saga.WAITING, saga.ORDERED)
        for execution in state.executions.values()
        for step in execution.steps
    )


def _not_ordered(state: State, execution: saga.Execution) -> None:
    """Steps that were skipped: their groups are as they were, and wait for nothing."""
    for step in execution.steps:
        opened = state.open.get(step.group)
        if step.status == saga.SKIPPED and opened is not None and execution.plan in opened.plans:
            group = state.groups.get(step.group)
            if group is not None and group.wanted == step.size:
                group.wanted = None
            shrink_open(state, step.group, step.size - step.from_size, execution.plan)


_FOLDS: dict[type[Event], Callable[[State, Any], None]] = {
    f.ShapeObserved: _shape,
    f.PodObserved: _pod,
    f.PodGone: _pod_gone,
    f.NodeObserved: _node,
    f.NodeGone: _node_gone,
    p.NodeGroupObserved: _group,
    p.NodeGroupGone: _group_gone,
    p.ProvisioningRequestObserved: _request,
    p.ProvisioningRequestGone: _request_gone,
    p.ProvisioningClassObserved: _class,
    p.ProvisioningClassGone: _class_gone,
    p.PodTemplateObserved: _template,
    p.PodTemplateGone: _template_gone,
    p.DaemonSetObserved: _daemon,
    p.DaemonSetGone: _daemon_gone,
    p.ResourceQuotaObserved: _quota,
    p.ResourceQuotaGone: _quota_gone,
    ConfigSet: _config,
    SetTimer: _set_timer,
    CancelTimer: _cancel_timer,
    TimerFired: _timer,
    p.AcceptRequest: _accept,
    p.AttemptRequest: _attempt,
    SetStatus: _status,
    CreateObject: _create_object,
    DeleteObject: _delete_object,
    p.BookCapacity: _book,
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
    p.DeclineScaleUp: _decline,
    p.ReportClusterStatus: _report,
    RecordObjectEvent: _said,
    o.Applied: _outcome,
    o.Rejected: _outcome,
    o.Failed: _outcome,
    o.Superseded: _outcome,
}
