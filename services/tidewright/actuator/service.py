"""The actuator as a process: what it connects to, from its start until it is told to end."""

from __future__ import annotations

import asyncio

import stamina
import stamina.instrumentation

from tidewright.actuator.acting import Actuator
from tidewright.actuator.apply import Applier
from tidewright.actuator.cloud import Clouds, as_observed
from tidewright.actuator.options import SERVICE, Options
from tidewright.cloud.providers import Surroundings, specs_of
from tidewright.host.process.process import Process
from tidewright.host.process.service import LogOptions, connect
from tidewright.kube.client import Kube
from tidewright.kube.clusterid import cluster_id
from tidewright.kube.discovery import Discovery
from tidewright.log import errors
from tidewright.log.connection import Log

START_S = 60.0
"""How long the log's stream may take to appear."""


async def run(options: Options, process: Process | None = None) -> None:
    """Run until `process.stop` is set (or this task is cancelled).

    Raises:
        LogError: the log cannot be used, or is another cluster's; see its classes.
        KubeError: the cluster's configuration cannot be used, or it does not answer within `START_S`.
        ValueError: no such cloud.
    """
    around = Surroundings(
        kubeconfig=options.kubeconfig,
        context=options.context,
        in_cluster=options.in_cluster,
        discovery=options.cloud_discovery,
        nodes=options.cloud_nodes,
        config=options.cloud_config,
        per_s=options.cloud_qps,
        timeout_s=options.cloud_timeout_s,
    )
    providers = {spec.name: spec.provider(around) for spec in specs_of(options.clouds)}
    # Retries are logged where they happen, with what they mean.
    stamina.instrumentation.set_on_retry_hooks([])
    async with (
        await Kube.connect(options.kubeconfig, options.in_cluster, options.context) as kube,
        await connect(
            LogOptions(options.nats_url, options.cluster, options.nats_credentials), process, name=SERVICE
        ) as log,
    ):
        await _find_stream(log, await cluster_id(kube, patience_s=START_S))
        applier = Applier(kube, Discovery(kube), endpoint_tokens=options.endpoint_tokens)
        clouds = Clouds(providers, as_observed(log)) if providers else None
        actuator = Actuator(options, log, applier, health=process.health if process else None, clouds=clouds)
        try:
            await _until_told(actuator, process)
        finally:
            if clouds is not None:
                await clouds.close()


async def _until_told(actuator: Actuator, process: Process | None) -> None:
    work = asyncio.create_task(actuator.run())
    if process is None:
        await work
        return
    stop = asyncio.create_task(process.stop.wait())
    await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    work.cancel()
    try:
        await work
    except asyncio.CancelledError:
        if not process.stop.is_set():
            raise


async def _find_stream(log: Log, identity: str) -> None:
    """Wait until the watcher has made the stream.

    Raises:
        OtherCluster: its decisions are about another cluster: carried out in this one they would do harm.
    """

    def again(error: Exception) -> bool:
        missing = isinstance(error, errors.WrongStream | errors.LogUnavailable)
        return missing and not isinstance(error, errors.OtherCluster)

    async for attempt in stamina.retry_context(on=again, attempts=None, timeout=START_S, wait_max=2.0):
        with attempt:
            await log.adopt_slots(identity)
