"""Forecasts in the decider: asked for by annotation, recorded, and only ever raising."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.world import NS, World, of, one, sample, spec, wpa
from tidewright.autoscaler.api.spec import compiled
from tidewright.autoscaler.forecast.asked import ANNOTATION, BY_PRICE, BadForecast, asked
from tidewright.autoscaler.forecast.load import digest
from tidewright.autoscaler.forecast.season import Expected
from tidewright.autoscaler.passes.evaluate import evaluate
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import State
from tidewright.autoscaler.tell.explaining import EXPLAINER
from tidewright.autoscaler.tell.exposition import samples
from tidewright.autoscaler.tell.sentences import sentences
from tidewright.events import registry
from tidewright.events.autoscaler import RecordForecast
from tidewright.events.base import Decision
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload
from tidewright.events.facts import MetricSampled
from tidewright.host.fold.explainer import Reference
from tidewright.kube.readiness import Pod

DAY_S = 86400
EVERY_S = 900
ASKS = {ANNOTATION: "lead=60m,confidence=0.9"}
RPS = digest("external/rps/app=web")


def load(at: float) -> int:
    """Busy from 8 to 20 o'clock: 9 replicas at the high watermark, otherwise 2; milli."""
    return 90_000 if 8 <= at % DAY_S / 3600 < 20 else 18_000


def run(world: World, begin: float, end: float, *, obeyed: bool = True) -> list[Decision]:
    """Samples of a load every 15 minutes; scales are followed at once."""
    given: list[Decision] = []
    at = begin
    while at < end:
        found = world.feed(sample(at, load(at)))
        given += found
        for order in of(found, ScaleWorkload) if obeyed else ():
            given += world.apply(order, at + 1)
            ready(world, at + 1, order.replicas)
        at += EVERY_S
    return given


def ready(world: World, at: float, replicas: int) -> None:
    """The pods follow."""
    from tests.unit.autoscaler.world import pod
    from tidewright.events.facts import PodGone

    world.feed(*(pod(at, f"web-77-{i}") for i in range(replicas)))
    world.feed(*(PodGone(at=at, namespace=NS, name=f"web-77-{i}") for i in range(replicas, 12)))


def started(annotations: dict[str, str] | None = None, **members: Any) -> World:
    world = World(status_interval_s=1e18)
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90", **members}
    world.start(2, at=0.0, **members)
    world.feed(wpa(1.0, spec=spec(**members), annotations=annotations or {}))
    return world


def test_the_annotation_is_read() -> None:
    assert asked("lead=10m,confidence=0.9").lead_s == 600
    assert asked(" confidence = 0.8 , lead = 1h30m ").confidence == 0.8
    assert asked("lead=10m").confidence == BY_PRICE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not understood"),
        ("10m", "is not understood"),
        ("lead=10m,lead=20m", "is not understood"),
        ("lead=10m,colour=red", "'colour=red' is not understood"),
        ("confidence=0.9", "does not say how far ahead"),
        ("lead=10", "no duration"),
        ("lead=1s", "from 1m0s to 6h0m0s"),
        ("lead=7h", "from 1m0s to 6h0m0s"),
        ("lead=-10m", "from 1m0s to 6h0m0s"),
        ("lead=10m,confidence=much", "is no number"),
        ("lead=10m,confidence=1", "from 0.05 to 0.99"),
        ("lead=10m,confidence=nan", "from 0.05 to 0.99"),
    ],
)
def test_what_cannot_be_read_says_what_would_be_valid(text: str, says: str) -> None:
    with pytest.raises(BadForecast, match=says):
        asked(text)


def test_an_annotation_that_cannot_be_read_is_told_once_on_the_object_and_the_rules_go_on() -> None:
    world = started()
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    given = world.feed(wpa(2.0, spec=spec(**members), annotations={ANNOTATION: "soon"}))
    given += run(world, 900, DAY_S)
    told = one([d for d in of(given, RecordObjectEvent) if d.reason == "InvalidForecast"], RecordObjectEvent)
    assert told.event_type == "Warning"
    assert ANNOTATION in told.message
    assert "'soon' is not understood" in told.message
    assert of(given, ScaleWorkload)
    assert not of(given, RecordForecast)
    assert world.object().forecast is None


def test_who_does_not_ask_has_nothing_kept_and_nothing_recorded() -> None:
    world = started()
    assert not of(run(world, 900, 2 * DAY_S), RecordForecast)
    assert world.object().forecast is None


def test_it_raises_before_the_load_comes_and_says_its_arithmetic() -> None:
    world = started(ASKS)
    run(world, 900, 8 * DAY_S + 7 * 3600 - EVERY_S)
    assert world.object().kept.desired <= 3
    scale = one(run(world, 8 * DAY_S + 7 * 3600 - EVERY_S, 8 * DAY_S + 7 * 3600 + 1), ScaleWorkload)
    assert scale.replicas >= 9
    step = next(step for step in scale.because if step.rule == "Forecast")
    assert step.values["proposal"] == scale.replicas
    assert step.values["value_milli"] == step.values["bound_milli"] / step.values["ready"]  # type: ignore[operator]
    assert any("is expected to reach" in sentence for sentence in sentences(scale.because))
    assert "forecast" in str(scale.because[-1].values["reason"])


def test_what_it_raised_for_is_kept_until_it_comes_and_lowering_stays_with_the_rules() -> None:
    world = started(ASKS)
    run(world, 900, 8 * DAY_S + 8 * 3600)
    assert world.object().kept.desired >= 9
    run(world, 8 * DAY_S + 8 * 3600, 8 * DAY_S + 23 * 3600)
    assert world.object().kept.desired <= 4


def test_it_stays_within_all_limits() -> None:
    world = started(ASKS, maxReplicas=6, scaleUpLimitFactor="50")
    given = of(run(world, 900, 9 * DAY_S), ScaleWorkload)
    assert any(step.rule == "Forecast" for scale in given for step in scale.because)
    for scale in given:
        assert scale.replicas <= 6
        assert scale.replicas <= scale.from_replicas + max(1, scale.from_replicas // 2)


def test_delays_count_real_values_and_a_forecast_has_none_to_wait_for() -> None:
    world = started(ASKS, upscaleDelayAboveWatermarkSeconds=1800)
    run(world, 900, 8 * DAY_S)
    given = of(run(world, 8 * DAY_S, 8 * DAY_S + 8 * 3600), ScaleWorkload)
    assert any(step.rule == "Forecast" for step in given[-1].because)
    above = [c for c in world.object().kept.conditions if c.type == "AboveHighWatermark"]
    assert all(not c.status for c in above)


def test_a_forecast_that_takes_less_away_does_not_take_it_away_sooner() -> None:
    """The value has been below the mark for no time at all: without a forecast nothing is taken away yet."""
    members = spec(maxReplicas=12, scaleDownLimitFactor="90", downscaleDelayBelowWatermarkSeconds=600)
    rules = compiled(members, namespace=NS, name="web")
    value = MetricSampled(at=990.0, namespace=NS, name=rules.metrics[0].query, series_milli=(20_000,))
    pods = [Pod(f"p{n}", ("web",), "Running", "True", 1.0, 1.0) for n in range(10)]
    scene = Scene(
        namespace=NS, now=1000.0, current=10, observed=10, samples=[value], pods=pods, last_scale_at=0.0,
        expected=(Expected(4600.0, 50_000, 55_000),),
    )  # fmt: skip
    made = evaluate(rules, Policy(), scene)
    assert made.foreseen is not None
    assert (made.rescale, made.desired) == (False, 10)


def test_what_is_known_is_recorded_once_a_day_and_when_the_fact_is_said_again() -> None:
    world = started(ASKS)
    records = of(run(world, 900, 3.1 * DAY_S), RecordForecast)
    assert [round(r.at / DAY_S, 1) for r in records] == [1.0, 2.0, 3.0]
    again = wpa(
        4 * DAY_S,
        spec=spec(maxReplicas=12, scaleUpLimitFactor="500", scaleDownLimitFactor="90"),
        annotations=ASKS,
        refresh=True,
    )
    (record,) = of(world.feed(again), RecordForecast)
    assert len(registry.encode(record)) < 8192
    forecast = world.object().forecast
    assert forecast is not None
    assert record.seasons == msgspec.to_builtins(forecast.seasons)


def test_what_was_recorded_is_all_that_is_needed() -> None:
    world = started(ASKS)
    run(world, 900, 5 * DAY_S)
    record = of(run(world, 5 * DAY_S, 5 * DAY_S + 1), RecordForecast) or of(
        run(world, 5 * DAY_S + 900, 6 * DAY_S + 1), RecordForecast
    )
    other = started(ASKS)
    other.feed(record[-1])
    forecast = other.object().forecast
    assert forecast is not None
    assert msgspec.to_builtins(forecast.seasons) == record[-1].seasons


def test_asking_for_another_lead_keeps_the_profile_and_asking_no_more_forgets_it() -> None:
    world = started(ASKS)
    run(world, 900, 5 * DAY_S)
    before = world.object().forecast
    assert before is not None
    day = list(before.seasons[RPS].day)
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    world.feed(wpa(5 * DAY_S, spec=spec(**members), annotations={ANNOTATION: "lead=10m"}))
    after = world.object().forecast
    assert after is not None
    assert (after.lead_s, after.confidence) == (600, BY_PRICE)
    assert after.seasons[RPS].day == day
    assert not after.seasons[RPS].judged
    world.feed(wpa(5 * DAY_S + 1, spec=spec(**members)))
    assert world.object().forecast is None


@pytest.mark.parametrize("asks", [ASKS, {ANNOTATION: "lead=60m"}])
def test_a_series_without_rhythm_changes_no_decision(asks: dict[str, str]) -> None:
    import random

    chance = random.Random(2)
    loads = [chance.randrange(18_000, 90_000) for _ in range(10 * 96)]
    scales = []
    for asked_for in (None, asks):
        world, given = started(asked_for), []
        for n, value in enumerate(loads, 1):
            found = world.feed(sample(n * EVERY_S, value))
            given += of(found, ScaleWorkload)
            for order in of(found, ScaleWorkload):
                world.apply(order, n * EVERY_S + 1)
        scales.append([(scale.at, scale.replicas) for scale in given])
    assert scales[0] == scales[1]


def test_a_sample_that_failed_or_is_empty_teaches_nothing() -> None:
    world = started(ASKS)
    run(world, 900, DAY_S)
    forecast = world.object().forecast
    assert forecast is not None
    before = msgspec.json.encode(forecast.seasons)
    query = "external/rps/app=web"
    world.feed(
        MetricSampled(at=DAY_S + 1, namespace=NS, name=query, error="refused", error_class="unavailable")
    )
    world.feed(MetricSampled(at=DAY_S + 2, namespace=NS, name=query, series_milli=()))
    world.feed(sample(DAY_S + 3, 5_000_000, refresh=True))
    assert msgspec.json.encode(forecast.seasons) == before


def test_a_value_per_replica_is_the_load_of_all_ready_ones() -> None:
    world = started(ASKS, algorithm="absolute")
    world.feed(sample(900, 7_000))
    forecast = world.object().forecast
    assert forecast is not None
    season = forecast.seasons[RPS]
    assert season.load * season.unit == pytest.approx(14_000, rel=0.001)


@pytest.mark.parametrize("asks", [ASKS, {ANNOTATION: "lead=60m"}])
def test_a_snapshot_goes_on_as_the_fold_that_it_was_made_of(asks: dict[str, str]) -> None:
    world = started(asks)
    run(world, 900, 6 * DAY_S)
    other = started(asks)
    other.fold.state = msgspec.json.decode(msgspec.json.encode(world.fold.state), type=State)
    other.seq = world.seq

    def decided(world: World) -> list[Decision]:
        return [msgspec.structs.replace(d, id="", prev="") for d in run(world, 6 * DAY_S, 9 * DAY_S)]

    assert decided(other) == decided(world)


def test_explain_shows_the_forecast_beside_what_came_and_metrics_how_good_it_is() -> None:
    world = started(ASKS)
    run(world, 900, 8 * DAY_S)
    told = EXPLAINER.standing(world.fold.state, Reference("watermarkpodautoscaler", NS, "wpa"), 8 * DAY_S)
    (ahead,) = [line for line in told if "1h0m0s ahead" in line]
    assert ahead.startswith("The load of rps{map[app:web]} is 18;")
    assert ahead.endswith("the forecast takes part.")
    assert any("and 18 came: the bound held." in line for line in told)
    series = {s.name: s.value for s in samples(world.fold.state) if "forecast" in s.name}
    assert series["wpa_controller_forecast_muted"] == 0
    assert 0.9 <= series["wpa_controller_forecast_coverage"] <= 1
    assert series["wpa_controller_forecast_error"] < 20_000


def test_explain_says_why_no_forecast_is_made() -> None:
    world = started({ANNOTATION: "soon"})
    run(world, 900, 3600)
    told = EXPLAINER.standing(world.fold.state, Reference("watermarkpodautoscaler", NS, "wpa"), 3600)
    assert any(line.startswith(f"No forecast is made: annotation {ANNOTATION}: 'soon'") for line in told)
    assert not [s for s in samples(world.fold.state) if "forecast" in s.name]


def test_a_slip_in_the_annotation_stops_forecasts_and_forgets_nothing() -> None:
    world = started(ASKS)
    run(world, 900, 5 * DAY_S)
    forecast = world.object().forecast
    assert forecast is not None
    days = forecast.seasons[RPS].closed
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    world.feed(wpa(5 * DAY_S, spec=spec(**members), annotations={ANNOTATION: "lead=tenminutes"}))
    given = run(world, 5 * DAY_S, 6 * DAY_S)
    assert not [
        step for scale in of(given, ScaleWorkload) for step in scale.because if step.rule == "Forecast"
    ]
    assert world.object().forecast is forecast
    assert forecast.seasons[RPS].closed > days


def test_a_spec_that_cannot_be_used_for_a_while_forgets_nothing() -> None:
    world = started(ASKS)
    run(world, 900, 3 * DAY_S)
    forecast = world.object().forecast
    assert forecast is not None
    learnt = msgspec.json.encode(forecast.seasons)
    members = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
    given = world.feed(
        wpa(3 * DAY_S + 1, spec=spec(**{**members, "tolerance": "much"}), annotations=ASKS, generation=2)
    )
    assert world.object().rules is None
    given += world.feed(wpa(3 * DAY_S + 2, spec=spec(**members), annotations=ASKS, generation=3))
    assert of(given, RecordForecast) == []
    kept = world.object().forecast
    assert kept is not None
    assert msgspec.json.encode(kept.seasons) == learnt
