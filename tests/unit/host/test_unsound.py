"""What cannot be gone on from is not gone on from: unreadable and impossible checkpoints, garbage, logs that were wiped."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import msgspec
import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.host.test_halts import halts_on, why_halted
from tests.unit.host.test_host import NAMESPACES, expect_holds, holds, hosting, pod, until_recorded
from tests.unit.host.test_verify import verified
from tests.waiting import until
from tidewright.host.loop.fenced import InFlight, Part, Position, mind
from tidewright.log import checkpoint as checkpoints
from tidewright.log import continuity, errors
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL

BAD = {
    "is not readable": b'{"type":"checkpoint.v1","position":',
    "says that everything up to 1000000000 is done": checkpoints.encode(
        checkpoints.Checkpoint(at=1.0, position=10**9, epoch=7, incarnation="x", commit=1)
    ),
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuity, "CHECK_S", 0.05)
    monkeypatch.setattr(continuity, "DOUBT_S", 0.2)
    monkeypatch.setattr("tidewright.host.loop.fenced.HALTED_S", 0.05)
    monkeypatch.setattr("tidewright.host.loop.host.DOUBT_S", 0.05)


def plain(record: Record) -> Message:
    """A message once more, without what the server took from its first time."""
    return Message(record.subject, record.body)


async def say(log: Log, *messages: Message) -> None:
    """Append as somebody else would."""
    for message in messages:
        await log.client.request(message.subject, message.body, timeout=60)


async def purged(log: Log) -> None:
    await log.api(f"STREAM.PURGE.{log.stream}", {})


async def rolled_up(log: Log) -> None:
    subject = log.subjects.config("anything")
    await log.client.request(subject, b"{}", timeout=60, headers={"Nats-Rollup": "all"})


async def made_anew(log: Log) -> None:
    await log.api(f"STREAM.DELETE.{log.stream}", {})
    await log.ensure(slots=8)


async def put_back(log: Log) -> None:
    """An older copy: the same stream as far as anybody can tell, with less on it. (It is of a later `created`.)"""
    records = [r async for r in log.reader([log.subjects.everything]).until_current()]
    await log.api(f"STREAM.DELETE.{log.stream}", {})
    await log.ensure(slots=8)
    await say(log, *(plain(record) for record in records[: len(records) // 2]))


# -- deciders ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "body"), BAD.items())
async def test_a_slot_whose_checkpoint_cannot_be_gone_on_from_is_not_decided_for(
    log: Log, words: str, body: bytes
) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
    async with hosting(log):
        await expect_holds(log, 1)
    slot = log.slot_of("shop")
    subject = log.subjects.checkpoint(slot, "counting")
    good = await log.last(subject)
    assert good is not None
    bad = await log.commit([Message(subject, body)])
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3, 6)])
    async with hosting(log) as host:
        others = [n for n in NAMESPACES if log.slot_of(n) != slot]
        assert others
        await until(lambda: len(host.owned) == log.slots - 1)
        for one in others:
            await _holds(log, one, 2)
        assert "slot" in host.health.not_ready
        assert words in host.health.not_ready
        assert f"{subject} at sequence {bad.last_seq}" in host.health.not_ready
        assert len((await holds(log))["shop"]) == 1
        last = await log.last(subject)
        assert last is not None
        assert last.seq == bad.last_seq  # nobody has claimed it

        await log.commit([plain(good)])  # as the error says
        await expect_holds(log, 2)
        await until(lambda: host.health.not_ready == "")


@pytest.mark.parametrize("body", BAD.values())
async def test_a_checkpoint_forged_under_a_running_decider_stops_its_slot(log: Log, body: bytes) -> None:
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        slot = log.slot_of("shop")
        await log.commit([Message(log.subjects.checkpoint(slot, "counting"), body)])
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
        await until_recorded(log, next(n for n in NAMESPACES if log.slot_of(n) != slot))
        await until(lambda: "nothing is acted on" in host.health.not_ready)
        assert slot not in host.owned
        assert "shop" not in await holds(log)


@pytest.mark.parametrize("done", [purged, rolled_up, made_anew, put_back])
async def test_a_log_that_is_another_than_before_stops_a_running_decider(log: Log, done: Any) -> None:
    async with hosting(log) as host:
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
        await expect_holds(log, 1)
        await until(lambda: log.continuity.begun)
        await done(log)
        await until(lambda: bool(host.health.halted))
        assert "Nothing is acted on" in host.health.halted
        assert not host.owned
        first, last = await log.bounds()
        await say(log, *(pod(log, n, i) for n in NAMESPACES for i in range(3, 9)))
        await asyncio.sleep(0.5)
        async with log.reader([log.subjects.everything], after=last) as reader:
            subjects = [r.subject async for r in reader.until_current()]
        assert {s.split(".")[2] for s in subjects} == {"fact"}, (first, last)


@pytest.mark.parametrize("done", [purged, rolled_up])
async def test_nobody_starts_anew_on_a_log_that_lost_its_beginning(log: Log, done: Any) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
    async with hosting(log):
        await expect_holds(log, 1)
    await done(log)
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
    async with hosting(log) as host:
        await until(lambda: "removed from a log" in host.health.halted)
        assert not await holds(log)


async def test_a_log_with_a_maximum_age_may_have_lost_its_beginning(log: Log) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
    await log.ensure(slots=8, max_age_s=1000.0)
    await log.ensure(slots=8)
    await purged(log)  # as if by age
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
    async with hosting(log):
        await expect_holds(log, 1)


async def test_a_young_message_that_is_gone_is_noticed_on_a_log_that_forgets_the_old_ones() -> None:
    wall, found = 0.0, continuity.Extent("t", 1, 10, 100.0, ever_aged=True)

    async def ask() -> continuity.Extent:
        return found

    known = continuity.Continuity("s", ask, lambda: wall, lambda: wall)
    await known.check()
    wall, found = 50.0, _extent(1, 20)
    await known.check()
    wall, found = 60.0, _extent(15, 20)  # of the ten that came before nothing is known
    await known.check()
    wall, found = 80.0, _extent(21, 20)
    with pytest.raises(errors.Unsound, match="message 20, younger than 100 s, was removed"):
        await known.check()
    wall, found = 200.0, _extent(21, 20)
    await known.check()


def _extent(first: int, last: int) -> continuity.Extent:
    return continuity.Extent("t", first, last, 100.0, ever_aged=True)


async def test_what_a_former_leader_may_say_is_not_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuity, "DOUBT_S", 15.0)
    now, found = 0.0, _extent(1, 20)

    async def ask() -> continuity.Extent:
        return found

    known = continuity.Continuity("s", ask, lambda: now, lambda: now)
    await known.check()
    for moment, last in ((10.0, 18), (20.0, 18), (21.0, 20), (30.0, 19), (44.0, 19)):
        now, found = moment, _extent(1, last)
        if last < 20:
            with pytest.raises(errors.LogUnavailable, match="looking again"):
                await known.check()
        else:
            await known.check()
    now = 45.0
    with pytest.raises(errors.Unsound, match="put back to an earlier state"):
        await known.check()


# -- garbage -------------------------------------------------------------------------------------


async def test_garbage_on_facts_is_set_aside_alike_by_who_runs_restarts_and_verifies(log: Log) -> None:
    slot = log.slot_of("shop")
    garbage = (
        b"",
        b"\xff\xfe",
        b'{"type":"fact.pod-observed.v1","at":"no"}',
        b'{"type":"fact.pod-observed.v1","labels":' + b"[" * 5000,
    )

    later = time.time() + 3600.0  # no timer fires meanwhile, and is folded besides

    async def said(start: int) -> int:
        """The sequence of the last of it."""
        last = 0
        for n, body in enumerate(garbage):
            where = log.subjects.fact(
                ALL if n % 2 else slot, "pod", "shop" if n % 2 == 0 else "", f"x{start}"
            )
            await log.commit([Message(where, body)])
            await log.commit([Message(log.subjects.config(f"c{start}"), body)])
            last = (await log.commit([pod(log, name, start + n, at=later) for name in NAMESPACES])).last_seq
        return last

    await said(0)
    async with hosting(log) as host:
        end = await said(4)
        await expect_holds(log, 2)  # which come before the last of it
        await until(lambda: len(host.owned) == log.slots and all(o.read >= end for o in host.owned.values()))
        assert not [o.halted for o in host.owned.values() if o.halted]
        assert host.health.not_ready == ""
        aside = host.health.metrics.set_aside._value.get()
        before = {s: (o.fold.digest, o.fold.chain) for s, o in host.owned.items()}
    assert aside == 16
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        assert {s: (o.fold.digest, o.fold.chain) for s, o in host.owned.items()} == before
        await said(8)
        await expect_holds(log, 4)
    report = verified(log, [r async for r in log.reader([log.subjects.everything]).until_current()])
    assert (report.count, report.differences) == (0, [])
    assert report.aside == 24


@pytest.mark.parametrize("wrong", [re.compile(b"^.*$"), re.compile(rb'(?<="id":")[^"]*')], ids=["text", "id"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_decision_that_is_none_stops_a_slot_only_where_one_was(
    nats: EmbeddedServer, log: Log, replaced: bool, wrong: re.Pattern[bytes]
) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(6)])
    async with hosting(log):
        await expect_holds(log, 2)
    slot = log.slot_of("shop")
    decision = log.subjects.decision(slot, "counting", "namespace", "shop", "all")
    records = [r async for r in log.reader([log.subjects.everything]).until_current()]
    places = [i for i, r in enumerate(records) if f".decision.{slot}." in r.subject]
    await log.api(f"STREAM.DELETE.{log.stream}", {})
    await log.ensure(slots=8)
    for i, record in enumerate(records):
        if i == places[-1] and not replaced:
            await log.commit([Message(decision, wrong.sub(b"?", record.body))])
        body = wrong.sub(b"?", record.body) if i == places[-1] and replaced else record.body
        await log.commit([Message(record.subject, body)])
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as other:
        await other.adopt_slots()
        async with hosting(other) as host:
            await until(lambda: len(host.owned) == log.slots)
            halted = {s: o.halted for s, o in host.owned.items() if o.halted}
            if replaced:
                (told,) = await until(lambda: halts_on(log), bool)
                assert (told.slot, told.reason) == (slot, "DecisionUnreadable")
                assert "stands where one was" in await why_halted(log, slot)
            else:
                assert not await halts_on(log)
    if replaced:
        assert "stands where one was" in halted[slot]
    assert set(halted) == ({slot} if replaced else set())


# -- parts ---------------------------------------------------------------------------------------


class At(Position, frozen=True, kw_only=True, tag="checkpoint.at.v1"):
    position: int = 0


class Kept:
    """A part that is kept, and what became of it."""

    def __init__(self, log: Log) -> None:
        self.in_flight = InFlight()
        self.subject = log.subjects.checkpoint(ALL, "actuator")
        self.part: Part[At] = Part(log, Writer("actuator"), self.subject, At, self.in_flight)
        self.owned: list[At] = []
        self.tasks = [
            asyncio.create_task(self.part.keep(self._own)),
            asyncio.create_task(mind(log.continuity, self.in_flight)),
        ]

    async def _own(self) -> None:
        self.owned.append(await self.part.claim())
        while True:
            await self.part.confirm()
            await asyncio.sleep(0.02)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


BAD_PARTS = {
    "is not readable": b"\x00",
    "up to 1000000000 is done": msgspec.json.encode(At(at=1.0, epoch=3, incarnation="x", position=10**9)),
}


@pytest.mark.parametrize(("words", "body"), BAD_PARTS.items())
@pytest.mark.parametrize("running", [False, True])
async def test_a_part_whose_checkpoint_cannot_be_gone_on_from_halts(
    log: Log, words: str, body: bytes, running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewright.host.loop.fenced.ABSENT_S", 0.1)
    subject = log.subjects.checkpoint(ALL, "actuator")
    at = 0
    if not running:
        at = (await log.commit([Message(subject, body)])).last_seq
    kept = Kept(log)
    try:
        if running:
            await until(lambda: bool(kept.owned))
            at = (await log.commit([Message(subject, body)])).last_seq
        await until(lambda: bool(kept.in_flight.why))
        assert words in kept.in_flight.why
        assert f"{subject} at sequence {at}" in kept.in_flight.why
        await asyncio.sleep(0.3)
        last = await log.last(subject)
        assert last is not None
        assert last.seq == at
        assert len(kept.owned) == running

        good = msgspec.json.encode(At(at=1.0, epoch=4, incarnation="y", position=1 if running else 0))
        await log.commit([Message(subject, good)])
        await until(lambda: len(kept.owned) == 1 + running)
        assert kept.owned[-1].epoch == 4
        assert kept.in_flight.why == ""
    finally:
        await kept.end()


@pytest.mark.parametrize("done", [purged, rolled_up, made_anew, put_back])
async def test_a_log_that_is_another_than_before_halts_a_part_for_good(log: Log, done: Any) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
    kept = Kept(log)
    try:
        await until(lambda: bool(kept.owned) and log.continuity.begun)
        await done(log)
        await until(lambda: bool(kept.in_flight.lost))
        good = msgspec.json.encode(At(at=1.0, epoch=4, incarnation="y"))
        await say(log, *(pod(log, n, i) for n in NAMESPACES for i in range(20)), Message(kept.subject, good))
        await asyncio.sleep(0.3)
        assert len(kept.owned) == 1
        assert "Nothing is acted on" in kept.in_flight.why
    finally:
        await kept.end()


async def _holds(log: Log, namespace: str, count: int) -> None:
    await until(lambda: holds(log), lambda found: len(found.get(namespace, ())) >= count)
