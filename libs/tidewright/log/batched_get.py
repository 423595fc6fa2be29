"""Many messages in one answer, from the server's subject index: a batched direct get.

Public protocol of the server (2.11 and later) that the client does not wrap. Any replica answers, so a
message of this very instant may be missing; what lies behind is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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


class StoredHeaders(Client):
    """A client that keeps a stored header apart from the server's own of the same name.

    The server adds its headers behind those of the message, and of two of one name the client keeps the
    last. A message that somebody had put back from such an answer would look like any other.
    """

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        """As the client's, which imports all of JetStream's module for the two names of a status: one ends each answer."""
        if not headers or not headers.startswith(_STATUS):
            given: dict[str, str] | None = await super()._process_headers(headers)
            return given
        line, _, rest = headers.removeprefix(_STATUS).partition(b"\r\n")
        status, description = line[:3].strip().decode(), line[4:].decode()
        named = {"Status": status} if status.isdigit() else {}
        if description:
            named["Description"] = description
        return named | self._parse_header_lines(rest)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """As the client's, in less than half of its time: each record that is read has a dozen headers."""
        headers: dict[str, str] = {}
        for line in raw.decode(errors="replace").split("\r\n"):
            name, colon, value = line.partition(":")
            name = name.strip(_SPACE)
            if colon and _is_name(name):
                headers[name] = value.strip(_SPACE)
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
def _is_name(name: str) -> bool:
    """Whether a header may be called so; there are few names, and many messages."""
    return name.isascii() and not any(map(str.isspace, name))


class _Answer:
    """The messages of one answer, as they come."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.pending = 0
        self.ended: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def take(self, message: Msg) -> None:
        headers = message.headers or {}
        # The server names the stream of every message that it has stored, which may have any other header.
        if "Nats-Stream" not in headers:
            if "Status" in headers and not self.ended.done():
                self.ended.set_result(headers)
            return
        twice = belief.TWICE in headers
        kept = {k: v for k, v in headers.items() if k not in _ADDED or (twice and k in belief.PUT_BACK)}
        kept.pop(belief.TWICE, None)
        self.records.append(
            Record(int(headers["Nats-Sequence"]), headers["Nats-Subject"], message.data, kept)
        )


async def ask(log: Log, query: Mapping[str, Any]) -> tuple[list[Record], int]:
    """What one question finds, in the server's order, and how much more there is of it.

    Raises:
        TooMany: more than about a thousand subjects match, and the question is about each of them.
        LogForbidden: these credentials may not ask it: a service's have single messages and consumers.
        LogUnavailable: no answer in time.
    """
    answer, subject = _Answer(), f"$JS.API.DIRECT.GET.{log.stream}"
    log.check_allowed(subject)
    try:
        inbox = log.client.new_inbox()
        subscription = await heeded(log.client.subscribe(inbox, cb=answer.take))
        try:
            await heeded(log.client.publish(subject, msgspec.json.encode(query), reply=inbox))
            while not answer.ended.done():
                count = len(answer.records)
                done, _ = await asyncio.wait([answer.ended], timeout=log.timeout_s)
                if not done and len(answer.records) == count:
                    raise TimeoutError
            headers = answer.ended.result()
        finally:
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
