"""How long it takes until nodes for load that is about to come are ordered, each time beside the same work with foresight off.

Real processes: nats-server, the embedded cluster with its scheduler and the simulated cloud, watcher, autoscaler, provisioning and
actuator. Two things are measured, by the log's own stamps:

- a metric's sample until the cloud's yes to the order for nodes, one Deployment after the other, and each step between;
- a new Deployment of 800 pods: from its creation to the yes to the first order, and how many orders it takes until all are placed.

With `--kubeconfig FILE` the second is done on that API server, too: one to try things on, where nodes may be simulated.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import quantiles
from typing import Any, Self

import msgspec
import yaml

from tests.bench.figures import KUBECONFIG, Bench, Figure, Size, figure
from tests.e2e.conftest import tidewright
from tests.e2e.pipeline.test_pipeline import LABELS, autoscaler
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tidewright.asking.services import DECIDERS
from tidewright.cli.crds.installing import install
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import IncreaseNodeGroup
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.log.connection import Log
from tidewright.log.envelope import CAUSE_SEQ
from tidewright.log.install import Plan, install_log
from tidewright.log.reader import Record

P50_TARGET_MS, P99_TARGET_MS, MANY_TARGET_MS = 100.0, 400.0, 500.0
CLUSTER = "bench"
MANY = 800
TURNS = 4
"""Deployments whose load goes up, in turns."""
MORE = 3
"""Pods that each time come, one to a node."""
PAUSE_S = 1.1
"""Decisions that come sooner after an order than a second are gathered."""
WITHIN_S = 120.0
HOW = ("decisions", "off")


class Bed:
    """A cluster with its services, and what they say on the log.

    Attributes:
        records: what was read of the log since the begin, of the kinds in `KINDS`.
    """

    KINDS = (ConfigSet, ScaleWorkload, IncreaseNodeGroup, Applied)

    def __init__(self, folder: Path, given: Path | None) -> None:
        self.folder, self.given = folder, given
        self.kubeconfig = given or folder / "kubeconfig"
        self.mark = uuid.uuid4().hex[:6]
        self.namespace = f"tw-bench-{self.mark}"
        self.side, self.api = free_port(), free_port()
        self.records: list[tuple[Record, Event]] = []
        self.supervisor = Supervisor(lambda name, line: None)
        self.kube: Kube
        self.log: Log
        self._configured = False

    @contextlib.asynccontextmanager
    async def running(self, *services: str) -> AsyncIterator[Self]:
        nats = EmbeddedServer(self.folder / "nats")
        await nats.start()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(nats.stop)
            stack.push_async_callback(self.supervisor.stop)
            await self._program("cluster", *self._cluster())
            self.kube = await stack.enter_async_context(await Kube.connect(self.kubeconfig))
            if self.given is None:
                await install(self.kube)
            await self.send("/api/v1/namespaces", "v1", "Namespace", self.namespace)
            stack.push_async_callback(self.kube.request, "DELETE", f"/api/v1/namespaces/{self.namespace}")
            await self._configure("off")
            self.log = await stack.enter_async_context(await Log.connect(nats.url, CLUSTER))
            await install_log(self.log, Plan(deciders=DECIDERS))
            self._reader = await stack.enter_async_context(self.log.reader([self.log.subjects.everything]))
            on = ("--nats", nats.url, "--cluster", CLUSTER)
            at = (*on, "--kubeconfig", str(self.kubeconfig))
            cloud = ("--cloud", f"simulated=simulated:http://127.0.0.1:{self.side}")
            config = ("--config-map", f"{self.namespace}/tidewright", "--cloud-interval", "0.3")
            await self._program("watcher", "run", "watcher", *at, *cloud, *config, "--metrics-interval", "1")
            for service in services:
                await self._program(service, "run", service, *on)
            await self._program("actuator", "run", "actuator", *at, *cloud)
            yield self

    async def _program(self, name: str, *arguments: str) -> None:
        await self.supervisor.start(Program(name, tidewright(*arguments), env={"KUBECONFIG": None}))

    def _cluster(self) -> tuple[str, ...]:
        groups = [self._group("web", TURNS), *(self._group(f"many-{how}", 0) for how in HOW)]
        (self.folder / "cloud.yaml").write_text(yaml.safe_dump({"groups": groups}))
        common = (
            "--nodes", "0", "--start-delay", "0.1", "--node-prefix", self.mark, "--side-port", str(self.side),
            "--cloud", str(self.folder / "cloud.yaml"), "--log-format", "json", "--health-port", "0",
        )  # fmt: skip
        if self.given is not None:
            return ("sim", "attach", "--kubeconfig", str(self.given), *common)
        return ("sim", "up", "--port", str(self.api), "--write-kubeconfig", str(self.kubeconfig), *common)

    def _group(self, name: str, initial: int) -> dict[str, Any]:
        """A group whose nodes only pods of this bench select."""
        pool = f"{name}-{self.mark}"
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        taints = [{"key": "pool", "value": self.mark, "effect": "NoSchedule"}]
        template = {"capacity": capacity, "labels": {"pool": pool}, "taints": taints}
        return {
            "id": pool, "min": 0, "max": 1000, "initial": initial, "boot": "0.1", "delete": 0, "template": template,
        }  # fmt: skip

    # --- what is asked of it ---

    async def send(self, path: str, version: str, kind: str, name: str, **more: Any) -> None:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}
        await self.kube.request("POST", path, body=msgspec.json.encode(body))

    async def deployment(self, name: str, pool: str, replicas: int, cpu: str) -> None:
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        labels = {**LABELS, "name": name}
        pod = {
            "nodeSelector": {"pool": f"{pool}-{self.mark}"},
            "tolerations": [{"key": "pool", "operator": "Exists"}],
            "containers": [container],
        }
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        await self.send(path, "apps/v1", "Deployment", name, spec=spec)

    async def load(self, side: Kube, name: str, replicas: int) -> None:
        """So much that a Deployment is to have so many replicas."""
        sample = {
            "name": name, "value": 10.0 * replicas, "namespace": self.namespace, "labels": LABELS,
        }  # fmt: skip
        await side.request("POST", "/sim/metrics", body=msgspec.json.encode([sample]))

    async def foresight(self, how: str) -> None:
        """Have provisioning work so from here on."""
        begin = len(self.records)
        await self._configure(how)
        await self.until(
            lambda event: isinstance(event, ConfigSet) and event.data.get("foresight") == how, begin
        )
        await asyncio.sleep(PAUSE_S)

    async def _configure(self, how: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        method, path = ("PUT", f"{path}/tidewright") if self._configured else ("POST", path)
        settings = {"namespace": self.namespace, "foresight": how, "scale-down-enabled": False}
        data = {"provisioning": msgspec.json.encode(settings).decode()}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tidewright"}, "data": data}
        await self.kube.request(method, path, body=msgspec.json.encode(body))
        self._configured = True

    async def placed(self, name: str, count: int) -> None:
        """Wait until so many pods of a Deployment have a node."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=name%3D{name}"
        async with asyncio.timeout(WITHIN_S):
            while True:
                answer = await self.kube.request("GET", path)
                pods = msgspec.json.decode(bytes(answer.body))["items"]
                if sum("nodeName" in pod["spec"] for pod in pods) >= count:
                    return
                await asyncio.sleep(0.2)

    async def until(self, holds: Callable[[Event], bool], begin: int) -> tuple[Record, Event]:
        """Read on until something that was said since `begin` is as wanted; the first that is."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                for record, event in self.records[begin:]:
                    if holds(event):
                        return record, event
                begin = max(begin, len(self.records))
                await self.read(5.0)

    async def read(self, timeout_s: float) -> None:
        for record in await self._reader.fetch(500, timeout_s=timeout_s):
            event = registry.read(record.body)
            if isinstance(event, self.KINDS):
                self.records.append((record, event))

    async def stored(self, seq: int) -> float:
        """The log's stamp of a message, seconds since the epoch."""
        answer = await self.log.api(f"STREAM.MSG.GET.{self.log.stream}", {"seq": seq})
        seconds, _, fraction = str(answer["message"]["time"]).rstrip("Z").partition(".")
        return datetime.fromisoformat(f"{seconds}+00:00").timestamp() + float(f"0.{fraction or 0}")


async def rounds(bed: Bed, count: int, replicas: dict[str, int]) -> list[list[float]]:
    """Of each rise of a load: the stamps of sample, decision, order, and the cloud's yes."""
    found = []
    async with Kube.at(f"http://127.0.0.1:{bed.side}") as side:
        for number in range(count):
            name = f"web-{number % TURNS}"
            begin = len(bed.records)
            replicas[name] += MORE
            await bed.load(side, name, replicas[name])
            decided, _ = await bed.until(
                lambda e, name=name: isinstance(e, ScaleWorkload) and e.target.name == name,  # type: ignore[misc]
                begin,
            )
            ordered, order = await bed.until(lambda e: isinstance(e, IncreaseNodeGroup), begin)
            assert isinstance(order, IncreaseNodeGroup)
            accepted, _ = await bed.until(
                lambda e, wanted=order.id: isinstance(e, Applied) and e.decision == wanted,  # type: ignore[misc]
                begin,
            )
            seqs = (int(decided.headers[CAUSE_SEQ]), decided.seq, ordered.seq, accepted.seq)
            found.append([await bed.stored(seq) for seq in seqs])
            await bed.placed(name, replicas[name])
            await asyncio.sleep(PAUSE_S)
    return found


async def reactions(bed: Bed, count: int) -> dict[str, list[list[float]]]:
    """The same rises with foresight and without, half of each in turns."""
    replicas = {f"web-{number}": 1 for number in range(TURNS)}
    path = f"/apis/datadoghq.com/v1alpha1/namespaces/{bed.namespace}/watermarkpodautoscalers"
    async with Kube.at(f"http://127.0.0.1:{bed.side}") as side:
        for name in replicas:
            await bed.load(side, name, 1)
            await bed.deployment(name, "web", 1, "7")
            await bed.placed(name, 1)
            wanted = autoscaler(
                name, target=name, maxReplicas=1000, scaleUpLimitFactor="5000", tolerance="0.01",
                upscaleForbiddenWindowSeconds=1,
            )  # fmt: skip
            await bed.send(path, wanted["apiVersion"], wanted["kind"], name, spec=wanted["spec"])
    found: dict[str, list[list[float]]] = {how: [] for how in HOW}
    for _ in range(2):
        for how in HOW:
            await bed.foresight(how)
            found[how] += await rounds(bed, max(2, count // 2 if how != "off" else count // 6), replicas)
    return found


async def many(bed: Bed, how: str, count: int) -> tuple[float, int, float]:
    """Seconds from a Deployment's creation to the yes to the first order, how many orders, and seconds until all pods have a node."""
    await bed.foresight(how)
    begin, begun = len(bed.records), time.time()
    await bed.deployment(f"many-{how}", f"many-{how}", count, "500m")
    _, order = await bed.until(lambda e: isinstance(e, IncreaseNodeGroup), begin)
    assert isinstance(order, IncreaseNodeGroup)
    accepted, _ = await bed.until(lambda e: isinstance(e, Applied) and e.decision == order.id, begin)
    await bed.placed(f"many-{how}", count)
    placed = time.time() - begun
    await bed.read(1.0)
    orders = sum(isinstance(event, IncreaseNodeGroup) for _, event in bed.records[begin:])
    return await bed.stored(accepted.seq) - begun, orders, placed


def at(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1] * 1e3


def chain(found: dict[str, list[list[float]]]) -> list[Figure]:
    steps = (
        ("metric sample stored to node order accepted", 0, 3, P50_TARGET_MS, P99_TARGET_MS),
        ("metric sample stored to decision stored", 0, 1, None, None),
        ("decision stored to order stored", 1, 2, None, None),
        ("order stored to its acceptance stored", 2, 3, None, None),
    )
    figures = []
    for step, begin, end, p50, p99 in steps:
        took = {how: [stamps[end] - stamps[begin] for stamps in found[how]] for how in HOW}
        for percent, target in ((50, p50), (99, p99)):
            figures.append(
                figure(
                    f"foresight/{step}, p{percent}", at(took["decisions"], percent), "ms", "lower", target,
                    baseline="foresight off", baseline_value=at(took["off"], percent),
                )
            )  # fmt: skip
    return figures


async def burst(bed: Bed, count: int, where: str) -> list[Figure]:
    (first, orders, placed), (slow, more, late) = [await many(bed, how, count) for how in HOW]
    of, off = f"foresight/{count} pods of a new Deployment, {where}", "foresight off"
    return [
        figure(
            f"{of}: created to order accepted", first * 1e3, "ms", "lower", MANY_TARGET_MS,
            baseline=off, baseline_value=slow * 1e3,
        ),
        figure(f"{of}: increases", orders, "orders", "lower", 1, baseline=off, baseline_value=more),
        figure(f"{of}: created to all have a node", placed, "s", "lower", baseline=off, baseline_value=late),
    ]  # fmt: skip


async def measure(rises: int, pods: int) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        async with Bed(Path(folder), None).running("autoscaler", "provisioning") as bed:
            figures += chain(await reactions(bed, rises))
            figures += await burst(bed, pods, "embedded cluster")
    if given := os.environ.get(KUBECONFIG):
        with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
            async with Bed(Path(folder), Path(given)).running("provisioning") as bed:
                figures += await burst(bed, pods, "given API server")
    return figures


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return asyncio.run(measure(60, MANY) if size == "full" else measure(6, 80))


BENCHES = (Bench("foresight", run, within_s=600.0),)
