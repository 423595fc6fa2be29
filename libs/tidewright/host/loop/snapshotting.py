"""When a host takes snapshots of its slots, and how: beside the decisions, which do not wait for the store.

A snapshot is what makes a take-over quick: whoever wins a slot reads what lies behind its latest one
before anybody decides there again. So the distance counts from the snapshot that is stored, not from
when this process took the slot over: slots that change hands often would never get one otherwise, and
each of their take-overs would take longer than the one before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Generic, NamedTuple

from tidewright.host.fold.decider import State
from tidewright.host.loop.commit import Owned
from tidewright.host.loop.settings import Settings
from tidewright.log import snapshots
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.subjects import Slot

AT_HANDOVER = 500
"""Sequences: who takes over waits for what it has to read, so that little is left to read."""
CLOSE_S = 5.0
RETAINED_APART = 20_000
"""Sequences between two snapshots that stay while what came after them is retained: where a replay can begin."""
SHARE = 0.02
"""Of a process's time that a slot's snapshots take at most: a large state has them less often."""
AT_ONCE = 8
"""Slots whose states are in memory a second time, as what is stored."""
FAILED_S = snapshots.AWAY_S
"""A slot whose snapshot could not be stored is left alone for so long."""
IN_PLACE = 256 * 1024
"""Bytes of a state that are compressed in place; more than that in a thread, while others go on."""

logger = get_logger(__name__)


class _Taken(NamedTuple, Generic[State]):
    """A slot's snapshot, whether it stays, and what is true again if it cannot be stored.

    Attributes:
        before: the slot's `snapshotted` and `snapshotted_at`, and when its last one that stays was taken.
    """

    owned: Owned[State]
    snapshot: Snapshot
    keep: bool
    before: tuple[int, float, float]


class Snapshotter(Generic[State]):
    """Takes the snapshots of one host."""

    def __init__(self, log: Log, stored: Snapshots, settings: Settings) -> None:
        self._log, self._stored, self._settings = log, stored, settings
        self._storing: asyncio.Task[None] | None = None
        self._cost_s: dict[Slot, float] = {}
        """By slot, how long the decisions had to wait for its last snapshot."""
        self._kept_at: dict[Slot, float] = {}
        """By slot, when its last snapshot that stays was taken."""
        self._failed_at: dict[Slot, float] = {}
        """By slot, when a snapshot of it could not be stored."""

    def due(self, owned: Owned[State]) -> bool:
        """Whether a slot's latest snapshot lies too far back: in sequences, or, with retention, in time.

        What a state holds may be on the log no more (a timer set long ago), so that a snapshot that is
        older than what is retained is as good as none. Nothing is due while the last ones are being stored.
        """
        if owned.halted or self.busy or self._failed_lately(owned.slot):
            return False
        renew_s, age_s = self._settings.renew_s, time.monotonic() - owned.snapshotted_at
        if renew_s is not None and age_s > renew_s:
            return True
        if owned.read - owned.snapshotted <= self._settings.snapshot_distance:
            return False
        cost_s = self._cost_s.get(owned.slot)  # none of ours yet: a slot just won may have been due for long
        pause_s = 0.0 if cost_s is None else max(self._settings.snapshot_pause_s, cost_s / SHARE)
        return age_s > pause_s

    def take(self, slots: Collection[Owned[State]]) -> None:
        """Snapshot slots that are due, without waiting: a few at a time, the others come next."""
        self._begin(_furthest(o for o in slots if self.due(o) and _settled(o)))

    def next_to_hand_over(self, slots: Collection[Owned[State]]) -> list[Owned[State]]:
        """Slots to snapshot before others restore them: a few at a time, none while the last ones are being stored."""
        distance = min(AT_HANDOVER, self._settings.snapshot_distance)
        if self.busy:
            return []
        return _furthest(
            o
            for o in slots
            if not o.halted and not self._failed_lately(o.slot) and o.read - o.snapshotted > distance
        )

    def hand_over(self, slots: Collection[Owned[State]]) -> None:
        """Snapshot slots that were committed for it, without waiting."""
        self._begin([o for o in slots if _settled(o)])

    async def close(self) -> None:
        """Wait until everything is stored, if that can be; nothing depends on it."""
        if self._storing is not None:
            await asyncio.wait([self._storing], timeout=CLOSE_S)
            self._storing.cancel()

    @property
    def busy(self) -> bool:
        """Whether snapshots are being stored."""
        return self._storing is not None and not self._storing.done()

    def _begin(self, slots: Collection[Owned[State]]) -> None:
        if slots:
            self._storing = asyncio.create_task(self._store([self._taken(o) for o in slots]))

    def _failed_lately(self, slot: Slot) -> bool:
        return time.monotonic() - self._failed_at.get(slot, float("-inf")) < FAILED_S

    def _taken(self, owned: Owned[State]) -> _Taken[State]:
        """A slot's state as it is now, and whether it stays as one of the slot's history."""
        began = time.monotonic()
        before = owned.snapshotted, owned.snapshotted_at, self._kept_at.get(owned.slot, float("-inf"))
        snapshot = owned.fold.snapshot(checkpoint_seq=owned.checkpoint_seq, position=owned.committed)
        keep = self._stays(owned)
        owned.snapshotted, owned.snapshotted_at = owned.committed, time.monotonic()
        self._cost_s[owned.slot] = owned.snapshotted_at - began
        if keep:
            self._kept_at[owned.slot] = owned.snapshotted_at
        return _Taken(owned, snapshot, keep, before)

    def _stays(self, owned: Owned[State]) -> bool:
        """Whether the next snapshot stays beside the slot's latest one, for replays to begin at."""
        apart, renew_s = self._settings.history_distance, self._settings.renew_s
        if renew_s is not None:
            apart = min(apart, RETAINED_APART)
            if time.monotonic() - self._kept_at.get(owned.slot, float("-inf")) > renew_s:
                return True  # or nothing of what is retained on a slow log could be replayed
        return owned.snapshotted // apart != owned.committed // apart

    async def _store(self, taken: Sequence[_Taken[State]]) -> None:
        stored = await asyncio.gather(*(self._put(t.snapshot, t.keep) for t in taken), return_exceptions=True)
        for each, outcome in zip(taken, stored, strict=True):
            if isinstance(outcome, Exception):
                logger.warning("snapshot not stored", error=f"{type(outcome).__name__}: {outcome}")
            if outcome is not True:
                self._failed(each)

    def _failed(self, taken: _Taken[State]) -> None:
        """The slot's latest snapshot is still the one before."""
        owned = taken.owned
        owned.snapshotted, owned.snapshotted_at, self._kept_at[owned.slot] = taken.before
        self._failed_at[owned.slot] = time.monotonic()

    async def _put(self, snapshot: Snapshot, keep: bool) -> bool:
        """Whether it is stored."""
        if memoryview(snapshot.state).nbytes < IN_PLACE:
            data = snapshots.encode(snapshot)
        else:
            data = await asyncio.to_thread(snapshots.encode, snapshot)
        stored = await self._stored.put(snapshot, data, keep=keep)
        if stored and keep and self._settings.renew_s is not None:
            first, _ = await self._log.bounds()
            await self._stored.prune(snapshot.service, Slot(snapshot.slot), first)
        return stored


def _furthest(slots: Iterable[Owned[State]]) -> list[Owned[State]]:
    """As many as are taken at once, those first that are furthest behind: none waits for ever."""
    return sorted(slots, key=lambda o: o.snapshotted - o.read)[:AT_ONCE]


def _settled(owned: Owned[State]) -> bool:
    """Whether a slot's state is exactly its last checkpoint's: only then can it be trusted by who reads it."""
    return not (owned.dirty or owned.size or owned.halted) and owned.committed == owned.read
