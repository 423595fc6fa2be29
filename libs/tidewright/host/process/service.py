"""A decider as a service: connect, find the stream, join, run."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import Any

from tidewright.host.fold.decider import Decider, State
from tidewright.host.loop.host import Host
from tidewright.host.loop.membership import BucketMembership
from tidewright.host.loop.settings import Settings
from tidewright.host.process import copies, exposition
from tidewright.host.process.measuring import Stopwatch
from tidewright.host.process.process import Process
from tidewright.host.process.software import software_of
from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import Writer
from tidewright.log.identity import Identity
from tidewright.log.snapshots import bucket

PAUSE_S = 0.5

logger = get_logger(__name__)


@dataclass(frozen=True)
class LogOptions:
    """Which log, and with which credentials.

    Attributes:
        url: of the NATS server; may hold user and password.
        cluster: name of the cluster, part of every subject.
        credentials: file as `nsc` makes it.
        max_age_s: the log's retention, which decides how often checkpoints are renewed; 0: as the
            stream says.
    """

    url: str = "nats://127.0.0.1:4222"
    cluster: str = "default"
    credentials: Identity | None = None
    max_age_s: float = 0.0

    def renew_s(self, log: Log) -> float | None:
        """How often what lies on the log is said again, in wall seconds; None: never."""
        max_age_s = self.max_age_s or log.max_age_s
        return max_age_s / 3 if max_age_s else None


async def connect(
    options: LogOptions, process: Process | None, *, name: str = "", patience_s: float = 0.0
) -> Log:
    """Connect to the log, waiting for a server that is not there yet; without a process, not at all.

    The connection has the process's service for its name, or `name`; `patience_s` is as `Log.connect` has it.

    Raises:
        LogUnavailable: nobody answers, and there is no process, or it is told to stop.
        LogForbidden: the credentials are refused: not worth waiting.
    """
    said = ""
    while True:
        try:
            log = await Log.connect(
                options.url,
                options.cluster,
                credentials=options.credentials,
                name=name or (process.options.service if process is not None else "tidewright"),
                patience_s=patience_s,
            )
        except errors.LogUnavailable as error:
            if process is None or process.stop.is_set():
                raise
            process.health.not_ready = str(error)
            if str(error) != said:
                logger.warning("waiting for the log", error=str(error))
            said = str(error)
            await pause(process, PAUSE_S)
        else:
            introduce(log, process)
            return log


def introduce(log: Log, process: Process | None) -> None:
    """Have a connection sign as this service and believe as it was told to, and count what it does not believe.

    Raises:
        BadKey: a file that it was given holds no key.
    """
    if process is None:
        return
    log.doubts.metric = process.health.metrics.unbelieved
    options = process.options
    if options.signing_key is None and options.trust is None:
        return
    from tidewright.log.keyfiles import read_anchors
    from tidewright.log.signer import Signer

    log.authenticate(
        signer=Signer(options.service, options.signing_key) if options.signing_key else None,
        anchors=read_anchors(options.trust) if options.trust else None,
    )


async def find_stream(log: Log, process: Process | None, cluster_id: str = "") -> None:
    """Wait until the cluster's stream has been installed, and take over its slot count.

    `cluster_id` as of `Log.adopt_slots`, from those who know their cluster.

    Raises:
        OtherCluster: the stream is another cluster's; waiting does not change that.
    """
    said = ""
    while process is None or not process.stop.is_set():
        try:
            await log.adopt_slots(cluster_id)
            return
        except errors.OtherCluster:
            raise
        except (errors.WrongStream, errors.LogUnavailable) as error:
            if str(error) != said:
                logger.info("waiting for the stream", error=str(error))
            said = str(error)
            if process is None:
                await asyncio.sleep(PAUSE_S)
                continue
            process.health.not_ready = said
            process.health.tick()
            await pause(process, PAUSE_S)


async def halt_when_broken(log: Log, process: Process) -> None:
    """Have a process that keeps no position be not ready, and append nothing, once the log is another than before."""
    error = await log.continuity.until_broken()
    process.health.halted = str(error)
    process.health.metrics.errors.labels(error.reason).inc()
    logger.error("the log is another than before", reason=error.reason, error=str(error))


async def pause(process: Process, seconds: float) -> None:
    """Sleep, but not longer than the process is to live."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.stop.wait()


async def run_decider(
    process: Process, decider: Decider[State, Any], options: LogOptions, settings: Settings | None = None
) -> None:
    """Run a decider until the process is told to stop."""
    async with await connect(options, process) as log:
        await find_stream(log, process)
        if process.stop.is_set():
            return
        writer = Writer(decider.service, version=software_of(decider))
        host = Host(
            decider,
            log,
            BucketMembership(log, decider.service, writer.incarnation),
            process.health,
            writer=writer,
            settings=replace(settings or Settings(), renew_s=options.renew_s(log)),
        )
        if (parts := decider.parts) is not None:
            metrics = process.health.metrics
            parts.measure = Stopwatch(parts, metrics.registry, lambda: process.health.stuck_s).part
        if (decider_exposition := decider.exposition) is not None:
            process.health.more_metrics = lambda: exposition.text(
                decider_exposition, lambda: [owned.fold.state for owned in host.owned.values()], host.tally
            )
        looking = asyncio.create_task(
            copies.watch(log, [f"OBJ_{bucket(log.stream, decider.service)}"], process.health.metrics.registry)
        )
        try:
            await host.run(process.stop)
        finally:
            looking.cancel()
