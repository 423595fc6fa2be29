"""The stages of the watermark cases that exercise one rule each."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tests.vectors.reference.watermark import InvalidAttributes, log_attributes
from tests.vectors.suite import Case
from tests.vectors.watermark_cases import (
    Found,
    calculated,
    conditions,
    given,
    pods,
    request,
    rules_of,
    sample,
    scene_of,
    wire,
)
from tests.vectors.watermark_decided import Decided, in_facts, measured
from tidewright.autoscaler.api import spec
from tidewright.autoscaler.api.conditions import Setting, true_since
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes.combine import combine
from tidewright.autoscaler.passes.evaluate import settle
from tidewright.autoscaler.passes.limits import down_limit, normalize, up_limit
from tidewright.autoscaler.passes.measuring import calculate, calculate_recommender
from tidewright.autoscaler.passes.readiness import group_pods
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.passes.windows import verdict
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.tell import messages
from tidewright.events.base import JsonObject
from tidewright.kube import recommendation
from tidewright.kube.conditions import find
from tidewright.kube.readiness import effective_owner, owner_matches, ready_pods, skips_owner_check


def _calculate(case: Case, policy: Policy) -> Found:
    """One metric alone: what the decider measures, from its reasons."""
    inputs, index = case["inputs"], case["inputs"]["metric_index"]
    rules = rules_of(case["spec"])
    defaulted = spec.parsed({**case["spec"], "scaleTargetRef": {"kind": "Deployment"}})
    # A tolerance of zero, which no object has for long: the default takes its place.
    if not in_facts(case) or defaulted.metrics[index].marks != rules.metrics[index].marks:
        scene = scene_of(case, rules, inputs["target_namespace"])
        rules = msgspec.structs.replace(rules, target_name=inputs["target_name"])
        source = rules.metrics[index].source
        answer = sample(source, inputs.get("metric_values_milli"), inputs.get("metric_error"), inputs["now"])
        scene.samples = [None] * index + [answer]
        return calculated(calculate(rules, policy, scene, index), case["expected"])
    said = {"values_milli": inputs.get("metric_values_milli"), "error": inputs.get("metric_error")}
    alone = {**case["spec"], "metrics": [case["spec"]["metrics"][index]]}
    return _measured(case, policy, alone, {"metrics": [said]})


def _calculate_recommender(case: Case, policy: Policy) -> Found:
    inputs = case["inputs"]
    if not in_facts(case):
        rules = msgspec.structs.replace(rules_of(case["spec"]), target_name=inputs["target_name"])
        found = calculate_recommender(rules, policy, scene_of(case, rules, inputs["target_namespace"]))
        return calculated(found, case["expected"]) | request(case, found.ready)
    measured = _measured(case, policy, case["spec"], {})
    return measured | request(case, measured.get("ready_replicas", 0))


def _measured(case: Case, policy: Policy, asked: JsonObject, more: JsonObject) -> Found:
    """What the decider says of the only metric of an object on the target of a case."""
    inputs = case["inputs"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": inputs["target_name"]}
    played = {
        **case,
        "spec": {**asked, "scaleTargetRef": target},
        "inputs": {**inputs, **more, "namespace": inputs["target_namespace"], "name": "wpa"},
    }
    return measured(Decided(played, policy, body=True), case["expected"])


def _group_pods(case: Case, policy: Policy) -> Found:
    inputs = case["inputs"]
    groups = group_pods(
        pods(case),
        inputs["metric_values_milli"],
        resource=inputs["resource"],
        target_name=inputs["target_name"],
        now=inputs["now"],
        delay_s=rules_of(case["spec"]).readiness_delay_s,
        strict=policy.strict,
    )
    return {"ready_count": groups.ready, "ignored": sorted(groups.ignored)}


def _ready_pods(case: Case, _: Policy) -> Found:
    inputs = case["inputs"]
    count = ready_pods(
        pods(case),
        target_name=inputs["target_name"],
        now=inputs["now"],
        delay_s=rules_of(case["spec"]).readiness_delay_s,
        skip_owner_check=inputs.get("skip_owner_check", False),
    )
    return {"ready_count": count.ready, "incorrect_count": count.incorrect, "error": count.error}


def _owner_match(case: Case, _: Policy) -> Found:
    owners = [effective_owner(o["kind"], o["name"]) for o in case["inputs"]["owners"]]
    return {"match": owner_matches(owners, case["inputs"]["target_name"])}


def _skip_owner_check(case: Case, _: Policy) -> Found:
    return {"skip": skips_owner_check(case["inputs"]["annotations"] or {})}


def _combine(case: Case, policy: Policy) -> Found:
    calculations = [given(entry) for entry in case["inputs"]["calculations"]]
    combined = combine(calculations)
    if combined.failed >= 0:
        rules = rules_of(case["spec"])
        scene = Scene(namespace="", now=0.0, current=0, observed=0)
        found = settle(rules, policy, scene, tuple(calculations[: combined.failed + 1]))
        return {"error": messages.compute_error(rules, found), "status_count": 0}
    winner = calculations[combined.winner] if combined.winner >= 0 else None
    return {
        "replicas": combined.replicas,
        "metric": winner.display if winner else "",
        "status_count": len(calculations),
        "scaling_active_message": c.metric_found(winner.display, winner.details).message if winner else "",
    }


def _limit(function: Callable[[spec.Rules, int], int]) -> Callable[[Case, Policy], Found]:
    return lambda case, _: {"limit": function(rules_of(case["spec"]), case["inputs"]["current_replicas"])}


def _normalize(case: Case, _: Policy) -> Found:
    inputs = case["inputs"]
    found = normalize(
        rules_of(case["spec"]),
        current=inputs["current_replicas"],
        proposed=inputs["desired_replicas"],
        ready=inputs["ready_replicas"],
    )
    return {
        "replicas": found.replicas,
        "reason": found.reason,
        "message": found.message,
        "scaling_limited": found.limited,
        "scale_up_limit": found.up_limit,
        "scale_down_limit": found.down_limit,
    }


def _should_scale(case: Case, policy: Policy) -> Found:
    inputs = case["inputs"]
    known = conditions(inputs)
    found = verdict(
        rules_of(case["spec"]),
        now=inputs["now"],
        current=inputs["current_replicas"],
        desired=inputs["desired_replicas"],
        last_scale_at=inputs["last_scale_time"],
        above_since=true_since(known, c.ABOVE_HIGH),
        below_since=true_since(known, c.BELOW_LOW),
        stable=inputs["stable_regime"],
        strict=policy.strict,
    )
    made: Found = {"scale": found.scale}
    for setting in c.backoff(found):
        made["able_to_scale_reason"] = setting.reason
    return made


def _validate(case: Case, policy: Policy) -> Found:
    held = Decided(case, policy).refused
    if held is None and not case["spec"].keys() & {"scaleUpLimitFactor", "scaleDownLimitFactor"}:
        # An object that has none of them has the defaults before it is judged: no decider sees this one.
        held = spec.problem(spec.decode(case["spec"]), **case["inputs"]) or None
    return {"valid": held is None, "message": case["expected"].get("message", "") if held is None else held}


def _default(case: Case, _: Policy) -> Found:
    return {"spec": wire(spec.with_defaults(spec.decode(case["spec"])))}


def _fill_watermarks(case: Case, _: Policy) -> Found:
    return {"metrics": wire(spec.with_marks(spec.decode(case["spec"])))["metrics"]}


def _set_condition(case: Case, _: Policy) -> Found:
    inputs = case["inputs"]
    known = conditions(inputs)
    wanted = inputs["set"]
    c.set_condition(known, Setting(wanted["type"], wanted["status"] == "True", "", ""), inputs["now"])
    changed = find(known, wanted["type"])
    return {
        "order": [entry.type for entry in known],
        "last_transition_time": changed.since if changed is not None else None,
    }


def _log_attributes(case: Case, _: Policy) -> Found:
    try:
        return {"attributes": log_attributes(case["inputs"]["annotations"] or {})}
    except InvalidAttributes:
        return {"error": True}


def _recommender_metric_name(case: Case, _: Policy) -> Found:
    return {"name": recommendation.metric_name(case["spec"]["recommender"])}


def _recommender_request_target(case: Case, _: Policy) -> Found:
    return {"target": recommendation.target(case["spec"]["recommender"])}


def _recommender_reply(case: Case, _: Policy) -> Found:
    try:
        reply = recommendation.parse_reply(msgspec.json.encode(case["inputs"]["reply"]))
    except recommendation.BadReply as error:
        return {"error": str(error)}
    found: Found = msgspec.to_builtins(reply)
    return found


STAGES: dict[str, Callable[[Case, Policy], Found]] = {
    "calculate_external": _calculate,
    "calculate_resource": _calculate,
    "calculate_recommender": _calculate_recommender,
    "group_pods": _group_pods,
    "ready_pods": _ready_pods,
    "owner_match": _owner_match,
    "skip_owner_check": _skip_owner_check,
    "combine": _combine,
    "scale_up_limit": _limit(up_limit),
    "scale_down_limit": _limit(down_limit),
    "normalize": _normalize,
    "should_scale": _should_scale,
    "validate": _validate,
    "default": _default,
    "fill_watermarks": _fill_watermarks,
    "set_condition": _set_condition,
    "log_attributes": _log_attributes,
    "recommender_metric_name": _recommender_metric_name,
    "recommender_request_target": _recommender_request_target,
    "recommender_reply": _recommender_reply,
}
