"""The log that is asked: a running one over NATS, or a file that was exported.

Both give the same records, so every command answers alike; a file needs neither NATS nor a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias

from cyclopts import Parameter

from tidewright.asking import postponed  # noqa: F401  # before the NATS client
from tidewright.asking.errors import BadInput, CommandError, Unavailable, translated
from tidewright.asking.kept_folds import KeptFolds
from tidewright.asking.options import THE_LOG, AskedLogOptions, LogOptions
from tidewright.asking.remembered import Answered, Remembered
from tidewright.asking.running import located
from tidewright.asking.services import SERVICES, Role
from tidewright.events import registry
from tidewright.host.process.stderr import STDERR
from tidewright.log import checkpoint as checkpoints
from tidewright.log.batched_get import TooMany
from tidewright.log.connection import Log
from tidewright.log.diagnostics import configure_when_used
from tidewright.log.errors import BadKey, LogError, LogForbidden, LogUnavailable, NoKeys, Unsound, WrongStream
from tidewright.log.last_per_subject import Heard, Known, earlier_words, last_words, last_words_of_all
from tidewright.log.reader import WINDOW, Record
from tidewright.log.snapshots import Snapshot, Snapshots
from tidewright.log.subjects import CLUSTER_ID, Slot, Subjects, slot_of

FromFile = Annotated[
    Path | None,
    Parameter(name="--log", help="Read this exported file instead of a running log.", group=THE_LOG),
]


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from tidewright.log.keyring import Keyring

Anchors: TypeAlias = "Sequence[Ed25519PublicKey] | None"
"""Root keys that vouch for key records; None: nobody asked."""
KEYS = "keys"
"""The part of the configuration that holds key records."""

SOON = 50
"""Records that are fetched ahead by who stops at the first that answers a question."""
FEW = 3
"""Subjects that are read by a reader each; more of a filter, by one of the filter."""


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a filter, by the bus's rules (`*` one token, `>` the rest)."""
    if not pattern:
        return True
    pattern_tokens, tokens = pattern.split("."), subject.split(".")
    for i, want in enumerate(pattern_tokens):
        if want == ">":
            return len(tokens) > i
        if i >= len(tokens) or want not in ("*", tokens[i]):
            return False
    return len(pattern_tokens) == len(tokens)


class Source(Protocol):
    """What the commands need of a log."""

    subjects: Subjects
    slots: int
    name: str
    """For people."""
    stream: str
    since: float | None
    """Of a part of a log, the log time that it begins with, seconds."""
    folds: KeptFolds
    """States that were folded of it."""
    answered: Answered
    """What was said of it that stays so."""
    remade: int
    """How often its bounds have shown that it is another log than before, made anew under the same name: who keeps what was read looks."""
    everywhere: bool
    """Whether all namespaces are on it: a part by namespace leaves out what decides over the whole cluster."""

    async def cluster_id(self) -> str:
        """The uid of the cluster's `kube-system` namespace; empty when it is not known."""
        ...

    async def identity(self) -> str:
        """What tells this log, as it is read here, from every other one."""
        ...

    def records(self, pattern: str = "", after: int = 0, ahead: int = WINDOW) -> AsyncGenerator[Record, None]:
        """Records whose subject matches one filter (all: empty), from `after` + 1 to the present end.

        So many may be fetched `ahead`: few where the first ones answer the question.
        """
        ...

    def merged(self, patterns: Sequence[str], after: int = 0) -> AsyncGenerator[Record, None]:
        """Records that match any of several filters, which do not overlap, in stream order."""
        ...

    async def narrowed(self, patterns: Sequence[str], after: int) -> Sequence[str]:
        """Those of several filters that find something behind a sequence, as subjects where these are few."""
        ...

    def follow(self, pattern: str = "", after: int = 0) -> AsyncGenerator[Record, None]:
        """The same as `records`, and then on and on."""
        ...

    async def last(self, patterns: Sequence[str], up_to: int = 0) -> list[Record]:
        """The last record of every subject that matches, at or before a sequence (0: at all), in order."""
        ...

    async def last_of_all(
        self, patterns: Sequence[str], up_to: int = 0, heard: Heard | None = None
    ) -> list[Record]:
        """As `last`, however many subjects match. `heard` is given each of them once, in parts and in no order, as they are found."""
        ...

    async def earlier(self, subjects: Sequence[str], up_to: int) -> list[Record]:
        """As `last`, of subjects that were spoken of since that sequence."""
        ...

    async def at(self, seq: int) -> Record | None:
        """The record at a sequence; None when it is gone (a fired schedule, retention)."""
        ...

    async def first_of(self, pattern: str, seq: int) -> Record | None:
        """The first record at or after a sequence that matches."""
        ...

    async def tail(self, count: int) -> list[Record]:
        """What there is among the last `count` sequences."""
        ...

    def stored(self, after: int = 0) -> AsyncGenerator[Record, None]:
        """All records behind a sequence as they are stored, believed or not."""
        ...

    part: bool
    """Whether something was left out of it."""

    @property
    def promised(self) -> Mapping[str, int]:
        """`<service>.<slot>` to the position of its last checkpoint, as the head of a file says; empty where nothing does."""
        ...

    vouched: bool
    """Whether a trust anchor says which key records are good."""

    async def unwatched(self) -> bool:
        """Whether nothing is carried out at present, since no watcher looks; False where that cannot be known."""
        ...

    async def furthest(self) -> int:
        """The greatest sequence that anything beside the log says was on it; 0 when nothing does."""
        ...

    async def keyring(self) -> Keyring | None:
        """The key records of the log, all taken; None on a log without keys that was asked for none.

        Raises:
            NoKeys: a trust anchor was given, and vouches for none of them.
        """
        ...

    async def bounds(self) -> tuple[int, int]:
        """First and last sequence; last is first - 1 when there is nothing."""
        ...

    async def start(self, service: str, slots: tuple[Slot, ...], readable: Sequence[int]) -> list[Snapshot]:
        """Snapshots from which a fold of everything that is retained can start; empty: from nothing.

        Raises:
            BadInput: nothing can be folded without a state that is not readable.
        """
        ...

    async def ends(self) -> dict[str, int] | None:
        """`<service>.<slot>` to the position of its last checkpoint; None when that takes reading everything."""
        ...

    async def snapshot(
        self, service: str, slot: Slot, readable: Sequence[int], position: int
    ) -> Snapshot | None:
        """The newest snapshot at or before a position."""
        ...


def vouching(anchors: Anchors) -> str:
    """Who vouches for what is read; empty where everything is believed."""
    return "" if anchors is None else " ".join(sorted(key.public_bytes_raw().hex() for key in anchors))


def slot_in(source: Source, namespace: str) -> Slot:
    """The slot of a namespace in this log."""
    return slot_of(namespace, source.slots)


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


async def ends_of(source: Source, up_to: int) -> dict[str, int]:
    """`<service>.<slot>` to the position of its last checkpoint at or before a sequence (0: at all)."""
    positions: dict[str, int] = {}
    for record in await source.last([f"{source.subjects.root}.checkpoint.*.*"], up_to):
        place = source.subjects.parse(record.subject)
        try:
            positions[f"{place.rest[0]}.{place.slot}"] = checkpoints.usable(record).position
        except Unsound:
            continue  # a watcher's are of another form
    return positions


def _warn_only() -> None:
    """What the libraries have to say to a person who asks: warnings, and not on stdout."""
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(STDERR),
    )


@asynccontextmanager
async def opened(where: LogOptions | None, file: Path | None) -> AsyncIterator[Source]:
    """The log that the options name: a file, that of a data folder, or that of a server, which makes no consumer for us.

    Raises:
        BadInput: the file is no export; the stream is of another cluster.
        Unavailable: nobody answers.
    """
    configure_when_used(_warn_only)
    folder = where.data if isinstance(where, AskedLogOptions) else None
    if isinstance(where, AskedLogOptions) and where.archive:
        if file is not None:
            raise BadInput("--log names a log in a file, and --archive a sealed archive: give one of them")
        from tidewright.asking.archived import with_archive

        async with with_archive(where) as source:
            yield source
        return
    if file is not None:
        if folder is not None:
            raise BadInput("--log names a log in a file, and --data that of a folder: give one of them")
        from tidewright.asking.exported import ExportedLog
        from tidewright.log.export import BadExport, ExportFile

        if not file.is_file():  # noqa: ASYNC240  # once, before anything else runs
            raise BadInput(f"--log {file}: there is no such file; `tidewright export` writes one")
        try:
            exported = ExportedLog(ExportFile(file), anchors_of(where))
        except (BadExport, BadKey, NoKeys) as error:
            raise BadInput(str(error)) from error
        try:
            yield exported
        except BadExport as error:
            raise BadInput(str(error)) from error
        except registry.NotAnEvent as error:
            # Was the file altered, or was it exported so?
            try:
                for _ in exported.file.records():
                    pass
            except BadExport as altered:
                raise BadInput(str(altered)) from error
            raise CommandError(f"{file}: {_parked(error)}") from error
        return
    on = located(where or LogOptions())
    if folder is not None:
        async with (
            _kept(on, folder) as kept,
            opened(_asking(on, kept), None) as source,
        ):
            yield source
        return
    with translated():
        log = await _connected(on)
        async with log:
            log.directly = True  # who asks has no right to make a consumer
            anchors: Anchors = None
            if isinstance(on, AskedLogOptions) and on.trust is not None:
                from tidewright.log.keyfiles import read_anchors

                anchors = read_anchors(on.trust)
                log.authenticate(anchors=anchors)
            await _adopted(log)
            try:
                yield RunningLog(log, anchors)
            except registry.NotAnEvent as error:
                raise CommandError(f"stream {log.stream}: {_parked(error)}") from error


def _asking(on: LogOptions, kept: LogOptions) -> AskedLogOptions:
    """The log of a folder, asked as the options say."""
    trust = on.trust if isinstance(on, AskedLogOptions) else None
    return AskedLogOptions(nats=kept.nats, cluster=kept.cluster, trust=trust)


def anchors_of(where: LogOptions | None) -> Anchors:
    trust = where.trust if isinstance(where, AskedLogOptions) else None
    if trust is None:
        return None
    from tidewright.log.keyfiles import read_anchors

    return read_anchors(trust)


def keyring_of(subjects: Subjects, records: Sequence[Record], anchors: Anchors) -> Keyring | None:
    """A keyring that has taken some key records; None without any, where no anchor asks for one.

    Raises:
        NoKeys: the anchors vouch for none of them.
    """
    if not records and anchors is None:
        return None
    from tidewright.log.belief import refused
    from tidewright.log.keyring import Keyring

    keyring = Keyring(subjects, anchors)
    for record in records:
        if refused(subjects, record.subject, record.headers) is None:
            keyring.take(record)
    if keyring.latest is None and anchors is not None:
        raise NoKeys(f"there is no key record on {keyring.subject} that the trust anchor vouches for")
    return keyring


async def _connected(on: LogOptions) -> Log:
    try:
        return await Log.connect(on.nats, on.cluster, credentials=on.identity(), timeout_s=5.0)
    except LogUnavailable as error:
        if on.nats != LogOptions.nats:
            raise
        from tidewright.cli import keptlog

        raise Unavailable(f"{error}{keptlog.hint()}") from error


async def _adopted(log: Log) -> None:
    """Take over what the log's stream says of itself.

    Raises:
        BadInput: there is no log of that cluster; those that there are, are named.
    """
    try:
        await log.adopt_slots()
    except WrongStream as error:
        from tidewright.cli import keptlog

        names: list[str] = []
        with suppress(LogError):  # credentials may see no other stream
            names = await keptlog.clusters(log)
        there = f"; there are logs of {', '.join(names)}: name one with --cluster" if names else ""
        raise BadInput(f"{error}{there}") from error


@asynccontextmanager
async def reached(where: LogOptions | None) -> AsyncIterator[LogOptions]:
    """The log that options name as one on a server: that of a data folder is served meanwhile, that of a stack found.

    Raises:
        BadInput: no log is kept in the folder; several stacks run.
        Unavailable: its server does not start.
    """
    if isinstance(where, AskedLogOptions) and where.archive:
        raise BadInput("--archive: this asks a running log alone; leave it out")
    on = located(where or LogOptions())
    folder = on.data if isinstance(on, AskedLogOptions) else None
    if folder is None:
        yield on
        return
    async with _kept(on, folder) as kept:
        yield kept


@asynccontextmanager
async def _kept(on: LogOptions, folder: Path) -> AsyncIterator[LogOptions]:
    """The log of a data folder as one on a server, under the name of its cluster."""
    from tidewright.cli import keptlog

    if on.nats != LogOptions.nats:
        raise BadInput("--data names the log of a folder, and --nats that of a server: give one of them")
    async with keptlog.served(folder) as url:
        with translated():
            async with await Log.connect(url, on.cluster, timeout_s=5.0) as log:
                cluster = await keptlog.cluster_on(log, on.cluster)
        yield replace(LogOptions(), nats=url, cluster=cluster)


def folder_served(folder: Path) -> AbstractAsyncContextManager[str]:
    """The URL of a server with the logs of a data folder, which is made when it is not there."""
    from tidewright.cli import keptlog

    return keptlog.served(folder, new=True)


def _parked(error: Exception) -> str:
    return f"a message does not decode ({error}); `tidewright events --parked` shows it"
