"""The life of one replica of an endpoint: read, be trusted, serve, leave."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from tidewright.host.process.process import Process
from tidewright.host.process.service import LogOptions, connect, find_stream, halt_when_broken
from tidewright.host.webhook.server import EndpointOptions, Server
from tidewright.host.webhook.standing import FORGET_WITHIN_S, Standing
from tidewright.log.connection import Log


class Endpoint(Protocol):
    """What an endpoint brings.

    Attributes:
        server: with its routes.
        current: set once everything that it answers by has been read.
    """

    server: Server

    @property
    def current(self) -> asyncio.Event: ...

    def following(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What runs beside the answering, until the end."""
        ...

    def standing(self, log: Log, process: Process) -> Standing:
        """Its standing; the server listens."""
        ...


async def run_endpoint(
    options: EndpointOptions, process: Process, *, reading: str, make: Callable[[Log], Endpoint]
) -> None:
    """Run until `process.stop` is set; ready once all is read and the API server trusts this replica.

    `reading` says what is read first.

    Raises:
        LogError: the log cannot be used at the start; see its classes.
        ValueError: neither a URL nor a service that could be called.
    """
    options.address(options.port or 1)
    process.drain_s = (options.drain_s if options.service else 0.0) + FORGET_WITHIN_S
    on = LogOptions(options.nats_url, options.cluster, options.nats_credentials)
    async with await connect(on, process) as log:
        await find_stream(log, process)
        if process.stop.is_set():
            return
        endpoint = make(log)
        process.health.not_ready = f"reading {reading}"
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(work) for work in endpoint.following()]
            beside.append(tasks.create_task(halt_when_broken(log, process)))
            serving = tasks.create_task(_serve(endpoint, log, process))
            while not process.stop.is_set() and not serving.done():
                process.health.tick()
                await asyncio.wait([serving], timeout=1.0)
            await serving
            for task in beside:
                task.cancel()


async def _serve(endpoint: Endpoint, log: Log, process: Process) -> None:
    """Serve from when everything is read until told to stop, and end without a request that nobody answers."""
    stop = asyncio.create_task(process.stop.wait())
    try:
        reading = asyncio.create_task(endpoint.current.wait())
        await asyncio.wait([reading, stop], return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        if process.stop.is_set():
            return
        gc.collect()
        gc.freeze()  # what was read stays: no collection of garbage needs to look at it again
        await endpoint.server.start()
        standing = endpoint.standing(log, process)
        keeping = asyncio.create_task(standing.keep())
        try:
            await asyncio.wait([keeping, stop], return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
        finally:
            keeping.cancel()
        await standing.leave()
        await endpoint.server.stop()
    finally:
        stop.cancel()
