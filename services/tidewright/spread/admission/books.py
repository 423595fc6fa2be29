"""The ledgers as the admission endpoint keeps them: followed from the log, appended under expectation.

    Books.follow     reads the log: ledgers, the owners of pods, configuration
    Books.book       chooses by a ledger's latest state, appends, and gives the choice

Requests for one ledger that wait at the same time are chosen one after the other and appended as one
message. A conflict means that somebody wrote first: what was chosen is taken back, what was
written is folded, and the choice is made again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.events.spread import EntriesAppended, LedgerEntry, PodLeaving, PodPlaced
from tidewright.kube.customworkloads import BadApiVersion
from tidewright.kube.workloadspreads.spec import Spread
from tidewright.log import errors
from tidewright.log.clock import Clock
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import Writer
from tidewright.log.reader import Record
from tidewright.log.subjects import unescape
from tidewright.spread.admission.observed import Observed, filters
from tidewright.spread.decide import SERVICE
from tidewright.spread.ledger.following import Followed
from tidewright.spread.ledger.ledger import Ledger
from tidewright.spread.ledger.placing import spread_on

BATCH = 200
"""Choices appended together, as one message: it is stored in 0.3 ms, an atomic batch of any size in about
15 ms, because the server keeps a batch in a store of its own until it is committed (measured)."""
GIVE_UP_S = 5.0
"""A request is refused when its choice could not be appended for so long."""
AGAIN_S = 0.1
FETCH = 500
READ_S = 0.5
AWAY_S = 0.2

T = TypeVar("T")
Key = tuple[str, str]

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Book:
    """One ledger.

    Attributes:
        seq: of the last entry folded.
        held_back: entries that arrived while an append was under way.
        arrived: set when entries were folded.
    """

    namespace: str
    name: str
    followed: Followed = field(default_factory=Followed)
    seq: int = 0
    spread: Spread | None = None
    appending: bool = False
    held_back: list[Record] = field(default_factory=list)
    waiting: deque[Booking[Any]] = field(default_factory=deque)
    worker: asyncio.Task[None] | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ledger(self) -> Ledger:
        return self.followed.ledger

    def take(self, record: Record) -> None:
        """Fold an entry from the log, unless it is folded already."""
        if self.appending:
            self.held_back.append(record)
            return
        if record.seq <= self.seq:
            return
        event = registry.read(record.body)
        if event is registry.UNREADABLE:
            _log.error(
                "a ledger's entry cannot be read and is left out", subject=record.subject, seq=record.seq
            )
        if not isinstance(event, registry.Unknown):
            rules = self.ledger.rules
            self.followed.fold(event)
            if self.ledger.rules is not rules:
                self.spread = spread_on(self.ledger, self.namespace, self.name)
        self.seq = record.seq
        self.arrived.set()

    def release(self) -> None:
        """The append is over: fold what arrived meanwhile."""
        self.appending = False
        records, self.held_back = self.held_back, []
        for record in records:
            self.take(record)


@dataclass(eq=False)
class Booking(Generic[T]):
    """A request that waits for its choice."""

    choose: Callable[[Book], tuple[T, LedgerEntry | None]]
    done: asyncio.Future[T]
    give_up_at: float


class Books:
    """All ledgers, and what else admission looks at."""

    def __init__(self, log: Log, writer: Writer, clock: Clock | None = None) -> None:
        self.log = log
        self.writer = writer
        self.observed = Observed(log, clock)
        self.current = asyncio.Event()
        self.changed = asyncio.Event()
        self.conflicts = 0
        self._books: dict[Key, Book] = {}
        self._names: dict[str, list[str]] = {}
        self._late: deque[PodPlaced] = deque()

    # -- looking -------------------------------------------------------------------------------

    def find(self, namespace: str, name: str) -> Book | None:
        return self._books.get((namespace, name))

    def in_namespace(self, namespace: str) -> list[Book]:
        """The ledgers of a namespace whose spread is in force, by name."""
        books = (self._books[namespace, name] for name in sorted(self._names.get(namespace, ())))
        return [book for book in books if book.spread is not None]

    def awaits(self, namespace: str, name: str) -> bool:
        """Whether a pod of this name was placed, and is not known to exist yet."""
        return any(name in book.ledger.placed for book in self.in_namespace(namespace))

    # -- following -----------------------------------------------------------------------------

    async def follow(self) -> None:
        """Read the log until cancelled. `current` is set once everything that is there was read.

        Each filter has a reader of its own: of all that is on the log this is little, and several filters
        of one reader are slow on the server (decision record 3).
        """
        names = self.log.subjects
        behind = {names.ledgers("*", SERVICE), *filters(names)}
        async with asyncio.TaskGroup() as readers:
            for subjects in sorted(behind):
                # Of a ledger every entry counts, of the others only what was said last.
                last_only = subjects != names.ledgers("*", SERVICE)
                readers.create_task(self._follow(subjects, behind, last_only=last_only))

    async def _follow(self, subjects: str, behind: set[str], *, last_only: bool) -> None:
        """Read one filter until cancelled, and take it from those that are behind once it is read."""
        async with self.log.reader([subjects], last_only=last_only) as reader:
            while True:
                try:
                    async for record in reader.until_current(FETCH):
                        self._take(record)
                    behind.discard(subjects)
                    if not behind:
                        self.current.set()
                    self.changed.set()
                    while True:
                        for record in await reader.fetch(FETCH, timeout_s=READ_S):
                            self._take(record)
                            self.changed.set()
                except errors.LogUnavailable as error:
                    self.log.outage.met("reading", error)
                    await asyncio.sleep(AWAY_S)

    def _take(self, record: Record) -> None:
        """Fold one record."""
        try:
            if record.subject.split(".", 3)[2] == "ledger":
                self._book_of(record.subject).take(record)
            else:
                self.observed.take(record.body)
        except (registry.NotAnEvent, BadApiVersion) as error:
            _log.error("a message cannot be read and is left out", seq=record.seq, error=str(error))

    def _book_of(self, subject: str) -> Book:
        namespace, name = (unescape(t) for t in self.log.subjects.parse(subject).rest[1:3])
        book = self._books.get((namespace, name))
        if book is None:
            book = self._books[namespace, name] = Book(namespace, name)
            self._names.setdefault(namespace, []).append(name)
        return book

    # -- appending -----------------------------------------------------------------------------

    async def book(self, book: Book, choose: Callable[[Book], tuple[T, LedgerEntry | None]]) -> T:
        """Choose by the ledger's latest state; the entry, if any, is on the log when this returns.

        Raises:
            LogUnavailable: the choice could not be appended in time; nothing is known to be stored.
            Exception: of `choose`.
        """
        loop = asyncio.get_running_loop()
        booking: Booking[T] = Booking(choose, loop.create_future(), loop.time() + GIVE_UP_S)
        book.waiting.append(booking)
        if book.worker is None or book.worker.done():
            book.worker = asyncio.create_task(self._work(book))
        return await booking.done

    async def _work(self, book: Book) -> None:
        """Serve one ledger's requests until none waits."""
        while book.waiting:
            batch = [book.waiting.popleft() for _ in range(min(BATCH, len(book.waiting)))]
            results, entries = self._choose(book, batch)
            if entries and not await self._append(book, batch, entries):
                continue
            for booking, result in results:
                if not booking.done.done():
                    booking.done.set_result(result)

    def _choose(
        self, book: Book, batch: list[Booking[Any]]
    ) -> tuple[list[tuple[Booking[Any], object]], list[LedgerEntry]]:
        results: list[tuple[Booking[Any], object]] = []
        entries: list[LedgerEntry] = []
        for booking in batch:
            if booking.done.done():
                continue
            try:
                result, entry = booking.choose(book)
            except Exception as error:  # noqa: BLE001  # it is the request's, and goes to whoever made it
                booking.done.set_exception(error)
                continue
            results.append((booking, result))
            if entry is not None:
                book.followed.fold(entry)
                entries.append(entry)
        return results, entries

    async def _append(self, book: Book, batch: list[Booking[Any]], entries: list[LedgerEntry]) -> bool:
        """Append a batch; False when it was taken back, and its requests wait again or were refused."""
        subject = self.log.subjects.ledger(
            self.log.slot_of(book.namespace), SERVICE, book.namespace, book.name
        )
        event: Event = entries[0]
        if len(entries) > 1:
            event = EntriesAppended(
                at=max(entry.at for entry in entries),
                namespace=book.namespace,
                name=book.name,
                entries=tuple(entry for entry in entries if isinstance(entry, PodPlaced | PodLeaving)),
            )
        headers = self.writer.headers(f"{SERVICE}.entry.{entries[0].request}")
        message = Message(subject, registry.encode(event), headers, book.seq)
        book.appending = True
        try:
            committed = await self.log.commit([message])
        except errors.LogError as error:
            book.followed.take_back(entries)
            book.release()
            self.conflicts += isinstance(error, errors.Conflict)
            # Without an answer the append may have happened: then the same choice finds its own
            # place once it is folded, and until then the expectation refuses another one.
            again = self._again(book, batch, error)
            self._refuse([b for b in batch if b not in again], error)
            book.waiting.extendleft(reversed(again))
            if again:
                await self._catch_up(book)
            return False
        book.seq = committed.last_seq
        book.release()
        return True

    def _again(self, book: Book, batch: list[Booking[Any]], error: errors.LogError) -> list[Booking[Any]]:
        """The requests that are chosen for once more; a spread that fails open does not wait for the log."""
        waits = isinstance(error, errors.Conflict)
        if isinstance(error, errors.LogUnavailable):
            waits = book.ledger.rules is None or not book.ledger.rules.fail_open
        now = asyncio.get_running_loop().time()
        return [b for b in batch if waits and not b.done.done() and b.give_up_at > now]

    def _refuse(self, batch: list[Booking[Any]], error: errors.LogError) -> None:
        if not any(not b.done.done() for b in batch):
            return
        if not self.log.outage.explains("placing pods", error):
            _log.warning(
                "placements could not be appended", requests=len(batch), reason=error.reason, error=str(error)
            )
        for booking in batch:
            if not booking.done.done():
                booking.done.set_exception(error)

    async def _catch_up(self, book: Book) -> None:
        """Wait until what somebody else wrote is folded."""
        subject = self.log.subjects.ledger(
            self.log.slot_of(book.namespace), SERVICE, book.namespace, book.name
        )
        try:
            last = await self.log.last(subject)
            async with asyncio.timeout(GIVE_UP_S):
                while last is not None and book.seq < last.seq:
                    book.arrived.clear()
                    await book.arrived.wait()
        except (errors.LogUnavailable, TimeoutError) as error:
            now = asyncio.get_running_loop().time()
            late = [b for b in book.waiting if b.give_up_at <= now]
            book.waiting = deque(b for b in book.waiting if b.give_up_at > now)
            self._refuse(late, errors.LogUnavailable(f"what others wrote cannot be read: {error}"))
            await asyncio.sleep(AGAIN_S)

    # -- without the log -----------------------------------------------------------------------

    def record_late(self, entry: PodPlaced) -> None:
        """Keep an entry that was answered without being appended, until it can be."""
        self._late.append(entry)

    async def append_late(self) -> None:
        """Append what was answered while the log was away. Runs until cancelled."""
        while True:
            while self._late:
                entry = self._late[0]
                subject = self.log.subjects.ledger(
                    self.log.slot_of(entry.namespace), SERVICE, entry.namespace, entry.name
                )
                headers = self.writer.headers(f"{SERVICE}.late.{entry.request}")
                try:
                    await self.log.commit([Message(subject, registry.encode(entry), headers)])
                except errors.LogError as error:
                    _log.debug("still not appended", error=str(error))
                    break
                self._late.popleft()
            await asyncio.sleep(0.5)
