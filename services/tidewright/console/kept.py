"""What takes a fold, kept: of a moment that has passed for good, of now until it is worth being made again."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tidewright.asking.point_in_time import Moment
from tidewright.asking.source import Source

KEPT = 12
LEAST_S = 1.0
PAUSES = 4.0
"""What took so long to be made is shown for so many times as long: at most a fifth of a core goes into it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Made:
    """Something that was made of the log up to a sequence.

    Attributes:
        sequence: what it speaks of.
        until: when, of `time.monotonic`, it is made again, where it is of now.
    """

    value: Any
    sequence: int
    until: float


class Kept:
    """What was made of a log lately, by what it is and the sequence it is of."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._of: OrderedDict[tuple[str, int], Made] = OrderedDict()
        self._now: OrderedDict[str, Made] = OrderedDict()
        self._remade = source.remade
        self._lock = asyncio.Lock()

    async def of(self, name: str, moment: Moment, make: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """What `make` answers, and the sequence it is of; of now it may be a few sequences old."""
        async with self._lock:
            if self._remade != self._source.remade:
                self._of.clear()
                self._now.clear()
                self._remade = self._source.remade
            found = self._of.get((name, moment.seq))
            if found is None and moment.end:
                latest = self._now.get(name)
                if latest is not None and time.monotonic() < latest.until:
                    found = latest
            if found is None:
                begun = time.monotonic()
                value = await make()
                took = time.monotonic() - begun
                found = Made(value, moment.seq, begun + took + max(LEAST_S, PAUSES * took))
                self._of[name, moment.seq] = found
                while len(self._of) > KEPT:
                    self._of.popitem(last=False)
                if moment.end:
                    self._now[name] = found
                    self._now.move_to_end(name)
                    while len(self._now) > KEPT:  # names may say what is tried, of which there is no end
                        self._now.popitem(last=False)
            return found.value, found.sequence

    def latest(self, name: str) -> Any:
        """What was made last of now, however long ago, as long as it is kept; None when it is not."""
        found = self._now.get(name)
        return None if found is None or self._remade != self._source.remade else found.value
