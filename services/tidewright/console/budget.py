"""How much processor time children may take: a small part of a core on average, and some of it at once for who tries something."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.1
"""Of one core, averaged over minutes."""
SAVED_S = 30.0
"""Seconds of processor time that are saved up while nothing is tried: sliders can be moved for a while."""


class Budget:
    """Processor time that comes at a steady pace, is saved up to a limit, and is spent by what works.

    What has begun comes to its end: it may spend more than there is, and then the next one waits for longer.

    Attributes:
        spent_s: in all, seconds.
    """

    def __init__(
        self, share: float = SHARE, saved_s: float = SAVED_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._share, self._most_s, self._monotonic = share, saved_s, monotonic
        self._left_s, self._at = saved_s, monotonic()
        self.spent_s = 0.0

    @property
    def wait_s(self) -> float:
        """Wall seconds until something may begin; 0 when it may now."""
        return max(0.0, -self._left() / self._share)

    def spend(self, used_s: float) -> None:
        """So much processor time was taken, seconds."""
        self._left_s = self._left() - used_s
        self.spent_s += used_s

    def _left(self) -> float:
        now = self._monotonic()
        self._left_s = min(self._most_s, self._left_s + self._share * (now - self._at))
        self._at = now
        return self._left_s
