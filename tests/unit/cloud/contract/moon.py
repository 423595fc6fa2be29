"""A small infrastructure provider, and Cluster API's controllers as far as sizes go: machines that become nodes, fail, hang.

MachineDeployments and MachineSets get as many Machines as their size says, when they are told to; marked ones go first
and then those without a node, as Cluster API does it.
"""

from __future__ import annotations

from typing import Any

from tests import waiting
from tidewright.cloud.clusterapi.objects import LABEL_OF
from tidewright.kube.errors import KubeError

API = "cluster.x-k8s.io"
ROOT = f"/apis/{API}/v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INFRA = "infrastructure.cluster.x-k8s.io"
PLURALS = {
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "MachinePool": "machinepools",
    "Machine": "machines",
}
MERGE = "application/merge-patch+json"
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


class Moon:
    """Attributes:
    namespace: of all objects.
    failing: what becomes of new machines, by group: the message that they fail with.
    hanging: groups whose machines never come up.
    """

    namespace = "default"

    def __init__(self) -> None:
        self.failing: dict[str, str] = {}
        self.hanging: set[str] = set()
        self._made = 0

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        """One request to the API server, and its answer."""
        raise NotImplementedError

    def node(self, name: str) -> dict[str, Any]:
        """The Node that a Machine becomes."""
        return {**made("Node", name, "v1"), "spec": {"providerID": f"moon:///{name}"}}

    async def install(self) -> list[str]:
        """The definitions, and one machine template; paths of those definitions that were not there."""
        crds = [
            definition(API, "v1beta1", plural, kind, scale=kind != "Machine")
            for kind, plural in PLURALS.items()
        ]
        crds.append(definition(INFRA, "v1alpha1", "moonmachinetemplates", "MoonMachineTemplate"))
        absent = []
        for crd in crds:
            path = f"{DEFINITIONS}/{crd['metadata']['name']}"
            try:
                await self.send("POST", DEFINITIONS, crd)
                absent.append(path)
            except KubeError as error:
                if error.status != 409:
                    raise
            spec = crd["spec"]
            collection = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            await self.served(path, collection)
        await self.send("POST", self.templates, made("MoonMachineTemplate", "m4", f"{INFRA}/v1alpha1"))
        shape = {"capacity": {"cpu": "4", "memory": "16Gi"}, "nodeInfo": {"architecture": "arm64"}}
        await self.send("PATCH", f"{self.templates}/m4/status", {"status": shape}, MERGE)
        return absent

    async def served(self, definition: str, collection: str) -> None:
        """Return once objects of a definition can be made and listed: an API server needs a moment."""

        async def established() -> bool:
            conditions = (await self.send("GET", definition)).get("status", {}).get("conditions") or ()
            return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

        async def answers() -> bool:
            try:
                await self.send("GET", collection)
            except KubeError as error:
                if error.status not in (404, 429):  # not there yet, and "storage is (re)initializing"
                    raise
                return False
            return True

        await waiting.until(established)
        await waiting.until(answers)

    @property
    def templates(self) -> str:
        return f"/apis/{INFRA}/v1alpha1/namespaces/{self.namespace}/moonmachinetemplates"

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
        await self.send("POST", self.path(kind), resource)
        group_id = f"{kind}/{self.namespace}/{name}"
        await self.come(group_id)
        return group_id

    async def come(self, group_id: str) -> None:
        """What is ordered of a group becomes nodes, but for what hangs."""
        await self.act()
        for machine in await self.machines(group_id):
            name = machine["metadata"]["name"]
            if group_id in self.hanging or machine["status"]["phase"] != "Provisioning":
                continue
            await self.send("POST", "/api/v1/nodes", self.node(name))
            await self.send(
                "PATCH", self.path("Machine", name), {"spec": {"providerID": f"moon:///{name}"}}, MERGE
            )
            await self.status(name, {"phase": "Running", "nodeRef": {"name": name}})

    def path(self, kind: str, name: str = "") -> str:
        """Of a kind's objects, or of one."""
        return path(kind, name, self.namespace)

    def at(self, group_id: str) -> str:
        """Path of a group's resource."""
        kind, _, name = group_id.split("/")
        return self.path(kind, name)

    async def status(self, name: str, status: dict[str, Any]) -> None:
        """What is known of a Machine."""
        await self.send("PATCH", self.path("Machine", name) + "/status", {"status": status}, MERGE)

    async def machines(self, group_id: str) -> list[dict[str, Any]]:
        """The Machines of a group, in order."""
        kind, _, name = group_id.split("/")
        label = LABEL_OF[kind]
        items = (await self.send("GET", self.path("Machine")))["items"]
        return [it for it in items if it["metadata"]["labels"].get(f"{API}/{label}") == name]

    async def act(self) -> None:
        """Give all resources as many Machines as their size says."""
        for kind in ("MachineDeployment", "MachineSet"):
            for resource in (await self.send("GET", self.path(kind)))["items"]:
                if not resource["metadata"].get("ownerReferences"):
                    await self._act_on(kind, resource)

    async def _act_on(self, kind: str, resource: dict[str, Any]) -> None:
        name, size = resource["metadata"]["name"], resource["spec"].get("replicas", 0)
        group_id = f"{kind}/{self.namespace}/{name}"
        owner = resource
        if kind == "MachineDeployment":
            sets = {
                it["metadata"]["name"]: it
                for it in (await self.send("GET", self.path("MachineSet")))["items"]
            }
            owner = sets.get(f"{name}-1") or await self.send(
                "POST", self.path("MachineSet"), made("MachineSet", f"{name}-1", owner=resource)
            )
        machines = await self.machines(group_id)
        machines.sort(key=_goes_first, reverse=True)
        for machine in machines[: max(0, len(machines) - size)]:
            await self.send("DELETE", self.path("Machine", machine["metadata"]["name"]))
            if "nodeRef" in machine["status"]:  # and its Node with it
                await self.send("DELETE", f"/api/v1/nodes/{machine['metadata']['name']}")
        for _ in range(size - len(machines)):
            self._made += 1
            machine = made("Machine", f"{name}-{self._made}", owner=owner)
            machine["metadata"]["labels"] = {f"{API}/{LABEL_OF[kind]}": name}
            await self.send("POST", self.path("Machine"), machine)
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
