"""The demo as a command: everything up, the load on it, the log followed to the end of the load."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import sys
import time
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from cyclopts import Group, Parameter

from tidewright.asking.errors import INTERRUPTED, BadInput, CommandError, translated
from tidewright.cli import datafolder
from tidewright.cli.console import Printer
from tidewright.cli.datafolder import DataFolder
from tidewright.cli.demo import objects
from tidewright.cli.demo.story import Story
from tidewright.cli.demo.summary import DemoRun, as_json, as_text
from tidewright.cli.demo.view import view_for
from tidewright.cli.stack import Stack, StackOptions
from tidewright.cli.typed import typed
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.log.connection import Log
from tidewright.sim.metrics.trace import Trace, TraceError

SERVICES = ("watcher", "autoscaler", "actuator")
SECONDS = 40.0
"""Wall seconds that the load takes at the default speed: the demo ends within a minute."""
LEAD_S, MOST_LEAD_S = 8.0, 30.0
"""Wall seconds from the start to the beginning of the load, in which everything comes up."""
LEAD_PER_IMPORT = 8.0
"""The lead as a multiple of what one service's imports take here and now: on a busy machine it is longer."""
SAMPLE_EVERY_S = 0.08
"""Wall seconds between two samples of the metric, at most speeds; never less than 15 s of log time."""
LEAST_INTERVAL_S = 15.0
SETTLE_WITHIN_S = 5.0
"""Wall seconds that the last outcomes may take."""

TOLD = frozenset(("fact", "decision", "outcome"))
"""Classes of messages that the story is made of."""

LOAD = Group("Load", sort_key=0)


def demo(
    *,
    metrics: Annotated[
        Path | None, Parameter(help="Recorded load, CSV with the columns timestamp,value.", group=LOAD)
    ] = None,
    speed: Annotated[
        float | None,
        Parameter(help="Log seconds per wall second; by default the load takes 40 s.", group=LOAD),
    ] = None,
    data: Annotated[
        Path | None, Parameter(help="Data folder of demos, made anew; by default one for this checkout.")
    ] = None,
    output: Annotated[
        Literal["table", "json"], Parameter(name=["--output", "-o"], help="How to print the summary.")
    ] = "table",
) -> int:
    """Watch an autoscaler follow a recorded load, in a minute."""
    if speed is not None and not 0 < speed < math.inf:
        raise BadInput(f"--speed {speed:g}: log seconds per wall second, more than 0")
    with as_file(files("tidewright.cli.demo") / "load.csv") as built_in:
        path = metrics or built_in
        try:
            trace = Trace.load(path)
        except TraceError as error:
            raise BadInput(str(error)) from error
        configure_logs("warning", "json", service="demo")
        plan = _Plan(trace, path, "built-in" if metrics is None else str(metrics), speed, data)
        return asyncio.run(_run(plan, json_output=output == "json"))


class _Plan:
    """What will run: the trace, its marks, and the clock."""

    def __init__(self, trace: Trace, path: Path, source: str, speed: float | None, data: Path | None) -> None:
        self.path, self.source = path, source
        self.marks = objects.marks_for(trace.values)
        self.duration_s = trace.duration_s
        self.speed = speed or max(1.0, trace.duration_s / SECONDS)
        self.interval_s = max(LEAST_INTERVAL_S, SAMPLE_EVERY_S * self.speed)
        self.folder = (data or datafolder.of_demos()).expanduser().resolve()
        # Stamps that count from 0 are moved to the present: Kubernetes knows no times before 1970.
        self.start = trace.times[0] if trace.times[0] > 1e8 else float(int(time.time()))

    def options(self, wall: float) -> StackOptions:
        """The stack; the load begins at `wall`, and what is before it has its first value."""
        metric = {
            "name": objects.METRIC, "namespace": objects.NAMESPACE, "labels": objects.LABELS,
            "source": "trace", "trace": str(self.path), "anchor": self.start,
        }  # fmt: skip
        served = self.folder / "metrics.yaml"
        served.write_text(yaml.safe_dump([metric]))
        return StackOptions(
            data=self.folder, made_by="demo", max_age_s=0.0, cluster="demo", services=SERVICES, slots=4,
            speed=self.speed, log_start=self.start, clock_wall=wall,
            sim=("--nodes", "4", "--metrics", str(served)),
            watcher=(
                *("--metrics-interval", repr(self.interval_s)),
                *("--config-map", f"{objects.NAMESPACE}/{objects.CONFIG_MAP}"),
            ),
            stop_within_s=5.0,
        )  # fmt: skip


async def _run(plan: _Plan, *, json_output: bool) -> int:
    """Run the demo; returns the exit code."""
    folder = DataFolder.open(plan.folder, "demo", fresh=True)  # before anything is written there
    try:
        return await _run_in(folder, plan, json_output=json_output)
    finally:
        folder.close()


async def _run_in(folder: DataFolder, plan: _Plan, *, json_output: bool) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
    print(
        f"load: {plan.source}, {plan.duration_s / 3600:,.0f} hours at {plan.speed:,.0f} times the speed\n"
        f"logs of the services: {plan.folder / 'services.log'}\n"
        "look at it meanwhile, in another terminal:\n"
        f"  {typed('kubectl')} --kubeconfig {plan.folder / 'kubeconfig'} get wpa,deployments,pods -n demo\n"
        f"starting: log, cluster, {', '.join(SERVICES)}",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    wall = time.time() + await _lead_s()
    options = plan.options(wall)
    try:
        with (plan.folder / "services.log").open("w") as logs:
            async with Stack(options, Printer(logs, as_json=True), folder) as stack:
                run = DemoRun(
                    trace=plan.source, marks=plan.marks, start=plan.start, end=plan.start + plan.duration_s,
                    speed=plan.speed, folder=str(plan.folder), cluster=options.cluster,
                    wall_s=plan.duration_s / plan.speed, command=typed("tidewright"),
                )  # fmt: skip
                story = await _play(stack, plan, run, json_output=json_output)
    except asyncio.CancelledError:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    if json_output:
        print(json.dumps(as_json(story, run), indent=2))
    else:
        print(as_text(story, run))
    return 0


async def _lead_s() -> float:
    """How long everything may take to come up on this machine, wall seconds."""
    begun = time.monotonic()
    imports = await asyncio.create_subprocess_exec(sys.executable, "-c", "import tidewright.watcher.service")
    await imports.wait()
    return min(MOST_LEAD_S, max(LEAD_S, LEAD_PER_IMPORT * (time.monotonic() - begun)))


async def _play(stack: Stack, plan: _Plan, run: DemoRun, *, json_output: bool) -> Story:
    """Put the load on, and follow the log until the load is over and every decision is answered."""
    with translated():
        async with await Kube.connect(stack.kubeconfig) as kube:
            await _create(kube, objects.manifests(plan.marks, objects.Windows.at(plan.speed)))
        async with await Log.connect(
            stack.nats_url, stack.options.cluster, name="demo", timeout_s=5.0
        ) as log:
            await log.adopt_slots()
            with view_for(run, json_output=json_output) as view:
                return await _follow(log, stack, run, view.update)


async def _create(kube: Kube, manifests: list[tuple[str, dict[str, object]]]) -> None:
    for path, manifest in manifests:
        try:
            await kube.request("POST", path, body=msgspec.json.encode(manifest))
        except KubeError as error:
            raise CommandError(f"{manifest['kind']} of the demo: {error}") from error


async def _follow(log: Log, stack: Stack, run: DemoRun, show: Callable[[Story], None]) -> Story:
    story, subjects = Story(), log.subjects
    patience = 0.0
    # One wide filter: with several, the server is slow where it is writing (decision record 3).
    async with log.reader([subjects.everything]) as reader:
        while True:
            for record in await reader.fetch(timeout_s=0.2):
                if subjects.class_token(record.subject) not in TOLD:
                    continue
                event = registry.decode(record.body)
                if isinstance(event, Event):
                    story.fold(event)
            show(story)
            if stack.clock.now() < run.end:
                continue
            patience = patience or time.monotonic() + SETTLE_WITHIN_S
            if story.settled or time.monotonic() > patience:
                return story
