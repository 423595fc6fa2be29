"""MachineDeployments at an embedded API server, with a small infrastructure: machines that come when the bench says so.

What Cluster API's controllers do follows each write at once: a Machine for each replica, and as many fewer as there
are too many, those that are marked first.
"""

from __future__ import annotations

import copy
from typing import Any

from tests.unit.cloud.contract.kubernetes import KubernetesBench
from tidewright.cloud.clusterapi.client import DECISION, ClusterApiProvider
from tidewright.cloud.clusterapi.config import ClusterApiConfig

GROUP = "cluster.x-k8s.io"
BASE = f"/apis/{GROUP}/v1beta2"
SPACE = f"{BASE}/namespaces/capi"
MERGE = "application/merge-patch+json"
SIZES = f"{GROUP}/cluster-api-autoscaler-node-group-"
DECISION_AT = DECISION
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"


def definition(kind: str, *, scale: bool) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    subresources: dict[str, Any] = {"status": {}}
    if scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1beta2",
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }


def owned_by(kind: str, resource: dict[str, Any]) -> dict[str, Any]:
    about = resource["metadata"]
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": kind,
        "name": about["name"],
        "uid": about["uid"],
        "controller": True,
    }


class ClusterApiBench(KubernetesBench):
    kind = "clusterapi"

    async def prepare(self) -> None:
        self.made = 0
        self.exhausted: set[str] = set()
        self.sets: dict[str, dict[str, Any]] = {}
        for kind in ("MachineDeployment", "MachineSet", "MachinePool", "Machine"):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await self.send("POST", path, definition(kind, scale=kind != "Machine"))
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "capi"}}
        await self.send("POST", "/api/v1/namespaces", space)
        self.proxy.after = self._reconcile_all
        self.provider = ClusterApiProvider(ClusterApiConfig(), self.cluster())
        self.short = ClusterApiProvider(ClusterApiConfig(), self.cluster(short=True))

    async def define(self, group_id: str, *, minimum: int = 0, maximum: int = 10, size: int = 0) -> str:
        manifest = {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "MachineDeployment",
            "metadata": {
                "name": group_id,
                "annotations": {
                    f"{SIZES}min-size": str(minimum),
                    f"{SIZES}max-size": str(maximum),
                    f"{CAPACITY}cpu": "4",
                    f"{CAPACITY}memory": "16Gi",
                },
            },
            "spec": {"replicas": size, "clusterName": "c", "template": {"spec": {}}},
        }
        made = await self.send("POST", f"{SPACE}/machinedeployments", manifest)
        owner = owned_by("MachineDeployment", made)
        machine_set = copy.deepcopy(manifest)
        machine_set["kind"] = "MachineSet"
        machine_set["metadata"] = {"name": f"{group_id}-1", "ownerReferences": [owner]}
        self.sets[group_id] = await self.send("POST", f"{SPACE}/machinesets", machine_set)
        await self.reconcile(group_id)
        await self.come(group_id)
        return f"MachineDeployment/capi/{group_id}"

    async def machines(self, name: str) -> list[dict[str, Any]]:
        listed = (await self.send("GET", f"{SPACE}/machines"))["items"]
        return [one for one in listed if one["metadata"]["labels"][f"{GROUP}/deployment-name"] == name]

    async def _reconcile_all(self, method: str, path: str) -> None:
        for one in (await self.send("GET", f"{SPACE}/machinedeployments"))["items"]:
            await self.reconcile(one["metadata"]["name"])

    async def reconcile(self, name: str) -> None:
        """As many Machines as replicas."""
        wanted = (await self.send("GET", f"{SPACE}/machinedeployments/{name}"))["spec"]["replicas"]
        there = await self.machines(name)
        for _ in range(len(there), wanted):
            await self._order(name)
        there.sort(key=lambda one: (DECISION not in one["metadata"].get("annotations", {}), "status" in one))
        for machine in there[: max(0, len(there) - wanted)]:
            await self.send("DELETE", f"{SPACE}/machines/{machine['metadata']['name']}")

    async def _order(self, name: str) -> None:
        self.made += 1
        owner = owned_by("MachineSet", self.sets[name])
        machine = f"{name}-m{self.made}"
        about = {
            "name": machine,
            "labels": {f"{GROUP}/deployment-name": name},
            "ownerReferences": [owner],
        }
        await self.send(
            "POST", f"{SPACE}/machines",
            {"apiVersion": f"{GROUP}/v1beta2", "kind": "Machine", "metadata": about, "spec": {"clusterName": "c"}},
        )  # fmt: skip
        if name in self.exhausted:
            failed = {
                "phase": "Failed",
                "failureMessage": "InsufficientInstanceCapacity: no such machine is left",
            }
            await self.send("PATCH", f"{SPACE}/machines/{machine}/status", {"status": failed}, MERGE)

    async def come(self, group_id: str) -> None:
        name = group_id.rpartition("/")[2]
        for machine in await self.machines(name):
            path = f"{SPACE}/machines/{machine['metadata']['name']}"
            if "providerID" not in machine["spec"]:
                await self.send(
                    "PATCH", path, {"spec": {"providerID": f"infra://{machine['metadata']['name']}"}}, MERGE
                )
                running = {"phase": "Running", "nodeRef": {"name": machine["metadata"]["name"]}}
                await self.send("PATCH", f"{path}/status", {"status": running}, MERGE)

    async def resize(self, group_id: str, size: int) -> None:
        path = f"{SPACE}/machinedeployments/{group_id.rpartition('/')[2]}"
        await self.send("PATCH", path, {"spec": {"replicas": size}}, MERGE)
        await self._reconcile_all("PATCH", path)

    async def exhaust(self, group_id: str) -> None:
        self.exhausted.add(group_id.rpartition("/")[2])

    async def remove(self, group_id: str) -> None:
        name = group_id.rpartition("/")[2]
        for machine in await self.machines(name):
            await self.send("DELETE", f"{SPACE}/machines/{machine['metadata']['name']}")
        await self.send("DELETE", f"{SPACE}/machinedeployments/{name}")
