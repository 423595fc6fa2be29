"""A log in a file, asked like a running one.

A file is one compressed stream without an index. The first question that needs one reads it once,
into a temporary file with an index of subjects and sequences; from then on answers are looked up
there. What goes through the whole log (verify, export) reads the file itself.
"""

from __future__ import annotations

import asyncio
import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tidewright.asking.errors import BadInput
from tidewright.asking.kept_folds import KeptFolds
from tidewright.asking.progress import progress
from tidewright.asking.remembered import Answered
from tidewright.asking.source import matches
from tidewright.asking.trust import Anchors, keyring_of, vouching
from tidewright.log.export import ExportFile
from tidewright.log.last_per_subject import Heard
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot
from tidewright.log.subjects import Slot, Subjects

if TYPE_CHECKING:
    from tidewright.archive.reading import SeveralFiles
    from tidewright.log.keyring import Keyring

IN_MEMORY_BYTES = 64 << 20
"""A file whose records take more is kept on disk while it is asked."""
EVERY_N = 5_000
MATCHED = 500
"""Filters whose subjects are remembered."""


class Indexed:
    """The records of a file, by place, by sequence and by subject."""

    def __init__(self, file: ExportFile | SeveralFiles, records: Iterable[Record]) -> None:
        """Read the file once; `records` are those of it that are wanted.

        Raises:
            BadExport: it was cut off or altered.
        """
        self._stored = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115  # lives as long as this
        self._offsets, self._sizes = array("Q"), array("L")
        self._by_subject: dict[str, array[int]] = {}
        self._chosen: dict[tuple[str, ...], Sequence[int]] = {}
        self._matched: dict[str, Sequence[str]] = {}
        self._decode = msgspec.msgpack.Decoder(Record).decode
        self.seqs = array("Q")
        encode, offset = msgspec.msgpack.Encoder().encode, 0
        with progress(
            f"reading {file.path}", file.manifest.last_seq - file.manifest.first_seq + 1
        ) as advance:
            for place, record in enumerate(records):
                data = encode(record)
                self._stored.write(data)
                self._offsets.append(offset)
                self._sizes.append(len(data))
                self.seqs.append(record.seq)
                offset += len(data)
                places = self._by_subject.get(record.subject)
                if places is None:
                    places = self._by_subject[record.subject] = array("L")
                places.append(place)
                if (place + 1) % EVERY_N == 0:
                    advance(EVERY_N)

    def read(self, place: int) -> Record:
        """The record at a place."""
        self._stored.seek(self._offsets[place])
        return self._decode(self._stored.read(self._sizes[place]))

    def behind(self, seq: int) -> int:
        """The first place whose sequence is greater."""
        return bisect_right(self.seqs, seq)

    def chosen(self, patterns: Sequence[str]) -> Sequence[int]:
        """The places of all records that match any filter, in order."""
        key = tuple(patterns)
        places = self._chosen.get(key)
        if places is None:
            if any(pattern in ("", ">") for pattern in patterns):
                places = range(len(self.seqs))
            else:
                places = sorted(
                    place for subject in self.matching(patterns) for place in self._by_subject[subject]
                )
            self._chosen[key] = places
        return places

    def matching(self, patterns: Sequence[str]) -> list[str]:
        """The subjects that match any filter."""
        return list(dict.fromkeys(subject for pattern in patterns for subject in self._matching(pattern)))

    def _matching(self, pattern: str) -> Sequence[str]:
        if not {"*", ">"} & set(pattern.split(".")):
            return (pattern,) if pattern in self._by_subject else ()
        if (subjects := self._matched.get(pattern)) is None:  # questions ask for the same again and again
            if len(self._matched) >= MATCHED:
                self._matched.clear()
            subjects = self._matched[pattern] = [s for s in self._by_subject if matches(pattern, s)]
        return subjects

    def last_of(self, subject: str, up_to: int) -> int | None:
        """The place of a subject's last record at or before a sequence (0: at all)."""
        places = self._by_subject[subject]
        if not up_to:
            return places[-1]
        at = bisect_left(places, self.behind(up_to))
        return places[at - 1] if at else None


class ExportedLog:
    """A log in a file."""

    def __init__(self, file: ExportFile | SeveralFiles, anchors: Anchors = None) -> None:
        """With `anchors`, only what they vouch for is there.

        Raises:
            NoKeys: they vouch for no key record of the log.
        """
        self.file = file
        self._anchors = anchors
        self.vouched = anchors is not None
        manifest = file.manifest
        self.part = bool(manifest.namespaces) or (manifest.since, manifest.until) != (None, None)
        self.promised: Mapping[str, int] = manifest.ends or {}
        self.subjects = Subjects(file.manifest.cluster)
        self.slots = file.manifest.slots
        self.name = str(file.path)
        self.stream = file.manifest.stream
        self.since = file.manifest.since
        self.folds = KeptFolds()
        self.answered = Answered()
        self.remade = 0
        self.everywhere = not file.manifest.namespaces
        self._indexed: Indexed | None = None
        self._keyring = keyring_of(self.subjects, file.manifest.keys, anchors)

    def _believed(self) -> Iterator[Record]:
        """The records of the file; with a trust anchor, those that are believed."""
        if self._anchors is None:
            yield from self.file.records()
            return
        from tidewright.log.passing import Passing

        passing = Passing(self.subjects, self._keyring, since=self.file.manifest.first_seq)
        for record in self.file.records():
            yield from (believed for believed, cause in passing.take(record) if cause is None)
        yield from (believed for believed, cause in passing.finish() if cause is None)

    async def stored(self, after: int = 0) -> AsyncGenerator[Record, None]:
        for record in self.file.records():
            if record.seq > after:
                yield record

    async def unwatched(self) -> bool:
        return False

    async def furthest(self) -> int:
        return max((s.position for s in self.file.snapshots()), default=0)

    async def keyring(self) -> Keyring | None:
        return self._keyring

    @property
    def indexed(self) -> Indexed:
        """The records by place; the file is read when this is first asked for."""
        if self._indexed is None:
            self._indexed = Indexed(self.file, self._believed())
        return self._indexed

    async def cluster_id(self) -> str:
        return self.file.manifest.cluster_id

    async def identity(self) -> str:
        # By all of its bytes: an altered copy may say of itself whatever the file says that it was made of.
        content = await asyncio.to_thread(self.file.content)
        return f"{self.stream} {content} {vouching(self._anchors)}"

    def _chosen(self, patterns: Sequence[str], after: int) -> Iterator[Record]:
        indexed = self.indexed
        places = indexed.chosen(patterns)
        for i in range(bisect_left(places, indexed.behind(after)), len(places)):
            yield indexed.read(places[i])

    async def records(
        self, pattern: str = "", after: int = 0, ahead: int = 0
    ) -> AsyncGenerator[Record, None]:
        if not pattern and not after and self._indexed is None:  # once through: no index is worth it
            for record in self._believed():
                yield record
            return
        for record in self._chosen([pattern], after):
            yield record

    async def merged(self, patterns: Sequence[str], after: int = 0) -> AsyncGenerator[Record, None]:
        for record in self._chosen(patterns, after):
            yield record

    async def narrowed(self, patterns: Sequence[str], after: int) -> Sequence[str]:
        return patterns

    async def follow(self, pattern: str = "", after: int = 0) -> AsyncGenerator[Record, None]:
        async for record in self.records(pattern, after):
            yield record

    async def last(self, patterns: Sequence[str], up_to: int = 0) -> list[Record]:
        indexed = self.indexed
        places = [indexed.last_of(subject, up_to) for subject in indexed.matching(patterns)]
        return [indexed.read(place) for place in sorted(place for place in places if place is not None)]

    async def earlier(self, subjects: Sequence[str], up_to: int) -> list[Record]:
        return await self.last(subjects, up_to)

    async def last_of_all(
        self, patterns: Sequence[str], up_to: int = 0, heard: Heard | None = None
    ) -> list[Record]:
        found = await self.last(patterns, up_to)
        if heard is not None:
            heard(found)
        return found

    async def at(self, seq: int) -> Record | None:
        indexed = self.indexed
        place = indexed.behind(seq - 1)
        return indexed.read(place) if place < len(indexed.seqs) and indexed.seqs[place] == seq else None

    async def first_of(self, pattern: str, seq: int) -> Record | None:
        return next(self._chosen([pattern], seq - 1), None)

    async def tail(self, count: int) -> list[Record]:
        indexed = self.indexed
        return [indexed.read(place) for place in range(max(0, len(indexed.seqs) - count), len(indexed.seqs))]

    async def bounds(self) -> tuple[int, int]:
        return self.file.manifest.first_seq, self.file.manifest.last_seq

    async def start(self, service: str, slots: tuple[Slot, ...], readable: Sequence[int]) -> list[Snapshot]:
        kept = [s for s in self.file.snapshots() if s.service == service and s.slot in slots]
        for snapshot in kept:
            if snapshot.state_version not in readable:
                raise BadInput(
                    f"{self.file.path} begins with a state of {service} of version {snapshot.state_version}, which this "
                    f"software cannot read: it reads {', '.join(map(str, readable))}; ask with the version that exported it"
                )
        return kept

    async def ends(self) -> dict[str, int] | None:
        return self.file.manifest.ends

    async def snapshot(
        self, service: str, slot: Slot, readable: Sequence[int], position: int
    ) -> Snapshot | None:
        fitting = [
            s
            for s in self.file.snapshots()
            if (s.service, s.slot) == (service, slot)
            and s.position <= position
            and s.state_version in readable
        ]
        return max(fitting, key=lambda s: s.position, default=None)
