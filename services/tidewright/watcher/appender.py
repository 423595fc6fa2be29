"""Facts onto the log: in batches, each with the checkpoint of its part.

A part is a watched kind, or `metric`, or `config`: whoever advances its checkpoint owns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import structlog

from tidewright.host.loop import fenced
from tidewright.host.process.once import Once
from tidewright.log.connection import Message
from tidewright.log.envelope import MAX_BATCH, Writer
from tidewright.log.subjects import ALL, Subjects

SERVICE = "watcher"
MAX_FACT_BYTES = 2**20
"""Of one fact, where the server takes so much: what a fact says is read and kept by many."""
MAX_SUBJECT_BYTES = 3800
"""Of a subject: a server ends the connection at a line of more than 4,096 bytes, and where the answer goes stands there too."""
SHOWN = 200
"""Characters of one that is longer, for people."""
HEADERS_BYTES = 2**14
"""What of a message's size its headers may take, signatures included."""

_log = structlog.get_logger(__name__)


class LogPort(fenced.LogPort, Protocol):
    """What an appender uses of the log."""

    @property
    def subjects(self) -> Subjects: ...
    @property
    def max_message_bytes(self) -> int: ...


class WatchPosition(fenced.Position, frozen=True, kw_only=True, tag="checkpoint.watch.v1"):
    """Where a part stands in the outside world.

    Attributes:
        resource_version: everything up to it is on the log; empty: list again.
        answered: no last word up to this sequence that an owner could not read is waited for: what each of them is about
            has been said anew, or that it is gone, or it cannot be said at all; 0: there was none.
    """

    resource_version: str = ""
    answered: int = 0


class Appender(fenced.Part[WatchPosition]):
    """The only way of one part's facts to the log."""

    def __init__(self, log: LogPort, writer: Writer, part: str, in_flight: fenced.InFlight) -> None:
        super().__init__(log, writer, log.subjects.checkpoint(ALL, SERVICE, part), WatchPosition, in_flight)
        self._names = log
        self._once = Once()
        self.set_aside = 0
        """Facts that were too large for the log since the start."""

    async def say(
        self, facts: Sequence[tuple[str, bytes]], *, resource_version: str, at: float, answered: int = 0
    ) -> None:
        """Append facts (subject, body) and the new checkpoint, in as many batches as it takes.

        Only the last batch says `resource_version` and `answered`: before it, the facts are known to be incomplete
        and a restart reads them again from the position before. A fact that is too large is set aside:
        what was said about its object stands.

        Raises:
            Fenced: another process owns the part; nothing of the refused batch is on the log.
        """
        facts = self._fitting(facts)
        size = MAX_BATCH - 1
        for start in range(0, len(facts), size) or (0,):
            messages = []
            for subject, body in facts[start : start + size]:
                messages.append(Message(subject, body, self._writer.headers()))
            last = start + size >= len(facts)
            version = resource_version if last else self.position.resource_version
            through = max(self.position.answered, answered if last else 0)
            position = msgspec.structs.replace(
                self.position, at=at, resource_version=version, answered=through
            )
            await self.commit(messages, position)

    def _fitting(self, facts: Sequence[tuple[str, bytes]]) -> Sequence[tuple[str, bytes]]:
        """Those that the server takes; a refused one would hold up all behind it for ever."""
        most = min(MAX_FACT_BYTES, self._names.max_message_bytes - HEADERS_BYTES)
        if all(len(body) <= most and len(subject) <= MAX_SUBJECT_BYTES for subject, body in facts):
            return facts
        fitting: list[tuple[str, bytes]] = []
        for subject, body in facts:
            if len(subject) > MAX_SUBJECT_BYTES:
                self._aside(subject[:SHOWN], "name", len(subject), MAX_SUBJECT_BYTES, "name it shorter")
            elif len(body) > most:
                self._aside(subject, "fact", len(body), most, "make the object smaller")
            else:
                fitting.append((subject, body))
        return fitting

    def _aside(self, subject: str, what: str, size: int, most: int, do: str) -> None:
        self.set_aside += 1
        if times := self._once.due(what, subject):
            _log.error(
                f"a {what} is too large for the log and the fact set aside, what was said before stands",
                subject=subject, bytes=size, most=most, times=times, do=do,
            )  # fmt: skip
