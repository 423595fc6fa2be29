"""A cloud that stumbles, lies or breaks, and services that are killed: one order, and nothing left behind."""

from __future__ import annotations

from typing import Any

import psutil

from tests import waiting
from tests.e2e.provisioning.world import GROUP_LABEL, World, condition, false, true
from tests.e2e.sim.world import send, until
from tidewright.events.provisioning import CreateNodeGroup, DeleteInstances, IncreaseNodeGroup


async def settles_at(world: World, group: str, size: int) -> None:
    """Wait until the cloud wants so many nodes of a group."""
    await waiting.until(lambda: world.target(group), lambda found: found == size)


async def test_slow_throttled_failed_and_lost_answers_still_make_one_order(world: World) -> None:
    chances = {"lost_answer": 0.5, "call_failure": 0.3, "throttled": 0.2}
    # Fewer than the actuator's attempts: when all of those are spoiled, giving up is right.
    faults = {**chances, "spoils": 6, "answer_delay": "uniform:0:0.1"}
    group = await world.group("shaky", max=20, faults=faults)
    await world.start()
    await world.pod_template()
    await world.ask("train", ("worker", 5))
    await world.request("train", true("CapacityReady"))
    assert sizes(await world.decided(IncreaseNodeGroup)) == [(group, 0, 5)]
    assert len(await world.nodes(5)) == 5


def sizes(orders: list[Any]) -> list[tuple[str, int, int]]:
    return [(order.target.name, order.from_size, order.size) for order in orders]


async def test_instances_that_the_cloud_cannot_make_are_removed_and_the_request_says_so(
    world: World,
) -> None:
    group = await world.group("half", max=10, faults={"stock": 2, "stock_refuses": False})
    await world.start()
    await world.pod_template()
    await world.ask("train", ("worker", 4))
    found = await world.request("train", false("CapacityReady"))
    assert condition(found, "Provisioned")["status"] == "True"
    await settles_at(world, group, 2)
    assert len(await world.nodes(2)) == 2
    (deletion,) = await world.decided(DeleteInstances)
    assert len(deletion.instances) == 2


async def test_a_group_that_vanishes_during_its_increase_is_said_on_the_request(world: World) -> None:
    group = await world.group("gone", max=10, boot="60")
    await world.start()
    await world.pod_template()
    await world.ask("train", ("worker", 3))
    await world.request("train", true("Provisioned"))
    await world.cloud("DELETE", f"/groups/{group}?force=true")
    world.groups.remove(group)
    await world.request("train", false("CapacityReady"))
    await world.said("CapacityNotReady")


async def test_services_killed_during_an_order_go_on_and_order_once(world: World) -> None:
    group = await world.group("slow", max=10, faults={"answer_delay": "1"})
    await world.start()
    await world.pod_template()
    await world.ask("train", ("worker", 3))
    await world.request("train", true("Accepted"))
    killed = []
    for child in psutil.Process().children(recursive=True):
        line = child.cmdline()
        if world.services.name in line and ("actuator" in line or "provisioning" in line):
            child.kill()
            killed.append(child)
    assert len(killed) == 2
    await world.request("train", true("CapacityReady"))
    assert await world.target(group) == 3
    assert sizes(await world.decided(IncreaseNodeGroup)) == [(group, 0, 3)]


async def test_a_group_is_made_for_what_no_group_holds_and_removed_when_it_is_empty(world: World) -> None:
    machine = {
        "name": "e2e",
        "resources": {"cpu": 8000, "memory": 32 * 2**30, "pods": 110},
        "labels": {GROUP_LABEL: world.mark},
        "taints": [{"key": GROUP_LABEL, "value": world.mark, "effect": "NoSchedule"}],
        "zones": ["zone-a", "zone-b"],
    }
    await world.configure(
        **{
            "machine-types": [machine],
            "cores-total": "0:1000",
            "scale-down-unneeded-time": "1s",
            "scale-down-delay-after-add": "1s",
        }
    )
    await world.start()
    pod = {"apiVersion": "v1", "kind": "Pod", **world.template("6")}
    pod["metadata"] = {"name": "lonely"}
    await send(world.kube, "POST", world.pods, pod)
    found = await until(world.kube, world.pods, lambda pods: bool(pods["lonely"]["spec"].get("nodeName")))
    assert found["lonely"]["spec"]["nodeName"].startswith("autoprovisioned-e2e")
    made = await world.decided(CreateNodeGroup)
    assert [(d.target.name, d.zone) for d in made] == [
        ("autoprovisioned-e2e", "zone-a"),
        ("autoprovisioned-e2e-1", "zone-b"),
    ]
    await world.kube.request("DELETE", f"{world.pods}/lonely")
    await world.nodes(0)
    await waiting.until(
        lambda: world.cloud("GET", "/groups"),
        lambda groups: not any(g["id"].startswith("autoprovisioned") for g in groups),
    )
