"""How long a metric's sample takes to become a scale: from its commit on the log to the API server's yes.

Real processes: nats-server, the embedded cluster, watcher, autoscaler and actuator. Both ends of the
time are others' records: the log's own stamp of the message with the sample, and the API server's
request log. Loads go up and down under every autoscaler at once, so that scales compete.

Beside it, in the same run: the same work in one process without a log between (`one_process`), which is what the targets
are of; and the least that such a reaction takes, a message appended to a log of its own, read by a consumer, and answered
by a scale request, one at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import signal
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from statistics import quantiles
from typing import Any

import msgspec
import uvloop

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.one_process import OneProcess
from tests.e2e.conftest import tidewright
from tests.e2e.pipeline.test_pipeline import DEPLOYMENT, LABELS, autoscaler
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.cli.crds.installing import install
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.events import registry
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import MetricSampled
from tidewright.events.outcomes import Applied
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import CAUSE_SEQ
from tidewright.log.install import Plan, install_log
from tidewright.sim.api.http.request_log import Entry
from tidewright.sim.cluster import SimCluster
from tidewright.sim.options import KubeletOptions, NodePool, SimOptions

P50_TARGET, P99_TARGET = 6.0, 10.0
"""Times the median of the same work in one process."""
CLUSTER = "bench"
SAMPLE_EVERY_S = 1.0
CHANGE_EVERY_S = 2.5
"""The forbidden windows are a second: each change of the load may be answered."""
HIGH, LOW = 100.0, 1.0
BUSY = 20
"""Autoscalers that scale every 2.5 s: with events and status about as many requests as the actuator may make."""


def serve(folder: Path) -> None:
    """The child: the embedded cluster. At its end it writes down what it was asked."""

    async def main() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        options = SimOptions(
            pools=(NodePool(count=4),), kubelets=KubeletOptions(), write_kubeconfig=folder / "kubeconfig"
        )
        async with SimCluster(options) as cluster:
            assert cluster.server is not None
            cluster.server.requests.entries = deque()  # all of them: what is measured beside makes many more
            print(msgspec.json.encode([cluster.url, cluster.side_url]).decode(), flush=True)
            await stop.wait()
            (folder / "requests.json").write_bytes(msgspec.json.encode(list(cluster.server.requests.entries)))

    configure_logs("warning", "console")
    uvloop.run(main())


class Embedded:
    """The embedded cluster as a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.url = self.side_url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        command = (sys.executable, "-m", "tests.bench.reaction", "--serve", str(self.folder))
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        self.url, self.side_url = msgspec.json.decode(await process.stdout.readline(), type=list[str])
        try:
            yield
        finally:
            process.terminate()
            await process.wait()

    def scales(self, until: float) -> dict[str, list[float]]:
        """When each Deployment was given a new scale, by namespace, in order, up to a time; once the process has ended."""
        entries = msgspec.json.decode((self.folder / "requests.json").read_bytes(), type=list[Entry])
        found: dict[str, list[float]] = defaultdict(list)
        for entry in entries:
            written = entry.method in ("PUT", "PATCH") and entry.code == 200 and entry.at <= until
            if written and entry.path.endswith("/deployments/web/scale"):
                found[entry.path.split("/")[5]].append(entry.at)
        return found


async def prepare(kube: Kube, namespaces: Sequence[str]) -> None:
    """A Deployment with its autoscaler per namespace."""
    await install(kube)
    spec: dict[str, Any] = {
        "algorithm": "absolute", "minReplicas": 2, "maxReplicas": 4, "scaleUpLimitFactor": "300", "scaleDownLimitFactor": "90",
        "upscaleForbiddenWindowSeconds": 1, "downscaleForbiddenWindowSeconds": 1,
    }  # fmt: skip
    for name in namespaces:
        made = [
            ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            (f"/apis/apps/v1/namespaces/{name}/deployments", DEPLOYMENT),
            (
                f"/apis/datadoghq.com/v1alpha1/namespaces/{name}/watermarkpodautoscalers",
                autoscaler(f"{name}.load", **spec),
            ),
        ]
        for path, manifest in made:
            await kube.request("POST", path, body=msgspec.json.encode(manifest))


async def push(side: Kube, namespaces: Sequence[str], value: float) -> None:
    metrics = [{"name": f"{n}.load", "value": value, "namespace": n, "labels": LABELS} for n in namespaces]
    await side.request("POST", "/sim/metrics", body=msgspec.json.encode(metrics))


async def react(embedded: Embedded, nats_url: str, count: int, changes: int) -> None:
    """Run the services while the load goes up and down; what they did is on the log afterwards."""
    namespaces = [f"team-{n}" for n in range(count)]
    supervisor = Supervisor(lambda name, line: None)
    on = ("--nats", nats_url, "--cluster", CLUSTER)
    at = ("--kubeconfig", str(embedded.kubeconfig))

    def program(service: str, *more: str) -> Program:
        return Program(service, tidewright("run", service, *on, *more), env={"KUBECONFIG": None})

    async with Kube.at(embedded.url) as kube, Kube.at(embedded.side_url) as side:
        await push(side, namespaces, LOW)
        await prepare(kube, namespaces)
        async with await Log.connect(nats_url, CLUSTER) as log:
            await install_log(log, Plan(deciders=DECIDERS))
        try:
            await supervisor.start(
                program("watcher", *at, "--metrics-interval", str(SAMPLE_EVERY_S)),
                program("autoscaler"),
                program("actuator", *at),
            )
            for change in range(changes):
                await push(side, namespaces, HIGH if change % 2 == 0 else LOW)
                await asyncio.sleep(CHANGE_EVERY_S)
        finally:
            await supervisor.stop()


async def sampled(log: Log) -> dict[str, list[float]]:
    """Of each scale that was made: when the sample that led to it was stored, by namespace, in order of the scales.

    A scale with another cause (a window that ended) has NaN in its place. A decision that changed nothing
    is left out: on a machine that lags behind the seconds' windows the same one is taken again, found to
    hold already, or rejected because the count has changed since.
    """
    found: dict[str, list[float]] = defaultdict(list)
    async with log.reader([f"{log.subjects.root}.outcome.>"]) as reader:
        outcomes = [registry.decode(record.body) async for record in reader.until_current()]
    made = {o.decision for o in outcomes if isinstance(o, Applied) and not o.found}
    async with log.reader([log.subjects.decisions("*", "autoscaler")]) as reader:
        records = [record async for record in reader.until_current()]
    for record in records:
        decision = registry.decode(record.body)
        if isinstance(decision, ScaleWorkload) and decision.id in made:
            answer = await log.api(f"STREAM.MSG.GET.{log.stream}", {"seq": int(record.headers[CAUSE_SEQ])})
            found[decision.target.namespace].append(stored_at(answer["message"]))
    return found


def stored_at(message: dict[str, Any]) -> float:
    """The server's stamp of a message with a sample, seconds since the epoch; NaN for any other."""
    if not isinstance(registry.decode(base64.b64decode(message["data"])), MetricSampled):
        return float("nan")
    seconds, _, fraction = str(message["time"]).rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}+00:00").timestamp() + float(f"0.{fraction or 0}")


async def least(nats_url: str, kube: Kube, count: int) -> list[float]:
    """Seconds from an append's start to the answer of a scale request, through one consumer, in one process."""
    await prepare(kube, ["least"])
    path = "/apis/apps/v1/namespaces/least/deployments/web/scale"
    found = []
    async with await Log.connect(nats_url, "least") as log:
        await install_log(log, Plan(slots=1, deciders=DECIDERS))
        async with log.reader([log.subjects.everything]) as reader:
            for n in range(count):
                begun = time.perf_counter()
                await log.commit([Message(log.subjects.config(f"n{n}"), b"{}")])
                while not await reader.fetch():
                    pass
                body = msgspec.json.encode({"spec": {"replicas": 2 + n % 2}})
                await kube.request("PATCH", path, body=body, content_type="application/merge-patch+json")
                found.append(time.perf_counter() - begun)
    return found


async def measure(name: str, count: int, changes: int, *, judged: bool) -> list[Figure]:
    """Reaction times of `count` autoscalers whose loads change at once, the same work alone, and the least that they could be."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        embedded = Embedded(Path(folder))
        nats = EmbeddedServer(Path(folder) / "nats")
        await nats.start()
        try:
            async with embedded.running():
                await react(embedded, nats.url, count, changes)
                ended = time.time()
                async with await Log.connect(nats.url, CLUSTER, timeout_s=10.0) as log:
                    await log.adopt_slots()
                    causes = await sampled(log)
                    async with Kube.at(embedded.url) as kube:
                        same = await OneProcess(log, kube).reactions()
                        bare = await least(nats.url, kube, 100)
        finally:
            await nats.stop()
        accepted = embedded.scales(ended)
    times = []
    for namespace, stored in causes.items():
        # Equally many, or somebody else scaled too, and no pair would be right.
        if len(stored) != len(accepted[namespace]):
            raise RuntimeError(
                f"{namespace}: {len(stored)} scales applied, {len(accepted[namespace])} accepted by the API server"
            )
        times += [a - s for s, a in zip(stored, accepted[namespace], strict=True) if s == s]  # not NaN
    if len(times) < count * changes // 2:
        raise RuntimeError(
            f"only {len(times)} scales were caused by samples in {changes} changes of {count} loads"
        )
    spread, alone, floor = (
        [cut * 1e3 for cut in quantiles(seconds, n=100)] for seconds in (times, same, bare)
    )
    work, beside = "the same work in one process", "append, read and scale in one process"
    p50_ms, p99_ms = (P50_TARGET * alone[49], P99_TARGET * alone[49]) if judged else (None, None)
    return [
        figure(f"{name}/p50", spread[49], "ms", "lower", p50_ms, baseline=work, baseline_value=alone[49]),
        figure(f"{name}/p99", spread[98], "ms", "lower", p99_ms, baseline=work, baseline_value=alone[98]),
        figure(f"{name}/p50 beside the least", spread[49], "ms", "lower", baseline=beside, baseline_value=floor[49]),
        figure(f"{name}/p99 beside the least", spread[98], "ms", "lower", baseline=beside, baseline_value=floor[98]),
    ]  # fmt: skip


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    count, changes = (8, 24) if size == "full" else (3, 4)
    # Not uvloop: children with a group of their own are beyond it.
    return asyncio.run(measure("reaction", count, changes, judged=True))


def busy(size: Size) -> list[Figure]:
    """As many as make the actuator's budget of requests count: their scales go before all reports.

    Without a target: the issue asks for none with so many on two cores.
    """
    configure_logs("warning", "console")
    changes = 16 if size == "full" else 4
    return asyncio.run(measure(f"reaction/{BUSY} at once", BUSY, changes, judged=False))


BENCHES = (Bench("reaction", run), Bench("reaction_busy", busy))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path, required=True, help=argparse.SUPPRESS)
    serve(parser.parse_args().serve)
