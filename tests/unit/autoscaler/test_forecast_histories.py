"""Histories as they should not be: told on the object, explained, and the rules without a forecast go on."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.unit.autoscaler.test_forecasts import ASKS, DAY_S, EVERY_S, RPS, load, ready, started
from tests.unit.autoscaler.world import NS, World, of, sample
from tidewright.autoscaler.forecast import bounds, season
from tidewright.autoscaler.passes.forecasts import STANDINGS, UNMEASURED
from tidewright.autoscaler.tell.explaining import EXPLAINER
from tidewright.events.base import Decision
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload
from tidewright.events.facts import MetricSampled
from tidewright.host.fold.explainer import Reference

TAKES_PART = STANDINGS[""]


def fed(world: World, values: Iterator[tuple[float, int]]) -> list[Decision]:
    """Samples; scales are followed at once."""
    given: list[Decision] = []
    for at, value in values:
        found = world.feed(sample(at, value))
        given += found
        for order in of(found, ScaleWorkload):
            given += world.apply(order, at + 1)
            ready(world, at + 1, order.replicas)
    return given


def daily(begin: float, end: float) -> Iterator[tuple[float, int]]:
    for n in range(int(begin // EVERY_S) + 1, int(end // EVERY_S)):
        yield float(n * EVERY_S), load(n * EVERY_S)


def standings(given: list[Decision]) -> list[str]:
    return [event.message for event in of(given, RecordObjectEvent) if event.reason == "Forecast"]


def by_forecast(given: list[Decision]) -> list[ScaleWorkload]:
    return [
        scale for scale in of(given, ScaleWorkload) if any(step.rule == "Forecast" for step in scale.because)
    ]


def by_rules(given: list[Decision]) -> list[ScaleWorkload]:
    return [scale for scale in of(given, ScaleWorkload) if scale not in by_forecast(given)]


def test_a_history_with_gaps_is_a_history() -> None:
    world = started(ASKS)
    gappy = [
        (at, value)
        for at, value in daily(0, 8 * DAY_S)
        if not 3 * DAY_S < at < 4.4 * DAY_S and int(at // EVERY_S) % 7
    ]
    given = fed(world, iter(gappy))
    assert standings(given)[-1] == TAKES_PART
    late = [scale for scale in by_forecast(given) if scale.at > 5 * DAY_S]
    assert any(scale.replicas >= 9 for scale in late)


def test_after_a_gap_nothing_is_forecast_from_a_value_of_before_it_and_explain_says_so() -> None:
    world = started(ASKS)
    fed(world, daily(0, 8 * DAY_S + 6 * 3600))
    now = 8 * DAY_S + 9 * 3600
    world.fold.state.now = now
    told = EXPLAINER.standing(world.fold.state, Reference("watermarkpodautoscaler", NS, "wpa"), now)
    assert any("of an old value: it takes no part" in line for line in told)


def test_a_counter_that_begins_anew_is_one_wrong_forecast() -> None:
    world = started(ASKS)
    chance = random.Random(8)
    resets = {float(chance.randrange(8 * 96) * EVERY_S) for _ in range(12)}
    given = fed(world, ((at, 0 if at in resets else value) for at, value in daily(0, 9 * DAY_S)))
    assert standings(given)[-1] == TAKES_PART
    forecast = world.object().forecast
    assert forecast is not None
    expected = season.ahead(forecast.seasons[RPS], lead_s=3600, confidence=0.9)
    assert expected is not None
    assert expected.load < 40_000  # at midnight


@pytest.mark.parametrize("value", [0, 18_000])
def test_a_constant_history_is_muted_told_and_changes_nothing(value: int) -> None:
    given = fed(started(ASKS), ((at, value) for at, _ in daily(0, 6 * DAY_S)))
    alone = fed(started(), ((at, value) for at, _ in daily(0, 6 * DAY_S)))
    assert standings(given)[-1] == STANDINGS[bounds.NO_RHYTHM]
    assert [(s.at, s.replicas) for s in of(given, ScaleWorkload)] == [
        (s.at, s.replicas) for s in of(alone, ScaleWorkload)
    ]


def test_an_empty_history_is_told_and_changes_nothing() -> None:
    world = started(ASKS)
    given: list[Decision] = []
    for n in range(1, 20):
        at = float(n * EVERY_S)
        given += world.feed(MetricSampled(at=at, namespace=NS, name="external/rps/app=web", series_milli=()))
    assert not of(given, ScaleWorkload)
    assert standings(given) == [STANDINGS[UNMEASURED]]
    told = EXPLAINER.standing(
        world.fold.state, Reference("watermarkpodautoscaler", NS, "wpa"), 20.0 * EVERY_S
    )
    assert any("was not measured yet" in line for line in told)
    given += fed(world, daily(1 * DAY_S, 2 * DAY_S))  # and when it is measured, the rules go on at once
    assert by_rules(given)
    assert standings(given)[-1] == STANDINGS[bounds.LEARNING]


def test_a_clock_that_jumps_ahead_and_on_is_borne() -> None:
    world = started(ASKS)
    fed(world, daily(0, 6 * DAY_S))
    year = 365 * DAY_S
    given = fed(world, daily(year, year + 6 * DAY_S))
    assert by_rules(given) + by_forecast(given)
    assert standings(given)[-1:] in ([], [TAKES_PART])
    early = [scale for scale in by_forecast(given) if scale.at > year + 4 * DAY_S]
    assert any(scale.replicas >= 9 for scale in early)


def test_a_clock_that_jumps_back_teaches_nothing_and_stops_nothing() -> None:
    world = started(ASKS)
    fed(world, daily(0, 6 * DAY_S))
    forecast = world.object().forecast
    assert forecast is not None
    known = forecast.seasons[RPS].at
    back = list(daily(2 * DAY_S, 3 * DAY_S))
    given = [decision for at, value in back for decision in world.feed(sample(at, value))]
    assert forecast.seasons[RPS].at == known
    assert given
    assert fed(world, daily(6 * DAY_S, 7 * DAY_S))
    assert forecast.seasons[RPS].at > known or world.object().forecast is not forecast
