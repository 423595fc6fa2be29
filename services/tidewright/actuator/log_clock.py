"""Log time, by the mapping on the log: outcomes are stamped with it, no earlier than what they answer."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from tidewright.events import registry
from tidewright.events.config import ClockSet
from tidewright.host.loop.fenced import attempts
from tidewright.log.clock import Clock
from tidewright.log.connection import Log

CLOCK: Final = "clock"
CHECK_S = 1.0
"""Wall seconds for which the mapping that was read is believed."""


class LogClock:
    """The clock of one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._clock = Clock()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    def now(self) -> float:
        """Log time by the mapping that is known."""
        return self._clock.now()

    async def follow(self, latest: float) -> None:
        """Know the mapping before outcomes of decisions up to the time `latest` are stamped.

        The watcher sets the clock before it says anything, so whoever has read a decision and looks
        then has the mapping that the decision's time is of. Whoever decided for a later time than ours knew of a
        setting that we do not know yet.
        """
        async with self._reading:  # effects that begin together ask together
            if self.is_known(latest):
                return
            async for attempt in attempts():
                with attempt:
                    record = await self._log.last(self._log.subjects.config(CLOCK))
                    event = registry.read(record.body) if record else None
                    if isinstance(event, ClockSet):
                        self._clock.set(event)
            self._read_at = time.monotonic()

    def is_known(self, latest: float) -> bool:
        """Whether decisions up to the time `latest` are of the mapping that is known."""
        return time.monotonic() - self._read_at <= CHECK_S and latest <= self._clock.now()
