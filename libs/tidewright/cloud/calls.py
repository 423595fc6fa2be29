"""Calls to one cloud: how many, for how long, and what a failure says about the next one.

Each cloud has its own, so that one that is slow or throttles holds up no other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from aiolimiter import AsyncLimiter

from tidewright.cloud.errors import CloudError, Throttled, Unavailable

PER_S: Final = 20.0
"""Calls per second on average, unless told otherwise: clouds throttle accounts at some tens."""
TIMEOUT_S: Final = 30.0
"""Wall seconds that a call may take, unless told otherwise."""
FIRST_PAUSE_S: Final = 1.0
MOST_PAUSE_S: Final = 60.0
NEEDS_PEOPLE_S: Final = 30.0
"""After an answer that only people change (credentials, a wrong configuration)."""


class Calls:
    """The budget and the patience for one cloud.

    Attributes:
        cloud: its name, for messages.
        made: calls since the start, by what they ask for.
    """

    def __init__(self, cloud: str, *, per_s: float = PER_S, timeout_s: float = TIMEOUT_S) -> None:
        """`per_s`: calls per second on average, twice as many at once; `timeout_s`: wall seconds for each."""
        self.cloud = cloud
        self.made: Counter[str] = Counter()
        self._timeout_s = timeout_s
        burst = max(1.0, 2 * per_s)
        self._limiter = AsyncLimiter(burst, burst / per_s)

    @asynccontextmanager
    async def call(self, what: str) -> AsyncGenerator[None]:
        """Make one call inside of this; waits for its place in the budget first.

        Raises:
            Unavailable: it took too long; whether it was done is unknown.
        """
        await self._limiter.acquire()
        self.made[what.partition(" ")[0]] += 1
        async with self.patience(what):
            yield

    @asynccontextmanager
    async def patience(self, what: str) -> AsyncGenerator[None]:
        """Wait inside of this for what is no call of its own.

        Raises:
            Unavailable: it took too long.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError as error:
            raise Unavailable(
                f"cloud {self.cloud}: {what}: no answer within {self._timeout_s:g} s", code="Timeout"
            ) from error


def pause_s(error: CloudError, failures: int) -> float:
    """Wall seconds to leave a cloud alone after the nth failure in a row (1, 2, ...), by the error's class.

    What may pass soon is asked again soon, and ever later; a cloud that throttles says how long, or gets more time;
    what only people change is looked at twice a minute.
    """
    if not error.retriable:
        return NEEDS_PEOPLE_S
    least = FIRST_PAUSE_S * (4 if isinstance(error, Throttled) else 1)
    backoff: float = min(MOST_PAUSE_S, least * 2.0 ** min(failures - 1, 16))
    return max(backoff, error.retry_after_s or 0.0)
