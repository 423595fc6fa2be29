"""When something is due: a heap over names, for any number of them, and one waiting task."""

from __future__ import annotations

import asyncio
import heapq
from typing import Generic, TypeVar

K = TypeVar("K")


class Timers(Generic[K]):
    """At most one due time per key, in wall seconds from now."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def set(self, key: K, after_s: float) -> None:
        """Be due after so many wall seconds; replaces what was set for the key."""
        when = asyncio.get_running_loop().time() + max(after_s, 0.0)
        self._due[key] = when
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, key))
        self._wake.set()

    def cancel(self, key: K) -> None:
        """Forget a key; one that is not set is fine."""
        self._due.pop(key, None)

    async def due(self) -> list[K]:
        """Wait until something is due; all keys that are, in order."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            ready: list[K] = []
            while self._heap and self._heap[0][0] <= now:
                when, _, key = heapq.heappop(self._heap)
                if self._due.get(key) == when:
                    del self._due[key]
                    ready.append(key)
            if ready:
                return ready
            self._wake.clear()
            wait_s = self._heap[0][0] - now if self._heap else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue
