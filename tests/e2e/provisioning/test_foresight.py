"""A decision to scale a workload has its nodes ordered before anybody carries it out."""

from __future__ import annotations

from tests.e2e.autoscaler.world import shell
from tests.e2e.conftest import tidewright
from tests.e2e.provisioning.world import World
from tests.e2e.sim.world import send, until
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.provisioning import IncreaseNodeGroup, PlanScaleUp

LABELS = {"app": "tw"}


async def test_nodes_for_a_jump_to_a_hundred_pods_are_ordered_before_the_first_of_them_exists(
    world: World,
) -> None:
    kube, namespace = world.kube, world.namespace
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    metric = f"{namespace}.requests"
    group = await world.group("web", max=20)
    await world.configure(foresight="decisions", **{"scale-down-enabled": False})
    actuator = world.services.beside()
    await world.start("watcher", "provisioning", "autoscaler")
    await actuator.start(
        "actuator", actuator=("--cloud", f"simulated={world.cluster.side_url}", "--retry-for", "20")
    )
    await send(
        kube, "POST", deployments,
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": world.template("500m")},
        },
    )  # fmt: skip
    await until(
        kube, deployments, lambda them: them["web"].get("status", {}).get("readyReplicas") == 4, timeout_s=90
    )
    before = await world.decided(IncreaseNodeGroup)
    await actuator.supervisor.stop()
    world.cluster.push({"name": metric, "value": 1000, "namespace": namespace, "labels": LABELS})
    external = {
        "metricName": metric, "metricSelector": {"matchLabels": LABELS}, "highWatermark": "10", "lowWatermark": "5",
    }  # fmt: skip
    await send(
        kube, "POST", f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/watermarkpodautoscalers",
        {
            "apiVersion": "datadoghq.com/v1alpha1", "kind": "WatermarkPodAutoscaler", "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "algorithm": "average", "minReplicas": 1, "maxReplicas": 100, "scaleUpLimitFactor": "5000",
                "upscaleForbiddenWindowSeconds": 1, "metrics": [{"type": "External", "external": external}],
            },
        },
    )  # fmt: skip
    ordered = await world.until_decided(PlanScaleUp, lambda plan: any(e.decision for e in plan.expected))
    (expected,) = ordered.expected
    # Of the 96 pods that are to come the node that is there takes 12.
    assert (expected.workload, expected.pods) == (f"Deployment/{namespace}/web", 84)
    (scaled,) = [
        decision for decision in await world.decided(ScaleWorkload) if decision.id == expected.decision
    ]
    assert scaled.replicas == 100
    pods = await until(kube, world.pods, lambda _: True)
    assert len(pods) == 4  # nobody has carried out anything
    await actuator.start(
        "actuator", actuator=("--cloud", f"simulated={world.cluster.side_url}", "--retry-for", "20")
    )
    await until(
        kube,
        world.pods,
        lambda pods: len(pods) == 100 and all(pod["spec"].get("nodeName") for pod in pods.values()),
        timeout_s=90,
    )
    came = sorted(name for name in await until(kube, world.pods, lambda _: True) if name not in pods)
    code, said, complaint = await shell(
        *tidewright("explain", f"pod/{came[-1]}", "-n", namespace, "--nats", world.services.nats_url),
        *("--cluster", world.services.name),
    )
    assert code == 0, complaint
    assert expected.decision in said  # by which the pod's node was ordered
    assert metric in said  # the sample that led to it
    orders = (await world.decided(IncreaseNodeGroup))[len(before) :]
    assert [(order.target.name, order.from_size, order.size) for order in orders] == [(group, 1, 7)]
