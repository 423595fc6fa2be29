"""Who takes over from an actuator that could not say what it has done takes none of it back, and does none of it twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.unit.actuator.effects import ANYTHING, Watched, status
from tests.unit.actuator.test_unsound import outcomes
from tests.unit.actuator.test_unwatched import decide, said
from tests.waiting import until
from tidewright.actuator import acting
from tidewright.actuator.acting import Actuator
from tidewright.actuator.allowance import Allowance
from tidewright.actuator.apply import Applier
from tidewright.actuator.options import Options
from tidewright.actuator.verdict import Done, Result
from tidewright.events.base import JsonObject
from tidewright.events.decisions import SetStatus
from tidewright.events.outcomes import Applied, Superseded
from tidewright.log.connection import Log
from tidewright.log.reader import Reader, Record

ROUND_TRIPS = 100
"""Of a question to the log: of its own an effect needs less than ten until it is made."""


class Object:
    """A status that is made equal, as the API server has it."""

    def __init__(self) -> None:
        self.status: JsonObject = {}
        self.written: list[JsonObject] = []

    async def attempt(self, effect: SetStatus, allowance: Allowance, marks: object) -> Result:
        await allowance.take()
        if self.status == effect.status:
            return Done(found=True)
        self.status = effect.status
        self.written.append(effect.status)
        return Done()

    def finished(self, effect: object) -> None:
        """Nothing is kept."""


class Halting:
    """A reader that hands out one record, and the others when it may."""

    def __init__(self, reader: Reader, go: asyncio.Event) -> None:
        self._reader, self._go = reader, go
        self.waits = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def __aenter__(self) -> Halting:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.close()

    async def fetch(self, limit: int, timeout_s: float) -> list[Record]:
        if self._reader.position:
            self.waits = True
            await self._go.wait()
        return await self._reader.fetch(1, timeout_s)


@asynccontextmanager
async def acts(log: Log, on: Object) -> AsyncIterator[Actuator]:
    actuator = Actuator(
        Options(nats_url="", cluster="test"), log, cast("Applier", on), judging=lambda *_: ANYTHING, lookout=Watched(),
    )  # fmt: skip
    task = asyncio.create_task(actuator.run())
    try:
        yield actuator
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_carried_out_before_what_had_been_decided_is_read(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two statuses of one object were written, and neither outcome is on the log: by the first alone the last would be taken back."""
    monkeypatch.setattr(acting, "OWNED_S", 0.0)
    there, go = Object(), asyncio.Event()

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async with acts(log, there) as first:
        await until(lambda: first._part.sequence)
        for appending in ("append", "commit"):
            monkeypatch.setattr(first._part, appending, never)
        await decide(log, status(1))
        await until(lambda: there.written == [{"replicas": 1}])
        await decide(log, status(2))
        await until(lambda: there.written == [{"replicas": 1}, {"replicas": 2}])
    assert await outcomes(log) == 0

    readers: list[Halting] = []
    plain = log.reader

    def reader(filters: list[str], **given: Any) -> Reader | Halting:
        if not filters[0].endswith(".decision.>"):
            return plain(filters, **given)
        readers.append(Halting(plain(filters, **given), go))
        return readers[-1]

    monkeypatch.setattr(log, "reader", reader)
    async with acts(log, there) as second:
        await until(lambda: readers and readers[0].waits)
        assert len(second._plan) == 1
        for _ in range(ROUND_TRIPS):
            await log.last(log.subjects.config("clock"))
        go.set()
        await until(lambda: outcomes(log), lambda found: found == 2)
    assert there.written == [{"replicas": 1}, {"replicas": 2}]
    found = await said(log)
    assert isinstance(found["web.status.1"], Superseded)
    last = found["web.status.2"]
    assert isinstance(last, Applied)
    assert last.found


async def test_who_finds_nothing_decided_acts_on_what_is_decided_next(log: Log) -> None:
    there = Object()
    async with acts(log, there) as actuator:
        await until(lambda: actuator._part.sequence and actuator._read_up.is_set())
        await decide(log, status(1))
        await until(lambda: outcomes(log), lambda found: found == 1)
    assert there.written == [{"replicas": 1}]


async def test_what_was_decided_last_may_age_out_before_it_is_read(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sequence is never reached then."""
    await decide(log, status(1))
    stored, asked = log.lookups.stored, 0

    async def later(query: dict[str, Any], stream: str = "") -> Record | None:
        nonlocal asked
        found = await stored(query, stream)
        if found is not None and query.get("last_by_subj", "").endswith(".decision.>"):
            asked += 1
            if asked == 1:
                return Record(found.seq + 10, found.subject, found.body, found.headers)
        return found

    monkeypatch.setattr(log.lookups, "stored", later)
    there = Object()
    async with acts(log, there):
        await until(lambda: outcomes(log), lambda found: found == 1)
    assert asked > 1
    assert there.written == [{"replicas": 1}]
