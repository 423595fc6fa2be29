"""The cases of the watermark autoscaler, through the decider's own functions.

A case runs in every mode that applies to it, and passes when all of them agree: strictly always, by
default unless it pins down a defect that is fixed by default (its `defect`, or one of its tags).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.suite import Case, Result, Suite, Verdict, differences
from tidewright.autoscaler import conditions as c
from tidewright.autoscaler import gauges, messages, sequence, spec, status
from tidewright.autoscaler.combine import Calculation, combine
from tidewright.autoscaler.evaluate import (
    Pass,
    Scene,
    calculate,
    calculate_recommender,
    measure,
    settle,
)
from tidewright.autoscaler.lifecycle import ANNOTATION, Monitor, gate
from tidewright.autoscaler.limits import down_limit, normalize, up_limit
from tidewright.autoscaler.logattributes import InvalidAttributes, log_attributes
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.readiness import (
    Pod,
    effective_owner,
    group_pods,
    owner_matches,
    ready_pods,
    skips_owner_check,
)
from tidewright.autoscaler.windows import verdict
from tidewright.events.facts import MetricSampled, RecommendationReceived
from tidewright.kube import recommendation
from tidewright.kube.quantities import parse

KEPT_BY_DEFAULT = frozenset(f"D{n}" for n in (6, 16, 19, 20, 23, 25, 26, 27, 29, 30, 31))
"""Entries of section 9 whose "do" column says "keep"."""

STRICT_TAGS = frozenset(
    (
        "untolerated-zero",
        "fault",
        "cpu-never-counted",
        "observed-zero",
        "failed-while-out-of-bounds",
        "first-pass",
        "no-metrics",
        "no-bounds",
        "lifecycle",
        "skip-events",
        "defaulted",
        "non-finite",
    )
)
"""Tags of generated cases that a corrected implementation decides otherwise."""

STRICT = Policy(strict=True, stale_after_s=0)
DEFAULT = Policy(stale_after_s=0)

Found = dict[str, Any]


def modes(case: Case) -> list[Policy]:
    """The policies under which the case must come out as expected."""
    defect = case.get("defect")
    fixed = (defect is not None and defect not in KEPT_BY_DEFAULT) or STRICT_TAGS & set(case.get("tags", ()))
    return [STRICT] if fixed or _shows_d4(case) else [STRICT, DEFAULT]


def _shows_d4(case: Case) -> bool:
    """Whether a pod that became ready too soon after its start would be ignored for good.

    The cases of the reference's own suite carry no mark for it.
    """
    inputs = case["inputs"]
    delay_s = case["spec"].get("readinessDelaySeconds", 0)
    resources = {(m.get("resource") or {}).get("name") for m in case["spec"].get("metrics") or ()}
    return "cpu" in resources | {inputs.get("resource")} and any(
        pod.ready in ("True", "Unknown")
        and pod.started_at is not None
        and pod.ready_changed_at < pod.started_at + delay_s <= inputs["now"]
        for pod in _pods(case)
    )


def _pods(case: Case) -> list[Pod]:
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


def _sample(source: str, values: Any, error: str | None, now: float) -> MetricSampled:
    if error:
        return MetricSampled(at=now, name="", error=error, error_class="unavailable")
    if not values:
        return MetricSampled(at=now, name="", error="empty", error_class="empty")
    if source == "external":
        return MetricSampled(at=now, name="", series_milli=tuple(values))
    return MetricSampled(at=now, name="", pods_milli=values)


def _recommendation(reply: Mapping[str, Any] | None, now: float) -> RecommendationReceived | None:
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


def _conditions(inputs: Mapping[str, Any]) -> list[c.Condition]:
    return [
        c.Condition(entry["type"], entry["status"] == "True", entry["last_transition_time"])
        for entry in inputs.get("conditions") or ()
    ]


def _rules(raw: Mapping[str, Any]) -> spec.Rules:
    return spec.rules(spec.decode(raw))


def _scene(case: Case, rules: spec.Rules, namespace: str) -> Scene:
    inputs = case["inputs"]
    now = inputs["now"]
    known = _conditions(inputs)
    return Scene(
        namespace=namespace,
        now=now,
        current=inputs["current_replicas"],
        observed=inputs["status_replicas"],
        recommendation=_recommendation(inputs.get("recommender_reply"), now),
        pods=_pods(case),
        skip_owner_check=skips_owner_check(inputs.get("annotations") or {}),
        above_since=c.true_since(known, c.ABOVE_HIGH),
        below_since=c.true_since(known, c.BELOW_LOW),
        last_scale_at=inputs.get("last_scale_time"),
    )


def _calculated(found: Calculation, expected: Mapping[str, Any]) -> Found:
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


def _calculate(case: Case, policy: Policy) -> Found:
    inputs = case["inputs"]
    rules = _rules(case["spec"])
    index = inputs["metric_index"]
    scene = _scene(case, rules, inputs["target_namespace"])
    rules = msgspec.structs.replace(rules, target_name=inputs["target_name"])
    source = rules.metrics[index].source
    sample = _sample(source, inputs.get("metric_values_milli"), inputs.get("metric_error"), inputs["now"])
    scene.samples = [None] * index + [sample]
    return _calculated(calculate(rules, policy, scene, index), case["expected"])


def _calculate_recommender(case: Case, policy: Policy) -> Found:
    inputs = case["inputs"]
    rules = msgspec.structs.replace(_rules(case["spec"]), target_name=inputs["target_name"])
    scene = _scene(case, rules, inputs["target_namespace"])
    found = calculate_recommender(rules, policy, scene)
    made = _calculated(found, case["expected"])
    return made | _request(case, found)


def _request(case: Case, found: Calculation) -> Found:
    """The part of the request to the recommender that the cases look at."""
    body = recommendation.request(
        case["spec"], namespace="", cluster="", current=case["inputs"]["current_replicas"], ready=found.ready
    )
    return {"request": body["state"]}


def _group_pods(case: Case, policy: Policy) -> Found:
    inputs = case["inputs"]
    groups = group_pods(
        _pods(case),
        inputs["metric_values_milli"],
        resource=inputs["resource"],
        target_name=inputs["target_name"],
        now=inputs["now"],
        delay_s=_rules(case["spec"]).readiness_delay_s,
        strict=policy.strict,
    )
    return {"ready_count": groups.ready, "ignored": sorted(groups.ignored)}


def _ready_pods(case: Case, _: Policy) -> Found:
    inputs = case["inputs"]
    count = ready_pods(
        _pods(case),
        target_name=inputs["target_name"],
        now=inputs["now"],
        delay_s=_rules(case["spec"]).readiness_delay_s,
        skip_owner_check=inputs.get("skip_owner_check", False),
    )
    return {"ready_count": count.ready, "incorrect_count": count.incorrect, "error": count.error}


def _owner_match(case: Case, _: Policy) -> Found:
    owners = [effective_owner(o["kind"], o["name"]) for o in case["inputs"]["owners"]]
    return {"match": owner_matches(owners, case["inputs"]["target_name"])}


def _skip_owner_check(case: Case, _: Policy) -> Found:
    return {"skip": skips_owner_check(case["inputs"]["annotations"] or {})}


def _given(calculation: Mapping[str, Any]) -> Calculation:
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


def _combine(case: Case, _: Policy) -> Found:
    calculations = [_given(entry) for entry in case["inputs"]["calculations"]]
    combined = combine(calculations)
    if combined.failed >= 0:
        rules = _rules(case["spec"])
        scene = Scene(namespace="", now=0.0, current=0, observed=0)
        found = settle(rules, DEFAULT, scene, tuple(calculations[: combined.failed + 1]))
        return {"error": messages.compute_error(rules, found), "status_count": 0}
    winner = calculations[combined.winner] if combined.winner >= 0 else None
    return {
        "replicas": combined.replicas,
        "metric": winner.display if winner else "",
        "status_count": len(calculations),
        "scaling_active_message": c.metric_found(winner.display, winner.details).message if winner else "",
    }


def _limit(function: Callable[[spec.Rules, int], int]) -> Callable[[Case, Policy], Found]:
    return lambda case, _: {"limit": function(_rules(case["spec"]), case["inputs"]["current_replicas"])}


def _normalize(case: Case, _: Policy) -> Found:
    inputs = case["inputs"]
    found = normalize(
        _rules(case["spec"]),
        current=inputs["current_replicas"],
        wanted=inputs["desired_replicas"],
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
    known = _conditions(inputs)
    found = verdict(
        _rules(case["spec"]),
        now=inputs["now"],
        current=inputs["current_replicas"],
        desired=inputs["desired_replicas"],
        last_scale_at=inputs["last_scale_time"],
        above_since=c.true_since(known, c.ABOVE_HIGH),
        below_since=c.true_since(known, c.BELOW_LOW),
        stable=inputs["stable_regime"],
        strict=policy.strict,
    )
    made: Found = {"scale": found.scale}
    for setting in c.backoff(found):
        made["able_to_scale_reason"] = setting.reason
    return made


def _validate(case: Case, _: Policy) -> Found:
    try:
        text = spec.problem(spec.decode(case["spec"]), **case["inputs"])
    except spec.InvalidSpec as error:
        text = str(error)
    return {"valid": not text, "message": text or case["expected"].get("message", "")}


def _wire(found: spec.WatermarkSpec) -> Found:
    """The spec as JSON, quantities as the API machinery prints them."""
    made: Found = _canonical(msgspec.to_builtins(found))
    return made


_QUANTITIES = ("highWatermark", "lowWatermark", "tolerance", "scaleUpLimitFactor", "scaleDownLimitFactor")


def _canonical(value: Any) -> Any:
    """With one spelling per quantity: the cases keep what was parsed, or print it anew."""
    if isinstance(value, dict):
        return {k: str(parse(v)) if k in _QUANTITIES else _canonical(v) for k, v in value.items()}
    return [_canonical(member) for member in value] if isinstance(value, list) else value


def _default(case: Case, _: Policy) -> Found:
    return {"spec": _wire(spec.with_defaults(spec.decode(case["spec"])))}


def _fill_watermarks(case: Case, _: Policy) -> Found:
    return {"metrics": _wire(spec.with_marks(spec.decode(case["spec"])))["metrics"]}


def _set_condition(case: Case, _: Policy) -> Found:
    inputs = case["inputs"]
    known = _conditions(inputs)
    wanted = inputs["set"]
    c.set_condition(known, c.Setting(wanted["type"], wanted["status"] == "True", "", ""), inputs["now"])
    changed = c.find(known, wanted["type"])
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


class _Work:
    """One pass with what is kept, from a case."""

    def __init__(self, case: Case, policy: Policy) -> None:
        inputs = case["inputs"]
        self.policy = policy
        self.now = inputs.get("now", 0.0)
        self.namespace = inputs.get("namespace", "")
        self.name = inputs.get("name", "")
        self.kept = status.Kept(
            conditions=_conditions(inputs),
            last_scale_at=inputs.get("last_scale_time"),
            scaling_events=inputs.get("scaling_events_count", 0),
            current=inputs.get("previous_current_replicas", 0),
            desired=inputs.get("previous_desired_replicas", 0),
        )
        self.settings: list[c.Setting] = []
        self.events: list[messages.Message] = []
        self.values: gauges.Values = {}
        self.scaled = False

    def conclude(self, rules: spec.Rules, found: Pass, put_error: bool) -> None:
        """What follows a pass: the write of the scale (simulated), status, object events, gauges."""
        last = self.kept.last_scale_at
        error = "the object has been modified" if put_error else None
        writes = found.rescale and not rules.dry_run
        failed = writes and put_error
        self.scaled = writes and not failed
        self.settings += sequence.concluded(
            rules,
            self.policy,
            found,
            namespace=self.namespace,
            last_scale_at=last,
            error=error if failed else None,
        )
        self.values |= gauges.of_pass(rules, self.policy, found, last_scale_at=last)
        if found.failure is not None:
            self.events += messages.failed_compute(rules, found)
        elif failed:
            self.events.append(messages.failed_scale(found.desired, found.reason, error or ""))
        elif self.scaled:
            self.events.append(messages.scaling(found.desired, found.reason))
            self.values |= gauges.of_scale(found)
        elif not found.rescale and not self.policy.skip_not_scaling_events:
            self.events.append(messages.not_scaling(rules, self.namespace, found.asked, last))
        status.remember(self.kept, found, written=not failed)

    def apply(self) -> None:
        c.apply(self.kept.conditions, self.settings, self.now, strict=self.policy.strict)
        self.values |= gauges.of_settings(self.settings)

    def gauges(self) -> Found:
        return {"_".join(filter(None, series)): value for series, value in self.values.items()}


def _reconcile(case: Case, policy: Policy) -> Found:
    inputs, expected = case["inputs"], case["expected"]
    rules = spec.rules(spec.with_marks(spec.decode(case["spec"])))
    work = _Work(case, policy)
    calculations = tuple(_given(entry) for entry in inputs["calculations"])
    failed = next((i for i, entry in enumerate(calculations) if entry.error), None)
    if failed is not None:
        calculations = calculations[: failed + 1]
    found = settle(rules, policy, _scene(case, rules, ""), calculations)
    work.settings += sequence.before(rules, gate(None, None, namespace="", name=""))[1:]
    work.settings += sequence.computed(rules, policy, found)
    work.conclude(rules, found, put_error=False)
    work.apply()
    events = [list(entry) for entry in work.events]
    if failed is not None:
        events = [event for event in events if event[1] == "FailedComputeMetricsReplicas"]
    wanted_events = expected.get("events")
    if wanted_events is not None and len(wanted_events) == len(events):
        events = [event[: len(wanted)] for event, wanted in zip(events, wanted_events, strict=True)]
    values = work.gauges()
    name = rules.metrics[0].name if rules.metrics else ""
    for series in ("high_watermark", "low_watermark", "replicas_scaling_proposal", "value"):
        if f"{series}_{name}" in values:
            values[series] = values[f"{series}_{name}"]
    counters = {"upscale_replicas_total": 0.0, "downscale_replicas_total": 0.0} | values
    return {
        "desired_replicas": work.kept.desired,
        "scaled": work.scaled,
        "conditions": _condition_map(work.kept.conditions),
        "condition_count": len(work.kept.conditions),
        "gauges": values,
        "counters": counters,
        "events": events,
        "rescale_reason": found.reason if found.rescale else "",
        "last_scale_time": work.kept.last_scale_at,
        "scaling_events_count": work.kept.scaling_events,
    }


def _condition_map(kept: Sequence[c.Condition]) -> Found:
    return {
        entry.type: {
            "status": str(entry.status),
            "reason": entry.reason,
            "message": entry.message,
            "last_transition_time": int(entry.since),
        }
        for entry in kept
    }


def _defaults_missing(raw: Mapping[str, Any]) -> bool:
    stored = spec.decode(raw)
    return spec.with_defaults(stored) != stored


def _work_item(case: Case, policy: Policy) -> Found:
    inputs = case["inputs"]
    if not inputs["found"]:
        return {"requeue": False, "requeue_after_seconds": 0}
    if _defaults_missing(case["spec"]):
        return {"requeue": True, "requeue_after_seconds": 0, "spec_written": True}
    work = _Work(case, policy)
    work.now = 1.0
    made: Found = {"requeue": False, "requeue_after_seconds": 0, "spec_written": False}
    try:
        rules = spec.compiled(case["spec"], namespace=work.namespace, name=work.name)
    except spec.InvalidSpec as error:
        work.settings = [c.PROCESSING, c.invalid_spec(str(error))]
        work.events = [messages.failed_spec_check(str(error))]
    else:
        opened = gate(
            (inputs.get("annotations") or {}).get(ANNOTATION),
            _monitor(inputs),
            namespace=work.namespace,
            name=work.name,
        )
        work.settings = sequence.before(rules, opened)
        made["requeue_after_seconds"] = opened.retry_s or 15
        if not opened.blocked:
            scene = Scene(
                namespace=work.namespace,
                now=work.now,
                current=inputs["current_replicas"],
                observed=inputs["status_replicas"],
            )
            found = settle(rules, policy, scene, ())
            work.settings += sequence.computed(rules, policy, found)
            work.conclude(rules, found, put_error=False)
    newest = work.settings[-1]  # the suite's clock moves on between two settings
    made["first_condition"] = {
        "type": newest.type,
        "status": str(newest.status),
        "reason": newest.reason,
        "message": newest.message,
    }
    work.apply()
    return made | {
        "conditions": _condition_map(work.kept.conditions),
        "condition_count": len(work.kept.conditions),
        "gauges": work.gauges(),
    }


def _monitor(inputs: Mapping[str, Any]) -> Monitor | None:
    monitor = inputs.get("monitor")
    if monitor is None:
        return None
    state = monitor.get("monitorState")
    return Monitor(state if isinstance(state, str) else None)


def _pass(case: Case, policy: Policy) -> Found:
    inputs, expected = case["inputs"], case["expected"]
    policy = msgspec.structs.replace(
        policy, skip_not_scaling_events=inputs.get("skip_not_scaling_events", False)
    )
    work = _Work(case, policy)
    made: Found = {"spec_written": _defaults_missing(case["spec"]), "requeue_after_seconds": 15}
    made["defaulted_spec"] = _wire(spec.with_defaults(spec.decode(case["spec"])))
    try:
        rules = spec.compiled(case["spec"], namespace=work.namespace, name=work.name)
    except spec.InvalidSpec as error:
        work.settings = [c.PROCESSING, c.invalid_spec(str(error))]
        work.events = [messages.failed_spec_check(str(error))]
        made["requeue_after_seconds"] = 0
        return made | _stored(work, None, expected)
    annotations = inputs.get("annotations") or {}
    opened = gate(annotations.get(ANNOTATION), _monitor(inputs), namespace=work.namespace, name=work.name)
    work.settings = sequence.before(rules, opened)
    scene = _scene(case, rules, work.namespace)
    scene.samples = [
        _sample(metric.source, answer.get("values_milli"), answer.get("error"), work.now)
        for metric, answer in zip(rules.metrics, inputs.get("metrics") or (), strict=True)
    ]
    alone = (
        [calculate_recommender(rules, policy, scene)]
        if rules.recommender is not None
        else [calculate(rules, policy, scene, index) for index in range(len(rules.metrics))]
    )
    if "calculations" in expected:
        made["calculations"] = [
            _calculated(found, wanted) | _request(case, found)
            for found, wanted in zip(alone, expected["calculations"], strict=False)
        ]
    found = settle(rules, policy, scene, measure(rules, policy, scene))
    if "proposal" in expected:
        made["proposal"] = _proposal(rules, found, expected["proposal"])
    if "fault" in expected:
        faults = [calculation.reference_fault for calculation in found.calculations]
        return {"fault": next(filter(None, faults), ""), "calculations": made.get("calculations", [])}
    if opened.blocked:
        if opened.event:
            work.events = [messages.failed_monitor(opened.event)]
        made["requeue_after_seconds"] = opened.retry_s
        return made | _stored(work, rules, expected)
    if inputs.get("scale_get_error"):
        work.settings = [*sequence.before(rules, opened)[:-2], c.PROCESS_FAILED]
        work.events = [messages.failed_process("scale not found")]
        made["requeue_after_seconds"] = 10
        return made | _stored(work, rules, expected)
    work.settings += sequence.computed(rules, policy, found)
    work.conclude(rules, found, put_error=bool(inputs.get("scale_put_error")))
    if work.scaled:
        made["scale_written"] = found.desired
    return made | _stored(work, rules, expected)


def _proposal(rules: spec.Rules, found: Pass, expected: Mapping[str, Any]) -> Found:
    if found.failure is not None:
        error = messages.compute_error(rules, found)
        made = _calculated(msgspec.structs.replace(found.failure, error=error), expected)
        return {**made, "fault": found.failure.reference_fault}
    fault = next(filter(None, (calculation.reference_fault for calculation in found.calculations)), "")
    return {
        "replicas": found.combined.replicas if found.calculations else found.wanted,
        "metric": found.winner,
        "ready_replicas": found.ready,
        "stable_regime": found.combined.stable,
        "fault": fault,
    }


def _stored(work: _Work, rules: spec.Rules | None, expected: Mapping[str, Any]) -> Found:
    """What is stored and said after the pass, in the form of the cases."""
    work.apply()
    kept = work.kept
    conditions = _condition_map(kept.conditions)
    values = work.gauges()
    last = c.final(work.settings)[-1]
    made: Found = {
        "scaled": work.scaled,
        "desired_replicas": kept.desired,
        "status_current_replicas": kept.current,
        "scaling_events_count": kept.scaling_events,
        "last_scale_time": None if kept.last_scale_at is None else int(kept.last_scale_at),
        "conditions": conditions,
        "condition_order": [entry.type for entry in kept.conditions],
        "last_condition": {"type": last.type, "status": str(last.status)},
        "gauges": values,
    }
    shown = kept.utilizations or ()
    names = [rules.recommender.name] if rules is not None and rules.recommender else []
    types = ["Resource"]
    if rules is not None and not names:
        names = [metric.name for metric in rules.metrics]
        types = [metric.source.capitalize() for metric in rules.metrics]
    made["current_metrics"] = [
        {"type": type_, "name": name, "value_milli": value}
        for type_, name, value in zip(types, names, shown, strict=False)
    ]
    made["events"] = [list(entry) for entry in work.events]
    if not work.policy.strict:
        _forget_d9_and_d12(made, expected)
    return made


_OUTSIDE_TEXTS = (
    (re.compile(r"&LabelSelector\{.*?,\}(?=: )"), "<selector>"),
    (re.compile(r"unable to get the number of ready pods across all namespaces for [^:]*: "), ""),
    (re.compile(r"Operation cannot be fulfilled on [^:]*: "), ""),
    (re.compile(r".*scale not found", re.DOTALL), "scale not found"),
    (re.compile(r"(datadogmonitors\.datadoghq\.com|DatadogMonitor\S*) .*not found"), "<monitor> not found"),
)
"""What the cases do not give the means to repeat: the reference's own printing of selectors, the
selector of the scale, and the words of the API server."""


def _comparable(value: Any, selectors: Sequence[str] = ()) -> Any:
    """The same with texts of the outside made alike."""
    if isinstance(value, str):
        for pattern, text in _OUTSIDE_TEXTS:
            value = pattern.sub(text, value)
        for selector in selectors:
            value = value.replace(f"/{selector}: ", "/<selector>: ")
        return value
    if isinstance(value, Mapping):
        return {
            k: (_canonical(v) if k == "defaulted_spec" else _comparable(v, selectors))
            for k, v in value.items()
        }
    return [_comparable(member, selectors) for member in value] if isinstance(value, list | tuple) else value


def _expected(case: Case) -> Found:
    """What is compared: of a pass that the reference abandoned, only that we see why."""
    expected: Found = dict(case["expected"])
    if case["stage"] == "pass" and "fault" in expected:
        expected = {key: expected[key] for key in ("fault", "calculations") if key in expected}
    return expected


def _forget_d9_and_d12(made: Found, expected: Mapping[str, Any]) -> None:
    """Drop from the comparison what is corrected by default in every pass.

    Transition times of conditions that no longer flip within a pass (D9), hence the order, and the
    gauges of restrictions (D12).
    """
    for type_ in (c.SCALING_ACTIVE, c.ABLE_TO_SCALE):
        wanted = expected["conditions"].get(type_)
        if wanted is not None and type_ in made["conditions"]:
            made["conditions"][type_]["last_transition_time"] = wanted["last_transition_time"]
    made["condition_order"] = expected["condition_order"]
    made["gauges"] |= {k: v for k, v in expected["gauges"].items() if k.startswith("restricted_scaling")}


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
    "reconcile": _reconcile,
    "work_item": _work_item,
    "validate": _validate,
    "default": _default,
    "fill_watermarks": _fill_watermarks,
    "set_condition": _set_condition,
    "log_attributes": _log_attributes,
    "recommender_metric_name": _recommender_metric_name,
    "recommender_request_target": _recommender_request_target,
    "recommender_reply": _recommender_reply,
    "pass": _pass,
}


def cases(content: Any) -> Sequence[Case] | None:
    """The cases of a file whose elements have stages and specs, as these do."""
    if (
        isinstance(content, list)
        and content
        and all(
            isinstance(case, dict) and {"name", "stage", "spec", "inputs", "expected"} <= case.keys()
            for case in content
        )
    ):
        return content
    return None


def _selectors(case: Case) -> list[str]:
    try:
        return [metric.selector for metric in _rules(case["spec"]).metrics]
    except spec.InvalidSpec:
        return []


def run(case: Case) -> Result:
    """Run one case in every mode that applies."""
    stage = STAGES.get(case["stage"])
    if stage is None:
        return Result(case["name"], case["stage"], Verdict.NOT_COVERED)
    found: list[str] = []
    for policy in modes(case):
        try:
            actual = _comparable(stage(case, policy), _selectors(case))
        except Exception as error:  # noqa: BLE001 - a case that crashes has failed, and says how
            found.append(f"{'strict' if policy.strict else 'default'}: {error!r}")
            continue
        mode = "strict" if policy.strict else "default"
        found += [f"{mode}: {d}" for d in differences(_comparable(_expected(case)), actual)]
    verdict_ = Verdict.FAILED if found else Verdict.PASSED
    return Result(case["name"], case["stage"], verdict_, tuple(found))


SUITE = Suite("watermark autoscaler", cases, run)
