"""Lists of objects as of any moment, kept so that a page costs what has changed since, and not what there is.

For each kind the last words at the end of the log are held, as `tidewright get` finds them, with a row for each object. What
comes is taken in when somebody asks. A moment before is made of the nearest later one that is held: only the subjects that were
spoken of since are asked for once more. What was asked for is kept, the last few moments of it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import aclosing
from dataclasses import dataclass, field

from tidewright.asking.answers import ListedObject, stamp
from tidewright.asking.listing import LISTED, Board, filled
from tidewright.asking.point_in_time import Moment
from tidewright.asking.source import Source
from tidewright.host.fold.explainer import Reference
from tidewright.log.reader import Record

KEPT = 24
"""Lists of earlier moments that are kept."""
HELD_S = 6 * 3600.0
"""For so long at most a change is taken to hold something back."""
TOO_FAR = 50_000
"""Sequences behind which a list is made anew instead of being brought up to date."""
ALL_KINDS = tuple(LISTED)


@dataclass
class Rows:
    """The objects of a kind as of a moment.

    Attributes:
        board: the last words about them.
        rows: a row each.
        spoken: subject to the sequence of its last word.
    """

    board: Board
    rows: dict[Reference, ListedObject] = field(default_factory=dict)
    spoken: dict[str, int] = field(default_factory=dict)
    _sorted: tuple[ListedObject, ...] | None = None

    def items(self) -> tuple[ListedObject, ...]:
        """The rows by namespace and name."""
        if self._sorted is None:
            rows = self.rows
            self._sorted = tuple(rows[one] for one in sorted(rows, key=lambda r: (r.namespace, r.name)))
        return self._sorted

    def held_about(self, at: float) -> set[Reference]:
        """Those of which something may be held back at that time, and not at another: rows say so of their own time alone."""
        since = stamp(at - HELD_S)
        return {
            asked
            for asked, row in self.rows.items()
            if row.held_until is not None or (row.last_change is not None and row.last_change >= since)
        }

    def again(self, touched: set[Reference], now: float) -> None:
        """Make the rows of some objects anew."""
        if touched:
            self._sorted = None
        for asked in touched:
            row = self.board.row(asked, now)
            if row is None:
                self.rows.pop(asked, None)
            else:
                self.rows[asked] = row


class Lists:
    """The lists of one log."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._now: dict[str, Rows] = {}
        self._position = 0
        self._before: OrderedDict[tuple[str, int], Rows] = OrderedDict()
        self._lock = asyncio.Lock()

    async def of(self, kind: str, moment: Moment) -> Rows:
        """The objects of a kind as of a moment."""
        async with self._lock:
            await self._bring_up(kind, moment)
            if moment.end or moment.seq >= self._position:
                return self._now[kind]
            key = (kind, moment.seq)
            if key not in self._before:
                self._before[key] = await self._earlier(self._nearest(kind, moment.seq), moment)
                while len(self._before) > KEPT:
                    self._before.popitem(last=False)
            self._before.move_to_end(key)
            return self._before[key]

    async def _bring_up(self, kind: str, moment: Moment) -> None:
        if moment.seq - self._position > TOO_FAR:
            self._now.clear()
        if self._now and moment.seq > self._position:
            await self._take_in(moment)
        if not self._now:
            self._position = max(self._position, (await self._source.bounds())[1])
        if kind not in self._now:
            rows = Rows(Board(self._source, kind))
            for record in await filled(rows.board, self._position):
                rows.spoken[record.subject] = record.seq
            rows.again(set(rows.board.references()), moment.at)
            self._now[kind] = rows

    async def _take_in(self, moment: Moment) -> None:
        """What was said since, of all kinds that are held."""
        touched: dict[str, set[Reference]] = {kind: set() for kind in self._now}
        try:
            async with aclosing(self._source.records(after=self._position)) as records:
                async for record in records:
                    for kind, rows in self._now.items():
                        if rows.board.concerns(record):
                            touched[kind] |= rows.board.taken(record)
                            rows.spoken[record.subject] = record.seq
                    self._position = record.seq
        finally:  # where the log stops to answer on the way, what was taken in is not said again
            for kind, references in touched.items():
                self._now[kind].again(references, moment.at)

    def _nearest(self, kind: str, seq: int) -> Rows:
        """Of what is held of a kind the first moment that is not before a sequence."""
        later = [(held, rows) for (of, held), rows in self._before.items() if of == kind and held >= seq]
        return min(later, key=lambda one: one[0])[1] if later else self._now[kind]

    async def _earlier(self, base: Rows, moment: Moment) -> Rows:
        later = [subject for subject, seq in base.spoken.items() if seq > moment.seq]
        words: list[Record] = await self._source.earlier(later, moment.seq) if later else []
        board, touched = base.board.as_of(later, words)
        rows = Rows(board, dict(base.rows), dict(base.spoken))
        for subject in later:
            del rows.spoken[subject]
        rows.spoken.update((record.subject, record.seq) for record in words)
        rows.again(touched | rows.held_about(moment.at), moment.at)
        return rows
