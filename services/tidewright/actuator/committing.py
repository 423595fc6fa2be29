"""What came of effects, on its way onto the log: grouped, with the checkpoint that covers it, or before it where that costs less.

add --gathered--> group --stamped--> log
begin ----------> a checkpoint alone, which somebody waits for
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from tidewright.actuator.ledger import ActPosition, Ledger
from tidewright.actuator.log_clock import LogClock
from tidewright.actuator.plan import Job
from tidewright.events import registry
from tidewright.events.base import Outcome
from tidewright.host.loop.fenced import InFlight, Part, attempts
from tidewright.log import errors
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import CAUSE_SEQ, MAX_BATCH, Writer

TOGETHER_S, FEW = 0.01, 4
"""For so long outcomes are gathered while more than a few effects are under way: each commit has its price, however
little is in it, and what is decided next waits for the last of them."""
READ_AGAIN = 50_000
"""Sequences without an effect after which the position moves on all the same: a restart would look through them again."""

Group: TypeAlias = Sequence[tuple[Job, Outcome]]


async def recorded(log: Log, in_flight: InFlight, after: int) -> set[int]:
    """The decisions whose outcomes lie behind a sequence."""
    subject = f"{log.subjects.root}.outcome.>"
    found: set[int] = set()
    async for attempt in attempts(in_flight):
        with attempt:
            async with log.reader([subject], after=after) as reader:
                async for record in reader.until_current():
                    cause = record.headers.get(CAUSE_SEQ, "")
                    found |= {int(cause)} if cause.isdecimal() else set()
    return found


class Outcomes:
    """The outcomes of one claim of the part.

    Attributes:
        waiting: outcomes that are not committed yet, in order; None for a checkpoint that somebody waits for.
    """

    def __init__(
        self,
        log: Log,
        part: Part[ActPosition],
        ledger: Ledger,
        clock: LogClock,
        *,
        writer: Writer,
        in_flight: InFlight,
        at: float,
        changing: Callable[[], int],
        committed: Callable[[Group, float], None],
    ) -> None:
        """Args:
        log: where outcomes go; its `part` is claimed already.
        part: the checkpoint.
        ledger: what is open, begun and done.
        clock: what outcomes are stamped by.
        writer: who says all of it.
        in_flight: keeps the process at one open batch.
        at: log time of the last outcome of before.
        changing: how many effects are under way that are no reports.
        committed: is given outcomes that are on the log, and when their commit began, of `time.monotonic`.
        """
        self.waiting: asyncio.Queue[tuple[Job, Outcome] | None] = asyncio.Queue()
        self._log = log
        self._part = part
        self._ledger = ledger
        self._clock = clock
        self._writer = writer
        self._in_flight = in_flight
        self._at = at
        self._changing = changing
        self._committed = committed
        self._begun: list[asyncio.Future[None]] = []
        """Who waits for the ledger's beginnings to be on the log."""
        self._hurried = asyncio.Event()
        """Somebody waits for a commit, or nothing more comes soon."""

    def add(self, job: Job, outcome: Outcome) -> None:
        """A job has its outcome; it is on the log once `committed` is told of it."""
        self.waiting.put_nowait((job, outcome))

    def few_are_left(self) -> None:
        """An effect has ended: with few others under way nothing more is waited for."""
        if self._changing() <= FEW:
            self._hurried.set()

    async def begin(self, job: Job) -> None:
        """Return when it is on the log that a request may have been made for a job that must not be made twice."""
        if not self._ledger.begin(job.seq):
            return
        recorded = asyncio.get_running_loop().create_future()
        self._begun.append(recorded)
        self.waiting.put_nowait(None)
        self._hurried.set()
        await recorded

    async def run(self) -> None:
        """Commit for ever; without outcomes the checkpoint alone, when it is due or lies far back.

        Raises:
            Fenced: another process owns the part.
            Unsound: nobody can say whose it is.
        """
        while True:
            if (taken := await self._next()) is None:
                continue
            group = [entry for entry in taken if entry is not None]
            if group:
                await self._clock.follow(max(job.effect.at for job, _ in group))
            begun, self._begun = self._begun, []
            messages = [self._message(job, outcome) for job, outcome in group]
            for job, _ in group:
                self._ledger.finish(job.seq)
            began = time.monotonic()
            position = ActPosition(
                at=self._at,
                position=self._ledger.position,
                done=self._ledger.done,
                begun=self._ledger.begun,
            )
            if messages and self._log.one_by_one(len(messages)):
                messages = await self._one_by_one(messages)
            await self._part.commit(messages, position)
            for recorded in begun:
                if not recorded.done():  # whoever waited may have been cancelled
                    recorded.set_result(None)
            self._committed(group, began)

    async def _next(self) -> list[tuple[Job, Outcome] | None] | None:
        """What goes into the next commit; None when there is nothing to commit yet."""
        taken: list[tuple[Job, Outcome] | None] = []
        try:
            async with asyncio.timeout(self._part.renewal_in_s):
                taken.append(await self.waiting.get())
        except TimeoutError:
            ahead = self._ledger.position - self._part.position.position
            if self._part.renewal_in_s and ahead < READ_AGAIN:
                return None
        if self._changing() > FEW and not self._begun:
            await self._gathered()
        while len(taken) < MAX_BATCH - 1 and not self.waiting.empty():
            taken.append(self.waiting.get_nowait())
        return taken

    async def _gathered(self) -> None:
        """Return when some outcomes may have come together, or one is waited for."""
        self._hurried.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(TOGETHER_S):
                await self._hurried.wait()

    async def _one_by_one(self, messages: list[Message]) -> list[Message]:
        """Append outcomes before the checkpoint that covers them; those that are left to be committed with it.

        Each is taken only while the checkpoint is ours, and whoever claims it finds what it does not cover.
        """
        since = self._part.sequence
        for place, message in enumerate(messages):
            try:
                await self._part.append(message)
            except (errors.Conflict, errors.StoreFull):
                return messages[place:]  # nothing of it is there, and a commit finds out why
            except errors.LogUnavailable:
                # Behind another checkpoint it does not come any more: what is there by then is all.
                await self._part.commit([], self._part.position.seen(since))
                there = await recorded(self._log, self._in_flight, since)
                return [it for it in messages[place:] if int((it.headers or {})[CAUSE_SEQ]) not in there]
        return []

    def _message(self, job: Job, outcome: Outcome) -> Message:
        self._at = max(self._at, self._clock.now(), job.effect.at)
        stamped = msgspec.structs.replace(outcome, at=self._at)
        parsed = self._log.subjects.parse(job.subject)
        # The decision's own tokens: its decider reads the outcomes of its slot.
        subject = f"{self._log.subjects.root}.outcome.{parsed.slot}.{'.'.join(parsed.rest[1:])}"
        return Message(
            subject, registry.encode(stamped), self._writer.headers(cause_seq=job.seq, trace=job.trace)
        )
