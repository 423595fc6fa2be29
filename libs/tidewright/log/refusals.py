"""What the server's refusals are called here: its error codes, as errors of the log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.log import errors
from tidewright.log.identity import shown

CONFLICTS = frozenset({10071, 10164})
FULL = frozenset({10002, 10023, 10047, 10122})
_UNANSWERED = frozenset({10176, 10210, 10008, 10009})
"""Batch abandoned, too many open batches, cluster without a leader: none of them stored anything."""
NOT_FOUND = 10059
NO_MESSAGE = 10037
OTHER_STREAM = 10060
"""The message is for a stream of another name, as it says itself."""
_CONSUMERS = 10026


def leaderless(error: Mapping[str, Any]) -> bool:
    """Whether an answer's `error` says that the servers have no leader at the moment, or are too busy to ask one."""
    return error.get("err_code") in _UNANSWERED or error.get("code") == 503


def refusal(error: Mapping[str, Any], what: str, url: str) -> errors.LogError:
    """What an answer's `error` is to who asked the server at `url` for something: `what`."""
    code, text = error.get("err_code"), error.get("description", "")
    if code in CONFLICTS:
        return errors.Conflict(f"{what}: {text}")
    if code in FULL:
        return errors.StoreFull(
            f"{what}: the store of nats-server at {shown(url)} is full ({text}): enlarge it or shorten max_age; nothing was dropped"
        )
    if code == NOT_FOUND:
        return errors.LogUnavailable(f"{what}: there is no such stream")
    if leaderless(error):
        return errors.LogUnavailable(f"{what}: {text} ({code})")
    if code == _CONSUMERS:
        return errors.NoConsumer(f"{what}: {text} ({code})")
    return errors.AppendRefused(f"{what}: {text} ({code})")
