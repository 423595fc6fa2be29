"""Beside a cluster that is there: nothing in it changes until it is told to act, and then it acts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import Cluster, tidewright
from tests.e2e.up.test_up import start
from tests.waiting import until
from tidewright.kube.client import Kube

__all__ = ["start"]
"""Fixtures."""
SPEC: dict[str, Any] = {
    "scaleTargetRef": {"kind": "Deployment", "name": "modal", "apiVersion": "apps/v1"},
    "minReplicas": 3,
    "maxReplicas": 5,
    "metrics": [
        {"type": "External", "external": {
            "metricName": "rps", "metricSelector": {"matchLabels": {"app": "modal"}}, "highWatermark": "10", "lowWatermark": "5"}}
    ],
}  # fmt: skip
OTHERS = {
    "/apis/apps.kruise.io/v1alpha1/namespaces/default/workloadspreads": {
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "WorkloadSpread", "metadata": {"name": "modal"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "modal"},
                 "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}]},
    },
    "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests": {
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": "modal"},
        "spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
                 "podSets": [{"count": 1, "podTemplateRef": {"name": "modal"}}]},
    },
    "/apis/shards.tidewright.dev/v1alpha1/namespaces/default/shardsets": {
        "apiVersion": "shards.tidewright.dev/v1alpha1", "kind": "ShardSet", "metadata": {"name": "modal"},
        "spec": {"keyspace": {"slots": 32}},
    },
    "/api/v1/namespaces/default/podtemplates": {
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "modal"},
        "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}  # fmt: skip
WPAS = "/apis/datadoghq.com/v1alpha1/namespaces/default/watermarkpodautoscalers"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
OBJECTS = (
    *OTHERS, WPAS, DEPLOYMENTS, "/api/v1/pods", "/api/v1/configmaps", "/api/v1/events", "/apis/apps/v1/replicasets",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/apis/shards.tidewright.dev/v1alpha1/shardmembers",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)  # fmt: skip


async def versions(kube: Kube) -> dict[str, str]:
    """The resourceVersion of every object of these kinds, by uid."""
    found: dict[str, str] = {}
    for path in OBJECTS:
        listed = msgspec.json.decode((await kube.request("GET", path)).body)
        for item in listed["items"]:
            metadata = item["metadata"]
            found[f"{path} {metadata['name']} {metadata['uid']}"] = metadata["resourceVersion"]
    return found


async def post(kube: Kube, path: str, body: dict[str, Any]) -> None:
    await kube.request("POST", path, body=msgspec.json.encode(body))


@pytest.fixture
async def objects(kube: Kube, installed: list[str]) -> Any:
    """An object of every API, with a workload; all goes at the end."""
    del installed  # wanted for being there
    template = {
        "metadata": {"labels": {"app": "modal"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "modal"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "modal"}, "spec": spec}
    await post(kube, DEPLOYMENTS, deployment)
    for path, body in OTHERS.items():
        await post(kube, path, body)
    scaler = {
        "apiVersion": "datadoghq.com/v1alpha1",
        "kind": "WatermarkPodAutoscaler",
        "metadata": {"name": "modal"},
    }
    await post(kube, WPAS, {**scaler, "spec": SPEC})
    await until(lambda: ready(kube), lambda count: count == 1)
    async with asyncio.timeout(60):  # until the cluster's own controllers have nothing more to do
        before = await versions(kube)
        while True:
            await asyncio.sleep(1.0)
            if (now := await versions(kube)) == before:
                break
            before = now
    yield
    for path in (WPAS, DEPLOYMENTS, *OTHERS):
        await kube.request("DELETE", f"{path}/modal")


async def ready(kube: Kube) -> int:
    found = msgspec.json.decode((await kube.request("GET", f"{DEPLOYMENTS}/modal")).body)
    return int((found.get("status") or {}).get("availableReplicas") or 0)


async def replicas(kube: Kube) -> int:
    found = msgspec.json.decode((await kube.request("GET", f"{DEPLOYMENTS}/modal")).body)
    return int(found["spec"]["replicas"])


async def test_nothing_changes_beside_a_cluster_until_it_is_told_to_act(
    start: Callable[..., Any], cluster: Cluster, kube: Kube, objects: None
) -> None:
    at = ("--kubeconfig", str(cluster.kubeconfig))
    before = await versions(kube)
    up = await start(*at)
    await up.ready()
    assert up.out[0].startswith("Tidewright is up in SHADOW: it decides, and writes nothing to this cluster")
    await push(up)
    await up.until(lambda: up.count("watcher", "modes said") == 1)
    await told(up, "ScaleWorkload", "would set replicas 1 -> 3 (shadow)")
    assert await versions(kube) == before
    assert await up.end() == 0
    assert await versions(kube) == before  # nor is anything taken back that was not given

    up = await start(*at, "--enforce", "autoscaler")
    await up.ready()
    assert up.out[0].startswith(
        "Tidewright is up: autoscaler acts. provisioning, spread and shard-manager are in SHADOW"
    )
    await push(up)
    await until(lambda: replicas(kube), lambda found: found == 3)
    changed = {key.split(" ")[0] for key, value in (await versions(kube)).items() if before.get(key) != value}
    assert not changed & {*OTHERS, "/apis/coordination.k8s.io/v1/namespaces/default/leases"}
    assert await up.end() == 0


async def push(up: Any) -> None:
    """One sample of the metric, as a user pushes it."""
    url = up.said(r"(http://127\.0\.0\.1:\d+)/v1/metrics")
    line = {"namespace": "default", "metric": "rps", "labels": {"app": "modal"}, "value": 8}
    async with Kube.at(url) as client:
        await client.request("POST", "/v1/metrics", body=msgspec.json.encode([line]))


async def told(up: Any, *parts: str) -> None:
    """Wait until `tidewright events` shows a line with these parts."""
    ask = up.said(r"ask +\S+ events --follow (.*)").split()

    async def shown() -> str:
        process = await asyncio.create_subprocess_exec(
            *tidewright("events", *ask), stdout=asyncio.subprocess.PIPE, stderr=sys.stderr
        )
        out, _ = await process.communicate()
        return out.decode()

    await until(
        shown,
        lambda out: any(all(part in line for part in parts) for line in out.splitlines()),
        what=f"a line with {parts}",
        within_s=90.0,
        every_s=1.0,
    )
