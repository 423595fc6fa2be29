"""Slots on their way in: restored from snapshots and the log while those already owned go on.

Up to the last checkpoint of each: what lies behind it is not decided yet, and is read once more by who
has claimed the slot. An arrival that cannot be claimed yet (a standby's, or one that its owner has advanced
meanwhile) is advanced again, from where it stands.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Generic, Self

import msgspec

from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.host.fold.decider import Decider, State
from tidewright.host.fold.inbox import Word
from tidewright.host.fold.inputs import Inputs, Role
from tidewright.host.fold.order import Fold, is_id
from tidewright.host.fold.restore import Restore
from tidewright.log import checkpoint as checkpoints
from tidewright.log import errors
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.last_per_subject import last_words_of_all
from tidewright.log.reader import Reader, Record
from tidewright.log.snapshots import Snapshots
from tidewright.log.subjects import Slot

FETCH = 500
FETCH_WAIT_S = 0.25
OUTAGE_PAUSE_S = 0.2
SNAPSHOTS_AT_ONCE = 8

logger = get_logger(__name__)


class Arrival(Generic[State]):
    """Some slots of one service, restored by one reader.

    Attributes:
        restores: what each slot is restored to; who claims a slot takes it out.
        last: by slot, the last checkpoint met, and its sequence.
        broken: by slot, why it cannot be restored beyond some message.
        doubts: by slot, why its last checkpoint cannot be gone on from: nobody may claim it.
        snapshotted: by slot, the position of the snapshot that it began with.
    """

    def __init__(
        self, decider: Decider[State, Any], log: Log, inputs: Inputs, stored: Snapshots, slots: Iterable[Slot]
    ) -> None:
        self._decider, self._log, self._inputs, self._stored = decider, log, inputs, stored
        self._reader: Reader | None = None
        self.restores: dict[Slot, Restore[State]] = {
            slot: Restore(Fold(decider, slot), inputs) for slot in slots
        }
        self.last: dict[Slot, tuple[Checkpoint, int]] = {}
        self.broken: dict[Slot, str] = {}
        self.doubts: dict[Slot, str] = {}
        self._unread: dict[Slot, str] = {}
        """By slot, a decision that is none: whether it stands for one that was, the next checkpoint says."""
        self.snapshotted: dict[Slot, int] = {}

    async def advance(self, pause_s: float = 0.0) -> Self:
        """Fold up to the last checkpoint of each slot, after a pause. Waits out a log that does not answer."""
        await asyncio.sleep(pause_s)
        while True:
            try:
                if self._reader is None:
                    await self._begin()
                else:
                    await self._read_on(self._reader)
                return self
            except errors.LogUnavailable as error:
                self._log.outage.met("restoring", error)
                await asyncio.sleep(OUTAGE_PAUSE_S)

    def read_to(self, slot: Slot) -> int:
        """The sequence up to which nothing on the log is left to decide in a slot.

        Never before its last checkpoint's position; far behind that, where nothing has happened since.
        """
        restore = self.restores[slot]
        if slot in self.broken or self._reader is None:
            return restore.fold.position
        undecided = restore.undecided
        read = undecided[0][0] - 1 if undecided else self._reader.position
        return max(read, restore.fold.position)

    async def close(self) -> None:
        """Give the reader up."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    async def _begin(self) -> None:
        """The first advance: from the latest snapshots on, where there are any that can be trusted."""
        began = time.monotonic()
        limit = asyncio.Semaphore(SNAPSHOTS_AT_ONCE)
        resuming = (self._resume(slot, limit) for slot in list(self.restores))
        # Each to its end: one that goes on beside a second attempt would undo what was read since.
        for outcome in await asyncio.gather(*resuming, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        for slot, restore in self.restores.items():
            await self._begin_to_follow(slot, restore)
        resumed = time.monotonic()
        after = min(r.fold.position for r in self.restores.values())
        await self._log.continuity.require(after, f"a slot of {self._decider.service}")
        reader = self._log.reader([self._inputs.filter], after=after)
        try:
            await self._read_on(reader)
        finally:
            self._reader = reader  # what it has handed out is folded, come what may
        logger.info(
            "slots restored", slots=list(self.restores), from_snapshots=len(self.snapshotted),
            sequences=reader.position - after, snapshots_s=round(resumed - began, 3),
            reading_s=round(time.monotonic() - resumed, 3),
        )  # fmt: skip

    async def _resume(self, slot: Slot, limit: asyncio.Semaphore) -> None:
        async with limit:
            snapshot = await self._stored.latest(self._decider.service, slot, self._decider.readable)
            if snapshot is None:
                return
            try:
                fold = Fold.resumed(self._decider, snapshot)
            except msgspec.ValidationError as error:
                logger.warning("snapshot ignored, the log is folded instead", slot=slot, problem=str(error))
                return
            record = await self._log.at(snapshot.checkpoint_seq)
            try:
                checkpoint = checkpoints.usable(record) if record is not None else None
            except errors.Unsound as error:
                logger.warning("snapshot ignored, the log is folded instead", slot=slot, problem=str(error))
                return
        if record is not None and checkpoint is not None:
            self.restores[slot] = Restore(fold, self._inputs)
            self.last[slot] = (checkpoint, record.seq)
            self.snapshotted[slot] = snapshot.position

    async def _begin_to_follow(self, slot: Slot, restore: Restore[State]) -> None:
        """What was said before the snapshot on what this software follows, and who took the snapshot did not."""
        up_to = restore.fold.position
        filters = self._inputs.filters(restore.unfollowed, slot)
        for record in await last_words_of_all(self._log, filters, up_to) if filters and up_to else ():
            token = self._inputs.token(record.subject)
            if token and self._inputs.concerns(event := registry.read(record.body)):
                restore.word(Word(token, record.subject, record.seq, record.body, event))

    async def _read_on(self, reader: Reader) -> None:
        """Read up to the last checkpoint that any of the slots has by now."""
        goal = 0
        for slot in self.restores:
            record = await self._log.last(self._log.subjects.checkpoint(slot, self._decider.service))
            goal = max(goal, record.seq if record else 0)
        while reader.position < goal:
            for record in await reader.fetch(FETCH, timeout_s=FETCH_WAIT_S):
                self._take(record)
            await asyncio.sleep(0)  # others have their turn, too

    def _take(self, record: Record) -> None:
        """Hand one record of the log to the slots that it belongs to."""
        restores = self.restores
        if not self._inputs.reads(record.subject, restores.keys(), recorded=True):
            return
        role, slot = self._inputs.role(record.subject), self._inputs.slot(record.subject)
        names = restores.keys() if slot is None else {slot} & restores.keys()
        if role is Role.CHECKPOINT:
            for name in names:
                self._checkpoint(name, record)
            return
        event = registry.read(record.body)
        for name in names:
            if role is Role.INPUT:
                if not self._inputs.concerns(event):
                    continue
                if token := self._inputs.token(record.subject):
                    word = Word(token, record.subject, record.seq, record.body, event)
                    restores[name].word(word)
                else:
                    restores[name].event(record.seq, record.body, event)
            elif isinstance(event, Decision) and is_id(event.id):
                restores[name].decision(record.body, event)
            elif isinstance(event, Decision) or event is registry.UNREADABLE:
                self._unread[name] = f"message {record.seq} on {record.subject} is no decision"

    def _checkpoint(self, slot: Slot, record: Record) -> None:
        try:
            checkpoint = checkpoints.usable(record)
        except errors.Unsound as error:
            self.doubts[slot] = str(error)
            return
        self.doubts.pop(slot, None)
        same = self.restores[slot].checkpoint(checkpoint)
        if not same:
            logger.warning(
                "the log folds to another digest than the checkpoint has", slot=slot, seq=record.seq
            )
        unread = "" if checkpoint.partial else self._unread.pop(slot, "")
        if unread and not same:
            self.broken.setdefault(slot, f"{unread}, and it stands where one was")
        self.last[slot] = (checkpoint, record.seq)
