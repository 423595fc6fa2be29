"""Awaiting a client that may lose a cancellation.

`asyncio.wait_for` of Python 3.11 returns the answer when the answer and a cancellation arrive
together, and nats-py drops a cancellation that reaches it while it flushes. The task then goes on as
if nobody had asked it to end, and whoever cancelled it (a task group, a time-out) waits for ever. So
everything that is asked of the client is awaited through `heeded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def heeded(asked: Awaitable[T]) -> T:
    """Await, and end here when this task was cancelled meanwhile, even though `asked` did not.

    Only cancellations that come while it is awaited count: a task that cleans up after having been
    cancelled may still ask.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        answer = await asked
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return answer
