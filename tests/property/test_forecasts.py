"""What holds of forecasts for any load: nothing is known of what comes later, they only raise, their size is bounded."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.test_autoscaler import specs
from tests.unit.autoscaler.world import spec
from tidewright.autoscaler.api.spec import compiled
from tidewright.autoscaler.backtest import Row, backtest
from tidewright.autoscaler.forecast import bounds, season
from tidewright.autoscaler.forecast.load import MOST_METRICS
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.forecast.price import Band, begun
from tidewright.autoscaler.forecast.season import Expected
from tidewright.autoscaler.passes.evaluate import evaluate
from tidewright.autoscaler.passes.scene import Scene
from tidewright.autoscaler.policy import Policy
from tidewright.events.facts import MetricSampled
from tidewright.kube.readiness import Pod

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=300, deadline=None)
EVERY_S = 1800
DAYS = 6
PER_DAY = 48

profiles = st.lists(st.integers(0, 200), min_size=PER_DAY, max_size=PER_DAY)
gaps = st.lists(st.sampled_from([1, 60, 900, 1800, 40_000, 10_000_000]), min_size=1, max_size=80)


def rows(profile: list[int], days: int = DAYS) -> list[Row]:
    return [(n * EVERY_S, (float(profile[n % PER_DAY]),)) for n in range(days * PER_DAY)]


@FEW
@given(profiles, profiles, st.integers(3 * PER_DAY, DAYS * PER_DAY), st.sampled_from([None, 0.3, 0.5, 0.95]))
def test_another_future_changes_nothing_of_what_was_decided_before_it(
    profile: list[int], other: list[int], cut: int, confidence: float | None
) -> None:
    series = rows(profile)
    changed = series[:cut] + [(at, (other[n % PER_DAY] * 3.0,)) for n, (at, _) in enumerate(series[cut:])]
    asks = "lead=60m" if confidence is None else f"lead=60m,confidence={confidence}"
    here, there = (backtest(spec(maxReplicas=40), load, forecast=asks) for load in (series, changed))
    until = series[cut - 1][0]
    assert [s for s in here.steps if s.at <= until] == [s for s in there.steps if s.at <= until]


@MANY
@given(
    specs(),
    st.integers(1, 60),
    st.integers(0, 60),
    st.integers(0, 60_000),
    st.integers(0, 10_000_000),
    st.sampled_from([None, 0.0, 950.0, 1000.0]),
    st.booleans(),
)
def test_a_forecast_only_ever_raises(
    members: dict[str, Any],
    current: int,
    ready: int,
    value: int,
    bound: int,
    last: float | None,
    strict: bool,
) -> None:
    rules = compiled(members, namespace="shop", name="wpa")
    pods = [
        Pod(f"p{n}", ("web",), "Running", "True" if n < ready else "False", 1.0, 1.0) for n in range(current)
    ]
    sample = MetricSampled(at=990.0, namespace="shop", name=rules.metrics[0].query, series_milli=(value,))
    scene = Scene(
        namespace="shop",
        now=1000.0,
        current=current,
        observed=current,
        samples=[sample],
        pods=pods,
        last_scale_at=last,
    )
    policy = Policy(strict=strict)
    alone = evaluate(rules, policy, scene)
    scene.expected = (Expected(4600.0, bound // 2, bound),)
    both = evaluate(rules, policy, scene)
    assert both.desired >= alone.desired
    assert both.desired <= max(current, rules.max_replicas)
    if both.foreseen is None:
        assert both == alone
    scene.expected = (Expected(4600.0, bound // 2, bound, bounds.NO_RHYTHM),)
    assert evaluate(rules, policy, scene) == alone


@MANY
@given(
    gaps,
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=80),
    st.floats(60, 21600),
    st.floats(0.05, 0.99),
)
def test_any_load_at_any_times_is_borne_within_the_size(
    steps: list[int], loads: list[int], lead_s: float, confidence: float
) -> None:
    band = Band(600, 1000, 570, 1050, 1, 10_000, 900_000, 900_000, 60, 3600)
    known, at = Season(price=begun(band)), 1.7e9
    for n, load in enumerate(loads):
        at += steps[n % len(steps)]
        season.add(known, at, load, lead_s=lead_s, confidence=confidence)
        expected = season.ahead(known, lead_s=lead_s, confidence=confidence)
        assert expected is not None
        assert expected.load >= 0
        assert expected.bound >= 0
    stored = msgspec.json.encode(known)
    assert MOST_METRICS * (len(stored) + 100) <= 8192
    assert msgspec.json.encode(msgspec.json.decode(stored, type=Season)) == stored
