"""Capacity, shards, trust and what-if beside what the library answers; hostile names on every page."""

from __future__ import annotations

import asyncio
import html
import os
import re
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession, CookieJar

from tests.unit.console.booked import booked_log
from tests.unit.console.conftest import LOG, Browser, serve
from tests.waiting import until
from tidewright.asking import fold_files, planning
from tidewright.asking.answers.comparing import ComparisonList
from tidewright.asking.answers.verify import Authenticated, LogVerification
from tidewright.asking.errors import Unavailable
from tidewright.asking.exported import ExportedLog
from tidewright.asking.point_in_time import Moment, moment_of
from tidewright.asking.service_state import Asked, restored
from tidewright.asking.services import BY_NAME
from tidewright.console import capacity
from tidewright.console.apart import Turns
from tidewright.console.backwards import KEPT_RECORDS, Backwards
from tidewright.console.capacity import groups_of
from tidewright.console.kept import Kept
from tidewright.console.lists import Lists
from tidewright.console.shards import moves_of, shown
from tidewright.console.verifying import LEAST_PAUSE_S, Verifying
from tidewright.host.fold.explainer import Reference
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record
from tidewright.provisioning.state import GroupState, Node, Pod, ShapeFields, State
from tidewright.provisioning.tell.what_if_scaledown import in_words
from tidewright.sharding.document import Document, MemberRecord, SlotRecord, SlotState

SCALED = "/what-if?namespace=team-0&name=app-0&window=6h"


async def test_capacity_shows_what_the_plan_says(browser: Browser) -> None:
    page = await browser.get("/capacity?at=seq:3000")
    assert page.status == 200
    source = ExportedLog(ExportFile(LOG))
    plan = await planning.scale_down(source, await moment_of(source, "seq:3000"))
    assert plan.staying
    for reason, nodes in plan.staying.items():
        words = in_words(reason)
        assert f"{words} {reason} {len(nodes)}".strip() in page.words
    assert "No group of the cloud has it: it is never removed. NotAutoscaled " in page.words
    drawn = [
        a["aria-label"] for tag, a in page.elements if tag == "a" and "cell" in a.get("class", "").split()
    ]
    assert {label.partition(":")[0] for label in drawn} == {"sim-0000", "sim-0001"}
    assert "group=nothing" in html.unescape((await browser.get("/capacity?group=nothing")).text)


async def test_who_keeps_the_room_that_a_request_waits_for_is_named_where_capacity_is_looked_at(
    tmp_path: Path,
) -> None:
    console = await serve(ExportedLog(ExportFile(booked_log(tmp_path))))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        browser = await Browser(console, session).enter()
        page = await browser.get("/capacity")
        waits = "Requests that wait for room Pods Request Why 10 provisioningrequest ns/ report"
        assert waits in page.words
        assert "but for the booking of ns/nightly , held until 2026-09-21 14:23:20 UTC." in page.words
        assert "provisioningrequest ns/ nightly 6 11.4 cores" in page.words
        keeper = "/object/provisioningrequest/ns/nightly"
        assert sum(a.get("href") == keeper for tag, a in page.elements if tag == "a") == 2
        assert "Requests that wait" not in (await browser.get("/capacity?at=seq:30")).words
    await console.stop()


async def test_requests_that_wait_and_are_not_told_of_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "REQUESTS", 2)
    monkeypatch.setattr(capacity, "EXPLAINED", 1)
    console = await serve(ExportedLog(ExportFile(booked_log(tmp_path, more=3))))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        page = await (await Browser(console, session).enter()).get("/capacity")
        assert "10 provisioningrequest ns/ report-0 see its page and 2 more" in page.words
        second = "/object/provisioningrequest/ns/report-0"
        assert sum(a.get("href") == second for tag, a in page.elements if tag == "a") == 2
        assert page.words.count("see its page") == 1
    await console.stop()


def test_nodes_are_as_full_as_their_pods_ask() -> None:
    state = State(
        nodes={
            "a": Node(labels={}, allocatable={"cpu": 4000, "memory": 8}, ready=True, group="g"),  # type: ignore[arg-type]
            "b": Node(labels={}, allocatable={"cpu": 4000, "memory": 8}, ready=False, group="g"),  # type: ignore[arg-type]
        },
        groups={"g": GroupState(target_size=3, price_micro=1)},  # type: ignore[dict-item]
        shapes={"s": ShapeFields(requests={"cpu": 1000, "memory": 4})},
        pods={"ns/p": Pod(shape="s", node="a"), "ns/q": Pod(shape="s")},  # type: ignore[dict-item]
    )
    (group,) = groups_of(state)
    assert [(node.name, node.pods, node.part, node.trouble) for node in group.nodes] == [
        ("a", 1, {"cpu": 0.25, "memory": 0.5}, ""),
        ("b", 0, {"cpu": 0.0, "memory": 0.0}, "not ready"),
    ]
    assert group.nodes[0].fill == 0.5
    assert group.fills == {"cpu": 0.125, "memory": 0.25}
    assert group.target == 3


async def test_shards_show_who_owns_what(browser: Browser) -> None:
    page = await browser.get("/shards?at=seq:3000")
    source = ExportedLog(ExportFile(LOG))
    moment = await moment_of(source, "seq:3000")
    fold = await restored(source, Asked.about(source, BY_NAME["shard-manager"], "team-0"), moment.seq)
    document = fold.state.sets["team-0/shards"].document
    for member, record in document.members.items():
        owned = document.owned_by(member)
        assert (
            f"{record.name} {record.incarnation[:12]} {record.state.value} {record.weight} {len(owned)}"
            in page.words
        )
    assert (
        f"{len(document.slots)} slots, {len(document.members)} members, revision {document.revision}"
        in page.words
    )


def test_moves_under_way_are_told_together() -> None:
    draining = SlotRecord(SlotState.DRAINING, "a#1", 4, "b#2", since=1000.0)
    document = Document(
        slots=[SlotRecord(SlotState.OWNED, "a#1", 4), draining, draining, SlotRecord()],
        members={"a#1": MemberRecord("a", "1"), "b#2": MemberRecord("b", "2")},
        moving=[1, 2],
    )
    assert [(move.slots, move.source, move.target, move.state) for move in moves_of(document)] == [
        ("1-2", "a", "b", "Draining")
    ]
    found = shown(Reference("shardset", "ns", "s"), document)
    assert found.unowned == "3"
    assert "slots 1 to 2: a, epoch 4, goes to b" in found.drawing
    assert found.drawing.count('class="slot free"') == 2  # drawn wide and narrow


async def test_trust_shows_how_far_each_service_is(browser: Browser) -> None:
    page = await browser.get("/trust?at=seq:3000")
    behind = {name: int(n) for name, n in re.findall(r'data-behind="([a-z-]+)">(\d+)<', page.text)}
    assert set(behind) == {"autoscaler", "provisioning", "spread", "shard-manager", "actuator"}
    assert all(0 <= n < 3000 for n in behind.values())
    assert re.search(r'data-behind="watcher">\u2013</td><td>2026-02-02 \d\d:\d\d:\d\d</td>', page.text)
    assert "This console does not verify" in page.words


@dataclass
class Told(Verifying):
    """Verification of which each run is seen."""

    runs: list[int] = field(default_factory=list)

    async def verified_once(self) -> None:
        await self._once()
        self.runs.append(self.latest.up_to if self.latest else 0)

    async def resumed(self) -> float:
        return await self._resumed()


VERIFIED = LogVerification(
    log="log", verified=True, messages=3, authenticated=Authenticated(keys=0, vouched=False, history=0, commits=0, messages=0, unknown=0),
    services=("spread",), events=2, decisions=1, checkpoints=1, undecided=0, set_aside=0, written_by={}, differences=0, first=(),
)  # fmt: skip


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test alone keeps what was verified."""
    monkeypatch.setattr(fold_files, "folder", lambda: tmp_path / "folds")
    return tmp_path / "folds"


def kept_in(where: Path) -> list[Path]:
    return sorted(where.iterdir())


def answering(answer: LogVerification, source: ExportedLog | None = None) -> Told:
    """Verification whose child answers that."""
    said = f"print({msgspec.json.encode(answer).decode()!r})"
    return Told(source or ExportedLog(ExportFile(LOG)), (sys.executable, "-c", said))


async def test_verification_goes_on_where_the_console_before_was() -> None:
    first = answering(VERIFIED)
    await first.verified_once()
    later = Told(ExportedLog(ExportFile(LOG)), ("no-such-command",))
    assert await later.resumed() > LEAST_PAUSE_S / 2  # the next run is due when it would have been
    assert (later.latest, later.failure, later.earlier) == (first.latest, None, True)
    await later.verified_once()  # nothing came since: no child is started


async def test_differences_that_were_found_before_are_told_of_after_a_start(where: Path) -> None:
    wrong = answering(msgspec.structs.replace(VERIFIED, differences=1, verified=False))
    await wrong.verified_once()
    later = Told(ExportedLog(ExportFile(LOG)), ("no-such-command",))
    await later.resumed()
    assert later.failure == wrong.latest
    assert len(kept_in(where)) == 1


async def test_a_longer_log_is_verified_again_and_one_answer_is_kept_of_it(where: Path) -> None:
    short = _Shorter(ExportFile(LOG))
    await answering(VERIFIED, short).verified_once()
    later = answering(VERIFIED)
    await later.resumed()
    assert later.latest is not None
    assert later.latest.up_to == 900
    await later.verified_once()
    assert later.latest.up_to == 4314
    assert not later.earlier
    assert len(kept_in(where)) == 1


class _Shorter(ExportedLog):
    """The log as it was before the rest of it came."""

    async def bounds(self) -> tuple[int, int]:
        return 1, 900

    async def tail(self, count: int) -> list[Record]:
        return [record async for record in self.records() if record.seq <= 900][-count:]


class _Another(ExportedLog):
    """A log that has another message where the other log had its last ones."""

    async def at(self, seq: int) -> Record | None:
        record = await super().at(seq)
        return None if record is None else msgspec.structs.replace(record, body=record.body + b" ")


@pytest.mark.parametrize("other", ["log", "code", "day", "clock", "file"])
async def test_what_was_verified_of_something_else_is_ignored(
    where: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    await answering(VERIFIED).verified_once()
    (file,) = kept_in(where)
    if other == "code":
        monkeypatch.setattr("tidewright.console.verifying.software_in", lambda _: "0.1.0+another")
    elif other in ("day", "clock"):
        moved = time.time() + (90_000 if other == "day" else -60)
        monkeypatch.setattr("tidewright.console.verifying.time.time", lambda: moved)
    elif other == "file":
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    later = Told((_Another if other == "log" else ExportedLog)(ExportFile(LOG)))
    assert await later.resumed() == 0
    assert (later.latest, later.failure, later.earlier) == (None, None, False)
    assert file.exists() == (other == "code")  # of another code: that one may come back


async def test_verification_in_a_child_says_how_far_it_came() -> None:
    answer = VERIFIED
    said = (
        f"import os; print({msgspec.json.encode(answer).decode()!r} if os.nice(0) == 19 else 'not at lowest')"
    )
    verifying = Told(ExportedLog(ExportFile(LOG)), (sys.executable, "-c", said))
    await verifying.verified_once()
    assert verifying.latest is not None
    assert (verifying.latest.up_to, verifying.latest.answer, verifying.failure) == (4314, answer, None)
    first = verifying.latest
    await verifying.verified_once()
    assert verifying.latest is first  # nothing came since
    differing = msgspec.json.encode(msgspec.structs.replace(answer, differences=1, verified=False)).decode()
    wrong = Told(ExportedLog(ExportFile(LOG)), (sys.executable, "-c", f"print({differing!r})"))
    await wrong.verified_once()
    assert wrong.failure is wrong.latest


async def test_verification_that_comes_to_nothing_says_why() -> None:
    from tidewright.asking.errors import CommandError

    verifying = Told(
        ExportedLog(ExportFile(LOG)), (sys.executable, "-c", "raise SystemExit('no such thing')")
    )
    with pytest.raises(CommandError, match="no such thing"):
        await verifying.verified_once()


async def test_a_verification_that_made_room_is_no_failure_and_waits_its_turn() -> None:
    turns = Turns()
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    verifying = Told(ExportedLog(ExportFile(LOG)), command, dict(os.environ), turns)
    running = asyncio.create_task(verifying.verified_once())

    async def works() -> bool:
        return turns.is_working

    await until(works, bool)
    with turns.waited_for():
        await asyncio.wait_for(running, 60)
        assert (verifying.problem, verifying.latest) == ("", None)
        waiting = asyncio.create_task(turns.free())
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 60)


async def test_verification_goes_on_where_no_process_could_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewright.console.verifying.FIRST_S", 0.0)
    verifying = Verifying(ExportedLog(ExportFile(LOG)), (sys.executable,), {"PATH": "/nowhere"})
    running = asyncio.create_task(verifying.run())

    async def problem() -> str:
        return "it has ended" if running.done() else verifying.problem

    assert "nice" in await until(problem, bool)
    running.cancel()


async def test_what_if_shows_the_backtest_of_the_tried_policy(
    browser: Browser, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = await browser.get(f"{SCALED}&high0=20&tolerance=0.2")
    assert page.status == 200, page.words
    applied = html.unescape(re.search(r"To have it so</h2><pre[^>]*>(.*?)</pre>", page.text, re.DOTALL)[1])  # type: ignore[index]
    manifest = tmp_path / "tried.yaml"
    manifest.write_text(applied)
    assert "highWatermark: '20'" in applied
    capsys.readouterr()
    from tidewright.cli import main

    words = ["backtest", "wpa", "-f", str(manifest), "--log", str(LOG), "-o", "json"]
    assert await asyncio.to_thread(main.run, words) == 0
    import json

    figures = json.loads(capsys.readouterr().out)["policies"][0]["figures"]
    told = dict(re.findall(r'data-figure="([^"]+)">([^<]+)<', page.text))
    assert told["Scales to more"] == str(figures["scaleUps"])
    assert told["Scales to less"] == str(figures["scaleDowns"])
    assert told["Replica-hours"] == f"{figures['replicaHours']:,.4g}"
    assert told["Most replicas"] == str(figures["mostReplicas"])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("&high0=much", "high0=much: a number"),
        ("&high0=1", "atermark"),
        ("&tolerance=-1", "tolerance=-1: a number"),
        ("&min=1e9&max=1e9", "min=1e9: replicas up to 10000"),
        ("&max=10001", "max=10001: replicas up to 10000"),
    ],
)
async def test_what_an_autoscaler_cannot_have_is_refused(browser: Browser, query: str, said: str) -> None:
    answer = await browser.get(SCALED + query)
    assert answer.status == 400
    assert said in answer.words


async def test_what_holds_an_object_is_shown_until_its_end_also_where_nothing_was_said_since(
    tmp_path: Path,
) -> None:
    source = ExportedLog(ExportFile(booked_log(tmp_path)))
    lists, before = Lists(source), await moment_of(source, "seq:109")
    later = msgspec.structs.replace(before, at=before.at + 600)

    async def held(moment: Moment) -> list[str]:
        return [row.name for row in (await lists.of("provisioningrequest", moment)).items() if row.held_until]

    assert [await held(moment) for moment in (before, later, before)] == [["nightly"], [], ["nightly"]]


async def test_what_takes_a_fold_is_made_once() -> None:
    kept, made = Kept(ExportedLog(ExportFile(LOG))), list[int]()
    source = ExportedLog(ExportFile(LOG))

    async def make() -> int:
        made.append(1)
        return len(made)

    then = await moment_of(source, "seq:300")
    assert await kept.of("one", then, make) == (1, 300)
    assert await kept.of("one", then, make) == (1, 300)
    assert await kept.of("another", then, make) == (2, 300)


async def test_what_was_made_under_ever_other_names_is_forgotten() -> None:
    """What is tried of an autoscaler is in its name, and a slider has no end of values."""
    kept = Kept(ExportedLog(ExportFile(LOG)))
    now = await moment_of(ExportedLog(ExportFile(LOG)), "")
    assert now.end

    async def make() -> bytes:
        return b"a report"

    for tried in range(200):
        await kept.of(f"what-if/ns/web/{tried}", now, make)
    assert max(len(held) for held in vars(kept).values() if isinstance(held, dict)) < 20


async def test_searches_that_move_with_the_end_of_the_log_hold_few_records() -> None:
    backwards = Backwards(ExportedLog(ExportFile(LOG)))
    for up_to in range(1000, 1050):
        scan = await backwards.scan(
            ("events",), [backwards._source.subjects.everything], lambda _: True,
            up_to=up_to, since=0.0, enough=8_000, most=8_000,
        )  # fmt: skip
        assert len(scan.found) > 500
    assert sum(len(scan.found) for scan in backwards._kept.values()) <= KEPT_RECORDS


class _Aged(ExportedLog):
    """A log whose beginning is gone, as with a max age."""

    async def bounds(self) -> tuple[int, int]:
        return 900, (await super().bounds())[1]


@pytest.mark.parametrize(
    ("since", "told"),
    [
        ("3650d", "2016-"),
        ("99999d", "1970-01-01T00:00:00.000Z"),
        ("9999-12-31", "2026-"),
        ("seq:2000", "2026-"),
    ],
)
async def test_a_comparison_since_any_time_is_of_what_there_is(since: str, told: str) -> None:
    console = await serve(_Aged(ExportFile(LOG)))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        browser = await Browser(console, session).enter()
        page = await browser.get(f"/api/v1/compare?namespace=team-0&since={since}")
    await console.stop()
    assert page.status == 200, page.text
    answer = msgspec.json.decode(page.text, type=ComparisonList)
    assert answer.since.startswith(told)
    assert answer.since <= answer.at


class _Stopping(ExportedLog):
    """A log that ends elsewhere, and stops to answer once on the way."""

    ending, stops = 900, 0

    async def bounds(self) -> tuple[int, int]:
        return 1, self.ending

    async def records(
        self, pattern: str = "", after: int = 0, ahead: int = 0
    ) -> AsyncGenerator[Record, None]:
        async for record in super().records(pattern, after, ahead):
            if record.seq == self.stops:
                raise Unavailable("nobody answers")
            yield record


@pytest.mark.parametrize("kind", ["watermarkpodautoscaler", "nodegroup"])
async def test_what_was_taken_in_before_the_log_stopped_to_answer_is_shown(kind: str) -> None:
    shown = []
    for stops in (0, 3000):
        source = _Stopping(ExportFile(LOG))
        first = await moment_of(source, "seq:900")
        lists = Lists(source)
        await lists.of(kind, msgspec.structs.replace(first, end=True))
        source.ending, source.stops = 4314, stops
        now = msgspec.structs.replace(await moment_of(source, "seq:4314"), end=True)
        if stops:
            with pytest.raises(Unavailable):
                await lists.of(kind, now)
            source.stops = 0
        shown.append((await lists.of(kind, now)).items())
    assert shown[0] == shown[1] != ()
