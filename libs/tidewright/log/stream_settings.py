"""The settings of the log's stream: whether they are as wanted, and what is wrong with another's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.log import subjects

AGED = "tw.aged"
"""Of the stream's metadata: it has, or had, a maximum age, so that its beginning may be gone."""

ADVISED_PAYLOAD, ADVISED_PAYLOAD_BYTES = "8MB", 8 << 20
"""What a server is to take of one message (`max_payload`), as its configuration says it. A fact measures 1 MiB at most; of a
decision or a checkpoint nothing says so."""
CONSUMER_LIMITS = {"inactive_threshold": 60_000_000_000}
"""A consumer that nobody asks for anything is gone after a minute, whatever its maker wanted, nanoseconds: a stream takes a
thousand, and no service may delete those of another that is there no more."""


def has_settings(current: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    """Whether a stream's configuration is as wanted; what is not named is not looked at."""
    present = current.get("metadata") or {}
    return all(
        all(present.get(k) == v for k, v in value.items())
        if key == "metadata"
        else (current.get(key) or 0) == (value or 0)
        for key, value in desired.items()
    )


def mismatch(stream: str, url: str, key: str, current: str | None, desired: str) -> str:
    """What is wrong with a stream that is there, and what to do."""
    where = f"the log at {url} (stream {stream})"
    match key:
        case subjects.CLUSTER_ID:
            return (
                f"{where} is of another cluster: its kube-system has uid {current}, this cluster's has {desired}; "
                "use this cluster's own log, or another name for it with --cluster NAME"
            )
        case "tw.slots":
            return f"{where} was made with {current} slots, which stay for its life: use --slots {current} instead of {desired}, or another log"
    return f"{where} has {key}={current!r} where this software expects {desired!r}: use another log, or the software that made this one"
