"""The form of every answer: what it says of itself, its times, and how JSON and YAML are made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec


def stamp(at: float) -> str:
    """Seconds since the epoch as answers say times; empty for a time that no calendar has."""
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def stamp_if_set(at: float | None) -> str | None:
    """The same; None for none."""
    return None if at is None else stamp(at)


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every answer says of itself.

    Attributes:
        log: the log that was asked, for people.
        sequence: the last sequence that the answer speaks of.
        at: the log time that it speaks of.
    """

    log: str
    sequence: int
    at: str


def builtins(answer: Any) -> Any:
    """An answer as JSON and YAML are made of it."""
    return msgspec.to_builtins(answer)
