"""The demo's pure parts: what happened, the chart, the marks."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from tests.answers import fits
from tidewright.asking.errors import INTERRUPTED
from tidewright.cli import main
from tidewright.cli.chart import bars, chart, sampled
from tidewright.cli.demo import stage
from tidewright.cli.demo.nodes.play import NodesPlay
from tidewright.cli.demo.objects import Windows, marks_for
from tidewright.cli.demo.story import Story
from tidewright.cli.demo.summary import DemoRun, as_text, summary
from tidewright.cli.demo.view import Lines, Screen
from tidewright.cli.stack import StackOptions
from tidewright.cli.typed import typed
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Because, ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import MetricSampled, PodGone, PodObserved, WorkloadObserved
from tidewright.events.outcomes import Applied, Rejected

TARGET = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="demo", name="shop")


def scale(at: float, before: int, after: int) -> ScaleWorkload:
    because = (
        Because(rule="ScaleDecided", values={"from": before, "to": after, "reason": "x", "dry_run": False}),
    )
    return ScaleWorkload(
        at=at,
        id=f"autoscaler.0.{at:g}.0",
        because=because,
        target=TARGET,
        replicas=after,
        from_replicas=before,
    )


def deployment(at: float, replicas: int, namespace: str = "demo") -> WorkloadObserved:
    return WorkloadObserved(
        at=at, api_version="apps/v1", kind="Deployment", namespace=namespace, name="shop", replicas=replicas
    )


def told(*events: object) -> Story:
    story = Story()
    for event in events:
        story.fold(event)  # type: ignore[arg-type]  # events of all classes
    return story


STORY = (
    deployment(0.0, 2),
    deployment(1.0, 9, namespace="elsewhere"),
    MetricSampled(at=5.0, namespace="demo", name="external/shop.requests/", series_milli=(1500, 500)),
    scale(10.0, 2, 6),
    Applied(at=11.0, decision="autoscaler.0.10.0"),
    deployment(12.0, 6),
    deployment(13.0, 6),
    scale(20.0, 6, 12),
    Rejected(at=21.0, decision="autoscaler.0.20.0"),
    HoldReplicas(at=30.0, id="autoscaler.0.30.0", target=TARGET, replicas=6, reason="WithinMarks"),
    scale(40.0, 6, 5),
)
RUN = DemoRun(
    trace="t.csv",
    marks=marks_for([1.0]),
    start=0.0,
    end=50.0,
    speed=10.0,
    folder="d",
    cluster="demo",
    wall_s=5,
)


def test_the_story_follows_its_own_workload_and_counts_decisions() -> None:
    story = told(*STORY)
    assert story.replicas == [(0.0, 2), (12.0, 6)]
    assert story.load == [(5.0, 2.0)]
    assert story.decisions == {"scale-workload": 3, "hold-replicas": 1}
    assert story.now == 40.0
    assert not story.settled
    story.fold(Applied(at=41.0, decision="autoscaler.0.40.0"))
    assert story.settled


def test_the_largest_step_is_one_that_was_applied_if_any_was() -> None:
    story = told(*STORY)
    up, down = story.largest(up=True), story.largest(up=False)
    assert up is not None
    assert up.replicas == 6
    assert down is not None
    assert down.replicas == 5
    assert told(scale(1.0, 2, 3)).largest(up=False) is None


def test_a_step_that_held_already_is_not_told_twice(capsys: pytest.CaptureFixture[str]) -> None:
    story = told(scale(10.0, 2, 6), Applied(at=11.0, decision="autoscaler.0.10.0"), scale(12.0, 2, 6))
    with Lines(quiet_stdout=False) as lines:
        lines.update(story)
        story.fold(Applied(at=13.0, decision="autoscaler.0.12.0", found=True))
        story.fold(scale(20.0, 6, 7))
        story.fold(Rejected(at=21.0, decision="autoscaler.0.20.0", message="replicas is 5"))
        story.fold(scale(30.0, 6, 5))
        lines.update(story)
    told_lines = [line.split("  ", 1)[1].strip() for line in capsys.readouterr().out.splitlines()]
    assert [line[:30].split("replicas")[0].strip() for line in told_lines] == ["2 -> 6", "6 -> 7", "6 -> 5"]
    assert "(rejected: replicas is 5)" in told_lines[1]
    assert "(open)" in told_lines[2]
    assert summary(story, RUN).decisions.scale_ups == 2
    assert summary(story, RUN).decisions.by_type == {"scale-workload": 4}


def test_pods_that_serve_are_counted() -> None:
    story = told(
        PodObserved(at=1.0, namespace="demo", name="a", ready=True),
        PodObserved(at=1.0, namespace="demo", name="b", ready=False),
        PodObserved(at=1.0, namespace="demo", name="c", ready=True, deleting_at=1.0),
    )
    assert story.ready == 1
    story.fold(PodGone(at=2.0, namespace="demo", name="a"))
    assert story.ready == 0


def test_what_was_not_carried_out_is_said_with_its_reason() -> None:
    limited = [Rejected(at=21.0, decision=f"autoscaler.0.{n}.1", reason="RateLimited") for n in range(2)]
    story = told(*STORY[:-4], Rejected(at=21.0, decision="autoscaler.0.20.0", reason="Conflict"), *limited)
    assert summary(story, RUN).decisions.unmet_because == {"RateLimited": 2, "Conflict": 1}
    said = next(line for line in as_text(story, RUN).splitlines() if "outcomes:" in line)
    assert "1 applied, 3 rejected (2 object events beyond what one object may have, 1 from a count" in said


def test_the_summary_says_how_many_and_why() -> None:
    content = summary(told(*STORY), RUN)
    assert content.decisions.total == 4
    assert (content.decisions.scale_ups, content.decisions.scale_downs) == (2, 1)
    assert content.scale_up is not None
    assert content.scale_up.outcome == "applied"
    assert content.scale_up.explanation
    fits("demo.load", content)
    fits("demo.load", summary(told(), RUN))
    text = as_text(told(*STORY), RUN)
    assert "4 decisions" in text
    assert "Why 2 -> 6 replicas (decision autoscaler.0.10.0)" in text
    assert "No scale-down" in as_text(told(*STORY[:4]), RUN)


def test_the_screen_shows_a_reason_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[RenderableType] = []
    screen = Screen(RUN, stderr=True)
    monkeypatch.setattr(screen._live, "update", drawn.append)
    reason = "shop.requests{map[app:shop]} is above its mark"
    monkeypatch.setattr("tidewright.cli.demo.view.reason", lambda scale: reason)
    screen.update(told(*STORY))
    shown = io.StringIO()
    Console(file=shown, width=160).print(drawn[-1])
    assert reason in shown.getvalue()


def test_a_chart_of_a_step_function() -> None:
    points = [(0.0, 2.0), (50.0, 4.0)]
    assert sampled(points, 0.0, 100.0, 4) == [2.0, 2.0, 4.0, 4.0]
    assert bars([2.0, 2.0, 4.0, 4.0], 2) == ["  ██", "████"]
    lines = chart("r", points, 0.0, 86400.0, width=20, height=2)
    assert lines[1].startswith("4 |")
    assert "01-01 00:00" in lines[-1]
    assert lines[-1].endswith("01-02 00:00")
    assert chart("r", [], 0.0, 1.0, width=20, height=2) == ["r: nothing recorded"]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300))
def test_marks_are_apart_and_the_peak_needs_about_ten_replicas(values: list[float]) -> None:
    marks = marks_for(values)
    assert 0 < marks.low < marks.high
    ordered = sorted(values)
    assert ordered[int(0.98 * (len(ordered) - 1))] <= 10 * marks.high


def test_windows_grow_with_the_speed_from_the_defaults_on() -> None:
    assert Windows.at(1.0) == Windows(up_s=60, down_s=300, stale_s=300)
    assert Windows.at(2000.0) == Windows(up_s=800, down_s=1000, stale_s=2000)


def test_a_command_is_printed_as_it_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = tmp_path / "bin"
    beside.mkdir()
    (beside / "tidewright").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    assert typed("tidewright") == "bin/tidewright"
    monkeypatch.chdir(beside)
    (beside / "deeper").mkdir()
    monkeypatch.chdir(beside / "deeper")
    assert typed("tidewright") == str(beside / "tidewright")
    assert typed("kubectl") == "kubectl"  # we have none: it is the user's to find
    monkeypatch.setenv("PATH", str(beside))
    assert typed("tidewright") == "tidewright"


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("story", ["load", "nodes"])
def test_the_console_comes_up_with_a_demo_where_it_is_asked_for(
    story: str,
    wanted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Shown:
        """A stack that has come up, and does no more."""

        def __init__(self, options: StackOptions, *_: object) -> None:
            self.console_url = "http://127.0.0.1:1/?token=x" if options.console else ""

        async def __aenter__(self) -> Shown:
            return self

        async def __aexit__(self, *_: object) -> None: ...

    async def interrupted(*_: object) -> None:
        raise asyncio.CancelledError

    async def at_once() -> float:
        return 0.0

    monkeypatch.setattr(stage, "Stack", Shown)
    monkeypatch.setattr(stage, "_play", interrupted)
    monkeypatch.setattr(stage, "_lead_s", at_once)
    words = ["demo", "--story", story, "--data", str(tmp_path / "it"), *(["--console"] if wanted else [])]
    assert main.run(words) == INTERRUPTED
    assert ("console: http://127.0.0.1:1/?token=x" in capsys.readouterr().err) is wanted


async def test_a_story_that_had_begun_before_everything_was_up_is_begun_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(now=1000.0)
    begins: list[float | None] = []
    played: list[float | None] = []

    class Slow:
        """A stack that takes a minute to come up, and as long the next time."""

        def __init__(self, options: StackOptions, *_: object) -> None:
            self.options, self.console_url = options, ""
            assert not (tmp_path / "it" / "nats").exists()  # nothing is left of the first attempt
            begins.append(options.clock_wall)

        async def __aenter__(self) -> Slow:
            (tmp_path / "it" / "nats").mkdir()
            clock.now += 60.0
            return self

        async def __aexit__(self, *_: object) -> None: ...

    async def play(stack: Slow, *_: object) -> None:
        played.append(stack.options.clock_wall)

    async def eight() -> float:
        return 8.0

    monkeypatch.setattr(stage, "Stack", Slow)
    monkeypatch.setattr(stage, "_play", play)
    monkeypatch.setattr(stage, "_lead_s", eight)
    monkeypatch.setattr(stage, "time", SimpleNamespace(time=lambda: clock.now))
    story = NodesPlay(tmp_path / "it", None, json_output=True)
    monkeypatch.setattr(story, "summary", lambda: "the end")
    assert await stage.run(story) == 0
    assert begins == [1008.0, 1060.0 + stage.LEAD_AGAIN * 60.0]
    assert played == begins[1:]
    printed = capsys.readouterr()
    assert printed.out == "the end\n"
    assert "this took 60 s" in printed.err
    assert printed.err.count("starting:") == 1
