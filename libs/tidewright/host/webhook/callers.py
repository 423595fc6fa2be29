"""Who may call an endpoint that the API server calls: by a token in the path or a header, or by a certificate.

An API server shows nothing of itself to webhooks unless its administrator configures that. So what every installation
can have is a token in the path: a Secret gives it to the endpoint and to the actuator, which alone writes it into the
webhook configuration. It is on no log. It is as secret as webhook configurations are, and an API server repeats the
path in the error that a user gets when a webhook with the policy `Fail` does not answer.

    path      /TOKEN/mutate-pod                 by the actuator's --endpoint-token
    header    Authorization: Bearer TOKEN       by the API server's own --admission-control-config-file
    client    a certificate that --client-ca has signed, likewise

Behind that: bodies within bounds, a bounded number of requests at work, connections that end.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from tidewright.host.ports.bodies import BadBody, Bodies
from tidewright.host.ports.connections import LINGERING_S, Bounds, Site
from tidewright.host.ports.tokens import Tokens, is_loopback
from tidewright.host.process.misconfigured import Misconfigured
from tidewright.host.process.once import Once
from tidewright.log.diagnostics import get_logger

MAX_BODY_BYTES = 8 << 20
"""An API server stores objects of 1.5 MB, and sends two of them, in JSON."""
BODY_WITHIN_S = 5.0
"""A caller on the same network needs milliseconds; who called waits no longer than this either."""
AT_WORK = 256
"""Requests that are worked on together: a request may wait for the log."""

_log = get_logger(__name__)

Answer = Callable[[web.Request, bytes], Awaitable[web.Response]]
"""Answers a request whose body was read."""


class Callers:
    """Lets callers in to one endpoint, within bounds."""

    def __init__(
        self,
        name: str,
        *,
        token_file: Path | None = None,
        client_ca: Path | None = None,
        registry: CollectorRegistry | None = None,
        at_work: int = AT_WORK,
        bodies: Bodies | None = None,
    ) -> None:
        """Read what callers have to show.

        Args:
            name: of the endpoint, in the log.
            token_file: tokens, one of which they bring; see `tidewright.host.ports.tokens`.
            client_ca: certificates (PEM) that sign theirs. With both, either will do.
            registry: gets the counter of who was not let in.
            at_work: requests that are worked on together.
            bodies: within which bounds bodies are read; as the constants say by default.

        Raises:
            Misconfigured: the files cannot be used.
        """
        self._name = name
        self._tokens = Tokens(token_file) if token_file is not None else None
        self._client_ca = client_ca
        self._at_work, self._most = 0, at_work
        self._once = Once()
        self._bodies = bodies or Bodies(max_bytes=MAX_BODY_BYTES, within_s=BODY_WITHIN_S, registry=registry)
        self._refused = Counter(
            "tidewright_callers_refused_total",
            "Requests that were not looked at: of a caller who shows nothing (caller), or too many at once (busy).",
            ["why"],
            registry=registry,
        )

    @property
    def knows(self) -> bool:
        """Whether callers have to show anything."""
        return self._tokens is not None or self._client_ca is not None

    def ask(self, context: ssl.SSLContext) -> None:
        """Have a server's context ask for certificates of clients. Raises Misconfigured."""
        if self._client_ca is None:
            return
        try:
            context.load_verify_locations(self._client_ca)
        except (OSError, ssl.SSLError) as error:
            raise Misconfigured(f"--client-ca {self._client_ca}: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED if self._tokens is None else ssl.CERT_OPTIONAL

    def warn(self, host: str) -> None:
        """Say so when an endpoint answers whoever reaches it from another machine."""
        if not self.knows and not is_loopback(host):
            _log.warning(
                "whoever reaches this endpoint is answered", endpoint=self._name, host=host,
                do="give --token-file here and --endpoint-token to the actuator, or --client-ca",
            )  # fmt: skip

    def route(self, app: web.Application, path: str, answer: Answer) -> None:
        """Answer posts on a path, with or without a token before it."""

        async def handle(request: web.Request) -> web.Response:
            if not self._known(request):
                self._refused.labels("caller").inc()
                if self._once.due(str(request.remote)):
                    _log.warning(
                        "a caller shows nothing that lets it in", endpoint=self._name, caller=request.remote,
                        do="if that is the API server: give the actuator the token of this endpoint",
                    )  # fmt: skip
                return web.Response(status=403, text="callers bring a token or a certificate that holds")
            try:
                body = await self._bodies.read(request)
            except BadBody as error:
                return web.Response(status=error.status, text=f"the body {error}")
            if self._at_work >= self._most:
                self._refused.labels("busy").inc()
                return web.Response(
                    status=503, text=f"{self._most} requests are at work", headers={"Retry-After": "1"}
                )
            self._at_work += 1
            try:
                return await answer(request, body)
            finally:
                self._at_work -= 1

        app.router.add_post(path, handle)
        app.router.add_post(f"/{{token}}{path}", handle)

    def _known(self, request: web.Request) -> bool:
        if not self.knows:
            return True
        transport = request.transport
        if self._client_ca is not None and transport is not None and transport.get_extra_info("peercert"):
            return True
        if self._tokens is None:
            return False
        given = request.match_info.get("token", "")
        return (self._tokens.holds(given) if given else self._tokens.of(request)) is not None


async def listen(
    app: web.Application, host: str, port: int, context: ssl.SSLContext, bounds: Bounds
) -> web.AppRunner:
    """Serve an application that has the middleware of `bounds`; its `addresses` say where."""
    runner = web.AppRunner(app, access_log=None, lingering_time=LINGERING_S)
    await runner.setup()
    await Site(runner, host, port, bounds, ssl_context=context).start()
    return runner
