"""`evolve`: how each event changes the state, and which objects it makes look again.

An object looks again when a round of its metrics is complete (every query answered since it looked
last, or one of them twice), when its spec, its target's count or its gate changes, when its timer
fires, and when a pod changes while it waits for ready pods. A readiness that changes in between is
seen by the next look: multiplied with a value measured before, it would give a wrong number sooner.

Nothing is judged here: what policy has made of the facts is folded from the decisions that say it.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any

import msgspec

from tidewright.autoscaler import holding
from tidewright.autoscaler.api.conditions import Change
from tidewright.autoscaler.api.spec import LIFECYCLE, InvalidSpec, Rules, parsed, target_key
from tidewright.autoscaler.api.status import read, take_over
from tidewright.autoscaler.fold import modes
from tidewright.autoscaler.fold.index import NamespaceIndex, in_order
from tidewright.autoscaler.fold.ownership import ancestors, of_owners, references
from tidewright.autoscaler.fold.touched import NOTHING, Ended, Touched, looking
from tidewright.autoscaler.holds import AWAITING_PODS, FAILURES, INVALID_SPEC, READY_GUARD, UNCOMPUTED
from tidewright.autoscaler.policy import of_config
from tidewright.autoscaler.state import (
    Autoscaler,
    Monitor,
    Namespace,
    Ordered,
    PodGroup,
    State,
    Workload,
    bind,
    is_sampled,
)
from tidewright.events.acting import MODE, NOT_DONE, of_annotation
from tidewright.events.base import Event, Fact
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import (
    CancelTimer,
    Concluded,
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
from tidewright.kube.readiness import Pod, skips_owner_check

CONFIG = "autoscaler"
KIND = "WatermarkPodAutoscaler"
TIMER = "wpa/"


def evolve(state: State, event: Event) -> Touched:
    """Fold one event; what is none of ours changes nothing."""
    if event.at > state.now:
        state.now = event.at
    handler = HANDLERS.get(type(event))
    if handler is None:
        return NOTHING
    touched = handler(state, event)
    if touched.looks and not (isinstance(event, Fact) and event.refresh):
        _begin_rounds(state, touched)
    return touched


def _begin_rounds(state: State, touched: Touched) -> None:
    """Whoever looks, and is not held up by a scale on its way, waits for a whole round of answers from then on."""
    for namespace_name, scaler in touched.looks:
        rules = scaler.rules
        if scaler.fresh and scaler.ordered is None and rules is not None:
            namespace, _ = state.namespace(namespace_name)
            if is_sampled(namespace, scaler, rules):
                scaler.fresh = ()


def _config(state: State, event: ConfigSet) -> Touched:
    if event.name == CONFIG:
        state.policy = of_config(event.data)
        for index in state.indices.values():
            for view in index.views.values():
                view.forget()
                view.settings = None
    return NOTHING


def _metric(state: State, event: MetricSampled) -> Touched:
    namespace, index = state.namespace(event.namespace)
    namespace.samples[event.name] = event
    if event.refresh:
        return NOTHING
    looks = [
        (event.namespace, namespace.objects[name])
        for name in in_order(index.by_query.get(event.name, ()))
        if _completes_round(namespace.objects[name], event.name)
    ]
    return Touched(looks=tuple(looks)) if looks else NOTHING


def _completes_round(scaler: Autoscaler, query: str) -> bool:
    """Whether every query was answered since it looked last, or this one twice.

    So the order in which the answers of one round arrive changes nothing, and one metric that is
    no longer answered does not stop the others.
    """
    rules = scaler.rules
    if rules is None:
        return False
    if len(rules.metrics) == 1 or query in scaler.fresh:
        return True
    scaler.fresh = (*scaler.fresh, query)
    return len(scaler.fresh) == len({metric.query for metric in rules.metrics})


def _recommendation(state: State, event: RecommendationReceived) -> Touched:
    namespace, _ = state.namespace(event.namespace)
    namespace.recommendations[event.name] = event
    scaler = namespace.objects.get(event.name)
    if scaler is None or scaler.rules is None or not scaler.rules.recommender:
        return NOTHING
    return looking(event.namespace, scaler)


def _pod(state: State, event: PodObserved) -> Touched:
    namespace, index = state.namespace(event.namespace)
    name = event.name
    key = index.group_of.get(name)
    group = None if key is None else namespace.groups[key]
    before: tuple[str, ...] = ()
    if group is None or group.labels != event.labels:
        if key is not None:
            before = _drop_pod(namespace, index, name, key)
        key = label_key(event.labels)
        group = namespace.groups.get(key)
        if group is None:
            group = namespace.groups[key] = PodGroup(event.labels, {})
            index.add_group(key, event.labels)
        index.group_of[name] = key
    known = group.pods.get(name)
    pod = project(event, known)
    if pod == known:
        return NOTHING
    group.pods[name] = pod
    watchers = index.watchers(key or "")
    if before:
        watchers = tuple(sorted({*before, *watchers}))
    return _pods_changed(event.namespace, namespace, index, watchers)


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


def _pod_gone(state: State, event: PodGone) -> Touched:
    namespace, index = state.namespace(event.namespace)
    key = index.group_of.get(event.name)
    if key is None:
        return NOTHING
    return _pods_changed(event.namespace, namespace, index, _drop_pod(namespace, index, event.name, key))


def _drop_pod(namespace: Namespace, index: NamespaceIndex, name: str, key: str) -> tuple[str, ...]:
    """Forget a pod; names of the objects whose targets selected it."""
    group = namespace.groups[key]
    del group.pods[name]
    del index.group_of[name]
    watchers = index.watchers(key)
    if not group.pods:
        del namespace.groups[key]
        index.drop_group(key)
    return watchers


def _pods_changed(
    namespace_name: str, namespace: Namespace, index: NamespaceIndex, watchers: tuple[str, ...]
) -> Touched:
    looks: tuple[tuple[str, Autoscaler], ...] = ()
    for name in watchers:
        index.views[name].forget()
        if namespace.objects[name].awaits_pods:
            looks += ((namespace_name, namespace.objects[name]),)
    return Touched(looks=looks) if looks else NOTHING


def _workload(state: State, event: WorkloadObserved) -> Touched:
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
    owners = _chain_changed(
        event.namespace, namespace, index, key=key, before=known, after=namespace.workloads[key]
    )
    names = in_order(index.by_target.get(key, ()))
    if known is None or known.selector != event.selector:
        for name in names:
            bind(namespace, index, namespace.objects[name])
    looks: tuple[tuple[str, Autoscaler], ...] = ()
    if known is None or known.uid != event.uid or known.replicas != event.replicas:
        looks = tuple([(event.namespace, namespace.objects[name]) for name in names])
    return Touched(looks=looks, owners=owners) if looks or owners else NOTHING


def _chain_changed(
    namespace_name: str,
    namespace: Namespace,
    index: NamespaceIndex,
    *,
    key: str,
    before: Workload | None,
    after: Workload | None,
) -> tuple[tuple[str, Autoscaler], ...]:
    """An object came, went or has other owners: targets that it leads to may have other pods.

    The target itself looks again by its own fact, and for its pods only what waits for some.
    """
    if before is not None and after is not None and (before.uid, before.owners) == (after.uid, after.owners):
        return ()
    led_to = {
        target
        for workload in (before, after)
        if workload is not None
        for target in ancestors(namespace.workloads, workload.owners)
    }
    looks: list[tuple[str, Autoscaler]] = []
    for target in sorted(led_to | {key}):
        for name in in_order(index.by_target.get(target, ())):
            index.views[name].forget()
            if target != key and namespace.objects[name].awaits_pods:
                looks.append((namespace_name, namespace.objects[name]))
    return tuple(looks)


def _workload_gone(state: State, event: WorkloadGone) -> Touched:
    namespace, index = state.namespace(event.namespace)
    key = target_key(event.api_version, event.kind, event.name)
    gone = namespace.workloads.pop(key, None)
    if event.reason:
        namespace.unreadable[key] = event.reason
    owners: tuple[tuple[str, Autoscaler], ...] = ()
    if gone is not None:
        owners = _chain_changed(event.namespace, namespace, index, key=key, before=gone, after=None)
    looks: list[tuple[str, Autoscaler]] = []
    for name in in_order(index.by_target.get(key, ())):
        scaler = namespace.objects[name]
        bind(namespace, index, scaler)
        scaler.ordered = None
        if gone is not None or event.reason:
            looks.append((event.namespace, scaler))
    return Touched(looks=tuple(looks), owners=owners) if looks or owners else NOTHING


def _monitor(state: State, event: DatadogMonitorObserved) -> Touched:
    namespace, _ = state.namespace(event.namespace)
    known = namespace.monitors.get(event.name)
    namespace.monitors[event.name] = Monitor(event.state)
    if namespace.monitors[event.name] == known:
        return NOTHING
    return _gate_changed(event.namespace, namespace, event.name)


def _monitor_gone(state: State, event: DatadogMonitorGone) -> Touched:
    namespace, _ = state.namespace(event.namespace)
    namespace.monitors[event.name] = Monitor(error=event.reason or f'DatadogMonitor "{event.name}" not found')
    return _gate_changed(event.namespace, namespace, event.name)


def _gate_changed(namespace_name: str, namespace: Namespace, name: str) -> Touched:
    scaler = namespace.objects.get(name)
    return NOTHING if scaler is None or scaler.lifecycle is None else looking(namespace_name, scaler)


def _object(state: State, event: WatermarkPodAutoscalerObserved) -> Touched:
    namespace, index = state.namespace(event.namespace)
    scaler = namespace.objects.get(event.name)
    if scaler is None or (event.uid and scaler.uid and scaler.uid != event.uid):
        scaler = Autoscaler(name=event.name, uid=event.uid, kept=read(event.status))
        namespace.objects[event.name] = scaler
        scaler.mode = event.annotations.get(MODE, "")
    was_held, mode = holding.held(state, event.namespace, scaler), scaler.mode
    scaler.mode = event.annotations.get(MODE, "")
    if not was_held.acts:
        scaler.real = read(event.status)
    before = _asked(scaler)
    former = scaler.rules
    scaler.created_at = event.created_at or 0.0
    scaler.finalizers = event.finalizers if event.deleting_at is not None else ()
    scaler.deleting = event.deleting_at is not None
    scaler.lifecycle = event.annotations.get(LIFECYCLE)
    scaler.skip_owner_check = skips_owner_check(event.annotations)
    scaler.labels = event.labels
    changed = not event.generation or event.generation != scaler.generation
    refused = scaler.rules is None and scaler.asked == event.spec
    if (changed or scaler.rules is None or mode != scaler.mode) and not refused:
        _read_spec(scaler, event)
        if changed or scaler.rules is None or former is None:
            scaler.asked = event.spec
    scaler.generation = event.generation
    if before == _asked(scaler):
        held_anew = modes.changed(state, event.namespace, scaler, was_held)
        return looking(event.namespace, scaler) if held_anew else NOTHING
    rivals = _rivals(index, former, scaler.rules) - {scaler.name}
    bind(namespace, index, scaler)
    if not scaler.deleting:
        modes.changed(state, event.namespace, scaler, was_held)
    looks = () if scaler.deleting else ((event.namespace, scaler),)
    return Touched(
        namespace=event.namespace,
        altered=scaler,
        looks=looks + _all_of(event.namespace, namespace, rivals),
    )


def _asked(scaler: Autoscaler) -> tuple[Rules | None, str, str | None, bool, bool]:
    """What an object itself asks for."""
    return scaler.rules, scaler.problem, scaler.lifecycle, scaler.skip_owner_check, scaler.deleting


def _read_spec(scaler: Autoscaler, event: WatermarkPodAutoscalerObserved) -> None:
    try:
        rules = parsed(event.spec)
    except InvalidSpec as error:
        scaler.rules, scaler.problem = None, str(error)
        return
    if of_annotation(event.annotations).mode == "dry-run":
        rules = msgspec.structs.replace(rules, dry_run=True)
    if rules != scaler.rules:
        scaler.rules = rules
        scaler.fresh = ()
    scaler.problem = ""


def _rivals(index: NamespaceIndex, *rules: Rules | None) -> set[str]:
    """Objects on the targets of these rules."""
    return {name for r in rules if r is not None for name in index.by_target.get(r.target_key, ())}


def _all_of(namespace_name: str, namespace: Namespace, names: set[str]) -> tuple[tuple[str, Autoscaler], ...]:
    return tuple([(namespace_name, namespace.objects[name]) for name in sorted(names)])


def _object_gone(state: State, event: WatermarkPodAutoscalerGone) -> Touched:
    namespace, index = state.namespace(event.namespace)
    scaler = namespace.objects.get(event.name)
    if scaler is None or (event.uid and scaler.uid and event.uid != scaler.uid):
        return NOTHING
    rivals = _rivals(index, scaler.rules) - {scaler.name}
    index.unbind(scaler.name)
    del namespace.objects[scaler.name]
    namespace.recommendations.pop(scaler.name, None)
    for decision in (scaler.status_decision, scaler.ordered.decision if scaler.ordered else ""):
        state.awaited.pop(decision, None)
    return Touched(
        namespace=event.namespace,
        gone=None if scaler.timer_due is None else scaler,
        looks=_all_of(event.namespace, namespace, rivals),
    )


def _timer(state: State, event: TimerFired) -> Touched:
    if not event.key.startswith(TIMER):
        return NOTHING
    owner = event.key[len(TIMER) :]
    scaler = owned(state, owner)
    if scaler is None or scaler.timer_due is None or event.at < scaler.timer_due:
        return NOTHING  # replaced or cancelled just before it fired
    scaler.timer_due = None
    return looking(owner.partition("/")[0], scaler)


# What our own decisions change.


def owned(state: State, owner: str) -> Autoscaler | None:
    """The object of `namespace/name`, if it is there."""
    namespace_name, _, name = owner.partition("/")
    namespace = state.namespaces.get(namespace_name)
    return None if namespace is None else namespace.objects.get(name)


def _ordered(state: State, event: ScaleWorkload) -> Touched:
    owner = event.owner.removeprefix(f"{KIND}/")
    scaler = owned(state, owner)
    if scaler is None:
        return NOTHING
    if event.concluded is not None:
        _conclude(state, owner, scaler, event.concluded)
        scaler.dirty = max(scaler.dirty, Change.REASON)
    if scaler.hold in FAILURES and not any(step.rule == "MetricFailed" for step in event.because):
        scaler.said.clear()
    scaler.hold = ""
    _settle(scaler)
    scaler.awaits_pods = any(step.rule == READY_GUARD for step in event.because)  # a bound overrules it
    if event.dry_run and (not event.shadow or scaler.rules is None or scaler.rules.dry_run):
        scaler.kept.last_scale_at = state.now
        scaler.kept.scaling_events += 1
        scaler.kept.desired = event.replicas
        return NOTHING  # in shadow all that follows the outcome
    steps = [step.values for step in event.because if step.rule == "ScaleDecided"]
    reason = steps[-1].get("reason", "") if steps else ""
    scaler.ordered = Ordered(event.id, event.at, event.replicas, event.from_replicas, str(reason))
    if event.id:
        state.awaited[event.id] = owner
    return NOTHING


def _conclude(state: State, owner: str, scaler: Autoscaler, concluded: Concluded) -> None:
    """What a status says that was recorded, written or not."""
    if take_over(scaler.kept, concluded.status, concluded.since, scaler.rules):
        state.namespace(owner.partition("/")[0])[1].forget_settings(scaler.name)


def _status_ordered(state: State, event: SetStatus) -> Touched:
    owner = f"{event.target.namespace}/{event.target.name}"
    scaler = owned(state, owner) if event.target.kind == KIND else None
    if scaler is None:
        return NOTHING
    _conclude(state, owner, scaler, Concluded(status=event.status, since=event.since))
    if scaler.hold != INVALID_SPEC:
        _settle(scaler)
    scaler.dirty = Change.NONE
    scaler.written_at = event.at
    state.awaited.pop(scaler.status_decision, None)
    scaler.status_decision = event.id
    if event.id:
        state.awaited[event.id] = owner
    return NOTHING


def _held(state: State, event: HoldReplicas) -> Touched:
    owner = f"{event.target.namespace}/{event.target.name}"
    scaler = owned(state, owner) if event.target.kind == KIND else None
    if scaler is None:
        return NOTHING
    if scaler.hold in FAILURES and event.reason not in UNCOMPUTED:
        scaler.said.clear()  # a failure that comes back is said again
    scaler.hold = event.reason
    scaler.awaits_pods = event.reason in AWAITING_PODS
    if event.reason != INVALID_SPEC:
        _settle(scaler)
    elif scaler.asked is not None:
        _refuse(state, event, scaler)
    if event.concluded is not None:
        _conclude(state, owner, scaler, event.concluded)
    return NOTHING


def _settle(scaler: Autoscaler) -> None:
    """Something is recorded that follows from the spec: it was found to be usable."""
    if scaler.rules is not None:
        scaler.asked = None


def _refuse(state: State, event: HoldReplicas, scaler: Autoscaler) -> None:
    """The spec was found not to be usable: nothing is asked for by it."""
    scaler.rules = None
    scaler.problem = (
        str(next((step.values.get("problem", "") for step in event.because), "")) or scaler.problem
    )
    namespace, index = state.namespace(event.target.namespace)
    bind(namespace, index, scaler)


def _told(state: State, event: RecordObjectEvent) -> Touched:
    scaler = owned(state, f"{event.target.namespace}/{event.target.name}")
    if scaler is not None and event.target.kind == KIND:
        scaler.said[event.reason] = event.message
    return NOTHING


def _timer_set(state: State, event: SetTimer) -> Touched:
    if event.key.startswith(TIMER):
        scaler = owned(state, event.key[len(TIMER) :])
        if scaler is not None:
            scaler.timer_due = event.due
    return NOTHING


def _timer_cancelled(state: State, event: CancelTimer) -> Touched:
    if event.key.startswith(TIMER):
        scaler = owned(state, event.key[len(TIMER) :])
        if scaler is not None:
            scaler.timer_due = None
    return NOTHING


# What came of them.


def _outcome(state: State, event: Applied | Rejected | Failed | Superseded) -> Touched:
    owner = state.awaited.pop(event.decision, None)
    scaler = None if owner is None else owned(state, owner)
    if owner is None or scaler is None:
        return NOTHING
    if scaler.ordered is not None and scaler.ordered.decision == event.decision:
        return _scaled(state, owner.partition("/")[0], scaler, scaler.ordered, event)
    if scaler.status_decision == event.decision:
        scaler.status_decision = ""
        if isinstance(event, Rejected | Failed):
            scaler.dirty = max(scaler.dirty, Change.TEXT)
    return NOTHING


def _scaled(
    state: State,
    namespace_name: str,
    scaler: Autoscaler,
    ordered: Ordered,
    event: Applied | Rejected | Failed | Superseded,
) -> Touched:
    scaler.ordered = None
    rules = scaler.rules
    if isinstance(event, Superseded) or rules is None or scaler.deleting:
        return NOTHING
    if isinstance(event, Applied):
        if event.reason not in NOT_DONE:
            namespace, _ = state.namespace(namespace_name)
            workload = namespace.workloads.get(rules.target_key)
            if workload is not None:
                workload.replicas = ordered.replicas
            scaler.added += max(0, ordered.replicas - ordered.from_replicas)
            scaler.removed += max(0, ordered.from_replicas - ordered.replicas)
        scaler.kept.last_scale_at = ordered.at
        scaler.kept.scaling_events += 1
        scaler.kept.desired = ordered.replicas
    scaler.dirty = Change.STATUS
    return Touched(ended=Ended(namespace_name, scaler, rules, ordered, event))


HANDLERS: dict[type[Event], Callable[[State, Any], Touched]] = {
    ConfigSet: _config,
    ModesSet: modes.acting_set,
    IncumbentObserved: modes.acting_set,
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
