"""Nodes that nobody needs are drained under a budget and go, though servers refuse, the cloud stumbles and the actuator dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import psutil

from tests import waiting
from tests.e2e.provisioning.world import GROUP_LABEL, LOOK_EVERY_S, World
from tests.e2e.sim.world import NODES, send, until
from tidewright.events.decisions import EvictPod
from tidewright.events.provisioning import DeleteInstances, MarkNode, UndoRemoval
from tidewright.kube.listwatch import Added, Modified, list_watch
from tidewright.kube.taints import DELETION_CANDIDATE, DRAIN, TO_BE_DELETED, UNNEEDED

REPLICAS = 6
QUICK = {
    "scale-down-unneeded-time": "1s",
    "scale-down-delay-after-add": "1s",
    "scale-down-delay-after-failure": "1s",
    "unremovable-node-recheck-timeout": "1s",
    "scan-interval": "1s",
    "node-delete-delay-after-taint": "1s",
}


async def spread_thin(world: World) -> None:
    """Three nodes with two small pods each, and with room on one for all of them."""
    for i in range(3):
        filler = {"apiVersion": "v1", "kind": "Pod", **world.template("7")}
        filler["metadata"] = {"name": f"filler-{i}"}
        await send(world.kube, "POST", world.pods, filler)
    # Placed before the others come: these would all find room on a node that has no filler yet.
    await until(world.kube, world.pods, lambda found: len(running(found)) == 3, timeout_s=60)
    labels = {"app": "web"}
    template = world.template("500m")
    template["metadata"] = {"labels": labels}
    await send(
        world.kube, "POST", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets",
        {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template},
        },
    )  # fmt: skip
    await send(
        world.kube, "POST", budgets(world),
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": REPLICAS - 1, "selector": {"matchLabels": labels}},
        },
    )  # fmt: skip
    await until(
        world.kube, budgets(world), lambda found: found["web"].get("status", {}).get("disruptionsAllowed") == 1,
        timeout_s=60,
    )  # fmt: skip


def budgets(world: World) -> str:
    return f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"


@contextlib.asynccontextmanager
async def never_broken(world: World) -> AsyncIterator[None]:
    """Until the end of the block no state of the budget has fewer healthy pods than it wants."""
    seen: list[dict[str, Any]] = []

    async def look() -> None:
        async for found in list_watch(world.kube, budgets(world)):
            if isinstance(found, Added | Modified):
                seen.append(msgspec.json.decode(bytes(found.raw))["status"])

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    assert seen, "evictions are charged to it"
    assert all(status["currentHealthy"] >= status["desiredHealthy"] for status in seen)


def our_marks(world: World, nodes: dict[str, dict[str, Any]]) -> list[str]:
    """Nodes of the test that carry a taint or mark of removals."""
    found = []
    for name, node in nodes.items():
        if node["metadata"].get("labels", {}).get(GROUP_LABEL) != world.mark:
            continue
        taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
        annotations = node["metadata"].get("annotations") or {}
        if taints & {TO_BE_DELETED, DELETION_CANDIDATE} or {DRAIN, UNNEEDED} & annotations.keys():
            found.append(name)
    return found


async def test_nodes_are_drained_one_pod_at_a_time_whatever_fails_or_dies(world: World) -> None:
    group = await world.group("thin", max=5, min=1)
    await world.configure(**QUICK)
    await world.start()
    await spread_thin(world)
    if world.cluster.embedded:
        for rule in (
            {"match": {"verbs": ["PUT"], "path": "/api/v1/nodes/"}, "action": {"status": 409}, "count": 3},
            {"match": {"verbs": ["POST"], "path": f"{world.namespace}/pods/.*/eviction"}, "action": {"status": 500}, "count": 2},
            {"match": {"verbs": ["POST"], "path": f"{world.namespace}/pods/.*/eviction"}, "action": {"status": 429}, "count": 2},
        ):  # fmt: skip
            await send(world.kube, "POST", "/sim/faults", {"probability": 0.5, "seed": 7, **rule})
    await world.cloud("PATCH", f"/groups/{group}/faults", {"call_failure": 0.1})
    async with never_broken(world):
        for i in range(3):
            await world.kube.request("DELETE", f"{world.pods}/filler-{i}")
        await until(world.kube, NODES, lambda nodes: bool(draining(world, nodes)), timeout_s=60)
        kill(world, "actuator")
        await world.nodes(1)
    await world.cloud("PATCH", f"/groups/{group}/faults", {"call_failure": 0.0})  # the test asks, too
    await waiting.until(lambda: world.target(group), lambda target: target == 1)
    pods = await until(world.kube, world.pods, lambda found: len(running(found)) == REPLICAS, timeout_s=60)
    assert len({pod["spec"]["nodeName"] for pod in running(pods)}) == 1
    await until(world.kube, NODES, lambda nodes: our_marks(world, nodes) == [])
    deletions = await world.decided(DeleteInstances)
    assert all(decision.uids and decision.size == decision.from_size - 1 for decision in deletions)
    assert {name for decision in deletions for name in decision.nodes}.isdisjoint(
        {pod["spec"]["nodeName"] for pod in running(pods)}
    )
    assert len(await world.decided(EvictPod)) >= 4


def running(pods: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        pod
        for pod in pods.values()
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def draining(world: World, nodes: dict[str, dict[str, Any]]) -> list[str]:
    marked = our_marks(world, nodes)
    return [name for name in marked if DRAIN in (nodes[name]["metadata"].get("annotations") or {})]


def kill(world: World, service: str) -> None:
    """A service dies; its supervisor starts it again."""
    for child in psutil.Process().children(recursive=True):
        line = child.cmdline()
        if world.services.name in line and service in line:
            child.kill()


async def test_a_node_whose_pods_may_not_be_evicted_is_as_it_was(world: World) -> None:
    await world.group("kept", max=5, min=1)
    await world.configure(**(QUICK | {"max-pod-eviction-time": "3s", "scale-down-delay-after-failure": "1h"}))
    await world.start()
    await spread_thin(world)
    rule = {
        "id": world.mark,
        "match": {"verbs": ["POST"], "path": f"{world.namespace}/pods/.*/eviction"},
        "action": {"status": 403},
    }
    if not world.cluster.embedded:
        return
    await send(world.kube, "POST", "/sim/faults", rule)
    try:
        for i in range(3):
            await world.kube.request("DELETE", f"{world.pods}/filler-{i}")
        await waiting.until(lambda: world.decided(UndoRemoval), bool, every_s=LOOK_EVERY_S)
        await until(world.kube, NODES, lambda nodes: draining(world, nodes) == [])
        marks = [mark for mark in await world.decided(MarkNode) if mark.key == TO_BE_DELETED]
        # Taken off once more where a fact of before comes after it.
        assert marks[0].present
        assert len(marks) > 1
        assert not any(mark.present for mark in marks[1:])
        nodes = await until(world.kube, NODES, lambda nodes: draining(world, nodes) == [])
        assert not any(node["spec"].get("unschedulable") for node in nodes.values())
        assert len(await world.nodes(3)) == 3
    finally:
        await world.kube.request("DELETE", f"/sim/faults/{world.mark}")
