"""Pending pods get nodes: one increase for all of them."""

from __future__ import annotations

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
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1200,
            "selector": {"matchLabels": {"app": "tw"}},
            "template": world.template("500m"),
        },
    }
    await send(world.kube, "POST", f"/apis/apps/v1/namespaces/{world.namespace}/deployments", deployment)
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
