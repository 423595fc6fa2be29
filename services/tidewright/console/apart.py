"""Work in a child process at lowest priority, one at a time: a page that is waited for never waits for it.

What nobody waits for makes room: a verification in the background is ended when a page wants a child's answer, and goes on later from
where it stood.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import TypeVar

from tidewright.asking.errors import Unavailable

LOWEST = 19
LOOKS_EVERY_S = 2.0
"""Between two looks of the child at who has started it."""

T = TypeVar("T")


class Turns:
    """Which child works: one of those that are waited for, or the one in the background."""

    def __init__(self) -> None:
        self._waited_for = 0
        self._free = asyncio.Event()
        self._free.set()
        self._background: asyncio.subprocess.Process | None = None
        self._ended: asyncio.subprocess.Process | None = None

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """While somebody waits for a child, nothing works in the background."""
        self._waited_for += 1
        self._free.clear()
        if self._background is not None and self._background.returncode is None:
            self._ended = self._background
            with suppress(ProcessLookupError):
                self._background.terminate()
        try:
            yield
        finally:
            self._waited_for -= 1
            if not self._waited_for:
                self._free.set()

    @property
    def is_working(self) -> bool:
        """Whether a child works that nobody waits for."""
        return self._background is not None and self._background.returncode is None

    async def free(self) -> None:
        """Return when nobody waits for a child."""
        await self._free.wait()

    @contextmanager
    def background(self, child: asyncio.subprocess.Process) -> Iterator[Callable[[], bool]]:
        """While a child works that nobody waits for; gives what tells whether it was ended to make room."""
        self._background = child
        if self._waited_for:  # since it was started
            self._ended = child
            with suppress(ProcessLookupError):
                child.terminate()
        try:
            yield lambda: self._ended is child
        finally:
            self._background = None


def _begin(parent: int) -> None:
    """In the child: at lowest priority, and gone when whoever asks is gone, however that ends."""
    os.nice(LOWEST)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOKS_EVERY_S)
    os._exit(1)


class Apart:
    """One child, started when something is asked of it and ended when nothing is for a while."""

    def __init__(self, idle_s: float = 60.0, turns: Turns | None = None) -> None:
        self._idle_s = idle_s
        self._turns = turns or Turns()
        self._pool: ProcessPoolExecutor | None = None
        self._lock = asyncio.Lock()
        self._ending: asyncio.TimerHandle | None = None

    async def run(self, work: Callable[..., T], *given: object) -> T:
        """What `work` answers there; it, what it is given and what it answers can be pickled.

        Raises:
            Unavailable: the child ended without an answer.
        """
        async with self._lock:
            if self._ending is not None:
                self._ending.cancel()
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), _begin, (os.getpid(),)
                )
            try:
                with self._turns.waited_for():
                    return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)
            except BrokenProcessPool as error:
                self.close()
                raise Unavailable("the process that worked on it has ended: ask again") from error
            finally:
                self._ending = asyncio.get_running_loop().call_later(self._idle_s, self.close)

    def close(self) -> None:
        """End the child."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
