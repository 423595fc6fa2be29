"""A confidence that follows from its price: what is counted, and what is followed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.test_forecasts import DAY_S, RPS, run, started
from tests.unit.autoscaler.world import NS, World, external, of, sample, spec, wpa
from tidewright.autoscaler.api.spec import compiled
from tidewright.autoscaler.backtest import Row, backtest
from tidewright.autoscaler.forecast import bounds, memory, price, season
from tidewright.autoscaler.forecast.asked import ANNOTATION, DEFAULT_CONFIDENCE
from tidewright.autoscaler.forecast.price import CONFIDENCES, Band, Price, Run
from tidewright.autoscaler.passes.forecasts import bands, recorded
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import Autoscaler, Forecast
from tidewright.autoscaler.tell.explaining import EXPLAINER
from tidewright.autoscaler.tell.exposition import samples
from tidewright.autoscaler.tell.sentences import sentences
from tidewright.events.autoscaler import RecordForecast
from tidewright.events.base import ObjectRef
from tidewright.events.facts import MetricSampled
from tidewright.host.fold.explainer import Reference

BY_PRICE = {ANNOTATION: "lead=60m"}
BAND = Band(6_000, 10_000, 5_700, 10_500, 1, 100, 50_000, 20_000, 60, 300)


def counted(
    *came_to: tuple[int, int], alone: tuple[int, int] = (1000, 1_000_000), seconds: int = 7 * DAY_S
) -> Price:
    """Of so many seconds above the mark and so much more replica-time by confidence; the others are far too dear."""
    others = [*came_to, *[(0, 10**9)] * (len(CONFIDENCES) - len(came_to))]
    return Price(BAND, [Run(1, 0, *figures) for figures in (alone, *others)], seconds)


def test_what_saves_most_and_is_not_too_dear_is_followed() -> None:
    exactly = counted((900, 1000), (600, 20_000), (300, 40_000))
    assert price.worth(exactly) == CONFIDENCES[2]
    assert price.came_to(exactly, CONFIDENCES[2]) == (0.3, 0.04)


def test_between_two_confidences_the_price_goes_in_a_straight_line() -> None:
    found = price.worth(counted((900, 0), (500, 20_000), (100, 60_000)))
    assert found == pytest.approx((CONFIDENCES[1] + CONFIDENCES[2]) / 2, abs=0.01)
    left, more = price.came_to(counted((900, 0), (500, 20_000), (100, 60_000)), found)
    assert left == pytest.approx(0.3, abs=0.03)
    assert more <= 0.04


@pytest.mark.parametrize(
    "nothing",
    [
        counted((500, 41_000), (300, 80_000)),  # too dear
        counted((1000, 0), (800, 20_000)),  # too little is saved
        counted((0, 0), (0, 20_000), alone=(0, 1_000_000)),  # there is nothing to be saved
    ],
)
def test_none_is_followed_where_none_is_worth_its_price(nothing: Price) -> None:
    assert price.worth(nothing) == 0


def lived_through(*days: tuple[int, ...]) -> Price:
    """What each day came to by confidence, in thousandths of a million replica-seconds; the others are far too dear, and each leaves half."""
    found = price.begun(BAND)
    found.runs = [Run(1) for _ in range(len(CONFIDENCES) + 1)]
    for day in days:
        found.seconds += DAY_S
        parts = [*day, *[900] * (len(CONFIDENCES) - len(day))]
        for of_day, part in zip(found.runs, (1000, *parts), strict=True):
            of_day.above_s += 1000 if of_day is found.runs[0] else 500
            of_day.replica_s += 1000 * part
        price.fade(found)
    return found


def test_a_price_that_rises_is_not_followed_although_the_week_was_cheap() -> None:
    """A mean is days behind a model that sharpens: what it will cost is where a line through the days goes."""
    rising = lived_through(*[(4 + 8 * n,) for n in range(8)])
    (part, *_) = price.coming(rising)
    assert price.came_to(rising, CONFIDENCES[0])[1] < price.MORE_REPLICAS
    assert part == pytest.approx(0.06, abs=0.01)
    assert price.comes_to(rising, CONFIDENCES[0]) == part
    assert price.worth(rising) == 0
    rising.aged = []
    assert price.worth(rising) == CONFIDENCES[0]


def test_between_what_is_on_its_way_to_too_much_and_what_is_not_there_is_a_straight_line() -> None:
    found = lived_through(*[(2 * n, 12 * n) for n in range(6)])
    followed = price.worth(found)
    assert CONFIDENCES[0] < followed < CONFIDENCES[1]
    assert price.comes_to(found, followed) == pytest.approx(price.MOST_REPLICAS, abs=0.01)
    assert price.comes_to(found, followed) <= price.MOST_REPLICAS


@pytest.mark.parametrize("days", [[(30,)], [(30,)] * 9, [(36,), (24,)] * 5, [(28,)] * 9 + [(60,)]])
def test_days_that_are_alike_and_one_dear_day_are_no_way(days: list[tuple[int, ...]]) -> None:
    found = lived_through(*days)
    assert price.coming(found)[0] == pytest.approx(0.03, abs=0.015)
    assert price.worth(found) == CONFIDENCES[0]


def test_of_two_days_a_line_says_little_and_of_many_what_it_is() -> None:
    said = [price.coming(lived_through(*[(10 * n,) for n in range(days)]))[0] for days in (2, 4, 30)]
    steps = [(part - (days - 1) / 200) / ((days + 1) / 200) for part, days in zip(said, (2, 4), strict=False)]
    assert steps == pytest.approx([0.2, 0.55], abs=0.05)
    assert said[2] == pytest.approx(0.3, abs=0.01)


def test_a_job_every_quarter_of_an_hour_is_not_paid_dearly() -> None:
    """Its model becomes sharper every day, and every confidence dearer."""
    chance = random.Random(15)
    series: list[Row] = [
        (n * 300.0, (60 + (0 if n % 3 else 100) + chance.gauss(0, 3),)) for n in range(14 * 288)
    ]
    members = spec(
        external("load", low="16.8", high="18.7", app="web"),
        algorithm="average",
        tolerance="0.1",
        maxReplicas=100,
    )
    alone, both = (backtest(members, series, history_s=7 * DAY_S, forecast=asks) for asks in ("", "lead=10m"))
    assert alone.above_high_s > 0
    assert both.replica_hours <= 1.05 * alone.replica_hours


def test_what_was_recorded_before_is_gone_on_with_and_a_line_begins_with_the_next_record() -> None:
    stored = msgspec.json.encode(counted((500, 30_000)))
    before = msgspec.json.decode(msgspec.json.encode(msgspec.json.decode(stored)[:6]), type=Price)
    assert before.aged == []
    assert price.worth(before) > 0
    price.fade(before)
    assert before.aged == []
    world = started(BY_PRICE)
    run(world, 900, 4 * DAY_S)
    of_world = known_of(world).price
    assert of_world is not None
    of_world.aged = []
    given = run(world, 4 * DAY_S, 5.1 * DAY_S)
    assert "coming" in of(given, RecordForecast)[-1].because[0].values
    assert len(of_world.aged or known_of(world).price.aged) == len(price.NONE_AGED)  # type: ignore[union-attr]


def test_sums_that_no_days_can_have_come_to_are_borne() -> None:
    """Of a model that somebody has edited."""
    found = lived_through((30,), (30,))
    found.aged = [10**9] * len(found.aged)
    assert price.coming(found)[0] == pytest.approx(0.03, abs=0.001)
    assert price.worth(found) == CONFIDENCES[0]


def rows(days: float, every_s: int = 300) -> list[Row]:
    chance = random.Random(3)
    return [
        (n * every_s, (50 + 40 * math.sin(n * every_s / DAY_S * 2 * math.pi) + chance.uniform(-8, 8),))
        for n in range(int(days * DAY_S) // every_s)
    ]


def shadowed(members: dict[str, Any], series: list[Row]) -> Run:
    """What is counted of the rules alone."""
    (band,) = bands(compiled(members, namespace=NS, name="wpa")).values()
    found = Price(band)
    for before, (at, values) in zip([series[0], *series], series, strict=False):
        price.add(found, int(at - before[0]), int(values[0] * 1000), [0] * len(CONFIDENCES))
    return found.runs[0]


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"scaleUpLimitFactor": "20", "scaleDownLimitFactor": "10"},
        {"minReplicas": 4, "maxReplicas": 7},
        {"replicaScalingAbsoluteModulo": 3},
        {"convergeTowardsWatermark": "highwatermark"},
        {"convergeTowardsWatermark": "lowwatermark"},
        {"downscaleForbiddenWindowSeconds": 1800, "upscaleForbiddenWindowSeconds": 600},
    ],
)
def test_what_is_counted_of_the_rules_alone_is_near_what_they_do(members: dict[str, Any]) -> None:
    members = spec(**{"maxReplicas": 30, **members})
    series = rows(4)
    done, found = backtest(members, series), shadowed(members, series)
    assert found.replica_s / 3600 == pytest.approx(done.replica_hours, rel=0.03)
    assert found.above_s == pytest.approx(done.above_high_s, rel=0.3, abs=1800)


def test_it_counts_more_for_more_confidence_and_leaves_less() -> None:
    known = memory.Season(price=Price(BAND))
    for at, values in rows(8):
        season.add(known, at, int(values[0] * 1000), lead_s=600, confidence=0.35)
    runs = known.price.runs if known.price is not None else []
    assert [run.above_s for run in runs] == sorted((run.above_s for run in runs), reverse=True)
    assert [run.replica_s for run in runs[1:]] == sorted(run.replica_s for run in runs[1:])
    assert runs[-1].above_s < runs[0].above_s / 2


def test_a_time_without_samples_counts_nothing_and_a_day_fades_it() -> None:
    found = Price(BAND)
    likely = [0] * len(CONFIDENCES)
    for passed_s in (0, 300, price.LONGEST_S + 1, 300):
        price.add(found, passed_s, 100_000, likely)
    assert found.seconds == 600
    before = found.runs[0].replica_s
    price.fade(found)
    assert (found.seconds, found.runs[0].replica_s) == (525, before * 7 // 8)


def known_of(world: World) -> memory.Season:
    forecast = world.object().forecast
    assert forecast is not None
    return forecast.seasons[RPS]


def test_who_names_no_confidence_follows_the_one_that_is_recorded_with_its_reasons() -> None:
    world = started(BY_PRICE)
    records = of(run(world, 900, 4.2 * DAY_S), RecordForecast)
    of_known = known_of(world).price
    assert of_known is not None
    assert of_known.followed > 0
    assert records[0].confidence == 0
    (told,) = sentences(records[-1].because)
    assert f"a confidence of {records[-1].because[0].values['confidence']:g} would have left" in told
    assert told.endswith("it is followed.")
    standing = EXPLAINER.standing(
        world.fold.state, Reference("watermarkpodautoscaler", NS, "wpa"), 4.2 * DAY_S
    )
    assert any(line.endswith("it is followed.") for line in standing)
    series = {s.name: s.value for s in samples(world.fold.state) if "forecast" in s.name}
    assert series["wpa_controller_forecast_confidence"] == of_known.followed
    assert series["wpa_controller_forecast_muted"] == 0


def test_it_learns_for_a_day_longer_before_it_takes_part() -> None:
    world = started(BY_PRICE)
    given = run(world, 900, 2.8 * DAY_S)
    assert [c.followed for c in [known_of(world).price] if c is not None] == [-1]
    assert all(bounds.mute(known_of(world), confidence) for confidence in CONFIDENCES)
    assert not any(record.because for record in of(given, RecordForecast))
    run(world, 2.8 * DAY_S, 3.1 * DAY_S)
    assert [c.followed >= 0 for c in [known_of(world).price] if c is not None] == [True]


def test_a_load_that_is_never_above_takes_no_part_and_says_so() -> None:
    world = started(BY_PRICE, minReplicas=12)
    given = run(world, 900, 4 * DAY_S)
    assert bounds.mute(known_of(world), DEFAULT_CONFIDENCE) == bounds.UNPAID
    assert "none is followed" in sentences(of(given, RecordForecast)[-1].because)[0]
    assert bounds.UNPAID in {bounds.mute(known_of(world), confidence) for confidence in CONFIDENCES}
    assert any("worth its price" in text for text in world.object().said.values())


def test_who_names_a_confidence_has_nothing_counted() -> None:
    world = started({ANNOTATION: "lead=60m,confidence=0.5"})
    records = of(run(world, 900, 4 * DAY_S), RecordForecast)
    assert known_of(world).price is None
    assert {record.confidence for record in records} == {0.5}
    assert not any(record.because for record in records)


def lived(
    members: Callable[[float], dict[str, Any]], days: float, load: Callable[[float], int]
) -> list[RecordForecast]:
    """An object whose spec changes, with a sample every ten minutes; what is recorded is what is known from then on."""
    target = ObjectRef(api_version="a", kind="WatermarkPodAutoscaler", namespace=NS, name="wpa")
    scaler = Autoscaler(name="wpa", asks="lead=60m")
    records: list[RecordForecast] = []
    for n in range(int(days * 144)):
        at = n * 600.0
        scaler.rules = compiled(spec(**{"maxReplicas": 30, **members(at)}), namespace=NS, name="wpa")
        if (known := scaler.forecast) is not None:
            of_load = known.seasons[RPS]
            confidence = bounds.sure(of_load, known.confidence)
            season.add(of_load, at, load(at), lead_s=known.lead_s, confidence=confidence)
        for record in recorded(scaler, target, Policy(), at):
            records.append(record)
            scaler.forecast = Forecast(
                lead_s=record.lead_s, confidence=record.confidence, recorded_at=at,
                seasons=msgspec.convert(record.seasons, dict[str, memory.Season]),
            )  # fmt: skip
    return records


def steep(at: float) -> int:
    """Rises every morning, and is never twice quite the same; milli."""
    busy = max(0.0, math.sin((at % DAY_S / DAY_S - 0.25) * 2 * math.pi)) ** 2
    return int(20_000 + 120_000 * busy) + int(at // 600) * 7919 % 6007


def by_day(at: float) -> bool:
    return 8 <= at % DAY_S / 3600 < 20


BOUNDS = {"minReplicas": 2}
MARKS = {"metrics": [external("rps", high="9", app="web")]}


def followed_of(record: RecordForecast) -> float:
    of_load = msgspec.convert(record.seasons, dict[str, memory.Season])[RPS]
    assert of_load.price is not None
    return of_load.price.followed


@pytest.mark.parametrize("change", [BOUNDS, MARKS])
def test_where_bounds_or_marks_change_twice_a_day_it_is_still_seen_what_pays(change: dict[str, Any]) -> None:
    """And it is seen once a day. With so many replicas at first nothing is ever above."""

    def members(at: float) -> dict[str, Any]:
        return {
            **(change if by_day(at) else {"minReplicas": 1}),
            **({"minReplicas": 20} if at < 4 * DAY_S else {}),
        }

    records = lived(members, 9, steep)
    assert followed_of([r for r in records if r.at < 4 * DAY_S][-1]) == 0
    assert followed_of(records[-1]) > 0
    seen = [(int(r.at // DAY_S), followed_of(r)) for r in records if r.at > 4 * DAY_S]
    assert len(seen) > 1.5 * len({day for day, _ in seen})
    assert len({day for day, _ in seen}) == len(set(seen))


@pytest.mark.parametrize("change", [BOUNDS, MARKS])
def test_bounds_or_marks_that_others_move_every_few_minutes_are_recorded_once_an_hour(
    change: dict[str, Any],
) -> None:
    records = lived(lambda at: change if at // 600 % 3 else {}, 1, steep)
    assert 1 < len(records) <= 24


def test_of_other_marks_what_was_counted_is_kept_and_what_was_followed() -> None:
    world = started(BY_PRICE)
    run(world, 900, 4 * DAY_S)
    before = known_of(world).price
    assert before is not None
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "80"}
    at = 4 * DAY_S + 3600
    (record,) = of(
        world.feed(wpa(at, spec=spec(**members), annotations=BY_PRICE, generation=2)), RecordForecast
    )
    after = known_of(world).price
    assert after is not None
    assert (after.band.down_factor, after.seconds, after.followed) == (
        80_000, before.seconds, before.followed,
    )  # fmt: skip
    assert record.seasons == msgspec.to_builtins(world.object().forecast.seasons)  # type: ignore[union-attr]


def test_who_had_muted_itself_before_prices_were_counted_stays_muted() -> None:
    """Its bounds held too seldom: of prices nothing is judged yet that could say otherwise."""
    world = started({ANNOTATION: f"lead=60m,confidence={DEFAULT_CONFIDENCE}"})
    run(world, 900, 4 * DAY_S)
    known_of(world).covered = 0
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    world.feed(wpa(4 * DAY_S, spec=spec(**members), annotations=BY_PRICE))
    assert known_of(world).price is not None
    assert bounds.mute(known_of(world), DEFAULT_CONFIDENCE) == bounds.OFTEN_WRONG
    assert bounds.coverage(known_of(world), DEFAULT_CONFIDENCE) == 0
    run(world, 4 * DAY_S + 900, 5.5 * DAY_S)
    after = known_of(world)
    assert after.price is not None
    assert bounds.coverage(after, 0.6) == price.held(after.price, 0.6) / after.price.judged


def test_who_was_forecast_by_the_default_of_before_goes_on_with_it() -> None:
    world = started({ANNOTATION: f"lead=60m,confidence={DEFAULT_CONFIDENCE}"})
    run(world, 900, 4 * DAY_S)
    before = known_of(world)
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    world.feed(wpa(4 * DAY_S, spec=spec(**members), annotations=BY_PRICE))
    after = known_of(world)
    assert (after.judged, after.bins) == (before.judged, before.bins)
    assert after.price is not None
    assert after.price.followed == DEFAULT_CONFIDENCE
    assert bounds.mute(after, DEFAULT_CONFIDENCE) == ""


def test_a_sum_that_replicas_do_not_share_is_not_priced() -> None:
    labelled = {"matchLabels": {"app": "web"}}
    body = {"name": "cpu", "metricSelector": labelled, "lowWatermark": "5", "highWatermark": "10"}
    members = spec({"type": "Resource", "resource": body}, algorithm="absolute")
    assert bands(compiled(members, namespace=NS, name="wpa")) == {}
    assert len(bands(compiled({**members, "algorithm": "average"}, namespace=NS, name="wpa"))) == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Price(BAND, [Run()]), "runs: 1 values, 11 are needed"),
        (Price(BAND, covered=[1]), "covered: 1 values, 10 are needed"),
        (Price(BAND, aged=[1]), "aged: 1 values, 12 are needed"),
        (Price(BAND, aged=[2**60] * 12), "is possible"),
        (Price(BAND, seconds=2**60), "is possible"),
        (Price(BAND, seconds=price.LEAST_S), "no runs were counted"),
        (Price(msgspec.structs.replace(BAND, modulo=0)), "above 0 are needed"),
        (Price(msgspec.structs.replace(BAND, high=0)), "above 0 are needed"),
        (Price(BAND, followed=0.5), "nothing is counted"),
        (Price(BAND, [Run() for _ in range(11)], followed=1.5), "below 1 is possible"),
    ],
)
def test_what_was_counted_elsewhere_is_checked(wrong: Price, says: str) -> None:
    assert says in price.problem(wrong)
    assert price.problem(counted()) == ""
    assert not price.is_known(Price(BAND, seconds=price.LEAST_S))


def test_what_has_become_too_dear_is_followed_no_longer() -> None:
    """A rhythm that is lost: once a day would be too seldom to look at the price."""
    found = counted((500, 30_000), (400, 38_000))
    found.followed = price.worth(found)
    assert not price.is_dear(found)
    for _ in range(3):
        price.add(found, 3600, 9_000, [90_000] * len(CONFIDENCES))
    assert price.is_dear(found)
    found.runs[1].replica_s = 0  # a lesser one would be worth its price
    assert price.worth(found) > 0
    assert price.to_follow(found) == 0


def test_other_bounds_are_gone_by_from_then_on_and_nothing_is_forgotten() -> None:
    """Where they are changed every evening and every morning, nothing would ever be known."""
    world = started(BY_PRICE)
    run(world, 900, 4 * DAY_S)
    before = known_of(world).price
    assert before is not None
    members = {"maxReplicas": 20, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    world.feed(wpa(4 * DAY_S + 3600, spec=spec(**members), annotations=BY_PRICE, generation=2))
    after = known_of(world).price
    assert after is not None
    assert (after.band.most, after.seconds, after.runs) == (20, before.seconds, before.runs)


def test_a_clock_that_jumps_and_samples_that_fail_count_nothing() -> None:
    world = started(BY_PRICE)
    run(world, 900, 4 * DAY_S)
    before = known_of(world).price
    assert before is not None
    counted_s = before.seconds
    query = "external/rps/app=web"
    world.feed(sample(3 * DAY_S, 90_000))
    world.feed(
        MetricSampled(at=4 * DAY_S, namespace=NS, name=query, error="refused", error_class="unavailable")
    )
    world.feed(sample(4 * DAY_S + 12 * 3600, 90_000))
    after = known_of(world).price
    assert after is not None
    assert after.seconds == counted_s * 7 // 8  # a day is over


def test_it_stands_beside_the_question_whether_there_is_a_rhythm_and_not_in_its_place() -> None:
    """Head-room saves something on noise, too: whatever it would be worth, the forecast stays muted."""
    chance = random.Random(5)
    known = memory.Season(price=Price(msgspec.structs.replace(BAND, low=9_000, low_adjusted=8_550)))
    for n in range(8 * 288):
        season.add(known, n * 300.0, int(100_000 * chance.gauss(1.0, 0.1)), lead_s=600, confidence=0.35)
    assert known.price is not None
    known.price.followed = price.worth(known.price)
    assert known.price.followed > 0
    assert bounds.mute(known, known.price.followed) == bounds.NO_RHYTHM
