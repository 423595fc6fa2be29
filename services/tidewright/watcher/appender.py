"""Facts onto the log: in batches, each with the checkpoint of its part, or a few apart from it.

A part is a watched kind, or `metric`, or `config`: whoever advances its checkpoint owns it. A fact that is appended apart
expects that checkpoint, so that it is taken only while the part is its writer's; the checkpoint is written after `COVERED_S`, and whoever
claims the part looks what lies behind the one that it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import structlog

from tidewright.host.loop import fenced
from tidewright.host.process.once import Once
from tidewright.log.connection import Message
from tidewright.log.envelope import ID, MAX_BATCH, POSITION, Writer
from tidewright.log.errors import Conflict, LogUnavailable, StoreFull
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Subjects

SERVICE = "watcher"
MAX_FACT_BYTES = 2**20
"""Of one fact, where the server takes so much: what a fact says is read and kept by many."""
HEADERS_BYTES = 2**14
"""What of a message's size its headers may take, signatures included."""
COVERED_S = 120.0
"""For so long facts may be appended apart before the checkpoint is written with the next ones, wall seconds."""

_log = structlog.get_logger(__name__)


class LogPort(fenced.LogPort, Protocol):
    """What an appender uses of the log."""

    @property
    def subjects(self) -> Subjects: ...
    @property
    def max_message_bytes(self) -> int: ...
    def one_by_one(self, count: int) -> bool: ...


class WatchPosition(fenced.Position, frozen=True, kw_only=True, tag="checkpoint.watch.v1"):
    """Where a part stands in the outside world.

    Attributes:
        resource_version: everything up to it is on the log; empty: list again.
        answered: no last word up to this sequence that an owner could not read is waited for: what each of them is about
            has been said anew, or that it is gone, or it cannot be said at all; 0: there was none.
        apart: where to begin to look for facts that this does not cover; 0: those behind it are the only ones.
    """

    resource_version: str = ""
    answered: int = 0
    apart: int = 0

    def seen(self, sequence: int) -> WatchPosition:
        """As it is taken over by who found it at this sequence: what was appended behind it is still to be looked for."""
        return msgspec.structs.replace(self, apart=self.apart or sequence)

    def resumed(self, last: Record | None) -> WatchPosition:
        """With the resource version that the part's last fact names, where that lies apart; with none where it names none."""
        if last is None or last.seq <= self.apart:
            return self
        return msgspec.structs.replace(self, resource_version=last.headers.get(POSITION, ""))


class Appender(fenced.Part[WatchPosition]):
    """The only way of one part's facts to the log."""

    def __init__(self, log: LogPort, writer: Writer, part: str, in_flight: fenced.InFlight) -> None:
        super().__init__(log, writer, log.subjects.checkpoint(ALL, SERVICE, part), WatchPosition, in_flight)
        self._name = f"{SERVICE}.{part}.{writer.incarnation}"
        self._facts = 0
        self._names = log
        self._once = Once()
        self.set_aside = 0
        """Facts that were too large for the log since the start."""

    async def say(
        self,
        facts: Sequence[tuple[str, bytes]],
        *,
        resource_version: str,
        at: float,
        answered: int = 0,
        apart: bool = False,
    ) -> None:
        """Append facts (subject, body) and the new checkpoint, in as many batches as it takes; a few `apart` from it where they may be.

        Only the last batch says `resource_version` and `answered`: before it, the facts are known to be incomplete
        and a restart reads them again from the position before. A fact that is too large is set aside:
        what was said about its object stands.

        Raises:
            Fenced: another process owns the part; nothing of the refused batch is on the log.
        """
        messages = [self._message(*fact) for fact in self._fitting(facts)]
        if apart and messages and self.committed_s < COVERED_S and self._names.one_by_one(len(messages)):
            messages = await self._apart(messages, resource_version, at)
            if not messages:
                return
        size = MAX_BATCH - 1
        for start in range(0, len(messages), size) or (0,):
            position = msgspec.structs.replace(self.position, at=at)
            if start + size >= len(messages):
                position = msgspec.structs.replace(
                    position,
                    resource_version=resource_version,
                    answered=max(position.answered, answered),
                    apart=0,
                )
            await self.commit(messages[start : start + size], position)

    def _message(self, subject: str, body: bytes) -> Message:
        self._facts += 1
        return Message(subject, body, self._writer.headers(f"{self._name}.{self._facts}"))

    async def _apart(self, messages: list[Message], resource_version: str, at: float) -> list[Message]:
        """Append messages while the checkpoint is ours; those that are left to be committed with it.

        The last one names the resource version up to which everything is on the log then.
        """
        since = self.sequence
        if resource_version:
            headers = {**(messages[-1].headers or {}), POSITION: resource_version}
            messages[-1] = msgspec.structs.replace(messages[-1], headers=headers)
        for place, message in enumerate(messages):
            try:
                await self.append(message)
            except (Conflict, StoreFull):
                return messages[place:]  # nothing of it is there, and a commit finds out why
            except LogUnavailable:
                # Behind another checkpoint it does not come any more: what is there by then is all.
                await self.commit([], msgspec.structs.replace(self.position.seen(since), at=at))
                return messages[place + await self._is_there(message, since) :]
        return []

    async def _is_there(self, message: Message, since: int) -> bool:
        """Whether a message was appended after all, behind a sequence."""
        last: Record | None = None
        async for attempt in fenced.attempts(self._in_flight):
            with attempt:
                last = await self._log.last(message.subject)
        return last is not None and last.seq > since and last.headers.get(ID) == (message.headers or {})[ID]

    def _fitting(self, facts: Sequence[tuple[str, bytes]]) -> Sequence[tuple[str, bytes]]:
        """Those that the server takes; a refused one would hold up all behind it for ever."""
        most = min(MAX_FACT_BYTES, self._names.max_message_bytes - HEADERS_BYTES)
        if all(len(body) <= most for _, body in facts):
            return facts
        for subject, body in facts:
            if len(body) > most:
                self.set_aside += 1
                if times := self._once.due(subject):
                    _log.error(
                        "a fact is too large for the log and set aside, what was said before stands",
                        subject=subject, bytes=len(body), most=most, times=times, do="make the object smaller",
                    )  # fmt: skip
        return [(subject, body) for subject, body in facts if len(body) <= most]
