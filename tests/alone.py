"""A membership of one, for hosts in tests and benchmarks that nobody shares slots with."""

from __future__ import annotations

import asyncio


class Alone:
    """The only replica there is."""

    def __init__(self, member: str) -> None:
        self.changed = asyncio.Event()
        self.members = frozenset({member})

    async def join(self) -> None:
        """Nothing to tell anybody."""

    async def leave(self) -> None:
        """Nothing to tell anybody."""
