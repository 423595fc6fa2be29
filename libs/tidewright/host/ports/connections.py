"""Connections to a port of ours, bounded in number and in the time that a caller may take.

A caller that sends no request, or half of one, is hung up on; when there are too many, the
connection that has waited longest makes room for the one that comes, so that a probe always gets in.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from functools import partial
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler

AT_ONCE = 512
HEAD_S = 10.0
"""From the connection to the end of a request's head; aiohttp waits for a first one for an hour."""
KEEP_ALIVE_S = 75.0
"""Between two requests."""
REQUEST_S = 60.0
"""From a request's head until its answer was taken: one who does not read it holds no memory of ours."""
LINGERING_S = 1.0
"""How long the rest of a body that was refused is still read."""
EVERYWHERE: Final = "::"
"""Stands for every address of this machine, of IPv4 and of IPv6, whichever of the two it has."""


class _Connection(asyncio.Protocol):
    """Stands before the protocol that serves a connection, and watches the clock."""

    def __init__(self, inner: asyncio.Protocol, bounds: Bounds) -> None:
        self.working = False
        self._inner = inner
        self._bounds = bounds
        self._transport: asyncio.Transport | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # of a TCP server; uvloop's is no subclass
        self._inner.connection_made(transport)
        self.wait(self._bounds.head_s)
        self._bounds.opened(self)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._bounds.closed(self)
        self._inner.connection_lost(exc)

    def wait(self, seconds: float, *, working: bool = False) -> None:
        """Hang up after so long, unless something else is said by then."""
        self.working = working
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(seconds, self.hang_up)

    def hang_up(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()


class Bounds:
    """Of all connections to one port."""

    def __init__(
        self, *, at_once: int = AT_ONCE, head_s: float = HEAD_S, keep_alive_s: float = KEEP_ALIVE_S,
        request_s: float = REQUEST_S,
    ) -> None:  # fmt: skip
        """`at_once` connections; the rest in wall seconds, see the constants."""
        self.head_s = head_s
        self._at_once = at_once
        self._keep_alive_s = keep_alive_s
        self._request_s = request_s
        self._open: dict[_Connection, None] = {}  # those that wait longest first

    def opened(self, connection: _Connection) -> None:
        """Count one more, which may end another."""
        if len(self._open) >= self._at_once:
            waiting = (other for other in self._open if not other.working)
            longest = next(waiting, None) or next(iter(self._open))
            del self._open[longest]
            longest.hang_up()
        self._open[connection] = None

    def closed(self, connection: _Connection) -> None:
        """It is no more."""
        self._open.pop(connection, None)

    def guarded(self, server: web.Server) -> asyncio.Protocol:
        """A protocol for one more connection."""
        return _Connection(server(), self)

    @property
    def middleware(self) -> Any:
        """To be the outermost of the application: says when a request begins and ends."""

        @web.middleware
        async def within(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = None if request.transport is None else request.transport.get_protocol()
            if not isinstance(connection, _Connection):
                return await handler(request)
            connection.wait(self._request_s, working=True)
            try:
                return await handler(request)
            finally:
                # What is left is to send the answer.
                connection.wait(self._keep_alive_s)
                if connection in self._open:
                    del self._open[connection]
                    self._open[connection] = None

        return within


class Site(web.BaseSite):
    """An address on which an application is served within bounds."""

    def __init__(
        self, runner: web.BaseRunner, host: str, port: int, bounds: Bounds,
        *, ssl_context: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        super().__init__(runner, ssl_context=ssl_context)
        self._host, self._port, self._bounds = host, port, bounds

    @property
    def name(self) -> str:
        scheme = "https" if self._ssl_context else "http"
        return f"{scheme}://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen; at `EVERYWHERE` to callers of both families.

        Raises:
            OSError: the address cannot be had.
        """
        await super().start()
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner is not set up")
        listen = partial(
            asyncio.get_running_loop().create_server,
            lambda: self._bounds.guarded(server),
            ssl=self._ssl_context,
            ssl_handshake_timeout=HEAD_S if self._ssl_context else None,
            backlog=self._backlog,
        )
        if self._host == EVERYWHERE:
            self._server = await listen(sock=_everywhere(self._port))
        else:
            self._server = await listen(host=self._host, port=self._port)


def _everywhere(port: int) -> socket.socket:
    """A socket for both families, or for IPv4 where the machine has nothing else: asyncio's own of `::` would be IPv6's alone."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server((EVERYWHERE, port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return socket.create_server(("", port))
