"""Who may be believed on a running log: key records and ends of commits, looked up and remembered.

Whether a message is believed follows from the log and the anchor alone, so every reader agrees, now
and when the log is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidewright.log import signing
from tidewright.log.belief import Cause
from tidewright.log.envelope import BATCH_ID, BATCH_SEQUENCE
from tidewright.log.keyring import AUTHENTICATED, Keyring, Keys
from tidewright.log.reader import Record
from tidewright.log.signing import Commit
from tidewright.log.subjects import Subjects
from tidewright.log.verdicts import LATER, Later, Verdict

if TYPE_CHECKING:
    from tidewright.log.lookups import Lookups

REMEMBERED = 4096
"""Commits that are known to be good, or not."""
AT_ONCE = 32
"""Look-ups under way at the same time."""


class Trust:
    """What one connection knows of the log's keys and commits."""

    def __init__(self, lookups: Lookups, subjects: Subjects, keyring: Keyring) -> None:
        self._lookups, self._subjects = lookups, subjects
        self.keyring = keyring
        self._known_to = 0
        self._commits: dict[int, Commit] = {}
        self._looking = asyncio.Lock()

    async def keys(self) -> Keys | None:
        """The key record that is in force now; None when there is none.

        Raises:
            LogUnavailable: no answer.
        """
        await self._read_keys()
        return self.keyring.latest

    async def _read_keys(self) -> None:
        """Take every key record that is on the log."""
        async with self._looking:
            while True:
                query = {"seq": self._known_to + 1, "next_by_subj": self.keyring.subject}
                record = await self._lookups.stored(query)
                if record is None:
                    return
                if not self._lookups.marked(record):
                    self.keyring.take(record)
                self._known_to = record.seq

    async def judge(self, records: Sequence[Record]) -> list[Verdict]:
        """Why each of some messages, in stream order, is not believed.

        Raises:
            LogUnavailable: what it takes to tell cannot be looked up.
        """
        await self._read_keys()
        ends = [self._end(record) for record in records]
        commits = await self._commits_of(records, ends)
        return [self._verdict(record, end, commits) for record, end in zip(records, ends, strict=True)]

    def _end(self, record: Record) -> int:
        """The sequence at which a message's commit ends; 0 when it needs no signature, -1 when it says nonsense."""
        keyring = self.keyring
        if (
            record.subject == keyring.subject
            or self._subjects.class_token(record.subject) not in AUTHENTICATED
            or keyring.is_history(record.seq)
        ):
            return 0
        remaining = signing.left_of(record)
        return record.seq + remaining if remaining >= 0 else -1

    def _verdict(self, record: Record, end: int, commits: dict[int, Commit | Later]) -> Verdict:
        if end <= 0:
            if end < 0:
                return Cause.ALTERED
            return self.keyring.believes(record) if record.subject == self.keyring.subject else None
        keys, commit = self.keyring.at(end), commits[end]
        if keys is None:
            return Cause.KEYS
        return commit if isinstance(commit, Later) else signing.judged(record, end - record.seq, commit, keys)

    async def _commits_of(self, records: Sequence[Record], ends: Sequence[int]) -> dict[int, Commit | Later]:
        """The commits that some messages belong to, by the sequence of their last one."""
        commits: dict[int, Commit | Later] = {}
        missing: dict[int, Record] = {}
        here = {record.seq: record for record in records}
        for record, seq in zip(records, ends, strict=True):
            if seq <= 0 or seq in commits or seq in missing:
                continue
            if (known := self._commits.get(seq)) is not None:
                commits[seq] = known
            elif seq in here:
                commits[seq] = self._remember(seq, here[seq])
            else:
                missing[seq] = record
        limit = asyncio.Semaphore(AT_ONCE)

        async def look(seq: int, record: Record) -> None:
            async with limit:
                last = await self._lookups.stored({"seq": seq})
                if last is None and await self._is_to_come(record, seq):
                    commits[seq] = LATER
                else:
                    commits[seq] = self._remember(seq, last)

        if missing:
            async with asyncio.TaskGroup() as group:
                for seq, record in missing.items():
                    group.create_task(look(seq, record))
        return commits

    def _remember(self, seq: int, last: Record | None) -> Commit:
        keys = self.keyring.at(seq)
        if keys is None:
            return Commit(Cause.KEYS)
        if last is not None and self._lookups.marked(last):
            last = None
        commit = signing.commit_of(last, keys)
        if len(self._commits) >= REMEMBERED:
            del self._commits[next(iter(self._commits))]
        self._commits[seq] = commit
        return commit

    async def _is_to_come(self, record: Record, seq: int) -> bool:
        """Whether the server has stored a part of a batch, and has yet to store the rest.

        A full store tears a batch so (`tidewright.log.partial_batches`), and takes nothing else until it has room.
        """
        batch = record.headers.get(BATCH_ID)
        _, end = await self._lookups.bounds()
        if batch is None or end >= seq:
            return False
        last = await self._lookups.stored({"seq": end})
        if last is None or last.headers.get(BATCH_ID) != batch:
            return False
        try:
            return (
                int(last.headers[BATCH_SEQUENCE]) - int(record.headers[BATCH_SEQUENCE])
                == last.seq - record.seq
            )
        except (KeyError, ValueError):
            return False
