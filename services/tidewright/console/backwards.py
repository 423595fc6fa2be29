"""What lies before a moment, the last first, without reading the log through: what is wanted is looked for from the end."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import accumulate

import msgspec

from tidewright.asking.lines import subject_object
from tidewright.asking.point_in_time import INTERLEAVED, is_past
from tidewright.asking.source import Source
from tidewright.log.reader import Record

STEP = 1_000
"""Sequences that are looked at first, and twice as many at each further try."""
AHEAD = 100
"""Records that are asked for at once: what lies behind the part is read for nothing."""
KEPT = 64
KEPT_RECORDS = 20_000
"""Records of all searches that are kept: of one that moves with the end of the log there is another one each second."""


class _Timed(msgspec.Struct):
    at: float = 0.0


_timed = msgspec.json.Decoder(_Timed)


def time_of(record: Record) -> float | None:
    """The log time of a record, without decoding the rest; None where it has none."""
    try:
        return _timed.decode(record.body).at
    except msgspec.MsgspecError:
        return None


class Scan(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        found: records, the last first, with the log time that was reached with each of them: where its own stamp lies before that of one
            that stands before it, the later time. So no time that is shown goes back along the log.
        looked_back_to: the sequence up to which was looked back.
        whole: everything in the stretch was looked at.
    """

    found: tuple[tuple[Record, float], ...]
    looked_back_to: int
    whole: bool


class Backwards:
    """Searches from moments of one log; the last ones are kept."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept: OrderedDict[tuple[object, ...], Scan] = OrderedDict()

    async def scan(
        self,
        key: tuple[object, ...],
        patterns: Sequence[str],
        accepts: Callable[[Record], bool],
        *,
        up_to: int,
        since: float,
        enough: int,
        most: int,
    ) -> Scan:
        """Records at or before a sequence and not before a log time, until there are enough or `most` sequences are behind.

        `key` tells searches with other patterns or another `accepts` apart.
        """
        full = (self._source.remade, *key, up_to, since, enough, most)
        scan = self._kept.get(full)
        if scan is None:
            scan = self._kept[full] = await self._scan(patterns, accepts, up_to, since, (enough, most))
        self._kept.move_to_end(full)
        while len(self._kept) > 1 and (len(self._kept) > KEPT or self._records() > KEPT_RECORDS):
            self._kept.popitem(last=False)
        return scan

    def _records(self) -> int:
        return sum(len(scan.found) for scan in self._kept.values())

    async def _scan(
        self,
        patterns: Sequence[str],
        accepts: Callable[[Record], bool],
        up_to: int,
        since: float,
        bounds: tuple[int, int],
    ) -> Scan:
        enough, most = bounds
        first, _ = await self._source.bounds()
        found: list[tuple[Record, float]] = []
        high, step = up_to, STEP
        while high >= first and len(found) < enough and up_to - high < most:
            low = max(first, high - step + 1, up_to - most + 1)
            part, oldest = await self._part(patterns, accepts, low, high)
            found += [(record, at) for record, at in reversed(part) if at >= since]
            high, step = low - 1, step * 2
            if oldest is not None and oldest < since and low > first + INTERLEAVED:
                return Scan(_reached(found), high + 1, whole=True)
        return Scan(_reached(found), high + 1, whole=high < first)

    async def _part(
        self, patterns: Sequence[str], accepts: Callable[[Record], bool], low: int, high: int
    ) -> tuple[list[tuple[Record, float]], float | None]:
        part: list[tuple[Record, float]] = []
        oldest: float | None = None
        for record in sorted(await self._between(patterns, low, high), key=lambda one: one.seq):
            if not is_past(self._source, record) or (at := time_of(record)) is None:
                continue
            oldest = at if oldest is None else oldest
            if accepts(record):
                part.append((record, at))
        return part, oldest

    async def _between(self, patterns: Sequence[str], low: int, high: int) -> list[Record]:
        """What matches filters that do not overlap, of a part that is short beside what lies behind it."""

        async def of(pattern: str) -> list[Record]:
            found: list[Record] = []
            async with aclosing(self._source.records(pattern, low - 1, AHEAD)) as records:
                async for record in records:
                    if record.seq > high:
                        break
                    found.append(record)
            return found

        return [record for part in await asyncio.gather(*map(of, patterns)) for record in part]


def _reached(found: Sequence[tuple[Record, float]]) -> tuple[tuple[Record, float], ...]:
    times = accumulate((at for _, at in reversed(found)), max)
    told = [(record, at) for (record, _), at in zip(reversed(found), times, strict=True)]
    return tuple(reversed(told))


def class_of(record: Record) -> str:
    """The class of a record, by its subject."""
    return subject_object(record.subject)[0]
