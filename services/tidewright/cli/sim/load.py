"""`tidewright sim load`: replay a recorded list of pods in compressed time."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput, translated
from tidewright.asking.options import Output, emit
from tidewright.cli.answers import ReplayedLoad
from tidewright.cli.sim.target import TargetFlags, connected

if TYPE_CHECKING:
    from tidewright.sim.load import LoadReport

RECORDING = Group("Recording", sort_key=10)


def load(
    file: Annotated[Path, Parameter(help="CSV with the recorded pods.", group=RECORDING)],
    *,
    nodes: Annotated[
        Path | None, Parameter(help="CSV with the nodes they ran on, which are made first.", group=RECORDING)
    ] = None,
    namespace: Annotated[str, Parameter(help="Where the pods go.", group=RECORDING)] = "default",
    limit: Annotated[int | None, Parameter(help="Only the first so many pods.", group=RECORDING)] = None,
    speed: Annotated[
        float | None,
        Parameter(
            help="Recorded seconds per wall second; by default the cluster's own, or 3600 for a cluster of its own.",
            group=RECORDING,
        ),
    ] = None,
    at_once: Annotated[
        bool,
        Parameter(help="Create all pods now, to run until they are deleted.", group=RECORDING, negative=""),
    ] = False,
    gpu_shares: Annotated[
        bool, Parameter(help="Ask for thousandths of GPUs, as recorded.", group=RECORDING, negative="")
    ] = False,
    keep: Annotated[
        bool, Parameter(help="Leave pods that have ended where they are.", group=RECORDING, negative="")
    ] = False,
    target: TargetFlags | None = None,
    output: Output = "table",
) -> int:
    """Replay a recorded list of pods; without a cluster, in one of its own that ends with it.

    A pod is created when its time comes, runs as long as it ran, and is deleted when it has ended.
    """
    from tidewright.host.process.process import configure_logs
    from tidewright.sim.load import LoadError, LoadOptions, read_pods, replay

    configure_logs("warning", "console")
    if speed is not None and speed <= 0:
        raise BadInput(f"--speed {speed:g}: recorded seconds per wall second, more than 0")
    if limit is not None and limit < 1:
        raise BadInput(f"--limit {limit}: at least 1")
    options = LoadOptions(
        pods=file,
        nodes=nodes,
        namespace=namespace,
        limit=limit,
        at_once=at_once,
        gpu_shares=gpu_shares,
        keep=keep,
    )

    def show(report: LoadReport) -> None:
        if sys.stderr.isatty():
            print(f"\r{_line(report)}   ", end="", file=sys.stderr, flush=True)

    async def run() -> LoadReport:
        if target is None or (target.kubeconfig is None and target.server is None):
            alone: LoadReport = await _alone(options, speed or 3600.0, show)
            return alone
        async with connected(target) as kube:
            with translated():
                report: LoadReport = await replay(kube, await _clock(kube, speed), options, show)
                return report

    try:
        read_pods(file)  # before a cluster is started for it
        report = asyncio.run(run())
    except LoadError as error:
        raise BadInput(str(error)) from error
    except KeyboardInterrupt:
        return 130
    if sys.stderr.isatty():
        print(file=sys.stderr)
    emit(builtins(_answer(report)), output, lambda: _line(report))
    return 0


async def _alone(options: Any, speed: float, show: Any) -> Any:
    """Replay in a cluster of its own; the recording's nodes, or three of 64 cores."""
    from tidewright.asking.errors import Unavailable
    from tidewright.sim.cluster import SimCluster
    from tidewright.sim.load import replay
    from tidewright.sim.options import NodePool, SimOptions

    pools: tuple[NodePool, ...] = ()
    if options.nodes is None:
        pools = (
            NodePool(
                count=3, capacity={"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "250"}
            ),
        )
    try:
        async with SimCluster(SimOptions(speed=speed, pools=pools)) as cluster:
            with translated():
                return await replay(cluster.kube, cluster.clock, options, show)
    except OSError as error:
        raise Unavailable(f"the embedded cluster cannot start: {error}") from error


async def _clock(kube: Any, speed: float | None) -> Any:
    """The cluster's clock, or one of the wanted speed where it has none or another was asked for."""
    import msgspec

    from tidewright.events.config import ClockSet
    from tidewright.kube.errors import KubeError
    from tidewright.log.clock import Clock

    clock = Clock()
    cluster_clock = None
    if speed is None:
        try:
            cluster_clock = msgspec.json.decode((await kube.request("GET", "/sim/clock")).body)
        except KubeError as error:
            if error.status not in {400, 403, 404}:
                raise
    if cluster_clock is not None:
        clock.set(
            ClockSet(
                at=cluster_clock["log"],
                wall=cluster_clock["wall"],
                log=cluster_clock["log"],
                speed=cluster_clock["speed"],
            )
        )
    elif speed is not None:
        wall = clock.now()
        clock.set(ClockSet(at=wall, wall=wall, log=wall, speed=speed))
    return clock


def _answer(report: LoadReport) -> ReplayedLoad:
    return ReplayedLoad(
        pods=report.pods, nodes=report.nodes, created=report.created, bound=report.bound, ended=report.ended,
        most_pending=report.peak_pending, waited_seconds=report.waited_s,
    )  # fmt: skip


def _line(report: Any) -> str:
    waited = report.waited_s / report.bound if report.bound else 0.0
    return (
        f"{report.created} of {report.pods} pods created on {report.nodes} recorded nodes, {report.bound} bound after "
        f"{waited:.0f} s on average, {report.ended} ended, at most {report.peak_pending} pending at once"
    )
