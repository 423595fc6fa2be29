"""The way in: connections, and the requests on them that need nothing but an answer.

Most requests are whole and simple: a method, a path, a body of known length. These are taken apart here and
answered at once, in the order in which they come. Whatever else HTTP can do (streams, chunked bodies,
upgrades, HTTP/1.0, malformed requests, paths that belong to others) is aiohttp's: the connection is handed
over to it with what has not been answered yet, and stays there.

A simple request costs a third of what it costs by way of aiohttp, and most of the work of this server is
simple requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from tidewright.sim.api.http.answers import Answer, Headers
from tidewright.sim.api.http.streams import Stream

_METHODS = frozenset({b"GET", b"POST", b"PUT", b"PATCH", b"DELETE"})
_END = b"\r\n\r\n"
_MAX_HEAD_BYTES = 32 * 1024
_UNUSUAL = frozenset({"transfer-encoding", "expect", "upgrade"})
_REASONS = {status.value: status.phrase for status in HTTPStatus}

Handle = Callable[[str, str, Headers, bytes], Coroutine[Any, Any, Answer]]
Simple = Callable[[str, str], bool]


class Front(asyncio.Protocol):
    """One connection.

    Args:
        handle: answers one request: method, target, headers, body.
        simple: whether a request (method, target) is one that `handle` is for.
        other: makes the protocol that the connection is handed over to.
        max_body_bytes: a larger body is not read here.
        in_task: whether work has to begin inside a task, because it may ask others over the network.
        connections: the open connections of the server; this one is in it while it is here.
    """

    def __init__(
        self,
        handle: Handle,
        simple: Simple,
        other: Callable[[], asyncio.Protocol],
        *,
        max_body_bytes: int,
        in_task: Callable[[], bool],
        connections: set[Front],
    ) -> None:
        self._handle = handle
        self._simple = simple
        self._other = other
        self._max_body_bytes = max_body_bytes
        self._in_task = in_task
        self._connections = connections
        self._transport: Any = None  # uvloop's transports are no subclass of asyncio's
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._paused = False
        self._ended = False
        self._stream: Stream | None = None

    # -- the connection -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self._connections.discard(self)
        self._ended = True
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.lost()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._go_on()

    def abort(self) -> None:
        """Cut the connection, whatever is being asked."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection when what is asked has been answered."""
        self._ended = True
        if self._task is None and self._stream is None and self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        self._go_on()

    # -- requests -----------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Answer what has come, until a request is not whole or its answer takes time."""
        while (
            self._buffer
            and self._task is None
            and self._stream is None
            and not self._paused
            and not self._ended
        ):
            buffer = self._buffer
            end = buffer.find(_END)
            if end < 0:
                if len(buffer) > _MAX_HEAD_BYTES:
                    self._hand_over()
                return
            head = _head(buffer[:end])
            if head is None:
                self._hand_over()
                return
            method, target, headers = head
            length = _length(headers)
            if (
                length is None
                or length > self._max_body_bytes
                or not _UNUSUAL.isdisjoint(headers)
                or headers.get("connection", "keep-alive").lower() != "keep-alive"
                or not self._simple(method, target)
            ):
                self._hand_over()
                return
            stop = end + 4 + length
            if len(buffer) < stop:
                return
            self._buffer = buffer[stop:]
            self._answer(self._handle(method, target, headers, buffer[end + 4 : stop]))

    def _hand_over(self) -> None:
        transport, rest = self._transport, self._buffer
        self._connections.discard(self)
        self._ended, self._buffer = True, b""
        protocol = self._other()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(rest)

    def _answer(self, work: Coroutine[Any, Any, Answer]) -> None:
        """Run the work; mostly it is done at once, and needs no task."""
        if self._in_task():
            self._task = asyncio.get_running_loop().create_task(self._later(work))
            return
        try:
            waits_for = work.send(None)
        except StopIteration as done:
            self._write(done.value)
            return
        self._task = asyncio.get_running_loop().create_task(self._later(_Begun(work, waits_for)))

    async def _later(self, work: Awaitable[Answer]) -> None:
        try:
            self._write(await work)
        finally:
            self._task = None
        if self._stream is not None:
            return
        if self._ended:
            self._transport.close()
        else:
            self._go_on()

    def _write(self, answer: Answer) -> None:
        if answer.dropped:
            self._ended = True
            self._transport.abort()
            return
        if self._transport.is_closing():
            if answer.stream is not None:
                answer.stream.lost()
            return
        body = answer.body
        lines = [f"HTTP/1.1 {answer.code} {_REASONS.get(answer.code, 'Unknown')}"]
        lines.append(f"Date: {_date(int(time.time()))}")
        lines += [f"{name}: {value}" for name, value in answer.headers]
        if answer.stream is not None:
            lines.append("Transfer-Encoding: chunked\r\n\r\n")
            self._transport.write("\r\n".join(lines).encode("utf-8", "replace"))
            self._stream = answer.stream
            answer.stream.begin(self._transport, self._stream_ended)
            return
        lines.append(f"Content-Length: {len(body)}\r\n\r\n")
        self._transport.write("\r\n".join(lines).encode("utf-8", "replace") + body)

    def _stream_ended(self) -> None:
        self._stream = None
        if self._ended:
            self._transport.close()
        else:
            asyncio.get_running_loop().call_soon(self._go_on)


class _Begun(Awaitable[Answer]):
    """Work that was begun outside a task, and what it waits for: goes on inside one."""

    def __init__(self, work: Coroutine[Any, Any, Answer], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Answer]:
        try:
            yield self._waits_for
        except BaseException as error:  # noqa: BLE001  # thrown in here, it is the work's to deal with
            failure: BaseException | None = error
        else:
            failure = None
        while True:
            try:
                waits_for = self._work.send(None) if failure is None else self._work.throw(failure)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]  # what the coroutine returns
            failure = None
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001  # as above
                failure = error


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


def _head(text: bytes) -> tuple[str, str, Headers] | None:
    """Method, target and headers; None for what is not plainly HTTP/1.1."""
    lines = text.split(b"\r\n")
    first = lines[0].split(b" ")
    if (
        len(first) != 3
        or first[0] not in _METHODS
        or first[2] != b"HTTP/1.1"
        or not first[1].startswith(b"/")
    ):
        return None
    headers = Headers()
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            return None
        key = name.decode("latin-1").lower()
        if key in headers and key == "content-length":
            return None
        headers.setdefault(key, value.strip().decode("utf-8", "surrogateescape"))
    try:
        return first[0].decode(), first[1].decode("ascii"), headers
    except UnicodeDecodeError:
        return None


def _length(headers: Headers) -> int | None:
    """The length of the body; None when it cannot be told."""
    text = headers.get("content-length")
    if text is None:
        return 0
    return int(text) if text.isascii() and text.isdigit() else None
