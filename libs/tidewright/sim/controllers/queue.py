"""Keys to look at again: each at most once in the queue, spaced out, retried with backoff.

A key that changes while it is worked on comes back once afterwards. `spacing_s` (wall) collects a
burst of changes of one key (a thousand pods of one ReplicaSet getting ready) into few looks.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from tidewright.kube.errors import KubeError

_log = structlog.get_logger(__name__)

K = TypeVar("K")

FIRST_RETRY_S = 0.02
LAST_RETRY_S = 10.0


class WorkQueue(Generic[K]):
    """Keys and the times (loop clock) at which they are due."""

    def __init__(self, name: str, spacing_s: float = 0.01) -> None:
        self.name = name
        self._spacing_s = spacing_s
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._working: dict[K, float | None] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due) + len(self._working)

    def add(self, key: K, after_s: float = 0.0) -> None:
        """Look at a key after so many wall seconds; an earlier time that is set already stays."""
        when = asyncio.get_running_loop().time() + max(after_s, self._spacing_s)
        if key in self._working:
            known = self._working[key]
            self._working[key] = when if known is None else min(known, when)
            return
        self._schedule(key, when)

    def _schedule(self, key: K, when: float) -> None:
        known = self._due.get(key)
        if known is not None and known <= when:
            return
        self._due[key] = when
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, key))
        self._wake.set()

    async def run(self, work: Callable[[K], Awaitable[float | None]], workers: int = 4) -> None:
        """Work until cancelled. `work` returns after how many wall seconds to look again, or None.

        A `KubeError` is retried with backoff, and so is any other exception, which is a defect and told as such:
        one object that a controller cannot cope with must not stop it for all others.
        """
        async with asyncio.TaskGroup() as group:
            slots = asyncio.Semaphore(workers)
            while True:
                await slots.acquire()
                key = await self._next()
                self._working[key] = None
                group.create_task(self._one(key, work, slots), name=f"{self.name} {key}")

    async def _next(self) -> K:
        loop = asyncio.get_running_loop()
        while True:
            while self._heap and self._heap[0][0] <= loop.time():
                when, _, key = heapq.heappop(self._heap)
                if self._due.get(key) == when:
                    del self._due[key]
                    return key
            self._wake.clear()
            wait_s = max(self._heap[0][0] - loop.time(), 0.0) if self._heap else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _one(
        self, key: K, work: Callable[[K], Awaitable[float | None]], slots: asyncio.Semaphore
    ) -> None:
        again_s: float | None = None
        try:
            again_s = await work(key)
            self._failures.pop(key, None)
        except KubeError as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            again_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures, 20))
            if error.retry_after_s is not None:
                again_s = max(again_s, error.retry_after_s)
            if not (error.retriable or error.error_class == "conflict"):
                _log.warning(
                    "a write is refused and will be tried again",
                    controller=self.name,
                    key=str(key),
                    error=str(error),
                    again_s=again_s,
                )
        except Exception:  # noqa: BLE001  # as above
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            again_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures, 20))
            _log.exception(
                "a controller failed on an object", controller=self.name, key=str(key), again_s=again_s
            )
        finally:
            when = self._working.pop(key)
            slots.release()
        if when is not None and key not in self._failures:
            self._schedule(key, when)
        if again_s is not None:
            self.add(key, again_s)
