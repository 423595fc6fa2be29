"""Many messages in one answer, from the server's subject index: a batched direct get.

Public protocol of the server (2.11 and later) that the client does not wrap. Any replica answers, so a
message of this very instant may be missing; what lies behind is complete.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import nats.errors
from nats.aio.client import Client

from tidewright.log import belief, errors
from tidewright.log.cancellation import heeded
from tidewright.log.reader import Record

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from tidewright.log.connection import Log

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


class Taker(Protocol):
    """Who takes the messages of a subscription as they come off the wire."""

    def take(self, body: bytes, headers: bytes | None) -> None:
        """Take a message; it may not raise."""
        ...


class StoredHeaders(Client):
    """A client that keeps a stored header apart from the server's own of the same name.

    The server adds its headers behind those of the message, and of two of one name the client keeps the
    last. A message that somebody had put back from such an answer would look like any other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.takers: dict[bytes, Taker] = {}
        """Subjects whose messages go past the client's queue: an answer may have ten thousand, and the queue,
        a task that waits at it and a message of the client's take as long as reading them off the wire."""

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        taker = self.takers.get(subject)
        if taker is None:
            await super()._process_msg(sid, subject, reply, data, headers)  # type: ignore[arg-type]  # there may be none
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        taker.take(data, headers)

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        """As the client's, which imports all of JetStream's module for the two names of a status: one ends each answer."""
        if headers and headers.startswith(_STATUS):
            return self._with_status(headers)
        given: dict[str, str] | None = await super()._process_headers(headers)
        return given

    @classmethod
    def _with_status(cls, headers: bytes) -> dict[str, str]:
        line, _, rest = headers.removeprefix(_STATUS).partition(b"\r\n")
        status, description = line[:3].strip().decode(), line[4:].decode()
        named = {"Status": status} if status.isdigit() else {}
        if description:
            named["Description"] = description
        return named | cls._parse_header_lines(rest)

    @classmethod
    def read(cls, headers: bytes) -> dict[str, str]:
        """Headers as they come off the wire, by name."""
        if headers.startswith(_STATUS):
            return cls._with_status(headers)
        return cls._parse_header_lines(headers.removeprefix(_STORED))

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """As the client's, in less than half of its time: each record that is read has a dozen headers."""
        headers: dict[str, str] = {}
        for line in raw.decode(errors="replace").split("\r\n"):
            name, colon, value = line.partition(":")
            if colon and (known := _name(name)) is not None:
                headers[known] = value.strip(_SPACE)
        if raw.count(_MARK) > 1:
            headers[belief.TWICE] = "yes"
        return headers

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        """As the client's, which reads nothing any more once a subject is not UTF-8: the server takes any bytes."""
        named = subject if subject.isascii() else subject.decode(errors="replace").encode()
        message: Msg = super()._build_message(sid, named, reply, data, headers)
        return message


_MARK, _STATUS = b"Nats-Sequence:", b"NATS/1.0 "
_SPACE = " \t\n\r\v\f"
"""What bytes take for white space."""


@lru_cache(maxsize=256)
def _name(written: str) -> str | None:
    """A header's name as it is written; None for what may not be one. There are few names, and many messages."""
    name = written.strip(_SPACE)
    return name if name.isascii() and not any(map(str.isspace, name)) else None


_STORED = b"NATS/1.0\r\n"
_SERVERS = re.compile(
    rb"\r\nNats-Stream: [^\r\n]*\r\nNats-Subject: ([^\r\n]*)\r\nNats-Sequence: ([0-9]{1,19})\r\n"
    rb"(?:(?:Nats-Time-Stamp|Nats-Num-Pending|Nats-Last-Sequence): [^\r\n]*\r\n)*\r\n\Z"
)
"""What the server adds to a message that it answers with."""


def record_of(body: bytes, headers: Mapping[str, str]) -> Record | None:
    """A message of an answer without what the server has added; None for what is no message of a stream."""
    # The server names the stream of every message that it has stored, which may have any other header.
    sequence = headers.get("Nats-Sequence", "")
    if "Nats-Stream" not in headers or "Nats-Subject" not in headers or not sequence.isdecimal():
        return None
    twice = belief.TWICE in headers
    kept = {k: v for k, v in headers.items() if k not in _ADDED or (twice and k in belief.PUT_BACK)}
    kept.pop(belief.TWICE, None)
    return Record(int(sequence), headers["Nats-Subject"], body, kept)


def usual_record_of(body: bytes, headers: bytes) -> Record | None:
    """The same of headers as they come, where they are as the server usually writes them; None where they are otherwise."""
    if not headers.startswith(_STORED) or headers.count(_MARK) != 1:
        return None
    added = _SERVERS.match(headers, headers.rfind(b"\r\nNats-Stream:"))
    if added is None:
        return None
    kept = StoredHeaders.read(headers[: added.start() + 2])
    if not _ADDED.isdisjoint(kept):
        return None
    return Record(int(added[2]), added[1].decode(errors="replace").strip(_SPACE), body, kept)


class _Answer:
    """The messages of one answer, as they come."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.ended: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    def take(self, body: bytes, headers: bytes | None) -> None:
        if not headers:
            return
        record = usual_record_of(body, headers)
        if record is None:
            named = StoredHeaders.read(headers)
            record = record_of(body, named)
            if record is None and "Nats-Stream" not in named and "Status" in named and not self.ended.done():
                self.ended.set_result(named)
        if record is not None:
            self.records.append(record)


async def ask(log: Log, query: Mapping[str, Any]) -> tuple[list[Record], int]:
    """What one question finds, in the server's order, and how much more there is of it.

    Raises:
        TooMany: more than about a thousand subjects match, and the question is about each of them.
        LogForbidden: these credentials may not ask it: a service's have single messages and consumers.
        LogUnavailable: no answer in time.
    """
    answer, subject = _Answer(), f"$JS.API.DIRECT.GET.{log.stream}"
    log.check_allowed(subject)
    client = log.client
    try:
        inbox = client.new_inbox()
        subscription = await heeded(client.subscribe(inbox))
        try:
            client.takers[inbox.encode()] = answer
            await heeded(client.publish(subject, msgspec.json.encode(query), reply=inbox))
            while not answer.ended.done():
                count = len(answer.records)
                done, _ = await asyncio.wait([answer.ended], timeout=log.timeout_s)
                if not done and len(answer.records) == count:
                    raise TimeoutError
            headers = answer.ended.result()
        finally:
            client.takers.pop(inbox.encode(), None)
            await subscription.unsubscribe()
    except (nats.errors.Error, OSError, TimeoutError) as error:
        log.check_allowed(subject)
        raise errors.LogUnavailable(
            f"stream {log.stream} did not answer in {log.timeout_s:g} s ({str(error) or type(error).__name__})"
        ) from error
    match headers["Status"]:
        case "204":  # the end of the answer
            return answer.records, int(headers.get("Nats-Num-Pending") or 0)
        case "404":  # nothing at all
            return [], 0
        case "413":
            raise TooMany("more subjects match than the server answers at once")
    raise errors.LogUnavailable(
        f"stream {log.stream} does not answer: {headers.get('Description', headers['Status'])}"
    )
