"""Retention: what is needed outlives the messages that said it. A month in seconds, over a short max age."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.alone import Alone
from tests.nats_server import EmbeddedServer
from tests.unit.host.counting import COUNTING, State
from tests.unit.host.test_host import decisions, pod
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.config import ClockSet
from tidewright.events.decisions import SetTimer
from tidewright.events.facts import PodObserved
from tidewright.events.timers import TimerFired
from tidewright.host.loop.host import Host
from tidewright.host.loop.settings import Settings
from tidewright.host.process.health import Health
from tidewright.log import errors
from tidewright.log.bus import Bus
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.install import Plan, install_log
from tidewright.log.snapshots import Snapshots

DAY_S = 86_400.0
MONTH_S = 30 * DAY_S
MAX_AGE_S = 4.5
"""Renewals come every third of it: who is held up for the rest, three seconds, is too late for them."""
MONTH_WALL_S = 18.0
"""What set a timer has aged out after the first half, and a process that is started anew has the other one to be seen with it."""
START = 1_770_000_000.0


def remind(_: State, event: Event, _touched: None) -> list[Decision]:
    """Remind of each pod a month after it was first seen, and count the reminders."""
    if not isinstance(event, PodObserved):
        return []
    if event.name == "poison":
        raise RuntimeError("poison")
    return [SetTimer(at=event.at, key=f"month/{event.namespace}", due=event.at + MONTH_S)]


REMINDING = replace(COUNTING, service="reminding", decide=remind)


class Running:
    """One process's host, started and ended at will."""

    def __init__(self, log: Log) -> None:
        writer = Writer("reminding")
        settings = Settings(renew_s=MAX_AGE_S / 3)
        self.host = Host(
            REMINDING, log, Alone(writer.incarnation), Health("reminding"), writer=writer, settings=settings
        )
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self.host.run(self._stop))

    async def stop(self) -> None:
        self._stop.set()
        async with asyncio.timeout(90):
            await self._task

    async def kill(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def woken(self) -> int:
        return sum(o.fold.state.woken for o in self.host.owned.values())


async def test_a_month_over_a_short_max_age_loses_no_timer_no_state_and_no_position(
    nats: EmbeddedServer,
) -> None:
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as log:
        await install_log(log, Plan(slots=4, max_age_s=MAX_AGE_S, deciders=("counting", "reminding")))
        speed = MONTH_S / MONTH_WALL_S
        clock = ClockSet(at=START, wall=time.time(), log=START, speed=speed)
        await log.commit([Message(log.subjects.config("clock"), registry.encode(clock))])
        await log.commit([pod(log, n, 0, at=START) for n in ("shop", "bank")])
        first = Running(log)
        try:
            await until(lambda: sum(len(o.fold.timers) for o in first.host.owned.values()) == 2)
            await until(
                lambda: decisions_of(log), lambda found: len(found) == 2
            )  # what set them is folded before it is there
            # Nothing more is said. Meanwhile what set the timers has aged out, and a process dies.
            await until_aged_out(log)
            assert await decisions_of(log) == []
            await first.kill()
            second = Running(log)
            await until(lambda: len(second.host.owned) == 4)
            pods = [o.fold.state.pods for o in second.host.owned.values()]
            assert sorted(name for found in pods for name in found) == ["bank", "shop"]
            assert sum(len(o.fold.timers) for o in second.host.owned.values()) == 2
        finally:
            await first.kill()
        try:
            await until(lambda: second.woken == 2)
            assert all(o.fold.at == START + MONTH_S for o in second.host.owned.values() if o.fold.state.woken)
            assert all(o.fold.timers == {} for o in second.host.owned.values())
        finally:
            await second.stop()
        # The history of snapshots does not grow without end, and begins where a replay can.
        store, (first_seq, _) = Snapshots(log), await log.bounds()
        for slot in second.host.owned:
            kept = await store.history("reminding", slot)
            assert kept
            assert len(kept) < 3 * MONTH_WALL_S / MAX_AGE_S  # of one in a third of the max age
            assert await store.oldest("reminding", slot, (1,), first_seq) is not None


async def test_a_slot_that_stopped_does_not_have_the_others_commit_at_every_fetch(log: Log) -> None:
    """It is never committed, so that it would be due for renewal for ever."""
    running = Running(log)
    try:
        await until(lambda: len(running.host.owned) == log.slots)
        stopped = running.host.owned[log.slot_of("shop")]
        other = next(o for o in running.host.owned.values() if o is not stopped)
        await log.commit([pod(log, "shop", 0, name="poison")])
        await until(lambda: bool(stopped.halted))
        stopped.committed_at -= MAX_AGE_S
        before = other.committed_at
        await until(lambda: other.committed_at > before)  # turns have passed, with a renewal at their end
        assert stopped.dirty == 0
    finally:
        await running.stop()


async def until_aged_out(log: Log) -> None:
    """Wait until everything that is on the log by now has left it."""
    _, last = await log.bounds()
    await until(log.bounds, lambda found: found[0] > last)


async def decisions_of(log: Log) -> list[Decision]:
    async with log.reader([log.subjects.decisions("*", "reminding")]) as reader:
        found = [registry.decode(r.body) async for r in reader.until_current()]
    return [d for d in found if isinstance(d, Decision)]


async def test_a_timer_fires_once_however_many_steps_led_to_it(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "test", timeout_s=10.0) as log:
        await install_log(log, Plan(slots=4, max_age_s=MAX_AGE_S, deciders=("counting", "reminding")))
        running = Running(log)
        try:
            await until(lambda: len(running.host.owned) == 4)
            clock = ClockSet(at=START, wall=time.time(), log=START, speed=MONTH_S / (2 * MAX_AGE_S))
            await log.commit([Message(log.subjects.config("clock"), registry.encode(clock))])
            await log.commit([pod(log, "shop", 0, at=START)])
            fired: list[TimerFired] = []
            stepped = 0
            async with asyncio.timeout(90), log.reader([log.subjects.timers("*", "reminding")]) as reader:
                while not fired:
                    for record in await reader.fetch():
                        event = registry.decode(record.body)
                        fired += [event] if isinstance(event, TimerFired) else []
                        stepped += not isinstance(event, TimerFired)
            await until(lambda: running.woken == 1)
            assert stepped >= 2
            assert [f.at for f in fired] == [START + MONTH_S]
        finally:
            await running.stop()


async def test_a_full_store_refuses_visibly_and_drops_nothing(tmp_path: Path) -> None:
    """Facts fill the store; the host waits, says so, and goes on when there is room, with nothing lost."""
    server = EmbeddedServer(tmp_path / "nats", max_store_bytes=400_000)
    await server.start()
    try:
        async with await Log.connect(server.url, "test", timeout_s=10.0) as log:
            await install_log(log, Plan(slots=4, deciders=("counting", "reminding")))
            await log.commit([pod(log, "shop", i) for i in range(3)])
            writer, stop = Writer("counting"), asyncio.Event()
            host = Host(COUNTING, log, Alone(writer.incarnation), Health("counting"), writer=writer)
            running = asyncio.create_task(host.run(stop))
            await until_decided(log, 2)
            first, _ = await log.bounds()
            log.timeout_s = (
                2.0  # a batch into a full store is answered by nobody, and each of these is waited for
            )
            with capture_logs() as lines:
                await fill(log)
                # What is decided now does not fit any more.
                await until(lambda: "full" in host.health.not_ready)
                assert host.health.metrics.commits.labels("full")._value.get() > 0
                assert any(line["event"].startswith("store full") for line in lines)
                assert (await log.bounds())[0] == first  # nothing was dropped to make room
                await server.stop()
                server = EmbeddedServer(tmp_path / "nats", port=int(log.url.rsplit(":", 1)[1]))
                await server.start()
                await until(lambda: not host.health.not_ready and log.client.is_connected)
            pods = await pods_on(log)
            await until_decided(log, 2 * (pods // 3))
            stop.set()
            await running
            found = await decisions(log)
            assert len({d.id for d in found}) == len(found) == 2 * (pods // 3)
    finally:
        await server.stop()


async def test_a_message_that_is_too_large_is_waited_with_visibly_and_goes_on_when_the_server_takes_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would answer nothing, and end the connection: asked again at once, it would be so for ever, and nobody saw why."""
    await install_log(log, Plan(deciders=("counting", "reminding")))
    await log.commit([pod(log, "shop", i) for i in range(3)])
    writer, stop = Writer("counting"), asyncio.Event()
    host = Host(COUNTING, log, Alone(writer.incarnation), Health("counting"), writer=writer)
    running = asyncio.create_task(host.run(stop))
    try:
        await until_decided(log, 2)
        await log.commit([pod(log, "shop", i) for i in range(3, 6)])
        await until_decided(log, 4)
        with capture_logs() as lines, monkeypatch.context() as limited:
            facts = [pod(log, "shop", i) for i in range(6, 9)]
            async with await Log.connect(log.url, log.cluster, timeout_s=10.0) as other:
                limited.setattr(
                    Bus, "max_message_bytes", property(lambda bus: 100 if bus is log else 8 << 20)
                )
                await other.commit(facts)
                await until(lambda: "max_payload" in host.health.not_ready)
                assert len(await decisions(other)) == 4
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "message too large, waiting"
        ]
        await until_decided(log, 6)
        await until(lambda: not host.health.not_ready)
    finally:
        stop.set()
        await running
    found = await decisions(log)
    assert len({d.id for d in found}) == len(found) == 6


async def fill(log: Log) -> None:
    """Pods on the log until it takes not even one more."""
    count, size = 3, 32
    while size:
        try:
            await log.commit([padded(log, count + i) for i in range(size)])
            count += size
        except (errors.StoreFull, errors.LogUnavailable):
            size //= 2


def padded(log: Log, n: int) -> Message:
    message = pod(log, "shop", n)
    fact = registry.decode(message.body)
    assert isinstance(fact, PodObserved)
    labels = {"padding": "x" * 900}
    return Message(message.subject, registry.encode(msgspec.structs.replace(fact, labels=labels)))


async def pods_on(log: Log) -> int:
    async with log.reader([log.subjects.facts("*", "pod")]) as reader:
        return len([record async for record in reader.until_current()])


async def until_decided(log: Log, count: int) -> None:
    await until(lambda: decisions(log), lambda found: len(found) >= count)
