"""A log that is being written, asked over NATS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from tidewright.asking import postponed  # noqa: F401  # before the NATS client
from tidewright.asking.kept_folds import KeptFolds
from tidewright.asking.remembered import Answered, Remembered
from tidewright.asking.services import SERVICES, Role
from tidewright.asking.source import ends_of, matches
from tidewright.asking.trust import KEYS, Anchors, keyring_of, vouching
from tidewright.log.batched_get import TooMany
from tidewright.log.connection import Log
from tidewright.log.errors import LogForbidden
from tidewright.log.last_per_subject import Heard, Known, earlier_words, last_words, last_words_of_all
from tidewright.log.reader import WINDOW, Record
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.subjects import CLUSTER_ID, Slot

if TYPE_CHECKING:
    from tidewright.log.keyring import Keyring

SOON = 50
"""Records that are fetched ahead by who stops at the first that answers a question."""
FEW = 3
"""Subjects that are read by a reader each; more of a filter, by one of the filter."""


@dataclass
class RunningLog:
    """A log that is being written."""

    log: Log
    anchors: Anchors = None

    def __post_init__(self) -> None:
        self.subjects = self.log.subjects
        self.slots = self.log.slots
        self.stream = self.log.stream
        self.name = f"stream {self.stream}"
        self.since: float | None = None
        self.everywhere = True
        self.folds = KeptFolds()
        self.answered = Answered()
        self.remade = 0
        self.vouched = self.anchors is not None
        self.part = False
        self.promised: Mapping[str, int] = {}
        self._words: Known = {}
        self._words_at = 0
        self._decided = Remembered(self.records)
        self._created = ""

    async def cluster_id(self) -> str:
        info = await self.log.api(f"STREAM.INFO.{self.stream}", {})
        return str((info["config"].get("metadata") or {}).get(CLUSTER_ID, ""))

    async def identity(self) -> str:
        info = await self.log.api(f"STREAM.INFO.{self.stream}", {})
        return f"{self.stream} {info['created']} {vouching(self.anchors)}"

    async def records(
        self, pattern: str = "", after: int = 0, ahead: int = WINDOW
    ) -> AsyncGenerator[Record, None]:
        async with self.log.reader(
            [pattern or self.subjects.everything], after=after, window=ahead
        ) as reader:
            async for record in reader.until_current():
                yield record

    async def merged(self, patterns: Sequence[str], after: int = 0) -> AsyncGenerator[Record, None]:
        # One reader each: a consumer with several filters makes the server slow (decision record 0003).
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(aclosing(self._read(p, after))) for p in patterns]
            heads = await asyncio.gather(*(anext(stream, None) for stream in streams))
            heap = [(head.seq, i, head) for i, head in enumerate(heads) if head is not None]
            heapify(heap)
            while heap:
                _, i, record = heap[0]
                yield record
                following = await anext(streams[i], None)
                if following is None:
                    heappop(heap)
                else:
                    heapreplace(heap, (following.seq, i, following))

    def _read(self, pattern: str, after: int) -> AsyncGenerator[Record, None]:
        """As `records`; of what was decided about one object, what was read before is not asked for again."""
        decided = self.subjects.class_token(pattern) == "decision" and not {"*", ">"} & set(
            pattern.split(".")
        )
        return self._decided.records(pattern, after) if decided else self.records(pattern, after)

    async def narrowed(self, patterns: Sequence[str], after: int) -> Sequence[str]:
        # A look at the index takes less than a reader, and a subject's reader less than a wildcard's.
        try:
            words = await last_words(self.log, patterns, known=self._words)
        except TooMany:
            return patterns
        narrower: list[str] = []
        for pattern in patterns:
            subjects = [r.subject for r in words if r.seq > after and matches(pattern, r.subject)]
            narrower += subjects if len(subjects) <= FEW else [pattern]
        return narrower

    async def follow(self, pattern: str = "", after: int = 0) -> AsyncGenerator[Record, None]:
        async with self.log.reader([pattern or self.subjects.everything], after=after) as reader:
            while True:
                for record in await reader.fetch():
                    yield record

    async def last(self, patterns: Sequence[str], up_to: int = 0) -> list[Record]:
        return await last_words(self.log, patterns, up_to=up_to, known=self._words)

    async def last_of_all(
        self, patterns: Sequence[str], up_to: int = 0, heard: Heard | None = None
    ) -> list[Record]:
        bound = up_to or (await self.log.bounds())[1]

        async def of(pattern: str) -> list[Record]:
            try:
                found = await self.last([pattern], up_to)
            except TooMany:
                return await last_words_of_all(self.log, [pattern], bound, heard)
            if heard is not None:
                heard(found)
            return found

        parts = await asyncio.gather(*map(of, patterns))  # one filter each, as in `merged`
        return sorted((record for part in parts for record in part), key=lambda record: record.seq)

    async def earlier(self, subjects: Sequence[str], up_to: int) -> list[Record]:
        return await earlier_words(self.log, subjects, up_to)

    async def at(self, seq: int) -> Record | None:
        return await self.log.at(seq)

    async def first_of(self, pattern: str, seq: int) -> Record | None:
        return await self.log.first_of(pattern, seq)

    async def stored(self, after: int = 0) -> AsyncGenerator[Record, None]:
        async with self.log.reader([self.subjects.everything], after=after, believing=False) as reader:
            async for record in reader.until_current():
                yield record

    async def unwatched(self) -> bool:
        try:
            from tidewright.host.loop.lookout import watched  # of an order without an outcome alone

            return not await watched(self.log)
        except LogForbidden:  # by permissions of an earlier version
            return False

    async def furthest(self) -> int:
        store = Snapshots(self.log)
        sequences = [
            await store.furthest(service.name) for service in SERVICES if service.role is Role.DECIDER
        ]
        return max(sequences, default=0)

    async def keyring(self) -> Keyring | None:
        subject = self.subjects.config(KEYS)
        async with self.log.reader([subject], believing=False) as reader:
            records = [record async for record in reader.until_current()]
        return keyring_of(self.subjects, records, self.anchors)

    async def tail(self, count: int) -> list[Record]:
        _, last = await self.log.bounds()
        return [record async for record in self.records(after=max(0, last - count), ahead=count)]

    async def bounds(self) -> tuple[int, int]:
        extent = await self.log.extent()
        if extent is None:
            raise self.log.missing()
        first, last = extent.first, extent.last
        remade = extent.created != self._created or last < self._words_at
        if remade:
            self._decided.forget()
            self.answered.forget()
            self.remade += 1
            self._created = extent.created
        if remade or last != self._words_at:  # whoever asks for long does not go by what was said at first
            self._words, self._words_at = {}, last
        return (first, last) if last else (1, 0)  # nothing was ever on it

    async def start(self, service: str, slots: tuple[Slot, ...], readable: Sequence[int]) -> list[Snapshot]:
        first, _ = await self.log.bounds()
        if first <= 1:
            return []
        store = Snapshots(self.log)
        snapshots = [await store.oldest(service, slot, readable, first) for slot in slots]
        return [snapshot for snapshot in snapshots if snapshot is not None]

    async def ends(self) -> dict[str, int] | None:
        return await ends_of(self, 0)

    async def snapshot(
        self, service: str, slot: Slot, readable: Sequence[int], position: int
    ) -> Snapshot | None:
        store = Snapshots(self.log)
        latest = await store.latest(service, slot, readable)
        if latest is not None and latest.position <= position:
            return latest
        return await store.before(service, slot, readable, position)
