"""A log on which nothing was said, for parts of the watcher that are tried alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects
from tidewright.watcher.appender import WatchPosition


class SilentLog:
    """It stands for the appender too: the part is given to whoever claims it."""

    subjects = Subjects("c")

    async def last_per_subject(self, filters: object) -> AsyncIterator[Record]:
        nothing: tuple[Record, ...] = ()
        for record in nothing:
            yield record

    async def claim(self) -> WatchPosition:
        return WatchPosition(at=0.0)
