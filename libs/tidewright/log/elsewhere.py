"""When a client leaves a server that answers nothing for another one.

A server that is paused, or cut off from the others while clients still reach it, keeps its connections: it would hold up
whoever has one until it is back. What is not answered is not answered by any server while they look for a leader, either;
trying another one then costs a connection, and is done now and then only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 2.5
"""Wall seconds for which one kind of question is not answered before another server is tried."""
AGAIN_S: Final = 6.0
"""Wall seconds between two tries. Whoever comes to a server reads from there only after up to two seconds, and after more on a
busy machine: one that left it again as soon as it leaves a silent one would be on its way for ever."""
FORGOTTEN_S: Final = 10.0
"""A kind of question that was not asked for so long, more than any pause between two attempts, is not being asked in vain."""


class Elsewhere:
    """Of one connection. Pure: times are of the given clock, seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[str, tuple[float, float]] = {}
        self._tried_at = float("-inf")

    def answered(self, what: str) -> None:
        """A question of this kind was answered."""
        self._since.pop(what, None)

    def missed(self, what: str, already_s: float = 0.0) -> bool:
        """One was not, and none for `already_s` before; whether another server is to be tried now."""
        now = self._monotonic()
        first, last = self._since.get(what, (now - already_s, now))
        if now - last > FORGOTTEN_S:
            first = now - already_s
        self._since[what] = (first, now)
        if now - first < PATIENCE_S or now - self._tried_at < AGAIN_S:
            return False
        self._tried_at = now
        self._since.clear()
        return True
