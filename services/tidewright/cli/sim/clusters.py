"""`tidewright sim up` and `attach`: the embedded cluster, or its nodes and metrics beside another API server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from tidewright.asking.errors import BadInput, CommandError, Unavailable
from tidewright.asking.manifests import read_text
from tidewright.cli.options import ANY_PORT, UnsignedFlags
from tidewright.cli.run import execute
from tidewright.host.process.process import Process

SERVER = Group("API server", sort_key=0)
NODES = Group("Nodes and metrics", sort_key=10)
CLOCK = Group("Clock", sort_key=20)
KEEPS_S = 60.0
"""How long keeping a large cluster's objects may take at its end, wall seconds."""


@Parameter(name="*", group=NODES)
@dataclass(frozen=True, kw_only=True)
class NodeFlags:
    """Simulated nodes, and what runs beside the API server.

    Attributes:
        nodes: Nodes from the start.
        node_cpu: CPU capacity of each, as a quantity.
        node_memory: Memory capacity of each, as a quantity.
        node_prefix: Names are PREFIX-0000 and so on.
        start_delay: From binding to running, log seconds; also uniform:1:5, lognormal:2:8, exponential:3.
        ready_delay: From running to ready, likewise.
        node_leases: Nodes renew leases, and one that is too busy to do so is taken for lost.
        metrics: YAML file with a list of metrics to serve.
        cloud: YAML file with the simulated cloud's node groups.
        side_port: Port of the metrics and cloud server beside the API server; 0 takes a free one.
    """

    nodes: int = 3
    node_cpu: str = "8"
    node_memory: str = "32Gi"
    node_prefix: str = "sim"
    start_delay: str = "1"
    ready_delay: str = "0"
    node_leases: bool = True
    metrics: Path | None = None
    cloud: Path | None = None
    side_port: Annotated[int, Parameter(validator=ANY_PORT)] = 0


@Parameter(name="*", group=CLOCK)
@dataclass(frozen=True, kw_only=True)
class ClockFlags:
    """The mapping of wall time to log time.

    Attributes:
        speed: Log seconds per wall second.
        log_start: Log time at which the mapping starts, seconds; the wall clock's by default.
        clock_wall: Wall time of that moment, seconds; now by default.
    """

    speed: float = 1.0
    log_start: float | None = None
    clock_wall: float | None = None


def up(
    *,
    host: Annotated[str, Parameter(help="Address to listen on.", group=SERVER)] = "127.0.0.1",
    port: Annotated[
        int, Parameter(help="Port of the API server; 0 takes a free one.", group=SERVER, validator=ANY_PORT)
    ] = 0,
    data: Annotated[Path | None, Parameter(help="Keep the objects in this folder.", group=SERVER)] = None,
    write_kubeconfig: Annotated[Path | None, Parameter(help="Write a kubeconfig here.", group=SERVER)] = None,
    request_log: Annotated[
        Path | None, Parameter(help="Add every request to this file, a line of JSON each.", group=SERVER)
    ] = None,
    nodes: NodeFlags | None = None,
    clock: ClockFlags | None = None,
    process: UnsignedFlags | None = None,
) -> int:
    """Run the embedded cluster until Ctrl-C."""
    settings = {
        "host": host, "port": port, "data": data, "write_kubeconfig": write_kubeconfig, "request_log": request_log,
    }  # fmt: skip
    return _run(settings, nodes or NodeFlags(), clock or ClockFlags(), process or UnsignedFlags())


def attach(
    *,
    kubeconfig: Annotated[Path, Parameter(help="Kubeconfig of the API server.", group=SERVER)],
    nodes: NodeFlags | None = None,
    clock: ClockFlags | None = None,
    process: UnsignedFlags | None = None,
) -> int:
    """Run simulated nodes, kubelets and metrics beside another API server, until Ctrl-C.

    Touches only nodes that it made and labelled, and removes them at the end.
    """
    settings: dict[str, Any] = {"kubeconfig": kubeconfig}
    return _run(settings, nodes or NodeFlags(), clock or ClockFlags(), process or UnsignedFlags())


def _run(settings: dict[str, Any], nodes: NodeFlags, clock: ClockFlags, process: UnsignedFlags) -> int:
    from tidewright.events.config import ClockSet
    from tidewright.log.clock import Clock
    from tidewright.sim.cluster import SimCluster
    from tidewright.sim.metrics.trace import TraceError
    from tidewright.sim.options import Delay, KubeletOptions, NodePool, SimOptions

    if not 0 < clock.speed < math.inf:
        raise BadInput(f"--speed {clock.speed:g}: log seconds per wall second, more than 0")
    if nodes.nodes < 0:
        raise BadInput(f"--nodes {nodes.nodes}: 0 or more")
    capacity = {
        "cpu": nodes.node_cpu,
        "memory": nodes.node_memory,
        "ephemeral-storage": "100Gi",
        "pods": "110",
    }
    try:
        kubelets = KubeletOptions(
            start=Delay.parse(nodes.start_delay),
            readiness=Delay.parse(nodes.ready_delay),
            lease_s=KubeletOptions.lease_s if nodes.node_leases else None,
        )
        options = SimOptions(
            **settings,
            pools=(NodePool(count=nodes.nodes, prefix=nodes.node_prefix, capacity=capacity),),
            metrics=read_metrics(nodes.metrics) if nodes.metrics else (),
            cloud=nodes.cloud,
            side_port=nodes.side_port,
            kubelets=kubelets,
        )
        time = Clock()
        if clock.speed != 1.0 or clock.log_start is not None:
            wall = time.now() if clock.clock_wall is None else clock.clock_wall
            start = wall if clock.log_start is None else clock.log_start
            time.set(ClockSet(at=start, wall=wall, log=start, speed=clock.speed))
        cluster = SimCluster(options, time)
    except (ValueError, TraceError) as error:
        raise BadInput(str(error)) from error

    async def main(it: Process) -> None:
        from tidewright.log.disk import is_full, no_space
        from tidewright.sim.api.store.journal import JournalError

        try:
            await cluster.start()
        except OSError as error:
            if is_full(error):
                raise Unavailable(no_space(options.data or Path.cwd())) from error
            raise Unavailable(
                f"the cluster cannot listen: {error.strerror or error}: stop what uses that port,"
                " or name others with --port and --side-port"
            ) from error
        except (TimeoutError, ValueError, JournalError) as error:
            raise CommandError(str(error)) from error
        it.drain_s = KEEPS_S
        try:
            it.health.not_ready = ""
            await _until_stopped(it, cluster)
        finally:
            await cluster.stop()

    return execute("cluster", process, main)


async def _until_stopped(it: Process, cluster: Any) -> None:
    """Wait for the end of the process, or raise what ended a component."""
    import asyncio

    stop = asyncio.create_task(it.stop.wait())
    broken = asyncio.create_task(cluster.wait())
    try:
        while not stop.done():
            it.health.tick()
            await asyncio.wait({stop, broken}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                broken.result()
    finally:
        stop.cancel()
        broken.cancel()


def read_metrics(path: Path) -> tuple[Any, ...]:
    """The metrics that a YAML file lists, as `MetricOptions`.

    Raises:
        BadInput: it cannot be read, or is no such list; the message names file and field.
    """
    from tidewright.kube.yamltext import BadYaml, converted, one
    from tidewright.sim.options import MetricOptions

    text, valid = read_text(path, str(path)), "a list of metrics (docs/simulation.md)"
    try:
        metrics = converted(text, str(path), tuple[MetricOptions, ...], valid, _path)
        content = one(text, str(path), valid)
    except BadYaml as error:
        raise BadInput(str(error)) from error
    fields = set(MetricOptions.__dataclass_fields__)
    if unknown := [key for entry in content or () for key in entry if key not in fields]:
        raise BadInput(f"{path}: field {unknown[0]!r} is not known: valid are {', '.join(sorted(fields))}")
    return metrics


def _path(expected: type, value: Any) -> Any:
    if expected is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"{value!r} is no {expected.__name__}")
