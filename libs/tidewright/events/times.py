"""Times as text, as schedules of the log and Kubernetes both take them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal

FIRST: Final = -62_135_596_800.0
"""Seconds since the epoch of the first moment that RFC 3339 can write and a calendar has: the year 1."""
LAST: Final = 253_402_300_799.0
"""Of the last whole second: the year 9999."""


def bounded(at: float) -> float:
    """Seconds since the epoch within the years 1 to 9999."""
    return min(max(at, FIRST), LAST)


def rfc3339_micro(at: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC with six decimals, within the years 1 to 9999."""
    return written(bounded(at), "microseconds")


def written(at: float, to: Literal["seconds", "microseconds"]) -> str:
    """Seconds since the epoch, of a bounded time, as RFC 3339 in UTC, cut to whole seconds or to microseconds."""
    # Not strftime, which writes a year before 1000 with fewer digits.
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(timespec=to) + "Z"
