"""The life of one replica of the admission endpoint: read the ledgers, be trusted, serve, leave.

`run` is what the service table names. What the endpoint answers is `admission`'s; here is when it may
answer, and how it ends without a request that nobody answers.
"""

from __future__ import annotations

import asyncio
import gc

import structlog

from tidewright.host.announce import Announcer
from tidewright.host.process import Process
from tidewright.host.service import LogOptions, connect, find_stream, halt_when_broken
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.spread import hooks
from tidewright.spread.admission import ENDPOINT, Endpoint, Options
from tidewright.spread.books import Books
from tidewright.spread.decide import SERVICE

FORGET_WITHIN_S = 3.0
"""How long an end waits until the API server has forgotten this replica."""

_log = structlog.get_logger(__name__)


async def run(options: Options, process: Process) -> None:
    """Run until `process.stop` is set.

    Ready once the ledgers are read and the API server trusts this replica's certificate.

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
        books = Books(log, Writer(SERVICE))
        endpoint = Endpoint(books, options, process)
        process.health.not_ready = "reading the ledgers"
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(books.follow()), tasks.create_task(books.append_late())]
            running.append(tasks.create_task(halt_when_broken(log, process)))
            serving = tasks.create_task(_serve(endpoint, log, process))
            while not process.stop.is_set() and not serving.done():
                process.health.tick()
                await asyncio.wait([serving], timeout=1.0)
            await serving
            for task in running:
                task.cancel()


async def _serve(endpoint: Endpoint, log: Log, process: Process) -> None:
    """Serve from when the ledgers are read until told to stop."""
    options, stop = endpoint.options, asyncio.create_task(process.stop.wait())
    try:
        reading = asyncio.create_task(endpoint.books.current.wait())
        await asyncio.wait([reading, stop], return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        if process.stop.is_set():
            return
        gc.collect()
        gc.freeze()  # the ledgers stay: no collection of garbage needs to look at them again
        await endpoint.start()
        announcement = hooks.announcement(
            options.address(endpoint.port), options.failure_policy, own_namespace=options.own_namespace
        )
        announcer = Announcer(log, Writer(ENDPOINT), endpoint.books.observed.clock, announcement)
        trusting = asyncio.create_task(announcer.trust(endpoint.certificate.ca_pem))
        while not (trusting.done() or stop.done()):
            process.health.not_ready = announcer.problem
            await asyncio.wait([trusting, stop], timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
        if trusting.done():
            trusting.result()
            process.health.not_ready = ""
            _log.info("the API server trusts this replica")
        staying = asyncio.create_task(endpoint.stay_trusted(announcer))
        await asyncio.wait([staying, stop], return_when=asyncio.FIRST_COMPLETED)
        if staying.done():
            staying.result()
        staying.cancel()
        trusting.cancel()
        await _leave(endpoint, announcer, process)
    finally:
        stop.cancel()


async def _leave(endpoint: Endpoint, announcer: Announcer, process: Process) -> None:
    """End without a request that nobody answers.

    Behind a service others answer, once it has noticed. At a URL nobody does: when this was the last
    replica, its configurations go first, or every pod would be refused for want of an endpoint.
    """
    process.health.not_ready = "stopping"
    ca = endpoint.certificate.ca_pem
    if endpoint.options.service:
        await asyncio.sleep(endpoint.options.drain_s)
        await endpoint.stop()
        await announcer.forget(ca, remove_last=False, within_s=FORGET_WITHIN_S)
        return
    alone = endpoint.options.address(endpoint.port).is_ours_alone(endpoint.port)
    if not await announcer.forget(ca, remove_last=True, alone=alone, within_s=FORGET_WITHIN_S):
        _log.warning(
            "webhook configurations may be left behind", name=hooks.NAME,
            do="delete them if this endpoint does not come back: pods are refused until then",
        )  # fmt: skip
    await endpoint.stop()
