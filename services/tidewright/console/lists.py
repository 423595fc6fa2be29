"""Lists of objects as of any moment, kept so that a page costs what has changed since, and not what there is.

For each kind the last words at the end of the log are held, as `tidewright get` finds them, with a row for each object. What
comes is taken in when somebody asks. A moment before is made of the nearest later one that is held: only the subjects that were
spoken of since are asked for once more. What was asked for is kept, the last few moments of it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from msgspec.structs import replace

from tidewright.asking.answers.form import stamp
from tidewright.asking.answers.listing import ListedObject
from tidewright.asking.listing import LISTED, Board, filled
from tidewright.asking.point_in_time import Moment
from tidewright.asking.source import Source
from tidewright.host.fold.explainer import Reference
from tidewright.log.reader import Record

KEPT = 24
"""Lists of earlier moments that are kept."""
AT_ANY_TIME = float("-inf")
"""As of which rows are made that are kept: what holds an object is there with its end, whatever the time is."""
TOO_FAR = 50_000
"""Sequences behind which a list is made anew instead of being brought up to date."""
TITLES = {
    "watermarkpodautoscaler": "Autoscalers",
    "nodegroup": "Node groups",
    "provisioningrequest": "Requests",
    "workloadspread": "Spreads",
    "shardset": "Shard sets",
    "capacitybuffer": "Buffers",
}
"""Kinds that have a list, in the order of the first page, and what it is called."""
ALL_KINDS = tuple(LISTED)


@dataclass
class Rows:
    """The objects of a kind as of a moment.

    Attributes:
        board: the last words about them.
        at: log time of the moment, seconds.
        rows: a row each, with the end of what holds the object, also where that has passed, and without what is measured.
        spoken: subject to the sequence of its last word.
    """

    board: Board
    at: float
    rows: dict[Reference, ListedObject] = field(default_factory=dict)
    spoken: dict[str, int] = field(default_factory=dict)
    _order: list[Reference] | None = None
    _items: tuple[ListedObject, ...] | None = None

    def items(self) -> tuple[ListedObject, ...]:
        """The rows as of the moment, by namespace and name; those that are shown are `whole`."""
        if self._items is None:
            ordered, at = (self.rows[asked] for asked in self.order()), stamp(self.at)
            self._items = tuple(
                row if row.held_until is None or row.held_until > at else replace(row, held_until=None)
                for row in ordered
            )
        return self._items

    def whole(self, items: Iterable[ListedObject]) -> tuple[ListedObject, ...]:
        """Some rows, with what is measured: working that out for ten thousand takes longer than reading them."""
        return tuple(
            replace(item, measured=self.board.measured(Reference(item.kind, item.namespace, item.name)))
            for item in items
        )

    def order(self) -> list[Reference]:
        """The objects by namespace and name."""
        if self._order is None:
            self._order = sorted(self.rows, key=lambda r: (r.namespace, r.name))
        return self._order

    def again(self, touched: set[Reference], at: float) -> None:
        """Make the rows of some objects anew; it is `at` now, log time in seconds."""
        if touched or at != self.at:
            self._items = None
        self.at = at
        for asked in touched:
            row, before = self.board.row(asked, AT_ANY_TIME), self.rows.get(asked)
            if (row is None) != (before is None):
                self._order = None
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
        self._remade = source.remade
        self._lock = asyncio.Lock()

    async def of(self, kind: str, moment: Moment) -> Rows:
        """The objects of a kind as of a moment."""
        [rows] = await self.of_all((kind,), moment)
        return rows

    async def of_all(self, kinds: Sequence[str], moment: Moment) -> list[Rows]:
        """Those of several kinds; they are asked for beside one another."""
        async with self._lock:
            self._of_this_log()
            await self._bring_up(kinds, moment)
            if moment.end or moment.seq >= self._position:
                for kind in kinds:
                    self._now[kind].again(set(), moment.at)
                return [self._now[kind] for kind in kinds]
            absent = [kind for kind in kinds if (kind, moment.seq) not in self._before]
            found = await asyncio.gather(
                *(self._earlier(self._nearest(kind, moment.seq), moment) for kind in absent)
            )
            self._before.update(((kind, moment.seq), rows) for kind, rows in zip(absent, found, strict=True))
            for kind in kinds:
                self._before.move_to_end((kind, moment.seq))
            asked = [self._before[kind, moment.seq] for kind in kinds]
            # A sequence may be asked for by several times, between which what holds an object has ended.
            for rows in asked:
                rows.again(set(), moment.at)
            while len(self._before) > KEPT:
                self._before.popitem(last=False)
            return asked

    def _of_this_log(self) -> None:
        """Keep nothing of another log that had the name before."""
        if self._remade != self._source.remade:
            self._now.clear()
            self._before.clear()
            self._position, self._remade = 0, self._source.remade

    async def _bring_up(self, kinds: Sequence[str], moment: Moment) -> None:
        if moment.seq - self._position > TOO_FAR:
            self._now.clear()
        if self._now and moment.seq > self._position:
            await self._take_in(moment)
        if not self._now:
            self._position = max(self._position, (await self._source.bounds())[1])
        absent = [kind for kind in kinds if kind not in self._now]
        found = await asyncio.gather(*(self._made(kind, moment) for kind in absent))
        self._now.update(zip(absent, found, strict=True))

    async def _made(self, kind: str, moment: Moment) -> Rows:
        rows = Rows(Board(self._source, kind), moment.at)
        board = rows.board

        def meanwhile() -> None:
            rows.again(board.facts.keys() - rows.rows.keys(), moment.at)

        words = await filled(board, self._position, meanwhile)
        for record in words:
            rows.spoken[record.subject] = record.seq
        rows.again(board.spoken_of(words) | (set(board.references()) - rows.rows.keys()), moment.at)
        return rows

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
        rows = Rows(board, moment.at, dict(base.rows), dict(base.spoken), base.order())
        for subject in later:
            del rows.spoken[subject]
        rows.spoken.update((record.subject, record.seq) for record in words)
        rows.again(touched, moment.at)
        return rows
