"""Whether this process hears of every object of a kind: what parts that depend on the kind need to know.

Parts are taken over one by one, each by whoever asks first. What a part learns from the facts of a kind
it learns from the follower beside it: in a process that does not own the kind it would know
nothing. So it is there only where the kind is, and steps back when that goes to another process. Where the kind is, the part is due,
whoever has it: two processes that each had one of the two and waited for the other to end would do nothing for as long as both live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NoReturn

import structlog

from tidewright.host.loop.fenced import Fenced, Part
from tidewright.log.errors import Unsound

_log = structlog.get_logger(__name__)


class Heard:
    """Of one kind; its follower says when it owns it.

    Attributes:
        settled: the kind has been listed once, or cannot be.
    """

    def __init__(self, kind: str, follower: Part[Any]) -> None:
        """`follower` is the kind's own part."""
        self.kind = kind
        self._follower = follower
        self.settled = asyncio.Event()
        self._here = asyncio.Event()
        self._elsewhere = asyncio.Event()

    def begins(self) -> None:
        """The kind is this process's, and what was said about it is read back."""
        self._elsewhere.clear()
        self._here.set()

    def ends(self) -> None:
        """It may be another's now."""
        self._here.clear()
        self._elsewhere.set()

    async def is_here(self) -> bool:
        """Whether the kind is this process's, by the log's own word: it may have gone without being noticed yet."""
        if not self._here.is_set():
            return False
        with suppress(Fenced, Unsound):
            await self._follower.confirm()
            return True
        return False

    async def keep(
        self, part: Part[Any], own: Callable[[], Awaitable[None]], *, settling_s: float = 0.0, **said: str
    ) -> NoReturn:
        """Run `own`, which claims the part, whenever the kind is heard of here; `settling_s` as in `during`, `said` as in `Part.keep`."""

        async def own_with_the_kind() -> None:
            try:
                await self.during(own, settling_s=settling_s)
            except Fenced:
                if self._elsewhere.is_set():
                    # Said to those of versions that would wait for the end of this process.
                    with suppress(Fenced, Unsound):
                        await part.give_up()
                raise

        await part.keep(own_with_the_kind, self.is_here, **said)

    async def during(self, own: Callable[[], Awaitable[None]], *, settling_s: float = 0.0) -> None:
        """Wait until the kind is heard of here, then run `own` for as long as it is.

        Before it starts, the list is waited for, but at most `settling_s` wall seconds.

        Raises:
            Fenced: the kind went to another process.
        """
        await self._here.wait()
        if settling_s:
            try:
                async with asyncio.timeout(settling_s):
                    await self.settled.wait()
            except TimeoutError:
                _log.warning("a kind is not listed yet, going on", kind=self.kind)
        # Not a task group: one that is cancelled just as the kind goes, as all parts are at the end of
        # the process, would tell of the fence and not of the cancellation.
        tasks = asyncio.ensure_future(own()), asyncio.ensure_future(self._elsewhere.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise Fenced(
                    f"{self.kind}, which this part depends on, is no longer followed by this process"
                )
            tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
