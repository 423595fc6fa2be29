"""How long nodes that nobody needs take to go: 200 empty ones, and 200 of five pods each, all allowed at once.

Real processes: nats-server, the embedded cluster with the simulated cloud, watcher, provisioning and actuator. The time is from the
setting that allows removals to the last Node object's end, so it has the pass and every step of each node in it.

Every delay is 0 but for the interval of passes, which is short: the first pass waits for it, and while as many nodes go as may passes
rest in any case. Beside the time stands what the machine did for it: processor time of our services, of the servers, and messages.

Beside it, in the same run and on the same server: what such nodes ask for at least of whoever removes them without harm, as bare
requests from one process with as many nodes at once. That is, after one list of all nodes, for each: one write of taint, cordon and
mark under the resourceVersion that was read; an eviction of each pod, by uid; one look at what pods are left on it; and one call that
deletes its instance, after which the cloud ends the Node object. Decisions and reasons are not among it, nor is waiting.
Client, connections and nodes at once are the same for both. Ours makes fewer requests than the bare ones do: it looks at nodes and
pods of one deletion in two lists, and asks for as many instances with one call as are ready together.

Both are held to the same pace, `--qps 2000` with a burst of a hundredth of a second: with the actuator's own burst (twice its rate) a
few thousand requests meet no limit. Since an API server may well be faster than that, the bare requests are made once more
without any: that time is a figure of its own, and so is how many times as long the removal took.
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
from aiolimiter import AsyncLimiter

from tests.bench.figures import Bench, Figure, Size, figure, rounded
from tests.e2e.conftest import tidewright
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.cli.crds.installing import install
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.cloud.provider import Group
from tidewright.cloud.providers import Surroundings, specs_of
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.kube.listwatch import Added, Deleted, ListDone, Page, list_watch
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log

CLUSTER, NAMESPACE = "bench", "default"
RATIO_TARGET = 2.0
PODS = 5
BARE = ("held", "free")
"""Pools of bare requests: at the pace of both, and without any."""
STAY = 2
"""Nodes of a group that may not shrink, with room for all pods."""
EMPTY_AT_ONCE, DRAINS_AT_ONCE = 200, 50
QPS, BURST = 2000, 20
WITHIN_S = 240.0
NODES = "/api/v1/nodes"
PODS_OF = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"

SETTINGS = {
    "namespace": NAMESPACE, "scan-interval": "20ms", "scale-down-unneeded-time": "0s", "scale-down-delay-after-add": "0s",
    "scale-down-delay-after-delete": "0s", "scale-down-delay-after-failure": "0s", "node-delete-delay-after-taint": "0s",
    "max-scale-down-parallelism": EMPTY_AT_ONCE, "max-drain-parallelism": DRAINS_AT_ONCE, "max-bulk-soft-taint-count": 0,
}  # fmt: skip


def groups(count: int) -> dict[str, Any]:
    """`count` nodes that may go, as many twice for bare requests, and those that stay."""

    def group(name: str, low: int, count: int, cpu: str) -> dict[str, Any]:
        capacity = {"cpu": cpu, "memory": "512Gi", "pods": "2000"}
        return {
            "id": name, "min": low, "max": count, "initial": count, "boot": 0, "delete": 0,
            "template": {"capacity": capacity, "labels": {"pool": name}},
        }  # fmt: skip

    return {
        "groups": [
            *(group(pool, 0, count, "8") for pool in ("goes", *BARE)),
            group("stays", STAY, STAY, "128"),
        ]
    }


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
    """Return when a pool has so many nodes. One more tells that there are too many."""
    path = f"{NODES}?labelSelector=pool%3D{pool}&limit={count + 1}"
    async with asyncio.timeout(WITHIN_S):
        while len(msgspec.json.decode((await kube.request("GET", path)).body)["items"]) != count:  # noqa: ASYNC110  # the API server is another process
            await asyncio.sleep(0.01)


class NameOnly(msgspec.Struct):
    name: str = ""


class Named(msgspec.Struct):
    metadata: NameOnly


class Leaving:
    """The nodes of a pool, followed until none is left: who would ask for them again and again would take time from what is measured."""

    def __init__(self, kube: Kube, pool: str) -> None:
        self._kube, self._pool = kube, pool
        self._known = asyncio.Event()
        self._left: set[str] = set()
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        names = msgspec.json.Decoder(Named)
        async for item in list_watch(self._kube, NODES, query={"labelSelector": f"pool={self._pool}"}):
            match item:
                case Page(objects=objects):
                    self._left |= {names.decode(node).metadata.name for node in objects}
                case Added():
                    self._left.add(names.decode(item.raw).metadata.name)
                case Deleted():
                    self._left.discard(names.decode(item.raw).metadata.name)
                case ListDone():
                    self._known.set()
            if self._known.is_set() and not self._left:
                return

    async def known(self) -> None:
        """Return when it is known which nodes there are."""
        await self._known.wait()

    async def gone(self) -> None:
        """Return when none is left."""
        async with asyncio.timeout(WITHIN_S):
            await self._watching


async def populate(kube: Kube, pool: str, pods: int) -> None:
    """So many pods on each node of a pool."""
    for node in await nodes(kube, pool):
        name = node["metadata"]["name"]
        for n in range(pods):
            await kube.request("POST", PODS_OF, body=pod(f"{name}-{n}", name))


class Bare:
    """The least requests for nodes that go, from one process."""

    def __init__(self, kube: Kube, group: Group, pods: int, at_once: int, *, held: bool) -> None:
        """`held`: to the pace of the actuator."""
        self._kube, self._group, self._pods = kube, group, pods
        self._slots = asyncio.Semaphore(at_once)
        self._limiter = AsyncLimiter(BURST, BURST / QPS) if held else None

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        if self._limiter is not None:
            await self._limiter.acquire()
        encoded = None if body is None else msgspec.json.encode(body)
        return msgspec.json.decode((await self._kube.request(method, path, body=encoded)).body)

    async def _go(self, node: dict[str, Any], uids: dict[str, str]) -> None:
        meta, name = node["metadata"], node["metadata"]["name"]
        meta["annotations"] = {**meta.get("annotations", {}), "goes": "true"}
        node["spec"] |= {"unschedulable": True, "taints": [{"key": "going", "effect": "NoSchedule"}]}
        async with self._slots:
            await self._ask("PUT", f"{NODES}/{name}", {"apiVersion": "v1", "kind": "Node", **node})
            for n in range(self._pods):
                one = f"{name}-{n}"
                eviction = {
                    "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": one},
                    "deleteOptions": {"preconditions": {"uid": uids[one]}},
                }  # fmt: skip
                await self._ask("POST", f"{PODS_OF}/{one}/eviction", eviction)
            left = await self._ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}")
            assert not left["items"]
            await self._group.delete_nodes([node["spec"]["providerID"]], key=name)

    async def take(self) -> float:
        """Seconds until the last of a pool's nodes is gone. Which pods there are is known before, as to whoever watches them."""
        pods = msgspec.json.decode((await self._kube.request("GET", PODS_OF)).body)["items"]
        uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods}
        leaving = Leaving(self._kube, self._group.id)
        await leaving.known()
        begun = time.perf_counter()
        listed = await self._ask("GET", f"{NODES}?labelSelector=pool%3D{self._group.id}")
        await asyncio.gather(*(self._go(node, uids) for node in listed["items"]))
        await leaving.gone()
        return time.perf_counter() - begun


async def bare(kube: Kube, cloud: str, pods: int, at_once: int) -> list[float]:
    """Seconds that the least requests for the nodes of each bare pool take."""
    (spec,) = specs_of((cloud,))
    provider = spec.provider(Surroundings(per_s=1e6))
    try:
        await provider.refresh()
        took = []
        for pool in BARE:
            await populate(kube, pool, pods)
            group = await provider.group(pool)
            took.append(await Bare(kube, group, pods, at_once, held=pool == BARE[0]).take())
        return took
    finally:
        await provider.cleanup()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Measured(msgspec.Struct, frozen=True):
    """What it took until nodes were gone.

    Attributes:
        took_s, bare_s, free_s: seconds; of all, of the bare requests, and of these without a limit.
        ours_s, theirs_s: processor time of watcher, provisioning and actuator, and of the bus and the API server.
        messages: that came onto the log.
    """

    took_s: float
    bare_s: float
    free_s: float
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
                for pool, size in (("goes", count), *((pool, count) for pool in BARE), ("stays", STAY)):
                    await until(kube, pool, size)
                at_once = DRAINS_AT_ONCE if pods else EMPTY_AT_ONCE
                held_s, free_s = await bare(kube, cloud[1], pods, at_once)
                await populate(kube, "goes", pods)
                async with await Log.connect(nats.url, CLUSTER) as log:
                    await install_log(log, Plan(deciders=DECIDERS))
                on = (*at[:4],)
                await supervisor.start(
                    Program("watcher", tidewright("run", "watcher", *at, *cloud, "--cloud-interval", "0.3", "--config-map", f"{NAMESPACE}/tidewright")),
                    Program("provisioning", tidewright("run", "provisioning", *on)),
                    Program("actuator", tidewright("run", "actuator", *at, *cloud, "--qps", f"{QPS}", "--burst", f"{BURST}", "--cloud-qps", f"{QPS}")),
                )  # fmt: skip
                await asyncio.sleep(10.0)  # what is there is told; the time begins with the setting
                pids = {child.program.name: child.pid or 0 for child in supervisor.children()}
                servers = [nats.pid, pids.pop("cluster")]
                async with await Log.connect(nats.url, CLUSTER) as log:
                    ours_s, theirs_s, last = processor_s(pids.values()), processor_s(servers), await told(log)
                    leaving = Leaving(kube, "goes")
                    await leaving.known()
                    begun = time.perf_counter()
                    await kube.request("PUT", f"{CONFIG_MAPS}/tidewright", body=config(removes=True))
                    await leaving.gone()
                    took = time.perf_counter() - begun
                    messages = await told(log) - last
                return Measured(
                    took,
                    held_s,
                    free_s,
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
                baseline=f"bare requests, {QPS} a second", baseline_value=it.bare_s,
            ),
            figure(f"{of}: beside bare requests without a limit", it.took_s, "s", "lower", baseline="without a limit", baseline_value=it.free_s),
            figure(f"{of}: processor time of services", it.ours_s, "s", "lower"),
            figure(f"{of}: processor time of servers", it.theirs_s, "s", "lower"),
            figure(f"{of}: messages a node", it.messages / count, "messages", "lower"),
        ]  # fmt: skip
    return found


BENCHES = (Bench("removal", run),)
