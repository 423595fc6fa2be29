"""Pending pods get nodes: one increase for all of them."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.e2e.provisioning.world import World
from tests.e2e.sim.world import send, until
from tidewright.events.provisioning import IncreaseNodeGroup


def unschedulable(pods: dict[str, dict[str, Any]]) -> int:
    return sum(
        one["type"] == "PodScheduled" and one["status"] == "False"
        for pod in pods.values()
        for one in pod.get("status", {}).get("conditions", ())
    )


async def test_1200_pending_pods_make_one_increase_and_all_of_them_run(world: World) -> None:
    await world.start()
    # Made one by one: a real controller manager, held to 20 requests a second, would take minutes.
    names = iter([f"web-{n}" for n in range(1200)])

    async def make() -> None:
        for name in names:
            pod = {"apiVersion": "v1", "kind": "Pod", **world.template("500m")}
            pod["metadata"] = {**pod["metadata"], "name": name}
            await send(world.kube, "POST", world.pods, pod)

    await asyncio.gather(*(make() for _ in range(8)))
    await until(world.kube, world.pods, lambda pods: unschedulable(pods) == 1200, timeout_s=120)
    group = await world.group("web", max=100)
    await world.nodes(75)
    await until(
        world.kube,
        world.pods,
        lambda pods: len(pods) == 1200 and all(pod["spec"].get("nodeName") for pod in pods.values()),
        timeout_s=120,
    )
    orders = await world.decided(IncreaseNodeGroup)
    assert [(o.target.name, o.from_size, o.size) for o in orders] == [(group, 0, 75)]
    said = await world.said("TriggeredScaleUp")
    assert said["TriggeredScaleUp"] == f"pod triggered scale-up: [{{{group} 0->75 (max: 100)}}]"
