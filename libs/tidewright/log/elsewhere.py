"""When a client leaves a server that answers nothing for another one.

A server that is paused, or cut off from the others while clients still reach it, keeps its connections: it would hold up
whoever has one until it is back. What is not answered is not answered by any server while they look for a leader, either:
who left a server for that came by chance to the very one that is cut off, which went on answering questions for ten
seconds and took nothing. So one that is alive is left soon only where the leader behind it has lost the others, and otherwise
when no election takes so long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final

PATIENCE_S: Final = 2.5
"""Wall seconds for which one kind of question is not answered before another server is tried."""
ELECTION_S: Final = 9.0
"""Wall seconds in which servers have a leader again, nearly always: 4 to 9 after one was lost."""
SETTLE_S: Final = 4.0
"""Wall seconds between two tries. Whoever comes to a server hears of itself there after up to two seconds, and later on a busy
machine: one that left it again as soon as it leaves a silent one would be on its way for ever."""
FORGOTTEN_S: Final = 10.0
"""A kind of question that was not asked for so long, more than any pause between two attempts, is not being asked in vain."""


HEARD_S: Final = 2.0
"""A server that a leader has not heard for so long is lost to it: they say so every second."""


class Course(Enum):
    """What to do about a server that does not answer."""

    STAY = auto()
    LEAVE_UNLESS_ALIVE = auto()
    """Leave it when it shows no sign of life, or the leader that answers has lost the others."""
    LEAVE = auto()


class Elsewhere:
    """Of one connection. Pure: times are of the given clock, seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[str, tuple[float, float]] = {}
        self._left_at = float("-inf")

    def answered(self, what: str) -> None:
        """A question of this kind was answered."""
        self._since.pop(what, None)

    def missed(self, what: str, already_s: float = 0.0) -> Course:
        """One was not, and none for `already_s` before."""
        now = self._monotonic()
        first, last = self._since.get(what, (now - already_s, now))
        if now - last > FORGOTTEN_S:
            first = now - already_s
        self._since[what] = (first, now)
        if now - first < PATIENCE_S or now - self._left_at < SETTLE_S:
            return Course.STAY
        return Course.LEAVE if now - max(first, self._left_at) >= ELECTION_S else Course.LEAVE_UNLESS_ALIVE

    def left(self) -> None:
        """The server is being left."""
        self._left_at = self._monotonic()
        self._since.clear()


def leads(told: Mapping[str, Any]) -> bool:
    """Whether who answers for a stream can have something taken there, by the answer; no answer says nothing."""
    if "error" in told:
        return False
    return told["config"].get("num_replicas") == 1 or not alone(told.get("cluster") or {})


def alone(cluster: Mapping[str, Any]) -> bool:
    """Whether a leader, by what it says of its stream, hears too few of the others to have anything taken.

    One server that keeps a stream by itself hears nobody.
    """
    others = cluster.get("replicas") or ()
    heard = sum(not other.get("offline") and other.get("active", 0) / 1e9 < HEARD_S for other in others)
    return heard < (len(others) + 1) // 2 or not others
