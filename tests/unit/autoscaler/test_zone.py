"""Local time as a rule: what the C library makes of the same text, and what a profile by it is good for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.autoscaler.test_forecasts import ASKS, RPS, run, started
from tests.unit.autoscaler.test_season import LEAD_S, daily, expected, samples
from tests.unit.autoscaler.world import of, spec, wpa
from tidewright.autoscaler.forecast import memory
from tidewright.autoscaler.forecast import season as s
from tidewright.autoscaler.forecast.asked import ANNOTATION, BadForecast, asked
from tidewright.autoscaler.forecast.memory import DAY, Season
from tidewright.autoscaler.forecast.zone import BUCKET_S, EXAMPLE, BadZone, shift, zone_of
from tidewright.events.autoscaler import RecordForecast

NEW_YORK, SYDNEY, LORD_HOWE = (
    "EST5EDT,M3.2.0,M11.1.0",
    "AEST-10AEDT,M10.1.0,M4.1.0/3",
    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
)
ZONES = (
    EXAMPLE, NEW_YORK, SYDNEY, LORD_HOWE, "UTC0", "IST-5:30", "<-03>3", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
    "AAA0BBB,J60,J300", "AAA0BBB,59,299/12:30", "IST-2IDT,M3.4.4/26,M10.5.0",
)  # fmt: skip
DAY_S = 86400
CHANGED = datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()
"""When clocks in the middle of Europe are put forward."""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What sets the local time of this process, and puts it back."""
    with monkeypatch.context() as patch:
        yield patch
    time.tzset()


@pytest.mark.parametrize("text", ZONES)
def test_offsets_are_those_of_the_c_library(text: str, library: pytest.MonkeyPatch) -> None:
    library.setenv("TZ", text)
    time.tzset()
    begin = int(datetime(2023, 12, 30, tzinfo=UTC).timestamp()) // BUCKET_S
    for bucket in range(begin, begin + 4 * 366 * DAY, 2):  # a leap year among them
        assert shift(text, bucket) * BUCKET_S == time.localtime(bucket * BUCKET_S).tm_gmtoff, bucket


@given(st.sampled_from(ZONES), st.integers(-(2**62), 2**62))
@settings(max_examples=200, deadline=None)
def test_any_moment_has_an_offset(text: str, bucket: int) -> None:
    assert abs(shift(text, bucket)) <= DAY


@pytest.mark.parametrize(
    "text",
    [
        "", "Europe/Berlin", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,J0,J300", "CET-1CEST,400,J300", "CET-1:07", "CET-99", "C-1", "CET-1\n", "x" * 10_000, "CET-٣",
    ],
)  # fmt: skip
def test_what_is_no_rule_says_what_would_be_valid(text: str) -> None:
    with pytest.raises(BadZone, match="zone="):
        zone_of(text)


def test_a_rhythm_of_people_keeps_its_hours_when_clocks_are_changed() -> None:
    """Busy from 8 to 20 o'clock by local time; at half past seven after the change, an hour sooner by UTC."""

    def local(at: float) -> int:
        return daily(at + (7200 if at >= CHANGED else 3600))

    begin = CHANGED - 9 * DAY_S
    until = CHANGED + DAY_S + (7.5 - 1 - 2) * 3600  # the day after, half past seven
    found = []
    for zone in (EXAMPLE, ""):
        season = Season(zone=zone)
        for at, load in samples(local, (until - begin) / DAY_S, start=begin):
            s.add(season, at, load, lead_s=LEAD_S, confidence=0.9)
        assert season.load * season.unit < 150_000
        found.append(expected(season).load)
    assert found[0] > 750_000
    assert found[1] < 700_000


def test_another_local_time_turns_the_profile_and_back() -> None:
    season = Season()
    for at, load in samples(daily, 8):
        s.add(season, at, load, lead_s=LEAD_S, confidence=0.9)
    turned = memory.zoned(season, "IST-5:30")
    assert [turned.day[(place + 22) % DAY] for place in range(DAY)] == season.day
    assert expected(turned) == expected(season)
    assert msgspec.json.encode(memory.zoned(turned, "")).startswith(b"{")
    assert memory.zoned(turned, "").day == season.day


def test_who_asks_says_the_zone_last() -> None:
    assert asked(f"lead=10m,confidence=0.5,zone={EXAMPLE}").zone == EXAMPLE
    assert asked(f" lead=10m , zone={EXAMPLE} ").lead_s == 600
    with pytest.raises(BadForecast, match="the last line of the zone's file"):
        asked("lead=10m,zone=Europe/Berlin")


def test_a_zone_is_recorded_and_what_was_learnt_is_turned() -> None:
    world = started(ASKS)
    run(world, 900, 5 * DAY_S)
    before = world.object().forecast
    assert before is not None
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    asks = {ANNOTATION: ASKS[ANNOTATION] + ",zone=IST-5:30"}
    (record,) = of(world.feed(wpa(5 * DAY_S, spec=spec(**members), annotations=asks)), RecordForecast)
    after = world.object().forecast
    assert after is not None
    assert (record.zone, after.zone, after.seasons[RPS].zone) == ("IST-5:30",) * 3
    assert after.seasons[RPS].day[22:] == before.seasons[RPS].day[:-22]
    assert after.seasons[RPS].judged == before.seasons[RPS].judged
    assert not of(world.feed(wpa(5 * DAY_S + 1, spec=spec(**members), annotations=asks)), RecordForecast)


def test_a_forecast_that_begins_has_the_zone() -> None:
    asks = {ANNOTATION: f"lead=10m,zone={NEW_YORK}"}
    world = started(asks)
    run(world, 900, 3600)
    forecast = world.object().forecast
    assert forecast is not None
    assert forecast.seasons[RPS].zone == NEW_YORK


def test_a_model_with_a_zone_that_is_none_is_refused() -> None:
    season = Season()
    for at, load in samples(daily, 3):
        s.add(season, at, load, lead_s=LEAD_S, confidence=0.9)
    season.issued, season.came = [], None
    assert memory.problem(season) == ""
    season.zone = "Mars"
    assert "zone=Mars" in memory.problem(season)
