"""Lists of what is decided on, from last words alone: no state is folded, whatever the length of the log.

The last fact about each object and the last decisions about it are found through the server's subject index; a
service's lister (`tidewright.host.fold.lister`) makes a row of them. Kinds that nobody lists (pods, nodes) are listed
as far as something was decided about them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice

import msgspec

from tidewright.asking.answers.form import stamp, stamp_if_set
from tidewright.asking.answers.listing import KindList, ListedKind, ListedObject, MeasuredValue, ObjectList
from tidewright.asking.errors import BadInput
from tidewright.asking.lines import line, subject_object
from tidewright.asking.lookups import Found, decided_about, decoded
from tidewright.asking.objects import CLUSTER_SCOPED
from tidewright.asking.point_in_time import Moment
from tidewright.asking.services import BY_NAME, SERVICES, Role, Service
from tidewright.asking.source import Source, matches, slot_in
from tidewright.asking.told_time import told
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import CancelTimer, SetTimer
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.lister import Lister, Row, Words
from tidewright.kube.times import seconds
from tidewright.log.batched_get import TooMany
from tidewright.log.reader import Record
from tidewright.log.subjects import escape

LISTED: dict[str, Service] = {kind: service for service in SERVICES for kind in sorted(service.lists)}
"""Kinds whose objects are listed whether anything was decided about them or not, and who lists them."""
KINDS: tuple[str, ...] = tuple(dict.fromkeys([*LISTED, *(k for s in SERVICES for k in sorted(s.explains))]))
"""All kinds that can be listed."""


def lister_of(service: Service) -> Lister | None:
    """How a service makes rows; its module is imported here. None: it makes none."""
    if not service.lister:
        return None
    module, _, name = service.lister.partition(":")
    lister: Lister = getattr(import_module(module), name)
    return lister


def listable(kind: str) -> str:
    """A kind that can be listed.

    Raises:
        BadInput: nothing is decided about objects of the kind; those that can be listed are named.
    """
    if kind in KINDS:
        return kind
    from difflib import get_close_matches

    meant = [f"did you mean {name}?" for name in get_close_matches(kind, KINDS, n=1)]
    raise BadInput(
        " ".join(
            [f"{kind!r}: nothing is decided about such objects;", *meant, f"valid are {', '.join(KINDS)}"]
        )
    )


async def kinds(source: Source, moment: Moment) -> KindList:
    """The kinds that are decided on, with how many objects there are of each."""
    root = source.subjects.root
    patterns = [f"{root}.fact.*.{kind}.*.*" for kind in LISTED]
    patterns += [f"{root}.decision.*.*.{kind}.*.*" for kind in KINDS if kind not in LISTED]
    objects: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    services: defaultdict[str, set[str]] = defaultdict(set)
    for record in await source.last_of_all(patterns, moment.bound):
        cls, kind, namespace, name = subject_object(record.subject)
        if cls == "fact":
            found = decoded(record)
            if found is None or _gone(found.event):
                continue
            services[kind].add(LISTED[kind].name)
        else:
            services[kind].add(source.subjects.parse(record.subject).rest[0])
        objects[kind].add((namespace, name))
    counts = Counter({kind: len(those) for kind, those in objects.items()})
    items = tuple(
        ListedKind(kind=kind, services=tuple(sorted(services[kind])), objects=counts[kind])
        for kind in KINDS
        if counts[kind]
    )
    return KindList(log=source.name, sequence=moment.seq, at=stamp(moment.at), items=items)


async def listed(
    source: Source, kind: str, moment: Moment, *, namespace: str = "", name: str = ""
) -> ObjectList:
    """The objects of a kind: all, those of a namespace, or the one of a name.

    Raises:
        BadInput: nothing is decided about objects of the kind.
    """
    board = Board(source, listable(kind), namespace, name)
    await filled(board, moment.bound)
    return ObjectList(
        log=source.name,
        sequence=moment.seq,
        at=stamp(moment.at),
        kind=kind,
        items=tuple(board.items(moment.at)),
    )


async def filled(board: Board, up_to: int, meanwhile: Callable[[], None] = lambda: None) -> list[Record]:
    """Give a board the last words as of a sequence (0: the end), and return them.

    `meanwhile` is called whenever it has taken some, while others are still looked for: what is decided at other objects lies all
    over the log, and is asked for as soon as they are known, or before.
    """
    usual = {kind: asyncio.create_task(board.source.last([at], up_to)) for kind, at in board.usual().items()}
    at_others: list[asyncio.Task[list[Record]]] = []
    asked = 0

    def heard(part: Sequence[Record]) -> None:
        nonlocal asked
        for record in part:
            board.take(record)
        places = board.elsewhere(asked)
        asked += len(places)
        if further := [board.decided_at(place) for place in places if place.kind not in usual]:
            at_others.append(asyncio.create_task(board.source.last(further, up_to)))
        meanwhile()

    try:
        records = await board.source.last_of_all(board.patterns(), up_to, heard)
        others = [record for part in await asyncio.gather(*at_others) for record in part]
        for kind, task in usual.items():
            places = [place for place in board.elsewhere() if place.kind == kind]
            try:
                found = await task
            except TooMany:
                found = await board.source.last([board.decided_at(place) for place in places], up_to)
            wanted = set(places)
            others += [record for record in found if Reference(*subject_object(record.subject)[1:]) in wanted]
    finally:
        for task in (*usual.values(), *at_others):
            task.cancel()
    for record in others:
        board.take(record)
    return [*records, *others]


async def watched(
    source: Source, after: ObjectList, *, namespace: str = "", name: str = ""
) -> AsyncGenerator[tuple[ListedObject, float], None]:
    """Each object of a list again, whenever its row is another one, with the log time then; on and on."""
    board = Board(source, after.kind, namespace, name)
    await filled(board, after.sequence)
    rows, now = {(item.namespace, item.name): item for item in after.items}, seconds(after.at)
    async with aclosing(source.follow(after=after.sequence)) as records:
        async for record in records:
            if not board.concerns(record):
                continue
            found = board.take(record)
            now = max(now, found.event.at if found is not None else 0.0)
            for item in board.items(now):
                key = (item.namespace, item.name)
                if item != rows.get(key):
                    rows[key] = item
                    yield item, now


def _place(entry: tuple[str, Decision]) -> tuple[float, list[int]]:
    """Where a decision stands among others, also of those that were decided at the same time."""
    decision = entry[1]
    return told(decision), [int(part) for part in decision.id.split(".")[-2:] if part.isdigit()]


@dataclass
class Board:
    """The last words about the objects of a kind, as they are found."""

    source: Source
    kind: str
    namespace: str = ""
    name: str = ""
    facts: dict[Reference, Event] = field(default_factory=dict)
    gone: set[Reference] = field(default_factory=set)
    decided: defaultdict[Reference, dict[str, tuple[str, Decision]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    context: dict[str, Decision] = field(default_factory=dict)
    about: defaultdict[Reference, set[Reference]] = field(default_factory=lambda: defaultdict(set))
    """Objects of the list by others at which is decided about them."""

    def __post_init__(self) -> None:
        self.service = LISTED.get(self.kind)
        self.lister = lister_of(self.service) if self.service is not None else None
        self._following = self.patterns()

    def patterns(self) -> list[str]:
        """Filters that do not overlap, for facts and decisions of the kind, and for what is said of all of it at once."""
        root, name = self.source.subjects.root, escape(self.name) if self.name else "*"
        slot, space = "*", "*"
        if self.kind in CLUSTER_SCOPED:
            space = escape("")
        elif self.namespace:
            slot, space = slot_in(self.source, self.namespace), escape(self.namespace)
        patterns = [
            f"{root}.fact.{slot}.{self.kind}.{space}.{name}",
            f"{root}.decision.*.*.{self.kind}.{space}.{name}",
        ]
        if self.lister is not None and self.service is not None:
            patterns += [
                f"{root}.decision.*.{self.service.name}.{of}.*.*" for of in sorted(self.lister.context)
            ]
        return patterns

    def elsewhere(self, behind: int = 0) -> list[Reference]:
        """Other objects at which is decided about objects of the list; behind so many of them."""
        return [] if self.service is None else list(islice(self.about, behind, None))

    def decided_at(self, place: Reference) -> str:
        """The subject of what is decided there."""
        return decided_about(self.source, self.service.name if self.service is not None else "*", place)

    def usual(self) -> dict[str, str]:
        """Kinds at which most of that is decided where all of the list is asked for, and what finds all of it."""
        if self.service is None or self.lister is None or self.namespace or self.name:
            return {}
        root = self.source.subjects.root
        return {
            kind: f"{root}.decision.*.{self.service.name}.{kind}.*.*" for kind in sorted(self.lister.usual)
        }

    def spoken_of(self, records: Iterable[Record]) -> set[Reference]:
        """The objects on whose rows bears what was decided."""
        found: set[Reference] = set()
        for record in records:
            cls, *place = subject_object(record.subject)
            asked = Reference(*place)
            if cls == "fact":
                continue
            if asked in self.about:
                found |= self.about[asked]
            elif asked.kind == self.kind:
                found.add(asked)
            else:
                return set(self.references())
        return found

    def concerns(self, record: Record) -> bool:
        """Whether a new record may change a row."""
        if any(matches(pattern, record.subject) for pattern in self._following):
            return True
        cls, *place = subject_object(record.subject)
        return cls == "decision" and Reference(*place) in self.about

    def taken(self, record: Record) -> set[Reference]:
        """Take a record, and say which objects' rows may be others now."""
        found = self.take(record)
        if found is None or not self.concerns(record):
            return set()
        cls, *place = subject_object(record.subject)
        asked = Reference(*place)
        if cls == "fact":
            return {asked}
        if asked.kind == self.kind and asked not in self.about:
            return {asked}
        if asked in self.about:
            return set(self.about[asked])
        return set(self.references())  # it speaks of all of them at once

    def references(self) -> list[Reference]:
        """The objects that have a row, by namespace and name."""
        those = self.facts.keys() if self.service is not None else self.decided.keys() - self.gone
        return sorted(those, key=lambda one: (one.namespace, one.name))

    def row(self, asked: Reference, now: float) -> ListedObject | None:
        """The row of one object; None where it has none."""
        there = (
            asked in self.facts
            if self.service is not None
            else asked in self.decided and asked not in self.gone
        )
        return self._item(asked, now) if there else None

    def measured(self, asked: Reference) -> tuple[MeasuredValue, ...]:
        """What an object is decided by, where that is a value between watermarks: rows have it only where they are all shown."""
        if self.lister is None:
            return ()
        return tuple(
            MeasuredValue(metric=m.metric, value=m.value, low_watermark=m.low, high_watermark=m.high)
            for m in self.lister.measured(self._words(asked))
        )

    def as_of(self, subjects: Iterable[str], earlier: Iterable[Record]) -> tuple[Board, set[Reference]]:
        """A board of before, and whose rows are others there: of some subjects the words were these, or none."""
        board = Board(self.source, self.kind, self.namespace, self.name)
        board.facts, board.gone, board.context = dict(self.facts), set(self.gone), dict(self.context)
        board.decided.update(self.decided)
        board.about.update(self.about)
        touched: set[Reference] = set()
        for subject in subjects:
            cls, *place = subject_object(subject)
            asked = Reference(*place)
            if cls == "fact":
                board.facts.pop(asked, None)
                board.gone.discard(asked)
                touched.add(asked)
                continue
            of = (
                {asked}
                if asked.kind == self.kind and asked not in self.about
                else self.about.get(asked, set())
            )
            if not of and board.context.pop(subject, None) is not None:
                touched.update(self.references())
            for object_ in of:
                left = {s: word for s, word in board.decided.get(object_, {}).items() if s != subject}
                board.decided[object_] = left
                touched.add(object_)
        for record in earlier:
            touched |= board.taken(record)
        return board, touched

    def take(self, record: Record) -> Found | None:
        """Take a record as the last word on its subject; None when it does not decode."""
        found = decoded(record)
        if found is None or not isinstance(found.event, Event):
            return found
        cls, *place = subject_object(record.subject)
        asked, event = Reference(*place), found.event
        if cls == "fact":
            self._fact(asked, event)
        elif isinstance(event, Decision) and not isinstance(event, SetTimer | CancelTimer):
            name = self.source.subjects.parse(record.subject).rest[0]
            if asked.kind == self.kind and asked not in self.about:
                self.decided[asked][record.subject] = (name, event)
            elif asked in self.about:
                for object_ in self.about[asked]:
                    self.decided[object_][record.subject] = (name, event)
            else:
                self.context[record.subject] = event
        return found

    def _fact(self, asked: Reference, event: Event) -> None:
        if _gone(event):
            self.facts.pop(asked, None)
            self.gone.add(asked)
            return
        self.gone.discard(asked)
        self.facts[asked] = event
        if self.lister is not None:
            for place in self.lister.elsewhere(event):
                self.about[place].add(asked)

    def items(self, now: float) -> Iterable[ListedObject]:
        """The rows, by namespace and name, with what is measured."""
        for asked in self.references():
            yield msgspec.structs.replace(self._item(asked, now), measured=self.measured(asked))

    def _words(self, asked: Reference) -> Words:
        decisions = sorted(self.decided.get(asked, {}).values(), key=_place, reverse=True)
        decided = tuple(decision for _, decision in decisions)
        return Words(asked, self.facts.get(asked), decided, tuple(self.context.values()))

    def _item(self, asked: Reference, now: float) -> ListedObject:
        words = self._words(asked)
        latest = next(iter(words.decisions), None)
        by = self.service.name if self.service is not None else self._decided_by(asked, latest)
        row = self._row(words, by, now)
        return ListedObject(
            kind=asked.kind,
            namespace=asked.namespace,
            name=asked.name,
            service=by,
            now=row.now,
            wanted=row.wanted,
            why=row.why,
            held_until=stamp_if_set(row.held_until),
            last_change=stamp_if_set(row.changed_at),
            last_decision=latest.id if latest is not None else "",
            wrong=row.wrong,
        )

    def _decided_by(self, asked: Reference, decision: Decision | None) -> str:
        """The service that took one of the decisions about an object."""
        taken = self.decided.get(asked, {}).values()
        return next((name for name, other in taken if other is decision), "")

    def _row(self, words: Words, by: str, now: float) -> Row:
        lister = self.lister
        if lister is None and (service := BY_NAME.get(by)) is not None and service.role is Role.DECIDER:
            lister = lister_of(service)
        row = lister.row(words, now) if lister is not None else Row()
        if row.now or self.lister is not None:
            return row
        latest = next(iter(words.decisions), None)
        return Row(
            now=line(words.fact) if words.fact is not None else "",
            why=line(latest) if latest is not None else "",
            changed_at=told(latest) if latest is not None else None,
        )


def _gone(event: object) -> bool:
    return type(event).__name__.endswith("Gone")
