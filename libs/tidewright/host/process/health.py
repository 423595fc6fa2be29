"""Probes and metrics over HTTP.

Ready: the bus is connected and the fold has caught up; a standby is ready too. Live: the loop
turned within its budget; ticks count, so quiet is not dead. Metrics tell what runs here and how
much: they are for this machine's own callers, and for those that bring a token.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from tidewright.events.version import __version__
from tidewright.host.ports.connections import LINGERING_S, Bounds, Site
from tidewright.host.ports.tokens import Tokens, challenge, is_loopback
from tidewright.log.redaction import redacted

LOOP_BUDGET_S = 30.0
STARTUP_S = 120.0

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Metrics:
    """A process's metrics: names, help and units in one place. States are labels."""

    def __init__(self, service: str) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        Gauge(
            "tidewright_build_info", "1; the labels say what runs.", ["version", "service"], registry=r
        ).labels(__version__, service).set(1)
        self.folded = Counter("tidewright_events_folded_total", "Events folded.", registry=r)
        self.decisions = Counter(
            "tidewright_decisions_total", "Decisions committed, by type.", ["type"], registry=r
        )
        self.commits = Counter(
            "tidewright_commits_total", "Atomic commits, by result.", ["result"], registry=r
        )
        self.commit_seconds = Histogram(
            "tidewright_commit_seconds", "Time from a commit's first byte to its answer.", registry=r
        )
        self.lag = Gauge(
            "tidewright_fold_lag_events", "Events on the log that are not folded yet.", registry=r
        )
        self.slots = Gauge("tidewright_slots_owned", "Slots that this replica decides for.", registry=r)
        self.halted = Gauge(
            "tidewright_slots_halted",
            "Slots stopped by bytes that do not decode, or by a defect.",
            registry=r,
        )
        self.last_event = Gauge(
            "tidewright_last_event_timestamp_seconds", "Log time of the last event folded.", registry=r
        )
        self.unbelieved = Counter(
            "tidewright_unbelieved_messages_total",
            "Messages on the log that are not believed, by cause.",
            ["cause"],
            registry=r,
        )
        self.set_aside = Counter(
            "tidewright_messages_set_aside_total", "Messages that do not decode, left out.", registry=r
        )
        self.errors = Counter("tidewright_errors_total", "Errors, by reason.", ["reason"], registry=r)


@dataclass
class Health:
    """What the probes answer. A service sets `not_ready` to why it is not, and calls `tick`."""

    service: str
    not_ready: str = "starting"
    note: str = ""
    """What a service that is ready says of itself besides: that it is in shadow."""
    halted: str = ""
    """Why it acts on nothing any more, whatever `not_ready` says; only a restart ends that."""
    metrics: Metrics = field(init=False)
    port: int = 0
    routes: dict[str, Handler] = field(default_factory=dict)
    """What a service answers besides, by path, all methods; may be filled while it runs."""
    more_metrics: Callable[[], Awaitable[str]] | None = None
    """Further series in the text form, for `/metrics`."""
    metrics_tokens: Tokens | None = None
    """What callers of `/metrics` have to bring; without them, only callers on this machine are answered."""
    _ticked: float = field(default_factory=lambda: time.monotonic() + STARTUP_S)
    _runner: web.AppRunner | None = None
    _bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.service)
        self._registry: Handler = make_aiohttp_handler(registry=self.metrics.registry)

    def tick(self) -> None:
        """The loop turned."""
        self._ticked = time.monotonic()

    @property
    def stuck_s(self) -> float:
        """Seconds since the loop last turned."""
        return max(0.0, time.monotonic() - self._ticked)

    def application(self) -> web.Application:
        """`/livez`, `/readyz`, `/metrics`."""
        app = web.Application(middlewares=[self._bounds.middleware])
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("*", "/{path:.*}", self._other)
        return app

    async def start(self, host: str, port: int) -> None:
        """Serve; port 0 takes a free one, which `port` then names."""
        self._runner = web.AppRunner(self.application(), access_log=None, lingering_time=LINGERING_S)
        await self._runner.setup()
        await Site(self._runner, host, port, self._bounds).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if self.metrics_tokens is None and not is_loopback(request.remote):
            problem = "/metrics answers callers on this machine alone: start with --metrics-token-file FILE"
            return web.Response(status=403, text=f"{problem}\n")
        if self.metrics_tokens is not None and self.metrics_tokens.of(request) is None:
            return challenge("/metrics")
        if self.more_metrics is None:
            return await self._registry(request)
        own = generate_latest(self.metrics.registry).decode()
        more = await self.more_metrics()
        return web.Response(body=(own + more).encode(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _other(self, request: web.Request) -> web.StreamResponse:
        handler = self.routes.get(request.path)
        if handler is None and (why := self.halted or self.not_ready):
            return web.Response(status=503, text=f"{redacted(why)}\n", headers={"Retry-After": "1"})
        if handler is None:
            return web.Response(status=404, text=f"{self.service} has no {request.path}\n")
        return await handler(request)

    async def _live(self, _: web.Request) -> web.Response:
        if self.stuck_s > LOOP_BUDGET_S:
            return web.Response(status=503, text=f"the loop has not turned for {self.stuck_s:.0f} s\n")
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        why = self.halted or self.not_ready
        return (
            web.Response(status=503, text=f"{redacted(why)}\n")
            if why
            else web.Response(text=f"ok{self.note and f', {self.note}'}\n")
        )
