"""Whether somebody looks at the cluster now, by what the watchers' entries in the bucket of members say.

A watcher's entry names the parts that it owns and has looked at. Whoever acts asks for those by which it is told not
to: what the log says of modes and incumbents is the last word on them only while somebody would say another one. An
entry that was there before it was listened to is no sign, since its watcher may be dead: one that is renewed is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from tidewright.host.loop.membership import HEARTBEAT_S, STALE_S
from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.install import members_of
from tidewright.log.reader import Reader

WATCHER = "watcher"
INCUMBENTS, MODES = "incumbents", "modes"
NEEDED = frozenset((INCUMBENTS, MODES))
"""What has to be looked at for anybody to act."""
GRACE_S = 30.0
"""Wall seconds for which what was looked at is good, so that a watcher may be replaced by another."""
PATIENCE_S = 5.0
"""Wall seconds after its start before somebody who hears of no watcher says so."""
NOBODY = "no watcher looks at the cluster for modes and incumbents: nothing is carried out until one does"

_log = get_logger(__name__)


def entry(parts: Iterable[str]) -> bytes:
    """What a watcher's entry says that looks at these parts; one that looks at none is there, too."""
    return " ".join(sorted(parts)).encode() or b"-"


def parts_of(body: bytes) -> frozenset[str]:
    """What is looked at by whoever wrote an entry; what is not known is left out."""
    return NEEDED & frozenset(body.decode(errors="replace").split())


@dataclass
class _Entry:
    seq: int
    parts: frozenset[str] = frozenset()
    renewed_at: float | None = None


@dataclass
class Entries:
    """The watchers' entries as they come by. Pure: times are of the caller's clock, seconds.

    Attributes:
        since: when all that is needed began to be looked at without a gap; None while it is not.
    """

    since: float | None = None
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _last: float = float("-inf")

    def heard(self, name: str, seq: int, body: bytes, now: float) -> None:
        """An entry was written; or taken back, or has expired: without a body."""
        known = self._entries.get(name)
        if not body:
            self._entries.pop(name, None)
        elif known is None:
            self._entries[name] = _Entry(seq)
        elif seq > known.seq:
            self._entries[name] = _Entry(seq, parts_of(body), now)
        self.judge(now)

    def deaf(self) -> None:
        """Nothing was listened to for a while: what comes next may be old."""
        self._entries.clear()

    def judge(self, now: float) -> None:
        """Take in that time has passed."""
        current = [
            e.parts
            for e in self._entries.values()
            if e.renewed_at is not None and now - e.renewed_at <= STALE_S
        ]
        if frozenset().union(*current) >= NEEDED:
            self._last = now
            if self.since is None:
                self.since = now
        elif now - self._last > GRACE_S:
            self.since = None


class Lookout(Protocol):
    """Whether somebody looks."""

    @property
    def since(self) -> float | None:
        """When it began to be so without a gap, of `time.monotonic`; None while nobody does."""

    @property
    def why_not(self) -> str:
        """Why nothing may be done; empty while somebody looks."""

    async def kept(self) -> float:
        """Return when somebody looks: `since`."""
        ...

    async def run(self) -> None:
        """Find out, for ever."""


class BucketLookout:
    """Whether somebody looks, by the bucket of members."""

    def __init__(self, log: Log, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._monotonic = monotonic
        self._entries = Entries()
        self._changed = asyncio.Event()
        self._began = monotonic()
        self._warned = False

    @property
    def since(self) -> float | None:
        """As the protocol says; a process that was frozen for long does not believe what it heard before."""
        self._entries.judge(self._monotonic())
        return self._entries.since

    @property
    def why_not(self) -> str:
        return "" if self.since is not None else NOBODY

    async def kept(self) -> float:
        while (since := self.since) is None:
            self._changed.clear()
            await self._changed.wait()
        return since

    async def run(self) -> NoReturn:
        stream = f"KV_{members_of(self._log.stream)}"
        root = f"$KV.{members_of(self._log.stream)}.{WATCHER}."
        while True:
            self._entries.deaf()
            try:
                async with Reader(self._log, (f"{root}>",), 0, last_only=True, stream=stream) as reader:
                    while True:
                        for record in await reader.fetch(timeout_s=HEARTBEAT_S):
                            name = record.subject.removeprefix(root)
                            self._entries.heard(name, record.seq, record.body, self._monotonic())
                        self._tell()
            except errors.LogError as error:
                _log.debug("the bucket of members is not readable", error=str(error))
                self._tell()
                await asyncio.sleep(HEARTBEAT_S)

    def _tell(self) -> None:
        """Wake who waits, and say to people, once, that there is something to wait for."""
        if self.since is not None:
            self._changed.set()
            if self._warned:
                _log.info("a watcher looks at the cluster again, going on")
            self._warned = False
        elif self._log.outage.goes_on:
            self._began = self._monotonic()  # nobody can be heard: that says nothing of watchers
        elif not self._warned and self._monotonic() - self._began > PATIENCE_S:
            self._warned = True
            _log.warning(NOBODY, do="start the watcher, or look why it is not ready")


async def watched(log: Log) -> bool:
    """Whether some watcher's entry is there that names all that is needed, as of now.

    Raises:
        LogError: the bucket cannot be read.
    """
    stream, root = f"KV_{members_of(log.stream)}", f"$KV.{members_of(log.stream)}.{WATCHER}.>"
    parts: set[str] = set()
    record = await log.lookups.stored({"seq": 1, "next_by_subj": root}, stream)
    while record is not None:
        parts |= parts_of(record.body)
        record = await log.lookups.stored({"seq": record.seq + 1, "next_by_subj": root}, stream)
    return parts >= NEEDED
