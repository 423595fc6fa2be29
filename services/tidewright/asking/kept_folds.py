"""States that were folded of a log lately, so that the next question near them need not fold from far away.

A question about a moment folds a service's state from the snapshot before it. Who looks on moves by little: the cause
of a decision lies shortly before it, the slider of a console goes back and forth. So on the way states are kept, as
they are at checkpoints, where a fold can be gone on from. They are the asker's own: nothing is written to the log or to
the buckets of the services. In its memory are those of a moment ago; in files (`tidewright.asking.fold_files`), for
the next command, those that took long to fold. What is kept is bounded, and what was used least goes first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from tidewright.asking.fold_files import FoldFiles, KeptFold, Whose
from tidewright.log.snapshots import encode

if TYPE_CHECKING:
    from tidewright.host.fold.order import Fold
    from tidewright.log.reader import Record

MOST_BYTES = 32 * 2**20
"""Of all states that are kept of a log in memory, compressed."""
WORTH = 4.0
"""Folding has to take so many times as long as keeping does: the better part of a question is answering it."""
FIRST_S = 0.002
"""How long keeping a state takes, seconds, as long as it was not tried."""
WORTH_A_FILE_S = 0.2
"""Seconds of folding that are worth a file."""


class KeptFolds:
    """The states that are kept of one log."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self.files: FoldFiles | None = None
        """Where some are kept for the next command; None as long as nobody has asked for it."""
        self._kept: OrderedDict[tuple[Whose, int], KeptFold] = OrderedDict()
        self._takes_s: dict[Whose, float] = {}
        self._in_no_file_s: dict[Whose, float] = {}

    def nearest(self, whose: Whose, up_to: int) -> KeptFold | None:
        """The last one in memory at or before a sequence."""
        positions = [position for of, position in self._kept if of == whose and position <= up_to]
        if not positions:
            return None
        self._kept.move_to_end((whose, max(positions)))
        return self._kept[whose, max(positions)]

    def filed(self, whose: Whose, software: str, up_to: int) -> KeptFold | None:
        """The last one in a file: of the namespace, or of the whole slot, which goes for each in it."""
        if self.files is None:
            return None
        of = dict.fromkeys((whose, whose._replace(namespace="")))
        found = [kept for one in of if (kept := self.files.nearest(one, software, up_to)) is not None]
        return max(found, key=lambda kept: kept.position, default=None)

    def unfile(self, whose: Whose, software: str, kept: KeptFold) -> None:
        """Remove one from its file: it is of another log, or does not read."""
        for one in (whose, whose._replace(namespace="")):
            if self.files is not None:
                self.files.drop(one, software, kept.position)

    def is_due(self, whose: Whose, folded_s: float) -> bool:
        """Whether to keep a state, after so many seconds of folding since the last one."""
        return folded_s >= WORTH * self._takes_s.get(whose, FIRST_S)

    def keep(
        self, whose: Whose, fold: Fold[Any], checkpoint: Record, software: str = "", folded_s: float = 0.0
    ) -> None:
        """Keep a state as it is at a checkpoint, `folded_s` seconds of folding after the last one; in files by `software` alone."""
        if (whose, fold.position) in self._kept:
            return
        begun = time.perf_counter()
        data = encode(fold.snapshot(checkpoint_seq=checkpoint.seq, position=fold.position))
        self._takes_s[whose] = time.perf_counter() - begun
        kept = KeptFold(checkpoint, fold.position, data)
        self._kept[whose, fold.position] = kept
        self.bytes += len(data)
        while self.bytes > self.most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= len(oldest.data)
        if self.files is None or not software:
            return
        unfiled_s = self._in_no_file_s.get(whose, 0.0) + folded_s
        if unfiled_s >= WORTH_A_FILE_S:
            self.files.put(whose, software, kept)
            unfiled_s = 0.0
        self._in_no_file_s[whose] = unfiled_s

    def forget(self) -> None:
        """Keep nothing any more: it is another log."""
        self._kept.clear()
        self.bytes = 0
