"""The Prometheus series of an object after a pass (section 4.2), as a pure function.

A series is named by its name without the prefix `wpa_controller_`, and by the value of its own
label where it has one (the metric's name, the reason, the transition, the condition).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidewright.autoscaler.api.conditions import Setting
from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.forecast import bounds
from tidewright.autoscaler.forecast.load import digest
from tidewright.autoscaler.passes.combine import Calculation
from tidewright.autoscaler.passes.conditions import (
    ABLE_TO_SCALE,
    SCALING_ACTIVE,
    SCALING_BLOCKED,
    SCALING_LIMITED,
)
from tidewright.autoscaler.passes.evaluate import Pass
from tidewright.autoscaler.passes.formula import Converge
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import Forecast

_CONDITIONS = {
    ABLE_TO_SCALE: "able_to_scale",
    SCALING_LIMITED: "scaling_limited",
    SCALING_BLOCKED: "scaling_blocked",
}
_UNREADABLE = frozenset(("metric-unavailable", "metric-empty", "recommender-unavailable"))
WITHIN = "within_bounds"
UP_CAPPED = "upscale_capping"
DOWN_CAPPED = "downscale_capping"


class Series(NamedTuple):
    """One series: its name, and the value of its own label (empty when it has none)."""

    name: str
    label: str = ""


Values = dict[Series, float]


def of_settings(settings: Sequence[Setting]) -> Values:
    """What the conditions of a pass say."""
    values: Values = {Series("scaling_active"): 0}
    for setting in settings:
        if setting.type == SCALING_ACTIVE:
            values[Series("scaling_active")] = float(setting.status)
        elif setting.type in _CONDITIONS:
            values[Series("conditions", _CONDITIONS[setting.type])] = float(setting.status)
        if setting.type == SCALING_BLOCKED and not setting.message.startswith("Lifecycle Control"):
            values[Series("lifecycle_control_status")] = float(setting.status)
    return values


def of_pass(rules: Rules, policy: Policy, evaluation: Pass, *, last_scale_at: float | None) -> Values:
    """What the computation of a pass says; the counters are what a written scale adds to them.

    Strictly, series are set and left alone as the reference does it (D12); otherwise each
    restriction is 1 while it applies and 0 while it does not.
    """
    values: Values = {
        Series("dry_run"): float(rules.dry_run),
        Series("min_replicas"): rules.min_replicas,
        Series("max_replicas"): rules.max_replicas,
    }
    for index, calculation in enumerate(evaluation.calculations):
        _of_metric(rules, policy, index, calculation, values)
    if evaluation.failure is not None or evaluation.limited is None or evaluation.verdict is None:
        return values
    limited = evaluation.limited
    if policy.strict:
        if rules.min_replicas:
            values[Series("restricted_scaling", DOWN_CAPPED)] = float(limited.down_capped)
        if limited.up_capped:
            values[Series("restricted_scaling", UP_CAPPED)] = 1
        elif limited.replicas >= limited.wanted:
            values.setdefault(Series("restricted_scaling", DOWN_CAPPED), 0)
    else:
        values[Series("restricted_scaling", WITHIN)] = float(evaluation.combined.stable)
        values[Series("restricted_scaling", UP_CAPPED)] = float(limited.up_capped)
        values[Series("restricted_scaling", DOWN_CAPPED)] = float(limited.down_capped)
    if last_scale_at is not None:
        for transition, until in (
            ("upscale", evaluation.verdict.up_closed_until),
            ("downscale", evaluation.verdict.down_closed_until),
        ):
            values[Series("transition_countdown", transition)] = (
                0 if until is None else until - evaluation.now
            )
    values[Series("replicas_scaling_effective")] = evaluation.desired
    return values


def of_forecast(rules: Rules, forecast: Forecast) -> Values:
    """How good forecasts of each metric have been; nothing before one was due."""
    values: Values = {}
    for metric in rules.metrics:
        known = forecast.seasons.get(digest(metric.query))
        if known is None:
            continue
        confidence = bounds.sure(known, forecast.confidence)
        values[Series("forecast_muted", metric.name)] = float(bool(bounds.mute(known, confidence)))
        values[Series("forecast_confidence", metric.name)] = confidence
        covered, error = bounds.coverage(known, confidence), bounds.mean_error(known)
        if covered is not None and error is not None:
            values[Series("forecast_coverage", metric.name)] = covered
            values[Series("forecast_error", metric.name)] = error
    return values


def _of_metric(rules: Rules, policy: Policy, index: int, calculation: Calculation, values: Values) -> None:
    marks: tuple[int | None, int | None]
    if rules.recommender is not None:
        name, marks = rules.recommender.name, (rules.recommender.low, rules.recommender.high)
    else:
        metric = rules.metrics[index]
        name, marks = metric.name, (metric.marks.low, metric.marks.high)
    if calculation.error:
        if calculation.error_class in _UNREADABLE:
            for reason in (WITHIN, UP_CAPPED, DOWN_CAPPED):
                values.pop(Series("restricted_scaling", reason), None)
        return
    for series, mark in zip(("low_watermark", "high_watermark"), marks, strict=True):
        if mark is not None:
            values[Series(series, name)] = mark
    values[Series("replicas_scaling_proposal", name)] = calculation.replicas
    if not calculation.held:
        recommended = rules.recommender is not None
        values[Series("value", name)] = calculation.utilization if recommended else calculation.usage
        if policy.strict and calculation.converge in (Converge.ABOVE, Converge.BELOW):
            values[Series("restricted_scaling", WITHIN)] = 0
