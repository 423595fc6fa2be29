"""Log time for what this process writes: never back, and a jump of the clock is noticed. Pure.

The clocks are given as functions, so that a test (or a replay) decides what time it is.
"""

from __future__ import annotations

from collections.abc import Callable

from tidewright.events.facts import ClockJumped

JUMP_BOUND_S = 5.0
"""Wall and monotonic clock may drift apart by this much between two stamps before it is a fact."""


class Stamp:
    """The one source of `at` in a process.

    Attributes:
        last: the greatest `at` given out, or read back from the log; seconds.
    """

    def __init__(
        self, now: Callable[[], float], monotonic: Callable[[], float], speed: Callable[[], float]
    ) -> None:
        self._now = now
        self._monotonic = monotonic
        self._speed = speed
        self.last = 0.0
        self._seen: tuple[float, float] | None = None

    def now(self) -> float:
        """Log time, at least as great as any before."""
        self.last = max(self.last, self._now())
        return self.last

    def raise_to(self, at: float) -> None:
        """Something with this `at` is on the log already."""
        self.last = max(self.last, at)

    def rebase(self) -> None:
        """The mapping of the clock was changed on purpose: the next difference is no jump."""
        self._seen = None

    def jump(self) -> ClockJumped | None:
        """Compare the clock with the monotonic one since the last call; a fact when it jumped."""
        shown, ticked = self._now(), self._monotonic()
        before, self._seen = self._seen, (shown, ticked)
        if before is None:
            if shown < self.last - JUMP_BOUND_S * self._speed():
                # The clock lies behind what an earlier process wrote.
                return ClockJumped(at=self.now(), from_at=self.last, to_at=shown)
            return None
        expected = before[0] + (ticked - before[1]) * self._speed()
        if abs(shown - expected) <= JUMP_BOUND_S * self._speed():
            return None
        return ClockJumped(at=self.now(), from_at=expected, to_at=shown)
