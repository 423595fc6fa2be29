"""Cluster API: pending pods to nodes and back to the minimum, over machines that come one after another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.e2e.provisioning.world import GROUP_LABEL, World
from tests.e2e.sim.world import NODES, send, until
from tests.unit.cloud.contract.moon import MAX, MIN, Moon
from tidewright.cloud.clusterapi.marks import DECISION
from tidewright.cloud.clusterapi.template import PREFIX
from tidewright.events.provisioning import CloudObserved, DeleteInstances, IncreaseNodeGroup
from tidewright.sim.options import NODE_LABEL

QUICK = {
    "scale-down-unneeded-time": "1s",
    "scale-down-delay-after-add": "1s",
    "unremovable-node-recheck-timeout": "1s",
    "scan-interval": "1s",
    "node-delete-delay-after-taint": "0s",
}


class MoonOfWorld(Moon):
    """The infrastructure of one test: its nodes are kept ready by the cluster's kubelets, and only its pods run there."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.namespace = world.namespace

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        return await send(self.world.kube, method, path, body, content_type)

    def node(self, name: str) -> dict[str, Any]:
        node = super().node(name)
        mark = self.world.mark
        node["metadata"]["labels"] = {NODE_LABEL: "true", GROUP_LABEL: mark, "kubernetes.io/hostname": name}
        node["spec"]["taints"] = [{"key": GROUP_LABEL, "value": mark, "effect": "NoSchedule"}]
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        node["status"] = {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        }  # fmt: skip
        return node

    @contextlib.asynccontextmanager
    async def at_work(self, group_id: str) -> AsyncIterator[None]:
        """Machines come and go by the group's size, until the end of the block."""

        async def work() -> None:
            while True:
                await self.come(group_id)
                await asyncio.sleep(0.1)

        working = asyncio.create_task(work())
        try:
            yield
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            for name, node in (await listed(self.world, NODES)).items():
                if node["metadata"].get("labels", {}).get(GROUP_LABEL) == self.world.mark:
                    await self.send("DELETE", f"{NODES}/{name}")


async def test_pods_get_machines_and_machines_that_nobody_needs_go(world: World) -> None:
    moon = MoonOfWorld(world)
    await moon.install()
    group = await moon.make(
        "MachineDeployment",
        f"md-{world.mark}",
        {
            MIN: "1",
            MAX: "5",
            f"{PREFIX}cpu": "8",
            f"{PREFIX}memory": "32Gi",
            f"{PREFIX}labels": f"{GROUP_LABEL}={world.mark}",
            f"{PREFIX}taints": f"{GROUP_LABEL}={world.mark}:NoSchedule",
        },
        size=1,
    )
    world.made += [moon.at(group), *moon.definitions]
    await world.configure(**QUICK)
    async with moon.at_work(group):
        await world.start(clouds=(f"moon=clusterapi:namespace={world.namespace}",))
        for number in range(3):
            pod = {"apiVersion": "v1", "kind": "Pod", **world.template("7")}
            pod["metadata"] = {**pod["metadata"], "name": f"p{number}"}
            await send(world.kube, "POST", world.pods, pod)
        await world.nodes(3)
        await until(
            world.kube,
            world.pods,
            lambda pods: len(pods) == 3 and all(pod["spec"].get("nodeName") for pod in pods.values()),
            timeout_s=120,
        )
        (busy,) = {
            pod["spec"]["nodeName"] for name, pod in (await listed(world, world.pods)).items() if name == "p0"
        }
        for name in ("p1", "p2"):
            await world.kube.request("DELETE", f"{world.pods}/{name}")
        assert await world.nodes(1) == [busy]  # and not just any of the three
        await world.services.supervisor.stop()
    (left,) = await moon.machines(group)
    assert left["metadata"]["name"] == busy
    assert DECISION not in left["metadata"].get("annotations", {})
    orders = [order for order in await world.decided(IncreaseNodeGroup) if order.target.name == group]
    assert (orders[0].from_size, orders[-1].size) == (1, 3)
    assert await world.decided(DeleteInstances)
    (cloud,) = {(fact.name, fact.kind, fact.promise) for fact in await world.observed(CloudObserved)}
    assert cloud == ("moon", "clusterapi", "absolute size")


async def listed(world: World, path: str) -> dict[str, dict[str, Any]]:
    """Objects by name, as they are now."""
    items = (await send(world.kube, "GET", path))["items"]
    return {it["metadata"]["name"]: it for it in items}
