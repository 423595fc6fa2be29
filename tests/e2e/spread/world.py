"""What the tests of spread do in a cluster: make things, wait until they are as wanted, count."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from tests.e2e.sim.world import until
from tidewright.actuator.endpoints import served
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, MATCHED_ANNOTATION
from tidewright.spread.api.hooks import DEFINITION, NAME

MERGE = "application/merge-patch+json"
WHITELIST = "default/tw-e2e-kruise-configuration"
"""Where the module's services read which custom kinds are allowed: a test that needs some makes it."""
WHITELIST_KEY = "WorkloadSpread_Watch_Custom_Workload_WhiteList"
Object = dict[str, Any]


class World:
    """One namespace of the cluster."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube = kube
        self.namespace = namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self.events = f"/api/v1/namespaces/{namespace}/events"
        self.deployments = self.collection("apps/v1", "deployments")
        self.spreads = self.collection("apps.kruise.io/v1alpha1", "workloadspreads")

    def collection(self, api_version: str, plural: str) -> str:
        return f"/apis/{api_version}/namespaces/{self.namespace}/{plural}"

    async def make(self, path: str, manifest: Object) -> Object:
        answer = await self.kube.request("POST", path, body=msgspec.json.encode(manifest))
        created: Object = msgspec.json.decode(answer.body)
        return created

    async def patch(self, path: str, patch: Object) -> None:
        await self.kube.request("PATCH", path, body=msgspec.json.encode(patch), content_type=MERGE)

    async def delete(self, path: str) -> None:
        await self.kube.request("DELETE", path)

    async def get(self, path: str) -> Object:
        obj: Object = msgspec.json.decode((await self.kube.request("GET", path)).body)
        return obj

    async def allow(self, text: str) -> None:
        """Write the whitelist of custom kinds; it goes with the test."""
        namespace, _, name = WHITELIST.partition("/")
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {WHITELIST_KEY: text},
        }
        await self.make(f"/api/v1/namespaces/{namespace}/configmaps", manifest)

    async def scale(self, name: str, replicas: int) -> None:
        await self.patch(f"{self.deployments}/{name}", {"spec": {"replicas": replicas}})

    async def until(self, path: str, holds: Callable[[Object], bool]) -> Object:
        """Watch an object until it is as wanted."""
        collection, _, name = path.rpartition("/")
        by_name = await until(self.kube, collection, lambda objects: name in objects and holds(objects[name]))
        return by_name[name]

    async def in_force(self, name: str = "web") -> None:
        """Wait until a spread is looked after; pods that come with it are held for a moment only, then go in untouched."""
        await self.until(f"{self.spreads}/{name}", lambda found: "status" in found)

    async def until_spread(
        self, expected: dict[str, int], where: Callable[[Object], bool] = lambda _: True
    ) -> dict[str, Object]:
        """Watch pods until the active ones are placed like this; "" are those without a place."""
        seen: list[dict[str, int]] = [{}]

        def holds(pods: dict[str, Object]) -> bool:
            seen[0] = places(p for p in pods.values() if where(p))
            return seen[0] == expected

        try:
            return await until(self.kube, self.pods, holds)
        except AssertionError as error:
            raise AssertionError(f"pods are placed {seen[0]}, not {expected}") from error

    async def until_pods(self, holds: Callable[[dict[str, Object]], bool]) -> dict[str, Object]:
        """Watch pods until they are as wanted."""
        return await until(self.kube, self.pods, holds)

    async def until_costs(self, expected: dict[tuple[str, str], int]) -> None:
        """Watch pods until their costs are these, by subset and cost."""
        seen: list[Counter[tuple[str, str]]] = [Counter()]

        def holds(pods: dict[str, Object]) -> bool:
            seen[0] = Counter((subset_of(p), cost_of(p)) for p in pods.values() if active(p))
            return seen[0] == expected

        try:
            await until(self.kube, self.pods, holds)
        except AssertionError as error:
            raise AssertionError(f"costs are {dict(seen[0])}, not {expected}") from error

    async def until_event(self, reason: str, text: str = "") -> None:
        await until(
            self.kube, self.events,
            lambda events: any(e["reason"] == reason and text in e["message"] for e in events.values()),
        )  # fmt: skip


def places(pods: Any) -> dict[str, int]:
    return dict(Counter(subset_of(pod) for pod in pods if active(pod)))


def active(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod.get("status", {}).get("phase") not in (
        "Succeeded",
        "Failed",
    )


def subset_of(pod: Object) -> str:
    text = (pod["metadata"].get("annotations") or {}).get(MATCHED_ANNOTATION)
    return "" if text is None else str(msgspec.json.decode(text)["subset"])


def cost_of(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(DELETION_COST_ANNOTATION, ""))


def spread(name: str, target: tuple[str, str, str], *subsets: Object, **more: Any) -> Object:
    api_version, kind, target_name = target
    reference = {"apiVersion": api_version, "kind": kind, "name": target_name}
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {"targetRef": reference, "subsets": list(subsets), **more},
    }


def subset(name: str, limit: int | str | None = None, **more: Any) -> Object:
    """A subset that marks its pods with the label `subset`."""
    entry = {"name": name, "patch": {"metadata": {"labels": {"subset": name}}}, **more}
    if limit is not None:
        entry["maxReplicas"] = limit
    return entry


def template(labels: dict[str, str], **more: Any) -> Object:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **more}
    return {"metadata": {"labels": labels}, "spec": spec}


def deployment(name: str, replicas: int, **more: Any) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template(labels),
            **more,
        },
    }


async def clean(kube: Kube) -> None:
    """Take away what a test may have left: the API server would call nobody.

    A certificate of a replica that was killed keeps configurations in force, and a conversion that nobody
    answers keeps namespaces from being deleted.
    """
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        with contextlib.suppress(KubeError):
            await kube.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}/{NAME}")
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"
    definition = msgspec.json.decode((await kube.request("GET", path)).body)
    await kube.request("PUT", path, body=msgspec.json.encode(served(definition, {}, "")))
