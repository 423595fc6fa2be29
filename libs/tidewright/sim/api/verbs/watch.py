"""Watches: each a listener of a table that turns changes into lines of a stream.

A `Watch` selects changes (namespace, selectors), renders them (whole, as table rows or metadata only)
and keeps the lines until the connection takes them. Lines of whole objects are shared between the
watches of a table, so that ten watchers cost one rendering. A watch whose reader is too slow ends, as it
does on a real API server; its client lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from tidewright.sim.api import errors
from tidewright.sim.api.store.store import Change, Event, Record, Table
from tidewright.sim.api.verbs.match import Matcher

MAX_PENDING_BYTES = 64 * 1024 * 1024
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_PREFIX: dict[str, bytes] = {
    change: b'{"type":"%s","object":' % change.encode() for change in ("ADDED", "MODIFIED", "DELETED")
}


class Watch:
    """One open watch: `lines` waits for what is to be sent next; None ends it.

    Attributes:
        rendered: lines of the event being dispatched, by representation; shared by all watches.
    """

    def __init__(
        self,
        table: Table,
        matcher: Matcher,
        namespace: str,
        render: Callable[[Record], bytes],
        sharing: str,
    ) -> None:
        self._table = table
        self._matcher = matcher
        self._namespace = namespace
        self._render = render
        self._sharing = sharing
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._waiting: asyncio.Future[None] | None = None
        self.ended = False
        self.sent_rv = 0  # the version that the stream has reached
        self.stalled = False  # a fault: accept changes, send nothing
        self.target = ""  # path and query, for faults to match
        self.user_agent = ""
        self._send: Callable[[bytes], None] | None = None
        self._on_end: Callable[[], None] | None = None

    def attach(self, send: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Hand what is gathered, and from now on each line, to `send`; instead of `lines`."""
        self._send, self._on_end = send, on_end
        self._flush()
        if self.ended:
            self._finish()

    def _flush(self) -> None:
        if self._pending and self._send is not None and not self.stalled:
            data = b"".join(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
            self._send(data)

    def _finish(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def start(self, events: Iterable[Event] = ()) -> None:
        """Send what happened before now, then listen."""
        for event in events:
            self._on_event(event)
        self._table.listeners.append(self._on_event)

    def stop(self) -> None:
        """Stop listening and end the stream."""
        # a new list, since the old one may be being walked: nobody else is to miss what is being told
        self._table.listeners = [known for known in self._table.listeners if known != self._on_event]
        self.ended = True
        self._flush()
        self._finish()
        self._wake()

    def initial(self, records: Iterable[Record]) -> None:
        """Existing objects, as ADDED."""
        for record in records:
            self._push(_PREFIX["ADDED"] + self._render(record) + b"}\n")

    def bookmark(self, line_of: Callable[[], bytes]) -> None:
        if not self.ended:
            self._push(line_of())

    def error(self, error: errors.ApiError) -> None:
        """Tell the client why it ends, and end."""
        self._push(b'{"type":"ERROR","object":' + error.body + b"}\n")
        self.stop()

    async def lines(self, timeout_s: float) -> bytes | None:
        """What is to be sent, as soon as there is something; b"" after `timeout_s` without; None at the end."""
        if not self._pending or self.stalled:
            if self.ended:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            handle = asyncio.get_running_loop().call_later(timeout_s, self._wake)
            try:
                await self._waiting
            finally:
                handle.cancel()
                self._waiting = None
        if self.stalled and not self.ended:
            return b""
        if not self._pending:
            return None if self.ended else b""
        data = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        return data

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _push(self, line: bytes) -> None:
        if self._send is not None and not self.stalled:
            if not self.ended:
                self._send(line)
            return
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes > MAX_PENDING_BYTES:
            self.stop()
        else:
            self._wake()

    def _selects(self, record: Record) -> bool:
        if self._namespace and record.namespace != self._namespace:
            return False
        return self._matcher.everything or self._matcher.matches(record)

    def _on_event(self, event: Event) -> None:
        record = event.record
        self.sent_rv = event.rv
        change: Change = event.change
        if self._matcher.everything:
            if self._namespace and record.namespace != self._namespace:
                return
        else:
            now = change != "DELETED" and self._selects(record)
            before = event.previous is not None and self._selects(event.previous)
            if now:
                change = "MODIFIED" if before else "ADDED"
            elif before:
                change = "DELETED"
            else:
                return
        self._push(self._line(event, change))

    def _line(self, event: Event, change: Change) -> bytes:
        if not self._sharing:
            return _PREFIX[change] + self._render(event.record) + b"}\n"
        if _shared.event is not event:
            _shared.event = event
            _shared.lines.clear()
        key = self._sharing + change
        line = _shared.lines.get(key)
        if line is None:
            line = _shared.lines[key] = _PREFIX[change] + self._render(event.record) + b"}\n"
        return line


class _Shared:
    """The lines of the event that is being dispatched, by representation."""

    def __init__(self) -> None:
        self.event: Event | None = None
        self.lines: dict[str, bytes] = {}


_shared = _Shared()


def bookmark_line(api_version: str, kind: str, rv: int, *, initial_end: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(rv), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return (
        msgspec.json.encode(
            {
                "type": "BOOKMARK",
                "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata},
            }
        )
        + b"\n"
    )
