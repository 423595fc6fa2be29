"""One namespace with a workload, a metric and WatermarkPodAutoscalers, and waiting for what they become."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from tests.e2e.conftest import Cluster
from tests.e2e.sim.world import until
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

LABELS = {"app": "web"}
GROUP = "wpa-e2e.tidewright.dev"
PATIENCE_S = 60.0
"""A busy machine takes its time; what is awaited is an event, so patience costs nothing."""
Object = dict[str, Any]
Holds = Callable[[Object], bool]


def _definition(group: str, version: str, plural: str, kind: str, subresources: Object) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                }
            ],
        },
    }


RACKS = _definition(
    GROUP, "v1", "racks", "Rack",
    {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
)  # fmt: skip
"""A custom resource that can be scaled."""
MONITORS = _definition("datadoghq.com", "v1alpha1", "datadogmonitors", "DatadogMonitor", {"status": {}})


async def definition(kube: Kube, path: str) -> None:
    """Wait until a definition is established and served, which on a real API server is a moment later."""
    collection, _, name = path.rpartition("/")

    def established(definitions: dict[str, Object]) -> bool:
        conditions = definitions.get(name, {}).get("status", {}).get("conditions") or []  # null at first
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    spec = (await until(kube, collection, established))[name]["spec"]
    served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await kube.request("GET", served)
                return
            except KubeError as error:
                if error.status not in (404, 429):  # not there yet, and "storage is (re)initializing"
                    raise
            await asyncio.sleep(0.05)


def template(labels: dict[str, str] = LABELS) -> Object:
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}]},
    }


def condition(scaler: Object, kind: str) -> Object:
    """A condition of an autoscaler; empty when it has none."""
    conditions = scaler.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def says(kind: str, status: str, reason: str = "") -> Holds:
    """The condition has this status, and this reason."""

    def holds(scaler: Object) -> bool:
        it = condition(scaler, kind)
        return it.get("status") == status and it.get("reason", "").startswith(reason)

    return holds


def wants(replicas: int) -> Holds:
    return lambda workload: workload["spec"]["replicas"] == replicas


class World:
    """One namespace of the cluster."""

    def __init__(self, kube: Kube, cluster: Cluster, namespace: str) -> None:
        self.kube, self.cluster, self.namespace = kube, cluster, namespace
        self.metric = f"{namespace}.requests"
        self.deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self.statefulsets = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
        self.racks = f"/apis/{GROUP}/v1/namespaces/{namespace}/racks"
        self.autoscalers = f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/watermarkpodautoscalers"
        self.monitors = f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/datadogmonitors"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.events = f"/api/v1/namespaces/{namespace}/events"

    def measure(self, value: float | None) -> None:
        """What the external metrics API says from now on; None for nothing."""
        pushed: Object = {"name": self.metric, "value": value, "namespace": self.namespace, "labels": LABELS}
        self.cluster.push(pushed)

    async def make(self, path: str, manifest: Object) -> Object:
        answer = await self.kube.request("POST", path, body=msgspec.json.encode(manifest))
        created: Object = msgspec.json.decode(answer.body)
        return created

    async def get(self, path: str) -> Object:
        obj: Object = msgspec.json.decode((await self.kube.request("GET", path)).body)
        return obj

    async def patch(self, path: str, content: Object) -> Object:
        answer = await self.kube.request(
            "PATCH", path, body=msgspec.json.encode(content), content_type="application/merge-patch+json"
        )
        patched: Object = msgspec.json.decode(answer.body)
        return patched

    async def delete(self, path: str) -> None:
        await self.kube.request("DELETE", path)

    async def until(self, path: str, holds: Holds) -> Object:
        """Watch an object until it is as wanted."""
        collection, _, name = path.rpartition("/")
        by_name = await until(
            self.kube, collection, lambda objects: name in objects and holds(objects[name]), PATIENCE_S
        )
        return by_name[name]

    async def gone(self, path: str) -> None:
        """Watch until an object is no longer there."""
        collection, _, name = path.rpartition("/")
        await until(self.kube, collection, lambda objects: name not in objects, PATIENCE_S)

    async def deployment(self, replicas: int = 2, name: str = "web") -> str:
        """A Deployment with ready pods; its path. Of one that is scaled meanwhile so many may never be seen."""
        path = await self.made_deployment(replicas, name)
        await self.until(
            path, lambda deployment: deployment.get("status", {}).get("readyReplicas") == replicas
        )
        return path

    async def made_deployment(self, replicas: int, name: str = "web") -> str:
        """A Deployment, as soon as it is there; its path."""
        labels = LABELS if name == "web" else {"app": name}
        await self.make(
            self.deployments,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": template(labels),
                },
            },
        )
        return f"{self.deployments}/{name}"

    async def autoscaler(
        self, name: str = "web", *, annotations: dict[str, str] | None = None, **spec: Any
    ) -> str:
        """A WatermarkPodAutoscaler with marks 5 and 10 per pod, quick windows; its path."""
        await self.make(self.autoscalers, self.manifest(name, annotations=annotations, **spec))
        return f"{self.autoscalers}/{name}"

    def manifest(
        self, name: str = "web", *, annotations: dict[str, str] | None = None, **spec: Any
    ) -> Object:
        external = {
            "metricName": self.metric,
            "metricSelector": {"matchLabels": LABELS},
            "highWatermark": "10",
            "lowWatermark": "5",
        }
        return {
            "apiVersion": "datadoghq.com/v1alpha1",
            "kind": "WatermarkPodAutoscaler",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "algorithm": "average",
                "minReplicas": 1,
                "maxReplicas": 12,
                "scaleUpLimitFactor": "300",
                "scaleDownLimitFactor": "99",
                "upscaleForbiddenWindowSeconds": 1,
                "downscaleForbiddenWindowSeconds": 1,
                **(
                    {} if "recommender" in spec else {"metrics": [{"type": "External", "external": external}]}
                ),
                **spec,
            },
        }

    async def told(self, reason: str, text: str = "") -> Object:
        """Wait for an object event about an autoscaler."""
        matching: list[Object] = []

        def there(events: dict[str, Object]) -> bool:
            matching[:] = [
                event
                for event in events.values()
                if event["involvedObject"]["kind"] == "WatermarkPodAutoscaler"
                and event["reason"] == reason
                and text in event["message"]
            ]
            return bool(matching)

        await until(self.kube, self.events, there, PATIENCE_S)
        return matching[0]

    async def reasons(self) -> set[str]:
        """Reasons of the object events about autoscalers so far."""
        listed = await self.get(self.events)
        return {
            event["reason"]
            for event in listed["items"]
            if event["involvedObject"]["kind"] == "WatermarkPodAutoscaler"
        }


async def shell(*command: str, body: str | None = None) -> tuple[int, str, str]:
    """Run a program; exit code, stdout, stderr."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, error = await process.communicate(None if body is None else body.encode())
    return process.returncode or 0, out.decode(), error.decode()
