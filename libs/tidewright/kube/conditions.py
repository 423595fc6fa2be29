"""Conditions of Kubernetes objects: set, found, read and written, once for all that have some. Pure.

A condition's transition time is since when its *status* has been as it is: reason and message may change meanwhile.

transition       since when a condition has its status
with_condition   conditions with one set, in the order in which they were first set
find, is_true    one by its type; by_type: all, as a stored status has them
entry, render    as the API has them; parse: back
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from tidewright.events.base import JsonObject
from tidewright.kube.times import rfc3339, seconds_or_none

REASON_REQUIRED = "Unknown"
"""Stands where a condition has no reason: the API server refuses an empty one."""


class Typed(Protocol):
    """Whatever has a condition's type."""

    @property
    def type(self) -> str: ...


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition; `changed_at` is its last transition, in seconds since the epoch."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    changed_at: float = 0.0
    observed_generation: int = 0


C = TypeVar("C", bound=Typed)
T = TypeVar("T")


def transition(before: tuple[object, T] | None, status: object, now: T) -> T:
    """Since when a condition has its status.

    Args:
        before: its status until now and since when it had that; None where it was not there.
        status: the one that it has now.
        now: becomes the transition time when that is another.
    """
    return before[1] if before is not None and before[0] == status else now


def find(conditions: Iterable[C], type_: str) -> C | None:
    """The condition of a type; None where there is none."""
    for condition in conditions:
        if condition.type == type_:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether there is a condition of a type, and its status is True."""
    condition = find(conditions, type_)
    return condition is not None and condition.status == "True"


def with_condition(
    conditions: Sequence[Condition], new: Condition, now: float, *, refresh: bool = False, generation: int = 0
) -> tuple[Condition, ...]:
    """The conditions with one set: where it stood, or else as the last one. All others stay as they are.

    Args:
        conditions: as they are.
        new: what is set; its `changed_at` is ignored.
        now: becomes the transition time when the status changes, in whole seconds as the API keeps it.
        refresh: take `now` even when the status does not change.
        generation: of the object that this speaks about.
    """
    old = find(conditions, new.type)
    before = None if old is None or refresh else (old.status, old.changed_at)
    changed_at = transition(before, new.status, float(int(now)))
    condition = msgspec.structs.replace(new, changed_at=changed_at, observed_generation=generation)
    if old is None:
        return (*conditions, condition)
    return tuple(condition if c.type == new.type else c for c in conditions)


def by_type(stored: Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Conditions as a stored status has them, by their types; of two of one type the last."""
    return {condition["type"]: condition for condition in stored}


def entry(
    type_: str,
    status: str | bool,
    changed_at: float | str,
    *,
    reason: str = "",
    message: str | None = None,
    generation: int = 0,
) -> JsonObject:
    """One condition as the API has it; what is not given is left out.

    Args:
        type_: its type.
        status: `True`, `False` or `Unknown`.
        changed_at: its transition time: seconds since the epoch, or a stamp.
        reason: one word; empty for none.
        message: for people.
        generation: of the object that it speaks about, 0 for none.
    """
    written: JsonObject = {
        "type": type_,
        "status": status if isinstance(status, str) else "True" if status else "False",
        "lastTransitionTime": changed_at if isinstance(changed_at, str) else rfc3339(changed_at),
    }
    if reason:
        written["reason"] = reason
    if message is not None:
        written["message"] = message
    if generation:
        written["observedGeneration"] = generation
    return written


def render(conditions: Iterable[Condition]) -> list[JsonObject]:
    """Conditions as the API has them."""
    return [
        entry(
            c.type,
            c.status,
            c.changed_at,
            reason=c.reason or REASON_REQUIRED,
            message=c.message,
            generation=c.observed_generation,
        )
        for c in conditions
    ]


def parse(stored: Any) -> tuple[Condition, ...]:
    """Conditions as a stored status has them; what is no condition is left out."""
    if not isinstance(stored, list):
        return ()
    return tuple(
        Condition(
            type=c["type"],
            status=str(c.get("status", "Unknown")),
            reason=str(c.get("reason") or ""),
            message=str(c.get("message") or ""),
            changed_at=seconds_or_none(c.get("lastTransitionTime")) or 0.0,
            observed_generation=g if isinstance(g := c.get("observedGeneration"), int) else 0,
        )
        for c in stored
        if isinstance(c, Mapping) and isinstance(c.get("type"), str)
    )
