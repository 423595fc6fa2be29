"""The whole way: a metric's sample becomes a scale request at the API server, and a status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import Cluster, Services
from tests.e2e.sim.world import until
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

LABELS = {"app": "web"}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}]
            },
        },
    },
}


def autoscaler(metric: str, *, target: str = "web", **spec: Any) -> dict[str, Any]:
    external = {
        "metricName": metric,
        "metricSelector": {"matchLabels": LABELS},
        "highWatermark": "10",
        "lowWatermark": "5",
    }
    return {
        "apiVersion": "datadoghq.com/v1alpha1",
        "kind": "WatermarkPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "algorithm": "average",
            "minReplicas": 1,
            "maxReplicas": 12,
            "scaleUpLimitFactor": "300",
            "metrics": [{"type": "External", "external": external}],
            **spec,
        },
    }


class World:
    """One namespace of the cluster."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube = kube
        self.deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self.autoscalers = f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/watermarkpodautoscalers"
        self.events = f"/api/v1/namespaces/{namespace}/events"

    async def make(self, path: str, manifest: dict[str, Any]) -> None:
        await self.kube.request("POST", path, body=msgspec.json.encode(manifest))

    async def get(self, path: str) -> dict[str, Any]:
        answer = await self.kube.request("GET", path)
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        return found

    async def until(self, path: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Watch an object until it is as wanted."""
        collection, _, name = path.rpartition("/")
        found = await until(self.kube, collection, lambda objects: name in objects and holds(objects[name]))
        return found[name]


def ready(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found.get("status", {}).get("readyReplicas") == count


async def warned(world: World, text: str) -> None:
    """Wait for a warning about the autoscaler that names something."""

    def about(event: dict[str, Any]) -> bool:
        kind = event["involvedObject"]["kind"]
        return kind == "WatermarkPodAutoscaler" and event["type"] == "Warning" and text in event["message"]

    await until(world.kube, world.events, lambda events: any(map(about, events.values())))


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = found.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


async def test_a_metric_above_its_mark_scales_the_workload_and_the_status_says_why(
    kube: Kube, namespace: str, cluster: Cluster, services: Services
) -> None:
    world = World(kube, namespace)
    metric = f"{namespace}.requests"
    cluster.push({"name": metric, "value": 60.0, "namespace": namespace, "labels": LABELS})
    await world.make(world.deployments, DEPLOYMENT)
    await world.until(f"{world.deployments}/web", ready(2))
    await services.start("watcher", "autoscaler", "actuator")
    # With short windows: a look within one, which the next sample brings, finds that it is not able to scale.
    asked = autoscaler(metric, upscaleForbiddenWindowSeconds=1, downscaleForbiddenWindowSeconds=1)
    await world.make(world.autoscalers, asked)
    await world.until(f"{world.deployments}/web", lambda d: d["spec"]["replicas"] == 6)
    await world.until(
        f"{world.autoscalers}/web",
        lambda w: (
            w.get("status", {}).get("desiredReplicas") == 6
            and condition(w, "ScalingActive").get("status") == "True"
            and condition(w, "AbleToScale").get("status") == "True"
        ),
    )


async def test_a_target_that_does_not_exist_is_said_on_the_object_and_services_keep_running(
    kube: Kube, namespace: str, cluster: Cluster, services: Services
) -> None:
    world = World(kube, namespace)
    metric = f"{namespace}.requests"
    cluster.push({"name": metric, "value": 60.0, "namespace": namespace, "labels": LABELS})
    await services.start("watcher", "autoscaler", "actuator")
    await world.make(world.autoscalers, autoscaler(metric, target="nobody"))
    await world.until(
        f"{world.autoscalers}/web", lambda w: condition(w, "AbleToScale").get("status") == "False"
    )
    await warned(world, "nobody")
    # The target appears, and is scaled: nothing had to be restarted.
    await world.make(world.deployments, {**DEPLOYMENT, "metadata": {"name": "nobody"}})
    await world.until(f"{world.deployments}/nobody", lambda d: d["spec"]["replicas"] > 2)


async def test_a_metric_that_does_not_exist_is_said_on_the_object_with_an_event(
    kube: Kube, namespace: str, services: Services
) -> None:
    world = World(kube, namespace)
    await world.make(world.deployments, DEPLOYMENT)
    await world.until(f"{world.deployments}/web", ready(2))
    await services.start("watcher", "autoscaler", "actuator")
    await world.make(world.autoscalers, autoscaler(f"{namespace}.nothing"))
    found = await world.until(
        f"{world.autoscalers}/web", lambda w: condition(w, "ScalingActive").get("status") == "False"
    )
    assert f"{namespace}.nothing" in condition(found, "ScalingActive")["message"]
    await warned(world, f"{namespace}.nothing")
    assert (await world.get(f"{world.deployments}/web"))["spec"]["replicas"] == 2


async def test_an_invalid_autoscaler_is_refused_in_a_condition_and_scales_nothing(
    kube: Kube, namespace: str, cluster: Cluster, services: Services
) -> None:
    world = World(kube, namespace)
    metric = f"{namespace}.requests"
    cluster.push({"name": metric, "value": 600.0, "namespace": namespace, "labels": LABELS})
    await world.make(world.deployments, DEPLOYMENT)
    await services.start("watcher", "autoscaler", "actuator")
    await world.make(world.autoscalers, autoscaler(metric, minReplicas=5, maxReplicas=3))
    found = await world.until(
        f"{world.autoscalers}/web", lambda w: bool(w.get("status", {}).get("conditions"))
    )
    said = " ".join(c.get("message", "") for c in found["status"]["conditions"])
    assert "minimum number of replicas" in said
    assert (await world.get(f"{world.deployments}/web"))["spec"]["replicas"] == 2


async def test_a_malformed_autoscaler_is_refused_by_the_api_server_naming_the_field(
    kube: Kube, namespace: str, installed: list[str]
) -> None:
    del installed
    world = World(kube, namespace)
    with pytest.raises(KubeError, match=r"spec\.maxReplicas") as refused:
        await world.make(world.autoscalers, autoscaler("m", maxReplicas="many"))
    assert refused.value.status == 422
