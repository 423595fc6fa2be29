"""Along the log no time that is shown goes back, whatever the stamps of those that write to it."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.autoscaler.world import NS, World, sample, workload
from tidewright.asking.answers import ObjectExplanation, builtins
from tidewright.asking.explain import Explanation, Why, explained
from tidewright.asking.exported import ExportedLog
from tidewright.asking.lookups import Found
from tidewright.asking.point_in_time import Moment, moment_of
from tidewright.asking.rendering import answer, as_text
from tidewright.asking.told_time import Reached
from tidewright.cli import main
from tidewright.cli.demo.story import Story
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.host.fold.explainer import Reference
from tidewright.kube.times import seconds
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"


def check(told: ObjectExplanation) -> None:
    """No time goes back along the sequences, none lies before what it tells, and all are past but what came of it."""
    content = builtins(told)
    entries = [*content["earlier"], *([content["lastWord"]] if content["lastWord"] else [])]
    outcomes = []
    for decision in content["decisions"]:
        entries += [decision, *decision["causes"], *decision["restsOn"], *decision["beside"]]
        outcomes += [decision["outcome"]] if decision["outcome"] else []
    ordered = sorted((*entries, *outcomes), key=lambda entry: entry["sequence"])
    times = [seconds(entry["at"]) for entry in ordered]
    assert times == sorted(times)
    assert all(seconds(entry["at"]) <= seconds(content["at"]) for entry in entries)
    for entry in entries:
        for step in entry["event"].get("because", ()):
            quoted = step["values"].get("last_scale_at")
            assert quoted is None or quoted <= seconds(entry["at"]) + 0.001  # shown in milliseconds
        assert seconds(entry["at"]) + 0.001 >= entry["event"]["at"]


def _stamped_late(steps: list[tuple[int, float]]) -> list[Found]:
    """A log of an autoscaler: what it hears has stamps that may lie before those of what it heard already."""
    world, log = World(), list[Found]()

    def heard(event: Event) -> None:
        subject = f"tw.t.fact.0.{type(event).__name__.lower()}.{NS}.web"
        log.append(Found(Record(subject=subject, seq=len(log) + 1, headers={}, body=b""), event))
        for decision in world.feed(event):
            subject = f"tw.t.decision.0.autoscaler.watermarkpodautoscaler.{NS}.wpa"
            log.append(Found(Record(subject=subject, seq=len(log) + 1, headers={}, body=b""), decision))
            if isinstance(decision, ScaleWorkload):
                ordered.append(decision)

    ordered: list[ScaleWorkload] = []
    world.start()
    now = 110.0
    for value, late in steps:
        now += 40.0
        heard(sample(now - late, value))
        if ordered:
            order = ordered.pop()
            heard(Applied(at=now - late, decision=order.id))
            heard(workload(now, order.replicas))
    return log


LATE = st.lists(
    st.tuples(st.sampled_from((2_000, 14_000, 30_000, 60_000)), st.floats(0, 400)), min_size=4, max_size=14
)
"""Values that are measured one after the other, and by how much each is stamped too early, seconds."""


@settings(deadline=None, max_examples=60)
@given(LATE, st.data())
def test_in_explanations_of_logs_whose_stamps_come_late_time_goes_on(
    steps: list[tuple[int, float]], data: st.DataObject
) -> None:
    log = _stamped_late(steps)
    decided = [entry for entry in log if isinstance(entry.event, ScaleWorkload | HoldReplicas)]
    if not decided:
        return
    main_one = data.draw(st.sampled_from(decided))
    before = [entry for entry in log if entry.seq < main_one.seq]
    facts = [entry for entry in before if not isinstance(entry.event, Decision)]
    why = Why(
        "autoscaler", main_one, (), (), causes=(facts[-1],), rests_on=tuple(data.draw(_some(facts))),
        outcome=next((e for e in log if e.seq > main_one.seq and isinstance(e.event, Applied)), None),
    )  # fmt: skip
    explanation = Explanation(
        "a log", Reference("watermarkpodautoscaler", NS, "wpa"), Moment(main_one.seq, main_one.event.at),
        last_word=facts[-1], why=[why], earlier=[e for e in reversed(decided) if e.seq < main_one.seq],
    )  # fmt: skip
    check(answer(explanation))
    assert as_text(explanation)


@settings(deadline=None, max_examples=60)
@given(LATE)
def test_in_what_a_demo_tells_time_goes_on(steps: list[tuple[int, float]]) -> None:
    story = Story()
    for entry in _stamped_late(steps):
        assert isinstance(entry.event, Event)
        before = story.now
        story.fold(entry.event)
        assert story.now >= max(before, entry.event.at)
    times = [story.times[scale.id] for scale in story.scales]
    assert times == sorted(times)
    assert [at for at, _ in story.load] == sorted(at for at, _ in story.load)
    for scale in story.scales:
        for step in scale.because:
            quoted = step.values.get("last_scale_at")
            assert not isinstance(quoted, int | float) or quoted <= story.times[scale.id]


def _some(facts: list[Found]) -> st.SearchStrategy[list[Found]]:
    return st.lists(st.sampled_from(facts), max_size=4, unique_by=lambda entry: entry.seq)


def test_a_late_stamp_is_said_beside_the_time_that_the_log_had_reached() -> None:
    fact = Found(Record(subject=f"tw.t.fact.0.metric.{NS}.a", seq=7, headers={}, body=b""), sample(500.0, 1))
    late = Found(Record(subject=f"tw.t.fact.0.metric.{NS}.a", seq=9, headers={}, body=b""), sample(80.0, 1))
    explanation = Explanation("a log", Reference("metric", NS, "a"), Moment(9, 80.0), fact, earlier=[late])
    shown = as_text(explanation)
    assert "as of 1970-01-01 00:08:20 UTC" in shown
    assert "1970-01-01 00:08:20  9  MetricSampled" in shown
    assert shown.endswith("(stamped 1970-01-01 00:01:20)")


@cache
def _source() -> ExportedLog:
    return ExportedLog(ExportFile(LOG))


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [
        ("watermarkpodautoscaler", "team-0", "app-0"),
        ("nodegroup", "", "asked"),
        ("shardset", "team-0", "shards"),
        ("provisioningrequest", "team-0", "atomic"),
    ],
)
@settings(deadline=None, max_examples=8)
@given(st.data())
def test_in_explanations_of_a_recorded_log_time_goes_on(
    kind: str, namespace: str, name: str, data: st.DataObject
) -> None:
    async def told(seq: int) -> ObjectExplanation:
        source = _source()
        moment = await moment_of(source, f"seq:{seq}")
        return answer(await explained(source, Reference(kind, namespace, name), moment))

    first, last = asyncio.run(_source().bounds())
    check(asyncio.run(told(data.draw(st.integers(first + (last - first) // 2, last)))))


def test_events_are_listed_in_the_order_of_the_log_and_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["events", "--log", str(LOG), "--tail", "1500"]) == 0
    times = [line[:23] for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(times) == 1500
    assert times == sorted(times)
    assert main.run(["events", "--log", str(LOG), "-o", "json", "--tail", "1500"]) == 0
    stamps = [json.loads(line)["at"] for line in capsys.readouterr().out.splitlines()]
    assert stamps != sorted(stamps)


@given(st.lists(st.floats(0, 1e9)))
def test_what_is_reached_is_never_less_than_a_stamp_nor_than_before(stamps: list[float]) -> None:
    reached = Reached()
    shown = [reached.by(sample(at, 1)) for at in stamps]
    assert shown == sorted(shown)
    assert all(at >= own for at, own in zip(shown, stamps, strict=True))
