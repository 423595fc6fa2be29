"""What a part says that says few things: only what has changed, grouped onto the log, and again before the log forgets it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from tidewright.events import registry
from tidewright.events.base import Fact
from tidewright.events.registry import Unknown
from tidewright.watcher.appender import Appender
from tidewright.watcher.diff import digest_of, is_gone
from tidewright.watcher.follow import FactLog
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.resync import Again

GROUP = 500
"""Facts that are appended together at most."""


class Sayings:
    """Facts of one part on their way to the log.

    Attributes:
        said: subject to the digest of what was said last on it, of what is there; empty: say it again, whatever it is.
    """

    def __init__(self, log: FactLog, appender: Appender, stamp: Stamp, max_age_s: float) -> None:
        """`max_age_s` is the log's."""
        self.said: dict[str, bytes] = {}
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._max_age_s = max_age_s
        self._again = Again(log, max_age_s)
        self._waiting: asyncio.Queue[tuple[str, Fact]] = asyncio.Queue()

    async def read_back(self, patterns: Iterable[str]) -> None:
        """What was said last of each object, so that only changes are said, and what vanished is known."""
        self.said.clear()
        self._waiting = asyncio.Queue()  # what an earlier turn left there may be otherwise by now
        self._again = Again(self._log, self._max_age_s)
        for pattern in patterns:
            async for record in self._log.last_per_subject([pattern]):
                event = registry.read(record.body)
                if isinstance(event, Unknown):
                    self.said[record.subject] = b""  # said again, or that it is gone, whatever it is
                elif isinstance(event, Fact) and not is_gone(event):
                    self.said[record.subject] = digest_of(event)
                    self._again.said(record.subject, event.at)

    def say(self, subject: str, fact: Fact) -> None:
        """Say a fact, unless it was said already."""
        digest = digest_of(fact)
        if self.said.get(subject) != digest:
            self.said[subject] = digest
            self.put(subject, fact)

    def say_once(self, subject: str, fact: Fact) -> None:
        """Say what never changes; another part of the watcher may say the same, which does no harm."""
        if subject not in self.said:
            self.said[subject] = b""
            self.put(subject, fact)

    def put(self, subject: str, fact: Fact) -> None:
        """Say a fact, whatever was said before."""
        self._waiting.put_nowait((subject, fact))

    def leave(self, subject: str) -> None:
        """What was said there is another part's to say from now on: it is not said again here."""
        self.said.pop(subject, None)
        self._again.forget(subject)

    async def run(self) -> None:
        """What is to be said onto the log, grouped; an owner that has nothing renews its checkpoint."""
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        while True:
            group: list[tuple[str, Fact]] = []
            if loop.time() - checked_at >= self._again.check_s:
                checked_at = loop.time()
                group += await self._again.due(self._stamp.now())
            try:
                left_s = min(self._appender.renewal_in_s, self._again.check_s)
                async with asyncio.timeout(0 if group else left_s):
                    group.append(await self._waiting.get())
            except TimeoutError:
                if not group and self._appender.renewal_in_s:
                    continue
            while len(group) < GROUP and not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            at = self._stamp.now()
            messages = [(s, registry.encode(msgspec.structs.replace(fact, at=at))) for s, fact in group]
            await self._appender.say(messages, resource_version="", at=at)
            for subject, fact in group:
                if is_gone(fact):
                    self._again.forget(subject)
                else:
                    self._again.said(subject, at)
