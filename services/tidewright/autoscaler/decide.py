"""The decider: what is done about an event, with reasons.

Reads   WatermarkPodAutoscalers, their targets, pods, metric samples, recommendations, monitors;
        its own decisions; outcomes; timers; the configuration `autoscaler`
Writes  ScaleWorkload, SetStatus, RecordObjectEvent, PatchObject, HoldReplicas, SetTimer, CancelTimer
Pure    no clock, no I/O, no randomness. The fold evaluates, and this says what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.autoscaler import fold
from tidewright.autoscaler.conditions import Change
from tidewright.autoscaler.messages import COMPONENT, Message
from tidewright.autoscaler.plan import Plan
from tidewright.autoscaler.reasons import because
from tidewright.autoscaler.spec import Rules
from tidewright.autoscaler.state import Autoscaler, State
from tidewright.autoscaler.status import render
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
STATE_VERSION = 1


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
        )
    )

    def initial(self, shared: State | None) -> State:
        """The empty state of a slot; `shared` is the state of slot `all`, which brings the policy."""
        return self.attach(State(), shared)

    def attach(self, state: State, shared: State | None) -> State:
        """Give a slot's state, read from a snapshot, the state of slot `all` to look at."""
        if shared is not None:
            state.__dict__["shared"] = shared
        return state

    def evolve(self, state: State, event: Event) -> State:
        """Fold one event, and evaluate the objects that it concerns."""
        return fold.evolve(state, event)

    def decide(self, state: State, event: Event) -> Iterable[Decision]:
        """Say what the event that was just folded asks for."""
        plans = state.plans
        if not plans:
            return ()
        return [decision for plan in plans for decision in _decisions(state, plan, event.at)]


DECIDER = AutoscalerDecider()
AUTOSCALER = DECIDER


def reference(namespace: str, name: str, uid: str = "") -> ObjectRef:
    """An object of ours."""
    return ObjectRef(api_version=API_VERSION, kind=fold.KIND, namespace=namespace, name=name, uid=uid)


def _decisions(state: State, plan: Plan, at: float) -> Iterable[Decision]:
    key = f"{fold.TIMER}{plan.namespace}/{plan.name}"
    found = fold.owned(state, f"{plan.namespace}/{plan.name}")
    if found is None:
        yield CancelTimer(at=at, key=key)
        return
    target = reference(plan.namespace, plan.name, found.uid)
    rules = found.rules
    if plan.patch:
        yield PatchObject(at=at, target=target, patch=plan.patch, because=plan.why)
    if plan.scale and rules is not None:
        yield _scale(state, plan, found, rules, at)
    elif plan.hold and plan.hold != found.hold:
        yield HoldReplicas(
            at=at,
            target=target,
            replicas=plan.found.current if plan.found is not None else found.kept.current,
            reason=plan.hold,
            because=_why(state, plan, found),
        )
    for message in plan.messages:
        if found.said.get(message.reason) != message.text or message.reason == "Scaling":
            yield _event(target, message, at)
    if not plan.keep_timer and plan.due != found.timer_due:
        if plan.due is not None:
            yield SetTimer(at=at, key=key, due=plan.due)
        else:
            yield CancelTimer(at=at, key=key)
    if not plan.quiet:
        yield from _status(state, found, target, at)


def _why(state: State, plan: Plan, found: Autoscaler) -> tuple[Because, ...]:
    if plan.found is None or found.rules is None:
        return plan.why
    last = found.kept.last_scale_at
    return because(found.rules, state.in_force, plan.found, last_scale_at=last)


def _scale(state: State, plan: Plan, found: Autoscaler, rules: Rules, at: float) -> ScaleWorkload:
    made = plan.found
    if made is None:
        raise ValueError(f"{plan.namespace}/{plan.name}: a scale was planned without a pass")
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
        owner=f"{fold.KIND}/{plan.namespace}/{plan.name}",
        because=_why(state, plan, found),
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


def _status(state: State, found: Autoscaler, target: ObjectRef, at: float) -> Iterable[Decision]:
    """The status, if it changed: at once, or for measured values and texts alone now and then."""
    urgent = found.dirty >= Change.REASON
    if not urgent:
        changed = found.dirty is not Change.NONE or found.kept.utilizations != found.shown
        if not changed or at - found.written_at < state.in_force.status_interval_s:
            return
    generation = 0 if state.in_force.strict else found.generation
    yield SetStatus(
        at=at,
        target=target,
        status=render(found.kept, found.rules, generation=generation),
        observed_generation=found.generation,
        urgent=urgent,
    )
