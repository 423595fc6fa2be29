"""Nodes of kwok: Node objects at an embedded API server, which the bench makes ready as a kwok controller would."""

from __future__ import annotations

from typing import Any

import yaml

from tests.unit.cloud.contract.kubernetes import NODES, KubernetesBench
from tidewright.cloud.kwok.client import KwokProvider

MAPS = "/api/v1/namespaces/default/configmaps"
"""Of a bench with an API server of its own."""
KEY = "kwok-nodegroup"
CONFIG = {"apiVersion": "v1alpha1", "readNodesFrom": "configmap", "nodegroups": {"fromNodeLabelKey": KEY}}


class KwokBench(KubernetesBench):
    kind = "kwok"
    skips = {
        "a_stock_out_is_told_apart": "its nodes are objects: there is no end to them but the group's maximum",
        "a_size_that_somebody_else_sets_between_look_and_order_is_a_conflict": "its size is the number of its Node objects, which no request compares: documented in docs/clouds.md",
    }

    async def prepare(self) -> None:
        self._templates: dict[str, dict[str, Any]] = {}
        self.maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        config = {**_object("ConfigMap", "kwok-provider-config"), "data": {"config": yaml.safe_dump(CONFIG)}}
        await self.send("POST", self.maps, config)
        await self.send(
            "POST", self.maps, {**_object("ConfigMap", "kwok-provider-templates"), "data": {"templates": ""}}
        )
        self.provider = KwokProvider(self.cluster(), self.namespace, "kwok-provider-config")
        self.short = KwokProvider(self.cluster(short=True), self.namespace, "kwok-provider-config")

    async def define(self, group_id: str, *, minimum: int = 0, maximum: int = 10, size: int = 0) -> str:
        group_id += self.mark
        node = _object("Node", f"template-{group_id}")
        node["metadata"]["labels"] = {KEY: group_id, "kind": "m4"}
        node["metadata"]["annotations"] = {
            "cluster-autoscaler.kwok.nodegroup/min-count": str(minimum),
            "cluster-autoscaler.kwok.nodegroup/max-count": str(maximum),
        }
        node["status"] = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
        self._templates[group_id] = node
        await self._write()
        await self.resize(group_id, size)
        await self.come(group_id)
        return group_id

    async def _write(self) -> None:
        text = yaml.safe_dump_all(self._templates.values())
        await self.send(
            "PATCH",
            f"{self.maps}/kwok-provider-templates",
            {"data": {"templates": text}},
            "application/merge-patch+json",
        )

    async def come(self, group_id: str) -> None:
        for node in (await self.send("GET", f"{NODES}?labelSelector={KEY}%3D{group_id}"))["items"]:
            name = node["metadata"]["name"]
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await self.send("PATCH", f"{NODES}/{name}/status", ready, "application/merge-patch+json")

    async def resize(self, group_id: str, size: int) -> None:
        there = len((await self.send("GET", f"{NODES}?labelSelector={KEY}%3D{group_id}"))["items"])
        for number in range(there, size):
            node = _object("Node", f"{group_id}-own{number}")
            node["metadata"]["labels"] = {KEY: group_id}
            node["spec"] = {"providerID": f"kwok:{group_id}-own{number}"}
            await self.send("POST", NODES, node)

    async def exhaust(self, group_id: str) -> None:
        raise AssertionError(self.skips["a_stock_out_is_told_apart"])

    async def remove(self, group_id: str) -> None:
        del self._templates[group_id]
        await self._write()


def _object(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
