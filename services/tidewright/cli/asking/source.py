"""The log that is asked: a running one over NATS, or a file that was exported.

Both give the same records, so every command answers alike; a file needs neither NATS nor a cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from cyclopts import Parameter

from tidewright.cli.errors import BadInput, translated
from tidewright.cli.options import THE_LOG, LogOptions
from tidewright.log.connection import Log
from tidewright.log.export import BadExport, ExportFile
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.subjects import Slot, Subjects, slot_of

FromFile = Annotated[
    Path | None,
    Parameter(name="--log", help="Read this exported file instead of a running log.", group=THE_LOG),
]


class Source(Protocol):
    """What the commands need of a log."""

    subjects: Subjects
    slots: int
    name: str

    def records(self, pattern: str = "", after: int = 0) -> AsyncIterator[Record]:
        """Records whose subject matches one filter (all: empty), from `after` + 1 to the present end."""
        ...

    def follow(self, pattern: str = "", after: int = 0) -> AsyncIterator[Record]:
        """The same, and then on and on."""
        ...

    async def last(self, pattern: str) -> list[Record]:
        """The last record of every subject that matches, in stream order."""
        ...

    async def at(self, seq: int) -> Record | None: ...
    async def bounds(self) -> tuple[int, int]: ...
    async def start(self, service: str, slots: tuple[Slot, ...], state_version: int) -> list[Snapshot]:
        """Snapshots from which a fold of everything that is retained can start; empty: from nothing."""
        ...


def slot_in(source: Source, namespace: str) -> Slot:
    """The slot of a namespace in this log."""
    return slot_of(namespace, source.slots)


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a filter, by the bus's rules (`*` one token, `>` the rest)."""
    if not pattern:
        return True
    wanted, tokens = pattern.split("."), subject.split(".")
    for i, want in enumerate(wanted):
        if want == ">":
            return len(tokens) > i
        if i >= len(tokens) or want not in ("*", tokens[i]):
            return False
    return len(wanted) == len(tokens)


@dataclass
class RunningLog:
    """A log that is being written."""

    log: Log

    def __post_init__(self) -> None:
        self.subjects = self.log.subjects
        self.slots = self.log.slots
        self.name = f"stream {self.log.stream}"

    async def records(self, pattern: str = "", after: int = 0) -> AsyncIterator[Record]:
        async with self.log.reader([pattern or self.subjects.everything], after=after) as reader:
            async for record in reader.until_current():
                yield record

    async def follow(self, pattern: str = "", after: int = 0) -> AsyncIterator[Record]:
        async with self.log.reader([pattern or self.subjects.everything], after=after) as reader:
            while True:
                for record in await reader.fetch():
                    yield record

    async def last(self, pattern: str) -> list[Record]:
        return [record async for record in self.log.last_per_subject([pattern])]

    async def at(self, seq: int) -> Record | None:
        return await self.log.at(seq)

    async def bounds(self) -> tuple[int, int]:
        return await self.log.bounds()

    async def start(self, service: str, slots: tuple[Slot, ...], state_version: int) -> list[Snapshot]:
        first, _ = await self.log.bounds()
        if first <= 1:
            return []
        store = Snapshots(self.log)
        found = [await store.before(service, slot, state_version, first) for slot in slots]
        return [snapshot for snapshot in found if snapshot is not None]


@dataclass
class ExportedLog:
    """A log in a file."""

    file: ExportFile

    def __post_init__(self) -> None:
        self.subjects = Subjects(self.file.manifest.cluster)
        self.slots = self.file.manifest.slots
        self.name = str(self.file.path)

    async def records(self, pattern: str = "", after: int = 0) -> AsyncIterator[Record]:
        for record in self.file.records():
            if record.seq > after and matches(pattern, record.subject):
                yield record

    async def follow(self, pattern: str = "", after: int = 0) -> AsyncIterator[Record]:
        async for record in self.records(pattern, after):
            yield record

    async def last(self, pattern: str) -> list[Record]:
        found: dict[str, Record] = {}
        async for record in self.records(pattern):
            found[record.subject] = record
        return sorted(found.values(), key=lambda record: record.seq)

    async def at(self, seq: int) -> Record | None:
        async for record in self.records(after=seq - 1):
            return record if record.seq == seq else None
        return None

    async def bounds(self) -> tuple[int, int]:
        return self.file.manifest.first_seq, self.file.manifest.last_seq

    async def start(self, service: str, slots: tuple[Slot, ...], state_version: int) -> list[Snapshot]:
        return [s for s in self.file.snapshots() if s.service == service and s.slot in slots]


@asynccontextmanager
async def opened(where: LogOptions | None, file: Path | None) -> AsyncIterator[Source]:
    """The log that the options name.

    Raises:
        BadInput: the file is no export; the stream is of another cluster.
        Unavailable: nobody answers.
    """
    if file is not None:
        if not file.is_file():  # noqa: ASYNC240  # once, before anything else runs
            raise BadInput(f"--log {file}: there is no such file; `tidewright export` writes one")
        try:
            exported = ExportedLog(ExportFile(file))
        except BadExport as error:
            raise BadInput(str(error)) from error
        try:
            yield exported
        except BadExport as error:
            raise BadInput(str(error)) from error
        return
    on = where or LogOptions()
    with translated():
        log = await Log.connect(on.nats, on.cluster, credentials=on.nats_credentials, timeout_s=5.0)
        async with log:
            await log.adopt_slots()
            yield RunningLog(log)
