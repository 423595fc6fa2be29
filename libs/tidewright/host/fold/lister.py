"""The contract between a service and `tidewright get`: how it puts one of its objects into a row. Pure.

A list is made of last words alone: the last fact about each object, and the last decision on each subject about
it. No state is folded, so a list of ten thousand objects takes as long as reading so many messages. What only the
service knows (which number is the present one, which the wanted one, what holds the next change back) its lister says:

    services/tidewright/<service>/tell/listing.py     LISTER = MyLister()     at most one class
    services/tidewright/asking/services.py            lister="tidewright.<service>.tell.listing:LISTER"

As an explainer (`tidewright.host.fold.explainer`) it is total: what it does not understand gives an emptier row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from tidewright.events.base import Decision, Event
from tidewright.host.fold.explainer import Reference

T = TypeVar("T", bound=Event)


class Words(msgspec.Struct, frozen=True):
    """The last words about one object.

    Attributes:
        asked: the object.
        fact: the last one about it; None where nothing was observed of it.
        decisions: the last one on each subject about it, the latest first.
        context: the last decisions of the service on objects of the kinds in `Lister.context`.
    """

    asked: Reference
    fact: Event | None
    decisions: tuple[Decision, ...] = ()
    context: tuple[Decision, ...] = ()

    def last(self, kind: type[T]) -> T | None:
        """The latest of its decisions of a type."""
        return next((decision for decision in self.decisions if isinstance(decision, kind)), None)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A value as it was measured last, and the marks that it is held against; None where there is none.

    Attributes:
        metric: its name.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """An object in a list.

    Attributes:
        now, wanted: how it is and how it shall be, as short as people write it; the same where nothing is to change.
        why: a few words, without a full stop.
        held_until: log time before which nothing changes, seconds; None where nothing holds it.
        changed_at: log time of its last change, seconds; None when there was none.
        wrong: something is the matter with it that somebody should see to, and `why` says what.
    """

    now: str = ""
    wanted: str = ""
    why: str = ""
    held_until: float | None = None
    changed_at: float | None = None
    wrong: bool = False


class Lister(Protocol):
    """What a service knows to say of its objects in a list."""

    @property
    def context(self) -> frozenset[str]:
        """Kinds of objects whose decisions of this service speak of many of its objects at once."""
        ...

    @property
    def usual(self) -> frozenset[str]:
        """Kinds of most of the objects that are `elsewhere`: what is decided at these may be asked for before they are known."""
        ...

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """Other objects whose last decisions of this service are about the one that a fact is about."""
        ...

    def row(self, words: Words, now: float) -> Row:
        """The row of an object; `now` is the log time that was asked for, seconds: `held_until` alone goes by it."""
        ...

    def measured(self, words: Words) -> Sequence[Measured]:
        """What it is decided by, where that are values between marks: asked for by who shows them, of few objects."""
        ...


def status_of(words: Words) -> Mapping[str, Any]:
    """The status that was last decided on or observed, whichever is later; empty without one."""
    from tidewright.events.decisions import SetStatus

    decided = words.last(SetStatus)
    observed = getattr(words.fact, "status", None) or {}
    if decided is None or (words.fact is not None and words.fact.at >= decided.at and observed):
        return observed if isinstance(observed, Mapping) else {}
    return decided.status


def conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions of a status by type; what is none is left out."""
    entries = status.get("conditions")
    if not isinstance(entries, Iterable):
        return {}
    return {
        str(entry["type"]): entry for entry in entries if isinstance(entry, Mapping) and entry.get("type")
    }


def unwritten(words: Words) -> str:
    """Of an object that nothing is written on yet: whether that is for want of a decision, or because those are held back."""
    if any(decision.shadow for decision in words.decisions):
        return "decided, and held back (shadow)"
    return "decided, and not written yet" if words.decisions else "nothing is decided yet"


def is_true(condition: Mapping[str, Any] | None) -> bool:
    """Whether there is a condition, and its status is `True`."""
    return condition is not None and condition.get("status") == "True"


def said(condition: Mapping[str, Any]) -> str:
    """A condition in a few words: its message, or its reason where it has none."""
    return str(condition.get("message") or condition.get("reason") or "").rstrip(".")
