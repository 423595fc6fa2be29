"""A small client for the conformance tests: JSON in, JSON out, errors as exceptions.

It speaks through `tidewright.kube.client`, so the tests see the API as the services do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.waiting import until
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PATIENCE_S = 60.0
"""What is awaited is an event: patience costs nothing, and a busy machine takes its time."""


class Client:
    """One cluster, seen from one namespace. `embedded` tells which of the two kinds it is."""

    def __init__(self, kube: Kube, namespace: str, kubeconfig: Path, *, embedded: bool) -> None:
        self.kube = kube
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        self.embedded = embedded

    def path(
        self, plural: str, name: str = "", sub: str = "", *, group: str = "", version: str = "v1"
    ) -> str:
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return "/".join(
            part for part in (f"{prefix}/namespaces/{self.namespace}/{plural}", name, sub) if part
        )

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Any:
        """The decoded answer. Raises KubeError for a refusal."""
        encoded = body if isinstance(body, bytes) else None if body is None else msgspec.json.encode(body)
        answer = await self.kube.request(
            method, path, query=query, body=encoded, content_type=content_type, accept=accept
        )
        return msgspec.json.decode(answer.body)

    async def get(self, path: str, **query: str) -> Any:
        return await self.call("GET", path, **query)

    async def create(self, path: str, obj: Object, **query: str) -> Any:
        return await self.call("POST", path, obj, **query)

    async def update(self, path: str, obj: Object, **query: str) -> Any:
        return await self.call("PUT", path, obj, **query)

    async def merge(self, path: str, change: Object, **query: str) -> Any:
        return await self.call("PATCH", path, change, content_type=MERGE, **query)

    async def apply(self, path: str, obj: Object, manager: str, **query: str) -> Any:
        text = yaml.safe_dump(obj).encode()
        return await self.call("PATCH", path, text, content_type=APPLY, fieldManager=manager, **query)

    async def delete(self, path: str, options: Object | None = None, **query: str) -> Any:
        return await self.call("DELETE", path, options, **query)

    async def gone(self, path: str) -> None:
        """Wait until there is nothing at the path."""
        await self.until(lambda: self._is_gone(path))

    async def _is_gone(self, path: str) -> bool:
        try:
            await self.get(path)
        except KubeError as error:
            return error.status == 404
        return False

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until an awaited condition is true; its value."""
        return await until(holds, within_s=PATIENCE_S)

    async def watch(self, path: str, **query: str) -> AsyncIterator[Object]:
        """The events of a watch, decoded."""
        stream = self.kube.stream(path, query={"watch": "true", **query}, read_timeout_s=PATIENCE_S)
        async with aclosing(stream):
            async for line in stream:
                yield msgspec.json.decode(line)

    async def events(self, path: str, count: int, **query: str) -> list[Object]:
        """The first events of a watch."""
        found: list[Object] = []
        stream = self.watch(path, **query)
        async with asyncio.timeout(PATIENCE_S), aclosing(stream):  # type: ignore[type-var]  # an async generator
            async for event in stream:
                found.append(event)
                if len(found) == count:
                    break
        return found


def causes(error: KubeError) -> list[tuple[str, str]]:
    """(field, reason) of every cause that a Status names."""
    found = msgspec.json.decode(error.body)["details"].get("causes") or []
    return [(cause.get("field", ""), cause.get("reason", "")) for cause in found]


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **labels: str) -> Object:
    """A pod that fits no node, so that it stays as the API server made it, whatever nodes there are."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "registry.example/pause:1"}],
            "nodeSelector": {"tidewright.test/node": "none"},
        },
    }


def deployment(name: str, replicas: int = 0) -> Object:
    """A Deployment; without replicas, so that a cluster with controllers leaves it alone."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/pause:1"}]},
            },
        },
    }
