"""How a writer of batches leaves a stream to the others.

The server takes what is appended to a stream one after the other, and an atomic batch is slow: with
file storage each has a store of its own until it is committed. While somebody commits without a pause,
the appends that a request waits for stand behind it. So who commits batches gathers for a multiple of
the time that they took, once a few came one after another: what comes after a rest is committed at once.
See decision record 0025.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 6.0
"""A commit of t seconds has the next begin so many times t later: who never rests commits a sixth of the time."""
MOST_S = 0.1
"""The most that one commit asks for, however long it took: what is gathered is waited for, too."""
AHEAD_S = 0.1
"""What may be owed before the next commit has to wait."""
URGENT_S = 2.0
"""The same of a commit that somebody waits for: a drain of fifty nodes is some hundred of these within a second and a half, each waited for
by the next. It is paid back like any other, by those that are not urgent."""

LONGEST_S = 0.4
"""The longest that a commit waits for what others owe: a pod that came during a drain is told of."""


class Pace:
    """When one writer commits next."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._paid_at = 0.0

    def took(self, seconds: float) -> None:
        """A commit that took so long has just ended."""
        self._paid_at = max(self._paid_at, self._monotonic_s()) + min(seconds * SHARE, MOST_S)

    @property
    def left_s(self) -> float:
        """Seconds until the next commit may begin."""
        return self.left(urgent=False)

    def left(self, *, urgent: bool) -> float:
        """Seconds until the next commit may begin, which is urgent or not."""
        owed = self._paid_at - self._monotonic_s()
        return max(0.0, min(owed - (URGENT_S if urgent else AHEAD_S), LONGEST_S))
