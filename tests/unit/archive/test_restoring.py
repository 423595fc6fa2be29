"""A log comes back from its archive: each message where it was, each timer set, and nothing in between that is taken for a log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.archive.test_archiver import asked, everything_sealed, verified
from tests.unit.archive.world import LOG, archive, recorded, seal_all, stretches
from tests.unit.log.authenticated import Authority
from tests.unit.log.test_signed import S1, commit
from tidewright.archive.errors import BadArchive
from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.reading import checked
from tidewright.archive.store import FolderStore
from tidewright.archiver.service import Archiver
from tidewright.asking import restoring
from tidewright.asking.archived import same_log
from tidewright.asking.errors import BadInput, CommandError
from tidewright.asking.exports import erases, rolls_up
from tidewright.asking.restoring import LEAST_SKIPPED, Pending, Target, likely_lost, restored
from tidewright.asking.running_log import RunningLog
from tidewright.events import registry
from tidewright.events.config import ClockSet
from tidewright.events.decisions import CancelTimer, SetTimer
from tidewright.events.timers import TimerFired
from tidewright.log import keyfiles
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import SCHEDULE
from tidewright.log.errors import LogUnavailable, Unsound, WrongStream
from tidewright.log.install import RESTORING
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot, Subjects

SKIP = 100
TOLD = ("services", "decisions", "checkpoints", "differences", "first", "writtenBy")


@pytest.fixture(autouse=True)
def nobody_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nobody has to notice."""
    monkeypatch.setattr(restoring, "NOTICED_S", 0.0)


async def stored(log: Log) -> dict[int, tuple[str, bytes]]:
    async with log.reader([log.subjects.everything], believing=False) as reader:
        return {record.seq: (record.subject, record.body) async for record in reader.until_current()}


async def test_a_log_comes_back_with_its_sequences_and_timers_and_goes_on(
    nats: EmbeddedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = await archive(tmp_path / "archive", tmp_path / "key")
    where = ["--archive", str(tmp_path / "archive"), "--cluster", "chaos", "--nats", nats.url]
    assert (
        await asked("restore", *where, "--archive-key", str(tmp_path / "key.pub"), "--skip", str(SKIP)) == 0
    )
    said, warned = capsys.readouterr()
    assert "erased" not in warned
    assert "Now `tidewright install` as ever" in said
    subjects, records = Subjects("chaos"), recorded()[1]
    kept = [r for r in records if SCHEDULE not in r.headers and not rolls_up(r)]
    last, pending = records[-1].seq, Pending(subjects)
    for record in records:
        pending.take(record)
    assert (
        f"{len(kept)} messages of cluster chaos put back, sequences 1 to {last}; {len(pending.due)} timers set"
        in said
    )
    assert pending.due
    async with await Log.connect(nats.url, "chaos", timeout_s=10.0) as log:
        assert await log.adopt_slots() == recorded()[0].slots
        now = await stored(log)
        assert {seq: of for seq, of in now.items() if seq <= last} == {
            r.seq: (r.subject, r.body) for r in kept
        }
        after = {seq: of for seq, of in now.items() if seq > last}
        assert min(after) > last + SKIP
        # Each was set, and fires, as all are overdue: the schedules are gone then.
        async with asyncio.timeout(90):
            fired: set[str] = set()
            while len(fired) < len(pending.due):
                fired = {s for seq, (s, _) in (await stored(log)).items() if seq > last and ".timer." in s}
                await asyncio.sleep(0.05)
        assert fired == {subjects.timer(Slot(slot), service, key) for service, slot, key in pending.due}
        # Not twice: there is a log now.
        assert await asked("restore", *where) == 2
        assert "a log is put back where there is none" in capsys.readouterr().err
        log.directly = True
        sealing = await everything_sealed(
            Archiver(RunningLog(log), store, ArchiverKeys(tmp_path / "key"), 0.001)
        )
        assert sealing.last > last + SKIP
    # The recorded log is of software of before, and is told the same of as ever.
    before, after_all = await verified(capsys, "--log", str(LOG)), await verified(capsys, *where)
    assert [after_all[key] for key in TOLD] == [before[key] for key in TOLD]


async def test_an_import_takes_no_schedule_for_a_message_that_erased_the_log(
    nats: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert any(rolls_up(record) for record in recorded()[1])
    assert await asked("import", str(LOG), "--cluster", "chaos", "--nats", nats.url) == 0
    said = capsys.readouterr().err
    assert "imported" in said
    assert "erased" not in said


@pytest.mark.parametrize(
    ("subject", "value", "erases_it"),
    [
        ("tw.chaos.schedule.3.autoscaler.a", "sub", False),
        ("tw.chaos.schedule.3.autoscaler.a", "all", True),
        ("tw.chaos.fact.3.pod.shop.a", "sub", True),
        ("tw.chaos.fact.3.pod.shop.a", None, False),
    ],
)
def test_a_schedule_alone_may_replace_what_was_on_its_subject(
    subject: str, value: str | None, erases_it: bool
) -> None:
    headers = {} if value is None else {"Nats-Rollup": value}
    record = msgspec.structs.replace(recorded()[1][0], subject=subject, headers=headers)
    assert erases(Subjects("chaos"), record) is erases_it


async def test_what_was_begun_and_not_finished_is_no_log_and_is_begun_anew(
    nats: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await archive(tmp_path / "archive", tmp_path / "key")
    segments = await checked(store, tmp_path)
    put, left = restoring._Putting._put, 2500

    async def killed(self: Any, record: Record) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise ConnectionError("killed")
        await put(self, record)

    monkeypatch.setattr(restoring._Putting, "_put", killed)
    async with await Log.connect(nats.url, "chaos", timeout_s=10.0) as log:
        with pytest.raises(ConnectionError):
            await restored(log, segments, Target(1, 0.0, SKIP))
        assert (await log.bounds())[1] > 0
        assert RESTORING in ((await log.settings(log.stream)) or {})["metadata"]
        with pytest.raises(WrongStream, match="run `tidewright install` first"):
            await log.adopt_slots()
        with pytest.raises(BadArchive, match="is being put back"):
            await same_log(RunningLog(log), segments.heads[-1])
        assert await asked("install", "--cluster", "chaos", "--nats", nats.url, "--cluster-id", "none") == 2
        monkeypatch.setattr(restoring._Putting, "_put", put)
        found = await restored(log, segments, Target(1, 3600.0, SKIP))
        await log.adopt_slots()
        assert log.max_age_s == 3600.0
        assert found.records == sum(not rolls_up(r) and SCHEDULE not in r.headers for r in recorded()[1])
        assert RESTORING not in ((await log.settings(log.stream)) or {})["metadata"]


async def test_no_service_writes_to_what_is_put_back_and_a_second_restore_is_noticed(
    nats: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = await checked(await archive(tmp_path / "archive", tmp_path / "key"), tmp_path)
    flush = restoring._Putting._flush

    async def beside(self: Any) -> None:
        if self._at > 2000:
            subject = self._log.subjects.config("x")
            with pytest.raises(LogUnavailable):  # of a service that runs on
                await self._log.append(Message(subject, b"{}"))
            await self._log.append(Message(f"{restoring.BESIDE}.{subject}", b"{}"))
        await flush(self)

    monkeypatch.setattr(restoring._Putting, "_flush", beside)
    async with await Log.connect(nats.url, "chaos", timeout_s=10.0) as log:
        with pytest.raises(CommandError, match="somebody else writes to it"):
            await restored(log, segments, Target(1, 0.0))


async def test_who_has_read_the_log_before_notices_one_that_was_put_back(
    log: Log, nats: EmbeddedServer, tmp_path: Path
) -> None:
    for n in range(3):
        await log.commit([Message(log.subjects.config(f"c{n}"), b"1")])
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as reading:
        await reading.continuity.check()
        log.directly = True
        sealing = Archiver(
            RunningLog(log), FolderStore(tmp_path / "test"), ArchiverKeys(tmp_path / "key"), 0.001
        )
        await everything_sealed(sealing)
        with pytest.raises(BadInput, match="holds 3 messages"):
            await restored(log, await checked(FolderStore(tmp_path / "test"), tmp_path), Target(1, 0.0))
        await log.api(f"STREAM.DELETE.{log.stream}", {})
        await restored(log, await checked(FolderStore(tmp_path / "test"), tmp_path), Target(1, 0.0, 5))
        reading.continuity._looked_at = float("-inf")
        with pytest.raises(Unsound, match="was made anew"):
            await reading.continuity.check()
        # The archiver does not mind: it is the same log.
        await log.commit([Message(log.subjects.config("more"), b"1")])
        assert (await everything_sealed(sealing)).last == 3 + 5 + 1


async def test_signatures_are_good_in_a_log_that_was_put_back(
    log: Log, nats: EmbeddedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path)
    await authority.install(log)
    (tmp_path / "root.pub").write_bytes(keyfiles.public_pem(authority.root.public_key()))
    async with await authority.connect(nats.url, "autoscaler") as own:
        first = await own.commit(commit(own, b"one", 0))
        await log.commit(
            [Message(log.subjects.decision(S1, "autoscaler", "deployment", "shop", "web"), b"forged")]
        )
        await own.commit(commit(own, b"two", first.last_seq))
    signed = ["--trust", str(tmp_path / "root.pub"), "--cluster", "test", "--nats", nats.url]
    before = await verified(capsys, *signed)
    log.directly = True
    store = FolderStore(tmp_path / "archive" / "test")
    await everything_sealed(Archiver(RunningLog(log), store, ArchiverKeys(tmp_path / "key"), 0.001))
    await log.api(f"STREAM.DELETE.{log.stream}", {})
    found = await restored(log, await checked(store, tmp_path), Target(1, 0.0, 5))
    assert found.unsigned == 0
    assert before["authenticated"]["commits"] == 2
    assert await verified(capsys, *signed) == before


async def test_behind_a_hole_a_log_begins_with_the_segment_that_has_the_states(
    nats: EmbeddedServer, tmp_path: Path
) -> None:
    store, cut = FolderStore(tmp_path / "chaos"), stretches()
    await seal_all(store, tmp_path / "key", [cut[0], cut[2], cut[3]])
    async with await Log.connect(nats.url, "chaos", timeout_s=10.0) as log:
        found = await restored(log, await checked(store, tmp_path), Target(1, 0.0, 0))
        assert (found.first, found.last) == (cut[2].manifest.first_seq, cut[3].records[-1].seq)
        assert min(await stored(log)) == found.first


def test_timers_are_folded_of_what_was_decided_and_what_fired() -> None:
    subjects, slot = Subjects("t"), Slot("3")
    pending = Pending(subjects)
    seq = 0

    def take(subject: str, event: Any, **headers: str) -> None:
        nonlocal seq
        seq += 1
        pending.take(Record(seq, subject, registry.encode(event), headers))

    def decided(event: Any) -> None:
        take(subjects.decision(slot, "spread", "timer", "", event.key), event)

    def a_timer(key: str, due: float, **more: Any) -> SetTimer:
        return SetTimer(id="x", at=1.0, key=key, due=due, **more)

    for key in ("fires", "late", "cancelled", "again", "stays"):
        decided(a_timer(key, 10.0))
    take(subjects.timer(slot, "spread", "fires"), TimerFired(at=10.0, key="fires"))
    decided(CancelTimer(id="x", at=2.0, key="cancelled"))
    decided(a_timer("again", 20.0))
    take(subjects.timer(slot, "spread", "again"), TimerFired(at=10.0, key="again"))
    decided(a_timer("shadow", 5.0, shadow=True))
    forged = a_timer("forged", 5.0)
    record = Record(
        99,
        subjects.decision(slot, "spread", "timer", "", "forged"),
        registry.encode(forged),
        {"Nats-Stream": "x"},
    )
    pending.take(record)
    assert pending.due == {
        ("spread", "3", key): due for key, due in (("late", 10.0), ("again", 20.0), ("stays", 10.0))
    }
    take(subjects.config("clock"), ClockSet(at=1.0, wall=1000.0, log=0.0, speed=2.0))
    first, *_, last = pending.schedules(None)
    assert first.subject == subjects.schedule(slot, "spread", "late")
    assert (last.headers or {})["Nats-Schedule"] == "@at 1970-01-01T00:16:50.000000Z"
    [step, *_] = pending.schedules(1001.0)
    assert b"timer.stepped" in step.body


async def test_as_many_sequences_are_left_unused_as_may_have_been_lost(tmp_path: Path) -> None:
    segments = await checked(await archive(tmp_path / "archive", tmp_path / "key"), tmp_path)
    last = segments.heads[-1]
    assert likely_lost(segments, last.sealed_at) == LEAST_SKIPPED
    per_s = (last.last - segments.heads[0].last) / (last.sealed_at - segments.heads[0].sealed_at)
    assert likely_lost(segments, last.sealed_at + 50_000 / per_s) == pytest.approx(100_000, rel=0.01)
    with pytest.raises(BadInput, match=r"sealed 277,777\.8 hours ago.*beyond 1,000,000 say with --skip"):
        likely_lost(segments, last.sealed_at + 1e9)
