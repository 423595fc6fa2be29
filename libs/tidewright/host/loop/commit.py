"""Grouped atomic commits, and what a refusal means.

A refusal is not proof of another owner: the retry of a commit whose answer was lost is refused too.
So after a time-out or a conflict the last checkpoint of each slot is read: mine and this commit:
done; another incarnation's: the slot is lost; neither: the same batch again.

Decisions that do not fit into one batch are committed in parts. All but the last carry the slot's last
checkpoint once more, marked as partial: it fences, and covers nothing. An owner that dies in
between leaves the first decisions of an event; the next one decides it anew and records the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Generic, TypeAlias

import msgspec

from tidewright.host.fold import plan
from tidewright.host.fold.decider import State
from tidewright.host.fold.order import Fold
from tidewright.host.loop.alarms import Alarms
from tidewright.host.process.health import Health
from tidewright.log import checkpoint as checkpoints
from tidewright.log import errors
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.connection import Log, Message
from tidewright.log.continuity import Doubt, earlier
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import MAX_BATCH, Writer
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot

STORE_FULL_PAUSE_S = 1.0
RETRY_S, RETRY_MOST_S = 0.1, 0.5
"""Pauses while the log does not answer: the first, and the longest; each is twice the one before."""

Restored: TypeAlias = tuple[Fold[State], Checkpoint | None, int]
"""A slot as it was restored: up to its last checkpoint, which lies at this sequence; None and 0 without one."""

logger = get_logger(__name__)


@dataclass
class Owned(Generic[State]):
    """A slot that this process decides for.

    Attributes:
        epoch: of our claim.
        checkpoint: the slot's last one that is not partial, which must be ours.
        checkpoint_seq: sequence of the slot's last one, partial or not.
        read: sequence up to which the slot's inputs have been taken.
        committed: that sequence at the last commit.
        snapshotted: that sequence at the slot's latest snapshot, 0 without one; `snapshotted_at` is when
            this process took it (or the slot).
        pending: decisions that are not committed yet, as messages.
        schedules: by timer key, the schedule (or its cancellation) that they ask for last.
        alarms: of its timers, those that are fired with its commits.
        urgent: somebody waits for what is pending.
        dirty: events folded since the last commit.
        waiting_since: when the first of these was, or, where a commit was asked for otherwise, when the last commit was.
        halted: why the slot stopped, empty while it goes on.
        begun: of events not covered by a checkpoint, how many of their decisions are recorded already.
    """

    fold: Fold[State]
    epoch: int
    checkpoint: Checkpoint
    checkpoint_seq: int
    read: int
    committed: int = 0
    snapshotted: int = 0
    pending: list[Message] = field(default_factory=list)
    schedules: dict[str, Message] = field(default_factory=dict)
    alarms: Alarms = field(default_factory=Alarms)
    urgent: bool = False
    dirty: int = 0
    halted: str = ""
    begun: dict[int, int] = field(default_factory=dict)
    committed_at: float = field(default_factory=time.monotonic)
    waiting_since: float = field(default_factory=time.monotonic)
    snapshotted_at: float = field(default_factory=time.monotonic)

    @property
    def slot(self) -> Slot:
        return self.fold.slot

    @property
    def size(self) -> int:
        """Messages that its next commit takes, the checkpoint not counted."""
        return len(self.pending) + len(self.schedules) + len(self.alarms.fired)

    @property
    def about_timers(self) -> list[Message]:
        """Schedules, and what fires: behind the decisions, since a fold takes no timer before it is set."""
        return [*self.schedules.values(), *self.alarms.fired]

    def folded(self) -> None:
        """An event more is not covered."""
        if not self.dirty:
            self.waiting_since = time.monotonic()
        self.dirty += 1

    def clear(self) -> None:
        """Nothing is pending any more."""
        self.pending.clear()
        self.clear_timers()
        self.urgent = False
        self.dirty = 0

    def clear_timers(self) -> None:
        """Nothing about timers is pending any more."""
        self.schedules.clear()
        self.alarms.fired.clear()


@dataclass
class Committer:
    """Commits for one process. One batch is in flight at a time."""

    log: Log
    writer: Writer
    health: Health
    count: int = 0
    doubt: Doubt = field(default_factory=Doubt)
    _full: bool = False

    async def commit(self, slots: Iterable[Owned[State]]) -> list[Slot]:
        """Commit what these slots have pending; returns the slots that turned out to be another's.

        Waits out an unreachable or full log; gives up only when cancelled.
        """
        lost: list[Slot] = []
        waiting = [s for s in slots if s.pending or s.dirty]
        for owned in waiting:
            while owned.size >= MAX_BATCH and owned.slot not in lost:
                lost += await self._commit_batch([owned], partial=True)
        for batch in self._batches([s for s in waiting if s.slot not in lost]):
            lost += await self._commit_batch(batch)
        return lost

    async def claim(self, folds: Sequence[Restored[State]]) -> list[Owned[State]]:
        """Make slots ours: each one's next checkpoint, with the epoch after the last one's.

        Together, and each by itself where that is refused. Returns those that are ours; in the others
        somebody wrote a checkpoint after `last`.

        Raises:
            LogUnavailable: no answer; which claims hold is seen in the log.
        """
        claimed: list[Owned[State]] = []
        for start in range(0, len(folds), MAX_BATCH):
            some = folds[start : start + MAX_BATCH]
            try:
                claimed += await self._claim(some)
            except errors.Conflict:
                for restored in some if len(some) > 1 else ():
                    with contextlib.suppress(errors.Conflict):
                        claimed += await self._claim([restored])
        return claimed

    async def _claim(self, folds: Sequence[Restored[State]]) -> list[Owned[State]]:
        self.count += 1
        owned: list[Owned[State]] = []
        messages: list[Message] = []
        for fold, last, last_seq in folds:
            epoch, position = (last.epoch + 1, last.position) if last else (1, 0)
            checkpoint = plan.checkpoint_of(
                fold, position=position, epoch=epoch, incarnation=self.writer.incarnation, commit=self.count, claims=True
            )  # fmt: skip
            messages.append(
                plan.checkpoint_message(self.log.subjects, fold.slot, self.writer, checkpoint, last_seq)
            )
            owned.append(Owned(fold, epoch, checkpoint, 0, position, position))
        committed = await self.log.commit(messages)
        for place, claimed in enumerate(owned):
            claimed.checkpoint_seq = committed.seq_of(place)
        return owned

    def _batches(self, slots: Sequence[Owned[State]]) -> list[list[Owned[State]]]:
        """Slots together while their messages fit into one atomic batch; each by itself where there are but a few checkpoints."""
        alone = not any(owned.size for owned in slots)  # and no slot needs another one's
        if alone and self.log.one_by_one(len(slots)):
            return [[owned] for owned in slots]
        batches: list[list[Owned[State]]] = []
        room = 0
        for owned in slots:
            size = owned.size + 1
            if size > room:
                batches.append([])
                room = MAX_BATCH
            batches[-1].append(owned)
            room -= size
        return batches

    async def _commit_batch(self, batch: list[Owned[State]], *, partial: bool = False) -> list[Slot]:
        lost: list[Slot] = []
        self.count += 1
        while batch:
            self.health.tick()  # waiting for the log is no reason to be restarted
            parts = [self._part(owned) if partial else self._whole(owned) for owned in batch]
            messages = [message for part in parts for message in part]
            places = list(accumulate((len(part) for part in parts), initial=-1))[1:]
            started = time.monotonic()
            try:
                committed = await self.log.commit(messages)
            except errors.StoreFull as error:
                await self._wait_for_room(error)
                continue
            except (errors.Conflict, errors.LogUnavailable) as error:
                self._count("unclear")
                logger.info(
                    "commit unclear, looking at the checkpoints", reason=error.reason, error=str(error)
                )
                done, gone = await self._what_became_of(batch)
                lost += gone
                for owned, part in zip(batch, parts, strict=True):
                    if owned.slot in done:
                        self._settle(owned, part, partial=partial)
                remaining = [s for s in batch if s.slot not in gone and s.slot not in done]
                if len(remaining) < len(batch):
                    self.count += 1  # another batch, not the same one again
                batch = remaining
                continue
            self._count("done")
            if self._full:
                self._full = False
                logger.info("the store takes messages again")
            self.health.metrics.commit_seconds.observe(time.monotonic() - started)
            for owned, part, place in zip(batch, parts, places, strict=True):
                owned.checkpoint_seq = committed.seq_of(place)
                self._settle(owned, part, partial=partial)
            return lost
        return lost

    def _settle(self, owned: Owned[State], part: Sequence[Message], *, partial: bool) -> None:
        """What was pending is on the log."""
        if partial:
            del owned.pending[: len(part) - 1]
        else:
            owned.checkpoint = self._checkpoint(owned)
            owned.alarms.told(owned.schedules)
            owned.clear()
            owned.committed = owned.read
        owned.committed_at = owned.waiting_since = time.monotonic()

    def _whole(self, owned: Owned[State]) -> list[Message]:
        """All that a slot has pending, and the checkpoint that covers it."""
        return [*owned.pending, *owned.about_timers, self._stored(owned, self._checkpoint(owned))]

    def _part(self, owned: Owned[State]) -> list[Message]:
        """As much as fits of what a slot has pending, under its last checkpoint once more."""
        owned.pending += owned.about_timers
        owned.alarms.told(owned.schedules)
        owned.clear_timers()
        again = msgspec.structs.replace(owned.checkpoint, commit=self.count, partial=True, reads=None)
        end = MAX_BATCH - 1
        if plan.is_entry(owned.pending[end]):
            end -= 1  # a decision and its entry stay together
        return [*owned.pending[:end], self._stored(owned, again)]

    def _checkpoint(self, owned: Owned[State]) -> Checkpoint:
        return plan.checkpoint_of(
            owned.fold, position=owned.read, epoch=owned.epoch, incarnation=self.writer.incarnation, commit=self.count
        )  # fmt: skip

    def _stored(self, owned: Owned[State], checkpoint: Checkpoint) -> Message:
        return plan.checkpoint_message(
            self.log.subjects, owned.slot, self.writer, checkpoint, owned.checkpoint_seq
        )

    async def _what_became_of(self, batch: Sequence[Owned[State]]) -> tuple[list[Slot], list[Slot]]:
        """The slots of which the commit was stored after all, and those that are another's now.

        All or none of them, but for a batch that the server tore (see `tidewright.log.partial_batches`).
        """
        gone: list[Slot] = []
        done: list[Slot] = []
        for owned in batch:
            record = await self._last_checkpoint(owned)
            if record is None or record.seq == owned.checkpoint_seq:
                continue
            try:
                checkpoint = checkpoints.usable(record)
            except errors.Unsound as error:  # who restores the slot finds it, and nobody goes on from it
                logger.error("slot given up", slot=owned.slot, reason=error.reason, error=str(error))
                gone.append(owned.slot)
                continue
            if checkpoint.incarnation == self.writer.incarnation and checkpoint.commit == self.count:
                owned.checkpoint_seq = record.seq
                done.append(owned.slot)
            else:
                logger.warning(
                    "slot is another's now",
                    slot=owned.slot,
                    epoch=checkpoint.epoch,
                    incarnation=checkpoint.incarnation,
                )
                gone.append(owned.slot)
        return done, gone

    async def _last_checkpoint(self, owned: Owned[State]) -> Record | None:
        """A slot's last checkpoint, once what this process appended last is there as a whole or not at all.

        Raises:
            Unsound: it lies before one that this process has seen.
        """
        subject = self.log.subjects.checkpoint(owned.slot, self.writer.service)
        pause_s = RETRY_S
        while True:
            self.health.tick()
            try:
                await self.log.settled()
                record = await self.log.last(subject)
                if (seq := record.seq if record else 0) < owned.checkpoint_seq:
                    self.doubt.raise_for(earlier(subject, seq, owned.checkpoint_seq))
                self.doubt.settle()
                return record
            except errors.StoreFull as error:
                await self._wait_for_room(error)
            except errors.LogUnavailable as error:
                self.health.not_ready = str(error)
                self.log.outage.met("asking whose slots are", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MOST_S)

    async def _wait_for_room(self, error: errors.StoreFull) -> None:
        self._count("full")
        self.health.not_ready = str(error)
        if not self._full:
            self._full = True
            event, do = "store full, waiting", "enlarge the store"
            if isinstance(error, errors.MessageTooLarge):
                event, do = "message too large, waiting", "raise the server's max_payload"
            logger.error(event, error=str(error), do=f"{do}; nothing is lost meanwhile")
        await asyncio.sleep(STORE_FULL_PAUSE_S)

    def _count(self, result: str) -> None:
        self.health.metrics.commits.labels(result).inc()
