"""Records of single subjects that were read before: what is past stays as it is, and is asked for once.

What was decided about an object is looked for from the end of the log, and often from far away: nothing is decided for hours where
nothing has to be. Whoever looks at the object again, a little later or at a moment nearby, finds the same. So of a subject one stretch is
kept without a gap; what comes behind it is read on from there. It is bounded, and what was used least goes first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

from tidewright.log.reader import Record

MOST_BYTES = 16 * 2**20
"""Of all records that are kept of a log."""
BESIDE = 600
"""What a record takes beside its body, bytes."""

Reads: TypeAlias = "Callable[[str, int], AsyncGenerator[Record, None]]"
"""Records of a subject from a sequence on, the sequence not included."""

MOST_ANSWERS = 128

_seq = attrgetter("seq")


@dataclass(eq=False)
class _Stretch:
    """All records of a subject behind a sequence, up to the last of them that was seen.

    What comes behind that one is not known: whoever answered may not have had it yet.
    """

    after: int
    records: list[Record] = field(default_factory=list)
    bytes: int = 0

    @property
    def last(self) -> int:
        return self.records[-1].seq if self.records else self.after


class Remembered:
    """The stretches that are kept of one log."""

    def __init__(self, reads: Reads, most_bytes: int = MOST_BYTES) -> None:
        self._reads = reads
        self._most_bytes = most_bytes
        self._of: OrderedDict[str, _Stretch] = OrderedDict()
        self.bytes = 0

    async def records(self, subject: str, after: int) -> AsyncGenerator[Record, None]:
        """Records of a subject from `after` + 1 to the present end."""
        stretch = self._of.get(subject)
        if stretch is None:
            stretch = self._of[subject] = _Stretch(after)
        self._of.move_to_end(subject)
        while after < stretch.after:  # somebody else may have moved it meanwhile, and not so far
            await self._further_back(subject, stretch, after)
        kept = stretch.records[bisect_right(stretch.records, after, key=_seq) :]
        for record in kept:
            yield record
        reached = kept[-1].seq if kept else min(after, stretch.last)
        async with aclosing(self._reads(subject, reached)) as records:
            async for record in records:
                if record.seq > stretch.last:
                    stretch.records.append(record)
                    self._grown(subject, stretch, [record])
                if record.seq > after:
                    yield record

    def forget(self) -> None:
        """Keep nothing any more: it is another log."""
        self._of.clear()
        self.bytes = 0

    async def _further_back(self, subject: str, stretch: _Stretch, after: int) -> None:
        """Have a stretch begin behind an earlier sequence."""
        begins, found = stretch.after, list[Record]()
        async with aclosing(self._reads(subject, after)) as records:
            async for record in records:
                if record.seq > begins:
                    break
                found.append(record)
        if stretch.after == begins:  # and nobody else was quicker
            stretch.after, stretch.records = after, [*found, *stretch.records]
            self._grown(subject, stretch, found)

    def _grown(self, subject: str, stretch: _Stretch, by: Sequence[Record]) -> None:
        more = sum(len(record.body) + BESIDE for record in by)
        stretch.bytes += more
        if self._of.get(subject) is not stretch:
            return  # it was given up meanwhile, and goes with who reads it
        self.bytes += more
        while self.bytes > self._most_bytes:
            _, oldest = self._of.popitem(last=False)
            self.bytes -= oldest.bytes


class Answered:
    """Answers that stay as they are, by what they answer: the last ones that were asked for."""

    def __init__(self, most: int = MOST_ANSWERS) -> None:
        self._most = most
        self._of: OrderedDict[object, Any] = OrderedDict()

    def get(self, question: object) -> Any:
        """The answer; None where it is not known."""
        if question in self._of:
            self._of.move_to_end(question)
        return self._of.get(question)

    def put(self, question: object, answer: object) -> None:
        """Keep an answer."""
        self._of[question] = answer
        while len(self._of) > self._most:
            self._of.popitem(last=False)

    def forget(self) -> None:
        """Keep nothing any more: it is another log."""
        self._of.clear()
