"""A small cluster over HTTP: lists, watches and scales of whatever is put into it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml
from aiohttp import web

Object = dict[str, Any]


def refusal(code: int, reason: str, message: str = "") -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


class Cluster:
    """Objects by collection path over all namespaces (`/api/v1/pods`), and fixed answers by path."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], Object]] = {
            f"/api/v1/{plural}": {} for plural in ("pods", "nodes", "configmaps")
        }
        for path in (
            "/apis/apps/v1/replicasets",
            "/apis/apps/v1/deployments",
            "/apis/apps/v1/statefulsets",
            "/apis/datadoghq.com/v1alpha1/watermarkpodautoscalers",
        ):
            self.objects[path] = {}
        self.answers: dict[str, Object | web.Response | Callable[[], web.Response]] = {
            "/api/v1/namespaces/kube-system": {"metadata": {"name": "kube-system", "uid": "cluster-1"}}
        }
        self.requests: list[str] = []
        self.history: list[tuple[str, str, Object]] = []
        self.forgotten = 0
        self.changed = asyncio.Condition()
        self.closing = asyncio.Event()
        self.url = ""

    @property
    def version(self) -> int:
        return len(self.history)

    async def put(self, path: str, namespace: str, name: str, **content: Any) -> None:
        known = (namespace, name) in self.objects[path]
        meta = {"name": name, "namespace": namespace, "uid": f"{name}-uid"} | content.pop("metadata", {})
        obj = {"metadata": meta} | content
        # Before it is told of, which may have to wait: a list would give the version without the object.
        self.objects[path][namespace, name] = obj
        await self._say(path, "MODIFIED" if known else "ADDED", obj)

    async def drop(self, path: str, namespace: str, name: str) -> None:
        await self._say(path, "DELETED", self.objects[path].pop((namespace, name)))

    async def forget(self) -> None:
        """Compact the history: watches from before now are gone, and open ones break."""
        self.forgotten = self.version + 1
        self.history.append(("", "COMPACTED", {}))
        async with self.changed:
            self.changed.notify_all()

    async def _say(self, path: str, kind: str, obj: Object) -> None:
        obj["metadata"]["resourceVersion"] = str(self.version + 1)
        self.history.append((path, kind, msgspec.json.decode(msgspec.json.encode(obj))))
        async with self.changed:
            self.changed.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        if request.path in self.answers:
            answer = self.answers[request.path]
            if isinstance(answer, web.Response):
                return answer
            return answer() if callable(answer) else web.json_response(answer)
        objects = self.objects.get(request.path)
        if objects is None:
            return refusal(404, "NotFound", f"no {request.path}")
        if request.query.get("watch") == "true":
            return await self._watch(request)
        items = list(objects.values())
        return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        position = int(request.query["resourceVersion"])
        if position < self.forgotten:
            return refusal(410, "Expired", "too old")
        response = web.StreamResponse()
        await response.prepare(request)
        while not self.closing.is_set():
            for path, kind, obj in self.history[position:]:
                position += 1
                if kind == "COMPACTED":
                    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "compacted"}
                    await response.write(msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")
                    return response
                if path == request.path:
                    await response.write(msgspec.json.encode({"type": kind, "object": obj}) + b"\n")
            async with self.changed:
                if position == self.version:
                    await self.changed.wait()
        return response

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        return path

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Cluster]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self.closing.set()
            async with self.changed:
                self.changed.notify_all()
            await runner.cleanup()
