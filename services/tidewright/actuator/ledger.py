"""Which decisions have their outcome: a position, and what is done beyond it. Pure.

Effects finish out of order across targets. The position is the sequence up to which every decision
has its outcome on the log; those beyond it that have one are listed, so that a restart neither
applies a decision twice nor forgets one.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import msgspec

from tidewright.host.loop import fenced


class ActPosition(fenced.Position, frozen=True, kw_only=True, tag="checkpoint.act.v1"):
    """Where the actuator stands.

    Attributes:
        position: every effect up to this sequence has its outcome.
        done: sequences beyond it that have theirs, ascending.
        begun: sequences beyond it for which a request may have been made that must not be made twice, ascending.
        apart: where to begin to look for outcomes that are on the log and not named here; 0: there are none before
            this checkpoint, so that those behind it are the only ones.
    """

    position: int = 0
    done: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()
    apart: int = 0

    def seen(self, sequence: int) -> ActPosition:
        """As it is taken over by who found it at this sequence: what was appended behind it is still to be looked for."""
        return msgspec.structs.replace(self, apart=self.apart or sequence)


class Ledger:
    """Open and finished decisions by sequence."""

    def __init__(self, position: int = 0, done: tuple[int, ...] = ()) -> None:
        self._read = position
        self._open: list[int] = []
        self._done: set[int] = set(done)
        self._begun: set[int] = set()

    def take(self, seq: int) -> bool:
        """A decision was read; False when it has its outcome already."""
        self._read = max(self._read, seq)
        if seq in self._done:
            return False
        insort(self._open, seq)
        return True

    def passed(self, seq: int) -> None:
        """Something that needs no outcome was read."""
        self._read = max(self._read, seq)

    def finish(self, seq: int) -> None:
        """A decision got its outcome."""
        index = bisect_left(self._open, seq)
        if index == len(self._open) or self._open[index] != seq:
            raise ValueError(f"decision at sequence {seq} is not open")
        del self._open[index]
        self._done.add(seq)
        self._begun.discard(seq)

    def begin(self, seq: int) -> bool:
        """A request is about to be made for an open decision that must not be made twice; False when that was said."""
        if seq in self._begun:
            return False
        self._begun.add(seq)
        return True

    @property
    def begun(self) -> tuple[int, ...]:
        """Open ones for which such a request may have been made, ascending."""
        return tuple(sorted(self._begun))

    @property
    def position(self) -> int:
        """Every effect up to here has its outcome."""
        return self._open[0] - 1 if self._open else self._read

    @property
    def done(self) -> tuple[int, ...]:
        """Finished beyond the position, ascending."""
        position = self.position
        self._done = {seq for seq in self._done if seq > position}
        return tuple(sorted(self._done))

    @property
    def open(self) -> int:
        """How many wait for their outcome."""
        return len(self._open)
