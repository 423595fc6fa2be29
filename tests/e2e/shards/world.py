"""What the shard tests share: who worked on what, read from the objects, and workers as processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.conftest import Cluster
from tests.e2e.sim.world import merge, send
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import Added, Deleted, Item, Modified, Page, list_watch
from tidewright.sharding.wire import document_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "sharded_controller.py"
SHARDS = "shards.tidewright.dev"
LEASE_S = 4.0
MEMBERSHIP = {"leaseDuration": "4s", "renewInterval": "1.3s", "safetyMargin": "1s", "skewMargin": "0.5s"}
PLANNED_GAP_S = 4.0
"""The bound of a planned hand-over is 2 s; the rest is the worker's own round, on a machine that others share."""
CRASH_GAP_S = LEASE_S + 0.5 + 4.5
"""Lease, skew margin, and what polling, activation and a shared machine take."""


def sets_path(namespace: str) -> str:
    return f"/apis/{SHARDS}/v1alpha1/namespaces/{namespace}/shardsets"


def maps_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def shard_set(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{SHARDS}/v1alpha1",
        "kind": "ShardSet",
        "metadata": {"name": "orders"},
        "spec": {"keyspace": {"slots": 64}, "membership": MEMBERSHIP, **spec},
    }


async def make_orders(kube: Kube, namespace: str, count: int) -> None:
    for n in range(count):
        order = {"metadata": {"name": f"order-{n}", "labels": {"example": "order"}}}
        await send(kube, "POST", maps_path(namespace), {"apiVersion": "v1", "kind": "ConfigMap", **order})


def owners(current_set: dict[str, Any]) -> dict[str, int]:
    """Slots by member name, of those that are owned and at rest; nothing while one is not."""
    assignment = current_set.get("status", {}).get("assignment")
    if not assignment:
        return {}
    document = document_of(assignment)
    if document.moving or document.unowned():
        return {}
    counts: dict[str, int] = {}
    for record in document.slots:
        name = record.owner.partition("#")[0]
        counts[name] = counts.get(name, 0) + 1
    return counts


def objects_of(item: Item) -> list[dict[str, Any]]:
    match item:
        case Page(objects=objects):
            return [msgspec.json.decode(raw) for raw in objects]
        case Added(raw=raw) | Modified(raw=raw):
            return [msgspec.json.decode(raw)]
    return []


class Seen:
    """Every write to every order, in the order of the API server."""

    def __init__(self, orders: int) -> None:
        self.orders = orders
        self.writes: dict[str, list[dict[str, str]]] = {}
        self.news = asyncio.Condition()

    async def more(self, count: int) -> None:
        """Wait until every order has been worked on so many times more."""
        before = {f"order-{n}": 0 for n in range(self.orders)} | {n: len(w) for n, w in self.writes.items()}
        async with self.news, asyncio.timeout(90):
            await self.news.wait_for(
                lambda: all(len(self.writes.get(n, ())) >= had + count for n, had in before.items())
            )

    async def follow(self, kube: Kube, namespace: str) -> None:
        async for item in list_watch(kube, maps_path(namespace), query={"labelSelector": "example=order"}):
            for config_map in objects_of(item):
                if config_map.get("data"):
                    self.writes.setdefault(config_map["metadata"]["name"], []).append(config_map["data"])
            async with self.news:
                self.news.notify_all()

    def worked(self) -> set[str]:
        return {writes[-1]["worker"] for writes in self.writes.values()}

    def at(self) -> float:
        """When the last write that was seen ended, seconds."""
        return max((float(w[-1]["ended"]) for w in self.writes.values()), default=0.0)

    def longest_gap_s(self, after: float = 0.0) -> float:
        """The longest time that an order was left alone, of the times that ended after a moment."""
        return max(
            float(b["began"]) - float(a["ended"])
            for writes in self.writes.values()
            for a, b in itertools.pairwise(writes)
            if float(b["began"]) > after
        )

    def assert_never_two_at_once(self) -> None:
        """By what the workers wrote themselves: no clash, no overlap, one worker per epoch, no count lost."""
        for name, writes in self.writes.items():
            assert writes[-1]["clashes"] == "0", f"{name}: two workers at once: {writes[-1]}"
            epochs = [int(w["epoch"]) for w in writes]
            assert epochs == sorted(epochs), f"{name}: an older epoch wrote after a newer one"
            workers: dict[str, set[str]] = {}
            for write in writes:
                workers.setdefault(write["epoch"], set()).add(write["worker"])
            assert all(len(w) == 1 for w in workers.values()), f"{name}: two under one epoch: {workers}"
            for a, b in itertools.pairwise(writes):
                assert float(a["ended"]) <= float(b["began"]), f"{name}: {a} and {b} overlap"
            counts = [int(w["count"]) for w in writes]
            assert counts == list(range(counts[0], counts[0] + len(counts))), f"{name}: a count was lost"


class Workers:
    """Processes of the example controller."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str, period_s: float = 0.4) -> asyncio.subprocess.Process:
        out = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE),
            "--kubeconfig", str(self.cluster.kubeconfig), "--namespace", self.namespace,
            "--name", name, "--period", str(period_s),
            stdout=out, stderr=out,
        )  # fmt: skip
        out.close()
        return process

    async def stop(self, name: str, how: signal.Signals) -> int:
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, how)
        return await asyncio.wait_for(process.wait(), 90)

    async def end(self) -> None:
        for name in list(self.processes):
            with contextlib.suppress(TimeoutError):
                await self.stop(name, signal.SIGKILL)


FINALIZER = "example.tidewright.dev/process"


class PodProcesses:
    """A node for the example's pods: each pod is a process, and is gone when that has ended.

    The cluster's own kubelets are simulated: they say that a pod runs and is ready. A finalizer on the
    pods keeps each there until its process has really ended.
    """

    def __init__(self, kube: Kube, workers: Workers) -> None:
        self.kube, self.workers = kube, workers
        self.path = f"/api/v1/namespaces/{workers.namespace}/pods"
        self.stuck: set[str] = set()
        self._begun: set[str] = set()
        self._ending: set[str] = set()

    def template(self, **annotations: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "orders-template"},
            "template": {
                "metadata": {"annotations": annotations, "finalizers": [FINALIZER]},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{"name": "orders", "image": "pause"}],
                },
            },
        }

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            async for item in list_watch(self.kube, self.path):
                if isinstance(item, Deleted):
                    continue
                for pod in objects_of(item):
                    meta = pod["metadata"]
                    if FINALIZER not in (meta.get("finalizers") or ()):
                        continue
                    if "deletionTimestamp" in meta:
                        if meta["name"] not in self.stuck and meta["uid"] not in self._ending:
                            self._ending.add(meta["uid"])
                            tasks.create_task(self._end(meta["name"], meta["uid"]))
                    elif pod["status"].get("phase") == "Running" and meta["uid"] not in self._begun:
                        self._begun.add(meta["uid"])
                        await self.workers.start(meta["name"])

    async def crash(self, name: str) -> None:
        """The process is killed, and the pod says so."""
        await self.workers.stop(name, signal.SIGKILL)
        await merge(self.kube, f"{self.path}/{name}/status", {"status": {"phase": "Failed"}})

    async def let_go(self, name: str) -> None:
        """A stuck pod ends after all."""
        uid = (await send(self.kube, "GET", f"{self.path}/{name}"))["metadata"]["uid"]
        self._ending.add(uid)
        self.stuck.discard(name)
        await self._end(name, uid)

    async def _end(self, name: str, uid: str) -> None:
        if name in self.workers.processes:
            await self.workers.stop(name, signal.SIGTERM)
        with contextlib.suppress(KubeError):  # under its uid: the next pod of the name keeps its finalizer
            await merge(self.kube, f"{self.path}/{name}", {"metadata": {"uid": uid, "finalizers": None}})
