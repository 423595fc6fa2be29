"""A log that is opened, and asked what a first page needs, while what serves that page is still imported.

Imports take as long as the answers, and neither needs the other: so the questions are on their way first, and modules are
imported in a thread, between whose steps the loop gets its turns. What goes wrong with the log is raised where it is waited for; what
is no answer of ours may come of a module that was half imported, so the log is opened once more when all of them are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

import uvloop

from tidewright.asking.errors import CommandError
from tidewright.asking.listing import LISTED, lister_of
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.source import Source
from tidewright.console.lists import TITLES, Lists

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Ahead:
    """A log that is being opened, and the lists of it that are being made.

    Attributes:
        loop: in which that goes on; whoever goes on with it closes it.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Source]]) -> None:
        self.loop = uvloop.new_event_loop()
        self._opened = opened
        self._there: asyncio.Future[tuple[Source, Lists]] = self.loop.create_future()
        self._over: asyncio.Future[None] = self.loop.create_future()
        self._imported = asyncio.Event()
        self._holding = self.loop.create_task(self._hold(), name="open the log")

    def importing(self, modules: Sequence[str]) -> None:
        """Import these modules while it is."""
        for kind in TITLES:  # by this thread, so that the two seldom want the same module
            lister_of(LISTED[kind])
        self.loop.run_until_complete(self._importing(modules))

    async def _importing(self, modules: Sequence[str]) -> None:
        try:
            for module in modules:
                await asyncio.to_thread(import_module, module)
        finally:
            self._imported.set()

    async def _hold(self) -> None:
        """Open the log and hold it open, in one task."""
        try:
            await self._open()
        except CommandError as error:
            if self._there.done():
                raise
            self._there.set_exception(error)
        except Exception:
            if self._there.done():
                raise
            await self._imported.wait()
            await self._open_again()

    async def _open_again(self) -> None:
        try:
            await self._open()
        except Exception as error:
            if self._there.done():
                raise
            self._there.set_exception(error)

    async def _open(self) -> None:
        asking = None
        try:
            async with self._opened() as source:
                lists = Lists(source)
                self._there.set_result((source, lists))
                asking = asyncio.create_task(_first(source, lists))
                await self._over
        finally:
            if asking is not None:
                asking.cancel()
                await asyncio.wait([asking])

    @asynccontextmanager
    async def log(self) -> AsyncIterator[tuple[Source, Lists]]:
        """The log and its lists, once it is open. What is raised within is raised where it is held open, which may have words for it.

        Raises:
            CommandError: it cannot be opened.
        """
        source, lists = await self._there
        try:
            yield source, lists
        except Exception as error:
            self._over.set_exception(error)
            await self._holding
            raise
        finally:
            if not self._over.done():
                self._over.set_result(None)
        await self._holding

    def abandon(self) -> None:
        """Let go of all of it, where nobody has gone on with the loop to its end."""
        if not self.loop.is_closed():
            self._holding.cancel()
            with suppress(asyncio.CancelledError, Exception):
                self.loop.run_until_complete(self._holding)
        if self._there.done() and not self._there.cancelled():
            self._there.exception()  # nobody waits for it any more
        self.loop.close()


async def _first(source: Source, lists: Lists) -> None:
    """The lists of the first page. What comes to nothing here is asked for again by that page, which says why."""
    with suppress(Exception):
        await lists.of_all(tuple(TITLES), await moment_of(source, ""))
