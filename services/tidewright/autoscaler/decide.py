"""The decider: what is done about an event, with reasons.

Reads   WatermarkPodAutoscalers, their targets, pods, metric samples, recommendations, monitors;
        its own decisions; outcomes; timers; the configuration `autoscaler`
Writes  ScaleWorkload, SetStatus, RecordObjectEvent, PatchObject, HoldReplicas, SetTimer, CancelTimer
Pure    no clock, no I/O, no randomness. The fold evaluates, and this says what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.autoscaler import exposition, fold, holding
from tidewright.autoscaler.conditions import Change
from tidewright.autoscaler.messages import COMPONENT, Message
from tidewright.autoscaler.plan import Plan
from tidewright.autoscaler.reasons import because
from tidewright.autoscaler.spec import Rules
from tidewright.autoscaler.state import State
from tidewright.autoscaler.status import render
from tidewright.events import acting
from tidewright.events.base import Because, Decision, Event, ObjectRef
from tidewright.events.decisions import (
    CancelTimer,
    HoldReplicas,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)

SERVICE = "autoscaler"
API_VERSION = "datadoghq.com/v1alpha1"
STATE_VERSION = 3


class AutoscalerDecider:
    """The autoscaler, as its host sees it (`tidewright.host.decider.Decider`)."""

    service = SERVICE
    state_version = STATE_VERSION
    state_type = State
    kinds = frozenset(
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

    simulates = frozenset((ScaleWorkload,))
    """In shadow the windows run as if its scales had been made."""

    def initial(self) -> State:
        """The empty state of a slot."""
        return State()

    series_help = {f"{exposition.PREFIX}{name}": text for name, text in exposition.HELP.items()}

    def series(self, state: State) -> Iterable[exposition.Sample]:
        """The reference's Prometheus series, of every object of the state (4.2)."""
        return exposition.samples(state)

    evolve = staticmethod(fold.evolve)
    """Fold one event, and evaluate the objects that it concerns. As it is, for it is called for every event."""

    def decide(self, state: State, event: Event) -> Iterable[Decision]:
        """Say what the event that was just folded asks for."""
        plans = state.plans
        if not plans:
            return ()
        return [decision for plan in plans for decision in _recorded(state, plan, event.at)]


DECIDER = AutoscalerDecider()
AUTOSCALER = DECIDER


def reference(namespace: str, name: str, uid: str = "") -> ObjectRef:
    """An object of ours."""
    return ObjectRef(api_version=API_VERSION, kind=fold.KIND, namespace=namespace, name=name, uid=uid)


def _recorded(state: State, plan: Plan, at: float) -> Iterable[Decision]:
    """The decisions of a plan, as they are recorded where the object is held back."""
    held = holding.held(state, plan.namespace, plan.found)
    if not held.acts and plan.scale and holding.repeats(plan.found, plan.made):
        return
    for decision in _decisions(state, plan, at):
        if (found := acting.recorded(decision, held)) is not None:
            yield found


def _decisions(state: State, plan: Plan, at: float) -> Iterable[Decision]:
    found = plan.found
    if plan.gone:
        yield CancelTimer(at=at, key=_key(plan))
        return
    if plan.patch:
        yield PatchObject(at=at, target=_target(plan), patch=plan.patch, because=plan.why)
    if plan.scale and found.rules is not None:
        yield _scale(state, plan, found.rules, at)
    elif plan.hold and plan.hold != found.hold:
        yield HoldReplicas(
            at=at,
            target=_target(plan),
            replicas=plan.made.current if plan.made is not None else found.kept.current,
            reason=plan.hold,
            because=_why(state, plan),
        )
    for message in plan.messages:
        if found.said.get(message.reason) != message.text or message.reason == "Scaling":
            yield _event(_target(plan), message, at)
    if plan.due != found.timer_due and not plan.keep_timer:
        if plan.due is not None:
            yield SetTimer(at=at, key=_key(plan), due=plan.due)
        else:
            yield CancelTimer(at=at, key=_key(plan))
    if not plan.quiet:
        yield from _status(state, plan, at)


def _key(plan: Plan) -> str:
    return f"{fold.TIMER}{plan.namespace}/{plan.found.name}"


def _target(plan: Plan) -> ObjectRef:
    return reference(plan.namespace, plan.found.name, plan.found.uid)


def _why(state: State, plan: Plan) -> tuple[Because, ...]:
    rules = plan.found.rules
    if plan.made is None or rules is None:
        return plan.why
    return because(rules, state.in_force, plan.made, last_scale_at=plan.found.kept.last_scale_at)


def _scale(state: State, plan: Plan, rules: Rules, at: float) -> ScaleWorkload:
    made = plan.made
    if made is None:
        raise ValueError(f"{plan.namespace}/{plan.found.name}: a scale was planned without a pass")
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
        replicas=made.desired,
        from_replicas=made.current,
        owner=f"{fold.KIND}/{plan.namespace}/{plan.found.name}",
        because=_why(state, plan),
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


def _status(state: State, plan: Plan, at: float) -> Iterable[Decision]:
    """The status, if it changed: at once, or for measured values and texts alone now and then."""
    found, policy = plan.found, state.in_force
    urgent = found.dirty >= Change.REASON
    if not urgent:
        if at - found.written_at < policy.status_interval_s:
            return
        if found.dirty is Change.NONE and found.kept.utilizations == found.shown:
            return
    generation = 0 if policy.strict else found.generation
    yield SetStatus(
        at=at,
        target=_target(plan),
        status=render(found.kept, found.rules, generation=generation),
        observed_generation=found.generation,
        urgent=urgent,
    )
