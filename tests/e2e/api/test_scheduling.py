"""Where the scheduler puts pods, on nodes that are nothing but objects: each test has nodes of its own.

A node that says it is ready and what it has is a node to the scheduler; no machine is needed to see where
pods are bound. Pods keep to the test's nodes by a node selector, and a taint keeps everybody else's away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.e2e.api.client import Client, Object, pod

POOL = "tidewright.test/pool"
Make = Callable[..., Awaitable[str]]


@pytest.fixture
async def node(client: Client) -> AsyncIterator[Make]:
    """Makes nodes of this test, ready and without taints but those asked for; they are deleted afterwards."""
    made: list[str] = []

    async def make(name: str, *, cpu: str = "2", taints: tuple[Object, ...] = (), **labels: str) -> str:
        full = f"{client.namespace}-{name}"
        kept = ({"key": POOL, "value": client.namespace, "effect": "NoSchedule"}, *taints)
        capacity = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
        conditions = [
            {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": "Test"}
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
        ]
        await client.create(
            "/api/v1/nodes",
            {
                "metadata": {
                    "name": full,
                    "labels": {"pool": client.namespace, "kubernetes.io/hostname": full, **labels},
                },
                "spec": {"taints": list(kept)},
                "status": {"capacity": capacity, "allocatable": capacity, "conditions": conditions},
            },
        )
        made.append(full)

        async def clean() -> bool:
            keys = {
                taint["key"]
                for taint in (await client.get(f"/api/v1/nodes/{full}"))["spec"].get("taints") or ()
            }
            return keys == {taint["key"] for taint in kept}

        await client.until(clean)  # a real API server taints every new node until it is seen to be ready
        return full

    yield make
    await client.delete(client.path("pods"), {"gracePeriodSeconds": 0})  # no kubelet would end them
    for name in made:
        await client.delete(f"/api/v1/nodes/{name}")


def wanting(client: Client, name: str, cpu: str = "1", **spec: Any) -> Object:
    """A pod that keeps to the test's nodes."""
    made = pod(name, app="a")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    tolerations = [{"key": POOL, "operator": "Exists"}, *spec.pop("tolerations", ())]
    made["spec"] |= {"nodeSelector": {"pool": client.namespace}, "tolerations": tolerations, **spec}
    return made


async def bound(client: Client, name: str) -> str:
    """The node that a pod is given."""

    async def there() -> str:
        return (await client.get(client.path("pods", name)))["spec"].get("nodeName") or ""

    found: str = await client.until(there)
    return found


async def unschedulable(client: Client, name: str) -> str:
    """What the scheduler says of a pod that fits nowhere."""

    async def said() -> str:
        conditions = ((await client.get(client.path("pods", name))).get("status") or {}).get(
            "conditions"
        ) or ()
        return next(
            (
                one["message"]
                for one in conditions
                if one["type"] == "PodScheduled" and one["status"] == "False"
            ),
            "",
        )

    found: str = await client.until(said)
    return found


async def test_pods_go_where_there_is_room(client: Client, node: Make) -> None:
    names = {await node("a"), await node("b")}
    for name in ("p", "q"):
        await client.create(client.path("pods"), wanting(client, name, "1500m"))
    assert {await bound(client, "p"), await bound(client, "q")} == names
    await client.create(client.path("pods"), wanting(client, "r", "1500m"))
    told = await unschedulable(client, "r")
    assert "nodes are available" in told
    assert "2 Insufficient cpu" in told
    found = await client.get(client.path("pods", "r"))
    condition = next(one for one in found["status"]["conditions"] if one["type"] == "PodScheduled")
    assert condition["reason"] == "Unschedulable"

    async def event() -> bool:
        items = (await client.get(client.path("events"), fieldSelector="reason=FailedScheduling"))["items"]
        return any(one["message"] == told for one in items)

    await client.until(event)
    await client.delete(client.path("pods", "p"), {"gracePeriodSeconds": 0})
    assert await bound(client, "r") in names  # room was made


async def test_taints_keep_pods_away_that_do_not_tolerate_them(client: Client, node: Make) -> None:
    taint = {"key": "dedicated", "value": "test", "effect": "NoSchedule"}
    name = await node("a", taints=(taint,))
    await client.create(client.path("pods"), wanting(client, "p"))
    assert "untolerated taint" in await unschedulable(client, "p")
    tolerations = [{"key": "dedicated", "operator": "Equal", "value": "test", "effect": "NoSchedule"}]
    await client.create(client.path("pods"), wanting(client, "q", tolerations=tolerations))
    assert await bound(client, "q") == name


async def test_anti_affinity_keeps_pods_apart(client: Client, node: Make) -> None:
    names = {await node("a"), await node("b")}
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for name in ("p", "q"):
        await client.create(client.path("pods"), wanting(client, name, "100m", affinity=affinity))
    assert {await bound(client, "p"), await bound(client, "q")} == names
    await client.create(client.path("pods"), wanting(client, "r", "100m", affinity=affinity))
    assert "didn't match pod anti-affinity rules" in await unschedulable(client, "r")


async def test_pods_are_spread_over_zones(client: Client, node: Make) -> None:
    for name in ("a", "b"):
        await node(name, **{"topology.kubernetes.io/zone": f"zone-{name}"})
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    zones: dict[str, int] = {}
    for name in ("p", "q", "r", "s"):
        await client.create(
            client.path("pods"), wanting(client, name, "100m", topologySpreadConstraints=[constraint])
        )
        zone = (await bound(client, name))[-1]
        zones[zone] = zones.get(zone, 0) + 1
    assert zones == {"a": 2, "b": 2}


async def test_a_gated_pod_waits_for_its_gates(client: Client, node: Make) -> None:
    name = await node("a")
    gates = [{"name": "tidewright.test/gate"}]
    made = await client.create(client.path("pods"), wanting(client, "p", schedulingGates=gates))
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    await client.create(client.path("pods"), wanting(client, "q", "100m"))
    assert await bound(client, "q") == name
    assert "nodeName" not in (await client.get(client.path("pods", "p")))["spec"]
    await client.merge(client.path("pods", "p"), {"spec": {"schedulingGates": None}})
    assert await bound(client, "p") == name


async def test_a_cordoned_node_gets_nothing_new(client: Client, node: Make) -> None:
    name = await node("a")
    await client.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})

    async def tainted() -> bool:
        taints = (await client.get(f"/api/v1/nodes/{name}"))["spec"].get("taints") or ()
        return any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in taints)

    await client.until(tainted)
    await client.create(client.path("pods"), wanting(client, "p"))
    assert "were unschedulable" in await unschedulable(client, "p")
    await client.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
    assert await bound(client, "p") == name


async def test_an_important_pod_displaces_as_few_others_as_it_needs(client: Client, node: Make) -> None:
    name = f"important-{client.namespace}"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.create(classes, {"metadata": {"name": name}, "value": 1000})
    try:
        there = await node("one")
        for number in range(2):
            low = wanting(client, f"low-{number}")
            low["spec"]["terminationGracePeriodSeconds"] = 0  # no kubelet would end them
            await client.create(client.path("pods"), low)
            assert await bound(client, f"low-{number}") == there
        await client.create(client.path("pods"), wanting(client, "high", priorityClassName=name))
        assert await bound(client, "high") == there
        left = [item["metadata"]["name"] for item in (await client.get(client.path("pods")))["items"]]
        assert len([one for one in left if one.startswith("low-")]) == 1
    finally:
        await client.delete(f"{classes}/{name}")
