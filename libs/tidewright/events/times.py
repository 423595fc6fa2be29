"""Times as text, to the microsecond: what schedules of the log and `MicroTime` fields of Kubernetes both take. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

FIRST: Final = -62_135_596_800.0
"""Seconds since the epoch of the first moment that RFC 3339 can write and a calendar has: the year 1."""
LAST: Final = 253_402_300_799.0
"""Of the last whole second: the year 9999."""


def rfc3339_micro(at: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC with six decimals, within the years 1 to 9999."""
    # Not strftime, which writes a year before 1000 with fewer digits.
    stamp = datetime.fromtimestamp(min(max(at, FIRST), LAST), UTC)
    return stamp.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
