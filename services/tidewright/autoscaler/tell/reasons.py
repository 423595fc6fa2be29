"""The rules of a pass as `Because`, in the order of their application: what the log keeps.

Every number that changed on the way is there, so that a decision can be retold without computing
anything again; `sentences` does so. Values in milli and seconds say so in their names.
"""

from __future__ import annotations

import math

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.holds import (
    METRIC_UNAVAILABLE,
    PODS_NOT_READY,
    PROPOSAL_EQUALS_CURRENT,
    READY_GUARD,
    STALE_METRIC,
    TARGET_AT_ZERO,
    WITHIN_WATERMARKS,
)
from tidewright.autoscaler.passes.combine import Calculation
from tidewright.autoscaler.passes.evaluate import Override, Pass
from tidewright.autoscaler.passes.formula import Converge
from tidewright.autoscaler.passes.limits import SCALE_DOWN_LIMIT, SCALE_UP_LIMIT, TOO_FEW, TOO_MANY
from tidewright.autoscaler.passes.measuring import UNTOLERATED_ZERO
from tidewright.autoscaler.passes.windows import Hold, Verdict
from tidewright.autoscaler.policy import Policy
from tidewright.events.base import Because, Scalar

FORECAST = "Forecast"
"""A forecast asks for more than the values of now do."""
_DISABLED, _NO_CHANGE = Override.DISABLED, Hold.NO_CHANGE  # asked for in every pass
_CONVERGED = {
    Converge.DOWN: "ConvergedDown",
    Converge.UP: "ConvergedUp",
    Converge.DOWN_REFUSED: "ConvergenceDownRefused",
    Converge.UP_REFUSED: "ConvergenceUpRefused",
}
_OVERRIDES = {
    Override.DISABLED: "TargetAtZero",
    Override.ABOVE_MAX: "AboveMaximum",
    Override.BELOW_MIN: "BelowMinimum",
    Override.NO_PODS: "NoPodExists",
}


def because(
    rules: Rules, policy: Policy, evaluation: Pass, *, last_scale_at: float | None
) -> tuple[Because, ...]:
    """All rules that a pass applied, in their order.

    `last_scale_at` is the time that the windows counted from.
    """
    steps = [
        step
        for index, calculation in enumerate(evaluation.calculations)
        for step in _metric(rules, index, calculation, evaluation.current)
    ]
    if evaluation.failure is None:
        steps += _proposal(rules, policy, evaluation)
        if evaluation.verdict is not None and evaluation.override is Override.NONE:
            steps += _window(rules, evaluation, evaluation.verdict, last_scale_at)
    if evaluation.override is not Override.NONE:
        values: dict[str, Scalar] = {
            "replicas": evaluation.current,
            "min": rules.min_replicas,
            "max": rules.max_replicas,
            "to": evaluation.asked,
        }
        steps.append(Because(rule=_OVERRIDES[evaluation.override], values=values))
    if evaluation.rescale:
        decided: dict[str, Scalar] = {
            "from": evaluation.current,
            "to": evaluation.desired,
            "reason": evaluation.reason,
            "dry_run": rules.dry_run,
        }
        steps.append(Because(rule="ScaleDecided", values=decided))
    return tuple(steps)


def hold_reason(evaluation: Pass) -> str:
    """One word for why a pass scales nothing; empty when it scales."""
    if evaluation.rescale:
        return ""
    failure = evaluation.failure
    if failure is not None:
        return PODS_NOT_READY if failure.error_class in _POD_FAILURES else METRIC_UNAVAILABLE
    if evaluation.override is _DISABLED:
        return TARGET_AT_ZERO
    if (
        evaluation.stale
        and evaluation.limited is not None
        and evaluation.limited.replicas < evaluation.current
    ):
        return STALE_METRIC
    if evaluation.verdict is not None and evaluation.verdict.hold is not _NO_CHANGE:
        return str(evaluation.verdict.hold.value)
    limited = evaluation.limited
    if limited is not None and limited.limited:
        return READY_GUARD if limited.guarded else limited.reason
    if evaluation.combined.stable:
        held = any(calculation.held for calculation in evaluation.calculations)
        return UNTOLERATED_ZERO if held else WITHIN_WATERMARKS
    return PROPOSAL_EQUALS_CURRENT


_POD_FAILURES = frozenset(("no-pods", "none-ready", "unready-ratio", "no-ready-metrics"))


def _metric(rules: Rules, index: int, calculation: Calculation, current: int) -> list[Because]:
    values: dict[str, Scalar] = {"metric": calculation.display}
    if calculation.error:
        values |= {"error": calculation.error, "class": calculation.error_class}
        return [Because(rule="MetricFailed", values=values)]
    values |= {"ready": calculation.ready, "pods": calculation.listed}
    if calculation.held:
        values["proposal"] = calculation.replicas
        return [Because(rule=calculation.held, values=values)]
    values["value_milli"] = calculation.usage if math.isfinite(calculation.usage) else str(calculation.usage)
    above, below = calculation.above, calculation.below
    # Both: the bounds of a recommender contradict one another.
    position = "both" if above and below else "above" if above else "below" if below else "within"
    if rules.recommender is None:
        metric = rules.metrics[index]
        values |= {
            "algorithm": "average" if rules.average else "absolute",
            "low_milli": metric.marks.low,
            "low_adjusted_milli": metric.marks.low_adjusted,
            "high_milli": metric.marks.high,
            "high_adjusted_milli": metric.marks.high_adjusted,
        }
    values |= {"position": position, "modulo": rules.modulo, "proposal": calculation.replicas}
    if calculation.details:
        values["details"] = calculation.details
    steps = [Because(rule="Measured" if rules.recommender is None else "Recommended", values=values)]
    if calculation.foreign:
        other: dict[str, Scalar] = {"metric": calculation.display, "pods": calculation.foreign}
        steps.append(Because(rule="ForeignPods", values=other))
    if calculation.converge in _CONVERGED:
        step: dict[str, Scalar] = {
            "metric": calculation.display,
            "from": current,
            "proposal": calculation.replicas,
            "step": rules.modulo,
        }
        steps.append(Because(rule=_CONVERGED[calculation.converge], values=step))
    return steps


def _proposal(rules: Rules, policy: Policy, evaluation: Pass) -> list[Because]:
    steps: list[Because] = []
    if not evaluation.calculations:
        steps.append(Because(rule="NothingToMeasure", values={"proposal": evaluation.wanted}))
    elif len(evaluation.calculations) > 1:
        values: dict[str, Scalar] = {
            "metric": evaluation.winner,
            "proposal": max(evaluation.combined.replicas, 0),
        }
        steps.append(Because(rule="GreatestProposalWins", values=values))
    foreseen = evaluation.foreseen
    if foreseen is not None:
        metric = rules.metrics[foreseen.index]
        ahead: dict[str, Scalar] = {
            "metric": metric.display,
            "until": foreseen.expected.until,
            "load_milli": foreseen.expected.load,
            "bound_milli": foreseen.expected.bound,
            "ready": evaluation.calculations[foreseen.index].ready,
            "value_milli": foreseen.usage,
            "high_milli": metric.marks.high,
            "high_adjusted_milli": metric.marks.high_adjusted,
            "modulo": rules.modulo,
            "proposal": foreseen.replicas,
        }
        steps.append(Because(rule=FORECAST, values=ahead))
    limited = evaluation.limited
    if limited is None:
        return steps
    if limited.limited:
        values = {"from": evaluation.current, "wanted": limited.wanted, "to": limited.replicas}
        match limited.reason:
            case r if r == SCALE_UP_LIMIT:
                values |= {
                    "limit": limited.up_limit,
                    "percent_milli": rules.up_factor,
                    "max": rules.max_replicas,
                }
            case r if r == SCALE_DOWN_LIMIT:
                values |= {
                    "limit": limited.down_limit,
                    "percent_milli": rules.down_factor,
                    "min": rules.min_replicas,
                }
            case r if r == TOO_FEW:
                values["min"] = rules.min_replicas
            case r if r == TOO_MANY:
                values["max"] = rules.max_replicas
        steps.append(Because(rule=limited.reason or "AtLeastOne", values=values))
        if limited.guarded:
            guard: dict[str, Scalar] = {"ready": evaluation.ready, "to": limited.replicas}
            steps.append(Because(rule="ReadyGuard", values=guard))
        if evaluation.aligned != limited.replicas:
            aligned: dict[str, Scalar] = {
                "modulo": rules.modulo, "wanted": limited.replicas, "to": evaluation.aligned
            }  # fmt: skip
            steps.append(Because(rule="AlignedToModulo", values=aligned))
    if evaluation.stale:
        stale: dict[str, Scalar] = {
            "metrics": ", ".join(evaluation.stale),
            "limit_s": policy.stale_after_s,
            "held": limited.replicas < evaluation.current,
        }
        steps.append(Because(rule="StaleMetric", values=stale))
    return steps


def _window(rules: Rules, evaluation: Pass, verdict: Verdict, last_scale_at: float | None) -> list[Because]:
    if verdict.hold in (Hold.NONE, Hold.NO_CHANGE):
        return []
    upward = verdict.hold in (Hold.UP_WINDOW, Hold.UP_DELAY)
    values: dict[str, Scalar] = {
        "wanted": evaluation.asked,
        "from": evaluation.current,
        "last_scale_at": last_scale_at,
        "window_s": rules.up_window_s if upward else rules.down_window_s,
        "delay_s": rules.up_delay_s if upward else rules.down_delay_s,
        "free_at": verdict.free_at,
    }
    return [Because(rule=str(verdict.hold.value), values=values)]
