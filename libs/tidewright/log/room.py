"""Room in the store: refuse before the server has to.

A server at its limit refuses cleanly, but a batch in the midst of which the limit is reached is torn
(`tidewright.log.torn`). Where the account has a limit, it says how much is used; so a writer stops
a margin before. A limit of the server as a whole is not told to its clients.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tidewright.log.errors import LogForbidden

CHECK_S = 1.0
"""How old what is known of the store may be."""
MARGIN_BYTES = 64 << 20
"""More than all writers together append between two checks."""
MARGIN_SHARE = 0.1
"""Of a small limit, this much at most."""


class Room:
    """What one process knows of the room in the store of its account."""

    def __init__(self, ask: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """`ask` returns the account's JetStream information."""
        self._ask = ask
        self._known_at = float("-inf")
        self._full = ""

    async def full(self) -> str:
        """Why nothing more may be appended; empty while there is room.

        Raises:
            LogUnavailable: the server does not say.
        """
        if time.monotonic() - self._known_at > CHECK_S:
            try:
                self._full = _full(await self._ask())
            except LogForbidden:
                self._full = ""  # these credentials may not know
            self._known_at = time.monotonic()
        return self._full


def _full(info: Mapping[str, Any]) -> str:
    limit, used = int((info.get("limits") or {}).get("max_storage", -1)), int(info.get("storage", 0))
    margin = min(MARGIN_BYTES, int(limit * MARGIN_SHARE))
    if limit <= 0 or used + margin <= limit:
        return ""
    return f"{used} of {limit} bytes are used, and the last {margin} are kept free"
