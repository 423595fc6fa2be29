"""Time stamps of Kubernetes (RFC 3339) as seconds since the epoch, and back. Pure.

`rfc3339_micro` lies below, with the events: the log writes its schedules with it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from tidewright.events.times import bounded, rfc3339_micro, written

__all__ = [
    "readable",
    "rfc3339",
    "rfc3339_micro",
    "seconds",
    "seconds_if_set",
    "seconds_or_none",
    "typed_seconds",
]


@lru_cache(maxsize=65536)
def seconds(text: str) -> float:
    """Seconds since the epoch of a stamp such as `2026-11-21T12:00:00Z`; fractions are kept.

    Cached: an object's stamps come again with every one of its updates.

    Raises:
        ValueError: the text is no RFC 3339 stamp; the message quotes it.
    """
    stamp = datetime.fromisoformat(text)
    if stamp.tzinfo is None:
        raise ValueError(f"{text!r} is not a time with a zone; valid is for instance 2026-11-21T12:00:00Z")
    return stamp.timestamp()


def seconds_if_set(text: str | None) -> float | None:
    """Seconds since the epoch of a stamp; None for a field that is not set. Raises ValueError as `seconds` does."""
    return None if text is None else seconds(text)


def seconds_or_none(value: object) -> float | None:
    """Seconds since the epoch of a stamp; None for everything else, whatever it is."""
    try:
        return seconds(value) if isinstance(value, str) else None
    except ValueError:
        return None


def typed_seconds(text: str) -> float:
    """Seconds since the epoch of a time that people typed: RFC 3339, the same in UTC without a zone or a time of day,
    or the seconds themselves.

    Raises:
        ValueError: it is none of these.
    """
    try:
        return float(text)
    except ValueError:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def rfc3339(at: float) -> str:
    """Seconds since the epoch as the API server writes them: UTC, whole seconds, rounded down.

    Within the years that can be written, 1 to 9999: a stamp with a zone, or with fractions, may lie beyond them.
    """
    return _whole(int(bounded(at) // 1))


def readable(at: float) -> str:
    """Seconds since the epoch for people: UTC, to the second; `typed_seconds` reads it back."""
    return rfc3339(at).removesuffix("Z").replace("T", " ")


@lru_cache(maxsize=16384)
def _whole(second: int) -> str:
    return written(second, "seconds")
