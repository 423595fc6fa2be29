"""Times as text, to the microsecond: what schedules of the log and `MicroTime` fields of Kubernetes both take. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339_micro(at: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC with six decimals."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
