"""A whole pass over one object, as a pure function (sections 2.3, and 2.9 to 2.12).

`Pass` is what a pass concluded, with every stage's numbers. Nothing is
written here: conditions, status, object events and reasons are views of a `Pass`.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.forecast.load import as_usage
from tidewright.autoscaler.forecast.season import Expected
from tidewright.autoscaler.passes.combine import Calculation, Combined, combine
from tidewright.autoscaler.passes.formula import needed, propose
from tidewright.autoscaler.passes.limits import Limited, aligned, normalize
from tidewright.autoscaler.passes.measuring import measure
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.passes.windows import Hold, Verdict, verdict
from tidewright.autoscaler.policy import Policy


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
