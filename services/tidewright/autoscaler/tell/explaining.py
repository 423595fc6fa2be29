"""What the autoscaler tells about its objects and decisions (`tidewright.host.fold.explainer.Explainer`). Pure.

Reasons of a decision are retold from its `because`; how an object stands is computed again from the
state with the very functions that decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidewright.autoscaler import holding
from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.holds import (
    PROPOSAL_EQUALS_CURRENT,
    STALE_METRIC,
    TARGET_AT_ZERO,
    WITHIN_WATERMARKS,
)
from tidewright.autoscaler.passes.evaluate import evaluate
from tidewright.autoscaler.passes.lifecycle import gate
from tidewright.autoscaler.passes.limits import LIMITS, TOO_FEW, TOO_MANY
from tidewright.autoscaler.passes.passes import is_on_its_way, last_scale_of, older_than, scene_of
from tidewright.autoscaler.state import KIND, Autoscaler, State, asked_by, is_sampled
from tidewright.autoscaler.tell import foretelling, opposites
from tidewright.autoscaler.tell.reasons import because, hold_reason
from tidewright.autoscaler.tell.sentences import clock, next_stop, plural, sentences
from tidewright.events.autoscaler import HoldReplicas, RecordForecast
from tidewright.events.base import Because, Decision, Event, target_of
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload, SetStatus
from tidewright.host.fold.explainer import Explainer, Reference, Told

OURS = KIND.lower()
TARGETS = frozenset(("deployment", "replicaset", "statefulset"))
HELD = {
    "WithinWatermarks": "Nothing is to be done: every value lies within its marks.",
    "ProposalEqualsCurrent": "Nothing is to be done: the proposal is the present count.",
    "PodsNotReady": "Nothing happens because too few pods are ready to measure by.",
    "MetricUnavailable": "Nothing happens because a metric cannot be read.",
    "TargetAtZero": "Nothing happens because the target is at 0 replicas: whoever set that has to set more.",
    "UntoleratedZero": "Nothing is to be done: a value of 0 that is not tolerated moves nothing.",
} | {reason: f"Nothing happens because {words.holds}." for reason, words in LIMITS.items()}
"""Why a pass scales nothing, by its reason (`reasons.hold_reason`)."""
UNTOLD: dict[type[Event], str] = {
    SetStatus: "says what was decided once more",
    RecordObjectEvent: "says what was decided once more",
    RecordForecast: "`standing` says how the forecast stands",
}
"""Decisions that are not told of their target when it is explained, and why."""
TOLD = frozenset(
    (
        "StaleMetric",
        "UpscaleForbiddenWindow",
        "DownscaleForbiddenWindow",
        "UpscaleDelay",
        "DownscaleDelay",
        "ReadyGuard",
    )
)
"""Reasons that the rules of the pass tell already, with their numbers."""


class AutoscalerExplainer:
    """Sentences about WatermarkPodAutoscalers, and about the targets that they scale."""

    kinds = frozenset((OURS,)) | TARGETS

    def told(self, state: State, asked: Reference) -> Told:
        """Decisions about an object are on its target, too; those about a target on its objects."""
        namespace = state.namespaces.get(asked.namespace)
        if namespace is None:
            return Told()
        if asked.kind == OURS:
            scaler = namespace.objects.get(asked.name)
            return Told() if scaler is None or scaler.rules is None else Told((_target(scaler.rules, asked),))
        return Told(tuple(Reference(OURS, asked.namespace, o.name) for o in _scaling(state, asked)))

    def concerns(self, event: Event, asked: Reference) -> bool:
        """Whatever is decided about an object or a target, but what is in `UNTOLD`; of a target also what is about its objects."""
        if isinstance(event, ScaleWorkload):
            if asked.kind == OURS:
                return event.owner == f"{KIND}/{asked.namespace}/{asked.name}"
            return (event.target.kind.lower(), event.target.name) == (asked.kind, asked.name)
        target = target_of(event)
        if target is None or type(event) in UNTOLD or not isinstance(event, Decision):
            return False
        about = Reference(target.kind.lower(), target.namespace, target.name)
        return about == asked or (asked.kind != OURS and about.kind == OURS)

    def sentences(self, event: Event) -> Sequence[str]:
        """One per rule, in the order of their application."""
        return sentences(event.because) if isinstance(event, Decision) else ()

    def part(self, state: State, event: Event, asked: Reference) -> Event:
        """All of it: decisions here are about one object."""
        return event

    def facts(self, state: State, event: Event) -> Sequence[Reference]:
        """The object, its target, and the answers to its queries."""
        owner = decided_for(event)
        scaler = _object(state, owner) if owner is not None else None
        if owner is None or scaler is None or scaler.rules is None:
            return ()
        rules, space = scaler.rules, owner.namespace
        asked = [Reference("metric", space, query) for query in dict.fromkeys(m.query for m in rules.metrics)]
        if rules.recommender is not None:
            asked.append(Reference("recommendation", space, owner.name))
        return (owner, _target(rules, owner), *asked)

    def opposite(self, state: State, event: Event) -> Sequence[str]:
        """Value by value, then limits and time."""
        owner = decided_for(event)
        scaler = _object(state, owner) if owner is not None else None
        if owner is None or scaler is None or scaler.rules is None:
            return ()
        namespace, index = state.namespace(owner.namespace)
        workload = namespace.workloads.get(scaler.rules.target_key)
        if workload is None or scaler.name not in index.views:
            return ()
        scene = scene_of(state, owner.namespace, scaler, scaler.rules, workload)
        return opposites.told(scaler.rules, state.in_force, scene)

    def aggregate(self, state: State, asked: Reference) -> Mapping[str, object] | None:
        """The object with its target, its pods and the last answers; of a target: what scales it."""
        namespace = state.namespaces.get(asked.namespace)
        if namespace is None:
            return None
        if asked.kind != OURS:
            scaling = _scaling(state, asked)
            return {scaler.name: scaler for scaler in scaling} or None
        scaler = namespace.objects.get(asked.name)
        if scaler is None:
            return None
        scaler = msgspec.structs.replace(scaler, asked=asked_by(scaler))
        if scaler.rules is None:
            return {"object": scaler}
        _, index = state.namespace(asked.namespace)
        queries = [metric.query for metric in scaler.rules.metrics]
        keys = index.selected(scaler.name)[0] if scaler.name in index.views else ()
        return {
            "object": scaler,
            "target": namespace.workloads.get(scaler.rules.target_key),
            "pods": {name: pod for key in keys for name, pod in sorted(namespace.groups[key].pods.items())},
            "samples": {query: namespace.samples[query] for query in queries if query in namespace.samples},
            "recommendation": namespace.recommendations.get(asked.name),
            "monitor": namespace.monitors.get(asked.name),
            "policy": state.in_force,
        }

    def standing(self, state: State, asked: Reference, now: float) -> Sequence[str]:
        """What the values ask for now, every stage of it, and what stops the next scale until when."""
        if asked.kind == OURS:
            scaler = _object(state, asked)
            return () if scaler is None else _standing(state, asked.namespace, scaler, now)
        return [
            sentence
            for scaler in _scaling(state, asked)
            for sentence in (
                f"It is scaled by {KIND} {asked.namespace}/{scaler.name}.",
                *_standing(state, asked.namespace, scaler, now),
            )
        ]


EXPLAINER: Explainer[State] = AutoscalerExplainer()


def decided_for(event: Event) -> Reference | None:
    """The object that a decision was taken for; None when it is none of ours, or says nothing of a pass."""
    match event:
        case ScaleWorkload(owner=owner):
            _, _, name = owner.partition("/")
            space, _, name = name.partition("/")
            return Reference(OURS, space, name)
        case HoldReplicas(target=target) if target.kind == KIND:
            return Reference(OURS, target.namespace, target.name)
    return None


def _object(state: State, asked: Reference) -> Autoscaler | None:
    namespace = state.namespaces.get(asked.namespace)
    return None if namespace is None else namespace.objects.get(asked.name)


def _target(rules: Rules, asked: Reference) -> Reference:
    return Reference(rules.target_kind.lower(), asked.namespace, rules.target_name)


def _scaling(state: State, target: Reference) -> list[Autoscaler]:
    """The objects that name this target, by name."""
    namespace = state.namespaces.get(target.namespace)
    if namespace is None:
        return []
    return [
        scaler
        for _, scaler in sorted(namespace.objects.items())
        if scaler.rules is not None and _target(scaler.rules, target) == target
    ]


def _standing(state: State, space: str, scaler: Autoscaler, now: float) -> list[str]:
    if scaler.deleting:
        return ["It is being deleted: nothing is decided for it any more."]
    rules = scaler.rules
    if rules is None:
        return [f"Nothing happens because the spec cannot be used: {scaler.problem}."]
    state.now = max(state.now, now)
    stopped = _stopped(state, space, scaler, rules)
    if stopped:
        return stopped
    namespace, _ = state.namespace(space)
    workload = namespace.workloads[rules.target_key]
    scene = scene_of(state, space, scaler, rules, workload)
    evaluation = evaluate(rules, state.in_force, scene)
    reason = hold_reason(evaluation)
    lines = [f"{rules.target_kind} {rules.target_name} is at {plural(evaluation.current, 'replica')}."]
    lines += sentences(because(rules, state.in_force, evaluation, last_scale_at=last_scale_of(state, scaler)))
    limited = evaluation.limited
    if (
        reason in LIMITS
        and limited is not None
        and limited.replicas in (rules.min_replicas, rules.max_replicas)
    ):
        # The rate limit is what a pass names; where the bound is nearer, the bound is what holds.
        reason = TOO_MANY if limited.replicas == rules.max_replicas else TOO_FEW
    if rules.recommender is not None and reason == WITHIN_WATERMARKS:
        reason = PROPOSAL_EQUALS_CURRENT
    if not evaluation.current and evaluation.failure is not None:
        reason = TARGET_AT_ZERO  # no pod is left to measure by, and none is wanted
    if reason and reason not in TOLD:
        lines.append(HELD.get(reason, f"Nothing happens: {reason}."))
    if reason == TARGET_AT_ZERO:
        return lines
    held = holding.held(state, space, scaler)
    if not held.acts:
        lines.append(
            f"Nothing is written ({held.mode}): {held.why}; windows count from what was only decided."
        )
    elif rules.dry_run:
        lines.append("It is a dry run: nothing is written, and windows count from what was only decided.")
    lines += foretelling.told(scaler, rules, state.in_force, state.now)
    return lines + next_stop(scaler, state.now, stale=reason == STALE_METRIC)


def _stopped(state: State, space: str, scaler: Autoscaler, rules: Rules) -> list[str]:
    """Why no pass is made at all, in the order in which a pass would find out."""
    namespace, index = state.namespace(space)
    opened = gate(scaler.lifecycle, namespace.monitors.get(scaler.name), namespace=space, name=scaler.name)
    if opened.blocked:
        message = opened.setting.message if opened.setting is not None else opened.event
        return sentences((Because(rule="ScalingBlocked", values={"monitor": message}),))
    older = older_than(space, namespace, index, scaler, rules=rules)
    target = f"{rules.target_kind} {space}/{rules.target_name}"
    if older is not None:
        return sentences(
            (Because(rule="TargetTaken", values={"target": target, "owner": f"{space}/{older}"}),)
        )
    if not is_sampled(namespace, scaler, rules):
        if rules.recommender is not None:
            return [f"Nothing happens because the recommender {rules.recommender.name} has not answered yet."]
        missing = [metric.display for metric in rules.metrics if metric.query not in namespace.samples]
        return [f"Nothing happens because there is no answer yet for {', '.join(missing)}."]
    if rules.target_key not in namespace.workloads:
        error = namespace.unreadable.get(rules.target_key) or f"{target} is not there"
        return [f"Nothing happens because the target cannot be scaled: {error}."]
    ordered = scaler.ordered
    if ordered is not None and is_on_its_way(state, scaler):
        way = f"The scale from {ordered.from_replicas} to {ordered.replicas} of {clock(ordered.at)} is on its way"
        return [f"{way}: nothing else is decided until the actuator says what came of it."]
    return []
