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
    assert not await until(world.kube, world.pods, lambda pods: not pods)  # none was ever made
    said = await world.said("TriggeredScaleUp")
    assert said["TriggeredScaleUp"].startswith("capacity buffer 2 fake pods triggered scale-up: [{" + group)

    pod = {"apiVersion": "v1", "kind": "Pod", **world.template()}
    pod["metadata"] = {**pod["metadata"], "name": "real"}
    await send(world.kube, "POST", world.pods, pod)
    await until(world.kube, world.pods, lambda pods: bool(pods["real"]["spec"].get("nodeName")))
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


async def test_in_hold_a_placeholder_keeps_the_room_until_the_scheduler_displaces_it_for_a_pod(
    world: World,
) -> None:
    await world.group("only", initial=1, min=1, max=1)
    await world.nodes(1)
    await world.configure(profile="hold")
    await world.start()
    await world.pod_template("chunk")
    buffers = f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{world.namespace}/capacitybuffers"
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "one"},
        "spec": {"podTemplateRef": {"name": "chunk"}, "limits": {"cpu": "10"}},
    }  # fmt: skip
    await send(world.kube, "POST", buffers, buffer)

    def held(pods: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        return [pod for name, pod in pods.items() if name.startswith("hold-") and pod["spec"].get("nodeName")]

    pods = await until(world.kube, world.pods, lambda pods: len(held(pods)) == 1, timeout_s=60)
    (placeholder,) = held(pods)
    assert placeholder["spec"]["priorityClassName"] == "tidewright-buffer"
    assert placeholder["spec"]["priority"] == -(2**31)
    await world.services.supervisor.stop()  # nobody of ours is needed for what follows
    pod = {"apiVersion": "v1", "kind": "Pod", **world.template()}
    pod["metadata"] = {**pod["metadata"], "name": "real"}
    real = await send(world.kube, "POST", world.pods, pod)
    await until(
        world.kube,
        world.pods,
        lambda pods: bool(pods["real"]["spec"].get("nodeName")) and not held(pods),
        timeout_s=60,
    )
    said = await world.said("Preempted")
    if world.cluster.embedded:
        assert said["Preempted"].startswith(f"Preempted by pod {real['metadata']['uid']} on node ")
    await world.start()
    await until(
        world.kube,
        buffers,
        lambda found: condition(found["one"], "CapacityReady").get("reason") == "ChunksMissing",
        timeout_s=60,
    )
