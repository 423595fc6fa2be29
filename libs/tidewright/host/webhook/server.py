"""The HTTPS server of an endpoint that the API server calls: its options, its certificate, its port."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from tidewright.host.ports.connections import Bounds
from tidewright.host.webhook import certificates
from tidewright.host.webhook.announce import Address
from tidewright.host.webhook.callers import Answer, Callers, listen
from tidewright.host.webhook.certificates import Certificate
from tidewright.kube.webhooks import OWN_NAMESPACE
from tidewright.log.diagnostics import get_logger
from tidewright.log.identity import Identity

KEEP_ALIVE_S = 120.0
"""Longer than an API server keeps an idle connection (90 s): it ends it, not we in the midst of a request."""

_log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """What every endpoint takes.

    Attributes:
        host, port: where it listens; port 0 takes a free one and logs it.
        url: under which the API server reaches it; empty for `https://127.0.0.1:<port>`, where they
            share a machine. Not with `service`.
        service: `namespace/name:port` of the service before it.
        token_file, client_ca: what callers have to show; see `tidewright.host.webhook.callers`.
        drain_s: behind a service, how long it goes on serving after it was told to stop, wall seconds.
    """

    nats_url: str
    cluster: str
    nats_credentials: Identity | None = None
    host: str = "127.0.0.1"
    port: int = 0
    url: str = ""
    service: str = ""
    token_file: Path | None = None
    client_ca: Path | None = None
    drain_s: float = 5.0

    @property
    def own_namespace(self) -> str:
        """The namespace that is never called for, beside the cluster's own: the one that this runs in."""
        return self.service.partition("/")[0] or OWN_NAMESPACE

    def address(self, port: int) -> Address:
        """Where the API server finds an endpoint that listens on this port. Raises ValueError."""
        if self.service:
            return Address(self.url, self.service)
        return Address(self.url or f"https://127.0.0.1:{port}")


class Server:
    """The server of one replica.

    Attributes:
        port: where it listens; 0 before it does.
        certificate: what it serves with.
    """

    def __init__(self, name: str, options: EndpointOptions, registry: CollectorRegistry | None) -> None:
        """`name` is that of the endpoint; `registry` gets the counters of who was not let in."""
        self.options = options
        self.port = 0
        self.certificate = certificates.make(self.hosts)
        self._context: ssl.SSLContext = certificates.server_context(self.certificate)
        self._callers = Callers(
            name, token_file=options.token_file, client_ca=options.client_ca, registry=registry
        )
        self._callers.ask(self._context)
        self._bounds = Bounds(keep_alive_s=KEEP_ALIVE_S)
        self._app = web.Application(middlewares=[self._bounds.middleware])
        self._runner: web.AppRunner | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """What its certificates are for."""
        return self.options.address(self.options.port or 1).hosts

    @property
    def address(self) -> Address:
        """Where the API server finds it."""
        return self.options.address(self.port)

    def route(self, path: str, answer: Answer) -> None:
        """Answer posts on a path; before it is started."""
        self._callers.route(self._app, path, answer)

    async def start(self) -> None:
        """Take requests."""
        options = self.options
        self._callers.warn(options.host)
        self._runner = await listen(self._app, options.host, options.port, self._context, self._bounds)
        self.port = int(self._runner.addresses[0][1])
        _log.info("admission endpoint listens", host=options.host, port=self.port)

    async def stop(self) -> None:
        """Finish what is being answered, and take no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    def serve_with(self, certificate: Certificate) -> None:
        """Serve with another certificate from the next handshake on."""
        self.certificate = certificate
        certificate.load_into(self._context)
