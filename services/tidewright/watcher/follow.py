"""One kind, from the API server onto the log, for as long as this process owns it.

claim -> read back what was said -> list or resume -> diff -> stamp -> append with the checkpoint

A follower that is fenced drops its state and stands by: it claims again when the new owner is not there any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.base import Fact
from tidewright.events.facts import (
    NodeGone,
    NodeObserved,
    ObjectFact,
    PodGone,
    ShapeGone,
    ShapeObserved,
    TemplateObserved,
)
from tidewright.host.process.once import Once
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.kinds import SHAPE, WatchedKind
from tidewright.kube.listwatch import (
    Added,
    Bookmark,
    Deleted,
    Item,
    ListDone,
    ListStarted,
    Modified,
    Page,
    list_watch_batches,
)
from tidewright.kube.projection.reading import Malformed, identity, left_out
from tidewright.kube.taints import DRAIN
from tidewright.log.commit_pacing import Pace
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot, unescape
from tidewright.watcher.appender import Appender, LogPort, WatchPosition
from tidewright.watcher.diff import Diff
from tidewright.watcher.kind_ownership import Heard
from tidewright.watcher.log_time import Stamp

REFRESH_BATCH = 200
UNCHANGED = 5_000
"""Objects seen that gave no fact, after which the position moves on all the same: a restart would see them again."""
FLOOD_BYTES = 1 << 16
"""So much of a watch at once is half of what the connection keeps: no time is spent on gathering more."""
LATE_S = 60.0
"""For so long at most, wall seconds, an object is kept back of which nothing is another but a status that we wrote."""
TOGETHER_S = 0.01
"""For so long what somebody waits for is gathered: each commit has its price, however little is in it."""

_log = structlog.get_logger(__name__)


class FactLog(LogPort, Protocol):
    """What a follower uses of the log beside appending."""

    def slot_of(self, namespace: str) -> Slot: ...
    def last_per_subject(self, filters: Sequence[str]) -> AsyncIterator[Record]: ...


class Progress(msgspec.Struct):
    """For metrics and readiness.

    Attributes:
        synced: the kind has been listed, or resumed.
        settled: that, or the API server refuses it: nobody needs to wait for it any longer.
        facts: published since the start.
        unchanged: objects seen that gave no fact.
        malformed: objects that could not be read.
        left_out: annotations that were too long for a fact.
        error_class: of the last request that failed, empty since one succeeded.
    """

    synced: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    settled: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    facts: int = 0
    unchanged: int = 0
    malformed: int = 0
    left_out: int = 0
    error_class: str = ""


class Follower:
    """One kind."""

    def __init__(
        self,
        kind: WatchedKind,
        kube: Kube,
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        *,
        on_fact: Callable[[ObjectFact], None] | None = None,
        max_age_s: float = 0.0,
        page_size: int = 500,
        streaming: bool = False,
    ) -> None:
        """`on_fact` sees each fact about an object, also those read back; `max_age_s` is the log's."""
        self.kind = kind
        self.heard = Heard(kind.name, appender)
        self.progress = Progress(settled=self.heard.settled)
        self._kube = kube
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._on_fact = on_fact
        self._max_age_s = max_age_s
        self._page_size = page_size
        self._streaming = streaming
        self._diff = Diff(kind)
        self._version = ""
        self._kept_from = ""
        """The version before the first object that is kept back: a restart sees these again, and nothing that was said since."""
        self._keeps = asyncio.Event()
        """Set while some are."""
        self._before_list = 0
        """Facts said when the list began that is being read."""
        self._turn = asyncio.Lock()
        """Commits of this part: following, renewing and refreshing take turns."""
        self._unread_to = 0
        """Sequence of the last of the last words that this version cannot read."""
        self._refused = asyncio.Event()
        self._unchanged = 0
        """Objects seen that gave no fact, up to the last commit."""
        self._pace = Pace()
        self._awaited = False
        """Of what was said last there is something that somebody waits for: what comes next is like it."""
        self._once = Once()
        appender.on_elsewhere = self._followed_elsewhere

    async def run(self) -> None:
        """Follow the kind for ever, stepping back while somebody else owns it."""
        await self._appender.keep(self._own, kind=self.kind.name)

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        self._diff, self._unchanged, self._unread_to = Diff(self.kind), 0, 0
        self._refused.clear()
        self._version = position.resource_version
        self._keeps.clear()
        await self._read_back()
        if self._version:
            self._synced()
        self.heard.begins()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                tasks.create_task(self._renew())
                tasks.create_task(self._answer_refused())
                tasks.create_task(self._say_late())
                if self._max_age_s:
                    tasks.create_task(self._refresh())
        finally:
            self.heard.ends()

    async def _read_back(self) -> None:
        await self._read_back_kind(self.kind.name)
        if self.kind.once:
            await self._read_back_kind(self.kind.once)
        if known := len(self._diff.objects):
            _log.info("read back", kind=self.kind.name, objects=known)

    async def _read_back_kind(self, name: str) -> None:
        async for record in self._log.last_per_subject([self._log.subjects.facts("*", name)]):
            try:
                fact = registry.decode(record.body)
            except registry.NotAnEvent as error:
                _log.warning(
                    "a last word is not readable, saying it again", subject=record.subject, error=str(error)
                )
                self._unread(record)
                continue
            if isinstance(fact, Fact):
                self._stamp.raise_to(fact.at)
                self._diff.said(fact)
                self._tell(fact)
            else:
                if self._once.due("newer", name):
                    _log.warning("last words of a newer version, saying them again", kind=name)
                self._unread(record)

    def _unread(self, record: Record) -> None:
        """A last word says nothing to this version: what there is, is said again, and what is gone, too."""
        if record.seq > self._appender.position.answered:
            self._version = ""  # what has not changed since comes with a list alone
            self._unread_to = max(self._unread_to, record.seq)
        kind, *names = self._log.subjects.parse(record.subject).rest
        if len(names) != 2:
            return
        with contextlib.suppress(UnicodeDecodeError):
            namespace, name = map(unescape, names)
            if kind == self.kind.name:
                self._diff.unread(namespace, name, uid_of(record.body))
            elif kind == SHAPE:
                self._diff.unread_shape(namespace, name)

    async def _follow(self) -> None:
        batches = list_watch_batches(
            self._kube,
            self.kind.path,
            page_size=self._page_size,
            resource_version=self._version or None,
            streaming=self._streaming,
            on_error=self._failed,
            others=self.kind.older_paths,
        )
        async for items in batches:
            self.progress.error_class = ""
            async with self._turn:
                await self._take(items)
            if sum(len(i.raw) for i in items if isinstance(i, Added | Modified | Deleted)) < FLOOD_BYTES:
                # What comes meanwhile comes together: the connection keeps it, as far as its buffer reaches.
                await asyncio.sleep(self._pause_s)

    @property
    def _pause_s(self) -> float:
        """How long until more is taken from the watch; where somebody waits for it no longer than it takes for some to come together."""
        rests_s = self._pace.left_s
        return max(self._pace.left(urgent=True), min(rests_s, TOGETHER_S)) if self._awaited else rests_s

    def _failed(self, error: KubeError) -> None:
        self.progress.error_class = error.error_class
        if not error.retriable:
            self.progress.settled.set()
            if error.status != 410:  # a list that took too long begins anew
                self._refused.set()

    async def _answer_refused(self) -> None:
        """What cannot be listed cannot be said anew: nobody has to wait for it."""
        await self._refused.wait()
        async with self._turn:
            if self._unread_to > self._appender.position.answered:
                _log.warning(
                    "last words that cannot be read stand, the kind cannot be listed", kind=self.kind.name
                )
                await self._say([], self._stamp.now(), answered=self._unread_to)

    def _followed_elsewhere(self, position: WatchPosition) -> None:
        """Another process has the kind; its position says whether it has listed it."""
        if position.resource_version:
            self.progress.settled.set()

    def _synced(self) -> None:
        self.progress.synced.set()
        self.progress.settled.set()

    async def _take(self, items: list[Item]) -> None:
        at = self._stamp.now()
        facts: list[Fact] = []
        listed = False
        change: Added | Modified | Deleted | None = None
        before = self._version
        for item in items:
            match item:
                case Page(objects=objects):
                    for raw in objects:
                        facts += self._seen(raw, at)
                case ListStarted():
                    self._version, self._before_list = "", self.progress.facts
                    self._diff.list_started()
                case ListDone(resource_version=version):
                    facts += self._diff.list_done()
                    self._version, change, listed = version, None, True
                case Bookmark(resource_version=version):
                    self._version, change = version, None
                case Deleted(raw=raw):
                    facts += self._gone(raw)
                    change = item
                case _:
                    facts += self._seen(item.raw, at)
                    change = item
        facts = _without_passing(facts)
        if facts:  # behind the position lies nothing that is said: who takes over would say what it was before once more
            facts += self._diff.late(at)
        if change is not None:
            self._version = change.resource_version or self._version
        self._mind_kept(before)
        self.progress.unchanged = self._diff.unchanged
        self.progress.malformed = self._diff.malformed
        if facts or listed or self._diff.unchanged - self._unchanged >= UNCHANGED:
            await self._say(facts, at, answered=self._unread_to if listed else 0)
        if listed:
            self._synced()
            said = self.progress.facts - self._before_list
            _log.info("listed", kind=self.kind.name, objects=len(self._diff.objects), facts=said)

    def _seen(self, raw: bytes | msgspec.Raw, at: float) -> list[Fact]:
        before = left_out.total()
        try:
            facts = self._diff.seen(raw, at)
        except Malformed as error:
            if times := self._once.due("skipped", str(error)):
                _log.warning("object skipped", kind=self.kind.name, error=str(error), times=times)
            return []
        if count := left_out.total() - before:
            self.progress.left_out += count
            who = identity(raw)
            if self._once.due("left out", who.namespace, who.name):
                _log.warning(
                    "annotations left out, they are too long for a fact",
                    kind=self.kind.name, namespace=who.namespace, name=who.name, annotations=count,
                )  # fmt: skip
        return facts

    def _gone(self, raw: bytes | msgspec.Raw) -> list[Fact]:
        try:
            return self._diff.deleted(raw)
        except Malformed as error:
            _log.warning("deletion skipped", kind=self.kind.name, error=str(error))
            return []

    async def _say(self, facts: list[Fact], at: float, *, answered: int = 0) -> None:
        """Stamp, append, and only then tell others in this process."""
        messages: list[tuple[str, bytes]] = []
        for n, fact in enumerate(facts):
            stamped = msgspec.structs.replace(fact, at=at)
            facts[n] = stamped
            messages.append((self._subject(stamped), registry.encode(stamped)))
        began = time.monotonic()
        await self._appender.say(messages, resource_version=self._position, at=at, answered=answered)
        self._pace.took(time.monotonic() - began)
        self._awaited = any(map(is_awaited, facts))
        self._unchanged = self._diff.unchanged
        self.progress.facts += len(facts)
        for fact in facts:
            self._tell(fact)

    def _tell(self, fact: Fact) -> None:
        if self._on_fact is not None and isinstance(fact, ObjectFact):
            self._on_fact(fact)

    def _subject(self, fact: Fact) -> str:
        subjects, slot_of = self._log.subjects, self._log.slot_of
        if isinstance(fact, ShapeObserved | ShapeGone | TemplateObserved):
            return subjects.fact(slot_of(fact.namespace), self.kind.once, fact.namespace, fact.digest)
        if isinstance(fact, ObjectFact):
            return subjects.fact(slot_of(fact.namespace), self.kind.name, fact.namespace, fact.name)
        raise TypeError(f"a {type(fact).__name__} is about no object")

    @property
    def _position(self) -> str:
        """The version up to which everything is on the log."""
        return self._kept_from if self._keeps.is_set() else self._version

    def _mind_kept(self, before: str) -> None:
        """Take note of whether something is kept back since the version `before`, or nothing any more."""
        if not self._diff.kept_back:
            self._keeps.clear()
        elif not self._keeps.is_set():
            self._kept_from = before
            self._keeps.set()

    async def _say_late(self) -> None:
        """Say what is kept back once the first of it has waited for long enough."""
        while True:
            await self._keeps.wait()
            await asyncio.sleep(LATE_S)
            async with self._turn:
                at = self._stamp.now()
                if facts := self._diff.late(at):
                    self._keeps.clear()
                    await self._say(facts, at)

    async def _renew(self) -> None:
        """Say the position again before the log forgets it."""
        while True:
            await asyncio.sleep(self._appender.renewal_in_s)
            async with self._turn:
                if not self._appender.renewal_in_s:
                    await self._say([], self._stamp.now())

    async def _refresh(self) -> None:
        """Say each object again before the log forgets it."""
        while True:
            await asyncio.sleep(min(self._max_age_s / 30, 60.0))
            before = self._stamp.now() - self._max_age_s / 3
            async with self._turn:
                await self._say_again(before)

    async def _say_again(self, before: float) -> None:
        subjects, slot_of = self._log.subjects, self._log.slot_of
        due = [
            subjects.fact(slot_of(namespace), self.kind.name, namespace, name)
            for namespace, name in self._diff.due(before, REFRESH_BATCH)
        ]
        for digest in self._diff.due_shapes(before, REFRESH_BATCH):
            namespace, _ = self._diff.shapes[digest]
            due.append(subjects.fact(slot_of(namespace), self.kind.once, namespace, digest))
        at = self._stamp.now()
        again: list[tuple[str, Fact]] = []
        for subject in due:
            record = await self._log.last(subject)
            fact = registry.read(record.body) if record else None
            if isinstance(fact, Fact):
                again.append((subject, msgspec.structs.replace(fact, at=at, refresh=True)))
        if again:
            messages = [(subject, registry.encode(fact)) for subject, fact in again]
            await self._appender.say(messages, resource_version=self._position, at=at)
        for _, fact in again:
            self._diff.refreshed(fact)


def is_awaited(fact: Fact) -> bool:
    """Whether a drain waits for a fact: a pod is gone, or a node carries our mark, as the next ones soon do when one is gone."""
    if isinstance(fact, NodeObserved):
        return DRAIN in fact.annotations
    return isinstance(fact, PodGone | NodeGone)


def _without_passing(facts: list[Fact]) -> list[Fact]:
    """Facts of one moment without what was said of a node that another one of them says anew.

    A mark of ours is followed at once by the cluster's own taint, and each has all that is decided about nodes looked at.
    """
    last = {(f.name, f.uid): n for n, f in enumerate(facts) if isinstance(f, NodeObserved)}
    if len(last) == len(facts):
        return facts
    return [f for n, f in enumerate(facts) if not isinstance(f, NodeObserved) or last[f.name, f.uid] == n]


class _Uid(msgspec.Struct):
    uid: str = ""


def uid_of(body: bytes) -> str:
    """The uid in a fact of any version; empty without one."""
    try:
        return msgspec.json.decode(body, type=_Uid).uid
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
