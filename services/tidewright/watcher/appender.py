"""Facts onto the log: in batches, each with the checkpoint of its part.

A part is a watched kind, or `metric`, or `config`: whoever advances its checkpoint owns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidewright.host import fenced
from tidewright.log.connection import MAX_BATCH, Message
from tidewright.log.envelope import Writer
from tidewright.log.subjects import ALL, Subjects

SERVICE = "watcher"


class LogPort(fenced.LogPort, Protocol):
    """What an appender uses of the log."""

    @property
    def subjects(self) -> Subjects: ...


class WatchPosition(fenced.Position, frozen=True, kw_only=True, tag="checkpoint.watch.v1"):
    """Where a part stands in the outside world.

    Attributes:
        resource_version: everything up to it is on the log; empty: list again.
    """

    resource_version: str = ""


class Appender(fenced.Part[WatchPosition]):
    """The only way of one part's facts to the log."""

    def __init__(self, log: LogPort, writer: Writer, part: str, in_flight: fenced.InFlight) -> None:
        super().__init__(log, writer, log.subjects.checkpoint(ALL, SERVICE, part), WatchPosition, in_flight)
        self._name = f"{SERVICE}.{part}.{writer.incarnation}"
        self._facts = 0

    async def say(self, facts: Sequence[tuple[str, bytes]], *, resource_version: str, at: float) -> None:
        """Append facts (subject, body) and the new checkpoint, in as many batches as it takes.

        Only the last batch says `resource_version`: before it, the facts are known to be incomplete
        and a restart reads them again from the position before.

        Raises:
            Fenced: another process owns the part; nothing of the refused batch is on the log.
        """
        size = MAX_BATCH - 1
        for start in range(0, len(facts), size) or (0,):
            messages = []
            for subject, body in facts[start : start + size]:
                self._facts += 1
                messages.append(Message(subject, body, self._writer.headers(f"{self._name}.{self._facts}")))
            last = start + size >= len(facts)
            version = resource_version if last else self.position.resource_version
            await self.commit(
                messages, msgspec.structs.replace(self.position, at=at, resource_version=version)
            )
