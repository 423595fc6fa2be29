"""The stages of the watermark cases that make a whole pass, with what is stored and said after it.

What is stored, written and said is what the decider makes of the case as events (`watermark_decided`). The functions of
a pass are called for what no decision says (calculations, gauges) and for pods whose readiness is `Unknown`, which no fact
says. The cases of `reconcile` give what the metrics propose and no facts: the decider has that in place of its formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tests.vectors.suite import Case
from tests.vectors.watermark_cases import (
    Found,
    calculated,
    conditions,
    given,
    request,
    sample,
    scene_of,
    wire,
)
from tests.vectors.watermark_decided import Decided, in_facts
from tidewright.autoscaler.api import spec, status
from tidewright.autoscaler.api.conditions import Condition, Setting
from tidewright.autoscaler.api.spec import LIFECYCLE
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes import sequence
from tidewright.autoscaler.passes.combine import Calculation
from tidewright.autoscaler.passes.evaluate import Pass, settle
from tidewright.autoscaler.passes.lifecycle import gate
from tidewright.autoscaler.passes.measuring import calculate, calculate_recommender, measure
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.passes.standing import remember
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import Monitor
from tidewright.autoscaler.tell import gauges, messages
from tidewright.kube.conditions import find


class _Work:
    """One pass with what is kept, from a case."""

    def __init__(self, case: Case, policy: Policy) -> None:
        inputs = case["inputs"]
        self.policy = policy
        self.now = inputs.get("now", 0.0)
        self.namespace = inputs.get("namespace", "")
        self.name = inputs.get("name", "")
        self.kept = status.Kept(
            conditions=conditions(inputs),
            last_scale_at=inputs.get("last_scale_time"),
            scaling_events=inputs.get("scaling_events_count", 0),
            current=inputs.get("previous_current_replicas", 0),
            desired=inputs.get("previous_desired_replicas", 0),
        )
        self.settings: list[Setting] = []
        self.events: list[messages.Message] = []
        self.values: gauges.Values = {}
        self.scaled = False
        self.decided: Decided | None = None

    def decide(self, case: Case) -> None:
        """Have the decider look at the case, where all of it can be said in facts."""
        if in_facts(case):
            self.decided = Decided(case, self.policy)

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
            self.values.pop(gauges.Series("replicas_scaling_effective"), None)  # it stays as it was
        elif self.scaled:
            self.events.append(messages.scaling(found.desired, found.reason, strict=self.policy.strict))
            self.values |= _of_scale(found)
        elif not found.rescale and not self.policy.skip_not_scaling_events:
            strict = self.policy.strict
            self.events.append(messages.not_scaling(rules, self.namespace, found.asked, last, strict=strict))
        if failed:
            self.kept.current = found.observed
        else:
            remember(self.kept, found)

    def apply(self) -> None:
        c.apply(self.kept.conditions, self.settings, self.now, strict=self.policy.strict)
        self.values |= gauges.of_settings(self.settings)

    def gauges(self) -> Found:
        return {"_".join(filter(None, series)): value for series, value in self.values.items()}


def _of_scale(evaluation: Pass) -> gauges.Values:
    """What a written scale adds to the original's counters; a write without a change adds 0 to the downscales."""
    if evaluation.desired > evaluation.current:
        return {gauges.Series("upscale_replicas_total"): evaluation.desired - evaluation.current}
    return {gauges.Series("downscale_replicas_total"): evaluation.current - evaluation.desired}


def _reconcile(case: Case, policy: Policy) -> Found:
    inputs, expected = case["inputs"], case["expected"]
    policy = _switched(policy, inputs)
    calculations = tuple(given(entry) for entry in inputs["calculations"])
    failed = next((i for i, entry in enumerate(calculations) if entry.error), None)
    if failed is not None:
        calculations = calculations[: failed + 1]
    decided = Decided(case, policy, given=calculations, body=True)
    events = decided.events
    if failed is not None:
        events = [event for event in events if event[1] == "FailedComputeMetricsReplicas"]
    wanted_events = expected.get("events")
    if wanted_events is not None and len(wanted_events) == len(events):
        events = [event[: len(wanted)] for event, wanted in zip(events, wanted_events, strict=True)]
    kept = decided.kept
    return {
        "desired_replicas": kept.desired,
        "scaled": decided.scaled,
        "conditions": _condition_map(kept.conditions),
        "condition_count": len(kept.conditions),
        "gauges": _gauges_of(case, policy, calculations),
        "counters": decided.counters,
        "events": events,
        "rescale_reason": decided.reason,
        "last_scale_time": kept.last_scale_at,
        "scaling_events_count": kept.scaling_events,
    }


def _gauges_of(case: Case, policy: Policy, calculations: Sequence[Calculation]) -> Found:
    """The series as they stood during the pass: a scrape shows those of the pass after it."""
    rules = spec.rules(spec.with_marks(spec.decode(case["spec"])))
    found = settle(rules, policy, scene_of(case, rules, ""), tuple(calculations))
    work = _Work(case, policy)
    work.settings += sequence.before(rules, gate(None, None, namespace="", name=""))[1:]
    work.settings += sequence.computed(rules, policy, found)
    work.conclude(rules, found, put_error=bool(case["inputs"].get("scale_put_error")))
    work.apply()
    values = work.gauges()
    name = rules.metrics[0].name if rules.metrics else ""
    for series in ("high_watermark", "low_watermark", "replicas_scaling_proposal", "value"):
        if f"{series}_{name}" in values:
            values[series] = values[f"{series}_{name}"]
    return values


def _switched(policy: Policy, inputs: Mapping[str, Any]) -> Policy:
    """With the controller's option that a case may set."""
    return msgspec.structs.replace(
        policy, skip_not_scaling_events=bool(inputs.get("skip_not_scaling_events"))
    )


def _condition_map(kept: Sequence[Condition]) -> Found:
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
    work = _Work(case, policy)
    work.now = 1.0
    work.decide(case)
    if _defaults_missing(case["spec"]):
        return {"requeue": True, "requeue_after_seconds": 0, "spec_written": _spec_written(work, case)}
    made: Found = {"requeue": False, "requeue_after_seconds": 0, "spec_written": False}
    try:
        rules = spec.compiled(case["spec"], namespace=work.namespace, name=work.name)
    except spec.InvalidSpec as error:
        work.settings = [c.PROCESSING, c.invalid_spec(str(error))]
        work.events = [messages.failed_spec_check(str(error))]
    else:
        opened = gate(
            (inputs.get("annotations") or {}).get(LIFECYCLE),
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
                current=inputs.get("current_replicas", 0),
                observed=inputs.get("status_replicas", 0),
            )
            found = settle(rules, policy, scene, ())
            work.settings += sequence.computed(rules, policy, found)
            work.conclude(rules, found, put_error=False)
    made["first_condition"] = _newest(work)  # the suite's clock moves on between two settings
    work.apply()
    kept = work.kept if work.decided is None else work.decided.kept
    return made | {
        "conditions": _condition_map(kept.conditions),
        "condition_count": len(kept.conditions),
        "gauges": work.gauges(),
    }


def _newest(work: _Work) -> Found:
    """The condition that was set last."""
    newest = work.settings[-1]
    if work.decided is not None:
        kept = work.decided.kept
        condition = find(kept.conditions, kept.last_type)
        assert condition is not None
        assert condition.status is kept.last_status
        newest = Setting(condition.type, condition.status, condition.reason, condition.message)
    return {
        "type": newest.type,
        "status": str(newest.status),
        "reason": newest.reason,
        "message": newest.message,
    }


def _spec_written(work: _Work, case: Case) -> bool:
    """Whether the defaults are written into the spec: by default they hold without that."""
    if work.decided is not None and work.policy.strict:
        return work.decided.writes_spec
    return _defaults_missing(case["spec"])


def _monitor(inputs: Mapping[str, Any]) -> Monitor | None:
    monitor = inputs.get("monitor")
    if monitor is None:
        return None
    state = monitor.get("monitorState")
    return Monitor(state if isinstance(state, str) else None)


def _pass(case: Case, policy: Policy) -> Found:
    inputs, expected = case["inputs"], case["expected"]
    policy = _switched(policy, inputs)
    work = _Work(case, policy)
    work.decide(case)
    made: Found = {"spec_written": _spec_written(work, case), "requeue_after_seconds": 15}
    made["defaulted_spec"] = wire(spec.with_defaults(spec.decode(case["spec"])))
    try:
        rules = spec.compiled(case["spec"], namespace=work.namespace, name=work.name)
    except spec.InvalidSpec as error:
        work.settings = [c.PROCESSING, c.invalid_spec(str(error))]
        work.events = [messages.failed_spec_check(str(error))]
        made["requeue_after_seconds"] = 0
        return made | _stored(work, None, expected)
    annotations = inputs.get("annotations") or {}
    opened = gate(annotations.get(LIFECYCLE), _monitor(inputs), namespace=work.namespace, name=work.name)
    work.settings = sequence.before(rules, opened)
    scene = scene_of(case, rules, work.namespace)
    scene.samples = [
        sample(metric.source, answer.get("values_milli"), answer.get("error"), work.now)
        for metric, answer in zip(rules.metrics, inputs.get("metrics") or (), strict=True)
    ]
    alone = (
        [calculate_recommender(rules, policy, scene)]
        if rules.recommender is not None
        else [calculate(rules, policy, scene, index) for index in range(len(rules.metrics))]
    )
    if "calculations" in expected:
        made["calculations"] = [
            calculated(found, wanted) | request(case, found.ready)
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
    written = found.desired if work.scaled else None
    if work.decided is not None:
        written = work.decided.written
    if written is not None:
        made["scale_written"] = written
    return made | _stored(work, rules, expected)


def _proposal(rules: spec.Rules, found: Pass, expected: Mapping[str, Any]) -> Found:
    if found.failure is not None:
        error = messages.compute_error(rules, found)
        made = calculated(msgspec.structs.replace(found.failure, error=error), expected)
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
    kept, scaled, events = work.kept, work.scaled, [list(entry) for entry in work.events]
    last = c.final(work.settings)[-1]
    kept.last_type, kept.last_status, current, shown = last.type, last.status, kept.current, kept.utilizations
    if (decided := work.decided) is not None:
        kept, scaled = decided.kept, decided.scaled
        if not scaled:
            current = kept.current  # that of a scale is written by the look after it
        if not decided.failed:
            shown = (
                kept.utilizations
            )  # of a scale that failed ours are those that led to it, and the original's of before
        # What is said besides by default, of a selector that matches too much.
        events = [event for event in decided.events if event[1] != "ForeignPods" or work.policy.strict]
    conditions = _condition_map(kept.conditions)
    values = work.gauges()
    made: Found = {
        "scaled": scaled,
        "desired_replicas": kept.desired,
        "status_current_replicas": current,
        "scaling_events_count": kept.scaling_events,
        "last_scale_time": None if kept.last_scale_at is None else int(kept.last_scale_at),
        "conditions": conditions,
        "condition_order": [entry.type for entry in kept.conditions],
        "last_condition": {"type": kept.last_type, "status": str(kept.last_status)},
        "gauges": values,
    }
    names = [rules.recommender.name] if rules is not None and rules.recommender else []
    types = ["Resource"]
    if rules is not None and not names:
        names = [metric.name for metric in rules.metrics]
        types = [metric.source.capitalize() for metric in rules.metrics]
    made["current_metrics"] = [
        {"type": type_, "name": name, "value_milli": value}
        for type_, name, value in zip(types, names, shown or (), strict=False)
    ]
    made["events"] = events
    if not work.policy.strict:
        _forget_d9_and_d12(made, expected)
    return made


def _forget_d9_and_d12(made: Found, expected: Mapping[str, Any]) -> None:
    """Drop from the comparison what is corrected by default in every pass.

    Transition times of conditions that no longer flip within a pass (D9), hence the order, and the
    gauges of restrictions (D12).
    """
    for type_ in (c.SCALING_ACTIVE, c.ABLE_TO_SCALE):
        wanted = expected.get("conditions", {}).get(type_)
        if wanted is not None and type_ in made["conditions"]:
            made["conditions"][type_]["last_transition_time"] = wanted["last_transition_time"]
    made["condition_order"] = expected.get("condition_order", made["condition_order"])
    gauges_ = expected.get("gauges", {})
    made["gauges"] |= {k: v for k, v in gauges_.items() if k.startswith("restricted_scaling")}


STAGES: dict[str, Callable[[Case, Policy], Found]] = {
    "reconcile": _reconcile,
    "work_item": _work_item,
    "pass": _pass,
}
