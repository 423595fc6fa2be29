"""Looking for incumbents: watches of what shows them, and a poll of who writes the objects that we would write.

    deployments, locks, status ConfigMap, webhooks   watched, most of them by name
    field managers of statuses                       listed now and then, metadata alone
    -> fact.all.incumbent._.<our service>            IncumbentObserved, when something has changed

A renewal is no news. A right that is lacking is said once, in the log and in the fact, with what it means.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Gauge

from tidewright.events import registry
from tidewright.events.incumbents import IncumbentObserved
from tidewright.host.loop.fenced import TURN_S
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.kinds import WatchedKind
from tidewright.kube.listwatch import Added, Deleted, ListDone, ListStarted, Modified, Page, list_watch
from tidewright.kube.projection.reading import UNREADABLE, Malformed
from tidewright.log.subjects import ALL
from tidewright.watcher.appender import Appender
from tidewright.watcher.follow import FactLog
from tidewright.watcher.incumbents.judging import QUIET_S, Book
from tidewright.watcher.incumbents.rivals import LOOKS, RIVALS, Look, Rival
from tidewright.watcher.incumbents.signs import Key, read, sign_of_writes
from tidewright.watcher.labelscan import METADATA_ONLY
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.resync import Again

INCUMBENT = "incumbent"
POLL_S = 30.0
"""Wall seconds between two looks at field managers."""
UNREACHED_POLLS = 3
"""Polls without an answer of the cluster after which nobody is said to look."""
PAGE = 500
GATHER_S = 1.0
"""How long more evidence is waited for, once an incumbent is known: one start shows itself in several objects."""

_log = structlog.get_logger(__name__)


class _ManagedMeta(msgspec.Struct):
    namespace: str = ""
    managedFields: list[dict[str, Any]] | None = None  # noqa: N815 - the API's name


class _Object(msgspec.Struct):
    metadata: _ManagedMeta


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[_Object] | None = None


_list = msgspec.json.Decoder(_List)


class Incumbents:
    """The looking, for all rivals.

    Attributes:
        looked: every look was made once, or cannot be.
    """

    def __init__(
        self,
        kube: Kube,
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        wall: Callable[[], float],
        *,
        quiet_s: float = QUIET_S,
        poll_s: float = POLL_S,
        max_age_s: float = 0.0,
        metrics: CollectorRegistry | None = None,
    ) -> None:
        """`wall` gives seconds since the epoch as the cluster's objects are stamped; `max_age_s` is the log's."""
        self._kube, self._log, self._appender = kube, log, appender
        self._stamp, self._wall = stamp, wall
        self._quiet_s, self._poll_s, self._max_age_s = quiet_s, poll_s, max_age_s
        self._book = Book(quiet_s=quiet_s)
        self._again = Again(log, max_age_s)
        self._news = asyncio.Event()
        self._todo: set[str] = set()
        self.looked = asyncio.Event()
        self._complete = False
        """This process owns the part, and what it saw at its looks is on the log."""
        self._reached_at = float("-inf")
        self._gauge = (
            Gauge(
                "tidewright_incumbent_seen",
                "1 while another controller is seen at the work of a service of ours.",
                ["service"],
                registry=metrics,
            )
            if metrics is not None
            else None
        )

    @property
    def looks(self) -> bool:
        """Whether this process owns the looking, has looked, and has reached the cluster lately."""
        reached_s = asyncio.get_running_loop().time() - self._reached_at
        return self._complete and reached_s < UNREACHED_POLLS * self._poll_s

    async def run(self) -> None:
        """Look for ever, stepping back while another process does."""
        await self._appender.keep(self._own, kind=INCUMBENT)

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        self._book, self._again = Book(quiet_s=self._quiet_s), Again(self._log, self._max_age_s)
        async for record in self._log.last_per_subject([self._log.subjects.facts(str(ALL), INCUMBENT)]):
            fact = registry.read(record.body)
            if isinstance(fact, IncumbentObserved):
                self._book.told(fact)
                self._again.said(record.subject, fact.at)
                self._known(None, fact)  # it holds its service back from the start
        self._todo = {look.right for look in LOOKS} | {INCUMBENT}
        self._complete = False
        try:
            async with asyncio.TaskGroup() as tasks:
                for look in LOOKS:
                    tasks.create_task(self._watch(look))
                tasks.create_task(self._poll())
                tasks.create_task(self._tell())
        finally:
            self._complete = False

    # -- looking ---------------------------------------------------------------------------------

    async def _watch(self, look: Look) -> None:
        listed: set[Key] = set()

        def refused(error: KubeError) -> None:
            if error.error_class == "forbidden":
                self._lacking(look.services, look.right, error)
            if not error.retriable:
                self._done(look.right)

        async for item in list_watch(self._kube, look.path, query=look.query, on_error=refused):
            match item:
                case ListStarted():
                    listed = set()
                case Page(objects=objects):
                    listed.update(key for raw in objects if (key := self._seen(look, raw)) is not None)
                case ListDone():
                    self._allowed(look.services, look.right)
                    for key in self._book.keys(look.kind, look.name):
                        if key not in listed:
                            self._take(key)
                    self._done(look.right)
                case Deleted(raw=raw):
                    if (key := self._seen(look, raw)) is not None:
                        self._take(key)
                case Added(raw=raw) | Modified(raw=raw):
                    self._seen(look, raw)

    def _seen(self, look: Look, raw: bytes | msgspec.Raw) -> Key | None:
        try:
            key, sign = read(look.kind, raw)
        except Malformed as error:
            _log.warning("object skipped", kind=look.kind, looking_for=INCUMBENT, error=str(error))
            return None
        if sign is not None or key in self._book:
            self._book.seen(key, sign, asyncio.get_running_loop().time(), self._wall())
            self._news.set()
        return key

    def _take(self, key: Key) -> None:
        """It is not there any more."""
        if key in self._book:
            self._book.seen(key, None, asyncio.get_running_loop().time(), self._wall())
            self._news.set()

    async def _poll(self) -> None:
        while True:
            for rival in RIVALS:
                for kind in rival.writes:
                    if await self._look_at_writers(rival, kind):
                        self._reached_at = asyncio.get_running_loop().time()
            self._done(INCUMBENT)
            await asyncio.sleep(self._poll_s)

    async def _look_at_writers(self, rival: Rival, kind: WatchedKind) -> bool:
        """Whether the cluster answered."""
        right = f"list {kind.plural}.{kind.group}"
        by_namespace: dict[str, list[dict[str, Any]]] = defaultdict(list)
        query = {"limit": str(PAGE)}
        while True:
            try:
                answer = await self._kube.request("GET", kind.path, query=query, accept=METADATA_ONLY)
                page = _list.decode(answer.body)
            except KubeError as error:
                if error.error_class == "forbidden":
                    self._lacking((rival.service,), right, error)
                if error.error_class != "gone":
                    return not error.retriable  # at the next poll; what was seen stands for its time
                break  # not served here
            except UNREADABLE as error:
                _log.warning("a list cannot be read", kind=kind.name, looking_for=INCUMBENT, error=str(error))
                return True
            for item in page.items or ():
                metadata = {"managedFields": item.metadata.managedFields}
                by_namespace[item.metadata.namespace].append(metadata)
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        self._allowed((rival.service,), right)
        now, wall = asyncio.get_running_loop().time(), self._wall()
        signs = {}
        for namespace, objects in by_namespace.items():
            if (sign := sign_of_writes(rival, kind.kind, namespace, objects)) is not None:
                signs[kind.kind, namespace, ""] = sign
        for key in {*signs, *self._book.keys(kind.kind)}:
            self._book.seen(key, signs.get(key), now, wall)
            self._news.set()
        return True

    def _lacking(self, services: Iterable[str], right: str, error: KubeError) -> None:
        if self._book.unseen(services, right, lacking=True):
            self._news.set()
            _log.warning(
                "an incumbent may go unnoticed", right=right, services=", ".join(services), error=str(error),
                do="grant the watcher this right, or make sure by other means that nothing else does this work",
            )  # fmt: skip

    def _allowed(self, services: Iterable[str], right: str) -> None:
        if self._book.unseen(services, right, lacking=False):
            self._news.set()

    def _done(self, what: str) -> None:
        self._todo.discard(what)
        if not self._todo:
            self._news.set()

    # -- saying ----------------------------------------------------------------------------------

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        while True:
            self._news.clear()
            if any(self._appears(fact) for fact in self._book.news(loop.time())) or not self._todo:
                facts = self._book.news(loop.time())
                if facts and not any(map(self._appears, facts)):
                    await asyncio.sleep(GATHER_S)
                    facts = self._book.news(loop.time())
                await self._say(facts)
                if not self._todo:
                    self._complete = True
                    self.looked.set()
            if loop.time() - checked_at >= self._again.check_s:
                checked_at = loop.time()
                await self._say_again()
            if not self._appender.renewal_in_s:
                await self._appender.say([], resource_version="", at=self._stamp.now())
            ends = self._book.next_at(loop.time())
            ends_s = TURN_S if ends is None else ends - loop.time()
            pause_s = min(self._appender.renewal_in_s, self._again.check_s, ends_s)
            try:
                async with asyncio.timeout(max(pause_s, 0.0) + 0.01):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _appears(self, fact: IncumbentObserved) -> bool:
        before = self._book.said.get(fact.service)
        return fact.present and not (before is not None and before.present)

    async def _say(self, facts: list[IncumbentObserved]) -> None:
        if not facts:
            return
        at = self._stamp.now()
        facts = [msgspec.structs.replace(fact, at=at, since=fact.since or at) for fact in facts]
        await self._append([(self._subject(fact), fact) for fact in facts], at)
        for fact in facts:
            before = self._book.said.get(fact.service)
            self._book.told(fact)
            self._again.said(self._subject(fact), at)
            self._known(before, fact)

    def _known(self, before: IncumbentObserved | None, fact: IncumbentObserved) -> None:
        _tell_people(before, fact)
        if self._gauge is not None:
            self._gauge.labels(fact.service).set(fact.present)

    async def _say_again(self) -> None:
        at = self._stamp.now()
        due = [
            (subject, fact)
            for subject, fact in await self._again.due(at)
            if isinstance(fact, IncumbentObserved)
        ]
        if due:
            await self._append(due, at)
            for subject, _ in due:
                self._again.said(subject, at)

    async def _append(self, facts: list[tuple[str, IncumbentObserved]], at: float) -> None:
        messages = [(subject, registry.encode(fact)) for subject, fact in facts]
        await self._appender.say(messages, resource_version="", at=at)

    def _subject(self, fact: IncumbentObserved) -> str:
        return self._log.subjects.fact(ALL, INCUMBENT, "", fact.service)


def _tell_people(before: IncumbentObserved | None, fact: IncumbentObserved) -> None:
    """The line in the process's log; once per appearance and end, and for what is there when a process begins to look."""
    was = before is not None and before.present
    if fact.present and not was:
        shown = "; ".join(
            f"{evidence.kind} {evidence.namespace}/{evidence.name} {evidence.shows}".strip()
            for evidence in fact.evidence
        )
        _log.warning(
            "an incumbent is at work", service=fact.service, rival=fact.rival, evidence=shown,
            namespaces="all" if fact.everywhere else ", ".join(fact.namespaces),
            means=f"{fact.service} decides without acting there until it is gone",
            do=f"stop {fact.rival} to take over, or say `--regardless {fact.service}`",
        )  # fmt: skip
    elif was and not fact.present:
        _log.info(
            "an incumbent is gone", service=fact.service, rival=fact.rival, quiet_s=fact.quiet_s,
            means=f"{fact.service} goes on in the mode that is set",
        )  # fmt: skip
