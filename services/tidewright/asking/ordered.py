"""Events in the order of the times that are shown of them, as they are read along the log.

The log has them in the order in which they came: a decision stands behind what came while it was worked out, and writers
stamp what they see and are stored a little later. By their times a decision follows what it answers, which is how a log is
folded, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from heapq import heappop, heappush
from typing import TypeAlias

from tidewright.asking.told_time import told
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.log.reader import Record

BEHIND = 2_000
"""So many places at most an event is looked for behind the place that its time would give it, and so long at most waits one before
which others belong. Of a decider that had been away for longer, decisions about what came meanwhile are listed where they stand, and so
is what a clock that is wrong has stamped far ahead.
"""
HELD_S = 0.5
"""So long waits what comes on a log that is followed for what comes after it and belongs before it, wall seconds."""

Shown: TypeAlias = "tuple[Record, Event | registry.Unknown | registry.NotAnEvent]"


class Ordering:
    """Events that wait until none is to be expected that belongs before them."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Shown]] = []
        self._came: deque[tuple[int, float]] = deque()
        """Sequences in the order of the log, and when each came; of those that do not wait any more where one before them does."""
        self._given: set[int] = set()
        self._at, self._last = 0.0, 0

    def put(self, one: Shown, now: float = 0.0) -> None:
        """The next one of the log, at a time of some clock; what does not decode stands at the time of the one before it."""
        record, event = one
        self._at = self._at if isinstance(event, registry.NotAnEvent) else told(event)
        self._last = record.seq
        self._came.append((record.seq, now))
        heappush(self._waiting, (self._at, record.seq, one))

    def due(self, before: float = 0.0) -> Iterator[Shown]:
        """Those that wait no longer: so many places are behind them, or they came before that time. What belongs before one goes with it."""
        while self._came:
            seq, came = self._came[0]
            if self._last - seq < BEHIND and came >= before:
                return
            while seq not in self._given:
                yield self._next()
            self._forget()

    def rest(self) -> Iterator[Shown]:
        """All of them."""
        while self._waiting:
            yield self._next()
        self._forget()

    def _next(self) -> Shown:
        _, seq, one = heappop(self._waiting)
        self._given.add(seq)
        return one

    def _forget(self) -> None:
        while self._came and self._came[0][0] in self._given:
            self._given.remove(self._came.popleft()[0])

    @property
    def first_came(self) -> float | None:
        """When that came which has waited longest; None where nothing waits."""
        return self._came[0][1] if self._came else None


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
