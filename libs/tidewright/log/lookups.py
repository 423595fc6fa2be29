"""Single messages, asked of a stream's leader: only those that are believed.

What is not believed is passed over as if it were not there: the last message of a subject is then the
last believed one before it, the first from a sequence on is the first believed one behind it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidewright.log import belief, errors
from tidewright.log.reader import Record, parse_headers
from tidewright.log.verdicts import Later, Verdict

if TYPE_CHECKING:
    from tidewright.log.connection import Log

FIRST_SPAN = 16
"""Sequences that are looked through first behind a message that is not believed; each next span is `WIDER` times as long."""
WIDER = 4
AT_MOST = 10_000
"""Messages of a subject that are looked at for one that is believed. Beyond that, nothing is said about it."""


class Lookups:
    """Look-ups of one connection."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def last(self, subject: str, stream: str = "") -> Record | None:
        """The last message of a subject that is believed; None when there is none.

        Raises:
            Unbelieved: so many messages that are not believed lie on it that the search was given up.
        """
        record = await self.stored({"last_by_subj": subject}, stream)
        if record is None or await self.believed(record, stream):
            return record
        return await self.before(subject, record.seq, stream)

    async def at(self, seq: int, stream: str = "") -> Record | None:
        """The message at a sequence; None when it is gone, or not believed."""
        record = await self.stored({"seq": seq}, stream)
        return record if record is not None and await self.believed(record, stream) else None

    async def first(self, pattern: str, seq: int, stream: str = "") -> Record | None:
        """The first message at or after a sequence that matches and is believed.

        Raises:
            Unbelieved: as `last`.
        """
        for _ in range(AT_MOST):
            record = await self.stored({"seq": seq, "next_by_subj": pattern}, stream)
            if record is None or await self.believed(record, stream):
                return record
            seq = record.seq + 1
        raise _given_up(pattern)

    async def before(self, subject: str, seq: int, stream: str = "") -> Record | None:
        """The last message of a subject before a sequence that is believed; None when there is none.

        The server finds the next message of a subject and not the one before, so spans that lie
        further and further back are read from their beginnings.

        Raises:
            Unbelieved: as `last`.
        """
        high, span, looked_at = seq, FIRST_SPAN, 0
        while high > 1:
            low = max(1, high - span)
            latest: Record | None = None
            record = await self.stored({"seq": low, "next_by_subj": subject}, stream)
            while record is not None and record.seq < high:
                looked_at += 1
                if looked_at > AT_MOST:
                    raise _given_up(subject)
                if await self.believed(record, stream):
                    latest = record
                record = await self.stored({"seq": record.seq + 1, "next_by_subj": subject}, stream)
            if latest is not None:
                return latest
            high, span = low, span * WIDER
        return None

    async def believed(self, record: Record, stream: str = "") -> bool:
        """Whether a message as it is stored is believed; one that is not is counted."""
        verdict: Verdict = self.marked(record)
        trust = self._log.trust
        if verdict is None and trust is not None and stream in ("", self._log.stream):
            [verdict] = await trust.judge([record])
        if verdict is not None and not isinstance(verdict, Later):
            self._log.doubts.tell(verdict, stream or self._log.stream, record.seq, record.subject)
        return verdict is None

    def marked(self, record: Record) -> belief.Cause | None:
        """What speaks against a message in its headers alone, whoever signed it."""
        return belief.refused(self._log.subjects, record.subject, record.headers)

    async def bounds(self) -> tuple[int, int]:
        """First and last sequence of the log."""
        return await self._log.bounds()

    async def stored(self, query: Mapping[str, Any], stream: str = "") -> Record | None:
        """One message as it is stored, whoever put it there; None when there is none.

        A stream that is not there, other than the log's own, has none. `query` is one of `{"seq": n}`,
        `{"last_by_subj": subject}`, `{"seq": n, "next_by_subj": filter}`.
        """
        answer = await self._log.asked(f"STREAM.MSG.GET.{stream or self._log.stream}", query, stream)
        if answer is None:
            return None
        message = answer["message"]
        raw = base64.b64decode(message["hdrs"]) if "hdrs" in message else b""
        return Record(
            seq=int(message["seq"]),
            subject=message["subject"],
            body=base64.b64decode(message.get("data", "")),
            headers=parse_headers(raw),
        )


def _given_up(subject: str) -> errors.Unbelieved:
    return errors.Unbelieved(
        f"none of {AT_MOST} messages on {subject} is believed, and what lies behind them was not looked at: "
        "find out who can publish there, then export what is believed (`tidewright export`) into a new log"
    )
