"""What stands before several replicas on loopback, as a service does in a cluster: an HTTPS front.

It takes the API server's calls under its own certificate and passes each to a replica; a replica that
does not answer is passed over, and the same request, with the same uid, goes to another one. Towards
the replicas it trusts what the API server trusts: the bundle of the webhook configurations.
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Sequence

import aiohttp
from aiohttp import web

from tidewright.host.webhook import certificates


class Front:
    """Passes calls on to replicas that listen on loopback."""

    def __init__(self) -> None:
        self.certificate = certificates.make(("127.0.0.1",))
        self.port = 0
        self.passed_over = 0
        self.answered: dict[int, int] = {}
        self._replicas: Sequence[int] = ()
        self._turn = itertools.count()
        self._client: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen; calls are refused until `to` says where they go."""
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        context = certificates.server_context(self.certificate)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = int(self._runner.addresses[0][1])

    def to(self, replicas: Sequence[int], bundle: str) -> None:
        """Pass calls on to these ports, whose certificates this PEM bundle vouches for."""
        self._replicas = replicas
        context = ssl.create_default_context(cadata=bundle)
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0))

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._client is not None:
            await self._client.close()

    async def _pass_on(self, request: web.Request) -> web.Response:
        if self._client is None:
            return web.Response(status=503, text="no replica yet")
        body, first = await request.read(), next(self._turn)
        for n in range(3 * len(self._replicas)):
            port = self._replicas[(first + n) % len(self._replicas)]
            try:
                async with self._client.post(f"https://127.0.0.1:{port}{request.path}", data=body) as answer:
                    text = await answer.read()
                    self.answered[port] = self.answered.get(port, 0) + 1
                    return web.Response(status=answer.status, body=text, content_type="application/json")
            except (aiohttp.ClientError, OSError):
                self.passed_over += 1
        return web.Response(status=503, text="no replica answers")
