"""Facts: what is. Each says with `wake` whether an evaluation may answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.acting import MODE
from tidewright.events.base import Event
from tidewright.events.config import ConfigSet
from tidewright.events.spread import (
    KindRefused,
    TargetReplicasObserved,
    WorkloadSpreadGone,
    WorkloadSpreadObserved,
)
from tidewright.kube.keys import key_of, pod_key, request_key
from tidewright.provisioning.cluster.cluster_state import first_observed, wrong_size
from tidewright.provisioning.fold import buffers, consolidating, removals, workloads
from tidewright.provisioning.fold.common import (
    forget_index,
    wake,
)
from tidewright.provisioning.fold.forgetting import forget_limit, forget_shape, set_sets, untell_shape
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.group_ids import NO_GROUP, NodeGroupId
from tidewright.provisioning.index.indexing import (
    add_node,
    add_pod,
    awaited,
    doom,
    index_of,
    leave_machine,
    remove_node,
    remove_pod,
    reseat,
    unripe,
)
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import reserved
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.state import (
    Budget,
    CloudState,
    GroupState,
    Node,
    Pattern,
    Pod,
    QuotaState,
    Request,
    Rest,
    ShapeFields,
    State,
    owner_key,
    pod_of,
)


def _shape(state: State, event: f.ShapeObserved, _touched: Touched) -> None:
    known = event.digest in state.shapes
    state.shapes[event.digest] = ShapeFields(
        requests=event.requests,
        scheduling=event.scheduling,
        namespace=event.namespace,
        labels=event.labels,
        priority=event.priority,
    )
    index = state.beside.index
    if not known and index is not None and event.digest in index.grid.where:
        forget_index(state)  # a pod came before its shape, and holds the wrong room


def _shape_gone(state: State, event: f.ShapeGone, _touched: Touched) -> None:
    untell_shape(state, event.digest)


def _pod(state: State, event: f.PodObserved, touched: Touched) -> None:
    index, key = index_of(state), pod_key(event.namespace, event.name)
    # Taken out and put back at the end: the index, built anew, then has the same order as this one.
    old = state.pods.pop(key, None)
    if old is not None:
        remove_pod(state, index, key, old)
    if event.phase in ("Succeeded", "Failed"):
        state.said.pop(key, None)
        state.subsets.pop(key, None)
        held = state.held.get(key)
        if held is not None and held.refused_at is None:
            held.refused_at = state.now
            wake(state, touched)
        chunk = state.held_chunks.get(key)
        if chunk is not None and chunk.refused_at is None:
            chunk.refused_at = state.now
            wake(state, touched)
        if old is not None:
            _left(state, old, touched)
            removals.pod_changed(state, old.node, touched)
            consolidating.pod_left(state, key, old)
            forget_shape(state, old.shape)
        return
    pod = state.pods[key] = pod_of(event)
    if pod.untried_at and old is not None and old.untried_at:
        pod.untried_at = old.untried_at
    if event.annotations or state.subsets:  # else no spread has put it anywhere
        workloads.put(state, event)
    add_pod(state, index, key, pod)
    if consolidating.SETTING in state.config:
        consolidating.pod_seen(state, key, pod, old)
    if old is not None and old.shape != pod.shape:
        forget_shape(state, old.shape)
    came = pod.waiting and (old is None or not old.waiting)
    arrived = bool(pod.consumes and pod.node) and (old is None or not old.node)
    renamed = pod.waiting and old is not None and old.nominated != pod.nominated
    if came or arrived or renamed:
        wake(state, touched)
    placed = bool(pod.node) and (old is None or not (old.node or old.waiting))
    touched.taken = placed and not pod.daemon and bool(index.waiting)
    if state.removals:
        removals.pod_changed(state, pod.node, touched)
        if old is None or old.uid != pod.uid:
            removals.pod_came(state, pod.shape)
    if pod.node:
        state.said.pop(key, None)


def _pod_gone(state: State, event: f.PodGone, touched: Touched) -> None:
    index, key = (
        index_of(state),
        pod_key(event.namespace, event.name),
    )  # one that is built below would not know the pod
    old = state.pods.pop(key, None)
    state.said.pop(key, None)
    state.subsets.pop(key, None)
    if state.held.pop(key, None) is not None or state.held_chunks.pop(key, None) is not None:
        wake(state, touched)
    if old is not None:
        remove_pod(state, index, key, old)
        _left(state, old, touched)
        removals.pod_changed(state, old.node, touched)
        consolidating.pod_left(state, key, old)
        forget_shape(state, old.shape)


def _left(state: State, pod: Pod, touched: Touched) -> None:
    """A pod is no longer there: its room may help somebody, or its node may be empty now."""
    if not pod.node or pod.daemon:
        return
    node = state.nodes.get(pod.node)
    emptied = node is not None and bool(node.group) and pod.node not in index_of(state).busy
    if emptied or someone_waits(state) or chunks_lack(state):
        wake(state, touched)


def someone_waits(state: State) -> bool:
    return (
        bool(index_of(state).waiting)
        or bool(state.idle)
        or any(request.accepted and not request.booked for request in state.requests.values())
    )


def chunks_lack(state: State) -> bool:
    """Whether room that comes free may be a buffer's."""
    return any(buffer.ready < buffer.wanted for buffer in state.buffers.values())


def _node(state: State, event: f.NodeObserved, touched: Touched) -> None:
    state.scan.told = state.scan.told or event.delays is not None
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
        doomed=_doomed(state, index.owner.get(event.provider_id, NO_GROUP), event.provider_id),
        provider_id=event.provider_id,
        seen_at=old.seen_at if old is not None else event.at,
        group=index.owner.get(event.provider_id, NO_GROUP),
        delays=event.delays,
        # As with pods: what a state of before does not have is not taken from facts of before.
        uid="" if event.delays is None else event.uid,
    )
    if old is not None and (node.unschedulable or node.leaving or not node.ready):
        _remember(state, event.name, old, event.at)
    state.nodes[event.name] = node
    reserved.seen(state, event.name, event.annotations)
    if old is not None and old.provider_id != node.provider_id:
        leave_machine(index, old.provider_id, event.name)
    add_node(state, index, event.name, node)
    if old is None:
        reseat(state, index, event.name)
    removals.seen(state, event.name, node, touched)
    wake(state, touched)


def _doomed(state: State, group: NodeGroupId, instance: str) -> bool:
    """Whether the instance of a node is being deleted."""
    known = state.groups.get(group)
    return known is not None and (instance in known.deleting or instance in known.going)


def _remember(state: State, name: str, node: Node, now: float) -> None:
    """What a good node of its group looked like, as a template for when the group has none. Spec 3.5, 2.

    The last one, and the one that had been ready for longest: how long is long enough is judged when one is needed.
    """
    group = state.groups.get(node.group)
    if group is None or not node.ready or node.unschedulable or node.leaving:
        return
    if unripe(index_of(state), name, node, awaited(group)):
        return
    pattern = Pattern(
        template=p.TemplateNode(
            labels=node.labels,
            taints=node.taints,
            allocatable=node.allocatable,
            devices=index_of(state).claims.offers.template_devices(name),
        ),
        ready_s=now - node.ready_changed_at,
    )
    longest = max((pattern, *group.patterns), key=lambda known: known.ready_s)
    group.patterns = (pattern,) if longest is pattern else (pattern, longest)


def _node_gone(state: State, event: f.NodeGone, touched: Touched) -> None:
    old = state.nodes.pop(event.name, None)
    state.marks.pop(event.name, None)
    if old is not None:
        consolidating.node_gone(state, event.name, old)
    removals.gone(state, event.name)
    state.unneeded.pop(event.name, None)
    state.paused.pop(event.name, None)
    state.scan.skipped.pop(event.name, None)
    if old is not None:
        _remember(state, event.name, old, event.at)
        remove_node(index_of(state), event.name, old)
        wake(state, touched)


LOOKS_AFTER_UNKNOWN = 2
"""So many looks in a row must have shown one size before a group whose order's answer was lost is asked again."""


def _cloud(state: State, event: p.CloudObserved, touched: Touched) -> None:
    before = state.clouds.get(event.name)
    if event.error != (before.error if before is not None else ""):
        wake(state, touched)
    state.clouds[event.name] = CloudState(
        kind=event.kind,
        state=event.state,
        error=event.error,
        message=event.message,
        refreshed=event.refreshed,
    )
    for name, group in state.groups.items():
        rest = group.rest
        if rest is None or group.cloud != event.name or group.error or event.refreshed <= rest.since:
            continue
        seen = rest.seen + 1 if rest.seen and rest.size == group.target_size else 1
        group.rest = Rest(since=rest.since, size=group.target_size, seen=seen)
        if seen >= LOOKS_AFTER_UNKNOWN:
            group.rest = None
            wake(state, touched)
            removals.group_changed(state, name, touched)


def _cloud_gone(state: State, event: p.CloudGone, _touched: Touched) -> None:
    state.clouds.pop(event.name, None)


def _group(state: State, event: p.NodeGroupObserved, touched: Touched) -> None:
    name = NodeGroupId(event.name)
    new = name not in state.groups
    group = state.groups.setdefault(name, GroupState())
    before = (group.target, group.instances, group.max_size, group.min_size, group.error)
    group.min_size, group.max_size = event.min_size, event.max_size
    group.zero_or_max, group.allow_non_atomic = event.zero_or_max, event.allow_non_atomic
    group.max_provision_s, group.price_micro = event.max_provision_s, event.price_micro
    group.atomic_increase, group.autoprovisioned = event.atomic_increase, event.autoprovisioned
    group.exists, group.machine_type = event.exists, event.machine_type
    group.template, group.error, group.cloud = event.template, event.error, event.cloud
    group.message, group.ignored = event.message, event.ignored
    if not event.error and group.own != event.own:
        group.own = event.own
        for its in [its for its, node in state.nodes.items() if node.group == name]:
            index_of(state).node_changed(its)
        wake(state, touched)
    if not event.error:  # what could not be read says nothing new about sizes
        if event.target_size >= (group.initial if group.observed_at else event.initial):
            group.initial = 0
        elif (
            not group.observed_at and name not in state.begun
        ):  # what was taken away since is not brought back
            group.initial = event.initial
        if event.initial and not group.initial:
            state.begun[name] = None
        machines_there = event.machines
        gone = {i.id for i in group.instances} - {i.id for i in machines_there}
        group.target_size, group.instances = event.target_size, machines_there
        group.observed_at = event.at
        answered = group.answered_at is not None and group.answered_at < event.at
        if group.wanted is not None and (answered or group.wanted == event.target_size):
            group.wanted = group.answered_at = None
        there = {instance.id for instance in machines_there}
        index = index_of(state)
        machines = index.machines
        for instance_id in gone:
            if index.owner.get(instance_id) == name:
                del index.owner[instance_id]
        for instance in machines_there:
            index.owner[instance.id] = name
            node = state.nodes.get(machines.get(instance.id, ""))
            if node is not None and node.group != name:
                node.group = name
                index.claims.stale_nodes.add(machines[instance.id])
                index.node_changed(machines[instance.id])
            elif node is not None and new:
                index.node_changed(machines[instance.id])
        group.since = {i.id: group.since.get(i.id, event.at) for i in machines_there if i.id not in machines}
        group.deleting = {
            instance_id: at for instance_id, at in group.deleting.items() if instance_id in there
        }
        group.going = tuple(i.id for i in machines_there if i.state == "deleting")
        doom(state, index, group)
        registered = sum(instance_id in machines for instance_id in there)
        pair, seen = wrong_size(registered, event.target_size, len(group.since)), group.wrong
        known = (seen[:2], seen[2]) if seen is not None else None
        group.wrong = (*pair, first_observed(known, pair, event.at)) if pair is not None else None
    if before != (group.target, group.instances, group.max_size, group.min_size, group.error):
        wake(state, touched)
        removals.group_changed(state, name, touched)


def _group_gone(state: State, event: p.NodeGroupGone, touched: Touched) -> None:
    name = NodeGroupId(event.name)
    group = state.groups.pop(name, None)
    removals.forget_group(state, name)
    forget_limit(state, name)
    owner = index_of(state).owner
    for instance in group.instances if group is not None else ():
        if owner.get(instance.id) == name:
            del owner[instance.id]
    # Its open increase is closed by the next evaluation, which tells the requests that it was for.
    plans = []
    for plan, execution in state.executions.items():
        # One that is over was told already, and what is to become of its nodes is told when its increase is closed.
        if any(
            step.group == name and step.status in (saga.WAITING, saga.ORDERED) for step in execution.steps
        ):
            saga.answered(execution, name, applied=False, error=f"group {name} is gone", reason="NotFound")
            plans.append(plan)
    touched.plans = tuple(sorted(plans))
    removals.group_changed(state, name, touched)
    wake(state, touched)


def _request(state: State, event: p.ProvisioningRequestObserved, touched: Touched) -> None:
    key = request_key(event.namespace, event.name)
    conditions = cond.parse(event.status.get("conditions"))
    details = event.status.get("provisioningClassDetails")
    request = state.requests.get(key)
    if request is None or request.uid != event.uid:
        request = Request(
            uid=event.uid,
            created_at=event.created_at or event.at,
            seen_at=event.at,
            class_name=str(event.spec.get("provisioningClassName", "")),
            spec=event.spec,
            conditions=conditions,
            details={name: text for name, text in details.items() if isinstance(text, str)}
            if isinstance(details, Mapping)
            else {},
        )
        request.booked = cond.is_true(conditions, cond.PROVISIONED)
        before = state.requests.get(key)
        if before is not None:
            set_sets(state, before, ())
        state.requests[key] = request
        wake(state, touched)
    else:
        if event.spec != request.spec and not request.respecified:
            request.respecified = True
            touched.respecified = key
        _conditions_of_others(state, request, conditions, touched)
    request.generation = event.generation
    if request.annotations.get(MODE) != event.annotations.get(MODE):
        wake(state, touched)
    request.annotations = event.annotations
    request.controlled = event.controlled
    request.deleting = event.deleting_at is not None


def _conditions_of_others(
    state: State, request: Request, observed: tuple[cond.Condition, ...], touched: Touched
) -> None:
    """Take in what others wrote: their conditions as they are, ours only where we have none."""
    mine = tuple(c for c in request.conditions if cond.is_ours(c))
    provisioned = cond.find(observed, cond.PROVISIONED)
    if provisioned is not None and provisioned.status == "Unknown":
        mine = tuple(c for c in mine if c.type != cond.PROVISIONED)
    types = {c.type for c in mine}
    conditions = (*mine, *(c for c in observed if c.type not in types))
    if {c.type for c in conditions} - {c.type for c in request.conditions}:
        wake(state, touched)
    request.conditions = conditions


def _request_gone(state: State, event: p.ProvisioningRequestGone, touched: Touched) -> None:
    # The request itself leaves the state with the decision that answers this (ReleaseCapacity).
    request = state.requests.get(request_key(event.namespace, event.name))
    if request is not None:
        request.deleting = True
        wake(state, touched)


def _class(state: State, event: p.ProvisioningClassObserved, touched: Touched) -> None:
    parameters = event.spec.get("parameters")
    # A definition need not say what they are.
    presets = parameters if isinstance(parameters, Mapping) else {}
    state.classes[event.name] = {str(k): str(v) for k, v in presets.items()}
    wake(state, touched)


def _class_gone(state: State, event: p.ProvisioningClassGone, _touched: Touched) -> None:
    state.classes.pop(event.name, None)


def _template(state: State, event: p.PodTemplateObserved, touched: Touched) -> None:
    state.templates[key_of(event.namespace, event.name)] = event.template
    if any(not request.accepted for request in state.requests.values()):
        wake(state, touched)
    buffers.template_seen(state, event, touched)


def _template_gone(state: State, event: p.PodTemplateGone, touched: Touched) -> None:
    state.templates.pop(key_of(event.namespace, event.name), None)
    buffers.template_gone(state, event, touched)


def _daemon(state: State, event: p.DaemonSetObserved, _touched: Touched) -> None:
    state.daemons[key_of(event.namespace, event.name)] = event.template


def _daemon_gone(state: State, event: p.DaemonSetGone, _touched: Touched) -> None:
    state.daemons.pop(key_of(event.namespace, event.name), None)


def _quota(state: State, event: p.ResourceQuotaObserved, touched: Touched) -> None:
    state.quotas[key_of(event.namespace, event.name)] = QuotaState(event.hard, event.used, event.scopes)
    buffers.quota_changed(state, event.namespace, touched)


def _quota_gone(state: State, event: p.ResourceQuotaGone, touched: Touched) -> None:
    state.quotas.pop(key_of(event.namespace, event.name), None)
    buffers.quota_changed(state, event.namespace, touched)


def _budget(state: State, event: p.PodDisruptionBudgetObserved, touched: Touched) -> None:
    key = key_of(event.namespace, event.name)
    before = state.budgets.get(key)
    state.budgets[key] = Budget(
        event.selector, event.allowed, event.behind, event.unhealthy_always, at=event.at
    )
    other = before is not None and before.selector != event.selector
    if event.allowed > 0 or event.unhealthy_always or other:  # else nobody may go who could not before
        removals.budget_changed(state, event.namespace, touched)


def _budget_gone(state: State, event: p.PodDisruptionBudgetGone, touched: Touched) -> None:
    state.budgets.pop(key_of(event.namespace, event.name), None)
    removals.budget_changed(state, event.namespace, touched)


def _workload(state: State, event: f.WorkloadObserved, touched: Touched) -> None:
    buffers.workload(state, event, touched)
    workloads.seen(state, event, touched)
    key = owner_key(event.kind, event.namespace, event.name)
    if state.replicas.get(key) != event.replicas:
        state.replicas[key] = event.replicas
        _owner_changed(state, key)


def _workload_gone(state: State, event: f.WorkloadGone, touched: Touched) -> None:
    buffers.workload(state, event, touched)
    key = owner_key(event.kind, event.namespace, event.name)
    if not workloads.gone(state, event, key):
        return
    if state.replicas.pop(key, None) is not None:
        _owner_changed(state, key)


def _owner_changed(state: State, key: str) -> None:
    if state.beside.index is not None:
        state.beside.index.owner_changed(key)


def _config(state: State, event: ConfigSet, touched: Touched) -> None:
    if event.name == "provisioning":
        state.config = event.data
        state.foreseen.clear()
        touched.removals += state.removals
    elif event.name == "cluster-autoscaler-priority-expander":
        priorities = event.data.get("priorities")
        # Nothing there, or nothing that can be read: the expander says so, and keeps all groups.
        state.priorities = priorities if isinstance(priorities, dict) else None
    else:
        return
    forget_index(state)
    wake(state, touched)


FACTS: dict[type[Event], Callable[[State, Any, Touched], None]] = {
    f.ShapeObserved: _shape,
    f.ShapeGone: _shape_gone,
    f.PodObserved: _pod,
    f.PodGone: _pod_gone,
    f.NodeObserved: _node,
    f.NodeGone: _node_gone,
    p.CloudObserved: _cloud,
    p.CloudGone: _cloud_gone,
    p.NodeGroupObserved: _group,
    p.NodeGroupGone: _group_gone,
    p.ProvisioningRequestObserved: _request,
    p.ProvisioningRequestGone: _request_gone,
    p.CapacityBufferObserved: buffers.observed,
    p.CapacityBufferGone: buffers.gone,
    p.ProvisioningClassObserved: _class,
    p.ProvisioningClassGone: _class_gone,
    p.PodTemplateObserved: _template,
    p.PodTemplateGone: _template_gone,
    p.DaemonSetObserved: _daemon,
    p.DaemonSetGone: _daemon_gone,
    p.ResourceQuotaObserved: _quota,
    p.ResourceQuotaGone: _quota_gone,
    p.PodDisruptionBudgetObserved: _budget,
    p.PodDisruptionBudgetGone: _budget_gone,
    f.WorkloadObserved: _workload,
    f.WorkloadGone: _workload_gone,
    f.TemplateObserved: workloads.template,
    WorkloadSpreadObserved: workloads.spread,
    WorkloadSpreadGone: workloads.spread_gone,
    TargetReplicasObserved: workloads.target_replicas,
    KindRefused: workloads.refused,
    ConfigSet: _config,
}
