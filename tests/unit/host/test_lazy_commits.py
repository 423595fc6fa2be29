"""When a fold that decided nothing is committed: a second after the first event that no checkpoint covers, with all since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from tests.alone import Alone
from tests.unit.host.counting import COUNTING, State
from tests.unit.host.test_host import pod
from tests.waiting import until
from tidewright.events.base import Decision, Event
from tidewright.host.loop import host as loop
from tidewright.host.loop.host import Host
from tidewright.host.process.health import Health
from tidewright.log import checkpoint as checkpoints
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer

LONG_S = 3600.0


def nothing(_: State, __: Event, ___: None) -> Sequence[Decision]:
    return ()


@pytest.fixture
async def host(log: Log) -> AsyncIterator[Host[State]]:
    """Of a decider that only folds, with all slots its own."""
    writer = Writer("counting")
    running = Host(
        replace(COUNTING, decide=nothing), log, Alone(writer.incarnation), Health("counting"), writer=writer
    )
    stop = asyncio.Event()
    task = asyncio.create_task(running.run(stop))
    await until(lambda: len(running.owned) == log.slots)
    yield running
    stop.set()
    await task


async def test_a_burst_after_a_rest_has_one_checkpoint(
    monkeypatch: pytest.MonkeyPatch, log: Log, host: Host[State]
) -> None:
    monkeypatch.setattr(loop, "COMMIT_AFTER_S", LONG_S / 2)
    owned = host.owned[log.slot_of("shop")]
    owned.committed_at -= LONG_S
    owned.waiting_since -= LONG_S
    first = await log.last(log.subjects.checkpoint(owned.slot, "counting"))
    await log.commit([pod(log, "shop", 0)])
    await until(lambda: owned.dirty == 1)
    await log.commit([pod(log, "shop", 1)])
    await until(lambda: owned.dirty == 2)
    assert await log.last(log.subjects.checkpoint(owned.slot, "counting")) == first
    owned.waiting_since -= LONG_S
    await until(lambda: not owned.dirty)
    record = await log.last(log.subjects.checkpoint(owned.slot, "counting"))
    assert record is not None
    assert checkpoints.decode(record.body).folded == 2
    async with log.reader([log.subjects.checkpoint(owned.slot, "counting")]) as reader:
        written = [checkpoints.decode(found.body).folded async for found in reader.until_current()]
    assert written == [0, 2]
