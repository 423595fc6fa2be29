"""An event has one time, whatever asks for it, and what is listed by time never goes back."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.autoscaler.world import NS, World, sample, workload
from tidewright.asking import ordered as ordering
from tidewright.asking.answers.explain import ObjectExplanation
from tidewright.asking.answers.form import builtins, stamp
from tidewright.asking.explain import Explanation, Why, explained
from tidewright.asking.exported import ExportedLog
from tidewright.asking.lookups import Found, decoded
from tidewright.asking.ordered import BEHIND, Ordering, Shown, in_order
from tidewright.asking.point_in_time import Moment, moment_of
from tidewright.asking.rendering import answer, as_text
from tidewright.asking.told_time import told, told_of
from tidewright.cli import main
from tidewright.cli.demo.story import Story
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Because, Decision, Event, ObjectRef
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.order import cause_of
from tidewright.kube.times import seconds
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record

RECORDED = Path(__file__).parents[2] / "recorded"
LOG, DEMO = RECORDED / "chaos.twlog", RECORDED / "demo.twlog"


def check(told_of_it: ObjectExplanation) -> None:
    """Each event has its time, what is listed by time is in order, nothing is as of before what it tells, and all are past but what came of it."""
    content = builtins(told_of_it)
    entries = [*content["earlier"], *([content["lastWord"]] if content["lastWord"] else [])]
    outcomes = []
    for decision in content["decisions"]:
        entries += [decision, *decision["causes"], *decision["restsOn"], *decision["beside"]]
        outcomes += [decision["outcome"]] if decision["outcome"] else []
        assert in_time(decision["restsOn"])
    for entry in (*entries, *outcomes):
        event = registry.decode(msgspec.json.encode(entry["event"]))
        assert entry["at"] == stamp(told(event))
    assert in_time(reversed(content["earlier"]))
    assert all(seconds(entry["at"]) <= seconds(content["at"]) for entry in entries)
    for entry in entries:
        for step in entry["event"].get("because", ()):
            quoted = step["values"].get("last_scale_at")
            assert quoted is None or quoted <= seconds(entry["at"]) + 0.001  # shown in milliseconds


def in_time(entries: Iterable[dict[str, str]]) -> bool:
    times = [entry["at"] for entry in entries]
    return times == sorted(times)


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
    assert [story.times[scale.id] for scale in story.scales] == [told(scale) for scale in story.scales]
    assert [at for at, _ in story.load] == sorted(at for at, _ in story.load)
    for scale in story.scales:
        for step in scale.because:
            quoted = step.values.get("last_scale_at")
            assert not isinstance(quoted, int | float) or quoted <= story.times[scale.id]


def _some(facts: list[Found]) -> st.SearchStrategy[list[Found]]:
    return st.lists(st.sampled_from(facts), max_size=4, unique_by=lambda entry: entry.seq)


def test_a_decision_is_not_told_as_of_before_what_it_quotes_and_says_its_stamp() -> None:
    scaler = ObjectRef(
        api_version="datadoghq.com/v1alpha1", kind="WatermarkPodAutoscaler", namespace=NS, name="a"
    )
    quoting = Because(
        rule="UpscaleForbiddenWindow", values={"wanted": 3, "last_scale_at": 500.0, "free_at": 900.0}
    )
    hold = HoldReplicas(
        at=80.0, target=scaler, replicas=2, reason="UpscaleForbiddenWindow", because=(quoting,)
    )
    assert told(hold) == 500.0
    entry = Found(
        Record(
            subject=f"tw.t.decision.0.autoscaler.watermarkpodautoscaler.{NS}.a", seq=9, headers={}, body=b""
        ),
        hold,
    )
    explanation = Explanation(
        "a log", Reference("watermarkpodautoscaler", NS, "a"), Moment(9, 80.0), earlier=[entry]
    )
    shown = as_text(explanation)
    assert "as of 1970-01-01 00:08:20 UTC" in shown
    assert "1970-01-01 00:08:20  9  HoldReplicas" in shown
    assert shown.endswith("(stamped 1970-01-01 00:01:20)")


@cache
def _source_of(log: Path) -> ExportedLog:
    return ExportedLog(ExportFile(log))


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
        source = _source_of(LOG)
        moment = await moment_of(source, f"seq:{seq}")
        return answer(await explained(source, Reference(kind, namespace, name), moment))

    first, last = asyncio.run(_source_of(LOG).bounds())
    check(asyncio.run(told(data.draw(st.integers(first + (last - first) // 2, last)))))


@pytest.mark.parametrize("log", [LOG, DEMO], ids=lambda log: log.stem)
def test_events_are_listed_in_the_order_of_their_times(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["events", "--log", str(log), "--tail", "1500"]) == 0
    rows = [(line[:23], line.split()[2]) for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(rows) == 1500
    assert [at for at, _ in rows] == sorted(at for at, _ in rows)
    assert main.run(["events", "--log", str(log), "-o", "json", "--tail", "1500"]) == 0
    told_of_them = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        (one["at"].replace("T", " ").removesuffix("Z"), str(one["sequence"])) for one in told_of_them
    ] == rows
    sequences = [one["sequence"] for one in told_of_them]
    assert sequences != sorted(sequences)  # the log itself has them otherwise


def test_a_decision_of_the_demo_has_one_time_in_all_that_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    times: defaultdict[str, set[str]] = defaultdict(set)
    views: defaultdict[str, set[str]] = defaultdict(set)

    def asked(*words: str) -> list[dict[str, object]]:
        capsys.readouterr()
        assert main.run([*words, "--log", str(DEMO), "-o", "json"]) == 0
        return [json.loads(line) for line in _documents(capsys.readouterr().out)]

    def seen(view: str, identity: object, at: object) -> None:
        if identity:
            times[str(identity)].add(str(at))
            views[str(identity)].add(view)

    events = asked("events", "--class", "decision")
    for event in events:
        seen("events", event["decision"], event["at"])
    scaled = [event for event in events if event["event"]["type"].startswith("decision.scale-workload")]  # type: ignore[index]
    assert len(scaled) > 20
    for event in asked("events", "--for", "wpa/shop", "-n", "demo", "--class", "decision"):
        seen("events --for", event["decision"], event["at"])
    for mark in asked("series", "wpa/shop", "-n", "demo", "--since", "30h")[0]["marks"]:  # type: ignore[attr-defined]
        seen("series", mark["decision"], mark["at"])
    for event in scaled[::4]:
        explanations = (
            asked("explain", "wpa/shop", "-n", "demo", "--at", f"seq:{event['sequence']}"),
            asked("explain", "--decision", str(event["decision"])),
        )
        for (explanation,) in explanations:
            check(msgspec.convert(explanation, ObjectExplanation))
            for decision in explanation["decisions"]:  # type: ignore[attr-defined]
                for one in (decision, *decision["beside"], *decision["causes"]):
                    seen("explain", one["event"].get("id"), one["at"])
            for one in explanation["earlier"]:  # type: ignore[attr-defined]
                seen("earlier", one["event"].get("id"), one["at"])
        (listed,) = asked("get", "deployment", "-n", "demo", "--at", f"seq:{event['sequence']}")
        for item in listed["items"]:  # type: ignore[attr-defined]
            seen("get", item["lastDecision"], item["lastChange"])
    assert {identity: found for identity, found in times.items() if len(found) > 1} == {}
    assert {"events", "events --for", "series", "explain", "get"} <= views[str(scaled[0]["decision"])]


def _documents(out: str) -> list[str]:
    """One JSON document, or one per line."""
    return [out] if out.startswith("{\n") else out.splitlines()


@pytest.mark.parametrize("log", [LOG, DEMO], ids=lambda log: log.stem)
def test_of_a_record_the_time_is_told_as_of_its_event(log: Path) -> None:
    for record in ExportFile(log).records():
        found = decoded(record)
        if found is not None:
            assert told_of(record) == told(found.event)
    assert told_of(Record(subject="tw.t.fact.0.pod.a.b", seq=1, headers={}, body=b"no event")) is None


def _logged(stamps: list[float]) -> list[Shown]:
    return [
        (Record(subject=f"tw.t.fact.0.metric.{NS}.a", seq=n, headers={}, body=b""), sample(at, 1))
        for n, at in enumerate(stamps, 1)
    ]


async def _given(entries: list[Shown], pause_s: float = 0.0) -> AsyncGenerator[Shown, None]:
    for n, entry in enumerate(entries):
        if pause_s and n:
            await asyncio.sleep(pause_s)
        yield entry


async def _taken(entries: list[Shown], *, follow: bool = False, pause_s: float = 0.0) -> list[Shown]:
    async with (
        aclosing(_given(entries, pause_s)) as those,
        aclosing(in_order(those, follow=follow)) as found,
    ):
        return [one async for one in found]


@settings(deadline=None)
@given(st.lists(st.floats(0, 90), max_size=300), st.booleans())
def test_what_stands_a_little_behind_its_place_is_listed_in_its_place(
    late: list[float], follow: bool
) -> None:
    assert BEHIND > 90
    entries = _logged([1000.0 + n - by for n, by in enumerate(late)])
    found = asyncio.run(_taken(entries, follow=follow))
    assert [(told(event), record.seq) for record, event in found if isinstance(event, Event)] == sorted(
        (event.at, record.seq) for record, event in entries if isinstance(event, Event)
    )


@pytest.mark.parametrize(
    "stamps",
    [[1e9, *map(float, range(3 * BEHIND))], [float(-n) for n in range(3 * BEHIND)]],
    ids=["a clock that is ahead", "each before all before it"],
)
def test_nothing_waits_for_more_than_so_many_that_belong_before_it(stamps: list[float]) -> None:
    waits = Ordering()
    given: list[int] = []
    for one in _logged(stamps):
        waits.put(one)
        given += [record.seq for record, _ in waits.due()]
        assert one[0].seq - len(given) <= BEHIND
    assert given.index(1) <= BEHIND
    assert sorted([*given, *(record.seq for record, _ in waits.rest())]) == list(range(1, len(stamps) + 1))


def test_on_a_log_that_is_followed_what_is_stamped_ahead_is_shown_while_others_come() -> None:
    waits = Ordering()
    ahead, *others = _logged([1e9, 1.0, 2.0])
    waits.put(ahead, 0.0)
    for now, one in enumerate(others, 1):
        waits.put(one, float(now))
    assert [record.seq for record, _ in waits.due(0.5)] == [2, 3, 1]
    assert waits.first_came is None


def test_what_comes_on_a_log_that_is_followed_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "HELD_S", 1.0)  # a test that is held up between the two is not
    entries = _logged([50.0, 40.0, 60.0])

    async def run() -> list[int]:
        shown: list[int] = []
        both = asyncio.Event()

        async def endless() -> AsyncGenerator[Shown, None]:
            for entry in entries[:2]:
                yield entry
            await both.wait()  # they are shown though nothing comes
            yield entries[2]
            await asyncio.Event().wait()

        async with aclosing(endless()) as those, aclosing(in_order(those, follow=True)) as found:
            async for record, _ in found:
                shown.append(record.seq)
                if len(shown) == 2:
                    both.set()
                if len(shown) == 3:
                    break
        return shown

    assert asyncio.run(run()) == [2, 1, 3]


def test_in_the_order_of_times_a_decision_of_the_demo_stands_right_behind_what_it_answers() -> None:
    async def run() -> list[Shown]:
        async with aclosing(_source_of(DEMO).records()) as records:
            entries = [
                (record, found.event)
                async for record in records
                if (found := decoded(record)) is not None
                and record.subject.split(".")[2] not in ("schedule", "checkpoint")
            ]
        return await _taken(entries)  # type: ignore[arg-type]

    place: dict[int, int] = {}
    apart = []
    for n, (record, event) in enumerate(asyncio.run(run())):
        place[record.seq] = n
        if isinstance(event, Decision) and event.id:
            assert place[cause_of(event.id)[0]] < n
            apart.append(n - place[cause_of(event.id)[0]])
    assert len(apart) > 300
    assert max(apart) <= 8  # those with which it was decided, and what has the same time


def test_in_the_table_of_events_no_time_goes_back_where_one_is_listed_late(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ordering, "BEHIND", 0)  # as if each stood too far behind its place
    assert main.run(["events", "--log", str(DEMO)]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    times = [row[:23] for row in rows]
    assert times == sorted(times)
    assert any("(of 20" in row for row in rows)
