"""How much of what the log's account may store is taken, as series: a full store is to be seen coming.

What a server as a whole may store, beside the limit of the account, it does not tell its clients.
"""

from __future__ import annotations

import asyncio
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.store_quota import store_of

EVERY_S: Final = 15.0
"""Between two looks."""

logger = get_logger(__name__)


async def watch(log: Log, registry: CollectorRegistry) -> None:
    """Keep the series up to date, for ever. While nobody answers they stay as they were: other alerts are of that."""
    used = Gauge(
        "tidewright_log_store_bytes", "What the log's account has stored, on all servers together.", registry=registry
    )  # fmt: skip
    limit = Gauge(
        "tidewright_log_store_limit_bytes", "What the log's account may store, on all servers together; 0 for no limit.", registry=registry
    )  # fmt: skip
    while True:
        try:
            answer = await log.answer_of("INFO", {})
        except errors.LogError as error:
            answer = {"error": str(error)}
        if "error" in answer:
            logger.debug("the store is not readable", error=answer["error"])
        else:
            store = store_of(answer)
            used.set(store.used)
            limit.set(store.limit)
        await asyncio.sleep(EVERY_S)
