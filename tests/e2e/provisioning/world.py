"""What the end-to-end tests of provisioning share: groups of a test's own in the session's cloud, and requests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
import yaml

from tests.e2e.conftest import Cluster, Services
from tests.e2e.sim.world import NODES, send, until
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.kube.client import Kube
from tidewright.log.connection import Log

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
CHECK_ALIAS = "check-capacity.kubernetes.io"
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
GROUP_LABEL = "tw-e2e/group"
CONFIG = "tidewright"
STATUS = "cluster-autoscaler-status"
_Kind = TypeVar("_Kind", bound=Event)
POLL = ("--cloud-interval", "0.3")
LOOK_EVERY_S = 0.3
"""Between two looks at what is on the log: each reads all of it."""


class World:
    """One namespace, and groups whose nodes only its own pods select."""

    def __init__(self, kube: Kube, cluster: Cluster, namespace: str, services: Services) -> None:
        self.kube, self.cluster, self.namespace, self.services = kube, cluster, namespace, services
        self.mark = uuid.uuid4().hex[:6]
        self.groups: list[str] = []
        self.configured = False
        self.made: list[str] = []
        self.requests = f"/apis/autoscaling.x-k8s.io/v1/namespaces/{namespace}/provisioningrequests"
        self.templates = f"/api/v1/namespaces/{namespace}/podtemplates"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.events = f"/api/v1/namespaces/{namespace}/events"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"

    # --- the cloud ----------------------------------------------------------------------------

    async def cloud(self, method: str, path: str, body: Any = None) -> Any:
        """One call of the simulated cloud."""
        url = f"{self.cluster.side_url}/cloud/v1{path}"
        content = None if body is None else msgspec.json.encode(body)
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=content) as answer,
        ):
            reply = await answer.read()
            assert answer.status < 300, f"{method} {path}: {answer.status} {reply.decode()}"
            return msgspec.json.decode(reply)

    async def group(self, name: str, *, cpu: str = "8", **config: Any) -> str:
        """Define a group; its full id is returned."""
        group_id = f"{name}-{self.mark}"
        labels = {GROUP_LABEL: self.mark, **config.pop("labels", {})}
        capacity = {"cpu": cpu, "memory": "32Gi", "pods": "110", **config.pop("capacity", {})}
        taints = [{"key": GROUP_LABEL, "value": self.mark}]
        await self.cloud(
            "PUT",
            f"/groups/{group_id}",
            {
                "id": group_id,
                "boot": "uniform:0.05:0.5",
                "delete": "0.05",
                "template": {"capacity": capacity, "labels": labels, "taints": taints},
                **config,
            },
        )
        self.groups.append(group_id)
        return group_id

    async def target(self, group_id: str) -> int:
        group = await self.cloud("GET", f"/groups/{group_id}")
        return int(group["target"])

    async def no_cloud(self) -> None:
        """Remove the groups, and wait until their nodes are gone.

        The pods go before them, and who would make others in their place before those: what is left on a node that is
        gone waits for a collector that comes by the minute, and the namespace waits for that.
        """
        apps, batch = (
            f"/apis/apps/v1/namespaces/{self.namespace}",
            f"/apis/batch/v1/namespaces/{self.namespace}",
        )
        makers = [f"{apps}/{kind}" for kind in ("deployments", "statefulsets", "replicasets")]
        for path in (*makers, f"{batch}/jobs"):
            await send(self.kube, "DELETE", path, {"propagationPolicy": "Background"})
        await send(self.kube, "DELETE", self.pods, {"gracePeriodSeconds": 0})
        await until(self.kube, self.pods, lambda pods: not pods)
        for path in self.made:
            await self.kube.request("DELETE", path)
        for group_id in self.groups:
            await self.cloud("DELETE", f"/groups/{group_id}?force=true")
        await self.nodes(0)

    async def nodes(self, count: int) -> list[str]:
        """Wait until so many nodes of the test's groups are ready."""

        def mine(nodes: dict[str, dict[str, Any]]) -> list[str]:
            return [
                name
                for name, node in nodes.items()
                if node["metadata"].get("labels", {}).get(GROUP_LABEL) == self.mark
            ]

        def settled(nodes: dict[str, dict[str, Any]]) -> bool:
            names = mine(nodes)
            return len(names) == count and all(
                condition(nodes[name], "Ready").get("status") == "True" for name in names
            )

        return mine(await until(self.kube, NODES, settled, timeout_s=90))

    # --- objects ------------------------------------------------------------------------------

    def template(self, cpu: str = "7", **more: Any) -> dict[str, Any]:
        """A pod template whose pods only run on this test's nodes."""
        annotations = more.pop("annotations", {})
        requests = {"cpu": cpu, "memory": "64Mi"}
        return {
            "metadata": {"labels": {"app": "tw"}, "annotations": annotations},
            "spec": {
                "nodeSelector": {GROUP_LABEL: self.mark},
                "tolerations": [{"key": GROUP_LABEL, "operator": "Exists"}],
                "containers": [{"name": "c", "image": "pause", "resources": {"requests": requests}}],
                **more,
            },
        }

    async def pod_template(self, name: str = "worker", cpu: str = "7", **more: Any) -> None:
        await send(
            self.kube, "POST", self.templates,
            {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": self.template(cpu, **more)},
        )  # fmt: skip

    async def ask(self, name: str, *sets: tuple[str, int], cls: str = ATOMIC, **more: Any) -> dict[str, Any]:
        """Create a request for so many pods of each template."""
        metadata = {"name": name, **more.pop("metadata", {})}
        spec = {
            "provisioningClassName": cls,
            "podSets": [{"count": count, "podTemplateRef": {"name": template}} for template, count in sets],
            **more,
        }
        created: dict[str, Any] = await send(
            self.kube, "POST", self.requests,
            {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": metadata, "spec": spec},
        )  # fmt: skip
        return created

    async def approve(self, name: str, condition: dict[str, Any]) -> None:
        """Another controller adds a condition of its own to a request's status."""
        change = [{"op": "add", "path": "/status/conditions/-", "value": condition}]
        await self.kube.request(
            "PATCH", f"{self.requests}/{name}/status", body=msgspec.json.encode(change),
            content_type="application/json-patch+json",
        )  # fmt: skip

    async def request(self, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until a request is as wanted."""
        by_name = await until(
            self.kube,
            self.requests,
            lambda requests: name in requests and holds(requests[name]),
            timeout_s=90,
        )
        return by_name[name]

    async def preset(self, name: str, parameters: dict[str, str]) -> None:
        """A ProvisioningClass, for as long as the test runs."""
        path = "/apis/autoscaling.x-k8s.io/v1/provisioningclasses"
        body = {
            "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningClass", "metadata": {"name": name},
            "spec": {"parameters": parameters},
        }  # fmt: skip
        await send(self.kube, "POST", path, body)
        self.made.append(f"{path}/{name}")

    async def status(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the status ConfigMap is as wanted; what it says."""

        def told(config_maps: dict[str, dict[str, Any]]) -> dict[str, Any]:
            read: dict[str, Any] = yaml.safe_load(config_maps[STATUS]["data"]["status"])
            return read

        maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        return told(
            await until(
                self.kube,
                maps,
                lambda config_maps: STATUS in config_maps and holds(told(config_maps)),
            )
        )

    async def said(self, *reasons: str) -> dict[str, str]:
        """Wait for object events of these reasons in the namespace; reason to message."""

        def by_reason(events: dict[str, dict[str, Any]]) -> dict[str, str]:
            return {event["reason"]: event["message"] for event in events.values()}

        return by_reason(
            await until(self.kube, self.events, lambda events: set(reasons) <= set(by_reason(events)))
        )

    async def configure(self, **settings: Any) -> None:
        """Configuration of provisioning, before the services start; what it reports is in the test's namespace."""
        settings.setdefault("namespace", self.namespace)
        self.configured = True
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG},
            "data": {"provisioning": msgspec.json.encode(settings).decode()},
        }
        await send(self.kube, "POST", f"/api/v1/namespaces/{self.namespace}/configmaps", body)

    # --- services -----------------------------------------------------------------------------

    async def start(self, *services: str, clouds: Sequence[str] = (), watcher: Sequence[str] = ()) -> None:
        """Start watcher, provisioning and actuator, or some of them; with the session's cloud, or with others."""
        if not self.configured:
            await self.configure()
        named = clouds or (f"simulated={self.cluster.side_url}",)
        cloud = tuple(part for text in named for part in ("--cloud", text))
        config = ("--config-map", f"{self.namespace}/{CONFIG}")
        await self.services.start(
            *(services or ("watcher", "provisioning", "actuator")),
            watcher=(*cloud, *POLL, *config, *watcher),
            actuator=(*cloud, "--retry-for", "20"),
        )

    async def observed(self, *kinds: type[Event]) -> list[Any]:
        """Every fact of these types that is on the log."""
        return await self._said_on("fact", kinds)

    async def decided(self, *kinds: type[Event]) -> list[Any]:
        """Every decision of these types that is on the log."""
        return await self._said_on("decision", kinds)

    async def until_decided(self, kind: type[_Kind], holds: Callable[[_Kind], bool]) -> _Kind:
        """Wait for a decision of a type that is as wanted; the first one."""
        log: Log = await self.services.log()
        async with (
            asyncio.timeout(90),
            log,
            log.reader([f"{log.subjects.root}.decision.>"], after=0) as reader,
        ):
            while True:
                for record in await reader.fetch(500, timeout_s=0.5):
                    event = registry.decode(record.body)
                    if isinstance(event, kind) and holds(event):
                        return event

    async def outcomes(self, *kinds: type[Event]) -> list[Any]:
        """Every outcome of these types that is on the log."""
        return await self._said_on("outcome", kinds)

    async def _said_on(self, subjects: str, kinds: tuple[type[Event], ...]) -> list[Any]:
        log: Log = await self.services.log()
        pattern = f"{log.subjects.root}.{subjects}.>"
        async with log, log.reader([pattern], after=0) as reader:
            events = [registry.decode(record.body) async for record in reader.until_current()]
        return [event for event in events if isinstance(event, kinds)]


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = obj.get("status", {}).get("conditions", [])
    return next((entry for entry in conditions if entry["type"] == kind), {})


def true(kind: str, reason: str = "") -> Callable[[dict[str, Any]], bool]:
    """Whether a request has this condition as True (for that reason)."""

    def holds(request: dict[str, Any]) -> bool:
        current = condition(request, kind)
        return current.get("status") == "True" and (not reason or current["reason"] == reason)

    return holds


def false(kind: str, reason: str = "") -> Callable[[dict[str, Any]], bool]:
    """Whether a request has this condition as False (for that reason)."""

    def holds(request: dict[str, Any]) -> bool:
        current = condition(request, kind)
        return current.get("status") == "False" and (not reason or current["reason"] == reason)

    return holds


def kubectl(cluster: Cluster, *arguments: str) -> str:
    """What the real kubectl prints."""
    code, said, complaint = asked(cluster, *arguments)
    assert code == 0, complaint
    return said


def asked(cluster: Cluster, *arguments: str, manifest: Any = None) -> tuple[int, str, str]:
    """Exit code of the real kubectl, what it prints, and what it complains or warns of."""
    command = [str(Path(sys.executable).parent / "kubectl"), "--kubeconfig", str(cluster.kubeconfig)]
    text = None if manifest is None else msgspec.json.encode(manifest).decode()
    answer = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=60, check=False, input=text
    )
    return answer.returncode, answer.stdout, answer.stderr
