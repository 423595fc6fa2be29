"""Forecasts by configuration: who is selected, and what is known of a load before it is forecast."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.test_forecasts import DAY_S, EVERY_S, RPS, load, run
from tests.unit.autoscaler.world import NS, World, of, one, pod, sample, spec, workload, wpa
from tidewright.autoscaler.api.spec import compiled
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.forecast import memory
from tidewright.autoscaler.forecast.asked import ANNOTATION, asked
from tidewright.autoscaler.forecast.learnt import MOST_MODELS, Model, as_data, learn, models
from tidewright.autoscaler.passes.forecasts import bands, standing
from tidewright.autoscaler.policy import Policy, of_config, of_text, problems
from tidewright.autoscaler.state import State
from tidewright.autoscaler.tell.explaining import EXPLAINER
from tidewright.events.autoscaler import RecordForecast
from tidewright.events.base import Decision, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.order import Fold

ASKED = "lead=60m,confidence=0.9"
MEMBERS: dict[str, Any] = {"maxReplicas": 12, "scaleUpLimitFactor": "500", "scaleDownLimitFactor": "90"}
SELECTED: dict[str, Any] = {"forecast": ASKED, "forecast_selector": "tier=web"}
WEEK_S = 7 * DAY_S


class Begun(World):
    """A world, and what was decided as it began."""

    begun: list[Decision]


def world(at: float = 0.0, *, labels: dict[str, str] | None = None, asks: str = "", **policy: Any) -> Begun:
    made = Begun(status_interval_s=1e18, **policy)
    made.begun = again(made, at, labels=labels, asks=asks)
    made.begun += made.feed(workload(at, 2), *(pod(at, f"web-77-{n}") for n in range(2)))
    return made


def again(made: World, at: float, *, labels: dict[str, str] | None = None, asks: str = "") -> list[Any]:
    annotations = {ANNOTATION: asks} if asks else {}
    return made.feed(
        wpa(
            at,
            spec=spec(**MEMBERS),
            annotations=annotations,
            labels={"tier": "web"} if labels is None else labels,
        )
    )


def model(days: float = 9.0, start: float = 0.0, asks: str = ASKED, **members: Any) -> dict[str, Any]:
    loads = [(start + n * EVERY_S, load(start + n * EVERY_S)) for n in range(int(days * DAY_S / EVERY_S))]
    wish = asked(asks)
    band = bands(compiled(spec(**{**MEMBERS, **members}), namespace=NS, name="wpa"))[RPS]
    seasons = {RPS: learn(loads, wish, band)}
    return as_data(Model(lead_s=wish.lead_s, confidence=wish.confidence, seasons=seasons))


def configured(made: World, at: float, **policy: Any) -> list[Any]:
    return made.feed(
        ConfigSet(at=at, name="autoscaler", data={"status_interval_s": 1e18, **policy}, source="tw/tw")
    )


def test_the_configuration_asks_for_objects_that_it_selects() -> None:
    made = world(**SELECTED)
    records = of(made.begun, RecordForecast)
    assert [(record.lead_s, record.confidence) for record in records] == [(3600, 0.9)]
    run(made, EVERY_S, 8 * DAY_S + 7 * 3600 - EVERY_S)
    scale = one(run(made, 8 * DAY_S + 7 * 3600 - EVERY_S, 8 * DAY_S + 7 * 3600 + 1), ScaleWorkload)
    assert any(step.rule == "Forecast" for step in scale.because)


@pytest.mark.parametrize("labels", [{}, {"tier": "batch"}])
def test_others_are_left_alone(labels: dict[str, str]) -> None:
    made = world(labels=labels, **SELECTED)
    assert not of(made.begun + run(made, EVERY_S, DAY_S), RecordForecast)
    assert made.object().forecast is None


def test_an_empty_selector_selects_all_and_none_selects_nobody() -> None:
    everybody = world(labels={}, forecast=ASKED, forecast_selector="")
    run(everybody, EVERY_S, 2 * EVERY_S)
    assert everybody.object().forecast is not None
    nobody = world(labels={}, forecast=ASKED)
    assert not of(run(nobody, EVERY_S, 2 * EVERY_S), RecordForecast)


def test_an_objects_own_annotation_wins_and_off_is_none() -> None:
    own = world(asks="lead=10m", **SELECTED)
    (record,) = of(own.begun, RecordForecast)
    assert record.lead_s == 600
    again(own, 3 * EVERY_S, asks="off")
    assert own.object().forecast is None
    assert not of(run(own, 4 * EVERY_S, 6 * EVERY_S), RecordForecast)


def test_who_is_selected_no_more_is_forecast_no_more() -> None:
    made = world(**SELECTED)
    run(made, EVERY_S, 3 * EVERY_S)
    assert made.object().forecast is not None
    configured(made, 3 * EVERY_S)
    (record,) = of(run(made, 4 * EVERY_S, 5 * EVERY_S), RecordForecast)
    assert record.lead_s == 0
    assert made.object().forecast is None


def test_a_selector_that_cannot_be_read_forgets_nothing_selects_nobody_new_and_is_told() -> None:
    made = world(**SELECTED)
    run(made, EVERY_S, DAY_S)
    broken: dict[str, Any] = {"forecast": ASKED, "forecast_selector": "tier in web"}
    configured(made, DAY_S, **broken)
    assert all(record.lead_s for record in of(run(made, DAY_S + EVERY_S, 3 * DAY_S), RecordForecast))
    known = made.object().forecast
    assert known is not None
    assert memory.days(known.seasons[RPS]) > 2.5
    new = world(**broken)
    assert not of(new.begun + run(new, EVERY_S, DAY_S), RecordForecast)
    (told,) = problems(broken)
    assert told.startswith("forecast_selector='tier in web': ")


def test_a_wish_of_the_configuration_that_cannot_be_read_is_told_on_the_object_too_and_forgets_nothing() -> (
    None
):
    made = world(**SELECTED)
    run(made, EVERY_S, DAY_S)
    known = made.object().forecast
    broken: dict[str, Any] = {"forecast": "lead=soon", "forecast_selector": "tier=web"}
    configured(made, DAY_S, **broken)
    given = run(made, DAY_S + EVERY_S, 2 * DAY_S)
    (told,) = [d for d in of(given, RecordObjectEvent) if d.reason == "InvalidForecast"]
    assert told.message.startswith("setting forecast of the configuration: lead: ")
    assert made.object().forecast is known
    (problem,) = problems(broken)
    assert problem.startswith("forecast='lead=soon': lead: ")
    lines = EXPLAINER.standing(made.fold.state, Reference("watermarkpodautoscaler", NS, "wpa"), 2 * DAY_S)
    assert any(line.startswith("No forecast is made: setting forecast") for line in lines)


def test_half_a_wish_is_told() -> None:
    (alone,) = problems({"forecast": ASKED})
    assert "no object is selected" in alone
    (other,) = problems({"forecast_selector": "tier=web"})
    assert "nothing is asked for" in other
    assert problems(SELECTED) == ()


def test_who_opts_in_with_a_model_does_not_start_blind() -> None:
    start = 20 * DAY_S + 6 * 3600
    known, blind = (world(start, asks=ASKED, forecast_models=given) for given in ({f"{NS}/wpa": model()}, {}))
    for made in (known, blind):
        run(made, start + EVERY_S, start + 3600 - EVERY_S)
    (scale,) = of(run(known, start + 3600 - EVERY_S, start + 3600 + 1), ScaleWorkload)
    assert scale.replicas >= 9  # what comes at eight
    assert any(step.rule == "Forecast" for step in scale.because)
    assert not of(run(blind, start + 3600 - EVERY_S, start + 3600 + 1), ScaleWorkload)


def test_a_model_is_taken_over_once_and_goes_on_learning_without_changing_the_configuration() -> None:
    given = model()
    made = world(20 * DAY_S, asks=ASKED, forecast_models={f"{NS}/wpa": given})
    policy = made.fold.state.in_force
    before = msgspec.json.encode(policy.forecast_models)
    records = of(made.begun + run(made, 20 * DAY_S + EVERY_S, 21 * DAY_S), RecordForecast)
    assert len(records) == 1
    forecast = made.object().forecast
    assert forecast is not None
    assert memory.days(forecast.seasons[RPS]) > 9
    assert msgspec.json.encode(policy.forecast_models) == before
    assert len(msgspec.json.encode(given)) < 4096


def test_a_model_replaces_what_little_is_known_and_not_what_is_known_well() -> None:
    young = world(14 * DAY_S, asks=ASKED)
    run(young, 14 * DAY_S + EVERY_S, 14.5 * DAY_S)
    configured(young, 14.5 * DAY_S, forecast_models={f"{NS}/wpa": model()})
    (record,) = of(run(young, 14.5 * DAY_S + EVERY_S, 14.5 * DAY_S + 2 * EVERY_S), RecordForecast)
    assert record.seasons[RPS].get("began", 0) < 14 * DAY_S // 900
    old = world(14 * DAY_S, asks=ASKED)
    run(old, 14 * DAY_S + EVERY_S, 17.5 * DAY_S)
    configured(old, 17.5 * DAY_S, forecast_models={f"{NS}/wpa": model()})
    assert not of(run(old, 17.5 * DAY_S, 17.5 * DAY_S + 4 * EVERY_S), RecordForecast)


@pytest.mark.parametrize("start", [0.0, 400 * WEEK_S])
def test_a_model_of_another_year_is_of_the_same_hours_of_the_week(start: float) -> None:
    now = 52 * WEEK_S
    made = world(now, asks=ASKED, forecast_models={f"{NS}/wpa": model(start=start)})
    run(made, now + EVERY_S, now + 2 * EVERY_S)
    forecast = made.object().forecast
    assert forecast is not None
    known = forecast.seasons[RPS]
    assert known.at == now + EVERY_S  # the sample came after what was learnt
    assert known.bucket - known.began <= 16 * 96
    assert standing(forecast) == ""


def test_a_model_for_another_lead_brings_its_profile_and_not_its_errors() -> None:
    made = world(20 * DAY_S, asks="lead=10m", forecast_models={f"{NS}/wpa": model()})
    records = of(made.begun + run(made, 20 * DAY_S + EVERY_S, 20 * DAY_S + 8 * EVERY_S), RecordForecast)
    assert len(records) == 1
    forecast = made.object().forecast
    assert forecast is not None
    known = forecast.seasons[RPS]
    assert known.judged < 10 * memory.ONE
    assert max(known.day) > 4 * min(known.day) > 0


def test_a_model_of_another_metric_or_object_is_not_taken() -> None:
    other = {"seasons": {"0123456789ab": model()["seasons"][RPS]}}
    for given in ({f"{NS}/wpa": model() | other}, {f"{NS}/other": model()}):
        made = world(20 * DAY_S, asks=ASKED, forecast_models=given)
        run(made, 20 * DAY_S + EVERY_S, 20 * DAY_S + 2 * EVERY_S)
        forecast = made.object().forecast
        assert forecast is not None
        assert memory.days(forecast.seasons[RPS]) == 0


def altered(**members: Any) -> dict[str, Any]:
    given = copy.deepcopy(model(days=3))
    given["seasons"][RPS] |= members
    return given


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("yes", "write what `tidewright forecast learn` writes"),
        ({"shop/wpa": 5}, "shop/wpa: Expected `object`, got `int`"),
        ({"shop/wpa": {"lead_s": 600, "confidence": 0.5, "colour": 1}}, "unknown field `colour`"),
        ({"shop/wpa": {"lead_s": 600}}, "missing required field `confidence`"),
        ({"shop/wpa": altered(day=[1, 2])}, f"shop/wpa: {RPS}: day: 2 values, 96 are needed"),
        ({"shop/wpa": altered(unit=0)}, "unit=0: from 1 to"),
        ({"shop/wpa": altered(at=-5)}, "at=-5.0: seconds since 1970 are needed"),
        ({"shop/wpa": altered(at=float("nan"))}, "at=nan: seconds since 1970 are needed"),
        ({"shop/wpa": altered(began=10**9)}, "none of the others is later"),
        (
            {"shop/wpa": altered(at=3 * DAY_S + 7 * 3600.0)},
            f"bucket={3 * 96 - 1}: the bucket is that of `at` ({3 * 96 + 28})",
        ),
        ({"shop/wpa": altered(at=2 * DAY_S)}, f"bucket={3 * 96 - 1}: the bucket is that of `at` ({2 * 96})"),
        ({"shop/wpa": altered(unit=2**62)}, f"unit={2**62}: from 1 to"),
        ({"shop/wpa": altered(count=2**70)}, f"count: {2**70}, from 1 to"),
        ({"shop/wpa": altered(closed=-(2**70))}, "none of the others is later"),
        ({"shop/wpa": altered(usual=[2**53] * 24)}, "usual: 9007199254740992, from 0 to 32768"),
        ({"shop/wpa": altered(issued=[[1, [2**70] * 5, 1, 1, 1, 1, 1]])}, "issued, came: "),
        ({"shop/wpa": model(days=1) | {"lead_s": 0}}, "shop/wpa: lead_s=0.0, confidence=0.9: "),
        ({5: 6, "shop/wpa": 7}, "5: Expected `object`, got `int`"),
        ({"shop/wpa": altered(count=0)}, "count: 0, from 1 to"),
        ({"shop/wpa": altered(weights=[float("inf")] * 5)}, "weights: inf"),
        ({"shop/wpa": altered(bins=[-1] * 48)}, "bins: -1, from 0"),
    ],
)
def test_a_model_that_cannot_be_used_is_told_and_the_others_are_used(given: Any, says: str) -> None:
    told = problems({"forecast_models": given})
    assert any(says in text for text in told), told
    assert all(text.startswith("forecast_models: ") for text in told)
    assert of_config({"forecast_models": given}).forecast_models == {}
    if isinstance(given, dict):
        both = of_config({"forecast_models": given | {"a/b": model(days=1)}, "strict": True})
        assert (list(both.forecast_models), both.strict) == (["a/b"], True)


@pytest.mark.parametrize(
    "members",
    [
        {"moments": [0, 2**53, -(2**53)] * 5, "with_load": [2**53] * 5},
        {
            "unit": 2**44, "day": [8 * memory.STEPS] * 96, "week": [8 * memory.STEPS] * 168, "usual": [8 * memory.STEPS] * 24,
            "weights": [1e6] * 5, "load": 8 * memory.STEPS, "level": 8.0 * memory.STEPS, "bins": [0] * 47 + [2**53],
            "total": 2**53, "judged": 2**53, "missed": [0, 2**53, 2**53, 2**53], "covered": 2**53,
        },
    ],
)  # fmt: skip
def test_figures_that_somebody_has_edited_stop_nothing(members: dict[str, Any]) -> None:
    given = altered(**members)
    made = world(20 * DAY_S, asks=ASKED, forecast_models={f"{NS}/wpa": given})
    run(made, 20 * DAY_S + EVERY_S, 22 * DAY_S)
    forecast = made.object().forecast
    assert forecast is not None
    assert forecast.seasons[RPS].unit
    assert msgspec.json.encode(made.fold.state)


def test_a_selected_object_without_metrics_is_left_alone() -> None:
    made = Begun(status_interval_s=1e18, forecast=ASKED, forecast_selector="")
    recommender = {"name": "r", "url": "http://r.shop.svc", "lowWatermark": "0.5", "highWatermark": "0.7"}
    members = {**MEMBERS, "recommender": recommender}
    bare = {**spec(**members), "metrics": []}
    given = made.feed(wpa(1.0, spec=bare, labels={}), workload(1.0, 2))
    assert made.object().rules is not None
    assert not [d for d in of(given, RecordObjectEvent) if "orecast" in d.reason]
    assert not of(given, RecordForecast)


def test_more_models_than_a_configuration_may_have_are_told() -> None:
    data = model(days=0.1)
    found, wrong = models({f"shop/wpa-{n:03}": data for n in range(MOST_MODELS + 2)})
    assert len(found) == MOST_MODELS
    assert wrong == [f"shop/wpa-{MOST_MODELS:03}: more than {MOST_MODELS} models, which is the most"]


def test_a_state_with_models_goes_on_as_the_fold_that_it_was_made_of() -> None:
    made = world(20 * DAY_S, asks=ASKED, forecast_models={f"{NS}/wpa": model(days=1.5)})
    other = world(20 * DAY_S, asks=ASKED)
    other.fold.state = msgspec.json.decode(msgspec.json.encode(made.fold.state), type=State)
    other.seq = made.seq
    first, second = (run(it, 20 * DAY_S + EVERY_S, 22 * DAY_S) for it in (made, other))
    assert of(first, RecordForecast)
    assert [type(decision) for decision in first] == [type(decision) for decision in second]
    assert msgspec.json.encode(other.fold.state) == msgspec.json.encode(made.fold.state)


def test_settings_that_an_older_version_did_not_know_hold_once_a_newer_one_goes_on_from_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {"strict": True, **SELECTED, "forecast_models": {f"{NS}/wpa": model()}, "of_a_later_version": [1]}

    def older(data: JsonObject) -> Policy:
        return of_config({name: value for name, value in data.items() if not name.startswith("forecast")})

    made = world(20 * DAY_S)
    with monkeypatch.context() as before:
        before.setattr("tidewright.autoscaler.policy.of_config", older)
        of_text.cache_clear()
        configured(made, 20 * DAY_S, **data)
        assert not of(run(made, 20 * DAY_S + EVERY_S, 20 * DAY_S + 3 * EVERY_S), RecordForecast)
        assert made.fold.state.in_force == Policy(strict=True, status_interval_s=1e18)
    of_text.cache_clear()
    made.fold = Fold.resumed(DECIDER, made.fold.snapshot(checkpoint_seq=0, position=made.seq))
    kept = made.fold.state.policy
    assert isinstance(kept, str)
    assert msgspec.json.decode(kept)["of_a_later_version"] == [1]
    (record,) = of(run(made, 20 * DAY_S + 3 * EVERY_S, 20 * DAY_S + 5 * EVERY_S), RecordForecast)
    assert record.seasons[RPS]["began"] > 0
    assert made.fold.state.in_force.strict


def test_a_policy_that_a_state_kept_as_it_was_read_holds_on() -> None:
    state = msgspec.json.decode(b'{"policy": {"strict": true, "labels_as_tags": ["team"]}}', type=State)
    assert state.in_force == Policy(strict=True, labels_as_tags=("team",))
    assert msgspec.json.decode(msgspec.json.encode(state), type=State).in_force is state.in_force


def test_slots_share_what_is_configured() -> None:
    first, second = State(), State()
    for state in (first, second):
        assert state.in_force == Policy()
        state.configure({"forecast_models": {f"{NS}/wpa": model()}})
    stored = msgspec.json.decode(msgspec.json.encode(first), type=State)
    assert first.policy is second.policy is stored.policy
    assert first.in_force is second.in_force is stored.in_force
    assert list(first.in_force.forecast_models) == [f"{NS}/wpa"]


def test_asking_for_nothing_costs_no_decision_whatever_is_configured() -> None:
    def decided(**policy: Any) -> list[Any]:
        made = world(labels={"tier": "batch"}, **policy)
        return [(type(d).__name__, d.at, getattr(d, "replicas", None)) for d in run(made, EVERY_S, 3 * DAY_S)]

    assert decided() == decided(**SELECTED, forecast_models={f"{NS}/wpa": model()})


def test_a_sample_of_a_time_long_past_teaches_nothing() -> None:
    made = world(20 * DAY_S, asks=ASKED, forecast_models={f"{NS}/wpa": model()})
    run(made, 20 * DAY_S + EVERY_S, 20 * DAY_S + 3 * EVERY_S)
    forecast = made.object().forecast
    assert forecast is not None
    before = msgspec.json.encode(forecast.seasons)
    made.feed(sample(3 * DAY_S, 5_000_000))
    assert msgspec.json.encode(forecast.seasons) == before


def test_a_model_knows_which_confidence_is_worth_its_price() -> None:
    known = {f"{NS}/wpa": model(asks="lead=30m", start=-9.0 * DAY_S + WEEK_S * 2)}
    made = world(5 * DAY_S, forecast="lead=30m", forecast_selector="", forecast_models=known)
    forecast = made.object().forecast
    assert forecast is not None
    price = forecast.seasons[RPS].price
    assert price is not None
    assert price.followed > 0
    assert standing(forecast) == ""
    (record,) = of(made.begun, RecordForecast)
    assert [step.rule for step in record.because] == ["ConfidenceByPrice"]


def test_a_price_by_other_marks_or_for_a_named_confidence_is_not_taken_over() -> None:
    start = -9.0 * DAY_S + WEEK_S * 2
    other = {f"{NS}/wpa": model(asks="lead=30m", start=start, scaleDownLimitFactor="50")}
    made = world(5 * DAY_S, forecast="lead=30m", forecast_selector="", forecast_models=other)
    forecast = made.object().forecast
    assert forecast is not None
    price = forecast.seasons[RPS].price
    assert price is not None
    assert (price.seconds, price.band.down_factor) == (0, 90_000)
    known = {f"{NS}/wpa": model(asks="lead=30m", start=start)}
    named = world(5 * DAY_S, forecast="lead=30m,confidence=0.5", forecast_selector="", forecast_models=known)
    assert [season.price for season in named.object().forecast.seasons.values()] == [None]  # type: ignore[union-attr]


def test_a_model_by_the_default_of_before_keeps_what_it_knows_of_errors() -> None:
    learnt = model(asks="lead=30m,confidence=0.35", start=-9.0 * DAY_S + WEEK_S * 2)
    made = world(5 * DAY_S, forecast="lead=30m", forecast_selector="", forecast_models={f"{NS}/wpa": learnt})
    forecast = made.object().forecast
    assert forecast is not None
    known = forecast.seasons[RPS]
    assert (known.judged, known.bins) == (learnt["seasons"][RPS]["judged"], learnt["seasons"][RPS]["bins"])
    assert known.price is not None
    assert known.price.followed == 0.35
    assert standing(forecast) == ""


def test_a_price_that_is_not_one_is_named_and_its_model_left_out() -> None:
    wrong = model(asks="lead=30m")
    wrong["seasons"][RPS]["price"][1] = [[1, 0, 0, 0]]
    found, said = models({"shop/wpa": wrong})
    assert found == {}
    assert "price: runs: 1 values, 11 are needed" in said[0]
