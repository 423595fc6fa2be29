"""Workloads of kinds that nobody built in, as facts: what they own and want, under the usual names as far as these mean something.

Who follows which kinds, and why, is another's to say; so is what becomes of the facts on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.facts import TemplateObserved, WorkloadGone, WorkloadObserved
from tidewright.events.registry import Unknown
from tidewright.events.spread import KindRefused
from tidewright.host.process.once import Once
from tidewright.kube.client import Kube
from tidewright.kube.customworkloads import GroupKind
from tidewright.kube.discovery import Discovery, Resource
from tidewright.kube.errors import KubeError
from tidewright.kube.kinds import TEMPLATE
from tidewright.kube.listwatch import Added, Deleted, ListDone, ListStarted, Modified, Page, list_watch
from tidewright.kube.projection import workloads
from tidewright.kube.projection.reading import Bytes, Malformed, Project, Projection
from tidewright.log.subjects import ALL, unescape
from tidewright.watcher.follow import FactLog, uid_of
from tidewright.watcher.sayings import Sayings

AGAIN_S = 15.0
"""Wall seconds until a kind that is not served is asked for again."""

_log = structlog.get_logger(__name__)


class _Counts(msgspec.Struct):
    replicas: Any = None


class _Counted(msgspec.Struct):
    spec: _Counts = msgspec.field(default_factory=_Counts)
    status: _Counts = msgspec.field(default_factory=_Counts)


_counted = msgspec.json.Decoder(_Counted)


class Counts(NamedTuple):
    """What stands at `spec.replicas` and `status.replicas` of an object; -1 where no number does."""

    wanted: int
    there: int


def counts_of(raw: Bytes) -> Counts:
    """The counts of an object of any kind. Pure."""
    try:
        read = _counted.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return Counts(-1, -1)
    return Counts(_number(read.spec.replicas), _number(read.status.replicas))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def readable(api_version: str, kind: str) -> Project:
    """A projection for a kind of somebody else: what it has under the usual names may be anything.

    Its owner can be read in any case; its replicas are -1 where no number stands in the usual place.
    """
    whole = workloads.workload(api_version, kind, checked_template=False)
    bare = workloads.bare_workload(api_version, kind)

    def project(raw: Bytes) -> Projection:
        try:
            projection = whole(raw)
        except Malformed:
            return bare(raw)
        if not isinstance(projection.fact, WorkloadObserved):
            return projection
        fact = msgspec.structs.replace(projection.fact, replicas=counts_of(raw).wanted)
        return msgspec.structs.replace(projection, fact=fact)

    return project


class NotServed(Exception):
    """Objects of a kind are not where discovery had them."""


class Seen(NamedTuple):
    """An object as it is now.

    Attributes:
        subject: of the facts about it.
        place: where it is.
        counts: as they stand in it.
    """

    kind: GroupKind
    subject: str
    place: Resource
    fact: WorkloadObserved
    counts: Counts


class WorkloadWatch:
    """Kinds of workloads under one kind of subjects."""

    def __init__(
        self,
        kube: Kube,
        discovery: Discovery,
        log: FactLog,
        sayings: Sayings,
        *,
        kind: str,
        refused: str,
        seen: Callable[[Seen], Awaitable[None]],
        gone: Callable[[str, GroupKind, str], None],
        why: Callable[[KubeError, Resource], str] = lambda error, _: str(error),
        scaled: bool = False,
    ) -> None:
        """Of what is seen nothing is said here but templates, refusals, and what is gone.

        Args:
            kube: where objects are read.
            discovery: where their kinds are.
            log: what was said last.
            sayings: what is said goes there.
            kind: in subjects, of objects; several kinds share it, so the kind is in the name.
            refused: in subjects, of kinds that may not be read.
            seen: takes an object as it is now.
            gone: takes namespace, kind and name of one that is gone.
            why: says why a kind may not be read.
            scaled: they are followed because autoscalers scale them.
        """
        self._kube = kube
        self._discovery = discovery
        self._log = log
        self._sayings = sayings
        self._kind = kind
        self._refused = refused
        self._seen = seen
        self._gone_too = gone
        self._why = why
        self._scaled = scaled
        self._once = Once()
        self._inherited: dict[str, WorkloadObserved] = {}

    @property
    def patterns(self) -> tuple[str, str]:
        """The subjects of all that it says but templates."""
        subjects = self._log.subjects
        return subjects.facts("*", self._kind), subjects.facts("*", self._refused)

    @property
    def told(self) -> set[GroupKind]:
        """Kinds of which something was said that still holds."""
        return self._kinds_on(self._kind, self._refused)

    @property
    def told_refused(self) -> set[GroupKind]:
        """Kinds of which it was said whether they may be read."""
        return self._kinds_on(self._refused)

    def _kinds_on(self, *tokens: str) -> set[GroupKind]:
        found = set[GroupKind]()
        for subject in self._sayings.said:
            token, *names = self._log.subjects.parse(subject).rest
            if token in tokens and len(names) == 2:
                kind, _, group = unescape(names[1]).partition("/")[0].partition(".")
                found.add(GroupKind(group, kind))
        return found

    async def served(self, kind: GroupKind, version: str = "") -> Resource | str:
        """Where objects of a kind are, or why there are none: then all that were told of are gone."""
        try:
            places = await self._discovery.resources(kind.group, kind.kind)
        except KubeError as error:
            return str(error)
        if not places:
            for subject in sorted(self.said_of(kind)):
                await self.gone(subject, "", kind)
            return f'no matches for kind "{kind.kind}" in group "{kind.group}"'
        return next((p for p in places if p.version == version), places[0])

    async def wherever(
        self,
        kind: GroupKind,
        find: Callable[[], Awaitable[Resource | str]],
        watch: Callable[[Resource], Awaitable[None]],
        missing: Callable[[str], None],
    ) -> None:
        """Watch objects of a kind for ever: where it is served, and in another version when it is there no longer.

        Args:
            kind: of the objects.
            find: says where they are, or why nowhere.
            watch: watches them there, until it raises `NotServed`.
            missing: takes why they are nowhere.
        """
        left: Resource | None = None
        why = ""
        while True:
            place = await find()
            if isinstance(place, str) or place == left:  # discovery may be behind
                missing(place if isinstance(place, str) else why)
                left = None
                await asyncio.sleep(AGAIN_S)
                self._discovery.forget(kind.group, kind.kind)  # which holds for longer that it was not there
                continue
            try:
                await watch(place)
            except NotServed as error:
                left, why = place, str(error)
                self._discovery.forget(kind.group, kind.kind)

    async def objects(self, kind: GroupKind, resource: Resource) -> None:
        """Facts about all objects of a kind, for as long as they are there.

        Raises:
            NotServed: they are there no longer.
        """
        project = readable(resource.api_version, kind.kind)
        vanished: set[str] = set()

        def refused(error: KubeError) -> None:
            if error.status == 404:
                raise NotServed(str(error))
            if not error.retriable:
                why = self._why(error, resource)
                if self._once.due("refused", str(kind), why):
                    _log.warning("objects of a kind may not be read", kind=str(kind), error=why)
                self.say_refused(kind, why)

        async for item in list_watch(self._kube, resource.collection(), on_error=refused):
            raws: list[Bytes] = []
            match item:
                case ListStarted():
                    vanished = self.said_of(kind)
                case Page(objects=objects):
                    raws += objects
                case ListDone():
                    self.say_refused(kind, "")
                    for subject in sorted(vanished):
                        await self.gone(subject, resource.api_version, kind)
                    vanished = set()
                case Deleted(raw=raw):
                    fact = self._projected(project, raw)
                    if fact is not None:
                        await self.gone(self._subject(kind, fact), resource.api_version, kind, fact)
                case Added(raw=raw) | Modified(raw=raw):
                    raws.append(raw)
            for raw in raws:
                fact = self._projected(project, raw)
                if fact is not None:
                    subject = self._subject(kind, fact)
                    vanished.discard(subject)
                    self._inherited.pop(subject, None)
                    await self._seen(Seen(kind, subject, resource, fact, counts_of(raw)))

    def inherit(self, told: Mapping[str, WorkloadObserved]) -> None:
        """By its subject here, what another part told of that follows it no longer: if it is gone, it is to be told here."""
        self._inherited.update(told)
        for subject in told:
            self._sayings.said[subject] = b""

    def say_refused(self, kind: GroupKind, error: str) -> None:
        """Say that a kind may not be read; and that it can be, if the contrary was said."""
        fact = KindRefused(
            at=0.0, name=str(kind), group=kind.group, kind=kind.kind, error=error, scaled=self._scaled
        )
        subject = self._log.subjects.fact(ALL, self._refused, "", fact.name)
        if error or subject in self._sayings.said:
            self._sayings.say(subject, fact)

    def forget_refusal(self, kind: GroupKind) -> None:
        """Nobody asks any longer whether a kind may be read."""
        self._sayings.leave(self._log.subjects.fact(ALL, self._refused, "", str(kind)))

    async def gone(
        self, subject: str, api_version: str, kind: GroupKind, seen: WorkloadObserved | None = None
    ) -> None:
        """Say that an object is gone; `seen` is what is known of it, else it is read off the log, and the API version, too, where it is empty."""
        self._sayings.said.pop(subject, None)
        inherited = self._inherited.pop(subject, None)
        known = seen or inherited or await self._last_word(subject, api_version, kind)
        if known is None:
            return
        self._gone_too(known.namespace, kind, known.name)
        fact = WorkloadGone(
            at=0.0,
            namespace=known.namespace,
            name=known.name,
            uid=known.uid,
            api_version=api_version or known.api_version,
            kind=kind.kind,
        )
        self._sayings.put(subject, fact)

    async def _last_word(self, subject: str, api_version: str, kind: GroupKind) -> WorkloadObserved | None:
        record = await self._log.last(subject)
        known = registry.read(record.body) if record else None
        if isinstance(known, Unknown) and record is not None:
            _, namespace, name = map(unescape, self._log.subjects.parse(subject).rest)
            return WorkloadObserved(
                at=0.0,
                namespace=namespace,
                name=name.removeprefix(f"{kind}/"),
                uid=uid_of(record.body),
                api_version=api_version or f"{kind.group}/",
                kind=kind.kind,
            )
        return known if isinstance(known, WorkloadObserved) else None

    def said_of(self, kind: GroupKind) -> set[str]:
        """The subjects of objects of a kind of which something was said that still holds."""
        return {subject for subject in self._sayings.said if self.is_of(subject, kind)}

    def _projected(self, project: Project, raw: Bytes) -> WorkloadObserved | None:
        try:
            projected = project(raw)
        except Malformed as error:
            _log.warning("object skipped", kind=self._kind, error=str(error))
            return None
        if isinstance(projected.shape, TemplateObserved):
            template = projected.shape
            slot = self._log.slot_of(template.namespace)
            subject = self._log.subjects.fact(slot, TEMPLATE, template.namespace, template.digest)
            self._sayings.say_once(subject, template)
        return projected.fact if isinstance(projected.fact, WorkloadObserved) else None

    def _subject(self, kind: GroupKind, fact: WorkloadObserved) -> str:
        slot = self._log.slot_of(fact.namespace)
        return self._log.subjects.fact(slot, self._kind, fact.namespace, f"{kind}/{fact.name}")

    def is_of(self, subject: str, kind: GroupKind) -> bool:
        """Whether a subject is that of an object of a kind."""
        rest = self._log.subjects.parse(subject).rest
        return rest[0] == self._kind and unescape(rest[2]).startswith(f"{kind}/")
