"""What a watermark case says in the decider's terms, and results in the terms of the cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.vectors.suite import Case
from tidewright.autoscaler.api import spec
from tidewright.autoscaler.api.conditions import Condition, true_since
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes.combine import Calculation
from tidewright.autoscaler.passes.scene import Scene
from tidewright.events.autoscaler import RecommendationReceived
from tidewright.events.facts import MetricSampled
from tidewright.kube import recommendation as protocol
from tidewright.kube.quantities import parse
from tidewright.kube.readiness import Pod, effective_owner, skips_owner_check

Found = dict[str, Any]


def pods(case: Case) -> list[Pod]:
    return [
        Pod(
            name=pod["name"],
            owners=tuple(effective_owner(o["kind"], o["name"]) for o in pod.get("owners") or ()),
            phase=pod["phase"],
            ready=pod["ready"] or "",
            ready_changed_at=pod["ready_transition_time"] or 0.0,
            started_at=pod["start_time"],
            deleting=bool(pod.get("deleting")),
        )
        for pod in case["inputs"].get("pods") or ()
    ]


def sample(source: str, values: Any, error: str | None, now: float) -> MetricSampled:
    if error:
        return MetricSampled(at=now, name="", error=error, error_class="unavailable")
    if not values:
        return MetricSampled(at=now, name="", error="empty", error_class="empty")
    if source == "external":
        return MetricSampled(at=now, name="", series_milli=tuple(values))
    return MetricSampled(at=now, name="", pods_milli=values)


def recommendation(reply: Mapping[str, Any] | None, now: float) -> RecommendationReceived | None:
    if reply is None:
        return None
    return RecommendationReceived(
        at=now,
        name="",
        target_replicas=reply.get("target_replicas", 0),
        lower_bound_replicas=reply.get("lower_bound_replicas"),
        upper_bound_replicas=reply.get("upper_bound_replicas"),
        observed_value=reply.get("observed_target_value", 0.0),
        details=reply.get("details", ""),
        error=reply.get("error", ""),
    )


def conditions(inputs: Mapping[str, Any]) -> list[Condition]:
    return [
        Condition(entry["type"], entry["status"] == "True", entry["last_transition_time"])
        for entry in inputs.get("conditions") or ()
    ]


def rules_of(raw: Mapping[str, Any]) -> spec.Rules:
    return spec.rules(spec.decode(raw))


def scene_of(case: Case, rules: spec.Rules, namespace: str) -> Scene:
    inputs = case["inputs"]
    now = inputs["now"]
    known = conditions(inputs)
    return Scene(
        namespace=namespace,
        now=now,
        current=inputs["current_replicas"],
        observed=inputs["status_replicas"],
        recommendation=recommendation(inputs.get("recommender_reply"), now),
        pods=pods(case),
        skip_owner_check=skips_owner_check(inputs.get("annotations") or {}),
        above_since=true_since(known, c.ABOVE_HIGH),
        below_since=true_since(known, c.BELOW_LOW),
        last_scale_at=inputs.get("last_scale_time"),
    )


def given(calculation: Mapping[str, Any]) -> Calculation:
    return Calculation(
        display=calculation["metric"],
        replicas=calculation.get("replicas", 0),
        usage=float(calculation.get("utilization_milli", 0)),
        utilization=calculation.get("utilization_milli", 0),
        ready=calculation.get("ready_replicas", 0),
        above=calculation.get("is_above", False),
        below=calculation.get("is_below", False),
        error=calculation.get("error", ""),
        details=calculation.get("details", ""),
    )


def calculated(found: Calculation, expected: Mapping[str, Any]) -> Found:
    """A calculation in the form of the cases."""
    if found.reference_fault:
        if "fault" in expected:
            return {"fault": found.reference_fault}
        if expected.get("error"):  # the reference fails on another ground before it would crash
            return {"error_contains": found.error, "error": expected["error"]}
    if found.error:
        wanted = expected.get("error_contains", expected.get("error", ""))
        same = wanted in found.error or (
            bool(expected.get("error_class")) and found.error_class == expected["error_class"]
        )
        return {
            "error_contains": wanted if same else found.error,
            "error": expected.get("error") if same else found.error,
            "error_class": found.error_class,
        }
    converge = c.CONVERGENCE.get(found.converge)
    made: Found = {
        "replicas": found.replicas,
        "utilization_milli": found.utilization,
        "ready_replicas": found.ready,
        "is_above": found.above,
        "is_below": found.below,
        "details": found.details,
    }
    if converge is not None:
        made["converge_condition"] = {
            "status": str(converge.status),
            "reason": converge.reason,
            "message": converge.message,
        }
    return made


def request(case: Case, ready: int) -> Found:
    """The part of the request to the recommender that the cases look at."""
    body = protocol.request(
        case["spec"], namespace="", cluster="", current=case["inputs"]["current_replicas"], ready=ready
    )
    return {"request": body["state"]}


def wire(found: spec.WatermarkSpec) -> Found:
    """The spec as JSON, quantities as the API machinery prints them."""
    made: Found = canonical(msgspec.to_builtins(found))
    return made


_QUANTITIES = ("highWatermark", "lowWatermark", "tolerance", "scaleUpLimitFactor", "scaleDownLimitFactor")


def canonical(value: Any) -> Any:
    """With one spelling per quantity: the cases keep what was parsed, or print it anew."""
    if isinstance(value, dict):
        return {k: str(parse(v)) if k in _QUANTITIES else canonical(v) for k, v in value.items()}
    return [canonical(member) for member in value] if isinstance(value, list) else value
