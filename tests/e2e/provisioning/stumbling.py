"""An API server that cannot be told to stumble, behind a proxy that does it for it: what the embedded one does by rules."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import aiohttp
import yaml
from aiohttp import web

from tests.unit.cloud.contract.proxy import Proxy
from tidewright.kube.client import Authentication

WATCHED_S = 2.0
"""For so long a watch lives while the server stumbles."""


class Stumbling(Proxy):
    """Attributes:
    on: whether it stumbles now.
    refused: requests that it did not pass on, or whose answer it lost.
    ended: watches that it ended.
    """

    def __init__(self, upstream: str, auth: Authentication) -> None:
        super().__init__(upstream, lambda method, path, body: False, auth)
        self.on = False
        self.refused = self.ended = 0
        self._chance = Random(7)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if not self.on:
            return await super()._handle(request)
        faults: tuple[str, ...] = ()
        if request.method == "PUT" and request.path.startswith("/api/v1/nodes/"):
            faults = ("409",)
        elif request.method == "POST" and request.path.endswith("/eviction"):
            faults = ("500", "429", "lost")
        for fault in faults:
            if self._chance.random() >= 0.15:
                continue
            self.refused += 1
            if fault == "lost":  # done, and nobody hears of it
                await super()._handle(request)
                return self._lost(request)
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": int(fault), "message": "as the test wants it"}  # fmt: skip
            headers = {"Retry-After": "1"} if fault == "429" else None
            return web.json_response(status, status=int(fault), headers=headers)
        return await super()._handle(request)

    async def _stream(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
        await response.prepare(request)
        chunks = answer.content.iter_any()
        waiting = asyncio.ensure_future(anext(chunks, None))
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=WATCHED_S)
                if done:
                    chunk = waiting.result()
                    if chunk is None:
                        return response
                    await response.write(chunk)
                    waiting = asyncio.ensure_future(anext(chunks, None))
                if self.on and (not done or self._chance.random() < 0.05):
                    self.ended += 1
                    return response
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


@contextlib.asynccontextmanager
async def stumbling(kubeconfig: Path, folder: Path) -> AsyncIterator[tuple[Stumbling, Path]]:
    """Such a proxy before a cluster, and the kubeconfig that leads there."""
    auth = await Authentication.load(kubeconfig, in_cluster=False, context=None)
    async with Stumbling(auth.configuration.host, auth) as proxy:
        config = {
            "apiVersion": "v1", "kind": "Config", "clusters": [{"cluster": {"server": proxy.url}, "name": "c"}],
            "users": [{"name": "u", "user": {}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }  # fmt: skip
        path = folder / "stumbling"
        path.write_text(yaml.safe_dump(config))
        yield proxy, path
