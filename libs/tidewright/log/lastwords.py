"""The last message of subjects as of an earlier sequence, from the server's subject index.

A batched direct get: public protocol of the server (2.11 and later) that the client does not wrap.
Any replica answers, so a message of this very instant may be missing; what lies behind is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import nats.errors

from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.reader import Record

AT_ONCE = 1000
"""Subjects in one request; the server refuses to find more than 1,024."""
_ADDED = frozenset(
    (
        "Nats-Stream",
        "Nats-Subject",
        "Nats-Sequence",
        "Nats-Time-Stamp",
        "Nats-Num-Pending",
        "Nats-Last-Sequence",
    )
)


class TooMany(errors.LogError):
    """The filters match more subjects than the server answers at once."""

    reason = "TooMany"


async def last_words(log: Log, filters: Sequence[str], *, up_to: int = 0) -> list[Record]:
    """The last message at or before sequence `up_to` (0: at all) of every subject that matches, in stream order.

    Raises:
        TooMany: more than about a thousand subjects match: name them more narrowly.
        LogUnavailable: no answer in time.
    """
    found: list[Record] = []
    for start in range(0, len(filters), AT_ONCE):
        found += await _asked(log, filters[start : start + AT_ONCE], up_to)
    return sorted(found, key=lambda record: record.seq)


async def _asked(log: Log, filters: Sequence[str], up_to: int) -> list[Record]:
    query: dict[str, Any] = {"multi_last": list(filters)} | ({"up_to_seq": up_to} if up_to else {})
    inbox = log.client.new_inbox()
    found: list[Record] = []
    try:
        subscription = await log.client.subscribe(inbox)
        try:
            subject = f"$JS.API.DIRECT.GET.{log.stream}"
            await log.client.publish(subject, msgspec.json.encode(query), reply=inbox)
            while True:
                async with asyncio.timeout(log.timeout_s):
                    message = await subscription.next_msg(timeout=None)
                headers = dict(message.headers or {})
                status = headers.get("Status")
                if status is None:
                    seq, name = int(headers["Nats-Sequence"]), headers["Nats-Subject"]
                    kept = {key: value for key, value in headers.items() if key not in _ADDED}
                    found.append(Record(seq, name, message.data, kept))
                elif status in ("204", "404"):  # the end of the answer, or nothing at all
                    return found
                elif status == "413":
                    raise TooMany(
                        f"{', '.join(filters)}: more subjects match than the server answers at once"
                    )
                else:
                    raise errors.LogUnavailable(
                        f"stream {log.stream} does not answer: {headers.get('Description', status)}"
                    )
        finally:
            await subscription.unsubscribe()
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise errors.LogUnavailable(
            f"stream {log.stream} did not answer in {log.timeout_s:g} s ({str(error) or type(error).__name__})"
        ) from error
