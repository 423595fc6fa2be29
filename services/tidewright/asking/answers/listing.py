"""Lists of what is decided on."""

from __future__ import annotations

import msgspec

from tidewright.asking.answers.form import Answer


class ListedKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind that is decided on.

    Attributes:
        services: who decides on objects of the kind.
        objects: how many there are; of kinds that others look after (pods, nodes): how many were decided on.
    """

    kind: str
    services: tuple[str, ...]
    objects: int


class KindList(Answer, frozen=True, kw_only=True):
    """Answer to `get`: the kinds that are decided on."""

    items: tuple[ListedKind, ...]


class MeasuredValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value as it was measured last, and the watermarks that it is held against; null where there is none."""

    metric: str
    value: float | None
    low_watermark: float | None
    high_watermark: float | None


class ListedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object in a list.

    Attributes:
        service: who decides on it.
        now, wanted: how it is and how it shall be; the same where nothing is to change.
        why: a few words.
        held_until: the time before which nothing changes; null where nothing holds it.
        last_change: when it last changed; null when it never did.
        last_decision: id of the last decision about it; empty when there was none.
        wrong: something is the matter with it that somebody should see to; `why` says what.
        measured: what it is decided by, where that is a value between watermarks.
    """

    kind: str
    namespace: str
    name: str
    service: str
    now: str
    wanted: str
    why: str
    held_until: str | None = None
    last_change: str | None = None
    last_decision: str = ""
    wrong: bool = False
    measured: tuple[MeasuredValue, ...] = ()


class ObjectList(Answer, frozen=True, kw_only=True):
    """Answer to `get KIND`: its objects, by namespace and name."""

    kind: str
    items: tuple[ListedObject, ...]
