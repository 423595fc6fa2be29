"""Events in the order of the times that are shown of them, as they are read along the log.

The log has them in the order in which they came: a decision stands behind what came while it was worked out, and writers
stamp what they see and are stored a little later. By their times a decision follows what it answers, which is how a log is
folded, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from heapq import heappop, heappush
from typing import TypeAlias

from tidewright.asking.told_time import told
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.log.reader import Record

BEHIND = 2_000
"""So many places at most an event is looked for behind the place that its time would give it. Of a decider that had been away for
longer, decisions about what came meanwhile are listed where they stand.
"""
HELD_S = 0.5
"""So long waits what comes on a log that is followed for what comes after it and belongs before it, wall seconds."""

Shown: TypeAlias = "tuple[Record, Event | registry.Unknown | registry.NotAnEvent]"


class Ordering:
    """Events that wait until none is to be expected that belongs before them."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, float, Shown]] = []
        self._at, self._last = 0.0, 0

    def put(self, one: Shown, now: float = 0.0) -> None:
        """The next one of the log, at a time of some clock; what does not decode stands at the time of the one before it."""
        record, event = one
        self._at = self._at if isinstance(event, registry.NotAnEvent) else told(event)
        self._last = record.seq
        heappush(self._waiting, (self._at, record.seq, now, one))

    def due(self, before: float = 0.0) -> Iterator[Shown]:
        """Those that wait no longer: so many places are behind them, or they came before that time."""
        while self._waiting:
            _, seq, came, one = self._waiting[0]
            if self._last - seq < BEHIND and came >= before:
                return
            heappop(self._waiting)
            yield one

    def rest(self) -> Iterator[Shown]:
        """All of them."""
        while self._waiting:
            yield heappop(self._waiting)[-1]

    @property
    def first_came(self) -> float | None:
        """When that came which is next; None where nothing waits."""
        return self._waiting[0][2] if self._waiting else None


async def in_order(shown: AsyncGenerator[Shown, None], *, follow: bool) -> AsyncGenerator[Shown, None]:
    """Events of a log, in its order, by their times."""
    ordering = Ordering()
    if follow:
        async with aclosing(_followed(shown, ordering)) as coming:
            async for one in coming:
                yield one
        return
    async for one in shown:
        ordering.put(one)
        for due in ordering.due():
            yield due
    for due in ordering.rest():
        yield due


async def _followed(shown: AsyncGenerator[Shown, None], ordering: Ordering) -> AsyncGenerator[Shown, None]:
    now = asyncio.get_running_loop().time
    coming: asyncio.Task[Shown | None] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(shown))
            came = ordering.first_came
            await asyncio.wait({coming}, timeout=None if came is None else max(0.0, came + HELD_S - now()))
            if coming.done():
                if (one := coming.result()) is None:
                    break
                coming = None
                ordering.put(one, now())
            for due in ordering.due(now() - HELD_S):
                yield due
        for due in ordering.rest():
            yield due
    finally:
        if coming is not None and not coming.done():
            coming.cancel()
            await asyncio.wait({coming})


async def _next(shown: AsyncGenerator[Shown, None]) -> Shown | None:
    return await anext(shown, None)
