"""A watch on its way to a connection: chunks written as changes happen, with bookmarks, until it ends.

Nothing waits between a change and the write: a watch has no task of its own, so that ten thousand changes a
second to a few watchers are ten thousand writes and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tidewright.sim.api.verbs.watch import MAX_PENDING_BYTES, Watch

_LAST_CHUNK = b"0\r\n\r\n"


class Stream:
    """What becomes of a watch's lines.

    Args:
        watch: already listening; what it has gathered is sent first.
        bookmark: makes the line of a bookmark; None when none are wanted.
        interval_s: between bookmarks.
        timeout_s: after which the stream ends.
        closed: called once, when the stream is no more.
    """

    def __init__(
        self,
        watch: Watch,
        bookmark: Callable[[], bytes] | None,
        interval_s: float,
        timeout_s: float,
        closed: Callable[[Watch], None],
    ) -> None:
        self._watch = watch
        self._bookmark = bookmark
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._closed = closed
        self._transport: Any = None  # uvloop's transports are no subclass of asyncio's
        self._timers: list[asyncio.TimerHandle] = []
        self._ended: Callable[[], None] = lambda: None

    def begin(self, transport: Any, ended: Callable[[], None]) -> None:
        """Send from now on; `ended` is called behind the last chunk, and not when the connection is lost."""
        self._transport, self._ended = transport, ended
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(self._timeout_s, self._watch.stop)]
        if self._bookmark is not None:
            self._timers.append(loop.call_later(self._interval_s, self._mark))
        self._watch.attach(self._send, self._end)

    def lost(self) -> None:
        """The connection is gone."""
        self._transport = None
        self._watch.stop()
        self._closed(self._watch)

    def _send(self, lines: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        if transport.get_write_buffer_size() > MAX_PENDING_BYTES:
            self._watch.stop()  # its reader is too slow; its client lists again
            return
        transport.write(b"%x\r\n%b\r\n" % (len(lines), lines))

    def _mark(self) -> None:
        if self._bookmark is not None and not self._watch.ended:
            self._watch.bookmark(self._bookmark)
            self._timers[1] = asyncio.get_running_loop().call_later(self._interval_s, self._mark)

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._closed(self._watch)
        if self._transport is not None:
            self._transport.write(_LAST_CHUNK)
            self._ended()
