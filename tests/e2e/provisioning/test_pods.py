"""Pending pods get nodes: one increase for all of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests import waiting
from tests.e2e.provisioning.world import LOOK_EVERY_S, World
from tests.e2e.sim.world import send, until
from tidewright.events.facts import PodObserved
from tidewright.events.provisioning import IncreaseNodeGroup


def unschedulable(pods: dict[str, dict[str, Any]]) -> int:
    return sum(
        one["type"] == "PodScheduled" and one["status"] == "False"
        for pod in pods.values()
        for one in pod.get("status", {}).get("conditions", ())
    )


@pytest.mark.timeout(400)
async def test_all_pending_pods_make_one_increase_and_run(world: World) -> None:
    # A real scheduler writes 50 times a second, and a real controller manager 20 times.
    count = 1200 if world.cluster.embedded else 240
    await world.start()
    names = iter([f"web-{n}" for n in range(count)])

    async def make() -> None:
        for name in names:
            pod = {"apiVersion": "v1", "kind": "Pod", **world.template("500m")}
            pod["metadata"] = {**pod["metadata"], "name": name}
            await send(world.kube, "POST", world.pods, pod)

    await asyncio.gather(*(make() for _ in range(8)))
    await until(world.kube, world.pods, lambda pods: unschedulable(pods) == count, timeout_s=90)
    # The log may be behind, and hear of the group before it has heard of the last of them.
    await waiting.until(
        lambda: world.observed(PodObserved),
        lambda facts: len({fact.name for fact in facts if fact.unschedulable_since}) == count,
        within_s=90,
        every_s=LOOK_EVERY_S,
    )
    group = await world.group("web", max=100)
    await world.nodes(count // 16)
    await until(
        world.kube,
        world.pods,
        lambda pods: len(pods) == count and all(pod["spec"].get("nodeName") for pod in pods.values()),
        timeout_s=90,
    )
    orders = await world.decided(IncreaseNodeGroup)
    assert [(o.target.name, o.from_size, o.size) for o in orders] == [(group, 0, count // 16)]
    said = await world.said("TriggeredScaleUp")
    assert said["TriggeredScaleUp"] == f"pod triggered scale-up: [{{{group} 0->{count // 16} (max: 100)}}]"
