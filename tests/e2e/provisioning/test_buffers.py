"""A CapacityBuffer from the object to nodes that are there before anybody asks for them."""

from __future__ import annotations

from typing import Any

from tests.e2e.provisioning.world import World, condition, kubectl, true
from tests.e2e.sim.world import send, until
from tidewright.events.provisioning import PlanScaleUp, ResolvePod


async def test_a_buffer_makes_nodes_a_pod_takes_its_room_at_once_and_it_is_filled_again(world: World) -> None:
    group = await world.group("spare", max=10)
    await world.start()
    await world.pod_template("chunk")
    buffers = f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{world.namespace}/capacitybuffers"
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "spare"},
        "spec": {"podTemplateRef": {"name": "chunk"}, "replicas": 2},
    }  # fmt: skip
    made = await send(world.kube, "POST", buffers, buffer)

    async def is_so(replicas: int) -> dict[str, Any]:
        """Wait until so many chunks are on ready nodes, and say what the buffer says."""

        def holds(found: dict[str, Any]) -> bool:
            return true("CapacityReady")(found) and found["status"]["replicas"] == replicas

        by_name = await until(
            world.kube, buffers, lambda found: "spare" in found and holds(found["spare"]), timeout_s=60
        )
        return by_name["spare"]

    found = await is_so(2)
    assert await world.target(group) == 2
    assert condition(found, "ReadyForProvisioning")["message"] == "ready"
    assert condition(found, "Provisioning")["reason"] == "FakePodsInjected"
    name = found["status"]["podTemplateRef"]["name"]
    assert name == "capacitybuffer-spare-pod-template"
    managed = (await until(world.kube, world.templates, lambda kept: name in kept))[name]
    assert managed["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "name": "spare",
            "uid": made["metadata"]["uid"], "controller": True,
        }
    ]  # fmt: skip
    assert found["status"]["podTemplateGeneration"] == managed["metadata"]["generation"]
    assert not await until(world.kube, world.pods, lambda pods: not pods, timeout_s=5)  # none was ever made
    said = await world.said("TriggeredScaleUp")
    assert said["TriggeredScaleUp"].startswith("capacity buffer 2 fake pods triggered scale-up: [{" + group)

    pod = {"apiVersion": "v1", "kind": "Pod", **world.template()}
    pod["metadata"] = {**pod["metadata"], "name": "real"}
    await send(world.kube, "POST", world.pods, pod)
    await until(world.kube, world.pods, lambda pods: bool(pods["real"]["spec"].get("nodeName")), timeout_s=30)
    await world.nodes(3)
    await is_so(2)
    plans = await world.decided(PlanScaleUp)
    assert [plan.buffers for plan in plans] == [
        ((f"{world.namespace}/spare", 2),),
        ((f"{world.namespace}/spare", 1),),
    ]
    assert len(await world.decided(ResolvePod)) <= 3
    assert "spare" in kubectl(world.cluster, "get", "cb", "-n", world.namespace)
    await world.kube.request("DELETE", f"{buffers}/spare")
    await until(world.kube, world.templates, lambda left: name not in left, timeout_s=60)
