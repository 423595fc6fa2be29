"""The demo as a command: which story is played, and how fast."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from cyclopts import Group, Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput
from tidewright.cli import datafolder
from tidewright.cli.demo import objects, stage
from tidewright.cli.demo.nodes.play import NodesPlay
from tidewright.cli.demo.story import Story
from tidewright.cli.demo.summary import DemoRun, as_text, summary
from tidewright.cli.demo.view import view_for
from tidewright.cli.stack import StackOptions
from tidewright.cli.typed import typed
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.log.clock import Clock
from tidewright.sim.metrics.trace import Trace, TraceError

SERVICES = ("watcher", "autoscaler", "actuator")
SECONDS = 40.0
"""Wall seconds that the load takes at the default speed: the demo ends within a minute."""
SAMPLE_EVERY_S = 0.08
"""Wall seconds between two samples of the metric, at most speeds; never less than 15 s of log time."""
LEAST_INTERVAL_S = 15.0
SETTLE_WITHIN_S = 5.0
"""Wall seconds that the last outcomes may take."""

LOAD = Group("Load", sort_key=0)


def demo(
    *,
    story: Annotated[
        Literal["load", "nodes"],
        Parameter(
            help="load: an autoscaler follows a recorded load; nodes: nodes follow pods that come and go, and what that saved."
        ),
    ] = "load",
    metrics: Annotated[
        Path | None, Parameter(help="Recorded load, CSV with the columns timestamp,value.", group=LOAD)
    ] = None,
    speed: Annotated[
        float | None,
        Parameter(help="Log seconds per wall second; by default either story takes 40 s.", group=LOAD),
    ] = None,
    data: Annotated[
        Path | None, Parameter(help="Data folder of demos, made anew; by default one for this checkout.")
    ] = None,
    console: Annotated[
        bool, Parameter(help="Run the web console, too, where it is installed.", negative="")
    ] = False,
    output: Annotated[
        Literal["table", "json"], Parameter(name=["--output", "-o"], help="How to print the summary.")
    ] = "table",
) -> int:
    """Watch an autoscaler follow a recorded load, in a minute; or nodes follow pods."""
    if speed is not None and not 0 < speed < math.inf:
        raise BadInput(f"--speed {speed:g}: log seconds per wall second, more than 0")
    if story == "nodes" and metrics is not None:
        raise BadInput(f"--metrics {metrics}: only with --story load, which has a load to follow")
    folder = (data or datafolder.of_demos()).expanduser().resolve()
    configure_logs("warning", "json", service="demo")
    if story == "nodes":
        nodes = NodesPlay(folder, speed, json_output=output == "json")
        return asyncio.run(stage.run(nodes, console=console))
    with as_file(files("tidewright.cli.demo") / "load.csv") as built_in:
        path = metrics or built_in
        try:
            trace = Trace.load(path)
        except TraceError as error:
            raise BadInput(str(error)) from error
        source = "built-in" if metrics is None else str(metrics)
        load = _LoadPlay(trace, path, source, speed, folder, as_json=output == "json")
        return asyncio.run(stage.run(load, console=console))


class _LoadPlay:
    """An autoscaler follows a load: the trace, its marks, and the clock."""

    settle_within_s = SETTLE_WITHIN_S

    def __init__(
        self, trace: Trace, path: Path, source: str, speed: float | None, folder: Path, *, as_json: bool
    ) -> None:
        self.path, self.source, self.folder, self.as_json = path, source, folder, as_json
        self.marks = objects.marks_for(trace.values)
        self.duration_s = trace.duration_s
        self.speed = speed or max(1.0, trace.duration_s / SECONDS)
        self.interval_s = max(LEAST_INTERVAL_S, SAMPLE_EVERY_S * self.speed)
        # Stamps that count from 0 are moved to the present: Kubernetes knows no times before 1970.
        self.start = trace.times[0] if trace.times[0] > 1e8 else float(int(time.time()))
        self.end = self.start + self.duration_s
        self.telling = Story()
        self.run = DemoRun(
            trace=source, marks=self.marks, start=self.start, end=self.end, speed=self.speed, folder=str(folder),
            cluster="demo", wall_s=self.duration_s / self.speed, command=typed("tidewright"),
        )  # fmt: skip

    def heading(self) -> str:
        return (
            f"load: {self.source}, {self.duration_s / 3600:,.0f} hours at {self.speed:,.0f} times the speed\n"
            f"logs of the services: {self.folder / 'services.log'}\n"
            "look at it meanwhile, in another terminal:\n"
            f"  {typed('kubectl')} --kubeconfig {self.folder / 'kubeconfig'} get wpa,deployments,pods -n demo\n"
            f"  {typed('tidewright')} console\n"
            f"starting: log, cluster, {', '.join(SERVICES)}"
        )

    def options(self, wall: float) -> StackOptions:
        """The stack; the load begins at `wall`, and what is before it has its first value."""
        metric = {
            "name": objects.METRIC, "namespace": objects.NAMESPACE, "labels": objects.LABELS,
            "source": "trace", "trace": str(self.path), "anchor": self.start,
        }  # fmt: skip
        served = self.folder / "metrics.yaml"
        served.write_text(yaml.safe_dump([metric]))
        return StackOptions(
            data=self.folder, made_by="demo", max_age_s=0.0, cluster=self.run.cluster, services=SERVICES, slots=4,
            speed=self.speed, log_start=self.start, clock_wall=wall,
            sim=("--nodes", "4", "--metrics", str(served)),
            watcher=(
                *("--metrics-interval", repr(self.interval_s)),
                *("--config-map", f"{objects.NAMESPACE}/{objects.CONFIG_MAP}"),
            ),
            stop_within_s=5.0,
        )  # fmt: skip

    def manifests(self) -> list[tuple[str, dict[str, Any]]]:
        return objects.manifests(self.marks, objects.Windows.at(self.speed))

    @contextmanager
    def view(self) -> Iterator[Callable[[], None]]:
        with view_for(self.run, json_output=self.as_json) as view:
            yield lambda: view.update(self.telling)

    async def perform(self, kube: Kube, clock: Clock) -> None:
        """Nothing: the metric has its values from the trace."""

    def summary(self) -> str:
        if self.as_json:
            return json.dumps(builtins(summary(self.telling, self.run)), indent=2)
        return as_text(self.telling, self.run)
