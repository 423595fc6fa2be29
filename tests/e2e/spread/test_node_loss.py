"""Nodes that go away: their pods give their places back at once, and what replaces them goes where there is room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.e2e.conftest import Cluster, Services
from tests.e2e.provisioning.world import World as Cloud
from tests.e2e.sim.world import NODES
from tests.e2e.spread.test_stories import note
from tests.e2e.spread.world import World, active, deployment, places, spread, subset, subset_of
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.listwatch import Added, Deleted, Modified, Page, list_watch

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEB = ("apps/v1", "Deployment", "web")
PART = "tw-e2e/part"


def on(part: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": PART, "operator": "In", "values": [part]}]}


class Machines:
    """Two groups of nodes for this test alone, one per subset."""

    def __init__(self, kube: Kube, cluster: Cluster, namespace: str, services: Services) -> None:
        self.kube = kube
        self.cloud = Cloud(kube, cluster, namespace, services)
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    async def start(self, **counts: int) -> None:
        for part, count in counts.items():
            await self.cloud.group(part, labels={PART: part}, initial=count)
        await self.cloud.nodes(sum(counts.values()))

    def deployment(self, replicas: int) -> dict[str, Any]:
        made = deployment("web", replicas)
        made["spec"]["template"] = self.cloud.template(cpu="100m", terminationGracePeriodSeconds=0)
        made["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
        return made

    async def lose(self, node: str) -> None:
        """A node is no more; its pods go as the pod collector of a control plane has them go."""
        await self.kube.request("DELETE", f"{NODES}/{node}")
        found = msgspec.json.decode((await self.kube.request("GET", self.pods)).body)["items"]
        now = msgspec.json.encode({"gracePeriodSeconds": 0})
        for pod in found:
            if pod["spec"].get("nodeName") == node:
                with contextlib.suppress(KubeError):  # whoever comes first
                    await self.kube.request("DELETE", f"{self.pods}/{pod['metadata']['name']}", body=now)


@pytest_asyncio.fixture(loop_scope="session")
async def machines(
    kube: Kube, cluster: Cluster, namespace: str, spreading: Services
) -> AsyncIterator[Machines]:
    made = Machines(kube, cluster, namespace, spreading)
    yield made
    await made.cloud.no_cloud()


def running(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found.get("status", {}).get("readyReplicas", 0) == count


async def most(world: World, seen: dict[str, int]) -> None:
    """Note how many active pods each subset has at most. Runs until cancelled."""
    pods: dict[str, dict[str, Any]] = {}
    async for item in list_watch(world.kube, world.pods):
        match item:
            case Page(objects=objects):
                for raw in objects:
                    note(pods, bytes(raw))
            case Added() | Modified():
                note(pods, bytes(item.raw))
            case Deleted():
                note(pods, bytes(item.raw), gone=True)
        for name, count in places(pods.values()).items():
            seen[name] = max(seen.get(name, 0), count)


async def test_pods_of_a_lost_node_are_replaced_in_their_subset(
    world: World, spreading: Services, machines: Machines
) -> None:
    await machines.start(a=2, b=1)
    subsets = (
        subset("a", 4, requiredNodeSelectorTerm=on("a")),
        subset("b", requiredNodeSelectorTerm=on("b")),
    )
    await world.make(world.spreads, spread("web", WEB, *subsets))
    await world.in_force()
    await world.make(world.deployments, machines.deployment(7))
    await world.until(f"{world.deployments}/web", running(7))
    seen: dict[str, int] = {}
    watching = asyncio.create_task(most(world, seen))
    before = await world.until_spread({"a": 4, "b": 3})
    lost = {p["spec"]["nodeName"] for p in before.values() if subset_of(p) == "a"}
    assert len(lost) == 2  # the scheduler uses both
    node = min(lost)
    gone = {name for name, pod in before.items() if pod["spec"]["nodeName"] == node}
    await machines.lose(node)

    def replaced(pods: dict[str, Any]) -> bool:
        there = [p for p in pods.values() if active(p)]
        return not gone & pods.keys() and len(there) == 7 and all("nodeName" in p["spec"] for p in there)

    after = await world.until_pods(replaced)
    assert places(after.values()) == {"a": 4, "b": 3}
    assert all(p["spec"]["nodeName"] != node for p in after.values())
    await world.until_costs({("a", "200"): 4, ("b", "100"): 3})
    watching.cancel()
    assert seen["a"] == 4
    # A pod whose delete was admitted counts until it is gone, and its place is offered already.
    wanted = [(4, 0), (3, -1)]
    await world.until(
        f"{world.spreads}/web",
        lambda ws: [(s["replicas"], s["missingReplicas"]) for s in ws["status"]["subsetStatuses"]] == wanted,
    )


async def test_a_subset_whose_only_node_is_lost_is_left_when_it_is_adaptive(
    world: World, spreading: Services, machines: Machines
) -> None:
    await machines.start(a=1, b=1)
    subsets = (
        subset("a", 3, requiredNodeSelectorTerm=on("a")),
        subset("b", requiredNodeSelectorTerm=on("b")),
    )
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 1}}
    await world.make(world.spreads, spread("web", WEB, *subsets, scheduleStrategy=adaptive))
    await world.in_force()
    await world.make(world.deployments, machines.deployment(5))
    await world.until(f"{world.deployments}/web", running(5))
    before = await world.until_spread({"a": 3, "b": 2})
    (node,) = {p["spec"]["nodeName"] for p in before.values() if subset_of(p) == "a"}
    await machines.lose(node)
    await world.until_spread({"b": 5})
    await world.until(f"{world.deployments}/web", running(5))
    closed = await world.until(
        f"{world.spreads}/web",
        lambda ws: [s["replicas"] for s in ws["status"]["subsetStatuses"]] == [0, 5],
    )
    first = closed["status"]["subsetStatuses"][0]
    assert [(c["type"], c["status"], c["reason"]) for c in first["conditions"]] == [
        ("Schedulable", "False", "PodUnschedulable")
    ]
