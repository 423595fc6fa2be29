"""That a slot has halted stands on the log once: however often it halts there, whatever the log does, and nobody is held up by it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.counting import COUNTING
from tests.unit.host.test_host import expect_holds, hosting, pod, until_recorded
from tests.unit.host.test_newer import of_a_newer_version
from tests.waiting import until
from tidewright.asking.halted import Halt, halt_in, why
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.config import KeysSet, ServiceKeys
from tidewright.events.halts import SlotHalted
from tidewright.host.loop import halts
from tidewright.host.loop.halts import MESSAGE_CHARACTERS, Halts
from tidewright.host.loop.host import Host
from tidewright.log import checkpoint as checkpoints
from tidewright.log import errors
from tidewright.log.connection import Committed, Log, Message
from tidewright.log.envelope import VERSION, Writer
from tidewright.log.keyring import Keys
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot, Subjects


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "AGAIN_S", 0.0)
    monkeypatch.setattr(halts, "AGAIN_MOST_S", 0.0)


# -- on a log that answers, or not -----------------------------------------------------------------


class Wayward:
    """A log that takes a message, or not, and says so, or not, as it is told; in the end it does what it is asked."""

    def __init__(self, moods: Iterator[str], keys: Keys | None = None) -> None:
        self.subjects = Subjects("test")
        self.messages: list[Message] = []
        self.asked = 0
        self._moods, self._keys = moods, keys

    async def key_record(self) -> Keys | None:
        return self._keys

    async def last(self, subject: str) -> Record | None:
        await asyncio.sleep(0)
        self.asked += 1
        if next(self._moods, "") == "away":
            raise errors.LogUnavailable("away")
        return self._last(subject)

    def _last(self, subject: str) -> Record | None:
        found = [n for n, message in enumerate(self.messages, 1) if message.subject == subject]
        if not found:
            return None
        message = self.messages[found[-1] - 1]
        return Record(found[-1], subject, message.body, dict(message.headers or {}))

    async def commit(self, messages: Sequence[Message]) -> Committed:
        await asyncio.sleep(0)
        self.asked += 1
        (message,) = messages
        last = self._last(message.subject)
        match next(self._moods, ""):
            case "away":
                raise errors.LogUnavailable("away")
            case "full":
                raise errors.StoreFull("full")
            case "forbidden":
                raise errors.LogForbidden("no")
            case "silent" if message.expect_last == (last.seq if last else 0):
                self.messages.append(message)
                raise errors.LogUnavailable("it may be there")
        if message.expect_last != (last.seq if last else 0):
            raise errors.Conflict("somebody was quicker")
        self.messages.append(message)
        return Committed(len(self.messages), 1)


def halted(before: int, message: str = "it failed") -> SlotHalted:
    return SlotHalted(
        at=1.0, service="counting", slot="3", before=before, reason="DeciderFailed", message=message
    )


MOODS = st.lists(st.sampled_from(["", "away", "full", "silent", "forbidden"]), max_size=12)


@given(MOODS, st.lists(st.integers(0, 6), max_size=4), st.booleans())
def test_it_stands_there_once_whatever_the_log_does_and_whoever_says_it(
    moods: list[str], ended_after: list[int], two: bool
) -> None:
    """Processes that are ended at any moment, and two of them at once, as when a slot is another's and the one before does not know yet."""
    log = Wayward(iter(moods))

    async def said() -> None:
        for turns in ended_after:
            first = Halts(log, Writer("counting"), None)  # type: ignore[arg-type]
            first.say(Slot("3"), halted(7, f"it failed at 0x{turns:x}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            await first.close()
        last = [Halts(log, Writer("counting"), None) for _ in range(1 + two)]  # type: ignore[arg-type]
        for one in last:
            one.say(Slot("3"), halted(7))
        async with asyncio.timeout(90):
            await asyncio.gather(*(task for one in last for task in one._saying.values()))

    asyncio.run(said())
    assert len(log.messages) == 1
    assert log.messages[0].subject == "tw.test.halt.3.counting"


def test_it_stops_elsewhere_and_that_is_said_as_well() -> None:
    log = Wayward(iter(()))

    async def said() -> None:
        for before in (7, 7, 9, 9):
            saying = Halts(log, Writer("counting"), None)  # type: ignore[arg-type]
            saying.say(Slot("3"), halted(before))
            await asyncio.gather(*saying._saying.values())

    asyncio.run(said())
    assert [registry.decode(message.body) for message in log.messages] == [halted(7), halted(9)]


def test_of_a_decision_that_is_not_readable_each_software_says_so_once() -> None:
    log = Wayward(iter(()))
    unreadable = msgspec.structs.replace(halted(7), reason="DecisionUnreadable")

    async def said() -> None:
        for version in ("1", "1", "2", "2"):
            saying = Halts(log, Writer("counting", version=version), None)  # type: ignore[arg-type]
            saying.say(Slot("3"), unreadable)
            await asyncio.gather(*saying._saying.values())

    asyncio.run(said())
    assert [(message.headers or {})[VERSION] for message in log.messages] == ["1", "2"]


def test_nothing_is_said_of_a_slot_that_was_released() -> None:
    log = Wayward(repeat("away"))

    async def said() -> None:
        saying = Halts(log, Writer("counting"), None)  # type: ignore[arg-type]
        saying.say(Slot("3"), halted(7))
        await until(lambda: log.asked > 3)
        saying.released(Slot("3"))
        await asyncio.sleep(0)
        asked = log.asked
        for _ in range(20):
            await asyncio.sleep(0)
        assert log.asked == asked

    asyncio.run(said())
    assert not log.messages


def test_where_the_log_forgets_by_age_it_is_said_again() -> None:
    log = Wayward(iter(()))

    async def said() -> None:
        saying = Halts(log, Writer("counting"), 0.0)  # type: ignore[arg-type]
        saying.say(Slot("3"), halted(7))
        await until(lambda: len(log.messages) > 2)
        await saying.close()

    asyncio.run(said())


def keys(writes: Mapping[str, tuple[str, ...]], subjects: Subjects) -> Keys:
    services = tuple(ServiceKeys(service=service, writes=allowed) for service, allowed in writes.items())
    return Keys(KeysSet(at=1.0, log="x", generation=1, services=services), subjects)


@pytest.mark.parametrize(("writes", "said"), [("halt.*.counting", 1), ("checkpoint.*.counting", 0)])
def test_on_a_log_whose_key_record_is_of_before_nothing_is_said_that_nobody_would_believe(
    writes: str, said: int
) -> None:
    log = Wayward(iter(()), keys({"counting": (writes,)}, Subjects("test")))

    async def saying() -> None:
        one = Halts(log, Writer("counting"), None)  # type: ignore[arg-type]
        one.say(Slot("3"), halted(7))
        for _ in range(50):
            await asyncio.sleep(0)
        await one.close()

    asyncio.run(saying())
    assert len(log.messages) == said


def test_what_an_error_says_is_kept_short_and_without_secrets() -> None:
    said = halts.shortened(halted(7, "nats://user:secret@host " + "x" * 10**6))
    assert len(said.message) == MESSAGE_CHARACTERS
    assert "secret" not in said.message
    assert halts.shortened(halted(7)) == halted(7)


# -- in a host -------------------------------------------------------------------------------------


async def halts_on(log: Log) -> list[SlotHalted]:
    async with log.reader([f"{log.subjects.root}.halt.>"]) as reader:
        events = [registry.decode(r.body) async for r in reader.until_current()]
    return [event for event in events if isinstance(event, SlotHalted)]


async def why_halted(log: Log, slot: Slot) -> str:
    """Why a slot is not decided for, as who asks the log has it."""
    last = await log.last(log.subjects.checkpoint(slot, "counting"))
    assert last is not None
    return why(halt_in(await log.last(log.subjects.halt(slot, "counting"))), last, checkpoints.usable(last))


def _is_halted(host: Host[Any], slot: Slot) -> bool:
    return slot in host.owned and bool(host.owned[slot].halted)


def tolerant(state: object, event: Event, touched: object) -> Sequence[Decision]:
    """The next version, which has the defect no more."""
    return COUNTING.decide(state, event, touched) if getattr(event, "name", "") != "poison" else ()  # type: ignore[arg-type]


async def test_a_defect_is_told_once_over_restarts_and_is_over_with_a_version_without_it(log: Log) -> None:
    slot = log.slot_of("shop")
    poison = (await log.commit([pod(log, "shop", 0, name="poison")])).last_seq
    for start in range(3):
        async with hosting(log) as host:
            await until(partial(_is_halted, host, slot))
            await until(lambda: halts_on(log), bool)
            await log.commit([pod(log, "bank", i) for i in range(3)])
            await until_recorded(log, "bank")
            (told,) = await halts_on(log)
            assert (told.service, told.slot, told.before) == ("counting", slot, poison), start
            assert (told.reason, told.subject) == (
                "DeciderFailed",
                pod(log, "shop", 0, name="poison").subject,
            )
            assert "RuntimeError: poison" in told.message
            assert f"before event {poison}: the decider failed" in await why_halted(log, slot)
            assert host.health.metrics.registry.get_sample_value("tidewright_slots_halted") == 1.0
    async with hosting(log, decider=dataclasses.replace(COUNTING, decide=tolerant)):
        await until(lambda: why_halted(log, slot), lambda problem: problem == "")
    assert len(await halts_on(log)) == 1


async def test_a_slot_that_waits_for_a_newer_version_says_so_until_the_fact_is_said_again(log: Log) -> None:
    slot = log.slot_of("shop")
    async with hosting(log) as host:
        newer = await log.commit([of_a_newer_version(log, 3)])
        (told,) = await until(lambda: halts_on(log), bool)
        assert (told.before, told.reason) == (newer.last_seq, "NewerFact")
        assert "of a newer version" in await why_halted(log, slot)
        await log.commit([pod(log, "shop", 3)])
        await until(lambda: why_halted(log, slot), lambda problem: problem == "")
        assert not host.owned[slot].halted
    assert await halts_on(log) == [told]


async def test_nobody_folds_it_and_versions_of_before_read_past_it(log: Log) -> None:
    for slot in range(log.slots):
        for service in ("counting", "reminding"):
            body = registry.encode(
                SlotHalted(at=1e12, service=service, slot=str(slot), before=10**9, reason="DeciderFailed")
            )
            # Whatever it is called: to who does not know it, it is of a type of a newer version.
            for said in (body, body.replace(b"slot-halted.v1", b"slot-halted.v9")):
                await log.commit([Message(log.subjects.halt(Slot(str(slot)), service), said)])
    async with hosting(log) as host:
        await log.commit([pod(log, n, i) for n in ("shop", "bank", "game", "mail") for i in range(3)])
        await expect_holds(log, 1)
        assert not any(
            host.inputs.reads(log.subjects.halt(slot, "counting"), host.owned, recorded=True)
            for slot in host.owned
        )
        assert all(owned.fold.at < 1e12 for owned in host.owned.values())
        assert not [owned.halted for owned in host.owned.values() if owned.halted]


def test_a_halt_is_over_once_a_checkpoint_covers_it() -> None:
    def at(position: int) -> checkpoints.Checkpoint:
        return checkpoints.Checkpoint(at=1.0, position=position, epoch=1, incarnation="x", commit=1)

    def stands(seq: int, software: str) -> Record:
        return Record(seq, "tw.test.checkpoint.3.counting", b"", {VERSION: software})

    one = stands(9, "1")
    assert why(None, one, at(3)) == ""
    assert "before event 7: it failed" in why(Halt(halted(7), 8, "1"), one, at(6))
    assert why(Halt(halted(7), 8, "1"), one, at(7)) == ""
    assert why(Halt(halted(7), 8, "1"), stands(9, "2"), at(6))
    unreadable = Halt(msgspec.structs.replace(halted(7), reason="DecisionUnreadable"), 8, "1")
    assert why(unreadable, one, at(6))
    assert why(unreadable, stands(7, "2"), at(6))
    assert why(unreadable, stands(9, "2"), at(6)) == ""
    assert halt_in(None) is None
    assert halt_in(Record(1, "tw.test.halt.3.counting", b"[", {})) is None
    assert (
        halt_in(Record(1, "x", msgspec.json.encode({"type": "halt.slot-halted.v9", "at": 1.0}), {})) is None
    )
