"""How many servers keep the streams that a service uses, and whether their copies are up to date, as series.

A stream with a copy less goes on, and says nothing: it stands still when the next server goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Gauge

from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger

EVERY_S: Final = 15.0
"""Between two looks."""
ANSWERED_S: Final = 5.0
"""In which a stream that has a leader is told of."""

logger = get_logger(__name__)


class Copies(NamedTuple):
    """Of one stream: as many as were asked for, and those that have everything."""

    wanted: int
    current: int


def copies_of(answer: Mapping[str, Any]) -> Copies:
    """What the server's answer about a stream tells of its copies. Pure.

    A server that is alone names no leader; of several the leader has everything, and says who else does.
    """
    wanted = int(answer["config"].get("num_replicas") or 1)
    servers = answer.get("cluster") or {}
    if not servers.get("replicas"):
        return Copies(wanted, 1 if wanted == 1 or servers.get("leader") else 0)
    others = [peer for peer in servers["replicas"] if peer.get("current") and not peer.get("offline")]
    return Copies(wanted, len(others) + bool(servers.get("leader")))


async def watch(log: Log, streams: Sequence[str], registry: CollectorRegistry) -> None:
    """Keep the series of these streams up to date, for ever.

    A stream of which nobody answers any more has no copy that counts: it lost its leader, and with it all that could say so.
    """
    wanted = Gauge(
        "tidewright_log_copies_wanted", "Servers that are to keep a stream.", ["stream"], registry=registry
    )
    current = Gauge(
        "tidewright_log_copies_current", "Servers that keep a stream and have everything of it; 0 while it has no leader.", ["stream"], registry=registry
    )  # fmt: skip
    known: set[str] = set()
    while True:
        for stream in streams:
            try:
                # Who has patience with the log would wait for it here, too.
                async with asyncio.timeout(ANSWERED_S):
                    answer = await log.answer_of(f"STREAM.INFO.{stream}", {})
            except (errors.LogError, TimeoutError) as error:
                logger.debug("copies of a stream not readable", stream=stream, error=str(error))
                if stream in known:
                    current.labels(stream).set(0)
                continue
            if "error" not in answer:
                known.add(stream)
                copies = copies_of(answer)
                wanted.labels(stream).set(copies.wanted)
                current.labels(stream).set(copies.current)
        await asyncio.sleep(EVERY_S)
