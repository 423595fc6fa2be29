"""What each metric, or the recommender, proposes: pods counted, values measured, one proposal (sections 2.4 to 2.8)."""

from __future__ import annotations

import math

from msgspec.structs import replace

from tidewright.autoscaler.api.spec import Metric, Rules
from tidewright.autoscaler.passes.combine import Calculation
from tidewright.autoscaler.passes.formula import Converge, Proposal, int64, propose, quotient, recommended
from tidewright.autoscaler.passes.readiness import gate_error, group_pods, ready_percent
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.policy import Policy
from tidewright.events.facts import MetricSampled
from tidewright.kube.readiness import NO_PODS, ReadyCount, ready_pods

UNTOLERATED_ZERO = "UntoleratedZero"
_INT64 = 2**63


def measure(rules: Rules, policy: Policy, scene: Scene) -> tuple[Calculation, ...]:
    """Every metric's calculation, up to and with the first that fails."""
    if rules.recommender is not None:
        return (calculate_recommender(rules, policy, scene),)
    done: list[Calculation] = []
    for index in range(len(rules.metrics)):
        calculation = calculate(rules, policy, scene, index)
        done.append(calculation)
        if calculation.error:
            break
    return tuple(done)


def calculate(rules: Rules, policy: Policy, scene: Scene, index: int) -> Calculation:
    """One metric alone."""
    metric = rules.metrics[index]
    sample = scene.samples[index]
    if metric.source == "external":
        return _external(rules, policy, scene, metric, sample)
    return _resource(rules, policy, scene, metric, sample)


def _count(rules: Rules, scene: Scene) -> ReadyCount:
    return scene.count or ready_pods(
        scene.pods,
        target_name=rules.target_name,
        now=scene.now,
        delay_s=rules.readiness_delay_s,
        skip_owner_check=scene.skip_owner_check,
    )


def _counted(rules: Rules, scene: Scene, display: str) -> Calculation:
    """What the pods give, before any value: those that are listed, those that are ready (at most those that exist) and
    their percentage; with an error where they do not do.
    """
    if scene.selector_error:
        return _selector_failure(scene, display)
    count = _count(rules, scene)
    counted = Calculation(display=display, listed=count.listed, changes_at=count.changes_at)
    if count.error:
        error_class = "no-pods" if count.listed == 0 else "none-ready"
        return replace(counted, error=count.error, error_class=error_class)
    ready = min(count.ready, scene.observed)
    percent = ready_percent(ready, count.listed - count.incorrect)
    error = gate_error(
        percent, rules.min_available_percent, namespace=scene.namespace, target_name=rules.target_name
    )
    error_class = "unready-ratio" if error else ""
    return replace(counted, ready=ready, ready_percent=percent, error=error, error_class=error_class)


def _selector_failure(scene: Scene, display: str) -> Calculation:
    return Calculation(
        display=display,
        error=f"the selector of the target's scale cannot be read: {scene.selector_error}",
        error_class="other",
        reference_fault="nil-dereference",
    )


def _external(
    rules: Rules, policy: Policy, scene: Scene, metric: Metric, sample: MetricSampled | None
) -> Calculation:
    counted = _counted(rules, scene, metric.display)
    if counted.error:
        return counted
    if sample is None or sample.error or not sample.series_milli:
        empty = sample is not None and (not sample.error or sample.error_class == "empty")
        cause = (
            "no metrics returned from external metrics API"
            if empty
            else f"unable to fetch metrics from external metrics API: {_cause(sample)}"
        )
        return _unmeasured(
            counted,
            f"unable to get external metric {scene.namespace}/{metric.name}/{metric.selector}: {cause}",
            "metric-empty" if empty else "metric-unavailable",
        )
    total = _bounded(sum(sample.series_milli))
    if total == 0 and not rules.tolerate_zero:
        return _held_at_zero(counted, policy, scene)
    usage = quotient(float(total), counted.ready) if rules.average else float(total)
    proposal = propose(
        rules, metric.marks, current=scene.current, ready=counted.ready, usage=usage, strict=policy.strict
    )
    return _proposed(counted, proposal, usage)


def _unmeasured(counted: Calculation, error: str, error_class: str) -> Calculation:
    """Without a value; whatever pods become, that is not another one before the next is asked for."""
    return replace(counted, error=error, error_class=error_class, changes_at=None)


def _held_at_zero(counted: Calculation, policy: Policy, scene: Scene) -> Calculation:
    return replace(counted, replicas=counted.ready if policy.strict else scene.current, held=UNTOLERATED_ZERO)


def _proposed(counted: Calculation, proposal: Proposal, usage: float) -> Calculation:
    return replace(
        counted,
        replicas=proposal.replicas,
        usage=usage,
        utilization=int64(usage),
        above=proposal.above,
        below=proposal.below,
        converge=proposal.converge,
    )


def _cause(sample: MetricSampled | None) -> str:
    return sample.error if sample is not None else "it has not been asked yet"


def _bounded(total: int) -> int:
    """A sum as a signed 64-bit integer holds it; what does not fit is cut, never wrapped."""
    return max(-_INT64, min(_INT64 - 1, total))


def _resource(
    rules: Rules, policy: Policy, scene: Scene, metric: Metric, sample: MetricSampled | None
) -> Calculation:
    if sample is None or sample.error:
        empty = sample is not None and sample.error_class == "empty"
        cause = (
            "no metrics returned from resource metrics API"
            if empty
            else f"unable to fetch metrics from resource metrics API: {_cause(sample)}"
        )
        return Calculation(
            display=metric.display,
            error=f"unable to get resource metric {scene.namespace}/{metric.name}/{metric.selector}: {cause}",
            error_class="metric-empty" if empty else "metric-unavailable",
        )
    if scene.selector_error:
        return _selector_failure(scene, metric.display)
    if not scene.pods:
        return Calculation(display=metric.display, error=NO_PODS, error_class="no-pods")
    groups = group_pods(
        scene.pods,
        sample.pods_milli,
        resource=metric.name,
        target_name=rules.target_name,
        now=scene.now,
        delay_s=rules.readiness_delay_s,
        skip_owner_check=scene.skip_owner_check,
        strict=policy.strict,
    )
    counting = groups.listed - len(groups.ignored)
    if counting == 0:
        return Calculation(
            display=metric.display,
            listed=groups.listed,
            error=f"all {groups.listed} pods are pending, failed or not ready yet: there is nothing to measure",
            error_class="none-ready",
            reference_fault="division-by-zero",
            changes_at=groups.changes_at,
        )
    percent = ready_percent(groups.ready, counting)
    error = gate_error(
        percent, rules.min_available_percent, namespace=scene.namespace, target_name=rules.target_name
    )
    error_class = "unready-ratio"
    values = [value for pod, value in sample.pods_milli.items() if pod not in groups.ignored]
    if not error and not values:
        error, error_class = "did not receive metrics for any ready pods", "no-ready-metrics"
    counted = Calculation(
        display=metric.display,
        listed=groups.listed,
        ready=groups.ready,
        ready_percent=percent,
        changes_at=groups.changes_at,
    )
    if error:
        return replace(counted, error=error, error_class=error_class)
    total = _bounded(sum(values))
    held = UNTOLERATED_ZERO if total == 0 and policy.guard_resource_zero and not rules.tolerate_zero else ""
    usage = quotient(float(total), groups.ready) if rules.average else float(total)
    proposal = (
        Proposal(scene.current, False, False, Converge.UNTOUCHED)
        if held
        else propose(
            rules,
            metric.marks,
            current=scene.current,
            ready=groups.ready,
            usage=usage,
            strict=policy.strict,
        )
    )
    foreign = groups.foreign + len(sample.pods_milli.keys() - {pod.name for pod in scene.pods})
    return replace(_proposed(counted, proposal, usage), held=held, foreign=foreign)


def calculate_recommender(rules: Rules, policy: Policy, scene: Scene) -> Calculation:
    """The recommender alone (2.7)."""
    recommender = rules.recommender
    if recommender is None:
        raise ValueError("the rules have no recommender")
    counted = _counted(rules, scene, recommender.name)
    if counted.error:
        return counted
    answer = scene.recommendation
    if answer is None or answer.error:
        cause = answer.error if answer is not None else "it has not been asked yet"
        return _unmeasured(
            counted,
            f"unable to get external recommendation {recommender.name}: {cause}",
            "recommender-unavailable",
        )
    if recommender.low is None or recommender.high is None:
        counted = replace(counted, reference_fault="nil-dereference")
    if answer.target_replicas == 0 and not rules.tolerate_zero:
        return _held_at_zero(counted, policy, scene)
    usage = answer.observed_value * 1000 if math.isfinite(answer.observed_value) else 0.0
    proposal = recommended(
        rules,
        current=scene.current,
        target=answer.target_replicas,
        lower=answer.lower_bound_replicas,
        upper=answer.upper_bound_replicas,
        strict=policy.strict,
    )
    return replace(_proposed(counted, proposal, usage), details=answer.details)
