"""The host against a real nats-server: fold order, restart, fencing, timers, faults of one slot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.alone import Alone
from tests.nats_server import EmbeddedServer
from tests.unit.host.counting import COUNTING
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Decision, Event
from tidewright.events.config import ClockSet
from tidewright.events.facts import PodObserved
from tidewright.events.timers import TimerFired
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inputs import Partition
from tidewright.host.fold.order import Fold, cause_of, decision_id
from tidewright.host.fold.series import Exposition, Series
from tidewright.host.loop import fenced
from tidewright.host.loop.host import Host
from tidewright.host.loop.membership import BucketMembership, rendezvous, shares
from tidewright.host.loop.settings import Settings
from tidewright.host.process.health import Health
from tidewright.log import bus, errors, timers
from tidewright.log.checkpoint import decode as decode_checkpoint
from tidewright.log.connection import Committed, Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.install import Plan, install_log
from tidewright.log.outage import Outage
from tidewright.log.subjects import ALL, Slot

NAMESPACES = ("shop", "bank", "game", "mail")
AWAY, BACK = "the log does not answer, going on when it does", "the log answers again"


def pod(log: Log, namespace: str, n: int, *, name: str = "", at: float | None = None) -> Message:
    fact = PodObserved(at=time.time() if at is None else at, namespace=namespace, name=name or f"p{n}")
    return Message(
        log.subjects.fact(log.slot_of(namespace), "pod", namespace, fact.name), registry.encode(fact)
    )


@asynccontextmanager
async def hosting(
    log: Log,
    *,
    alone: bool = True,
    member: str = "",
    snapshot_distance: int = 20_000,
    history_distance: int = 200_000,
    decider: Decider[Any, Any] = COUNTING,
    renew_s: float | None = None,
    partition: Partition = "slots",
    follows: frozenset[str] = frozenset(),
) -> AsyncIterator[Host[Any]]:
    """A host running in the background; ended as SIGTERM would."""
    service = decider.service
    writer = Writer(service, member) if member else Writer(service)
    membership = Alone(writer.incarnation) if alone else BucketMembership(log, service, writer.incarnation)
    settings = Settings(
        partition, follows, renew_s, snapshot_distance=snapshot_distance, history_distance=history_distance
    )
    host = Host(decider, log, membership, Health(service), writer=writer, settings=settings)
    stop = asyncio.Event()
    task = asyncio.create_task(host.run(stop))
    try:
        yield host
    finally:
        stop.set()
        async with asyncio.timeout(90):
            await task


async def until_recorded(log: Log, namespace: str) -> None:
    await until(lambda: holds(log), lambda found: namespace in found)


async def decisions(log: Log) -> list[Decision]:
    async with log.reader([log.subjects.decisions("*", "counting")]) as reader:
        found = [registry.decode(r.body) async for r in reader.until_current()]
    return [d for d in found if isinstance(d, Decision)]


async def holds(log: Log) -> dict[str, list[str]]:
    """Reasons of the recorded holds by namespace, in log order."""
    found: dict[str, list[str]] = {}
    for decision in await decisions(log):
        if isinstance(decision, HoldReplicas):
            found.setdefault(decision.target.namespace, []).append(decision.reason)
    return found


async def expect_holds(log: Log, count: int) -> None:
    """Each namespace has holds 1..count in order: none lost, none doubled."""
    wanted = {n: [f"hold {i}" for i in range(1, count + 1)] for n in NAMESPACES}

    async def so_far() -> dict[str, list[str]]:
        found = await holds(log)
        assert all(reasons == wanted[n][: len(reasons)] for n, reasons in found.items()), found
        return found

    await until(so_far, lambda found: found == wanted)


async def test_every_decision_is_recorded_once_over_restarts(log: Log) -> None:
    for start in (0, 10, 20):
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(start, start + 10)])
        async with hosting(log):
            await expect_holds(log, (start + 10) // 3)
    ids = [d.id for d in await decisions(log)]
    assert len(ids) == len(set(ids)) == 80


async def test_a_restart_goes_on_from_the_recorded_state(log: Log) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(8)])
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        await expect_holds(log, 2)
        await until(lambda: not any(o.fold.timers for o in host.owned.values()))  # else some fire in between
        before = {s: (o.fold.state, o.fold.chain) for s, o in host.owned.items()}
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        after = {s: (o.fold.state, o.fold.chain, o.epoch) for s, o in host.owned.items()}
    assert {s: (state, chain) for s, (state, chain, _) in after.items()} == before
    assert {epoch for _, _, epoch in after.values()} == {2}


async def test_decisions_form_a_chain_that_recomputation_reproduces(log: Log) -> None:
    await log.commit([pod(log, "shop", i) for i in range(12)])
    slot = log.slot_of("shop")
    async with hosting(log):
        await until(lambda: decisions(log), lambda found: len(found) >= 8)
    fold = Fold(COUNTING, slot)
    recomputed = []
    async with log.reader([log.subjects.facts("*", "pod")]) as reader:
        async for record in reader.until_current():
            recomputed += [d.body for d in fold.step(record.seq, record.body, registry.decode(record.body))]
    async with log.reader([log.subjects.decisions("*", "counting")]) as reader:
        assert [r.body async for r in reader.until_current()] == recomputed


async def test_a_second_process_on_the_same_slots_takes_over_and_the_first_steps_back(log: Log) -> None:
    await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
    async with hosting(log) as first:
        await expect_holds(log, 1)
        async with hosting(log) as second:  # believes to be alone, too
            await until(lambda: len(second.owned) == log.slots)
            # The first notices at its next commit, claims again (it, too, believes to be alone), and so
            # on: whoever writes is always the one whose claim is the last.
            await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3, 30)])
            await expect_holds(log, 10)
        assert {o.epoch for o in second.owned.values()} != {1}
    assert first.health.metrics.commits.labels("unclear")._value.get() > 0


async def test_slots_move_only_to_a_new_member_and_back_when_it_leaves(log: Log) -> None:
    async with hosting(log, alone=False, member="a") as a:
        await until(lambda: len(a.owned) == log.slots)
        async with hosting(log, alone=False, member="b") as b:
            mine = shares("b", {"a", "b"}, a.inputs.every)
            await until(lambda: set(b.owned) == mine and set(a.owned) == set(a.inputs.every) - mine)
            await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(9)])
            await expect_holds(log, 3)
        await until(lambda: len(a.owned) == log.slots)
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(9, 12)])
        await expect_holds(log, 4)


def test_rendezvous_moves_only_what_the_new_member_wins() -> None:
    slots = [Slot(str(i)) for i in range(256)]
    before = {s: rendezvous(s, {"a", "b", "c"}) for s in slots}
    after = {s: rendezvous(s, {"a", "b", "c", "d"}) for s in slots}
    assert all(after[s] in (before[s], "d") for s in slots)
    assert 32 < sum(after[s] == "d" for s in slots) < 96
    assert rendezvous(slots[0], ()) is None


async def test_timers_wake_the_decider_at_their_log_time(log: Log) -> None:
    wall = time.time()
    clock = ClockSet(at=1000.0, wall=wall, log=1000.0, speed=10.0)
    await log.commit([Message(log.subjects.config("clock"), registry.encode(clock))])
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        await log.commit([pod(log, "shop", i, at=1003.0) for i in range(3)])
        owned = host.owned[log.slot_of("shop")]
        await until(lambda: owned.fold.state.woken == 1)
        assert owned.fold.at == 1004.0
        assert owned.fold.timers == {}
        assert time.time() - wall >= 0.4  # log time 1004 is 0.4 s after the start on the wall


async def test_timers_follow_when_the_clock_is_set(log: Log) -> None:
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        now = time.time()
        await log.commit([pod(log, "shop", i, at=now + 3600) for i in range(3)])
        owned = host.owned[log.slot_of("shop")]
        await until(lambda: bool(owned.fold.timers))
        clock = ClockSet(at=now, wall=now, log=now + 3600, speed=10.0)
        await log.commit([Message(log.subjects.config("clock"), registry.encode(clock))])
        await until(lambda: owned.fold.state.woken == 1)


async def test_a_schedule_that_fires_as_it_is_replaced_costs_no_timer(log: Log) -> None:
    """The server takes away what stands on the subject of a schedule that fires, also when that is the next one."""
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        now, slot, key = time.time(), log.slot_of("shop"), "wake/shop"
        await log.commit([pod(log, "shop", i, at=now + 3600.0) for i in range(3)])
        owned = host.owned[slot]
        await until(lambda: bool(owned.fold.timers) and not owned.pending)
        schedule = log.subjects.schedule(slot, "counting", key)
        replaced = await log.last(schedule)
        assert replaced is not None
        older = registry.encode(TimerFired(at=now, key=key))
        headers = {timers.SCHEDULER: schedule, timers.NEXT: timers.PURGE}
        await log.commit([Message(log.subjects.timer(slot, "counting", key), older, headers)])
        # The server fires what stands there, hours later or now: it has to stand there again.
        await until(lambda: log.last(schedule), lambda found: found is not None and found.seq > replaced.seq)
        assert owned.fold.timers == {key: now + 3601.0}
        assert owned.fold.state.woken == 0


async def test_a_message_on_a_subject_of_no_known_form_is_nobodys(log: Log) -> None:
    for subject in ("x", "fact", "fact.1", "decision.2", "nothing.1.a.b.c.d", "timer.1"):
        await log.commit([Message(f"{log.subjects.root}.{subject}", b"?")])
    async with hosting(log) as host:
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(3)])
        await expect_holds(log, 1)
        assert not [o.halted for o in host.owned.values() if o.halted]


async def test_a_failing_decider_stops_its_slot_with_the_event_named(log: Log) -> None:
    async with hosting(log) as host:
        await until(lambda: len(host.owned) == log.slots)
        committed = await log.commit([pod(log, "shop", 0, name="poison")])
        owned = host.owned[log.slot_of("shop")]
        await until(lambda: bool(owned.halted))
        assert f"event {committed.last_seq}: RuntimeError: poison" in owned.halted
        await log.commit([pod(log, "bank", i) for i in range(3)])
        await until_recorded(log, "bank")


async def test_an_outage_of_the_server_loses_and_doubles_nothing(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as log:
        await install_log(log, Plan(slots=8, deciders=("counting", "reminding")))
        async with hosting(log):
            for start in (0, 6, 12):
                async with asyncio.timeout(90):
                    for n in NAMESPACES:
                        for i in range(start, start + 6):
                            await _say(log, pod(log, n, i))
                await nats.kill()
                await nats.start()
            await expect_holds(log, 6)


async def test_a_process_says_once_that_the_log_does_not_answer(
    nats: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decider, a part of who acts, and a question to who has patience: three that wait, over two connections."""
    outage = Outage()
    for module in (bus, fenced):
        monkeypatch.setattr(module, "OUTAGE", outage)
    async with (
        await Log.connect(nats.url, "test", timeout_s=10.0) as installer,
        await Log.connect(nats.url, "test", timeout_s=0.5) as log,
        await Log.connect(nats.url, "test", timeout_s=0.5, patience_s=60.0) as other,
    ):
        await install_log(installer, Plan(slots=4, deciders=("counting", "reminding")))
        await log.adopt_slots()
        async with hosting(log) as host:
            await until(lambda: len(host.owned) == log.slots)
            in_flight = fenced.InFlight()
            subject = other.subjects.checkpoint(ALL, "watcher", "pod")
            part = fenced.Part(log, Writer("watcher"), subject, fenced.Position, in_flight)
            with capture_logs() as lines:
                await nats.kill()
                waiting = asyncio.gather(part.claim(), other.bounds(), fenced.answered(log.bounds))
                # All of them have met it: who decides is not ready, the part has a problem, the question is silent.
                await until(lambda: (host.health.not_ready, in_flight.problem, other.silence), all)
                await nats.start()
                await waiting
                await until(other.bounds, lambda _: any(BACK in line["event"] for line in lines), every_s=0.2)
    said = [line["event"] for line in lines if line["log_level"] in ("warning", "error")]
    assert [event for event in said if "stamina" not in event] == [AWAY]


async def test_members_are_known_again_after_the_server_was_killed(nats: EmbeddedServer) -> None:
    """Their bucket is in memory. Who dies after that is missed all the same."""
    async with (
        await Log.connect(nats.url, "test", timeout_s=10.0) as log,
        await Log.connect(nats.url, "test", timeout_s=10.0) as other,
    ):
        await install_log(log, Plan(slots=4, deciders=("counting", "reminding")))
        stays, dies = BucketMembership(log, "counting", "stays"), BucketMembership(other, "counting", "dies")
        await stays.join()
        await dies.join()
        await until(lambda: stays.members == {"stays", "dies"} == dies.members)
        seen: set[frozenset[str]] = set()
        watching = asyncio.create_task(_note(stays, seen))
        await nats.kill()
        await nats.start()
        await until(lambda: _listed(log, "dies"))
        assert seen <= {frozenset({"stays", "dies"})}
        watching.cancel()
        await other.client.close()  # as far as the bus can tell, it is dead
        await until(lambda: stays.members == {"stays"})
        await stays.leave()
        await dies.leave()


async def _note(membership: BucketMembership, seen: set[frozenset[str]]) -> None:
    """Every view that a member has from now on."""
    while True:
        seen.add(membership.members)
        await asyncio.sleep(0.01)


async def _listed(log: Log, member: str) -> bool:
    """Whether the bucket has an entry of a member."""
    bucket = f"{log.stream}_members"
    try:
        found = await log.lookups.stored({"last_by_subj": f"$KV.{bucket}.counting.{member}"}, f"KV_{bucket}")
    except errors.LogUnavailable:
        return False
    return found is not None and bool(found.body)


class Losing:
    """A log that stores one append without an answer: the one as many appends from now as `left` is set to."""

    def __init__(self, log: Log) -> None:
        self._log, self.left = log, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def commit(self, messages: Sequence[Message]) -> Committed:
        committed = await self._log.commit(messages)
        self.left -= 1
        if self.left == 0:
            raise errors.LogUnavailable("no answer")
        return committed


async def test_slots_claimed_right_before_an_outage_are_read_from_where_they_stood(log: Log) -> None:
    """The reader of the slots that the host had has gone on beyond what the new ones are behind with."""
    losing, writer = Losing(log), Writer("counting", "a")
    membership = Alone("a")
    membership.members = frozenset({"a", "b"})
    host = Host(COUNTING, losing, membership, Health("counting"), writer=writer)  # type: ignore[arg-type]  # a stand-in
    mine = shares("a", {"a", "b"}, host.inputs.every)
    others = [n for n in NAMESPACES if log.slot_of(n) not in mine]
    own = next(f"own{i}" for i in range(100) if log.slot_of(f"own{i}") in mine)
    assert others
    stop = asyncio.Event()
    running = asyncio.create_task(host.run(stop))
    try:
        await until(lambda: set(host.owned) == mine)
        await log.commit([pod(log, n, i) for n in others for i in range(3)])
        await log.commit([pod(log, own, i) for i in range(3)])
        await until_recorded(log, own)
        losing.left = 1  # all the claims together
        membership.members = frozenset({"a"})
        membership.changed.set()
        for name in others:
            await until_recorded(log, name)
    finally:
        stop.set()
        await running
    assert losing.left <= 0


async def _say(log: Log, message: Message) -> None:
    """Append once, whatever the server does meanwhile: the subject's emptiness is the expectation."""
    once = Message(message.subject, message.body, None, expect_last=0)
    while True:
        try:
            await log.commit([once])
            return
        except errors.Conflict:
            return  # an earlier try was stored, its answer lost
        except errors.LogUnavailable:
            await asyncio.sleep(0.05)


async def test_a_checkpoint_says_what_was_folded(log: Log) -> None:
    later = time.time() + 3600.0  # a timer that fires meanwhile would be one event more
    await log.commit([pod(log, "shop", i, at=later) for i in range(4)])
    async with hosting(log) as host:
        await until(lambda: host.owned.get(log.slot_of("shop")) is not None)
        await until(lambda: host.owned[log.slot_of("shop")].fold.folded == 4)
    record = await log.last(log.subjects.checkpoint(log.slot_of("shop"), "counting"))
    assert record is not None
    checkpoint = decode_checkpoint(record.body)
    assert (checkpoint.folded, checkpoint.epoch, checkpoint.position >= 4) == (4, 1, True)
    assert checkpoint.digest
    assert checkpoint.chain


@pytest.mark.parametrize(("slot", "cause", "n"), [("3", 17, 0), ("all", 1, 12)])
def test_a_decision_id_names_its_cause(slot: str, cause: int, n: int) -> None:
    assert cause_of(decision_id("autoscaler", Slot(slot), cause, n)) == (cause, n)


class Seen:
    """Counts what it is shown."""

    def __init__(self) -> None:
        self.facts, self.decisions = 0, 0

    def take(self, state: object, event: Event, decided: Sequence[Decision]) -> None:
        self.facts += isinstance(event, PodObserved)
        self.decisions += len(decided)

    def series(self, state: object) -> Sequence[Series]:
        return ()


async def test_a_tally_is_shown_what_this_process_decides_and_begins_at_zero(log: Log) -> None:
    tallying = replace(COUNTING, exposition=Exposition(series=lambda _state: (), help={}, tally=Seen))
    for start in (0, 9):
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(start, start + 9)])
        async with hosting(log, decider=tallying) as host:
            await expect_holds(log, (start + 9) // 3)
        assert isinstance(host.tally, Seen)
        assert (host.tally.facts, host.tally.decisions) == (9 * len(NAMESPACES), 6 * len(NAMESPACES))
