"""Forecasts in words: what is expected, and what came of the last one."""

from __future__ import annotations

from collections.abc import Iterator

from tidewright.autoscaler.api.spec import Metric, Rules
from tidewright.autoscaler.forecast import bounds, season
from tidewright.autoscaler.forecast.load import MOST_METRICS, digest
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.passes import forecasts
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import Autoscaler, Forecast
from tidewright.autoscaler.tell.sentences import clock, number, sentence
from tidewright.events.base import Because
from tidewright.kube.durations import format_duration


def told(scaler: Autoscaler, rules: Rules, policy: Policy, now: float) -> list[str]:
    """How the forecasts of an object stand; nothing where none is asked for."""
    _, problem = forecasts.wanted(scaler, policy)
    if problem:
        return [f"No forecast is made: {problem}."]
    if scaler.forecast is None:
        return []
    lines = [
        line for metric in rules.metrics[:MOST_METRICS] for line in _metric(scaler.forecast, metric, now)
    ]
    if len(rules.metrics) > MOST_METRICS:
        left_out = ", ".join(metric.display for metric in rules.metrics[MOST_METRICS:])
        lines.append(f"No forecast is made of {left_out}: of an object {MOST_METRICS} metrics are forecast.")
    return lines


def stood(forecast: Forecast, rules: Rules) -> Iterator[str]:
    """How forecasts stand, after a trial: which confidence is followed, and whether they take part."""
    for metric in rules.metrics[:MOST_METRICS]:
        known = forecast.seasons.get(digest(metric.query))
        if known is not None:
            yield from priced(known, metric.display)
    said = forecasts.STANDINGS[forecasts.standing(forecast)]
    yield f"{said[:1].upper()}{said[1:]}."


def _metric(forecast: Forecast, metric: Metric, now: float) -> Iterator[str]:
    known = forecast.seasons.get(digest(metric.query))
    lead = format_duration(forecast.lead_s)
    if known is None:
        yield f"The load of {metric.display} is to be forecast {lead} ahead, and was not measured yet."
        return
    confidence = bounds.sure(known, forecast.confidence)
    expected = season.ahead(known, lead_s=forecast.lead_s, confidence=confidence)
    if expected is not None:
        old = " (of an old value: it takes no part)" if now - known.at > forecast.lead_s else ""
        yield (
            f"The load of {metric.display} is {number(known.load * known.unit)}; until {clock(expected.until)}, {lead} ahead, it is expected "
            f"to reach {number(expected.load)}, with the upper bound at {number(expected.bound)}{old}: "
            f"{forecasts.STANDINGS[expected.mute]}."
        )
    yield from priced(known, metric.display)
    yield from _came(known, confidence)


def priced(known: Season, display: str) -> Iterator[str]:
    """Which confidence is followed of what is called so, and why, where none was asked for."""
    of = known.price
    if of is not None and of.followed >= 0 and of.runs:
        yield sentence(Because(rule=forecasts.BY_ITS_PRICE, values=forecasts.figures(display, of)))


def _came(known: Season, confidence: float) -> Iterator[str]:
    came, covered = known.came, bounds.coverage(known, confidence)
    if came is None or covered is None:
        return
    held = "held" if came.came <= came.bound else "did not hold"
    yield (
        f"For {clock(came.at)} the forecast was {number(came.point)}, at most {number(came.bound)}, and {number(came.came)} came: the bound {held}. "
        f"Of the last week's, {covered:.0%} held, where {confidence:.0%} is {'asked for' if known.price is None else 'aimed at'}."
    )
