"""Work in a child process at lowest priority, one at a time: a page that is waited for never waits for it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from tidewright.asking.errors import Unavailable

LOWEST = 19
LOOKS_EVERY_S = 2.0
"""Between two looks of the child at who has started it."""

T = TypeVar("T")


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

    def __init__(self, idle_s: float = 60.0) -> None:
        self._idle_s = idle_s
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
