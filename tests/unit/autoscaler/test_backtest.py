"""Backtests: the decider over a series, with the cluster's side made up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.autoscaler.world import external, spec
from tidewright.autoscaler.api.spec import InvalidSpec
from tidewright.autoscaler.backtest import BadSeries, LoadModel, backtest
from tidewright.autoscaler.tell.sentences import sentences

Rows = list[tuple[float, tuple[float, ...]]]


def rows(*loads: float, every_s: float = 15.0, start: float = 1000.0) -> Rows:
    return [(start + every_s * i, (load,)) for i, load in enumerate(loads)]


def test_a_steady_load_inside_the_band_changes_nothing() -> None:
    report = backtest(spec(minReplicas=2), rows(*[15.0] * 241))
    assert (report.scale_ups, report.scale_downs, report.worst_shortfall) == (0, 0, 0)
    assert report.duration_s == 3600
    assert report.replica_hours == pytest.approx(2.0)
    assert report.above_high_s == report.below_low_s == 0


def test_a_rising_load_is_followed_one_window_at_a_time_with_reasons() -> None:
    report = backtest(spec(minReplicas=2, scaleUpLimitFactor="50"), rows(*[80.0] * 60))
    steps = [(step.at - 1000.0, step.from_replicas, step.to_replicas) for step in report.steps]
    assert steps[:4] == [(0.0, 2, 3), (60.0, 3, 4), (120.0, 4, 6), (180.0, 6, 8)]
    assert "above target" in sentences(report.steps[0].because)[-1]
    assert report.worst_shortfall == 6
    assert report.worst_shortfall_at == 1000.0
    assert report.above_high_s > 0


def test_the_load_is_shared_by_ready_replicas_only() -> None:
    members = spec(algorithm="absolute", minReplicas=2, scaleUpLimitFactor="100")
    fast = backtest(members, rows(*[40.0] * 40), LoadModel(ready_delay_s=0))
    slow = backtest(members, rows(*[40.0] * 40), LoadModel(ready_delay_s=120))
    assert fast.above_high_s < slow.above_high_s
    assert fast.most_replicas == 4


def test_a_value_that_does_not_depend_on_replicas_goes_to_the_bound() -> None:
    members = spec(algorithm="absolute", minReplicas=1, maxReplicas=6)
    report = backtest(members, rows(*[40.0] * 100), LoadModel(shared=False, start_replicas=3))
    assert report.most_replicas == 6
    assert report.above_high_s == report.duration_s


def test_resource_metrics_are_spread_over_the_pods() -> None:
    body = {"name": "cpu", "metricSelector": {}, "lowWatermark": "1", "highWatermark": "2"}
    members = spec({"type": "Resource", "resource": body}, minReplicas=2)
    report = backtest(members, rows(*[12.0] * 100), LoadModel(ready_delay_s=20))
    assert report.most_replicas == 6
    assert report.steps[-1].to_replicas == 6


def test_several_metrics_take_a_value_each() -> None:
    members = spec(external("a"), external("b"), minReplicas=2)
    series = [(1000.0 + 15 * i, (15.0, 45.0)) for i in range(60)]
    assert backtest(members, series).most_replicas == 5


def test_the_chart_is_bounded_and_keeps_the_extremes() -> None:
    loads = [15.0] * 5000
    loads[2500] = 99.0
    for span in (None, (1000.0, 1000.0 + 15 * 5000)):
        report = backtest(spec(minReplicas=2), rows(*loads), span=span)
        assert 200 <= len(report.chart) <= 800
        assert max(point.load_high for point in report.chart) == 99.0
        assert report.chart[0].at == 1000.0


def test_progress_is_told() -> None:
    told: list[int] = []
    backtest(spec(minReplicas=2), rows(*[15.0] * 40_000), progress=told.append)
    assert told == [20_000, 40_000]


def test_a_dry_run_spec_is_run_as_if_it_were_not() -> None:
    report = backtest(spec(minReplicas=2, dryRun=True), rows(*[80.0] * 10))
    assert report.scale_ups == 3
    assert report.most_replicas == 6


def test_an_empty_series_is_an_empty_report() -> None:
    assert backtest(spec(), []).samples == 0


@pytest.mark.parametrize(
    ("series", "what"),
    [
        ([(1000.0, (1.0,)), (999.0, (1.0,))], "row 2: time 999"),
        ([(1000.0, ())], "row 1: 0 values, but the spec has 1 metrics"),
        ([(1000.0, (math.nan,))], "row 1: nan is not a number"),
    ],
)
def test_a_bad_row_is_named(series: Any, what: str) -> None:
    with pytest.raises(BadSeries, match=what):
        backtest(spec(), series)


def test_a_spec_that_cannot_be_used_or_measures_nothing_is_refused() -> None:
    with pytest.raises(InvalidSpec):
        backtest(spec(minReplicas=20), [])
    with pytest.raises(InvalidSpec, match="needs at least one metric"):
        backtest(spec() | {"metrics": []}, [])
