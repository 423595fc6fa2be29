"""One event may decide more than fits into one batch: recorded in parts, whole after any crash."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.alone import Alone
from tests.unit.host.counting import COUNTING, State, decide
from tests.unit.host.test_host import decisions, pod
from tests.waiting import until
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.decisions import SetTimer
from tidewright.events.facts import PodObserved
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.verify import Report, Verification, Verifier
from tidewright.host.loop.host import Host
from tidewright.host.process.health import Health
from tidewright.log.connection import Committed, Log, Message
from tidewright.log.envelope import MAX_BATCH, Writer

COUNT = 2 * MAX_BATCH + 700


def burst(state: State, event: Event, touched: None) -> list[Decision]:
    """A pod named `burst` is worth `COUNT` holds, every tenth with a timer."""
    if not (isinstance(event, PodObserved) and event.name == "burst"):
        return decide(state, event, touched)
    decisions: list[Decision] = []
    for n in range(COUNT):
        target = ObjectRef(api_version="v1", kind="Namespace", namespace=event.namespace, name=f"n{n}")
        decisions.append(HoldReplicas(at=event.at, target=target, replicas=n, reason="burst"))
        if n % 10 == 0:
            decisions.append(SetTimer(at=event.at, key=f"burst/{n}", due=event.at + 3600))
    return decisions


BURSTING = replace(COUNTING, decide=burst)


class Dying:
    """The log of a process that is killed after some more commits."""

    def __init__(self, log: Log, commits: int) -> None:
        self._log, self._left = log, commits

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def commit(self, messages: Sequence[Message]) -> Committed:
        if len(messages) > MAX_BATCH // 2:
            if self._left == 0:
                raise asyncio.CancelledError
            self._left -= 1
        return await self._log.commit(messages)


async def run(log: Log, stop_when: int | None = None) -> None:
    """One life of the service: until all is recorded, or until it dies after `stop_when` large commits."""
    writer = Writer("counting")
    seen: Log = log if stop_when is None else Dying(log, stop_when)  # type: ignore[assignment]  # a stand-in
    host = Host(BURSTING, seen, Alone(writer.incarnation), Health("counting"), writer=writer)
    stop = asyncio.Event()
    task = asyncio.create_task(host.run(stop))
    if stop_when is not None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 90)
        return
    slot = log.slot_of("shop")
    await until(
        lambda: slot in host.owned and host.owned[slot].fold.folded >= 5 and not host.owned[slot].dirty
    )
    stop.set()
    await task


@pytest.mark.parametrize("deaths", [(), (1,), (2,), (1, 1, 0)])
async def test_more_decisions_than_a_batch_takes(log: Log, deaths: tuple[int, ...]) -> None:
    await log.commit([pod(log, "shop", n) for n in range(4)])
    await log.commit([pod(log, "shop", 0, name="burst")])
    for commits in deaths:
        await run(log, commits)
    await run(log)
    found = await decisions(log)
    numbers = [d.replicas for d in found if isinstance(d, HoldReplicas) and d.reason == "burst"]
    assert numbers == list(range(COUNT))
    ids = [d.id for d in found]
    assert len(ids) == len(set(ids))
    report = Report()
    inputs = Inputs("counting", COUNTING.kinds, log.subjects, log.slots, "slots")
    verification = Verification([Verifier(BURSTING, inputs, report)])
    async with log.reader([log.subjects.everything]) as reader:
        async for record in reader.until_current():
            verification.take(record)
    verification.finish()
    assert report.differences == []
    assert report.decisions == len(found)
