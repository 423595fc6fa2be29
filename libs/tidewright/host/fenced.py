"""Messages onto the log under a checkpoint that only one process can advance.

For the services at the edge (watcher, actuator), whose position is not a fold's. A *part* is what one
checkpoint covers. `claim` takes it over; a commit that finds another owner's checkpoint raises
`Fenced`, and nothing of it is on the log. An unreachable log is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec
import stamina
import structlog

from tidewright.events.version import __version__
from tidewright.log.connection import Committed, Message
from tidewright.log.envelope import Writer
from tidewright.log.errors import Conflict, LogUnavailable, StoreFull
from tidewright.log.reader import Record

RENEW_S = 10.0
"""An owner renews its checkpoint at least this often, in wall seconds."""
TAKE_OVER_S = 35.0
"""A checkpoint that has not moved for so long has no owner."""

_log = structlog.get_logger(__name__)


class Fenced(Exception):
    """Another process has taken the part over."""


class InFlight(asyncio.Lock):
    """Keeps a process at one open batch; its parts share it.

    Attributes:
        problem: why the log takes nothing at present, for the readiness probe; empty when it does.
    """

    problem: str = ""


class Position(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every checkpoint of a part says; a service adds its own fields and a tag.

    Attributes:
        at: log time of the last message, seconds; never goes back.
        epoch: grows by one with every claim.
        incarnation: the process that wrote it.
        commit: counts the commits of that incarnation on this part.
        version: of the software that wrote it.
    """

    at: float = 0.0
    epoch: int = 0
    incarnation: str = ""
    commit: int = 0
    version: str = ""


class LogPort(Protocol):
    """What is used of `tidewright.log.connection.Log`."""

    async def commit(self, messages: Sequence[Message]) -> Committed: ...
    async def last(self, subject: str) -> Record | None: ...


P = TypeVar("P", bound=Position)


class Part(Generic[P]):
    """One part: its checkpoint, and the only way of its messages to the log."""

    def __init__(
        self, log: LogPort, writer: Writer, subject: str, position_type: type[P], in_flight: InFlight
    ) -> None:
        """`subject` is the checkpoint's; `in_flight` keeps the process at one open batch."""
        self._log = log
        self._writer = writer
        self._subject = subject
        self._type = position_type
        self._decoder: msgspec.json.Decoder[P] = msgspec.json.Decoder(position_type)
        self._in_flight = in_flight
        self._sequence = 0
        self._count = 0
        self.position: P = position_type()

    async def look(self) -> tuple[P, int]:
        """The checkpoint as it is on the log, and its sequence (0 when there is none)."""
        record: Record | None = None
        async for attempt in attempts(self._in_flight):
            with attempt:
                record = await self._log.last(self._subject)
                self._in_flight.problem = ""
        if record is None:
            return self._type(), 0
        try:
            return self._decoder.decode(record.body), record.seq
        except msgspec.MsgspecError as error:
            _log.warning("checkpoint not readable, starting anew", subject=self._subject, error=str(error))
            return self._type(), record.seq

    async def claim(self) -> P:
        """Take the part over from whoever had it, and return where it stands.

        Raises:
            Fenced: somebody else did so at the same time.
        """
        found, self._sequence = await self.look()
        self.position = msgspec.structs.replace(found, epoch=found.epoch + 1)
        await self.commit([], self.position)
        _log.info("claimed", checkpoint=self._subject, epoch=self.position.epoch)
        return found

    async def commit(self, messages: Sequence[Message], position: P) -> None:
        """Append messages and the new checkpoint as one batch (at most `MAX_BATCH - 1` messages).

        `position` says what is new; who writes it, and when it was claimed, is filled in here.

        Raises:
            Fenced: another process owns the part; nothing of this is on the log.
        """
        self._count += 1
        written = msgspec.structs.replace(
            position,
            at=max(position.at, self.position.at),
            epoch=self.position.epoch,
            incarnation=self._writer.incarnation,
            commit=self._count,
            version=__version__,
        )
        name = f"{self._subject}.{self._writer.incarnation}.{self._count}"
        batch = [
            *messages,
            Message(
                self._subject,
                msgspec.json.encode(written),
                self._writer.headers(name),
                expect_last=self._sequence,
            ),
        ]
        async for attempt in attempts(self._in_flight):
            with attempt:
                self._sequence = await self._append(batch, written)
                self._in_flight.problem = ""
        self.position = written

    async def _append(self, batch: list[Message], written: P) -> int:
        """Append once; the sequence of the checkpoint. A refusal is not proof of another owner."""
        try:
            async with self._in_flight:
                return (await self._log.commit(batch)).last_seq
        except Conflict as error:
            record = await self._log.last(self._subject)
            found = self._decoder.decode(record.body) if record else self._type()
            if record and (found.incarnation, found.commit) == (written.incarnation, written.commit):
                return record.seq  # the answer to an earlier attempt was lost
            raise Fenced(
                f"{self._subject} belongs to incarnation {found.incarnation} since epoch {found.epoch}"
            ) from error

    async def confirm(self) -> None:
        """Return when the part is seen to be this process's still.

        Raises:
            Fenced: another process owns it.
        """
        found, _ = await self.look()
        if (found.incarnation, found.epoch) != (self._writer.incarnation, self.position.epoch):
            raise Fenced(
                f"{self._subject} belongs to incarnation {found.incarnation} since epoch {found.epoch}"
            )

    async def stand_by(self) -> None:
        """Return when the part's owner has been silent for `TAKE_OVER_S`."""
        loop = asyncio.get_running_loop()
        _, sequence = await self.look()
        since = loop.time()
        while loop.time() - since < TAKE_OVER_S:
            await asyncio.sleep(TAKE_OVER_S / 10)
            _, found = await self.look()
            if found != sequence:
                sequence, since = found, loop.time()
        _log.info("the owner is silent, taking over", checkpoint=self._subject)

    async def keep(self, own: Callable[[], Awaitable[None]], **said: str) -> NoReturn:
        """Run `own`, which claims the part, for ever: standing by while another process has it.

        `said` goes into the warning that tells of stepping back.
        """
        while True:
            try:
                await own()
            except Fenced as fenced:
                _log.warning("stepped back, standing by", **said, message=str(fenced))
            except ExceptionGroup as group:
                if (found := fenced_in(group)) is None:
                    raise
                _log.warning("stepped back, standing by", **said, message=str(found))
            await self.stand_by()


def fenced_in(group: ExceptionGroup[Exception]) -> Fenced | None:
    """The fence that ended a task group; None when something else took part in it."""
    fenced, others = group.split(Fenced)
    return None if fenced is None or others is not None else Fenced(str(fenced.exceptions[0]))


def attempts(in_flight: InFlight | None = None) -> AsyncIterator[stamina.Attempt]:
    """Until the log answers: what was not stored there is nowhere. `in_flight` is told what the matter is."""

    def on(error: Exception) -> bool | float:
        again = _retry(error)
        if again and in_flight is not None:
            in_flight.problem = str(error)
        return again

    endless: AsyncIterator[stamina.Attempt] = stamina.retry_context(
        on=on, attempts=None, timeout=None, wait_initial=0.1, wait_max=5.0, wait_jitter=0.2
    ).__aiter__()
    return endless


def _retry(error: Exception) -> bool | float:
    if isinstance(error, StoreFull):
        _log.error("the log's store is full, messages wait", reason=error.reason, error=str(error))
        return 5.0
    if isinstance(error, LogUnavailable):
        _log.warning("the log does not answer, messages wait", reason=error.reason, error=str(error))
        return True
    return False
