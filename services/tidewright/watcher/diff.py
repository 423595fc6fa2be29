"""What is new about the objects of one kind: the present against what was said last. Pure.

    said(event)                  a last word read back from the log
    seen(raw)                    an object of a list, or one that was added or changed
    list_started(), list_done()  what a complete list did not show is gone
    deleted(raw)                 a watch event
    late(at)                     what was kept back

Each answers with the facts to publish, `at` 0, in order. A projection that equals the last word gives
none. A kind's memory is a digest per object, not the object. Where nothing but the status is another, and we wrote it, the decision to write it
and its outcome are on the log: the object is kept back, until it is said for another reason or who publishes asks for it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from tidewright.events import registry
from tidewright.events.base import Fact
from tidewright.events.facts import (
    ObjectFact,
    PodObserved,
    ResourceFact,
    ShapeGone,
    ShapeObserved,
    TemplateObserved,
)
from tidewright.kube.kinds import SHAPE, WatchedKind
from tidewright.kube.projection.reading import Bytes, Malformed, Projection, identity

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

_DIGEST_BYTES = 12
"""Two projections of one object collide with probability 2**-96."""


class Said(NamedTuple):
    """The last word on an object.

    Attributes:
        at: log time when it was said.
        shape: the digest of a pod's shape.
        rest: a digest of all but the status, where that is decided here.
    """

    digest: bytes
    uid: str
    at: float
    shape: str = ""
    rest: bytes = b""


def digest_of(fact: Fact) -> bytes:
    """Of what a fact says, not of when it is said."""
    return blake2b(registry.encode(unstamped(fact)), digest_size=_DIGEST_BYTES).digest()


def unstamped(fact: Fact) -> Fact:
    """The fact without the marks of one saying of it."""
    if fact.at == 0.0 and not fact.refresh:
        return fact
    return msgspec.structs.replace(fact, at=0.0, refresh=False)


class Diff:
    """One kind."""

    def __init__(self, kind: WatchedKind) -> None:
        self.kind = kind
        self.objects: dict[Key, Said] = {}
        self.shapes: dict[str, tuple[str, float]] = {}
        """Digest of each shape or template said, to its namespace and the log time of its last saying."""
        self._pods: Counter[str] = Counter()
        """Digest of each shape to how many pods have it."""
        self._unread_shapes: dict[str, str] = {}
        """Digest of each shape whose last word could not be read, to its namespace."""
        self.unchanged = 0
        """Objects seen that gave no fact."""
        self.malformed = 0
        self._missing: dict[Key, Said] | None = None
        self.kept_back: dict[Key, ObjectFact] = {}
        """As they were seen last, with statuses that we wrote."""

    def said(self, fact: Fact) -> None:
        """Take over a last word from the log: what was said before this process started."""
        if isinstance(fact, ShapeObserved | TemplateObserved):
            self.shapes[fact.digest] = (fact.namespace, fact.at)
        elif isinstance(fact, ShapeGone):
            self.shapes.pop(fact.digest, None)
        elif isinstance(fact, ObjectFact):
            self._remember(fact, fact.at)

    def unread(self, namespace: str, name: str, uid: str) -> None:
        """A last word from the log that cannot be read: whatever the object is, it is said again, or that it is gone."""
        self._put((namespace, name), Said(b"", uid, 0.0))

    def unread_shape(self, namespace: str, digest: str) -> None:
        """As `unread`, for a shape: the first pod that has it says it, and a list without any that it is gone."""
        self._unread_shapes[digest] = namespace

    def seen(self, raw: Bytes, at: float) -> list[Fact]:
        """An object as it is now; `at` is the log time at which its facts will be said.

        Raises:
            Malformed: it cannot be read. What was said about it stands.
        """
        try:
            projection = self.kind.project(raw)
        except Malformed:
            self.malformed += 1
            if self._missing is not None:
                who = identity(raw)
                self._missing.pop((who.namespace, who.name), None)
            raise
        return self.observed(projection, at)

    def observed(self, projection: Projection, at: float) -> list[Fact]:
        """As `seen`, for what is projected already."""
        fact = projection.fact
        key = (fact.namespace, fact.name)
        if self._missing is not None:
            self._missing.pop(key, None)
        digest = blake2b(registry.encode(fact), digest_size=_DIGEST_BYTES).digest()
        last = self.objects.get(key)
        facts: list[Fact] = []
        self.kept_back.pop(key, None)
        if projection.shape is not None and projection.shape.digest not in self.shapes:
            self.shapes[projection.shape.digest] = (key[0], at)
            facts.append(projection.shape)
        if last is not None and last.digest == digest:
            self.unchanged += not facts
            return facts  # its shape alone, when the last word on that could not be read
        rest = self._rest_of(fact)
        listing = self._missing is not None
        if rest and last is not None and last.rest == rest and projection.status_is_ours and not listing:
            self.kept_back[key] = fact
            self.unchanged += 1
            return facts
        if last is not None and last.uid not in ("", fact.uid):
            # Another object of the same name: the old one's end was missed.
            facts.append(self.kind.gone(at=0.0, namespace=key[0], name=key[1], uid=last.uid))
        facts.append(fact)
        self._put(key, Said(digest, fact.uid, at, _shape_of(fact), rest))
        if last is not None and last.shape:
            facts += self._unused([last.shape])
        return facts

    def late(self, at: float) -> list[Fact]:
        """What was kept back, to be said now."""
        facts: list[Fact] = []
        for key, fact in self.kept_back.items():
            self._put(key, Said(digest_of(fact), fact.uid, at, rest=self._rest_of(fact)))
            facts.append(fact)
        self.kept_back = {}
        return facts

    def _rest_of(self, fact: ObjectFact) -> bytes:
        """A digest of what a fact says beside its status; empty where that is not looked at."""
        if not self.kind.own_status or not isinstance(fact, ResourceFact):
            return b""
        return digest_of(msgspec.structs.replace(fact, status={}))

    def deleted(self, raw: Bytes) -> list[Fact]:
        """An object is gone.

        Raises:
            Malformed: its metadata cannot be read.
        """
        who = identity(raw)
        return self._gone((who.namespace, who.name))

    def list_started(self) -> None:
        """A complete list begins: whatever it will not show is gone."""
        self._missing = dict(self.objects)
        self.kept_back = {}  # it shows all of them once more

    def list_done(self) -> list[Fact]:
        """The facts about what vanished unseen, in the order of names."""
        missing, self._missing = self._missing or {}, None
        gone = [fact for key in sorted(missing) for fact in self._gone(key)]
        # Those that no pod has had since before this process started, when nobody said so.
        gone += self._unused(sorted(self.shapes) if self.kind.once == SHAPE else ())
        unread, self._unread_shapes = self._unread_shapes, {}
        return gone + [
            ShapeGone(at=0.0, digest=digest, namespace=namespace)
            for digest, namespace in sorted(unread.items())
            if digest not in self.shapes and not self._pods[digest]
        ]

    def _gone(self, key: Key) -> list[Fact]:
        self.kept_back.pop(key, None)
        last = self._put(key, None)
        if last is None:
            return []
        gone = self.kind.gone(at=0.0, namespace=key[0], name=key[1], uid=last.uid)
        return [gone, *self._unused([last.shape] if last.shape else ())]

    def _unused(self, digests: Iterable[str]) -> list[Fact]:
        """Shapes of these that no pod has: forgotten, so that they are told before the next one that has them."""
        facts: list[Fact] = []
        for digest in digests:
            if not self._pods[digest] and digest in self.shapes:
                namespace, _ = self.shapes.pop(digest)
                facts.append(ShapeGone(at=0.0, digest=digest, namespace=namespace))
        return facts

    def _put(self, key: Key, said: Said | None) -> Said | None:
        """The last word on an object from now on, None when it is gone; the one before."""
        last = self.objects.pop(key, None) if said is None else self.objects.get(key)
        if said is not None:
            self.objects[key] = said
            if said.shape:
                self._pods[said.shape] += 1
        if last is not None and last.shape:
            self._pods[last.shape] -= 1
            if not self._pods[last.shape]:
                del self._pods[last.shape]
        return last

    def _remember(self, fact: ObjectFact, at: float) -> None:
        key = (fact.namespace, fact.name)
        if is_gone(fact):
            self._put(key, None)
        else:
            self._put(key, Said(digest_of(fact), fact.uid, at, _shape_of(fact), self._rest_of(fact)))

    def due(self, before: float, limit: int) -> list[Key]:
        """Objects last said before a log time, oldest first, at most `limit`."""
        return _oldest(self.objects, lambda said: said.at, before, limit)

    def due_shapes(self, before: float, limit: int) -> list[str]:
        """As `due`, for shapes."""
        return _oldest(self.shapes, lambda said: said[1], before, limit)

    def refreshed(self, fact: Fact) -> None:
        """A last word was said again."""
        if isinstance(fact, ShapeObserved | TemplateObserved):
            self.shapes[fact.digest] = (fact.namespace, fact.at)
        elif isinstance(fact, ObjectFact):
            key = (fact.namespace, fact.name)
            if (last := self.objects.get(key)) is not None:
                self.objects[key] = last._replace(at=fact.at)


def _shape_of(fact: Fact) -> str:
    # Read back from the log each pod has a copy of its own.
    return sys.intern(fact.shape) if isinstance(fact, PodObserved) else ""


def is_gone(fact: Fact) -> bool:
    """Whether a fact says that its object is no longer there."""
    return type(fact).__name__.endswith("Gone")


_K = TypeVar("_K")
_V = TypeVar("_V")


def _oldest(entries: dict[_K, _V], at_of: Callable[[_V], float], before: float, limit: int) -> list[_K]:
    due = [(at, key) for key, value in entries.items() if (at := at_of(value)) < before]
    return [key for _, key in sorted(due, key=lambda pair: pair[0])[:limit]]
