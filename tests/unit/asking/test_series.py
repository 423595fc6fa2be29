"""What is drawn of an object: its lines over a stretch of a recorded log, and as many points as are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.asking.answers.series import ObjectSeries, SeriesLine
from tidewright.asking.errors import BadInput
from tidewright.asking.exported import ExportedLog
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.series import Points, plotter_of, series
from tidewright.asking.services import BY_NAME, SERVICES, Service
from tidewright.autoscaler.tell.plotting import AutoscalerPlotter
from tidewright.cli import main
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.facts import MetricSampled, WorkloadObserved
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.plotter import Sample
from tidewright.log.export import ExportFile

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
APP = Reference("watermarkpodautoscaler", "team-1", "app-1")
T = TypeVar("T")


def of_log(question: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(question)


def drawn(asked: Reference, since: str = "seq:1", until: str = "", points: int = 400) -> ObjectSeries:
    source = ExportedLog(ExportFile(LOG))

    async def run() -> ObjectSeries:
        begin, end = await moment_of(source, since, "--since"), await moment_of(source, until, "--until")
        return await series(source, asked, begin, end, points)

    return of_log(run())


def lines(found: ObjectSeries) -> dict[str, SeriesLine]:
    return {line.name: line for line in found.lines}


def test_an_autoscaler_is_drawn_with_its_marks_its_values_and_the_replicas_of_its_target() -> None:
    found = drawn(APP)
    named = lines(found)
    assert {"value", "highWatermark", "lowWatermark", "wanted", "existing", "ready"} <= set(named)
    assert named["highWatermark"].points[-1].value == 10.0
    assert [p.value for p in named["wanted"].points] == [2, 4, 7, 2, 4]
    scales = [(mark.from_, mark.to) for mark in found.marks if mark.to is not None]
    assert scales == [(2, 4), (4, 7), (7, 2), (2, 4)]
    assert all(mark.decision.startswith("autoscaler.") for mark in found.marks)


def test_a_line_begins_with_what_held_when_the_stretch_begins_and_ends_with_it() -> None:
    whole, late = drawn(APP), drawn(APP, "seq:3100", "seq:3300")
    assert lines(late)["wanted"].points[0].at == late.since
    before = [p for p in lines(whole)["wanted"].points if p.at <= late.since]
    assert lines(late)["wanted"].points[0].value == before[-1].value
    assert all(late.since <= p.at <= late.until for line in late.lines for p in line.points)
    assert all(late.since <= mark.at <= late.until for mark in late.marks)


def test_a_workload_is_drawn_with_who_scales_it_and_a_group_with_its_nodes() -> None:
    workload = drawn(Reference("deployment", "team-1", "app-1"))
    assert "wanted" in lines(workload)
    assert [mark.to for mark in workload.marks if mark.to is not None] == [4, 7, 2, 4]
    group = lines(drawn(Reference("nodegroup", "", "asked")))
    assert group["maximum"].points[-1].value == 8
    assert group["wanted"].unit == "nodes"


def test_an_object_that_nobody_knows_and_an_empty_stretch_are_refused() -> None:
    with pytest.raises(BadInput, match="app-1"):
        drawn(Reference("watermarkpodautoscaler", "team-1", "app-11"))
    with pytest.raises(BadInput, match="later than --until"):
        drawn(APP, "seq:400", "seq:300")
    with pytest.raises(BadInput, match="--points 0"):
        drawn(APP, points=0)


def test_the_command_draws_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["series", "wpa", "app-1", "-n", "team-1", "--log", str(LOG), "--since", "3h"]) == 0
    said = capsys.readouterr().out
    assert "value app-1.load" in said
    assert "set replicas 2 -> 4" in said


@pytest.mark.parametrize("service", [s for s in SERVICES if s.plotter], ids=lambda s: s.name)
def test_who_draws_explains_what_it_draws(service: Service) -> None:
    plotter = plotter_of(service)
    assert plotter is not None
    assert plotter.kinds <= BY_NAME[service.name].explains


def test_the_value_of_an_average_is_that_of_one_ready_replica_and_a_gap_without_one() -> None:
    spec = {
        "algorithm": "average", "maxReplicas": 9,
        "scaleTargetRef": {"kind": "Deployment", "name": "shop", "apiVersion": "apps/v1"},
        "metrics": [{"type": "External", "external": {
            "metricName": "rps", "highWatermark": "20", "lowWatermark": "10",
            "metricSelector": {"matchLabels": {"app": "shop"}},
        }}],
    }  # fmt: skip
    scaler = WatermarkPodAutoscalerObserved(at=1.0, namespace="shop", name="shop", uid="u", spec=spec)
    plotter, asked = AutoscalerPlotter(), Reference("watermarkpodautoscaler", "shop", "shop")
    query = plotter.elsewhere(scaler)[1].name
    sampled = MetricSampled(at=2.0, namespace="shop", name=query, series_milli=(90_000,))

    def of(ready: int) -> list[Sample]:
        target = WorkloadObserved(
            at=1.0, namespace="shop", name="shop", uid="d", api_version="apps/v1", kind="Deployment", ready_replicas=ready
        )  # fmt: skip
        return list(plotter.samples(asked, (scaler, target, sampled), sampled))

    assert of(3) == [Sample("value", "", 30.0, "rps")]
    assert of(0) == [Sample("value", "", None, "rps")]
    failed = MetricSampled(at=3.0, namespace="shop", name=query, error="timed out", error_class="timeout")
    assert list(plotter.samples(asked, (scaler, failed), failed)) == [Sample("value", "", None, "rps")]


VALUES = st.lists(st.one_of(st.none(), st.integers(0, 9).map(float)), min_size=1, max_size=300)


@given(VALUES, st.integers(1, 40))
def test_no_point_more_than_asked_for_and_no_extreme_lost(values: list[float | None], most: int) -> None:
    points = Points("", 0.0, float(len(values)), most)
    for at, value in enumerate(values):
        points.add(float(at), value)
    kept = points.points()
    numbers = [value for value in values if value is not None]
    assert len(kept) <= most
    assert kept[-1][1] == values[-1]
    assert [at for at, *_ in kept] == sorted(at for at, *_ in kept)
    if numbers:
        assert max(high for _, _, _, high in kept if high is not None) == max(numbers)
        assert min(low for _, _, low, _ in kept if low is not None) == min(numbers)
