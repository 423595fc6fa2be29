"""How long nodes that nobody needs take to go: 200 empty ones, and 200 of five pods each, all allowed at once.

Real processes: nats-server, the embedded cluster with the simulated cloud, watcher, provisioning and actuator. The time is from the
setting that allows removals to the last Node object's end, so it has the pass and every step of each node in it.

Every delay is 0 but for the interval of passes, which is as short as it may usefully be: timers of the log come up to a quarter of a
second late. Beside the time stands what the machine did for it: processor time of our services, of the servers, and messages.

Beside it, in the same run and on the same server: what such nodes ask for at least, one taint, the evictions and one deletion of
each, as bare requests from one process with as many nodes at once.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import yaml

from tests.bench.figures import Bench, Figure, Size, figure, rounded
from tests.e2e.conftest import tidewright
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.cli.crds.installing import install
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log

CLUSTER, NAMESPACE = "bench", "default"
RATIO_TARGET = 2.0
PODS = 5
STAY = 2
"""Nodes of a group that may not shrink, with room for all pods."""
EMPTY_AT_ONCE, DRAINS_AT_ONCE = 200, 50
WITHIN_S = 240.0
NODES = "/api/v1/nodes"
PODS_OF = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
SETTINGS = {
    "namespace": NAMESPACE, "scan-interval": "100ms", "scale-down-unneeded-time": "0s", "scale-down-delay-after-add": "0s",
    "scale-down-delay-after-delete": "0s", "scale-down-delay-after-failure": "0s", "node-delete-delay-after-taint": "0s",
    "max-scale-down-parallelism": EMPTY_AT_ONCE, "max-drain-parallelism": DRAINS_AT_ONCE, "max-bulk-soft-taint-count": 0,
}  # fmt: skip


def groups(count: int) -> dict[str, Any]:
    """`count` nodes that may go, and those that stay."""

    def group(name: str, low: int, count: int, cpu: str) -> dict[str, Any]:
        capacity = {"cpu": cpu, "memory": "512Gi", "pods": "2000"}
        return {
            "id": name, "min": low, "max": count, "initial": count, "boot": 0, "delete": 0,
            "template": {"capacity": capacity, "labels": {"pool": name}},
        }  # fmt: skip

    return {"groups": [group("goes", 0, count, "8"), group("stays", STAY, STAY, "128")]}


def config(*, removes: bool) -> bytes:
    data = {"provisioning": msgspec.json.encode(SETTINGS | {"scale-down-enabled": removes}).decode()}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tidewright"}, "data": data}
    )


def pod(name: str, node: str) -> bytes:
    """A pod that may be moved though nobody would make it again, and that ends at once."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    metadata = {"name": name, "annotations": annotations}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


async def nodes(kube: Kube, pool: str) -> list[dict[str, Any]]:
    answer = await kube.request("GET", f"{NODES}?labelSelector=pool%3D{pool}")
    found: list[dict[str, Any]] = msgspec.json.decode(bytes(answer.body))["items"]
    return found


async def until(kube: Kube, pool: str, count: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while len(await nodes(kube, pool)) != count:  # noqa: ASYNC110  # the API server is another process
            await asyncio.sleep(0.05)


async def populate(kube: Kube, pool: str, pods: int) -> list[str]:
    """So many pods on each node of a pool; its nodes."""
    names = [node["metadata"]["name"] for node in await nodes(kube, pool)]
    for name in names:
        for n in range(pods):
            await kube.request("POST", PODS_OF, body=pod(f"{name}-{n}", name))
    return names


async def bare(kube: Kube, count: int, pods: int, at_once: int) -> float:
    """Seconds that the least requests for so many nodes take."""
    for n in range(count):
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"bare-{n}", "labels": {"pool": "bare"}},
        }
        await kube.request("POST", NODES, body=msgspec.json.encode(made))
    names = await populate(kube, "bare", pods)
    slots = asyncio.Semaphore(at_once)
    taint = {"spec": {"taints": [{"key": "going", "effect": "NoSchedule"}], "unschedulable": True}}

    async def go(name: str) -> None:
        async with slots:
            await kube.request(
                "PATCH",
                f"{NODES}/{name}",
                body=msgspec.json.encode(taint),
                content_type="application/merge-patch+json",
            )
            for n in range(pods):
                eviction = {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": f"{name}-{n}"},
                }
                await kube.request(
                    "POST", f"{PODS_OF}/{name}-{n}/eviction", body=msgspec.json.encode(eviction)
                )
            await kube.request("DELETE", f"{NODES}/{name}")

    begun = time.perf_counter()
    await asyncio.gather(*map(go, names))
    return time.perf_counter() - begun


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Measured(msgspec.Struct, frozen=True):
    """What it took until nodes were gone.

    Attributes:
        took_s, bare_s: seconds; of all, and of the bare requests.
        ours_s, theirs_s: processor time of watcher, provisioning and actuator, and of the bus and the API server.
        messages: that came onto the log.
    """

    took_s: float
    bare_s: float
    ours_s: float
    theirs_s: float
    messages: int


def processor_s(pids: Iterable[int]) -> float:
    """Processor time of processes up to now, seconds."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


async def told(log: Log) -> int:
    """How many messages ever came onto a log."""
    extent = await log.extent()
    assert extent is not None
    return extent.last


async def measure(count: int, pods: int) -> Measured:
    """What it takes until `count` nodes with so many pods each are gone."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as temporary:
        folder = Path(temporary)
        (folder / "groups.yaml").write_text(yaml.safe_dump(groups(count)))
        kubeconfig, side, api = folder / "kubeconfig", free_port(), free_port()
        nats = EmbeddedServer(folder / "nats")
        await nats.start()
        supervisor = Supervisor(lambda name, line: None)
        at = ("--nats", nats.url, "--cluster", CLUSTER, "--kubeconfig", str(kubeconfig))
        cloud = ("--cloud", f"simulated=simulated:http://127.0.0.1:{side}")
        sim = (
            "sim", "up", "--nodes", "0", "--port", str(api), "--side-port", str(side), "--cloud", str(folder / "groups.yaml"),
            "--write-kubeconfig", str(kubeconfig), "--log-format", "json", "--health-port", "0",
        )  # fmt: skip
        try:
            await supervisor.start(Program("cluster", tidewright(*sim), env={"KUBECONFIG": None}))
            async with await Kube.connect(kubeconfig) as kube:
                await install(kube)
                await kube.request("POST", CONFIG_MAPS, body=config(removes=False))
                await until(kube, "goes", count)
                await until(kube, "stays", STAY)
                least = await bare(kube, count, pods, DRAINS_AT_ONCE if pods else EMPTY_AT_ONCE)
                await populate(kube, "goes", pods)
                async with await Log.connect(nats.url, CLUSTER) as log:
                    await install_log(log, Plan(deciders=DECIDERS))
                on = (*at[:4],)
                await supervisor.start(
                    Program("watcher", tidewright("run", "watcher", *at, *cloud, "--cloud-interval", "0.3", "--config-map", f"{NAMESPACE}/tidewright")),
                    Program("provisioning", tidewright("run", "provisioning", *on)),
                    Program("actuator", tidewright("run", "actuator", *at, *cloud, "--qps", "2000", "--cloud-qps", "2000")),
                )  # fmt: skip
                await asyncio.sleep(10.0)  # what is there is told; the time begins with the setting
                pids = {child.program.name: child.pid or 0 for child in supervisor.children()}
                servers = [nats.pid, pids.pop("cluster")]
                async with await Log.connect(nats.url, CLUSTER) as log:
                    ours_s, theirs_s, last = processor_s(pids.values()), processor_s(servers), await told(log)
                    begun = time.perf_counter()
                    await kube.request("PUT", f"{CONFIG_MAPS}/tidewright", body=config(removes=True))
                    await until(kube, "goes", 0)
                    took = time.perf_counter() - begun
                    messages = await told(log) - last
                return Measured(
                    took,
                    least,
                    processor_s(pids.values()) - ours_s,
                    processor_s(servers) - theirs_s,
                    messages,
                )
        finally:
            await supervisor.stop()
            await nats.stop()


def run(size: Size) -> list[Figure]:
    """Empty nodes, and nodes with pods; the ratio is what the target speaks of."""
    configure_logs("warning", "console")
    count = 200 if size == "full" else 20
    found = []
    for name, pods in (("empty", 0), (f"{PODS} pods each", PODS)):
        it, of = asyncio.run(measure(count, pods)), f"removal/{count} nodes, {name}"
        found += [
            figure(
                of, it.took_s, "s", "lower", rounded(RATIO_TARGET * it.bare_s),
                baseline="bare taints, evictions and deletions", baseline_value=it.bare_s,
            ),
            figure(f"{of}: processor time of services", it.ours_s, "s", "lower"),
            figure(f"{of}: processor time of servers", it.theirs_s, "s", "lower"),
            figure(f"{of}: messages a node", it.messages / count, "messages", "lower"),
        ]  # fmt: skip
    return found


BENCHES = (Bench("removal", run),)
