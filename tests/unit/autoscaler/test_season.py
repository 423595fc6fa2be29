"""What the past says of a load: rhythm found, noise muted, gaps and nonsense borne, and never more than its bytes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import msgspec
import pytest

from tidewright.autoscaler.forecast import bounds, memory
from tidewright.autoscaler.forecast import season as s
from tidewright.autoscaler.forecast.load import MOST_METRICS
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.forecast.price import Band, begun

DAY_S = 86400
LEAD_S = 3600.0
MOST_BYTES = 8192


def daily(at: float) -> int:
    """Busy from 8 to 20 o'clock, and nearly idle by night; milli."""
    return 900_000 if 8 <= at % DAY_S / 3600 < 20 else 100_000


def weekly(at: float) -> int:
    """As `daily`, but two days of seven are quiet."""
    return 100_000 if at // DAY_S % 7 < 2 else daily(at)


def rising_late(at: float) -> int:
    """Nearly flat for ten days, and then high by day."""
    by_day = 16_000_000 * max(0.0, math.sin((at % DAY_S / DAY_S - 0.25) * 2 * math.pi)) ** 2
    return int(18_000_000 + by_day * 0.02 if at < 10 * DAY_S else 4_000_000 + by_day)


def other_every_hour(at: float) -> int:
    """High and low by turns, and the day after the other way round."""
    return 8_000 if (at // DAY_S % 7 + at // 3600) % 2 else 1_000


def samples(
    load: Callable[[float], int], days: float, *, every_s: float = 300, start: float = 0.0
) -> Iterator[tuple[float, int]]:
    for n in range(int(days * DAY_S / every_s)):
        at = start + n * every_s
        yield at, load(at)


def folded(series: Iterator[tuple[float, int]], confidence: float = 0.9, lead_s: float = LEAD_S) -> Season:
    season = Season()
    for at, load in series:
        s.add(season, at, load, lead_s=lead_s, confidence=confidence)
    return season


def expected(season: Season, confidence: float = 0.9) -> s.Expected:
    found = s.ahead(season, lead_s=LEAD_S, confidence=confidence)
    assert found is not None
    return found


@pytest.mark.parametrize("every_s", [15, 300, 1800])
def test_a_rise_that_comes_every_day_is_forecast_before_it_comes(every_s: float) -> None:
    season = folded(samples(daily, 9 + 7.5 / 24, every_s=every_s))  # half past seven
    found = expected(season)
    assert not found.mute
    assert season.load * season.unit < 150_000
    assert 750_000 < found.load < 1_000_000
    assert found.bound >= 750_000


def test_a_fall_is_forecast_too() -> None:
    season = folded(samples(daily, 9 + 21 / 24))
    assert expected(season).load < 250_000


def test_days_of_the_week_differ() -> None:
    quiet = folded(samples(weekly, 35 + 7.5 / 24))
    busy = folded(samples(weekly, 37 + 7.5 / 24))
    assert expected(quiet).load < 400_000
    assert expected(busy).load > 700_000


def test_the_bound_holds_about_as_often_as_is_asked() -> None:
    chance = random.Random(7)
    noisy = [(at, int(load * chance.uniform(0.7, 1.3))) for at, load in samples(daily, 21)]
    for confidence in (0.5, 0.9):
        season = folded(iter(noisy), confidence)
        found = bounds.coverage(season, confidence)
        assert found is not None
        assert abs(found - confidence) < 0.08
        assert not bounds.mute(season, confidence)


def test_more_confidence_is_a_higher_bound() -> None:
    chance = random.Random(7)
    season = folded((at, int(load * chance.uniform(0.7, 1.3))) for at, load in samples(daily, 14))
    found = [expected(season, confidence).bound for confidence in (0.1, 0.5, 0.7, 0.9, 0.99)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_a_load_without_rhythm_is_muted() -> None:
    chance = random.Random(3)
    season = folded((at, chance.randrange(100_000, 900_000)) for at, _ in samples(daily, 14))
    assert expected(season).mute == bounds.NO_RHYTHM


def test_a_walk_without_rhythm_is_muted() -> None:
    chance = random.Random(4)
    load, walk = 500_000, []
    for at, _ in samples(daily, 14):
        load = max(1000, load + chance.randrange(-20_000, 20_001))
        walk.append((at, load))
    assert expected(folded(iter(walk))).mute in (bounds.NO_RHYTHM, bounds.OFTEN_WRONG)


def test_a_rhythm_that_is_lost_mutes_and_one_that_comes_back_does_not() -> None:
    season = folded(samples(daily, 14))
    chance = random.Random(5)
    for at, _ in samples(daily, 8, start=14 * DAY_S):
        s.add(season, at, chance.randrange(100_000, 3_000_000), lead_s=LEAD_S, confidence=0.9)
    assert expected(season).mute
    for at, load in samples(daily, 40, start=22 * DAY_S):
        s.add(season, at, load, lead_s=LEAD_S, confidence=0.9)
    assert not expected(season).mute


def test_a_bound_that_holds_too_seldom_mutes() -> None:
    season = folded(samples(daily, 14), confidence=0.5)
    season.judged, season.covered = 100 * memory.ONE, 34 * memory.ONE
    assert bounds.mute(season, 0.5) == bounds.OFTEN_WRONG
    season.covered = 36 * memory.ONE  # three standard deviations are fifteen of a hundred
    assert not bounds.mute(season, 0.5)


@pytest.mark.parametrize("load", [0, 1, 500_000])
def test_a_constant_load_is_no_rhythm(load: int) -> None:
    season = folded(samples(lambda _: load, 7))
    found = expected(season)
    assert found.mute == bounds.NO_RHYTHM
    assert found.load == pytest.approx(load, rel=0.01)


def test_little_history_is_no_history() -> None:
    assert s.ahead(Season(), lead_s=LEAD_S, confidence=0.9) is None
    assert expected(folded(samples(daily, 1.5))).mute == bounds.LEARNING
    assert bounds.coverage(Season(), 0.9) is None
    assert bounds.mean_error(Season()) is None


def test_gaps_are_borne() -> None:
    whole = (sample for sample in samples(daily, 16 + 7.5 / 24) if not 5 * DAY_S < sample[0] < 8.3 * DAY_S)
    found = expected(folded(whole))
    assert not found.mute
    assert found.load > 700_000


def test_a_gap_of_hours_is_bridged_and_a_longer_one_is_not() -> None:
    season = folded(iter([(0.0, 100_000), (3600.0, 200_000), (7200.0, 200_000)]))
    assert season.day[2] * season.unit == pytest.approx(150_000, rel=0.02)
    season = folded(iter([(0.0, 100_000), (36000.0, 200_000), (37000.0, 200_000)]))
    assert season.day[2] == -1


def test_clocks_that_jump_are_borne() -> None:
    season = folded(samples(daily, 9))
    before = msgspec.json.encode(season)
    s.add(season, 5 * DAY_S, 7, lead_s=LEAD_S, confidence=0.9)
    assert msgspec.json.encode(season) == before  # no later than the last: left out
    s.add(season, 9 * DAY_S + 400 * DAY_S, 500_000, lead_s=LEAD_S, confidence=0.9)
    assert expected(season).load >= 0
    assert not season.issued[0].due < 409 * DAY_S


def test_a_load_that_falls_below_nothing_counts_as_none() -> None:
    season = folded(iter([(0.0, -5), (300.0, -500_000)]))
    assert season.load == 0


def test_a_load_a_million_times_as_great_is_counted_in_greater_steps() -> None:
    season = folded(samples(daily, 9))
    for at, load in samples(lambda at: daily(at) * 1_000_000, 5, start=9 * DAY_S):
        s.add(season, at, load, lead_s=LEAD_S, confidence=0.9)
    assert max(season.day) < 2 * memory.STEPS
    assert expected(season).load > 0


def test_seasons_of_all_metrics_stay_below_eight_kibibytes() -> None:
    chance = random.Random(11)
    for lead_s in (60.0, 600.0, 21600.0):
        season = Season(price=begun(Band(500, 1000, 475, 1050, 1, 10_000, 900_000, 900_000, 3600, 3600)))
        for n in range(30_000):
            load = chance.choice((0, 2**62, 10**9, chance.randrange(2**62)))
            s.add(season, 1.7e9 + n * 97.013, load, lead_s=lead_s, confidence=0.123456789)
        assert season.price is not None
        assert bool(season.price.runs) is (lead_s > 60)  # with a lead that short none of these is judged
        assert MOST_METRICS * (len(msgspec.json.encode(season)) + 100) <= MOST_BYTES


def test_what_is_stored_goes_on_as_what_was_folded() -> None:
    series = list(samples(daily, 8))
    season = folded(iter(series[:1500]))
    season = msgspec.json.decode(msgspec.json.encode(season), type=Season)
    for at, load in series[1500:]:
        s.add(season, at, load, lead_s=LEAD_S, confidence=0.9)
    assert msgspec.json.encode(season) == msgspec.json.encode(folded(iter(series)))


def test_another_lead_keeps_the_profile_and_forgets_the_errors() -> None:
    season = folded(samples(daily, 9))
    day = list(season.day)
    s.unlearn(season)
    assert season.day == day
    assert expected(season).mute == bounds.LEARNING


@pytest.mark.parametrize("load", [rising_late, other_every_hour])
def test_so_they_do_with_a_sample_every_minute_for_weeks(load: Callable[[float], int]) -> None:
    """With all that there is: what comes within minutes, a local time, prices, and a load of as many digits as it may have."""
    chance = random.Random(3)
    band = Band(600_000, 1_000_000, 570_000, 1_050_000, 2, 10_000, 50_000, 20_000, 60, 3600)
    season = Season(zone="CET-1CEST,M3.5.0,M10.5.0/3", price=begun(band, 0.91))
    for n in range(15 * 1440):
        at = n * 60.0
        noisy = int(load(at) * 1000 * (1 + 0.05 * chance.random()))
        s.add(season, 1.78e9 // DAY_S * DAY_S + at + 0.123456, noisy, lead_s=600.0, confidence=0.91)
        if n % 97 == 0:
            assert MOST_METRICS * (len(msgspec.json.encode(season)) + 100) <= MOST_BYTES
    assert season.ripple is not None
    assert season.price is not None
    assert season.price.runs


def test_two_days_are_enough_for_the_longest_lead() -> None:
    season = folded(samples(daily, 2.1), lead_s=21600.0)
    assert bounds.mute(season, 0.5) != bounds.LEARNING
