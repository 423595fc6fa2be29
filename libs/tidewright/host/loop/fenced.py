"""Messages onto the log under a checkpoint that only one process can advance.

For the services at the edge (watcher, actuator), whose position is not a fold's. A *part* is what one
checkpoint covers. `claim` takes it over; a commit that finds another owner's checkpoint raises
`Fenced`, and nothing of it is on the log. Who is there says the bucket of members, which is a hint: it is the checkpoint that fences.
A checkpoint is written with what it covers, and otherwise only before the log forgets it. An unreachable log is waited for. A checkpoint that cannot be gone
on from, or a log that is another than before, halts: nothing is acted on, and it is said why.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec
import stamina

from tidewright.events.version import __version__
from tidewright.host.loop.membership import BucketMembership, Membership
from tidewright.host.process.health import Health
from tidewright.host.process.process import causes
from tidewright.log import checkpoint as checkpoints
from tidewright.log.connection import Committed, Log, Message
from tidewright.log.continuity import Continuity, Doubt, earlier
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import Writer
from tidewright.log.errors import Conflict, LogError, LogUnavailable, StoreFull, Unsound
from tidewright.log.outage import OUTAGE
from tidewright.log.reader import Record

LOOK_S = 5.0
"""How often a process that is not alone looks whose a checkpoint is, in wall seconds: an owner that has nothing to say
would not notice that it was taken over, and nobody would stand by."""
ABSENT_S = 0.6
"""An owner that is not heard of for so long, by who hears others, is not there: entries come every half second."""
POLL_S = 0.1
TURN_S = 60.0
"""The longest that an owner with nothing to say waits before it looks whether its checkpoint is due."""
FULL_S = 5.0
"""Between two attempts to append to a store that is full."""
AGAIN_S, AGAIN_MOST_S = 0.1, 0.5
"""Pauses while the log does not answer: the first, and the longest. What it is down for, the longest comes on top of."""
HALTED_S = 5.0
"""A checkpoint that could not be gone on from is looked at again after so long: somebody may have put it right."""

_log = get_logger(__name__)


class Fenced(Exception):
    """Another process has taken the part over."""


class InFlight(asyncio.Lock):
    """What the parts of a process share: one open batch at a time, who else is there, and what the matter is.

    Attributes:
        others: who is there; None: nobody else is ever taken to be.
        renew_s: how often a checkpoint is said again, wall seconds; infinite on a log that keeps everything.
        problem: why the log takes nothing at present, for the readiness probe; empty when it does.
        lost: why nothing at all is acted on any more; empty while the log is what it was.
        halted: by checkpoint, why its part is not acted on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.others: Membership | None = None
        self.renew_s = inf
        self.problem = self.lost = ""
        self._refused = self._full = False
        self.halted: dict[str, str] = {}

    @property
    def why(self) -> str:
        """Why this process is not ready, as far as the log goes."""
        return self.lost or "; ".join(self.halted.values()) or self.problem

    def waits(self, error: LogError) -> bool:
        """Take note that the log takes nothing; whether that is for a full store, and had not been said."""
        self._refused, self.problem = isinstance(error, StoreFull), str(error)
        if not self._refused:
            return False
        new, self._full = not self._full, True
        return new

    def settled(self, *, appended: bool) -> None:
        """It has answered; that it takes something, only an append shows."""
        OUTAGE.answered()
        if self._refused and not appended:
            return
        if self._full and appended:
            _log.info("the log takes messages again")
            self._full = False
        self.problem, self._refused = "", False

    @property
    def entries(self) -> Mapping[str, bytes]:
        """What those who are there say of themselves, by their names in the bucket."""
        return self.others.entries if isinstance(self.others, BucketMembership) else {}

    def is_there(self, incarnation: str) -> bool:
        """Whether a process is there, as far as can be told."""
        return self.others is not None and incarnation in self.others.members

    @property
    def is_not_alone(self) -> bool:
        """Whether other processes of the service are there."""
        return self.others is not None and len(self.others.members) > 1

    def tell(self, health: Health) -> None:
        """What is halted, as a metric."""
        health.metrics.halted.set(max(len(self.halted), bool(self.lost)))


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every checkpoint of a part says; a service adds its own fields and a tag. What is at its default is not written.

    Attributes:
        at: log time of the last message, seconds; never goes back.
        epoch: grows by one with every claim.
        incarnation: the process that wrote it.
        commit: counts the commits of that incarnation on this part.
        version: of the software that wrote it.
    """

    # Stored in this order: what stays first, see `tidewright.log.envelope`.
    epoch: int = 0
    incarnation: str = ""
    version: str = ""
    at: float
    commit: int = 0


class LogPort(Protocol):
    """What is used of `tidewright.log.connection.Log`."""

    async def commit(self, messages: Sequence[Message]) -> Committed: ...
    async def last(self, subject: str) -> Record | None: ...


P = TypeVar("P", bound=Position)
T = TypeVar("T")


class Part(Generic[P]):
    """One part: its checkpoint, and the only way of its messages to the log.

    Attributes:
        elsewhere: where its owner stands, as last seen, while this process stands by; None while it does not.
        on_elsewhere: is given that each time that it is looked at.
    """

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
        self._doubt = Doubt()
        self._owns = False
        self._committed_at = 0.0
        self._sequence = 0
        self._count = 0
        self.position: P = position_type(at=0.0)
        self.elsewhere: P | None = None
        self.on_elsewhere: Callable[[P], None] = lambda _: None

    async def look(self) -> tuple[P, int]:
        """The checkpoint as it is on the log, and its sequence (0 when there is none).

        Raises:
            Unsound: it cannot be gone on from, or is not there any more.
        """
        async for attempt in attempts(self._in_flight):
            with attempt:
                recorded = self._sound(await self._log.last(self._subject))
                self._in_flight.settled(appended=False)
        return recorded

    def _sound(self, record: Record | None) -> tuple[P, int]:
        if self._in_flight.lost:
            raise Unsound(self._in_flight.lost)
        seq = record.seq if record is not None else 0
        if seq < self._sequence:
            self._doubt.raise_for(earlier(self._subject, seq, self._sequence))
        self._doubt.settle()
        return (
            (checkpoints.sound(record, self._decoder), seq) if record is not None else (self._type(at=0.0), 0)
        )

    async def claim(self, seen: Callable[[P, int], P] = lambda position, _: position) -> P:
        """Take the part over from whoever had it, and return where it stands.

        `seen` is given the checkpoint as it was found and its sequence, and says what of it goes on.

        Raises:
            Fenced: somebody else did so at the same time.
            Unsound: it stands nowhere that can be gone on from.
        """
        found, self._sequence = await self.look()
        recorded = seen(found, self._sequence)
        self.position = msgspec.structs.replace(recorded, epoch=recorded.epoch + 1)
        await self.commit([], self.position)
        self._owns = True
        _log.debug("claimed", checkpoint=self._subject, epoch=self.position.epoch)
        return recorded

    async def commit(self, messages: Sequence[Message], position: P) -> None:
        """Append messages and the new checkpoint as one batch (at most `MAX_BATCH - 1` messages).

        `position` says what is new; who writes it, and when it was claimed, is filled in here.

        Raises:
            Fenced: another process owns the part; nothing of this is on the log.
            Unsound: nobody can say whose it is; nothing of this is on the log.
        """
        await self._commit(messages, position, self._writer.incarnation)

    async def give_up(self) -> None:
        """Say that the part is nobody's, if it is this process's: whoever stands by takes it over at once.

        Raises:
            Fenced: another process owns it.
            Unsound: nobody can say whose it is.
        """
        if self._owns:
            self._owns = False
            await self._commit([], self.position, "")

    async def _commit(self, messages: Sequence[Message], position: P, owner: str) -> None:
        self._count += 1
        written = msgspec.structs.replace(
            position,
            at=max(position.at, self.position.at),
            epoch=self.position.epoch,
            incarnation=owner,
            commit=self._count,
            version=__version__,
        )
        batch = [
            *messages,
            Message(
                self._subject,
                msgspec.json.encode(written),
                self._writer.of_checkpoint(self._count, version=False),
                expect_last=self._sequence,
            ),
        ]
        async for attempt in attempts(self._in_flight):
            with attempt:
                self._sequence = await self._append(batch, written)
                self._in_flight.settled(appended=True)
        self.position = written
        self._committed_at = asyncio.get_running_loop().time()

    async def append(self, message: Message) -> None:
        """Append one message outside of a commit, if the part is this process's still.

        The checkpoint does not cover it: the next one has to, and whoever claims the part has to look for it.

        Raises:
            Conflict, StoreFull: it was refused.
            LogUnavailable: it may be there, or come yet, but not behind another checkpoint.
            Unsound: the log is another than before.
        """
        if self._in_flight.lost:
            raise Unsound(self._in_flight.lost)
        async with self._in_flight:
            await self._log.commit(
                [msgspec.structs.replace(message, expect_last=self._sequence, expect_of=self._subject)]
            )

    @property
    def sequence(self) -> int:
        """Of the checkpoint as it was written last."""
        return self._sequence

    @property
    def renewal_in_s(self) -> float:
        """Wall seconds until the checkpoint is to be said again; at most `TURN_S`, for who waits for something else."""
        due = self._committed_at + self._in_flight.renew_s
        return min(TURN_S, max(0.0, due - asyncio.get_running_loop().time()))

    async def _append(self, batch: list[Message], written: P) -> int:
        """Append once; the sequence of the checkpoint. A refusal is not proof of another owner."""
        if self._in_flight.lost:
            raise Unsound(self._in_flight.lost)
        try:
            async with self._in_flight:
                return (await self._log.commit(batch)).last_seq
        except Conflict as error:
            recorded, seq = self._sound(await self._log.last(self._subject))
            if seq and (recorded.incarnation, recorded.commit) == (written.incarnation, written.commit):
                return seq  # the answer to an earlier attempt was lost
            if seq == self._sequence:
                # A leader without the others holds this against what it could not append. Nobody has taken the part over.
                raise LogUnavailable(
                    f"{self._subject}: refused, though nothing was appended behind {seq}"
                ) from error
            raise Fenced(
                f"{self._subject} belongs to incarnation {recorded.incarnation} since epoch {recorded.epoch}"
            ) from error

    async def confirm(self) -> None:
        """Return when the part is seen to be this process's still.

        Raises:
            Fenced: another process owns it.
            Unsound: it cannot be told whose it is.
        """
        recorded, _ = await self.look()
        if (recorded.incarnation, recorded.epoch) != (self._writer.incarnation, self.position.epoch):
            raise Fenced(
                f"{self._subject} belongs to incarnation {recorded.incarnation} since epoch {recorded.epoch}"
            )

    async def stand_by(self, due: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Return when the part's owner is not there any more, or the part is `due` here whoever has it."""
        while True:
            recorded, sequence = await self.look()
            if recorded.incarnation != self._writer.incarnation:
                self.elsewhere = recorded
                self.on_elsewhere(recorded)
            if due is not None and await due():
                self.elsewhere = None
                return
            if await self._is_absent(recorded.incarnation):
                _, now = await self.look()
                if now == sequence:  # else another one has taken it over
                    break
        self.elsewhere = None
        _log.info("the owner is not there, taking over", checkpoint=self._subject, owner=recorded.incarnation)

    async def _is_absent(self, owner: str) -> bool:
        """Whether an owner is not there for `ABSENT_S`; False as soon as it has been seen for `LOOK_S`."""
        if owner == self._writer.incarnation:
            return True
        loop = asyncio.get_running_loop()
        began = since = loop.time()
        while loop.time() - since < ABSENT_S:
            await asyncio.sleep(POLL_S)
            if self._in_flight.is_there(owner):
                since = loop.time()
                if since - began > LOOK_S:
                    return False
        return True

    async def keep(
        self,
        own: Callable[[], Awaitable[None]],
        due: Callable[[], Awaitable[bool]] | None = None,
        **said: str,
    ) -> NoReturn:
        """Run `own`, which claims the part, for ever: standing by while another process has it.

        `due` tells whether the part goes with something that this process has: then its owner is not waited for.
        `said` goes into the warning that tells of stepping back.
        """
        while True:
            try:
                await self._while_ours(own)
            except (Fenced, Unsound, ExceptionGroup) as error:
                self._owns = False
                ending = ended_by(error)
                if isinstance(ending, Unsound):
                    await self._halted(ending)
                else:
                    _log.warning("stepped back, standing by", **said, message=str(ending))
            await self._when_sound(partial(self.stand_by, due))

    async def _while_ours(self, own: Callable[[], Awaitable[None]]) -> None:
        """Run `own` until it ends, or the part is seen to be another's."""
        work, look = asyncio.ensure_future(own()), asyncio.ensure_future(self._until_fenced())
        try:
            await asyncio.wait((work, look), return_when=asyncio.FIRST_COMPLETED)
            (work if work.done() else look).result()
        finally:
            work.cancel()
            look.cancel()
            await asyncio.gather(work, look, return_exceptions=True)

    async def _until_fenced(self) -> None:
        """Raises Fenced, Unsound: what `confirm` says, asked now and then while others are there."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._owns and self._in_flight.is_not_alone:
                await self.confirm()

    async def take(self) -> P:
        """Claim the part, once it can be gone on from.

        Raises:
            Fenced: as `claim`.
        """
        return await self._when_sound(self.claim)

    async def _when_sound(self, asked: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await asked()
            except Unsound as error:
                await self._halted(error)

    async def _halted(self, error: Unsound) -> None:
        """Return when the checkpoint can be gone on from again; never once the log is another."""
        _log.error(
            "halted, nothing is acted on", checkpoint=self._subject, reason=error.reason, error=str(error)
        )
        self._in_flight.halted[self._subject] = str(error)
        while True:
            await asyncio.sleep(HALTED_S)
            with contextlib.suppress(Unsound):
                await self.look()
                break
        del self._in_flight.halted[self._subject]
        _log.info("the checkpoint can be gone on from again", checkpoint=self._subject)


@contextlib.asynccontextmanager
async def present(
    log: Log, writer: Writer, in_flight: InFlight, max_age_s: float, says: Callable[[], bytes] = lambda: b"1"
) -> AsyncIterator[None]:
    """Be known to be there while the block runs, and know who else is. `max_age_s` is the log's, 0 when it keeps everything.

    `says` gives what this process's entry says.

    Raises:
        WrongStream: the log has no bucket of members.
    """
    membership = BucketMembership(log, writer.service, writer.incarnation, says=says)
    in_flight.others, in_flight.renew_s = membership, max_age_s / 3 if max_age_s else inf
    async for attempt in attempts(in_flight):
        with attempt:
            await membership.join()
    try:
        yield
    finally:
        await membership.leave()


async def mind(continuity: Continuity, in_flight: InFlight) -> None:
    """Once the log is another than before, have all parts halt, for good."""
    error = await continuity.until_broken()
    _log.error("the log is another than before", reason=error.reason, error=str(error))
    in_flight.lost = str(error)


async def begins(continuity: Continuity, in_flight: InFlight, what: str) -> None:
    """Return when the log has its beginning, or has lost it by age; never where it was removed: nothing is gone on from then.

    `what` is who starts here, for people.
    """
    try:
        async for attempt in attempts(in_flight):
            with attempt:
                await continuity.require(0, what)
                in_flight.settled(appended=False)
    except Unsound as error:
        _log.error("halted, nothing is said", reason=error.reason, error=str(error))
        in_flight.lost = str(error)
        await asyncio.Event().wait()


def ended_by(error: Exception) -> Fenced | Unsound:
    """What of the two ended the work of a part; anything else goes on to whoever runs it."""
    failures = list(causes(error))
    if not all(isinstance(failure, Fenced | Unsound) for failure in failures):
        raise error
    return next((failure for failure in failures if isinstance(failure, Unsound)), None) or Fenced(
        str(failures[0])
    )


async def answered(ask: Callable[[], Awaitable[T]]) -> T:
    """What the log says to a question, once it answers. As long as it does, nothing is made ready for asking again.

    Raises:
        LogError: it refuses to be asked.
    """
    with contextlib.suppress(StoreFull, LogUnavailable):
        return await ask()
    async for attempt in attempts():
        with attempt:
            return await ask()
    raise AssertionError("it is asked until it answers")


def attempts(in_flight: InFlight | None = None) -> AsyncIterator[stamina.Attempt]:
    """Until the log answers: what was not stored there is nowhere. `in_flight` is told what the matter is.

    It is said once, however many parts meet it.
    """
    waiting = in_flight or InFlight()

    def on(error: Exception) -> bool | float:
        if not isinstance(error, StoreFull | LogUnavailable):
            return False
        new = waiting.waits(error)
        if isinstance(error, StoreFull):
            if new:
                _log.error("the log takes nothing, messages wait", reason=error.reason, error=str(error))
            return FULL_S
        OUTAGE.met("asking" if in_flight is None else "a part", error)
        return True

    endless: AsyncIterator[stamina.Attempt] = stamina.retry_context(
        on=on, attempts=None, timeout=None, wait_initial=AGAIN_S, wait_max=AGAIN_MOST_S, wait_jitter=AGAIN_S
    ).__aiter__()
    return endless
