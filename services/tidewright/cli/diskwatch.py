"""The disk below a data folder: says when it is full and when it has room again, and has the log's server begin anew.

A nats-server that met the end of its disk refuses every append to that stream until it is started again, silently; and
the limit that it was given at its start follows from what the disk had then. Both end with a start: once there is room.

    Limits, Watched  what is looked at
    judged           what to say and to do (pure)
    DiskWatch        looks every second, says it, and does it
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from tidewright.log.disk import MOST_KEPT_FREE, Space, no_space, size_of, space

LOOK_S = 1.0
SIZE_EVERY = 5
"""Looks at the disk to one at the size of the store, which takes a look at each of its files."""
AGAIN_S = 10.0
"""Between two starts of the server for this: it may still be reading its store."""

_MET = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Watched:
    """What is known of the disk and of the server.

    Attributes:
        full: the disk was full at the last look.
        broken: the server met the end of the disk since its start.
        limit, used: of the store, bytes; limit 0: none.
        started_s: when the server was started last (monotonic).
    """

    full: bool = False
    broken: bool = False
    limit: int = 0
    used: int = 0
    started_s: float = 0.0


@dataclass(frozen=True)
class Judged:
    """What follows: `full` now, whether that is news, and whether the server is to be started anew."""

    full: bool
    news: bool
    restart: bool


def judged(watched: Watched, disk: Space, now_s: float) -> Judged:
    """What follows from what a look found."""
    # With a margin on the way back, so that a disk at the brink is not said to be full every second.
    full = bool(disk.full) if not watched.full else disk.free < disk.kept_free * 5 // 4
    tight = watched.limit > 0 and watched.limit - watched.used < disk.kept_free
    roomier = limit_for(disk, watched.used) > watched.limit + disk.kept_free
    restart = not full and (watched.broken or (tight and roomier)) and now_s - watched.started_s >= AGAIN_S
    return Judged(full, full != watched.full, restart)


def limit_for(disk: Space, used: int) -> int:
    """The store's limit, bytes: what it has and what the disk has left, less what is kept free of it."""
    return max(used + disk.free - disk.kept_free, MOST_KEPT_FREE // 64)


class DiskWatch:
    """Watches one data folder for one server."""

    def __init__(self, folder: Path, store: Path) -> None:
        self._folder, self._store = folder, store
        self.watched = Watched()
        self.restart: Callable[[], None] = lambda: None
        """Writes the server's configuration anew and starts it again."""

    def started(self, limit: int, now_s: float) -> None:
        """The server was started with this limit."""
        self.watched = replace(
            self.watched, broken=False, limit=limit, used=size_of(self._store), started_s=now_s
        )

    def heard(self, line: str) -> None:
        """A line that the server said."""
        if _MET.search(line):
            self.watched = replace(self.watched, broken=True)

    async def run(self) -> None:
        """Look for ever."""
        looks = 0
        while True:
            if looks % SIZE_EVERY == 0:
                self.watched = replace(self.watched, used=await asyncio.to_thread(size_of, self._store))
            looks += 1
            try:
                disk = space(self._folder)
            except OSError as error:
                logger.warning(
                    "the data folder cannot be looked at", folder=str(self._folder), error=str(error)
                )
            else:
                self.look(disk, asyncio.get_running_loop().time())
            await asyncio.sleep(LOOK_S)

    def look(self, disk: Space, now_s: float) -> None:
        """Say and do what follows from one look."""
        seen = judged(self.watched, disk, now_s)
        if seen.news and seen.full:
            logger.error(
                no_space(self._folder), free_bytes=disk.free, needed_bytes=disk.kept_free,
                meanwhile="nothing is decided, nothing is lost, and it goes on by itself",
            )  # fmt: skip
        elif seen.news:
            logger.info("there is space again, going on", folder=str(self._folder), free_bytes=disk.free)
        self.watched = replace(self.watched, full=seen.full)
        if seen.restart:
            logger.warning(
                "starting the log's server again",
                because="it met the end of its disk" if self.watched.broken else "its disk has more room now",
            )
            self.restart()
