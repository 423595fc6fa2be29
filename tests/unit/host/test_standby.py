"""A service with one partition: one active owner, and a standby that is warm and takes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.bench.log_takeover import World
from tests.nats_server import EmbeddedServer
from tests.unit.host.counting import COUNTING, State
from tests.unit.host.test_host import decisions, pod
from tests.waiting import until
from tidewright.events import registry
from tidewright.events.config import ClockSet
from tidewright.host.loop.host import Host
from tidewright.host.loop.membership import BucketMembership
from tidewright.host.loop.settings import Settings
from tidewright.host.process.health import Health
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.install import Plan, install_log
from tidewright.log.subjects import ALL


@asynccontextmanager
async def replica(log: Log) -> AsyncIterator[Host[State]]:
    writer, stop = Writer("counting"), asyncio.Event()
    membership = BucketMembership(log, "counting", writer.incarnation)
    settings = Settings(partition="cluster")
    host = Host(COUNTING, log, membership, Health("counting"), writer=writer, settings=settings)
    running = asyncio.create_task(host.run(stop))
    try:
        yield host
    finally:
        stop.set()
        async with asyncio.timeout(90):
            await running


async def test_the_standby_follows_and_decides_on_when_the_owner_stops(log: Log) -> None:
    async with replica(log) as first, replica(log) as second:
        hosts = (first, second)
        await until(lambda: any(h.owned for h in hosts) and any(h.warm for h in hosts))
        owner, standby = (first, second) if first.owned else (second, first)
        await until(lambda: not standby.owned and standby.warm == {ALL})
        assert standby.health.not_ready == ""
        await log.commit([pod(log, "shop", i) for i in range(6)])
        await until(lambda: decisions(log), lambda found: len(found) >= 4)
        assert (await log.last(log.subjects.checkpoint(ALL, "counting"))) is not None
        assert not standby.owned
        assert owner.owned
        await owner._membership.leave()  # what a stopping one says first
        await until(lambda: bool(standby.owned))
        assert standby.owned[ALL].fold.state.pods == {"shop": 6}
        await log.commit([pod(log, "shop", i) for i in range(6, 12)])
        await until(lambda: decisions(log), lambda found: len(found) >= 8)
        found = await decisions(log)
        assert len({d.id for d in found}) == len(found) == 8


async def test_a_standby_that_takes_over_has_the_mapping_of_time_that_came_before_the_last_checkpoint(
    log: Log,
) -> None:
    """It only folds that event, and its timers would be set by the old mapping."""
    async with replica(log) as first, replica(log) as second:
        hosts = (first, second)
        await until(lambda: any(h.owned for h in hosts) and any(h.warm for h in hosts))
        owner, standby = (first, second) if first.owned else (second, first)
        clock = ClockSet(at=1.0, wall=1.0, log=1.0, speed=60.0)
        said = await log.commit(
            [Message(log.subjects.config("clock"), registry.encode(clock)), pod(log, "shop", 0)]
        )
        await until(lambda: owner.owned[ALL].committed >= said.last_seq)
        await owner._membership.leave()
        await until(lambda: bool(standby.owned))
        assert (standby.owned[ALL].fold.state.pods, standby.clock.speed) == ({"shop": 1}, 60.0)


async def test_a_killed_owner_is_replaced_by_the_standby_process(nats: EmbeddedServer) -> None:
    async with await Log.connect(nats.url, "bench", timeout_s=10.0) as log:
        await install_log(log, Plan(slots=4, deciders=("counting", "reminding")))
        world = World(log, nats.url, "cluster")
        await world.start(1)
        try:
            await until(lambda: bool(world.owner))
            alone = world.owner[ALL]
            await world.add()
            await until(lambda: members(log), lambda found: found >= 2)
            await world.settled()
            before = world.owner[ALL]
            owner = world.replicas[0 if before == alone else 1]
            owner.kill()
            await until(lambda: world.owner[ALL] != before)
        finally:
            await world.stop()


async def members(log: Log) -> int:
    """Entries in the membership bucket."""
    answer = await log.api(f"STREAM.INFO.KV_{log.stream}_members", {})
    return int(answer["state"]["num_subjects"])
