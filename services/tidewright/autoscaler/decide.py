"""The decider: what is done about an event, with reasons.

Reads   WatermarkPodAutoscalers, their targets, pods, metric samples, recommendations, monitors;
        its own decisions; outcomes; timers; the configuration `autoscaler`
Writes  ScaleWorkload, SetStatus, RecordObjectEvent, PatchObject, HoldReplicas, RecordForecast, SetTimer, CancelTimer
Pure    no clock, no I/O, no randomness, and nothing of the state is changed: whatever is to last is in a decision
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidewright.autoscaler import holding
from tidewright.autoscaler.api.conditions import Change
from tidewright.autoscaler.api.spec import InvalidSpec, Rules, missing_defaults
from tidewright.autoscaler.fold.evolve import CONFIG, evolve
from tidewright.autoscaler.fold.touched import NOTHING, Touched
from tidewright.autoscaler.holds import FAILURES
from tidewright.autoscaler.passes import forecasts, passes
from tidewright.autoscaler.passes.plan import Plan
from tidewright.autoscaler.passes.standing import Standing, flips, repeats
from tidewright.autoscaler.policy import problems
from tidewright.autoscaler.state import KIND, TIMER, Autoscaler, State
from tidewright.autoscaler.tell import exposition
from tidewright.autoscaler.tell.messages import COMPONENT, Message
from tidewright.autoscaler.tell.reasons import because
from tidewright.autoscaler.upcasts import UPCASTS
from tidewright.events import acting
from tidewright.events.acting import Held
from tidewright.events.autoscaler import HoldReplicas, WatermarkPodAutoscalerObserved
from tidewright.events.base import Because, Decision, Event, JsonObject, ObjectRef
from tidewright.events.decisions import (
    CancelTimer,
    Concluded,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.host.fold.configuration import ConfigPart
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.series import Exposition

SERVICE = "autoscaler"
API_VERSION = "datadoghq.com/v1alpha1"
STATE_VERSION = 5
FINALIZER = "finalizer.watermarkpodautoscaler.datadoghq.com"

KINDS = frozenset(
    (
        "watermarkpodautoscaler",
        "pod",
        "deployment",
        "replicaset",
        "statefulset",
        "workload",
        "metric",
        "recommendation",
        "datadogmonitor",
        acting.INCUMBENT,
    )
)


def decide(state: State, event: Event, touched: Touched) -> Sequence[Decision]:
    """Say what the event that was just folded asks for."""
    if touched is NOTHING:
        return ()
    if type(event) is WatermarkPodAutoscalerObserved and event.refresh:
        again = touched.said_again
        if again is None:
            return ()
        forecast = _of_forecast(state, touched.namespace, again, event.at, again=True)
        return holding.recorded(state, touched.namespace, again, forecast)
    decisions: list[Decision] = []
    if touched.gone is not None:
        decisions.append(CancelTimer(at=event.at, key=_key(touched.namespace, touched.gone)))
    if touched.altered is not None:
        of_alteration = _of_alteration(state, touched.namespace, touched.altered, event)
        decisions += holding.recorded(state, touched.namespace, touched.altered, of_alteration)
    looks = touched.looks
    if touched.owners and state.in_force.walk_owner_chain:
        looks = (*touched.owners, *looks)
    for namespace_name, scaler in looks:
        plan = passes.look(state, namespace_name, scaler)
        if plan is not None:
            decisions += _recorded(state, plan, event.at)
        if scaler.asks is not None or scaler.forecast is not None or state.in_force.forecast:
            of_forecast = _of_forecast(state, namespace_name, scaler, event.at)
            decisions += holding.recorded(state, namespace_name, scaler, of_forecast)
    if touched.ended is not None:
        decisions += _recorded(state, passes.ended(state, touched.ended), event.at)
    return decisions


def _of_forecast(
    state: State, namespace: str, scaler: Autoscaler, at: float, *, again: bool = False
) -> Iterable[Decision]:
    """What is recorded and said of the forecast that is asked for an object, or was."""
    if scaler.deleting:
        return
    target = reference(namespace, scaler.name, scaler.uid)
    yield from forecasts.recorded(scaler, target, state.in_force, at, again=again)
    for message in forecasts.messages(scaler, state.in_force):
        if scaler.said.get(message.reason) != message.text:
            yield _event(target, message, at)


def reference(namespace: str, name: str, uid: str = "") -> ObjectRef:
    """An object of ours."""
    return ObjectRef(api_version=API_VERSION, kind=KIND, namespace=namespace, name=name, uid=uid)


def _of_alteration(state: State, namespace: str, scaler: Autoscaler, event: Event) -> Iterable[Decision]:
    """An object that is being deleted is let go; strictly, what the user left out goes into the stored spec."""
    patch: JsonObject = {}
    why: tuple[Because, ...] = ()
    if scaler.deleting:
        # What another controller left on it must not keep it (D32).
        if FINALIZER in scaler.finalizers:
            rest = [finalizer for finalizer in scaler.finalizers if finalizer != FINALIZER] or None
            patch = {"metadata": {"finalizers": rest}}
            why = (Because(rule="FinalizerReleased", values={"finalizer": FINALIZER}),)
    elif state.in_force.strict and isinstance(event, WatermarkPodAutoscalerObserved):
        missing = _missing(event)
        if missing:  # as the reference does it (D29)
            patch = {"spec": dict(missing)}
            why = (Because(rule="DefaultsWritten", values=dict(missing)),)
    if patch:
        target = reference(namespace, scaler.name, scaler.uid)
        yield PatchObject(at=event.at, target=target, patch=patch, because=why)
    if scaler.deleting and scaler.timer_due is not None:
        yield CancelTimer(at=event.at, key=_key(namespace, scaler))


def _missing(event: WatermarkPodAutoscalerObserved) -> dict[str, str | int]:
    try:
        return missing_defaults(event.spec)
    except InvalidSpec:
        return {}


def _recorded(state: State, plan: Plan, at: float) -> Iterable[Decision]:
    """The decisions of a plan, as they are recorded where the object is held back."""
    held = holding.held(state, plan.namespace, plan.scaler)
    if held.acts:
        return _decisions(state, plan, at, held)
    if plan.scale and repeats(plan.scaler, plan.made, passes.last_scale_of(state, plan.scaler)):
        return ()
    return holding.recorded(state, plan.namespace, plan.scaler, _decisions(state, plan, at, held))


def _decisions(state: State, plan: Plan, at: float, held: Held) -> Iterable[Decision]:
    scaler, rules = plan.scaler, plan.scaler.rules
    standing = Standing(state, plan)
    if plan.scale and rules is not None:
        concluded = standing.concluded() if plan.quiet or not held.reports else None
        yield _scale(state, plan, rules, at, concluded)
    elif plan.hold and (plan.hold != scaler.hold or plan.refuses or (not held.reports and flips(plan))):
        yield HoldReplicas(
            at=at,
            target=_target(plan),
            replicas=plan.made.current if plan.made is not None else scaler.kept.current,
            reason=plan.hold,
            because=_why(state, plan),
            concluded=None if held.reports else standing.concluded(),
        )
    recovered = scaler.hold in FAILURES and plan.made is not None and plan.made.failure is None
    for message in plan.messages:
        if recovered or scaler.said.get(message.reason) != message.text or message.reason == "Scaling":
            yield _event(_target(plan), message, at)
    if plan.due != scaler.timer_due and not plan.keep_timer:
        key = _key(plan.namespace, scaler)
        if plan.due is not None:
            yield SetTimer(at=at, key=key, due=plan.due)
        else:
            yield CancelTimer(at=at, key=key)
    if held.reports and not plan.quiet and _is_due(state, scaler, standing, at):
        concluded = standing.concluded()
        yield SetStatus(
            at=at,
            target=_target(plan),
            status=concluded.status,
            since=concluded.since,
            observed_generation=scaler.generation,
            urgent=standing.urgent,
        )


def _key(namespace: str, scaler: Autoscaler) -> str:
    return f"{TIMER}{namespace}/{scaler.name}"


def _target(plan: Plan) -> ObjectRef:
    return reference(plan.namespace, plan.scaler.name, plan.scaler.uid)


def _why(state: State, plan: Plan) -> tuple[Because, ...]:
    rules = plan.scaler.rules
    if plan.made is None or rules is None:
        return plan.why
    last = passes.last_scale_of(state, plan.scaler)
    return because(rules, state.in_force, plan.made, last_scale_at=last)


def _scale(state: State, plan: Plan, rules: Rules, at: float, concluded: Concluded | None) -> ScaleWorkload:
    evaluation = plan.made
    if evaluation is None:
        raise ValueError(f"{plan.namespace}/{plan.scaler.name}: a scale was planned without a pass")
    namespace, _ = state.namespace(plan.namespace)
    workload = namespace.workloads.get(rules.target_key)
    return ScaleWorkload(
        at=at,
        target=ObjectRef(
            api_version=rules.target_api_version if workload is None else workload.api_version,
            kind=rules.target_kind,
            namespace=plan.namespace,
            name=rules.target_name,
            uid="" if workload is None else workload.uid,
        ),
        dry_run=rules.dry_run,
        replicas=evaluation.desired,
        from_replicas=evaluation.current,
        owner=f"{KIND}/{plan.namespace}/{plan.scaler.name}",
        because=_why(state, plan),
        concluded=concluded,
    )


def _event(target: ObjectRef, message: Message, at: float) -> RecordObjectEvent:
    return RecordObjectEvent(
        at=at,
        target=target,
        event_type=message.type,
        reason=message.reason,
        message=message.text,
        component=COMPONENT,
    )


def _is_due(state: State, scaler: Autoscaler, standing: Standing, at: float) -> bool:
    """Whether a status is to be written: one that has changed at once, for measured values and texts alone now and then."""
    if standing.urgent:
        return True
    if at - scaler.written_at < state.in_force.status_interval_s:
        return False
    return standing.change is not Change.NONE or not standing.same_values


DECIDER = Decider(
    service=SERVICE,
    state_version=STATE_VERSION,
    state_type=State,
    kinds=KINDS,
    evolve=evolve,
    decide=decide,
    simulates=frozenset((ScaleWorkload,)),  # in shadow the windows run as if its scales had been made
    upcasts=UPCASTS,
    config=ConfigPart(
        name=CONFIG,
        problems=problems,
        component=COMPONENT,
        held=lambda state: state.acting.of_service(SERVICE),
    ),
    renews=frozenset((WatermarkPodAutoscalerObserved,)),  # what is known of its load is recorded again, too
    exposition=Exposition(
        series=exposition.samples,
        help={f"{exposition.PREFIX}{name}": text for name, text in exposition.HELP.items()},
    ),
)
"""What the host runs. The series are the reference's own, of every object of the state (4.2)."""
