"""Whether the log is still the one that this process has been reading.

A log that was wiped, made anew, or put back to an earlier state goes on to answer: sequences are counted
from somewhere else, and who goes on as if nothing had happened acts on what is no longer so. So who
runs for long looks now and then, and stops when what it has seen is gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn

import msgspec

from tidewright.log.diagnostics import get_logger
from tidewright.log.errors import LogError, LogUnavailable, Unsound

CHECK_S = 2.0
"""Between two looks, wall seconds."""
DOUBT_S = 15.0
"""What a former leader may say as well is believed after so long."""
AGE_MARGIN = 0.9
"""Of the maximum age: what is younger than that has not aged out, whatever the two clocks differ by."""
DO = "stop every service, find out who did it, put the log back, start them again: docs/durability.md, A log that cannot be gone on from"

_log = get_logger(__name__)


class Extent(msgspec.Struct, frozen=True):
    """What a stream says of itself.

    Attributes:
        created: when it was made, as the server says it.
        first, last: sequences; last is first - 1 when it is empty.
        max_age_s: how long a message stays; 0: for ever.
        ever_aged: messages may have left it by their age, now or under earlier settings.
    """

    created: str
    first: int
    last: int
    max_age_s: float
    ever_aged: bool


class Doubt:
    """Something that a server which does not know the latest yet says, too: believed when it goes on for `DOUBT_S`.

    A former leader of a replicated stream answers for a moment, after a pause or a cut.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._since: float | None = None

    def settle(self) -> None:
        """All is as it should be."""
        self._since = None

    def raise_for(self, problem: str) -> NoReturn:
        """Nothing can be done as long as this is so.

        Raises:
            LogUnavailable: for a while.
            Unsound: from then on.
        """
        now = self._monotonic_s()
        self._since = now if self._since is None else self._since
        if now - self._since < DOUBT_S:
            raise LogUnavailable(f"{problem}; looking again")
        raise unsound(problem)


class Continuity:
    """What one process knows of its log."""

    def __init__(
        self,
        stream: str,
        ask: Callable[[], Awaitable[Extent | None]],
        wall_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask` has the server say what there is of `stream`; None: it has no such stream."""
        self._stream, self._ask, self._wall_s, self._monotonic_s = stream, ask, wall_s, monotonic_s
        self._doubt = Doubt(monotonic_s)
        self._known: Extent | None = None
        self._looked_at = float("-inf")
        self._wall_at = float("-inf")
        self._young: tuple[int, float] | None = None
        """A sequence, and a moment (wall) before which its message was not on the log."""
        self.broken: Unsound | None = None
        """What is the matter, once the log is another than before; nothing is appended to it then."""

    @property
    def begun(self) -> bool:
        """Whether this process has seen the log."""
        return self._known is not None

    async def check(self) -> None:
        """Look, unless that was done a moment ago.

        Raises:
            Unsound: the log is another than before.
            LogUnavailable: the server does not say, or says what may be a former leader's word.
        """
        now, wall = self._monotonic_s(), self._wall_s()
        if now - self._looked_at < CHECK_S:
            return
        current, known = await self._ask(), self._known
        if known is not None:
            if current is None:
                self._doubt.raise_for(f"stream {self._stream} is gone")
            if problem := self._changed(known, current, wall):
                raise unsound(f"stream {self._stream} {problem}")
            if current.last < known.last:
                self._doubt.raise_for(
                    f"stream {self._stream} ends at sequence {current.last}, where this process has seen {known.last}: "
                    "it was put back to an earlier state"
                )
            if current.last > known.last:
                self._young = current.last, self._wall_at
        self._doubt.settle()
        self._known, self._looked_at, self._wall_at = current, now, wall

    def _changed(self, known: Extent, current: Extent, wall: float) -> str:
        if current.created != known.created:
            return f"was made anew at {current.created}; this process has read one of {known.created}"
        if current.first > known.first and not current.ever_aged:
            return f"begins at sequence {current.first} instead of {known.first}: messages were removed from a log that keeps them for ever"
        if self._young is not None and current.first > self._young[0]:
            seq, since = self._young
            if wall - since < current.max_age_s * AGE_MARGIN:
                return f"begins at sequence {current.first}: message {seq}, younger than {current.max_age_s:g} s, was removed"
        return ""

    async def until_broken(self) -> Unsound:
        """Look now and then until the log is another than before; what is the matter then."""
        while True:
            try:
                await self.check()
            except Unsound as error:
                self.broken = error
                return error
            except LogError as error:
                _log.debug("not known whether the log is what it was", error=str(error))
            await asyncio.sleep(CHECK_S)

    async def require(self, position: int, what: str) -> None:
        """Return when everything behind a position, at which `what` stands, is on the log or has aged out.

        Raises:
            Unsound: the log keeps everything, and does not have it.
            LogUnavailable: the server does not say.
        """
        extent = await self._ask()
        if extent is not None and extent.first > position + 1 and not extent.ever_aged:
            raise unsound(
                f"stream {self._stream} begins at sequence {extent.first}, and {what} stands at {position}: what lies "
                "between was removed from a log that keeps it for ever"
            )


def earlier(subject: str, seq: int, seen: int) -> str:
    """What is wrong with a last checkpoint that lies before one that was seen."""
    return (
        f"the last checkpoint on {subject} is at sequence {seq}, where this process has seen {seen}: "
        "the log was wiped, or put back to an earlier state"
    )


def unsound(problem: str) -> Unsound:
    """The log is not what it was."""
    return Unsound(f"{problem}. Nothing is acted on; {DO}")
