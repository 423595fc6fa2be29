"""A watcher as far as the actuator needs one: somebody who is heard to look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidewright.host.loop.lookout import NEEDED, entry
from tidewright.host.loop.membership import BucketMembership
from tidewright.log.connection import Log


@asynccontextmanager
async def looked_at(log: Log) -> AsyncIterator[None]:
    """While the block runs, the log's cluster is said to be looked at."""
    member = BucketMembership(log, "watcher", "looking", says=lambda: entry(NEEDED))
    await member.join()
    try:
        yield
    finally:
        await member.leave()
