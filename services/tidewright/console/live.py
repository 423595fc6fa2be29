"""What comes on the log, told to the browsers that look at now: one look for all of them, and none while nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tidewright.asking.errors import CommandError, translated
from tidewright.asking.source import Source
from tidewright.log.diagnostics import get_logger

EVERY_S = 0.4
"""Between two looks at where the log ends, wall seconds."""

logger = get_logger(__name__)


class Live:
    """The end of one log, as it moves."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last = 0
        self._moved = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None
        self._watchers = 0

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[Live, None]:
        """While somebody looks, the end is followed."""
        self._watchers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look at the end of the log")
        try:
            yield self
        finally:
            self._watchers -= 1
            if not self._watchers and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def beyond(self, seq: int, within_s: float) -> int:
        """The last sequence, once it is another than `seq`; the same when nothing comes in time."""
        try:
            async with asyncio.timeout(within_s), self._moved:
                await self._moved.wait_for(lambda: self._last not in (0, seq))
        except TimeoutError:
            return seq
        return self._last

    async def _look(self) -> None:
        while True:
            try:
                with translated():
                    _, last = await self._source.bounds()
            except CommandError as error:
                logger.warning("the end of the log is not known", error=str(error))
            else:
                if last != self._last:
                    async with self._moved:
                        self._last = last
                        self._moved.notify_all()
            await asyncio.sleep(EVERY_S)
