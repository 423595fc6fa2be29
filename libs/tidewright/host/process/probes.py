"""Probes and metrics of a process over HTTP, and what its services answer besides.

    /livez /readyz          of all services together: as good as the worst of them
    /readyz/SERVICE         of one
    /metrics                of the only one; /metrics/SERVICE of each where there are several

Metrics tell what runs here and how much: they are for this machine's own callers, and for those that bring a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from tidewright.host.ports.connections import LINGERING_S, Bounds, Site
from tidewright.host.ports.tokens import Tokens, challenge, is_loopback
from tidewright.host.process.health import Health

LOOP_BUDGET_S: Final = 30.0
RETRY: Final = {"Retry-After": "1"}


class Probes:
    """The probes of a process.

    Attributes:
        metrics_tokens: what callers of `/metrics` have to bring; without them, only callers on this machine are answered.
        port: on which they are served, once they are.
    """

    def __init__(self, healths: Sequence[Health], metrics_tokens: Tokens | None = None) -> None:
        """`healths` of its services, at least one."""
        self._of = {health.service: health for health in healths}
        self.metrics_tokens = metrics_tokens
        self.port = 0
        self._runner: web.AppRunner | None = None
        self._bounds = Bounds()

    async def start(self, host: str, port: int) -> None:
        """Serve; port 0 takes a free one, which `port` then names."""
        app = web.Application(middlewares=[self._bounds.middleware])
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/readyz/{service}", self._ready_of)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/metrics/{service}", self._metrics)
        app.router.add_route("*", "/{path:.*}", self._other)
        self._runner = web.AppRunner(app, access_log=None, lingering_time=LINGERING_S)
        await self._runner.setup()
        await Site(self._runner, host, port, self._bounds).start()
        self.port = self._runner.addresses[0][1]
        for health in self._of.values():
            health.port = self.port

    async def stop(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _live(self, _: web.Request) -> web.Response:
        stuck_s = max(health.stuck_s for health in self._of.values())
        if stuck_s > LOOP_BUDGET_S:
            return web.Response(status=503, text=f"the loop has not turned for {stuck_s:.0f} s\n")
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        if len(self._of) == 1:
            return _told(*self._of.values())
        lines = [f"{name}: {_told(health).text}" for name, health in self._of.items()]
        unready = any(health.unready for health in self._of.values())
        return web.Response(status=503 if unready else 200, text="".join(lines))

    async def _ready_of(self, request: web.Request) -> web.Response:
        health = self._of.get(request.match_info["service"])
        return self._unknown(request) if health is None else _told(health)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if self.metrics_tokens is None and not is_loopback(request.remote):
            problem = "/metrics answers callers on this machine alone: start with --metrics-token-file FILE"
            return web.Response(status=403, text=f"{problem}\n")
        if self.metrics_tokens is not None and self.metrics_tokens.of(request) is None:
            return challenge("/metrics")
        only = next(iter(self._of)) if len(self._of) == 1 else ""
        health = self._of.get(request.match_info.get("service", only))
        if health is None:
            return self._unknown(request)
        return web.Response(
            body=await health.exposition(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        )

    async def _other(self, request: web.Request) -> web.StreamResponse:
        for health in self._of.values():
            if (handler := health.routes.get(request.path)) is not None:
                return await handler(request)
        if why := next((health.unready for health in self._of.values() if health.unready), ""):
            return web.Response(status=503, text=f"{why}\n", headers=RETRY)
        return self._unknown(request)

    def _unknown(self, request: web.Request) -> web.Response:
        where = request.path.strip("/").partition("/")[0]
        each = f": there are {', '.join(f'/{where}/{name}' for name in self._of)}"
        several = len(self._of) > 1 and where in ("readyz", "metrics")
        said = f"{', '.join(self._of)} has no {request.path}{each if several else ''}"
        return web.Response(status=404, text=f"{said}\n")


def _told(health: Health) -> web.Response:
    if health.unready:
        return web.Response(status=503, text=f"{health.unready}\n")
    return web.Response(text=f"ok{health.note and f', {health.note}'}\n")
