"""Gate mode on an API server: a resize whose new pods stand by, with locks that open one after the other."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import Services
from tests.e2e.shards.world import objects_of, sets_path
from tests.e2e.sim.world import merge, send, until
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import Deleted, list_watch
from tidewright.sharding.keyspace import parse_runs

SPEC = {
    "keyspace": {"slots": 32, "hash": "fnv1a32", "slotLabel": "shard-key"},
    "workers": {
        "driver": "pods",
        "injector": "propeller",
        "leaderElection": True,
        "replicas": 2,
        "template": {"name": "runner-template", "container": "runner"},
    },
    "assignment": {"strategy": "ranges"},
    "handover": {"mode": "gate"},
    "rollout": {"minReady": "1s"},
}
TEMPLATE = {
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "runner", "image": "a", "args": ["--x"]}],
    }
}


class Election:
    """Workers that elect, as their pods say: who is told a lock takes it when nobody holds it."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube = kube
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.present: dict[str, dict[str, Any]] = {}
        self.acting: dict[str, str] = {}
        self.twice: list[str] = []
        self.news = asyncio.Condition()

    async def follow(self) -> None:
        async for item in list_watch(self.kube, self.pods):
            if isinstance(item, Deleted):
                name = msgspec.json.decode(item.raw)["metadata"]["name"]
                self.present.pop(name, None)
                self.acting.pop(name, None)
                async with self.news:
                    self.news.notify_all()
            for pod in objects_of(item):
                self.present[pod["metadata"]["name"]] = pod

    async def run(self) -> None:
        while True:
            for name, pod in list(self.present.items()):
                running = (
                    pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
                )
                if running and name not in self.acting and await self.take(pod):
                    self.acts(name, pod)
                    async with self.news:
                        self.news.notify_all()
            await asyncio.sleep(0.1)

    async def take(self, pod: dict[str, Any]) -> bool:
        """One attempt for the lock, under the version that was read."""
        lock = pod["spec"]["containers"][0]["args"][-1].partition("=")[2]
        mine = {"holderIdentity": pod["metadata"]["uid"], "leaseDurationSeconds": 15}
        try:
            found = await send(self.kube, "GET", f"{self.leases}/{lock}")
            if found["spec"].get("holderIdentity"):
                return False
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            await merge(self.kube, f"{self.leases}/{lock}", {"metadata": version, "spec": mine})
        except KubeError as error:
            if error.status != 404:
                return False
            await send(self.kube, "POST", self.leases, {"metadata": {"name": lock}, "spec": mine})
        return True

    def acts(self, name: str, pod: dict[str, Any]) -> None:
        slots = pod["metadata"]["annotations"]["shards.tidewright.dev/slots"]
        for other, held in self.acting.items():
            if set(parse_runs(held)) & set(parse_runs(slots)):
                self.twice.append(f"{name} acts on {slots} while {other} acts on {held}")
        self.acting[name] = slots


@pytest.mark.slow
async def test_new_pods_stand_by_until_the_old_ones_are_gone(
    kube: Kube, namespace: str, services: Services
) -> None:
    sets, election = sets_path(namespace), Election(kube, namespace)
    await services.start("watcher", "shard-manager", "actuator")
    await send(
        kube, "POST", f"/api/v1/namespaces/{namespace}/podtemplates",
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "runner-template"}, "template": TEMPLATE},
    )  # fmt: skip
    body = {"apiVersion": "shards.tidewright.dev/v1alpha1", "kind": "ShardSet", "metadata": {"name": "runs"}}
    await send(kube, "POST", sets, {**body, "spec": SPEC})

    def whole(count: int) -> Any:
        def check(found: dict[str, Any]) -> bool:
            rollout = (found["runs"].get("status") or {}).get("rollout") or {}
            return rollout.get("state") == "Complete" and rollout.get("shards") == count

        return check

    async def everybody_acts(count: int) -> None:
        async with election.news, asyncio.timeout(90):
            await election.news.wait_for(lambda: len(election.acting) == count)
        assert sorted(s for text in election.acting.values() for s in parse_runs(text)) == list(range(32))

    tasks = [asyncio.create_task(election.follow()), asyncio.create_task(election.run())]
    try:
        await until(kube, sets, whole(2))
        await everybody_acts(2)
        before = set(election.acting)
        await merge(kube, f"{sets}/runs", {"spec": {"workers": {"replicas": 4}}})
        await until(kube, sets, whole(4), timeout_s=60)
        await everybody_acts(4)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert election.twice == []
    assert before.isdisjoint(election.acting)
