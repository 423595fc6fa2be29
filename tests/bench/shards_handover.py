"""How long a slot has no owner: 1,000 planned hand-overs, and the crash of a worker, through the whole pipeline.

A simulated API server, a real nats-server, watcher, shard manager and actuator as processes; the
workers are the client library's, dynamic. The gap of a slot is from the end of its old owner's drain
(or from the crash) to the end of its new owner's activation, by one clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.figures import Bench, Figure, Size, figure
from tests.e2e.conftest import Cluster, Services, running
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tidewright.cli.crds.installing import manifests
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.sharding.lease import LeaseTimes
from tidewright.sharding.worker import Worker

NAMESPACE = "bench"
SETS = f"/apis/shards.tidewright.dev/v1alpha1/namespaces/{NAMESPACE}/shardsets"
SHORT = {"leaseDuration": "4s", "renewInterval": "1.3s", "safetyMargin": "1s", "skewMargin": "0.5s"}
WITHIN_S = 90.0


class Clocked:
    """A worker's callbacks that note when a slot has stopped, and when it acts again."""

    def __init__(self, stopped: dict[int, float], acting: dict[int, float]) -> None:
        self.stopped, self.acting = stopped, acting
        self.owned: set[int] = set()
        self.news = asyncio.Event()

    async def prepare(self, slot: int, epoch: int) -> None:
        """Nothing to warm up."""

    async def activate(self, slot: int, epoch: int, checkpoint: str) -> None:
        self.acting[slot] = time.monotonic()
        self.owned.add(slot)
        self.news.set()

    async def drain(self, slot: int, epoch: int) -> str:
        self.owned.discard(slot)
        self.stopped[slot] = time.monotonic()
        self.news.set()
        return ""

    async def revoke(self, slot: int, epoch: int) -> None:
        self.owned.discard(slot)

    async def until(self, holds: Callable[[set[int]], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds(self.owned):
                self.news.clear()
                await self.news.wait()


class Set:
    """One ShardSet with workers in this process."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.kube, self.name = kube, name
        self.stopped: dict[int, float] = {}
        self.acting: dict[int, float] = {}
        self.workers: dict[str, asyncio.Task[None]] = {}

    async def create(self, slots: int, membership: dict[str, str]) -> None:
        spec = {"keyspace": {"slots": slots}, "membership": membership, "rebalance": {"maxMoves": 0}}
        await post(
            self.kube, SETS,
            {"apiVersion": "shards.tidewright.dev/v1alpha1", "kind": "ShardSet",
             "metadata": {"name": self.name}, "spec": spec},
        )  # fmt: skip

    def start(self, name: str) -> Clocked:
        handler = Clocked(self.stopped, self.acting)
        worker = Worker(self.kube, handler, namespace=NAMESPACE, shard_set=self.name, name=name)
        self.workers[name] = asyncio.create_task(worker.run())
        return handler

    async def kill(self, name: str) -> float:
        """A worker falls silent: no drain, no release. When."""
        task = self.workers.pop(name)
        at = time.monotonic()
        task.cancel()
        await asyncio.wait({task})
        return at

    async def end(self) -> None:
        for name in list(self.workers):
            await self.kill(name)


async def post(kube: Kube, path: str, body: Any) -> None:
    await kube.request("POST", path, body=msgspec.json.encode(body))


async def takeover_s(shards: Set, slots: int) -> float:
    """Kill one of two workers; seconds until the other acts on the last of its slots."""
    first, second = shards.start("a"), shards.start("b")
    await first.until(lambda owned: len(owned) == slots // 2)
    await second.until(lambda owned: len(owned) == slots // 2)
    lost = set(second.owned)
    at = await shards.kill("b")
    await first.until(lambda owned: owned >= lost)
    return max(shards.acting[slot] for slot in lost) - at


async def gaps_s(shards: Set, slots: int) -> list[float]:
    """A second worker joins: the gap of every slot that moves to it."""
    first = shards.start("a")
    await first.until(lambda owned: len(owned) == slots)
    shards.stopped.clear()
    second = shards.start("b")
    await second.until(lambda owned: len(owned) == slots // 2)
    return sorted(shards.acting[slot] - shards.stopped[slot] for slot in second.owned)


@contextlib.asynccontextmanager
async def pipeline(folder: Path) -> AsyncIterator[Kube]:
    """The cluster, the log and the services; a client of the cluster."""
    kubeconfig, side = folder / "kubeconfig", free_port()
    arguments = ["sim", "up", "--write-kubeconfig", str(kubeconfig), "--side-port", str(side)]
    server = EmbeddedServer(folder / "nats")
    with running(arguments, folder / "cluster.log"):
        await server.start()
        services = Services(Cluster(kubeconfig, f"http://127.0.0.1:{side}", embedded=True), server.url)
        try:
            async with await Kube.connect(kubeconfig) as kube:
                for manifest in manifests():
                    with contextlib.suppress(Exception):  # those that the cluster brings itself
                        await post(kube, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifest)
                namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
                await post(kube, "/api/v1/namespaces", namespace)
                await services.start("watcher", "shard-manager", "actuator")
                yield kube
        finally:
            await services.supervisor.stop()
            await server.stop()


async def measure(slots: int, *, default_leases: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        async with pipeline(Path(folder)) as kube:
            moving, short, usual = (Set(kube, name) for name in ("moving", "short", "usual"))
            try:
                await moving.create(slots, {})
                gaps = await gaps_s(moving, slots)
                await moving.end()
                await short.create(64, SHORT)
                quick = await takeover_s(short, 64)
                await short.end()
                slow = 0.0
                if default_leases:
                    await usual.create(64, {})
                    slow = await takeover_s(usual, 64)
            finally:
                for one in (moving, short, usual):
                    await one.end()
    beside = "takeover after a crash, leases of 4 s"
    middle, high = gaps[len(gaps) // 2], gaps[min(len(gaps) - 1, len(gaps) * 99 // 100)]
    found = [
        figure("shards_handover/gap_p50", middle, "s", "lower", baseline=beside, baseline_value=quick),
        figure("shards_handover/gap_p99", high, "s", "lower", 1.0, baseline=beside, baseline_value=quick),
        figure("shards_handover/gap_max", gaps[-1], "s", "lower", 2.0, baseline=beside, baseline_value=quick),
        figure("shards_handover/takeover_4_s_leases", quick, "s", "lower", 4.5 + 2.0),
    ]
    if default_leases:
        bound = LeaseTimes().worst_gap(activation_s=1.5, poll_s=0.5)
        found.append(figure("shards_handover/takeover_default_leases", slow, "s", "lower", bound))
    return found


def run(size: Size) -> list[Figure]:
    configure_logs("error", "console")
    full = size == "full"
    return asyncio.run(measure(2048 if full else 128, default_leases=full))


BENCHES = (Bench("shards_handover", run),)
