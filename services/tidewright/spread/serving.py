"""The life of one replica of the admission endpoint: read the ledgers, be trusted, serve, leave.

`run` is what the service table names. What the endpoint answers is `admission`'s; here is when it may
answer, and how it ends without a request that nobody answers.
"""

from __future__ import annotations

import asyncio
import gc

import structlog

from tidewright.events.acting import Held
from tidewright.host.announce import Announcer
from tidewright.host.process import Process
from tidewright.host.service import LogOptions, connect, find_stream, halt_when_broken
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.spread import hooks
from tidewright.spread.admission import ENDPOINT, Endpoint, Options
from tidewright.spread.books import Books
from tidewright.spread.decide import SERVICE

FORGET_AGAIN_S = 30.0
"""After so long without an answer the API server is asked once more to forget this replica."""
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
        staying = asyncio.create_task(as_told(endpoint, announcer, process))
        await asyncio.wait([staying, stop], return_when=asyncio.FIRST_COMPLETED)
        if staying.done():
            staying.result()
        staying.cancel()
        await _leave(endpoint, announcer, process)
    finally:
        stop.cancel()


async def as_told(endpoint: Endpoint, announcer: Announcer, process: Process) -> None:
    """Be trusted while spread acts; in shadow be forgotten, and ready all the same. Runs until cancelled."""
    observed, known = endpoint.books.observed, False
    while True:
        observed.other_modes.clear()
        held = observed.acting.of_service(SERVICE)
        if held.acts:
            known = True
            working = asyncio.create_task(_be_trusted(endpoint, announcer, process))
        else:
            working = asyncio.create_task(_be_forgotten(endpoint, announcer, process, held, known=known))
            known = False
        changed = asyncio.create_task(observed.other_modes.wait())
        try:
            await asyncio.wait({working, changed}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                await changed
        finally:
            working.cancel()
            changed.cancel()


async def _be_trusted(endpoint: Endpoint, announcer: Announcer, process: Process) -> None:
    trusting = asyncio.create_task(announcer.trust(endpoint.certificate.ca_pem))
    try:
        while not trusting.done():
            process.health.not_ready = announcer.problem
            await asyncio.wait([trusting], timeout=0.2)
        trusting.result()
    finally:
        trusting.cancel()
    process.health.not_ready = process.health.note = ""
    _log.info("the API server trusts this replica")
    await endpoint.stay_trusted(announcer)


async def _be_forgotten(
    endpoint: Endpoint, announcer: Announcer, process: Process, held: Held, *, known: bool
) -> None:
    """Take the webhook out, where it was registered. Until then the rules on the ledger let pods in untouched."""
    if known:
        ca, alone = (
            endpoint.certificate.ca_pem,
            endpoint.options.address(endpoint.port).is_ours_alone(endpoint.port),
        )
        while not await announcer.forget(ca, alone=alone, within_s=FORGET_AGAIN_S):
            _log.warning("the webhook is not taken out yet", do="check that the actuator runs")
    process.health.not_ready, process.health.note = "", f"{held.mode}: {held.why}, no webhook is registered"
    _log.info("no webhook is registered", mode=held.mode, why=held.why)


async def _leave(endpoint: Endpoint, announcer: Announcer, process: Process) -> None:
    """End without a request that nobody answers: first have the API server call nobody who is going."""

    def draining() -> None:
        process.health.not_ready = "stopping"

    options = endpoint.options
    told = await announcer.leave(
        endpoint.certificate.ca_pem, options.address(endpoint.port), endpoint.port,
        drain_s=options.drain_s, within_s=FORGET_WITHIN_S, draining=draining,
    )  # fmt: skip
    draining()
    if not told:
        _log.warning(
            "webhook configurations may be left behind", name=hooks.NAME, policy=options.failure_policy,
            do="nothing waits for them but, with the policy Fail, pods: then delete them if this endpoint does not come back",
        )  # fmt: skip
    await endpoint.stop()
