"""Timers that are due are fired with the commits of their slot, and nothing that reads the log sees a difference."""

from __future__ import annotations

import time

import msgspec
import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.host.test_host import hosting
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import CancelTimer, SetTimer
from tidewright.events.facts import PodObserved
from tidewright.events.timers import TimerFired
from tidewright.host.fold import plan
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.provenance import Provenance
from tidewright.host.fold.verify import Report, Verification, Verifier
from tidewright.host.loop.alarms import AHEAD, PER_S, Alarms, Soon
from tidewright.host.loop.host import Host
from tidewright.log import errors, timers
from tidewright.log.connection import Log, Message
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot, Subjects

STEPS = 20
LATER_S = 3600.0


class State(msgspec.Struct):
    fired: list[float] = []


def evolve(state: State, event: Event) -> None:
    if isinstance(event, TimerFired):
        state.fired.append(event.at)


def decide(state: State, event: Event, _: None) -> list[Decision]:
    """A pod's name says when its timer is due; `chain` is woken at once, again and again."""
    match event:
        case PodObserved(name="chain"):
            return [SetTimer(at=event.at, key="step", due=event.at)]
        case PodObserved(name="later"):
            return [SetTimer(at=event.at, key="step", due=event.at + LATER_S)]
        case PodObserved(name="never"):
            return [SetTimer(at=event.at, key="step", due=event.at), CancelTimer(at=event.at, key="step")]
        case PodObserved(name="soon"):
            return [SetTimer(at=event.at, key="step", due=event.at + 0.2)]
        case TimerFired() if len(state.fired) % STEPS:
            return [SetTimer(at=event.at, key="step", due=event.at)]
    return []


STEPPING = Decider(
    service="counting",
    state_version=1,
    state_type=State,
    kinds=frozenset({"pod"}),
    evolve=evolve,
    decide=decide,
)


async def pod(log: Log, name: str, ahead_s: float = 0.0) -> None:
    fact = PodObserved(at=time.time() + ahead_s, namespace="shop", name=name)
    subject = log.subjects.fact(log.slot_of("shop"), "pod", "shop", name)
    await log.commit([Message(subject, registry.encode(fact))])


async def ready(host: Host[State]) -> State:
    """The state of the slot, once the host has it and knows that it may fire timers."""
    await until(lambda: len(host.owned) == host.log.slots and host.firing.allowed)
    return host.owned[host.log.slot_of("shop")].fold.state


async def everything(log: Log) -> list[Record]:
    async with log.reader([log.subjects.everything]) as reader:
        return [record async for record in reader.until_current()]


def check(log: Log, records: list[Record]) -> None:
    """Recomputing gives what is recorded, and no header speaks against its message."""
    report, found = Report(), []
    inputs = Inputs("counting", STEPPING.kinds, log.subjects, log.slots)
    verification = Verification([Verifier(STEPPING, inputs, report)])
    provenance = Provenance(log.subjects, (), lambda record, writer, problem: found.append(problem))
    for record in records:
        verification.take(record)
        provenance.take(record)
    verification.finish()
    assert not report.differences
    assert report.decisions
    assert not found


def fires(log: Log, records: list[Record]) -> list[Record]:
    return [record for record in records if log.subjects.class_token(record.subject) == "timer"]


async def test_what_is_due_fires_with_the_commit_and_is_on_the_log_as_the_server_would_have_it(
    log: Log,
) -> None:
    async with hosting(log, decider=STEPPING) as host:
        state = await ready(host)
        await pod(log, "chain")
        await until(lambda: len(state.fired) == STEPS)
    records = await everything(log)
    check(log, records)
    fired = fires(log, records)
    assert len(fired) == STEPS
    assert not any(timers.SCHEDULER in record.headers for record in fired)
    assert not [r for r in records if log.subjects.class_token(r.subject) == "schedule"]
    by_server = {timers.SCHEDULER, timers.NEXT}
    schedule = Message("", b"a step", {"Tw-Id": "a", timers.SCHEDULE: "@at", timers.TARGET: "b"})
    event = TimerFired(at=1.0, key="step")
    message = plan.fired_message(log.subjects, Slot("0"), "counting", event, schedule)
    assert (message.headers, registry.decode(message.body)) == ({"Tw-Id": "a"}, event)
    assert all(not by_server & record.headers.keys() and record.headers["Tw-Id"] for record in fired)


async def test_a_timer_that_would_be_set_in_steps_is_fired_itself_where_log_time_is_ahead_of_the_wall(
    log: Log,
) -> None:
    """The server is told of a step towards it, for it is due on the wall after the checkpoint is said again."""
    async with hosting(log, decider=STEPPING, renew_s=60.0) as host:
        state = await ready(host)
        await pod(log, "chain", ahead_s=LATER_S)
        await until(lambda: len(state.fired) == STEPS)
    records = await everything(log)
    check(log, records)
    fired = [registry.decode(record.body) for record in fires(log, records)]
    assert [type(event) for event in fired] == [TimerFired] * STEPS


async def test_a_server_that_does_not_let_it_is_left_to_fire_what_is_due(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def refused(subject: str) -> bool:
        asked.append(subject)
        raise errors.LogForbidden("not this one")

    monkeypatch.setattr(log, "may_append", refused)
    async with hosting(log, decider=STEPPING) as host:
        await until(lambda: len(host.owned) == log.slots and bool(asked))
        state = host.owned[log.slot_of("shop")].fold.state
        await pod(log, "chain")
        await until(lambda: len(state.fired) >= 3)
    records = await everything(log)
    check(log, records)
    assert all(timers.SCHEDULER in record.headers for record in fires(log, records))


async def test_a_schedule_that_stands_is_taken_back_when_its_timer_is_due_before(log: Log) -> None:
    async with hosting(log, decider=STEPPING) as host:
        state = await ready(host)
        slot = log.slot_of("shop")
        alarms_ = host.owned[slot].alarms
        await pod(log, "later")
        await until(lambda: "step" in alarms_.standing)
        schedule = log.subjects.schedule(slot, "counting", "step")
        assert await log.last(schedule) is not None
        await pod(log, "chain")
        await until(lambda: len(state.fired) == STEPS)
        assert await log.last(schedule) is None
        assert not alarms_.standing
        await pod(log, "never")
        await pod(log, "soon")
        await until(lambda: len(state.fired) == 2 * STEPS)
    check(log, await everything(log))


async def test_whoever_takes_the_slot_over_goes_on_with_what_was_set(log: Log) -> None:
    """A process that ends between a timer and what follows from it: the next one reads the timer, or the server fires it."""
    async with hosting(log, decider=STEPPING) as host:
        state = await ready(host)
        await pod(log, "chain")
        await until(lambda: len(state.fired) >= 3)
    async with hosting(log, decider=STEPPING) as host:
        await until(lambda: len(host.owned) == log.slots)
        state = host.owned[log.slot_of("shop")].fold.state
        await until(lambda: len(state.fired) == STEPS)
    check(log, await everything(log))


async def test_an_append_that_is_only_asked_for_is_none(nats: EmbeddedServer, log: Log) -> None:
    before = await log.bounds()
    assert await log.may_append(log.subjects.timer(Slot("0"), "counting", "asked"))
    with pytest.raises(errors.LogUnavailable):
        await log.may_append("nobody.listens")
    assert await log.bounds() == before


def soon(since: float, due: float) -> Soon:
    return Soon(since, due, Message("schedule", b""))


def test_only_what_is_set_still_fires_and_once() -> None:
    these = Alarms()
    these.soon = {"a": soon(1.0, 1.0), "b": soon(1.0, 1.0), "c": soon(5.0, 5.0), "gone": soon(1.0, 1.0)}
    assert these.next_at == 1.0
    assert these.passed(0.5, {"a": 1.0}, 0.0) == []
    assert [key for key, _ in these.passed(1.0, {"a": 1.0, "b": 2.0, "c": 5.0}, 0.0)] == ["a"]
    assert (these.passed(1.0, {"a": 1.0, "b": 1.0}, 0.0), these.next_at) == ([], 5.0)
    these.soon["before"] = soon(4.0, 4.0)
    assert [key for key, _ in these.passed(5.0, {"c": 5.0, "before": 4.0}, 0.0)] == ["before", "c"]


def test_a_decider_that_wakes_itself_for_ever_is_left_to_the_server() -> None:
    these, fired = Alarms(), 0
    for _ in range(1000):
        these.soon["loop"] = soon(1.0, 1.0)
        fired += len(these.passed(1.0, {"loop": 1.0}, 0.0))
    assert fired == AHEAD
    these.soon["other"] = soon(1.0, 1.0)
    assert len(these.passed(1.0, {"other": 1.0}, 0.0)) == 1
    these.soon["loop"] = soon(1.0, 1.0)
    assert len(these.passed(1.0, {"loop": 1.0}, 1.5 / PER_S)) == 1


def test_what_the_server_has_is_known_from_what_it_was_told() -> None:
    these, subjects, slot = Alarms(["old"]), Subjects("c"), Slot("0")
    fired = TimerFired(at=1.0, key="new")
    new = timers.set_message(subjects, slot, "s", timer=fired, wall=1.0, headers={})
    these.told({"new": new, "old": timers.cancel_message(subjects, slot, "s", "old", {})})
    assert these.standing == {"new"}
