"""What lies before a moment, the last first, without reading the log through: what is wanted is looked for from the end."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing

import msgspec

from tidewright.asking.lines import subject_object
from tidewright.asking.point_in_time import INTERLEAVED, is_past
from tidewright.asking.source import Source
from tidewright.asking.told_time import told_of
from tidewright.log.reader import Record

STEP = 1_000
"""Sequences that are looked at first, and twice as many at each further try."""
AHEAD = 100
"""Records that are asked for at once: what lies behind the part is read for nothing."""
KEPT = 64
KEPT_RECORDS = 20_000
"""Records of all searches that are kept: of one that moves with the end of the log there is another one each second."""


class Scan(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        found: records, the last on the log first, with the time that is shown of each; `latest_first` has them in the order of these.
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
                return Scan(tuple(found), high + 1, whole=True)
        return Scan(tuple(found), high + 1, whole=high < first)

    async def _part(
        self, patterns: Sequence[str], accepts: Callable[[Record], bool], low: int, high: int
    ) -> tuple[list[tuple[Record, float]], float | None]:
        part: list[tuple[Record, float]] = []
        oldest: float | None = None
        for record in sorted(await self._between(patterns, low, high), key=lambda one: one.seq):
            if not is_past(self._source, record) or (at := told_of(record)) is None:
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


def latest_first(found: Iterable[tuple[Record, float]]) -> list[tuple[Record, float]]:
    """Records in the order of the times that are shown of them, the last first."""
    return sorted(found, key=lambda one: (one[1], one[0].seq), reverse=True)


def class_of(record: Record) -> str:
    """The class of a record, by its subject."""
    return subject_object(record.subject)[0]
