"""Where pushes are taken: at the port of the probes, or at one of their own, with TLS.

Whoever may push moves replicas. So beyond this machine nobody may without a token: a port of its own
is not opened without one, and at the port of the probes, which a cluster has to reach, pushes are
answered with 403 until there is one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from tidewright.host.ports.certificate_files import CertificateFiles
from tidewright.host.ports.connections import LINGERING_S, Bounds, Site
from tidewright.host.ports.tokens import Tokens, is_loopback
from tidewright.host.process.misconfigured import Misconfigured
from tidewright.host.process.process import Process
from tidewright.watcher.passing_on import PassingOn, address, called_at
from tidewright.watcher.push_endpoint import PATH, Intake
from tidewright.watcher.sampler import Sampler

TOKENS_WANTED = (
    "name a file of tokens with --push-token-file, or give TIDEWRIGHT_PUSH_TOKEN in the environment"
)

LOOK_AGAIN_S = 60.0
"""Wall seconds between two looks for an address that other watchers can call, until there is one."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Who may push metrics, and where.

    Attributes:
        token_file: holds the tokens, see `tidewright.host.ports.tokens`; None for none.
        token: tokens from the environment, in the same form; empty for none.
        host: address of a port of its own.
        port: that port, 0 for a free one; None for the port of the probes.
        certificate_file, key_file: to serve it with TLS; None for plain HTTP.
        shared_metrics: metrics that belong to no namespace.
    """

    token_file: Path | None = None
    token: str = ""
    host: str = "127.0.0.1"
    port: int | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    shared_metrics: tuple[str, ...] = ()


NO_PUSH_OPTIONS: Final = PushOptions()
"""Pushes from this machine alone, at the port of the probes."""


class PushPort:
    """The endpoint of one watcher."""

    def __init__(
        self,
        options: PushOptions,
        sampler: Sampler,
        process: Process,
        registry: CollectorRegistry | None,
        *,
        entries: Callable[[], Mapping[str, bytes]] = dict,
    ) -> None:
        """Read tokens and certificate. `entries` gives what the members among the watchers say.

        Raises:
            Misconfigured: they cannot be used, or a token is needed and there is none.
        """
        self.options = options
        self.port = 0
        self._called_at = ""
        self._process = process
        self._certificate: CertificateFiles | None = None
        tokens = _tokens(options)
        if options.certificate_file is not None and options.key_file is not None:
            self._certificate = CertificateFiles(options.certificate_file, options.key_file)
        own = options.port is not None
        host = self._host = options.host if own else process.options.health_host
        closed = ""
        if tokens is None and not is_loopback(host):
            closed = f"nobody may push to {host} without a token: {TOKENS_WANTED}"
            if own:
                raise Misconfigured(f"--push-host {host}: {closed}")
            _log.warning("no pushes are taken", reason=closed)
        elif not is_loopback(host) and self._certificate is None:
            _log.warning(
                "pushes are taken without TLS: their tokens can be read on the way",
                do="give --push-port, --push-certificate-file and --push-key-file, or have a mesh encrypt",
            )
        self.intake = Intake(
            sampler, tokens=tokens, closed=closed, registry=registry,
            passing_on=PassingOn(entries, options.certificate_file if self._certificate else None),
        )  # fmt: skip

    @property
    def address(self) -> str:
        """Where other watchers reach it; empty while it is not known."""
        if self.options.port is None:
            return address(self._called_at, self._process.health.port, tls=False)
        return address(self._called_at, self.port, tls=self._certificate is not None)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None, None]:
        """Take pushes while this is open.

        Raises:
            Misconfigured: the address cannot be had.
        """
        finding = asyncio.create_task(self._find_address())
        try:
            async with self._listening():
                yield
        finally:
            finding.cancel()
            await asyncio.gather(finding, return_exceptions=True)

    async def _find_address(self) -> None:
        """Return when it is known where other watchers reach this one; say once that they do not."""
        said = False
        while not (found := await called_at(self._host)):
            if not said:
                said = True
                flag = "--health-host" if self.options.port is None else "--push-host"
                _log.warning(
                    "other watchers cannot pass pushes on to this one: the name of this machine has no address of that family",
                    name=socket.gethostname(), host=self._host,
                    do=f"give the address itself, or :: for those of both families, with {flag}; or have the name resolve",
                )  # fmt: skip
            await asyncio.sleep(LOOK_AGAIN_S)
        self._called_at = found

    @asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None, None]:
        if self.options.port is None:
            self._process.health.routes[PATH] = self.intake.handle
            yield
            return
        bounds = Bounds()
        app = web.Application(middlewares=[bounds.middleware])
        app.router.add_route("*", PATH, self.intake.handle)
        runner = web.AppRunner(app, access_log=None, lingering_time=LINGERING_S)
        await runner.setup()
        context = self._certificate.context if self._certificate else None
        try:
            site = Site(runner, self.options.host, self.options.port, bounds, ssl_context=context)
            try:
                await site.start()
            except OSError as error:
                raise Misconfigured(
                    f"--push-host {self.options.host} --push-port {self.options.port}: {error}"
                ) from error
            self.port = runner.addresses[0][1]
            _log.info(
                "pushes are taken", host=self.options.host, push_port=self.port, tls=context is not None
            )
            keeping = asyncio.create_task(self._certificate.keep()) if self._certificate else None
            try:
                yield
            finally:
                if keeping is not None:
                    keeping.cancel()
                    with suppress(asyncio.CancelledError):
                        await keeping
        finally:
            await runner.cleanup()


def _tokens(options: PushOptions) -> Tokens | None:
    if options.token_file is not None:
        return Tokens(options.token_file)
    return Tokens(text=options.token) if options.token else None
