"""Room in the store: refuse before the server has to.

A server at its limit refuses cleanly, but a batch in the midst of which the limit is reached is torn
(`tidewright.log.partial_batches`). Where the account has a limit, it says how much is used; so a writer stops
a margin before. A limit of the server as a whole is not told to its clients. Where the store lies on a disk
of this machine, which the stream's metadata say (`tw.store`), the disk itself is looked at before each append.
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tidewright.log import disk
from tidewright.log.errors import LogError, LogForbidden

CHECK_S = 1.0
"""How old what is known of the store may be before it is asked for again, beside the appends."""
WAIT_FROM_S = 2.0
"""What is older is not relied on: an append waits for the answer, which may take as long as it itself."""
MARGIN_BYTES = 64 << 20
"""More than all writers together append between two checks."""
MARGIN_SHARE = 0.1
"""Of a small limit, this much at most."""


class Store(NamedTuple):
    """Of the log's account, bytes on all servers together, replicas counted; a limit of 0 is none."""

    used: int
    limit: int


class Room:
    """What one process knows of the room in the store of its account."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[Mapping[str, Any]]],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask` returns the account's JetStream information."""
        self._ask = ask
        self._monotonic_s = monotonic_s
        self._known_at = float("-inf")
        self._full = ""
        self._asking: asyncio.Task[None] | None = None
        self._folder: Path | None = None

    def lies_in(self, place: str) -> None:
        """Where the server's store lies, as `place_of` says it; another machine's place is no matter of ours."""
        machine, _, folder = place.partition(":")
        self._folder = Path(folder) if machine == platform.node() and folder else None

    @property
    def no_space(self) -> str:
        """Why the disk takes nothing more; empty while it has room, or is not of this machine."""
        if self._folder is None:
            return ""
        try:
            return disk.space(self._folder).full
        except OSError:
            return ""  # it is not there any more, or not for us to see

    async def full(self) -> str:
        """Why nothing more may be appended; empty while there is room.

        Raises:
            LogUnavailable: the server does not say.
        """
        age_s = self._monotonic_s() - self._known_at
        if age_s > WAIT_FROM_S or (self._full and age_s > CHECK_S):
            await self._look()
        elif age_s > CHECK_S and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._look_beside())
        return self._full

    async def _look(self) -> None:
        try:
            self._full = _full(await self._ask())
        except LogForbidden:
            self._full = ""  # these credentials may not know
        self._known_at = self._monotonic_s()

    async def _look_beside(self) -> None:
        try:
            await self._look()
        except LogError:
            return  # whoever appends next finds out

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])


def place_of(folder: Path) -> str:
    """A folder of this machine, as the stream's metadata say it."""
    return f"{platform.node()}:{folder}"


def store_of(info: Mapping[str, Any]) -> Store:
    """What the server tells of the account that the log is in. Pure."""
    limits = info.get("limits") or {}
    return Store(int(info.get("storage", 0)), max(0, int(limits.get("max_storage", -1))))


def _full(info: Mapping[str, Any]) -> str:
    used, limit = store_of(info)
    margin = min(MARGIN_BYTES, int(limit * MARGIN_SHARE))
    if limit <= 0 or used + margin <= limit:
        return ""
    return f"{used} of {limit} bytes are used, and the last {margin} are kept free"
