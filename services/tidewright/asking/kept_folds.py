"""States that were folded of a log lately, so that the next question near them need not fold from far away.

A question about a moment folds a service's state from the snapshot before it. Who looks on moves by little: the cause
of a decision lies shortly before it, the slider of a console goes back and forth. So on the way states are kept, as
they are at checkpoints, where a fold can be gone on from. They are the asker's own, in its memory: nothing is written
to the log or to the buckets of the services. What is kept is bounded, and what was used least goes first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tidewright.log.snapshots import Snapshot, decode, encode

if TYPE_CHECKING:
    from tidewright.host.fold.order import Fold
    from tidewright.log.reader import Record

Whose: TypeAlias = tuple[str, int, str, str]
"""Service, version of its state, slot, and the namespace that alone was folded (empty: all of the slot)."""

MOST_BYTES = 32 * 2**20
"""Of all states that are kept of a log, compressed."""
WORTH = 4.0
"""Folding has to take so many times as long as keeping does: the better part of a question is answering it."""
FIRST_S = 0.002
"""How long keeping a state takes, seconds, as long as it was not tried."""


class KeptFold(msgspec.Struct, frozen=True):
    """A state at a checkpoint.

    Attributes:
        checkpoint: the record of it: where the log has another one there, it is another log by now.
        position: sequence up to which everything is folded.
        data: the state, as snapshots are stored.
    """

    checkpoint: Record
    position: int
    data: bytes

    def snapshot(self) -> Snapshot:
        """What a fold goes on from."""
        return decode(self.data)


class KeptFolds:
    """The states that are kept of one log."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[tuple[Whose, int], KeptFold] = OrderedDict()
        self._takes_s: dict[Whose, float] = {}

    def nearest(self, whose: Whose, up_to: int) -> KeptFold | None:
        """The last one at or before a sequence."""
        positions = [position for of, position in self._kept if of == whose and position <= up_to]
        if not positions:
            return None
        self._kept.move_to_end((whose, max(positions)))
        return self._kept[whose, max(positions)]

    def is_due(self, whose: Whose, folded_s: float) -> bool:
        """Whether to keep a state, after so many seconds of folding since the last one."""
        return folded_s >= WORTH * self._takes_s.get(whose, FIRST_S)

    def keep(self, whose: Whose, fold: Fold[Any], checkpoint: Record) -> None:
        """Keep a state as it is at a checkpoint."""
        if (whose, fold.position) in self._kept:
            return
        begun = time.perf_counter()
        data = encode(fold.snapshot(checkpoint_seq=checkpoint.seq, position=fold.position))
        self._takes_s[whose] = time.perf_counter() - begun
        self._kept[whose, fold.position] = KeptFold(checkpoint, fold.position, data)
        self.bytes += len(data)
        while self.bytes > self.most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= len(oldest.data)

    def forget(self) -> None:
        """Keep nothing any more: it is another log."""
        self._kept.clear()
        self.bytes = 0
