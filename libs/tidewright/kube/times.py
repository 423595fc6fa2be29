"""Kubernetes' own time stamps (RFC 3339) as seconds since the epoch. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


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


def rfc3339(at: float) -> str:
    """Seconds since the epoch as the API server writes them: UTC, whole seconds, rounded down."""
    return datetime.fromtimestamp(int(at // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(at: float) -> str:
    """Seconds since the epoch with six decimals, as `MicroTime` fields (events) want them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
