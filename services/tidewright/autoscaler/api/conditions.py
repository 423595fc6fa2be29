"""The conditions of an object as they are kept (section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import msgspec

from tidewright.kube.conditions import find


class Condition(msgspec.Struct, omit_defaults=True):
    """One condition. `since` is its last change of status, seconds."""

    type: str
    status: bool
    since: float
    reason: str = ""
    message: str = ""


class Setting(NamedTuple):
    """A condition as a pass wants it."""

    type: str
    status: bool
    reason: str
    message: str


class Change(IntEnum):
    """How much of a status is another than before, at most."""

    NONE = 0
    TEXT = 1
    REASON = 2
    STATUS = 3


def true_since(conditions: Iterable[Condition], type_: str) -> float | None:
    """Since when a condition has been true; None when it is not, or not there."""
    condition = find(conditions, type_)
    return condition.since if condition is not None and condition.status else None
