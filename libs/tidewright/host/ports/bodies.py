"""Bodies of requests, read within bounds that slow senders cannot use up.

However many bodies arrive slowly, a quick one is read: when too many are on their way, or hold too
much memory together, the one that began first is given up for the one that comes. So nobody who
answers bodies counts those that are still on their way among what is being worked on.
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

AT_ONCE = 256
"""Bodies that are on their way together."""
TOTAL_BYTES = 64 * 2**20
"""What they may take together."""


class BadBody(ValueError):
    """A body that is not read to its end; the message says why.

    Attributes:
        status: HTTP status that says so: 408, 413, or 503 where it had to make room.
    """

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class _OnItsWay:
    def __init__(self, until: asyncio.Timeout) -> None:
        self.until = until
        self.content = bytearray()
        self.made_room = False


class Bodies:
    """Reads the bodies of one endpoint."""

    def __init__(
        self,
        *,
        max_bytes: int,
        within_s: float,
        at_once: int = AT_ONCE,
        total_bytes: int = TOTAL_BYTES,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Set the bounds.

        Args:
            max_bytes: of one body.
            within_s: from its first byte to its last, wall seconds.
            at_once: bodies on their way together.
            total_bytes: what they hold together.
            registry: gets the counter of what was refused.
        """
        self.max_bytes = max_bytes
        self.within_s = within_s
        self._at_once = at_once
        self._total_bytes = total_bytes
        self._held = 0
        self._on_their_way: dict[_OnItsWay, None] = {}  # in the order in which they began
        self._refused = Counter(
            "tidewright_request_bodies_refused_total",
            "Bodies of requests that were not read: too long, too slow, or given up for others (room).",
            ["why"],
            registry=registry,
        )

    async def read(self, request: web.BaseRequest) -> bytes:
        """The whole body of a request.

        Raises:
            BadBody: it is too long or too slow, or had to make room for others.
        """
        if (request.content_length or 0) > self.max_bytes:
            raise self._too_long(f"is {request.content_length} bytes, at most {self.max_bytes}")
        try:
            async with asyncio.timeout(self.within_s) as until:
                body = _OnItsWay(until)
                if len(self._on_their_way) >= self._at_once:
                    self._make_room()
                self._on_their_way[body] = None
                try:
                    return await self._content(body, request)
                finally:
                    self._held -= len(body.content)
                    self._on_their_way.pop(body, None)
        except TimeoutError as error:
            if body.made_room:
                self._refused.labels("room").inc()
                raise BadBody(
                    503, "was given up for others: too many are on their way, and it was the slowest"
                ) from error
            self._refused.labels("slow").inc()
            raise BadBody(408, f"was not there after {self.within_s:g} s") from error

    async def _content(self, body: _OnItsWay, request: web.BaseRequest) -> bytes:
        async for chunk in request.content.iter_any():
            body.content += chunk
            self._held += len(chunk)
            if len(body.content) > self.max_bytes:
                raise self._too_long(f"is more than {self.max_bytes} bytes")
            while self._held > self._total_bytes and self._make_room(but=body):
                pass
        return bytes(body.content)

    def _make_room(self, but: _OnItsWay | None = None) -> bool:
        """Give up the body that began first; False when there is none."""
        first = next((body for body in self._on_their_way if body is not but), None)
        if first is None:
            return False
        del self._on_their_way[first]
        self._held -= len(first.content)
        first.content.clear()
        first.made_room = True
        first.until.reschedule(asyncio.get_running_loop().time())
        return True

    def _too_long(self, problem: str) -> BadBody:
        self._refused.labels("long").inc()
        return BadBody(413, problem)
