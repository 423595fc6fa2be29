"""Our own decisions, and what came of them: what policy has made of the facts is folded from what says it."""

from __future__ import annotations

from tidewright.autoscaler.api.conditions import Change
from tidewright.autoscaler.api.status import take_over
from tidewright.autoscaler.fold.touched import NOTHING, Ended, Touched
from tidewright.autoscaler.holds import AWAITING_PODS, FAILURES, INVALID_SPEC, READY_GUARD, UNCOMPUTED
from tidewright.autoscaler.state import KIND, TIMER, Autoscaler, Ordered, State, bind
from tidewright.events.acting import NOT_DONE
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.decisions import (
    CancelTimer,
    Concluded,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded


def owned(state: State, owner: str) -> Autoscaler | None:
    """The object of `namespace/name`, if it is there."""
    namespace_name, _, name = owner.partition("/")
    namespace = state.namespaces.get(namespace_name)
    return None if namespace is None else namespace.objects.get(name)


def scale_ordered(state: State, event: ScaleWorkload) -> Touched:
    """A scale was decided."""
    owner = event.owner.removeprefix(f"{KIND}/")
    scaler = owned(state, owner)
    if scaler is None:
        return NOTHING
    if event.concluded is not None:
        _conclude(state, owner.partition("/")[0], scaler, event.concluded)
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


def _conclude(state: State, namespace: str, scaler: Autoscaler, said: Concluded | SetStatus) -> None:
    """What a status says that was recorded, written or not."""
    if take_over(scaler.kept, said.status, said.since, scaler.rules):
        state.namespace(namespace)[1].forget_settings(scaler.name)


def status_ordered(state: State, event: SetStatus) -> Touched:
    """A status was decided: what it says is kept."""
    target = event.target
    namespace = state.namespaces.get(target.namespace) if target.kind == KIND else None
    scaler = None if namespace is None else namespace.objects.get(target.name)
    if scaler is None:
        return NOTHING
    _conclude(state, target.namespace, scaler, event)
    if scaler.hold != INVALID_SPEC:
        _settle(scaler)
    scaler.dirty = Change.NONE
    scaler.written_at = event.at
    state.awaited.pop(scaler.status_decision, None)
    scaler.status_decision = event.id
    if event.id:
        state.awaited[event.id] = f"{target.namespace}/{target.name}"
    return NOTHING


def held(state: State, event: HoldReplicas) -> Touched:
    """It was recorded why nothing is scaled."""
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
        _conclude(state, event.target.namespace, scaler, event.concluded)
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


def told(state: State, event: RecordObjectEvent) -> Touched:
    """An event of an object was said."""
    scaler = owned(state, f"{event.target.namespace}/{event.target.name}")
    if scaler is not None and event.target.kind == KIND:
        scaler.said[event.reason] = event.message
    return NOTHING


def timer_set(state: State, event: SetTimer) -> Touched:
    """An object will be woken."""
    if event.key.startswith(TIMER):
        scaler = owned(state, event.key[len(TIMER) :])
        if scaler is not None:
            scaler.timer_due = event.due
    return NOTHING


def timer_cancelled(state: State, event: CancelTimer) -> Touched:
    """An object will not be woken."""
    if event.key.startswith(TIMER):
        scaler = owned(state, event.key[len(TIMER) :])
        if scaler is not None:
            scaler.timer_due = None
    return NOTHING


# What came of them.


def outcome(state: State, event: Applied | Rejected | Failed | Superseded) -> Touched:
    """What came of a scale, or of a status."""
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
