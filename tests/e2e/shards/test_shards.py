"""The shard manager end to end: the example controller under joins, a kill and a leave; a propeller fleet.

Who worked on what is read from the objects that the example controller wrote, not from the manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import Cluster, Services
from tests.e2e.sim.world import send, until
from tidewright.kube.client import Kube
from tidewright.kube.listwatch import Added, Modified, Page, list_watch
from tidewright.sharding.wire import document_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "sharded_controller.py"
LEASE_S, PERIOD_S, ORDERS = 4.0, 0.25, 24
CRASH_GAP_S = LEASE_S * (1 + 1 / 8) + 4.0
"""Lease, skew margin, and what polling, activation and a shared machine take."""


def shard_set() -> dict[str, Any]:
    return {
        "apiVersion": "shards.tidewright.dev/v1alpha1",
        "kind": "ShardSet",
        "metadata": {"name": "orders"},
        "spec": {
            "keyspace": {"slots": 64},
            "membership": {
                "leaseDuration": f"{LEASE_S}s",
                "renewInterval": f"{LEASE_S / 3:.3f}s",
                "safetyMargin": f"{LEASE_S / 5}s",
                "skewMargin": f"{LEASE_S / 8}s",
            },
        },
    }


class Seen:
    """Every write to every order, in the order of the API server."""

    def __init__(self) -> None:
        self.writes: dict[str, list[dict[str, str]]] = {}
        self.news = asyncio.Condition()

    async def more(self, count: int) -> None:
        """Wait until every order has been worked on so many times more."""
        before = {f"order-{n}": 0 for n in range(ORDERS)} | {n: len(w) for n, w in self.writes.items()}
        async with self.news, asyncio.timeout(30):
            await self.news.wait_for(
                lambda: all(len(self.writes.get(n, ())) >= had + count for n, had in before.items())
            )

    async def follow(self, kube: Kube, path: str) -> None:
        async for item in list_watch(kube, path, query={"labelSelector": "example=order"}):
            found = (
                item.objects
                if isinstance(item, Page)
                else [item.raw]
                if isinstance(item, Added | Modified)
                else []
            )
            for raw in found:
                one = msgspec.json.decode(raw)
                if one.get("data"):
                    self.writes.setdefault(one["metadata"]["name"], []).append(one["data"])
            async with self.news:
                self.news.notify_all()

    def worked(self) -> set[str]:
        return {writes[-1]["worker"] for writes in self.writes.values()}

    def longest_gap_s(self) -> float:
        return max(
            float(b["at"]) - float(a["at"])
            for writes in self.writes.values()
            for a, b in itertools.pairwise(writes)
        )

    def assert_one_worker_per_epoch(self) -> None:
        for name, writes in self.writes.items():
            epochs = [int(w["epoch"]) for w in writes]
            assert epochs == sorted(epochs), f"{name}: an older epoch wrote after a newer one"
            workers: dict[str, set[str]] = {}
            for write in writes:
                workers.setdefault(write["epoch"], set()).add(write["worker"])
            assert all(len(w) == 1 for w in workers.values()), (
                f"{name}: two workers under one epoch: {workers}"
            )
            counts = [int(w["count"]) for w in writes]
            assert counts == list(range(counts[0], counts[0] + len(counts))), f"{name}: a count was lost"


class Workers:
    """Processes of the example controller."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str) -> None:
        out = (self.folder / f"{name}.log").open("wb")
        self.processes[name] = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE),
            "--kubeconfig", str(self.cluster.kubeconfig), "--namespace", self.namespace,
            "--name", name, "--period", str(PERIOD_S), "--lease", str(LEASE_S),
            stdout=out, stderr=out,
        )  # fmt: skip
        out.close()

    async def stop(self, name: str, how: signal.Signals) -> int:
        process = self.processes.pop(name)
        os.kill(process.pid, how)
        return await asyncio.wait_for(process.wait(), 30)


@pytest.fixture
async def workers(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Workers]:
    made = Workers(cluster, namespace, tmp_path)
    yield made
    for name in list(made.processes):
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            await made.stop(name, signal.SIGKILL)


def owners(found: dict[str, Any]) -> dict[str, int]:
    """Slots by member name, of those that are owned and at rest; nothing while one is not."""
    assignment = found.get("status", {}).get("assignment")
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


@pytest.mark.slow
async def test_no_object_is_worked_on_by_two_workers_and_none_is_left_alone_for_long(
    kube: Kube, namespace: str, services: Services, workers: Workers
) -> None:
    sets = f"/apis/shards.tidewright.dev/v1alpha1/namespaces/{namespace}/shardsets"
    maps = f"/api/v1/namespaces/{namespace}/configmaps"

    async def shared_by(**expected: int) -> None:
        await until(kube, sets, lambda found: owners(found.get("orders", {})) == expected, timeout_s=40)

    await services.start("watcher", "shard-manager", "actuator")
    await send(kube, "POST", sets, shard_set())
    for n in range(ORDERS):
        order = {"metadata": {"name": f"order-{n}", "labels": {"example": "order"}}}
        await send(kube, "POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", **order})
    seen = Seen()
    follow = asyncio.create_task(seen.follow(kube, maps))
    try:
        await workers.start("a")
        await workers.start("b")
        await shared_by(a=32, b=32)
        await seen.more(8)
        assert len(seen.writes) == ORDERS
        assert seen.worked() == {"a", "b"}

        await workers.start("c")  # planned moves
        await shared_by(a=22, b=21, c=21)
        await seen.more(8)
        seen.assert_one_worker_per_epoch()
        planned = seen.longest_gap_s()

        assert await workers.stop("b", signal.SIGTERM) == 0  # leaves in good order
        await shared_by(a=32, c=32)
        await seen.more(4)
        seen.assert_one_worker_per_epoch()
        leaving = seen.longest_gap_s()

        await workers.stop("c", signal.SIGKILL)
        await shared_by(a=64)
        await seen.more(8)
        seen.assert_one_worker_per_epoch()
        crash = seen.longest_gap_s()
    finally:
        follow.cancel()
    print(f"longest gap of an object: planned {planned:.2f} s, leave {leaving:.2f} s, crash {crash:.2f} s")
    assert seen.worked() == {"a"}
    assert max(planned, leaving) < 3.0
    assert crash < CRASH_GAP_S


def manager(namespace: str, count: int) -> dict[str, str]:
    """The original's configuration, as a part of ours."""
    shard = {"type": "Hash", "shard-count": count}
    tree = {"manager": {"pod-template-namespace": namespace, "scan-interval": "2s", "shard": shard}}
    entry = {"namespace": namespace, "brand": "kozmo", "config": tree}
    return {"shardmanager.yaml": msgspec.json.encode({"managers": [entry]}).decode()}


async def test_a_propeller_fleet_is_made_repaired_and_replaced(
    kube: Kube, namespace: str, services: Services
) -> None:
    core = f"/api/v1/namespaces/{namespace}"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tidewright"}}
    await send(kube, "POST", f"{core}/configmaps", {**config, "data": manager(namespace, 3)})
    container = {"name": "kozmopropeller", "image": "pause", "args": ["--config", "x"]}
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "kozmopropeller-template"},
        "template": {"metadata": {"labels": {"team": "x"}}, "spec": {"containers": [container]}},
    }
    made = await send(kube, "POST", f"{core}/podtemplates", template)

    async def running(count: int, version: str, without: set[str]) -> dict[str, str]:
        """Wait for a whole fleet of this template version without certain pods; uids by name."""

        def whole(pods: dict[str, dict[str, Any]]) -> bool:
            return set(pods) == {f"kozmopropeller-{i}" for i in range(count)} and all(
                p["metadata"]["annotations"].get("podTemplateResourceVersion") == version
                and p["status"].get("phase") == "Running"
                and p["metadata"]["uid"] not in without
                for p in pods.values()
            )

        found = await until(kube, f"{core}/pods", whole)
        return {name: pod["metadata"]["uid"] for name, pod in found.items()}

    await services.start(
        "watcher", "shard-manager", "actuator", watcher=["--config-map", f"{namespace}/tidewright"]
    )
    version = made["metadata"]["resourceVersion"]
    first = await running(3, version, set())
    pod = await send(kube, "GET", f"{core}/pods/kozmopropeller-1")
    assert pod["metadata"]["labels"] == {"team": "x", "app": "kozmopropeller"}
    assert pod["spec"]["containers"][0]["args"][-1].endswith("=propeller-leader-1")

    await send(kube, "DELETE", f"{core}/pods/kozmopropeller-1")
    second = await running(3, version, {first["kozmopropeller-1"]})
    assert second["kozmopropeller-0"] == first["kozmopropeller-0"]

    changed = await send(kube, "PATCH", f"{core}/podtemplates/kozmopropeller-template",
                         {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")  # fmt: skip
    version = changed["metadata"]["resourceVersion"]
    third = await running(3, version, set(second.values()))

    path = f"{core}/configmaps/tidewright"
    await send(kube, "PATCH", path, {"data": manager(namespace, 2)}, "application/merge-patch+json")
    await running(2, version, set(third.values()))
