"""Facts onto the log: in batches, each with the checkpoint of its part under its expected sequence.

A part is a watched kind, or `metric`, or `config`: whoever advances its checkpoint owns it. `claim`
takes a part over; a commit that finds another owner's checkpoint raises `Fenced`, and nothing of that
batch is on the log. An unreachable log is waited for: the outside world waits in its watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec
import stamina
import structlog

from tidewright.events.version import __version__
from tidewright.log.connection import MAX_BATCH, Committed, Message
from tidewright.log.envelope import Writer
from tidewright.log.errors import Conflict, LogUnavailable, StoreFull
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Subjects

SERVICE = "watcher"

_log = structlog.get_logger(__name__)


class Fenced(Exception):
    """Another process has taken the part over."""


class LogPort(Protocol):
    """What is used of `tidewright.log.connection.Log`."""

    @property
    def subjects(self) -> Subjects: ...
    async def commit(self, messages: Sequence[Message]) -> Committed: ...
    async def last(self, subject: str) -> Record | None: ...


class Position(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="checkpoint.watch.v1"):
    """Where a part stands in the outside world.

    Attributes:
        at: log time of the last fact, seconds.
        resource_version: everything up to it is on the log; empty: list again.
        epoch: grows by one with every claim.
        incarnation: the process that wrote it.
        commit: counts the commits of that incarnation on this part.
        version: of the software that wrote it.
    """

    at: float
    resource_version: str = ""
    epoch: int = 0
    incarnation: str = ""
    commit: int = 0
    version: str = ""


_position = msgspec.json.Decoder(Position)
_encoder = msgspec.json.Encoder()


class Appender:
    """The only way of one part's facts to the log."""

    def __init__(self, log: LogPort, writer: Writer, part: str, in_flight: asyncio.Lock) -> None:
        self._log = log
        self._writer = writer
        self._part = part
        self._in_flight = in_flight
        self._subject = log.subjects.checkpoint(ALL, SERVICE, part)
        self._sequence = 0
        self._count = 0
        self.position = Position(at=0.0)

    async def look(self) -> tuple[Position, int]:
        """The checkpoint as it is on the log, and its sequence (0 when there is none)."""
        record: Record | None = None
        async for attempt in _attempts():
            with attempt:
                record = await self._log.last(self._subject)
                heed_cancellation()
        if record is None:
            return Position(at=0.0), 0
        try:
            return _position.decode(record.body), record.seq
        except msgspec.MsgspecError as error:
            _log.warning("checkpoint not readable, starting from a list", part=self._part, error=str(error))
            return Position(at=0.0), record.seq

    async def claim(self) -> Position:
        """Take the part over from whoever had it, and return where it stands.

        Raises:
            Fenced: somebody else did so at the same time.
        """
        found, self._sequence = await self.look()
        self.position = found
        await self.commit([], resource_version=found.resource_version, at=found.at, epoch=found.epoch + 1)
        _log.info(
            "part claimed",
            part=self._part,
            epoch=self.position.epoch,
            resource_version=found.resource_version,
        )
        return found

    async def commit(
        self,
        facts: Sequence[tuple[str, bytes]],
        *,
        resource_version: str,
        at: float,
        epoch: int | None = None,
    ) -> None:
        """Append facts (subject, body) and the new checkpoint, in as many batches as it takes.

        Only the last batch says `resource_version`: before it, the facts are known to be incomplete
        and a restart reads them again from the position before.

        Raises:
            Fenced: another process owns the part; nothing of the refused batch is on the log.
        """
        size = MAX_BATCH - 1
        for start in range(0, len(facts), size) or (0,):
            chunk = facts[start : start + size]
            last = start + size >= len(facts)
            version = resource_version if last else self.position.resource_version
            await self._commit(chunk, version, at, self.position.epoch if epoch is None else epoch)

    async def _commit(
        self, facts: Sequence[tuple[str, bytes]], resource_version: str, at: float, epoch: int
    ) -> None:
        self._count += 1
        position = Position(
            at=max(at, self.position.at),
            resource_version=resource_version,
            epoch=epoch,
            incarnation=self._writer.incarnation,
            commit=self._count,
            version=__version__,
        )
        name = f"{SERVICE}.{self._part}.{self._writer.incarnation}.{self._count}"
        messages = [
            Message(subject, body, self._writer.headers(f"{name}.{n}"))
            for n, (subject, body) in enumerate(facts)
        ]
        messages.append(
            Message(
                self._subject,
                _encoder.encode(position),
                self._writer.headers(name),
                expect_last=self._sequence,
            )
        )
        async for attempt in _attempts():
            with attempt:
                self._sequence = await self._append(messages, position)
        self.position = position

    async def _append(self, messages: list[Message], position: Position) -> int:
        """Append once; the sequence of the checkpoint. A refusal is not proof of another owner."""
        try:
            async with self._in_flight:
                sequence = (await self._log.commit(messages)).last_seq
            heed_cancellation()
            return sequence
        except Conflict as error:
            record = await self._log.last(self._subject)
            found = _position.decode(record.body) if record else Position(at=0.0)
            if record and (found.incarnation, found.commit) == (position.incarnation, position.commit):
                return record.seq  # the answer to an earlier attempt was lost
            raise Fenced(
                f"part {self._part} belongs to incarnation {found.incarnation} since epoch {found.epoch}"
            ) from error


def heed_cancellation() -> None:
    """End here when this task was cancelled while the client was asked.

    `asyncio.wait_for` of Python 3.11, and nats-py while it flushes, lose a cancellation that comes
    together with the answer; a task group would then wait for this task for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _attempts() -> AsyncIterator[stamina.Attempt]:
    """Until the log answers: what was not stored there is nowhere."""
    attempts: AsyncIterator[stamina.Attempt] = stamina.retry_context(
        on=_retry, attempts=None, timeout=None, wait_initial=0.1, wait_max=5.0, wait_jitter=0.2
    ).__aiter__()
    return attempts


def _retry(error: Exception) -> bool | float:
    if isinstance(error, StoreFull):
        _log.error("the log's store is full, facts wait", reason=error.reason, error=str(error))
        return 5.0
    if isinstance(error, LogUnavailable):
        _log.warning("the log does not answer, facts wait", reason=error.reason, error=str(error))
        return True
    return False
