"""A small HTTP server around one function, for as long as a test needs it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


@asynccontextmanager
async def answering(
    handler: Callable[[Any], Awaitable[web.StreamResponse]], context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Have `handler` answer whatever is asked; its URL, without a slash at the end. It is given a `BaseRequest`."""
    runner = web.ServerRunner(web.Server(handler, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
