"""A scripted API server: what to answer, in order, per path. Real HTTP on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str, message: str = "said so", **headers: str) -> web.Response:
    """A Status object."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return web.json_response(
        body | {"reason": reason, "message": message, "code": code}, status=code, headers=headers
    )


def pod(name: str, version: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": version}, "spec": spec}


def event(kind: str, content: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": content}) + b"\n"


def bookmark(version: str, **annotations: str) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": version, "annotations": annotations}})


def page(version: str, *items: dict[str, Any], more: str = "") -> web.Response:
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    return web.json_response({"kind": "PodList", "metadata": metadata, "items": list(items)})


class Api:
    """Answers each request with the next step of its script; the last watch stays open."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.lists: list[web.StreamResponse | Handler] = []
        self.watches: list[list[bytes] | web.StreamResponse | Handler] = []
        self.url = ""
        self.closing = asyncio.Event()

    def queries(self, *, watch: bool) -> list[dict[str, str]]:
        return [dict(r.query) for r in self.requests if (r.query.get("watch") == "true") == watch]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.query.get("watch") != "true":
            step = self.lists.pop(0)
            return await step(request) if callable(step) else step
        if not self.watches:
            response = web.StreamResponse()
            await response.prepare(request)
            await self.closing.wait()
            return response
        watch = self.watches.pop(0)
        if callable(watch):
            return await watch(request)
        if isinstance(watch, web.StreamResponse):
            return watch
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in watch:
            await response.write(chunk)
        return response


@asynccontextmanager
async def serving(api: Api) -> AsyncIterator[Api]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        api.closing.set()
        await runner.cleanup()
