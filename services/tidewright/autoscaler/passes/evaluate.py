"""A whole pass over one object, as a pure function (sections 2.3 to 2.12).

`Scene` is what a pass looks at, `Pass` what it concluded, with every stage's numbers. Nothing is
written here: conditions, status, object events and reasons are views of a `Pass`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import msgspec

from tidewright.autoscaler.api.spec import Metric, Rules
from tidewright.autoscaler.forecast.load import as_usage
from tidewright.autoscaler.forecast.season import Expected
from tidewright.autoscaler.passes.combine import Calculation, Combined, combine
from tidewright.autoscaler.passes.formula import (
    Converge,
    Proposal,
    int64,
    needed,
    propose,
    quotient,
    recommended,
)
from tidewright.autoscaler.passes.limits import Limited, aligned, normalize
from tidewright.autoscaler.passes.readiness import gate_error, group_pods, ready_percent
from tidewright.autoscaler.passes.windows import Hold, Verdict, verdict
from tidewright.autoscaler.policy import Policy
from tidewright.events.autoscaler import RecommendationReceived
from tidewright.events.facts import MetricSampled
from tidewright.kube.readiness import NO_PODS, Pod, ReadyCount, ready_pods

UNTOLERATED_ZERO = "UntoleratedZero"
_INT64 = 2**63


class Override(Enum):
    """What settles the count whatever the metrics say (2.12); the value is the reason given."""

    NONE = ""
    DISABLED = "scaling is disabled since the replica count of the target is zero"
    ABOVE_MAX = "Current number of replicas above Spec.MaxReplicas"
    BELOW_MIN = "Current number of replicas below Spec.MinReplicas"
    NO_PODS = "Current number of replicas must be greater than 0"


# Asked for in every pass, and to look a member up in an enumeration takes eight times as long as a name.
_NONE, _DISABLED = Override.NONE, Override.DISABLED
_REVERTING = (Override.ABOVE_MAX, Override.BELOW_MIN, Override.NO_PODS)


class Scene(msgspec.Struct, kw_only=True):
    """What a pass looks at, besides the object's rules.

    Attributes:
        namespace: of the object and its target.
        now: seconds.
        current: requested replicas of the target.
        observed: pods that it has, surge included.
        samples: the latest answer to each metric's query, in the order of the rules' metrics.
        recommendation: the recommender's latest answer.
        pods: those that the target's selector finds.
        count: `pods` counted already (2.4), as of an instant at which the count is still right.
        selector_error: why the target's selector cannot be read.
        above_since: since when `AboveHighWatermark` has been true; None when it is not.
        below_since: likewise `BelowLowWatermark`.
        last_scale_at: when the count was changed last; None when never.
        expected: what the load of each metric will be, in the order of the rules' metrics; empty where no
            forecast is asked for.
    """

    namespace: str
    now: float
    current: int
    observed: int
    samples: Sequence[MetricSampled | None] = ()
    recommendation: RecommendationReceived | None = None
    pods: Sequence[Pod] = ()
    count: ReadyCount | None = None
    selector_error: str = ""
    skip_owner_check: bool = False
    above_since: float | None = None
    below_since: float | None = None
    last_scale_at: float | None = None
    expected: Sequence[Expected | None] = ()


class Foreseen(msgspec.Struct, frozen=True):
    """A forecast that asks for more replicas than the metrics do now.

    Attributes:
        index: of its metric.
        replicas: what the rules say for its upper bound, or what that needs.
        usage: what would be compared with the marks then, with the replicas that are ready now; milli.
    """

    index: int
    replicas: int
    usage: float
    expected: Expected


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass concluded.

    Attributes:
        calculations: one per metric, up to the first that failed.
        wanted: the proposal that went into the limits.
        limited: what the limits made of it; None when nothing could be computed.
        stale: displays of metrics whose value is too old to scale down on.
        verdict: windows and delays; None when nothing could be computed.
        override: what settled the count instead.
        desired: the decided count; `current` when nothing is to be done.
        aligned: the limited count as a multiple of the modulo, where the policy asks for one.
        asked: the count before windows and delays refused it.
        rescale: the scale is to be written (also in a dry run, where it is not).
        reason: why, as the object event says it.
        changes_at: when time alone changes what the metrics propose.
        foreseen: the forecast that asks for more than the metrics do; None without one.
    """

    now: float
    current: int
    observed: int
    calculations: tuple[Calculation, ...]
    combined: Combined
    wanted: int = 0
    limited: Limited | None = None
    aligned: int = 0
    stale: tuple[str, ...] = ()
    verdict: Verdict | None = None
    override: Override = Override.NONE
    desired: int = 0
    asked: int = 0
    rescale: bool = False
    reason: str = ""
    changes_at: float | None = None
    foreseen: Foreseen | None = None

    @property
    def failure(self) -> Calculation | None:
        """The metric that failed, if one did."""
        failed = self.combined.failed
        return self.calculations[failed] if failed >= 0 else None

    @property
    def winner(self) -> str:
        """Display of the metric whose proposal it is; empty without metrics."""
        index = self.combined.winner
        return self.calculations[index].display if index >= 0 else ""

    @property
    def ready(self) -> int:
        """Ready pods as the winning metric counted them."""
        index = self.combined.winner
        return self.calculations[index].ready if index >= 0 else 0

    @property
    def reverts_metrics(self) -> bool:
        """The count was settled by a bound: the status keeps the values it had."""
        return self.override in _REVERTING


def evaluate(rules: Rules, policy: Policy, scene: Scene) -> Pass:
    """Measure, propose, limit, and decide whether to scale now."""
    return settle(rules, policy, scene, measure(rules, policy, scene))


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


def _gated(rules: Rules, scene: Scene, display: str) -> tuple[int, int, ReadyCount, Calculation | None]:
    """Ready pods (at most those that exist), their percentage, the count, and why it does not do."""
    if scene.selector_error:
        return 0, 0, ReadyCount(0, 0, 0), _selector_failure(scene, display)
    count = _count(rules, scene)
    error, error_class = count.error, "no-pods" if count.listed == 0 else "none-ready"
    ready = percent = 0
    if not error:
        ready = min(count.ready, scene.observed)
        percent = ready_percent(ready, count.listed - count.incorrect)
        error = gate_error(
            percent,
            rules.min_available_percent,
            namespace=scene.namespace,
            target_name=rules.target_name,
        )
        error_class = "unready-ratio"
    if error:
        failure = Calculation(
            display=display,
            listed=count.listed,
            ready=ready,
            ready_percent=percent,
            error=error,
            error_class=error_class,
            changes_at=count.changes_at,
        )
        return ready, percent, count, failure
    return ready, percent, count, None


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
    ready, percent, count, failure = _gated(rules, scene, metric.display)
    if failure is not None:
        return failure
    if sample is None or sample.error or not sample.series_milli:
        empty = sample is not None and (not sample.error or sample.error_class == "empty")
        cause = (
            "no metrics returned from external metrics API"
            if empty
            else f"unable to fetch metrics from external metrics API: {_cause(sample)}"
        )
        return Calculation(
            display=metric.display,
            listed=count.listed,
            ready=ready,
            ready_percent=percent,
            error=f"unable to get external metric {scene.namespace}/{metric.name}/{metric.selector}: {cause}",
            error_class="metric-empty" if empty else "metric-unavailable",
        )
    total = _bounded(sum(sample.series_milli))
    if total == 0 and not rules.tolerate_zero:
        return Calculation(
            display=metric.display,
            listed=count.listed,
            ready=ready,
            ready_percent=percent,
            replicas=ready if policy.strict else scene.current,
            held=UNTOLERATED_ZERO,
            changes_at=count.changes_at,
        )
    usage = quotient(float(total), ready) if rules.average else float(total)
    proposal = propose(
        rules, metric.marks, current=scene.current, ready=ready, usage=usage, strict=policy.strict
    )
    return Calculation(
        display=metric.display,
        replicas=proposal.replicas,
        usage=usage,
        utilization=int64(usage),
        listed=count.listed,
        ready=ready,
        ready_percent=percent,
        above=proposal.above,
        below=proposal.below,
        converge=proposal.converge,
        changes_at=count.changes_at,
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
    counted = groups.listed - len(groups.ignored)
    if counted == 0:
        return Calculation(
            display=metric.display,
            listed=groups.listed,
            error=f"all {groups.listed} pods are pending, failed or not ready yet: there is nothing to measure",
            error_class="none-ready",
            reference_fault="division-by-zero",
            changes_at=groups.changes_at,
        )
    percent = ready_percent(groups.ready, counted)
    error = gate_error(
        percent, rules.min_available_percent, namespace=scene.namespace, target_name=rules.target_name
    )
    error_class = "unready-ratio"
    values = [value for pod, value in sample.pods_milli.items() if pod not in groups.ignored]
    if not error and not values:
        error, error_class = "did not receive metrics for any ready pods", "no-ready-metrics"
    if error:
        return Calculation(
            display=metric.display,
            listed=groups.listed,
            ready=groups.ready,
            ready_percent=percent,
            error=error,
            error_class=error_class,
            changes_at=groups.changes_at,
        )
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
    return Calculation(
        display=metric.display,
        replicas=proposal.replicas,
        usage=usage,
        utilization=int64(usage),
        listed=groups.listed,
        ready=groups.ready,
        ready_percent=percent,
        above=proposal.above,
        below=proposal.below,
        converge=proposal.converge,
        held=held,
        changes_at=groups.changes_at,
        foreign=groups.foreign + len(sample.pods_milli.keys() - {pod.name for pod in scene.pods}),
    )


def calculate_recommender(rules: Rules, policy: Policy, scene: Scene) -> Calculation:
    """The recommender alone (2.7)."""
    recommender = rules.recommender
    if recommender is None:
        raise ValueError("the rules have no recommender")
    ready, percent, count, failure = _gated(rules, scene, recommender.name)
    if failure is not None:
        return failure
    fault = "nil-dereference" if recommender.low is None or recommender.high is None else ""
    answer = scene.recommendation
    if answer is None or answer.error:
        cause = answer.error if answer is not None else "it has not been asked yet"
        return Calculation(
            display=recommender.name,
            listed=count.listed,
            ready=ready,
            ready_percent=percent,
            error=f"unable to get external recommendation {recommender.name}: {cause}",
            error_class="recommender-unavailable",
        )
    common = {
        "display": recommender.name,
        "listed": count.listed,
        "ready": ready,
        "ready_percent": percent,
        "reference_fault": fault,
        "changes_at": count.changes_at,
    }
    if answer.target_replicas == 0 and not rules.tolerate_zero:
        replicas = ready if policy.strict else scene.current
        return msgspec.structs.replace(_EMPTY, **common, replicas=replicas, held=UNTOLERATED_ZERO)
    usage = answer.observed_value * 1000 if math.isfinite(answer.observed_value) else 0.0
    proposal = recommended(
        rules,
        current=scene.current,
        target=answer.target_replicas,
        lower=answer.lower_bound_replicas,
        upper=answer.upper_bound_replicas,
        strict=policy.strict,
    )
    return msgspec.structs.replace(
        _EMPTY,
        **common,
        details=answer.details,
        replicas=proposal.replicas,
        usage=usage,
        utilization=int64(usage),
        above=proposal.above,
        below=proposal.below,
        converge=proposal.converge,
    )


_EMPTY = Calculation(display="")


def settle(rules: Rules, policy: Policy, scene: Scene, calculations: tuple[Calculation, ...]) -> Pass:
    """From the metrics' proposals to the decision (2.9 to 2.12)."""
    combined = combine(calculations)
    current, now = scene.current, scene.now
    if combined.failed >= 0:
        return _unmeasured(rules, policy, scene, calculations, combined)
    if combined.winner < 0:  # D1: nothing proposes anything
        proposed = 0 if policy.strict else current
        ready = 0
    else:
        proposed = max(combined.replicas, 0)
        ready = calculations[combined.winner].ready
    limited = normalize(rules, current=current, proposed=proposed, ready=ready)
    foreseen = foresee(rules, policy, scene, calculations, proposed) if scene.expected else None
    if foreseen is not None:
        more = normalize(rules, current=current, proposed=foreseen.replicas, ready=ready)
        # Less can come of more: the ready guard gives up a whole downscale, and not a part of it.
        if more.replicas > limited.replicas:
            limited, proposed = more, foreseen.replicas
        else:
            foreseen = None
    desired = limited.replicas
    whole = desired
    if policy.align_after_limits and limited.limited:
        whole = desired = aligned(rules, current=current, replicas=desired)
    stale = _stale(rules, policy, scene)
    if stale and desired < current:
        desired = current
    decided = verdict(
        rules,
        now=now,
        current=current,
        desired=desired,
        last_scale_at=scene.last_scale_at,
        above_since=_since(combined.above, scene.above_since, now),
        below_since=_since(combined.below, scene.below_since, now),
        # Delays count real values beyond a mark; where none is above, a forecast that raises has none to wait for.
        stable=combined.stable or (foreseen is not None and not combined.above and desired > current),
        strict=policy.strict,
    )
    override = _override(rules, policy, scene)
    asked, rescale = desired, decided.scale
    if override is not _NONE:
        asked, rescale = _settled(rules, override), override is not _DISABLED
    return Pass(
        now=now,
        current=current,
        observed=scene.observed,
        calculations=calculations,
        combined=combined,
        wanted=proposed,
        limited=limited,
        aligned=whole,
        stale=stale,
        verdict=decided,
        override=override,
        desired=asked if rescale else current,
        asked=asked,
        rescale=rescale,
        reason=_foreseen_reason(calculations, foreseen)
        if foreseen is not None and foreseen.replicas > current and override is _NONE
        else _reason(calculations, combined, proposed, desired=desired, current=current, override=override),
        changes_at=_earliest(calculations),
        foreseen=foreseen,
    )


def _foreseen_reason(calculations: tuple[Calculation, ...], foreseen: Foreseen) -> str:
    return f"{calculations[foreseen.index].display} forecast above target"


def foresee(
    rules: Rules, policy: Policy, scene: Scene, calculations: tuple[Calculation, ...], proposed: int
) -> Foreseen | None:
    """The forecast that asks for more than `proposed`, because the rules would raise for it, or it needs more; None without one."""
    found: Foreseen | None = None
    for index, (metric, calculation, expected) in enumerate(
        zip(rules.metrics, calculations, scene.expected, strict=False)
    ):
        if expected is None or expected.mute or calculation.ready <= 0:
            continue
        usage = as_usage(rules, metric, expected.bound, calculation.ready)
        proposal = propose(
            rules,
            metric.marks,
            current=scene.current,
            ready=calculation.ready,
            usage=usage,
            strict=policy.strict,
        )
        wanted = proposal.replicas
        if not proposal.above:  # nothing is raised for it, and what it needs is not taken away
            wanted = min(wanted, needed(rules, metric.marks, ready=calculation.ready, usage=usage))
        if wanted > proposed:
            proposed = wanted
            found = Foreseen(index, proposed, usage, expected)
    return found


def _since(flag: bool, known: float | None, now: float) -> float | None:
    if not flag:
        return None
    return now if known is None else known


def _override(rules: Rules, policy: Policy, scene: Scene) -> Override:
    if scene.current == 0:
        return Override.DISABLED
    if scene.current > rules.max_replicas:
        return Override.ABOVE_MAX
    if scene.current < rules.min_replicas:
        return Override.BELOW_MIN
    if scene.observed == 0 and policy.strict:  # D5
        return Override.NO_PODS
    return _NONE


def _settled(rules: Rules, override: Override) -> int:
    match override:
        case Override.ABOVE_MAX:
            return rules.max_replicas
        case Override.BELOW_MIN:
            return rules.min_replicas
        case Override.NO_PODS:
            return 1
    return 0


def _reason(
    calculations: tuple[Calculation, ...],
    combined: Combined,
    proposed: int,
    *,
    desired: int,
    current: int,
    override: Override,
) -> str:
    if override is not _NONE and override is not _DISABLED:
        return str(override.value)
    if combined.stable and desired != current:
        return "Metric within watermarks, attempting to scale to converge towards watermark"
    if proposed > current:
        return f"{calculations[combined.winner].display} above target"
    return "All metrics below target" if proposed < current else ""


def _earliest(calculations: tuple[Calculation, ...]) -> float | None:
    earliest: float | None = None
    for calculation in calculations:
        at = calculation.changes_at
        if at is not None and (earliest is None or at < earliest):
            earliest = at
    return earliest


def _stale(rules: Rules, policy: Policy, scene: Scene) -> tuple[str, ...]:
    """Displays of the metrics whose value is older than the policy allows."""
    limit = policy.stale_after_s
    if not limit:
        return ()
    displays: tuple[str, ...] = ()
    oldest = scene.now - limit
    for metric, sample in zip(rules.metrics, scene.samples, strict=False):
        if sample is not None and (
            sample.at < oldest or (sample.sampled_at is not None and sample.sampled_at < oldest)
        ):
            displays += (metric.display,)
    if (
        rules.recommender is not None
        and scene.recommendation is not None
        and scene.recommendation.at < oldest
    ):
        displays += (rules.recommender.name,)
    return displays


def _unmeasured(
    rules: Rules,
    policy: Policy,
    scene: Scene,
    calculations: tuple[Calculation, ...],
    combined: Combined,
) -> Pass:
    """A metric failed: nothing is proposed; bounds are enforced only when the policy says so (D6)."""
    override = _override(rules, policy, scene) if policy.enforce_bounds_without_metrics else Override.NONE
    rescale = override in (Override.ABOVE_MAX, Override.BELOW_MIN)
    asked = _settled(rules, override) if rescale else scene.current
    return Pass(
        now=scene.now,
        current=scene.current,
        observed=scene.observed,
        calculations=calculations,
        combined=combined,
        override=override if rescale else Override.NONE,
        desired=asked,
        asked=asked,
        rescale=rescale,
        reason=override.value if rescale else "",
        changes_at=_earliest(calculations),
    )


def waits_for(evaluation: Pass) -> Hold:
    """What a wanted change waits for; `NONE` when nothing waits."""
    return evaluation.verdict.hold if evaluation.verdict is not None and not evaluation.rescale else Hold.NONE
