"""Work in a child process at lowest priority, one at a time: a page that is waited for never waits for it.

What is waited for has a budget of processor time (`Budget`), so that nobody who moves a slider for hours takes a core from what decides.
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
from tidewright.console.budget import Budget

LOWEST = 19
LOOKS_EVERY_S = 2.0
"""Between two looks of the child at who has started it."""

T = TypeVar("T")


class Spent(Unavailable):
    """The processor time of what is waited for is used up.

    Attributes:
        wait_s: wall seconds until there is some again.
    """

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"the processor time for this is used up: ask again in {wait_s:.0f} s")
        self.wait_s = wait_s


class Turns:
    """Which child works: one of those that are waited for, or the one in the background.

    Attributes:
        budget: of those that are waited for; the one in the background rests for what they took as for its own.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.one_waited_for, self.one_behind = asyncio.Lock(), asyncio.Lock()
        """Whoever has a child that is waited for, or one that is not, has that alone, whatever the log it is of."""
        self._owed_since_s = 0.0
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

    def owed_s(self) -> float:
        """Processor seconds of children that were waited for since this was asked last."""
        owed_s = self.budget.spent_s - self._owed_since_s
        self._owed_since_s += owed_s
        return owed_s

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


def _measured(work: Callable[..., T], given: tuple[object, ...]) -> tuple[T, float]:
    """In the child: the answer, and all processor time that it has taken since it was started."""
    return work(*given), time.process_time()


class Apart:
    """One child, started when something is asked of it and ended when nothing is for a while."""

    def __init__(self, idle_s: float = 60.0, turns: Turns | None = None) -> None:
        self._idle_s = idle_s
        self._turns = turns or Turns()
        self._pool: ProcessPoolExecutor | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._counted_s = 0.0
        """Processor time of the child that was taken off the budget."""

    async def run(self, work: Callable[..., T], *given: object) -> T:
        """What `work` answers there; it, what it is given and what it answers can be pickled.

        Raises:
            Spent: its processor time is used up.
            Unavailable: the child ended without an answer.
        """
        async with self._turns.one_waited_for:
            if wait_s := self._turns.budget.wait_s:
                raise Spent(wait_s)
            if self._ending is not None:
                self._ending.cancel()
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), _begin, (os.getpid(),)
                )
            begun = time.monotonic()
            total_s = None
            try:
                with self._turns.waited_for():
                    asked = asyncio.get_running_loop().run_in_executor(self._pool, _measured, work, given)
                    answer, total_s = await asked
                return answer
            except BrokenProcessPool as error:
                self.close()
                raise Unavailable("the process that worked on it has ended: ask again") from error
            finally:
                self._count(total_s, time.monotonic() - begun)
                self._ending = asyncio.get_running_loop().call_later(self._idle_s, self.close)

    def _count(self, total_s: float | None, took_s: float) -> None:
        """Take off the budget what the child has used since; where it did not say, as much as it can have used."""
        used_s = took_s if total_s is None else max(0.0, total_s - self._counted_s)
        if self._pool is not None:
            self._counted_s += used_s
        self._turns.budget.spend(used_s)

    def close(self) -> None:
        """End the child."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            self._counted_s = 0.0
