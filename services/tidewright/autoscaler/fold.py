"""`evolve`: how each event changes the state, and which objects it makes look again.

An object looks again when a round of its metrics is complete (every query answered since the last
pass, or one of them twice), when its spec, its target's count or its gate changes, when its timer
fires, and when a pod changes while it waits for ready pods. A readiness that changes in between is
seen by the next pass: multiplied with a value measured before, it would give a wrong number sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any

import msgspec

from tidewright.autoscaler import conditions as c
from tidewright.autoscaler import holding, lifecycle, messages, passes
from tidewright.autoscaler.conditions import Change
from tidewright.autoscaler.index import NamespaceIndex, in_order
from tidewright.autoscaler.lifecycle import Monitor
from tidewright.autoscaler.ownership import ancestors, of_owners, references
from tidewright.autoscaler.plan import Plan
from tidewright.autoscaler.policy import of_config
from tidewright.autoscaler.readiness import Pod, skips_owner_check
from tidewright.autoscaler.spec import InvalidSpec, Rules, compiled, missing_defaults, target_key
from tidewright.autoscaler.state import Autoscaler, Namespace, Ordered, PodGroup, State, Workload, bind
from tidewright.autoscaler.status import read
from tidewright.events.acting import MODE, NOT_DONE, of_annotation
from tidewright.events.base import Because, Event
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import (
    CancelTimer,
    HoldReplicas,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.facts import (
    DatadogMonitorGone,
    DatadogMonitorObserved,
    MetricSampled,
    PodGone,
    PodObserved,
    RecommendationReceived,
    WatermarkPodAutoscalerGone,
    WatermarkPodAutoscalerObserved,
    WorkloadGone,
    WorkloadObserved,
)
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.events.timers import TimerFired

CONFIG = "autoscaler"
KIND = "WatermarkPodAutoscaler"
FINALIZER = "finalizer.watermarkpodautoscaler.datadoghq.com"
TIMER = "wpa/"


def evolve(state: State, event: Event) -> State:
    """Fold one event; what is none of ours changes nothing."""
    if state.plans:
        state.plans.clear()
    if event.at > state.now:
        state.now = event.at
    state.__dict__["refreshing"] = getattr(event, "refresh", False)  # what is no fact has none
    handler = HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event)
    return state


def _config(state: State, event: ConfigSet) -> None:
    if event.name != CONFIG:
        return
    walks = state.in_force.walk_owner_chain
    state.policy = of_config(event.data)
    if state.policy.walk_owner_chain is not walks:
        for index in state.indices.values():
            for view in index.views.values():
                view.forget()


def _metric(state: State, event: MetricSampled) -> None:
    namespace, index = state.namespace(event.namespace)
    namespace.samples[event.name] = event
    if event.refresh:
        return
    for name in in_order(index.by_query.get(event.name, ())):
        found = namespace.objects[name]
        if _completes_round(found, event.name):
            passes.run(state, event.namespace, found)


def _completes_round(found: Autoscaler, query: str) -> bool:
    """Whether every query was answered since the last pass, or this one twice.

    So the order in which the answers of one round arrive changes nothing, and one metric that is
    no longer answered does not stop the others.
    """
    rules = found.rules
    if rules is None:
        return False
    if len(rules.metrics) == 1 or query in found.fresh:
        return True
    found.fresh = (*found.fresh, query)
    return len(found.fresh) == len({metric.query for metric in rules.metrics})


def _recommendation(state: State, event: RecommendationReceived) -> None:
    namespace, _ = state.namespace(event.namespace)
    namespace.recommendations[event.name] = event
    found = namespace.objects.get(event.name)
    if found is not None and found.rules is not None and found.rules.recommender:
        passes.run(state, event.namespace, found)


def _pod(state: State, event: PodObserved) -> None:
    namespace, index = state.namespace(event.namespace)
    name = event.name
    key = index.group_of.get(name)
    group = None if key is None else namespace.groups[key]
    if group is None or group.labels != event.labels:
        if key is not None:
            _drop_pod(state, event.namespace, namespace, index, name, key)
        key = label_key(event.labels)
        group = namespace.groups.get(key)
        if group is None:
            group = namespace.groups[key] = PodGroup(event.labels, {})
            index.add_group(key, event.labels)
        index.group_of[name] = key
    known = group.pods.get(name)
    pod = project(event, known)
    if pod == known:
        return
    group.pods[name] = pod
    _pods_changed(state, event.namespace, namespace, index, key or "")


def project(event: PodObserved, known: Pod | None) -> Pod:
    """The part of a pod that counts."""
    ready = event.ready
    owners, references = of_owners(event.owners)
    return Pod(
        event.name if known is None else known.name,
        owners,
        event.phase,
        "" if ready is None else "True" if ready else "False",
        event.ready_changed_at or 0.0,
        event.started_at,
        event.deleting_at is not None,
        references,
    )


def label_key(labels: dict[str, str]) -> str:
    """One text per set of labels."""
    return ",".join([f"{key}={labels[key]}" for key in sorted(labels)])


def _pod_gone(state: State, event: PodGone) -> None:
    namespace, index = state.namespace(event.namespace)
    key = index.group_of.get(event.name)
    if key is not None:
        _drop_pod(state, event.namespace, namespace, index, event.name, key)


def _drop_pod(
    state: State, namespace_name: str, namespace: Namespace, index: NamespaceIndex, name: str, key: str
) -> None:
    group = namespace.groups[key]
    del group.pods[name]
    del index.group_of[name]
    _pods_changed(state, namespace_name, namespace, index, key)
    if not group.pods:
        del namespace.groups[key]
        index.drop_group(key)


def _pods_changed(
    state: State, namespace_name: str, namespace: Namespace, index: NamespaceIndex, key: str
) -> None:
    for name in index.watchers(key):
        index.views[name].forget()
        found = namespace.objects[name]
        if found.awaits_pods:
            passes.run(state, namespace_name, found)


def _workload(state: State, event: WorkloadObserved) -> None:
    namespace, index = state.namespace(event.namespace)
    key = target_key(event.api_version, event.kind, event.name)
    known = namespace.workloads.get(key)
    namespace.unreadable.pop(key, None)
    namespace.workloads[key] = Workload(
        intern(event.api_version),
        intern(event.kind),
        event.name,
        event.uid,
        event.replicas,
        event.status_replicas,
        event.selector,
        references(event.owners),
    )
    if state.in_force.walk_owner_chain:
        _chain_changed(state, event.namespace, key, known, namespace.workloads[key])
    names = in_order(index.by_target.get(key, ()))
    if not names:
        return
    if known is None or known.selector != event.selector:
        for name in names:
            bind(namespace, index, namespace.objects[name])
    if known is None or known.uid != event.uid or known.replicas != event.replicas:
        for name in names:
            found = namespace.objects[name]
            if found.evaluated or known is None:
                passes.run(state, event.namespace, found)


def _chain_changed(
    state: State, namespace_name: str, key: str, before: Workload | None, after: Workload | None
) -> None:
    """An object came, went or has other owners: targets that it leads to may have other pods.

    The target itself looks again by its own fact, and for its pods only what waits for some.
    """
    if before is not None and after is not None and (before.uid, before.owners) == (after.uid, after.owners):
        return
    namespace, index = state.namespace(namespace_name)
    led_to = {
        target
        for workload in (before, after)
        if workload is not None
        for target in ancestors(namespace.workloads, workload.owners)
    }
    for target in sorted(led_to | {key}):
        for name in in_order(index.by_target.get(target, ())):
            index.views[name].forget()
            if target != key and namespace.objects[name].awaits_pods:
                passes.run(state, namespace_name, namespace.objects[name])


def _workload_gone(state: State, event: WorkloadGone) -> None:
    namespace, index = state.namespace(event.namespace)
    key = target_key(event.api_version, event.kind, event.name)
    gone = namespace.workloads.pop(key, None)
    if event.reason:
        namespace.unreadable[key] = event.reason
    if gone is not None and state.in_force.walk_owner_chain:
        _chain_changed(state, event.namespace, key, gone, None)
    for name in in_order(index.by_target.get(key, ())):
        found = namespace.objects[name]
        bind(namespace, index, found)
        found.ordered = None
        if gone is not None or event.reason:
            passes.run(state, event.namespace, found)


def _monitor(state: State, event: DatadogMonitorObserved) -> None:
    namespace, _ = state.namespace(event.namespace)
    known = namespace.monitors.get(event.name)
    namespace.monitors[event.name] = Monitor(event.state)
    if namespace.monitors[event.name] != known:
        _gate_changed(state, event.namespace, namespace, event.name)


def _monitor_gone(state: State, event: DatadogMonitorGone) -> None:
    namespace, _ = state.namespace(event.namespace)
    namespace.monitors[event.name] = Monitor(error=event.reason or f'DatadogMonitor "{event.name}" not found')
    _gate_changed(state, event.namespace, namespace, event.name)


def _gate_changed(state: State, namespace_name: str, namespace: Namespace, name: str) -> None:
    found = namespace.objects.get(name)
    if found is not None and found.lifecycle is not None:
        passes.run(state, namespace_name, found)


def _object(state: State, event: WatermarkPodAutoscalerObserved) -> None:
    namespace, index = state.namespace(event.namespace)
    found = namespace.objects.get(event.name)
    if found is None or (event.uid and found.uid and found.uid != event.uid):
        found = Autoscaler(name=event.name, uid=event.uid, kept=read(event.status))
        found.shown = None
        namespace.objects[event.name] = found
        found.mode = event.annotations.get(MODE, "")
    was_held, mode = holding.held(state, event.namespace, found), found.mode
    found.mode = event.annotations.get(MODE, "")
    if not was_held.acts:
        found.real = read(event.status)
    before = (found.rules, found.problem, found.lifecycle, found.skip_owner_check, found.deleting)
    found.created_at = event.created_at or 0.0
    found.finalizers = event.finalizers if event.deleting_at is not None else ()
    found.deleting = event.deleting_at is not None
    found.lifecycle = event.annotations.get(lifecycle.ANNOTATION)
    found.skip_owner_check = skips_owner_check(event.annotations)
    found.labels = event.labels
    changed = not event.generation or event.generation != found.generation
    if changed or found.rules is None or mode != found.mode:
        _read_spec(found, event, strict=state.in_force.strict)
        found.generation = event.generation
    if before == (found.rules, found.problem, found.lifecycle, found.skip_owner_check, found.deleting):
        holding.changed(state, event.namespace, found, was_held)
        return
    rivals = _rivals(index, before[0], found.rules)
    bind(namespace, index, found)
    if found.deleting:
        _let_go(state, event.namespace, found)
    else:
        if state.in_force.strict and found.missing:
            _write_defaults(state, event.namespace, found)
        if was_held == holding.held(state, event.namespace, found):
            passes.run(state, event.namespace, found)
        else:
            holding.changed(state, event.namespace, found, was_held)
    _rivals_look(state, event.namespace, rivals - {found.name})


def _read_spec(found: Autoscaler, event: WatermarkPodAutoscalerObserved, *, strict: bool) -> None:
    try:
        rules = compiled(event.spec, namespace=event.namespace, name=event.name)
    except InvalidSpec as error:
        found.rules, found.problem, found.missing = None, str(error), {}
        return
    if of_annotation(event.annotations).mode == "dry-run":
        rules = msgspec.structs.replace(rules, dry_run=True)
    if rules != found.rules:
        found.rules = rules
        found.fresh = ()
    found.problem = ""
    found.missing = missing_defaults(event.spec) if strict else {}


def _rivals(index: NamespaceIndex, *rules: Rules | None) -> set[str]:
    """Objects on the targets of these rules."""
    return {name for r in rules if r is not None for name in index.by_target.get(r.target_key, ())}


def _rivals_look(state: State, namespace_name: str, names: set[str]) -> None:
    namespace, _ = state.namespace(namespace_name)
    for name in sorted(names):
        passes.run(state, namespace_name, namespace.objects[name])


def _let_go(state: State, namespace_name: str, found: Autoscaler) -> None:
    """The object is being deleted: what another controller left on it must not keep it (D32)."""
    plan = Plan(namespace=namespace_name, found=found, quiet=True)
    if FINALIZER in found.finalizers:
        plan.patch = {"metadata": {"finalizers": [f for f in found.finalizers if f != FINALIZER] or None}}
        plan.why = (Because(rule="FinalizerReleased", values={"finalizer": FINALIZER}),)
    state.plans.append(plan)


def _write_defaults(state: State, namespace_name: str, found: Autoscaler) -> None:
    """What the user left out goes into the stored spec, as the reference does it (D29)."""
    state.plans.append(
        Plan(
            namespace=namespace_name,
            found=found,
            quiet=True,
            keep_timer=True,
            patch={"spec": dict(found.missing)},
            why=(Because(rule="DefaultsWritten", values=dict(found.missing)),),
        )
    )


def _object_gone(state: State, event: WatermarkPodAutoscalerGone) -> None:
    namespace, index = state.namespace(event.namespace)
    found = namespace.objects.get(event.name)
    if found is None or (event.uid and found.uid and event.uid != found.uid):
        return
    rivals = _rivals(index, found.rules) - {found.name}
    index.unbind(found.name)
    del namespace.objects[found.name]
    namespace.recommendations.pop(found.name, None)
    for decision in (found.status_decision, found.ordered.decision if found.ordered else ""):
        state.awaited.pop(decision, None)
    if found.timer_due is not None:
        state.plans.append(Plan(namespace=event.namespace, found=found, gone=True))
    _rivals_look(state, event.namespace, rivals)


def _timer(state: State, event: TimerFired) -> None:
    if not event.key.startswith(TIMER):
        return
    namespace_name, _, name = event.key[len(TIMER) :].partition("/")
    namespace = state.namespaces.get(namespace_name)
    found = None if namespace is None else namespace.objects.get(name)
    if found is None or found.timer_due is None or event.at < found.timer_due:
        return  # replaced or cancelled just before it fired
    found.timer_due = None
    passes.run(state, namespace_name, found)


# What our own decisions change.


def owned(state: State, owner: str) -> Autoscaler | None:
    """The object of `namespace/name`, if it is there."""
    namespace_name, _, name = owner.partition("/")
    namespace = state.namespaces.get(namespace_name)
    return None if namespace is None else namespace.objects.get(name)


def _ordered(state: State, event: ScaleWorkload) -> None:
    owner = event.owner.removeprefix(f"{KIND}/")
    found = owned(state, owner)
    if found is None:
        return
    found.hold = ""
    if event.dry_run and (not event.shadow or found.rules is None or found.rules.dry_run):
        return  # the pass has remembered what follows; in shadow that follows the outcome
    steps = [step.values for step in event.because if step.rule == "ScaleDecided"]
    reason = steps[-1].get("reason", "") if steps else ""
    found.ordered = Ordered(event.id, event.at, event.replicas, event.from_replicas, str(reason))
    if event.id:
        state.awaited[event.id] = owner


def _status_ordered(state: State, event: SetStatus) -> None:
    owner = f"{event.target.namespace}/{event.target.name}"
    found = owned(state, owner) if event.target.kind == KIND else None
    if found is None:
        return
    found.dirty = Change.NONE
    found.written_at = event.at
    found.shown = found.kept.utilizations
    state.awaited.pop(found.status_decision, None)
    found.status_decision = event.id
    if event.id:
        state.awaited[event.id] = owner


def _held(state: State, event: HoldReplicas) -> None:
    found = owned(state, f"{event.target.namespace}/{event.target.name}")
    if found is not None and event.target.kind == KIND:
        found.hold = event.reason


def _told(state: State, event: RecordObjectEvent) -> None:
    found = owned(state, f"{event.target.namespace}/{event.target.name}")
    if found is not None and event.target.kind == KIND:
        found.said[event.reason] = event.message


def _timer_set(state: State, event: SetTimer) -> None:
    if event.key.startswith(TIMER):
        found = owned(state, event.key[len(TIMER) :])
        if found is not None:
            found.timer_due = event.due


def _timer_cancelled(state: State, event: CancelTimer) -> None:
    if event.key.startswith(TIMER):
        found = owned(state, event.key[len(TIMER) :])
        if found is not None:
            found.timer_due = None


# What came of them.


def _outcome(state: State, event: Applied | Rejected | Failed | Superseded) -> None:
    owner = state.awaited.pop(event.decision, None)
    found = None if owner is None else owned(state, owner)
    if owner is None or found is None:
        return
    namespace_name = owner.partition("/")[0]
    if found.ordered is not None and found.ordered.decision == event.decision:
        _scaled(state, namespace_name, found, found.ordered, event)
    elif found.status_decision == event.decision:
        found.status_decision = ""
        if isinstance(event, Rejected | Failed):
            found.dirty = max(found.dirty, Change.TEXT)


def _scaled(
    state: State,
    namespace_name: str,
    found: Autoscaler,
    ordered: Ordered,
    event: Applied | Rejected | Failed | Superseded,
) -> None:
    found.ordered = None
    if isinstance(event, Superseded) or found.rules is None or found.deleting:
        return
    policy = state.in_force
    plan = Plan(namespace=namespace_name, found=found)
    if isinstance(event, Applied):
        setting = c.scaled(ordered.replicas)
        plan.messages = (messages.scaling(ordered.replicas, ordered.reason, strict=policy.strict),)
        if event.reason in NOT_DONE:
            plan.messages = ()
        else:
            namespace, _ = state.namespace(namespace_name)
            workload = namespace.workloads.get(found.rules.target_key)
            if workload is not None:
                workload.replicas = ordered.replicas
            found.added += max(0, ordered.replicas - ordered.from_replicas)
            found.removed += max(0, ordered.from_replicas - ordered.replicas)
        found.kept.last_scale_at = float(ordered.at // 1) if policy.strict else ordered.at
        found.kept.scaling_events += 1
        found.kept.desired = ordered.replicas
        windows = (found.rules.up_window_s, found.rules.down_window_s)
        ends = [found.kept.last_scale_at + window for window in windows]
        plan.due = min((end for end in ends if end > state.now), default=None)
    else:
        error = event.message or event.reason
        setting = c.scale_failed(error)
        plan.messages = (messages.failed_scale(ordered.replicas, ordered.reason, error),)
        plan.keep_timer = True
    passes.settle_conditions(state, namespace_name, found, [setting], strict=policy.strict)
    found.dirty = Change.STATUS
    state.plans.append(plan)


HANDLERS: dict[type[Event], Callable[[State, Any], None]] = {
    ConfigSet: _config,
    ModesSet: holding.acting_set,
    IncumbentObserved: holding.acting_set,
    MetricSampled: _metric,
    RecommendationReceived: _recommendation,
    PodObserved: _pod,
    PodGone: _pod_gone,
    WorkloadObserved: _workload,
    WorkloadGone: _workload_gone,
    DatadogMonitorObserved: _monitor,
    DatadogMonitorGone: _monitor_gone,
    WatermarkPodAutoscalerObserved: _object,
    WatermarkPodAutoscalerGone: _object_gone,
    TimerFired: _timer,
    ScaleWorkload: _ordered,
    SetStatus: _status_ordered,
    HoldReplicas: _held,
    RecordObjectEvent: _told,
    SetTimer: _timer_set,
    CancelTimer: _timer_cancelled,
    Applied: _outcome,
    Rejected: _outcome,
    Failed: _outcome,
    Superseded: _outcome,
}
