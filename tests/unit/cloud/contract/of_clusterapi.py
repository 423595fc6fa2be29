"""Cluster API's objects at an embedded API server, and a small infrastructure provider that acts on them.

It acts when it is told to, and before each refresh: MachineDeployments, MachineSets and MachinePools get as many
Machines as their size says, marked ones go first and then those without a node, as Cluster API's controllers do it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.unit.cloud.contract.kubernetes import KubernetesBench
from tests.waiting import until
from tidewright.cloud.clusterapi.client import ClusterApiProvider
from tidewright.cloud.clusterapi.config import ClusterApiConfig
from tidewright.cloud.clusterapi.objects import LABEL_OF
from tidewright.cloud.informer import Informer
from tidewright.cloud.kubernetes import Cluster

API = "cluster.x-k8s.io"
ROOT = f"/apis/{API}/v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INFRA = "infrastructure.cluster.x-k8s.io"
TEMPLATES = f"/apis/{INFRA}/v1alpha1/namespaces/default/moonmachinetemplates"
PLURALS = {
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "MachinePool": "machinepools",
    "Machine": "machines",
}
MERGE = "application/merge-patch+json"
NO_ROOM = "error creating instance: InsufficientInstanceCapacity: no more of them on the moon"
MIN, MAX = (f"{API}/cluster-api-autoscaler-node-group-{end}-size" for end in ("min", "max"))


def path(kind: str, name: str = "", namespace: str = "default") -> str:
    return f"{ROOT}/namespaces/{namespace}/{PLURALS[kind]}" + (f"/{name}" if name else "")


def definition(group: str, version: str, plural: str, kind: str, *, scale: bool = False) -> dict[str, Any]:
    """A CRD that takes everything."""
    subresources: dict[str, Any] = {"status": {}}
    if scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        }  # fmt: skip
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    anything = {"type": "object", "properties": {"spec": schema, "status": schema}}
    if scale:
        replicas = {"properties": {"replicas": {"type": "integer"}}}
        anything["properties"] = {"spec": {**schema, **replicas}, "status": {**schema, **replicas}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version, "served": True, "storage": True, "subresources": subresources,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }  # fmt: skip


class Followed(ClusterApiProvider):
    """Looks when its informers have heard of everything: what a case has done is there then."""

    bench: ClusterApiBench

    async def refresh(self) -> None:
        await self.bench.act()
        await self.look()
        informers: list[Informer[Any]] = [
            *self._resources.values(), *self._machines.values(), *self._templates.values(),
        ]  # fmt: skip
        for informer in informers:
            await until(partial(self.bench.is_heard_of, informer))
        await self.look()

    async def look(self) -> None:
        """As it is heard of so far."""
        await super().refresh()


class ClusterApiBench(KubernetesBench):
    """Attributes:
    failing: what becomes of new machines, by group: the message that they fail with.
    hanging: groups whose machines never come up.
    """

    kind = "clusterapi"
    provider: Followed

    async def prepare(self) -> None:
        self.failing: dict[str, str] = {}
        self.hanging: set[str] = set()
        self._made = 0
        for kind, plural in PLURALS.items():
            crd = definition(API, "v1beta1", plural, kind, scale=kind != "Machine")
            await self.send("POST", DEFINITIONS, crd)
        await self.send(
            "POST", DEFINITIONS, definition(INFRA, "v1alpha1", "moonmachinetemplates", "MoonMachineTemplate")
        )
        await self.send("POST", TEMPLATES, made("MoonMachineTemplate", "m4", f"{INFRA}/v1alpha1"))
        shape = {"capacity": {"cpu": "4", "memory": "16Gi"}, "nodeInfo": {"architecture": "arm64"}}
        await self.send("PATCH", f"{TEMPLATES}/m4/status", {"status": shape}, MERGE)
        self.provider = self.client(self.cluster())
        self.short = self.client(self.cluster(short=True))

    def client(self, cluster: Cluster, config: ClusterApiConfig | None = None) -> Followed:
        """A provider that looks when all that was done is to be seen."""
        followed = Followed(config or ClusterApiConfig(), cluster)
        followed.bench = self
        return followed

    async def is_heard_of(self, informer: Informer[Any]) -> bool:
        """Whether an informer knows all that is at the API server, and watches."""
        there = {
            it["metadata"]["name"]: it["metadata"]["resourceVersion"]
            for it in (await self.send("GET", informer.path))["items"]
        }
        known = {it.metadata.name: it.metadata.resourceVersion for it in informer.objects.values()}
        watches = any(
            target.startswith(f"{informer.path}?") and "watch=" in target for _, target, _ in self.proxy.calls
        )
        return watches and known == there

    # --- The suite's ------------------------------------------------------------------------------

    async def define(self, group_id: str, *, minimum: int = 0, maximum: int = 10, size: int = 0) -> str:
        return await self.make(
            "MachineDeployment", group_id, {MIN: str(minimum), MAX: str(maximum)}, size=size
        )

    async def make(
        self, kind: str, name: str, annotations: dict[str, str], *, size: int = 0, **spec: Any
    ) -> str:
        """A resource of machines that run; its group's id."""
        resource = made(kind, name)
        resource["metadata"]["annotations"] = annotations
        reference = {"apiVersion": f"{INFRA}/v1alpha1", "kind": "MoonMachineTemplate", "name": "m4"}
        resource["spec"] = {
            "replicas": size, "clusterName": "moon",
            "template": {"spec": {"infrastructureRef": reference}}, **spec,
        }  # fmt: skip
        await self.send("POST", path(kind), resource)
        group_id = f"{kind}/default/{name}"
        await self.come(group_id)
        return group_id

    async def come(self, group_id: str) -> None:
        await self.act()
        for machine in await self.machines(group_id):
            name = machine["metadata"]["name"]
            if group_id in self.hanging or machine["status"]["phase"] != "Provisioning":
                continue
            node = made("Node", name, "v1")
            node["spec"] = {"providerID": f"moon:///{name}"}
            await self.send("POST", "/api/v1/nodes", node)
            await self.send(
                "PATCH", path("Machine", name), {"spec": {"providerID": f"moon:///{name}"}}, MERGE
            )
            await self.status(name, {"phase": "Running", "nodeRef": {"name": name}})

    async def resize(self, group_id: str, size: int) -> None:
        await self.send("PATCH", self.at(group_id), {"spec": {"replicas": size}}, MERGE)

    async def exhaust(self, group_id: str) -> None:
        self.failing[group_id] = NO_ROOM

    async def remove(self, group_id: str) -> None:
        await self.send("DELETE", self.at(group_id))

    # --- The infrastructure provider ----------------------------------------------------------------

    @staticmethod
    def at(group_id: str) -> str:
        kind, _, name = group_id.split("/")
        return path(kind, name)

    async def status(self, name: str, status: dict[str, Any]) -> None:
        """What is known of a Machine."""
        await self.send("PATCH", path("Machine", name) + "/status", {"status": status}, MERGE)

    async def machines(self, group_id: str) -> list[dict[str, Any]]:
        """The Machines of a group, in order."""
        kind, _, name = group_id.split("/")
        label = LABEL_OF[kind]
        items = (await self.send("GET", path("Machine")))["items"]
        return [it for it in items if it["metadata"]["labels"].get(f"{API}/{label}") == name]

    async def act(self) -> None:
        """Give all resources as many Machines as their size says."""
        for kind in ("MachineDeployment", "MachineSet"):
            for resource in (await self.send("GET", path(kind)))["items"]:
                if not resource["metadata"].get("ownerReferences"):
                    await self._act_on(kind, resource)

    async def _act_on(self, kind: str, resource: dict[str, Any]) -> None:
        name, size = resource["metadata"]["name"], resource["spec"].get("replicas", 0)
        group_id = f"{kind}/default/{name}"
        owner = resource
        if kind == "MachineDeployment":
            sets = {
                it["metadata"]["name"]: it for it in (await self.send("GET", path("MachineSet")))["items"]
            }
            owner = sets.get(f"{name}-1") or await self.send(
                "POST", path("MachineSet"), made("MachineSet", f"{name}-1", owner=resource)
            )
        machines = await self.machines(group_id)
        machines.sort(key=_goes_first, reverse=True)
        for machine in machines[: max(0, len(machines) - size)]:
            await self.send("DELETE", path("Machine", machine["metadata"]["name"]))
            if "nodeRef" in machine["status"]:  # and its Node with it
                await self.send("DELETE", f"/api/v1/nodes/{machine['metadata']['name']}")
        for _ in range(size - len(machines)):
            self._made += 1
            machine = made("Machine", f"{name}-{self._made}", owner=owner)
            machine["metadata"]["labels"] = {f"{API}/{LABEL_OF[kind]}": name}
            await self.send("POST", path("Machine"), machine)
            failed = self.failing.get(group_id)
            status = {"phase": "Failed", "failureMessage": failed} if failed else {"phase": "Provisioning"}
            await self.status(machine["metadata"]["name"], status)


def _goes_first(machine: dict[str, Any]) -> tuple[bool, bool]:
    marked = f"{API}/delete-machine" in machine["metadata"].get("annotations", {})
    return marked, "nodeRef" not in machine["status"]


def made(
    kind: str, name: str, version: str = f"{API}/v1beta1", *, owner: dict[str, Any] | None = None
) -> dict[str, Any]:
    """An object with nothing in it."""
    metadata: dict[str, Any] = {"name": name}
    if owner is not None:
        named = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [
            {"apiVersion": version, "kind": owner["kind"], "controller": True, **named}
        ]
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
