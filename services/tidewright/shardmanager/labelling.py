"""The HTTPS endpoint that labels new objects with their slot: `tidewright run shard-labels`.

It holds no credentials: the ShardSets come from the log, and the API server is told of the endpoint
by a decision on the log, which the actuator carries out. While no set needs labels nothing is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from aiohttp import web
from prometheus_client import Counter

from tidewright.events import registry
from tidewright.events.acting import MODES, Acting, Held
from tidewright.events.config import ClockSet, ModesSet
from tidewright.events.shards import ShardSetGone, ShardSetObserved
from tidewright.host import certificates
from tidewright.host.announce import Address, Announcer
from tidewright.host.callers import Callers, listen
from tidewright.host.connections import Bounds
from tidewright.host.process import Process
from tidewright.host.service import LogOptions, connect, find_stream, halt_when_broken
from tidewright.kube.webhooks import OWN_NAMESPACE
from tidewright.log import errors
from tidewright.log.clock import Clock
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.log.identity import Identity
from tidewright.log.reader import Record
from tidewright.shardmanager.labelhook import (
    PATH,
    BadReview,
    Labelled,
    announcement,
    answer,
    labelled,
    read_review,
)

ENDPOINT = "shard-labels"
"""Its name on the bus."""
KEEP_ALIVE_S = 120.0
"""Longer than an API server keeps an idle connection (90 s)."""
MODES_S = 5.0
"""How often the log is asked for the modes, wall seconds."""
SERVICE = "shard-manager"
"""Whose mode it has."""
ANNOUNCE_EVERY_S = 1800.0
"""The API server is told of a replica this often, in case somebody took its configuration away."""
FORGET_WITHIN_S = 3.0
AWAY_S = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the endpoint takes.

    Attributes:
        host, port: where it listens; port 0 takes a free one.
        url: under which the API server reaches it; empty for `https://127.0.0.1:<port>`.
        service: `namespace/name:port` of the service before it, instead.
        token_file, client_ca: what callers have to show; see `tidewright.host.callers`.
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

    def address(self, port: int) -> Address:
        """Where the API server finds an endpoint that listens on this port. Raises ValueError."""
        if self.service:
            return Address(self.url, self.service)
        return Address(self.url or f"https://127.0.0.1:{port}")


class Sets:
    """The ShardSets whose objects carry a label, followed on the log."""

    def __init__(self, log: Log, changed: Callable[[], None]) -> None:
        self._log, self._changed = log, changed
        self.clock = Clock()
        self.by_path: dict[str, Labelled] = {}
        self.current = asyncio.Event()

    async def follow(self) -> None:
        """Read the last word on each set, then on and on; after an outage from the last words again."""
        while True:
            try:
                await self._follow()
            except errors.LogUnavailable as error:
                _log.warning("the log is away, reading on when it is back", error=str(error))
                await asyncio.sleep(AWAY_S)

    async def _follow(self) -> None:
        subjects = self._log.subjects
        record = await self._log.last(subjects.config("clock"))
        event = registry.read(record.body) if record else None
        if isinstance(event, ClockSet):
            self.clock.set(event)
        after, pattern = 0, subjects.facts("*", "shardset")
        async for found in self._log.last_per_subject([pattern]):
            after = max(after, found.seq)
            self._take(found)
        self.current.set()
        async with self._log.reader([pattern], after=after) as reader:
            while True:
                for found in await reader.fetch(100, timeout_s=5.0):
                    self._take(found)

    def _take(self, record: Record) -> None:
        event = registry.read(record.body)
        if not isinstance(event, ShardSetObserved | ShardSetGone):
            return
        path = f"{PATH}/{event.namespace}/{event.name}"
        found = labelled(event) if isinstance(event, ShardSetObserved) else None
        if found == self.by_path.get(path):
            return
        if found is None:
            self.by_path.pop(path, None)
        else:
            self.by_path[path] = found
        self._changed()


class Endpoint:
    """One replica."""

    def __init__(self, log: Log, options: Options, process: Process) -> None:
        self._log, self._options, self._process = log, options, process
        self.news = asyncio.Event()
        self.sets = Sets(log, self.news.set)
        self.port = 0
        self._certificate = certificates.make(options.address(options.port or 1).hosts)
        self._context: ssl.SSLContext = certificates.server_context(self._certificate)
        self._told = False
        self._acting = Acting()
        registry_ = process.health.metrics.registry
        self._callers = Callers(
            ENDPOINT, token_file=options.token_file, client_ca=options.client_ca, registry=registry_
        )
        self._callers.ask(self._context)
        self._requests = Counter(
            "tidewright_shard_labels_requests_total", "Admission requests, by answer.", ["answer"],
            registry=registry_,
        )  # fmt: skip

    async def serve(self) -> None:
        """Answer until the process is told to stop."""
        await self.sets.current.wait()
        bounds = Bounds(keep_alive_s=KEEP_ALIVE_S)
        app = web.Application(middlewares=[bounds.middleware])
        self._callers.route(app, f"{PATH}/{{namespace}}/{{name}}", self._label)
        self._callers.warn(self._options.host)
        runner = await listen(app, self._options.host, self._options.port, self._context, bounds)
        self.port = int(runner.addresses[0][1])
        _log.info("admission endpoint listens", host=self._options.host, port=self.port)
        staying = asyncio.create_task(self._stay_known())
        stop = asyncio.create_task(self._process.stop.wait())
        try:
            await asyncio.wait([staying, stop], return_when=asyncio.FIRST_COMPLETED)
            if staying.done():
                staying.result()
        finally:
            staying.cancel()
            stop.cancel()
            if self._told:
                await self._announcer().leave(
                    self._certificate.ca_pem, self._options.address(self.port), self.port,
                    drain_s=self._options.drain_s, within_s=FORGET_WITHIN_S, draining=self._stopping,
                )  # fmt: skip
            await runner.cleanup()

    def _stopping(self) -> None:
        self._process.health.not_ready = "stopping"

    async def _label(self, request: web.Request, body: bytes) -> web.Response:
        try:
            review = read_review(body)
        except BadReview as error:
            self._requests.labels("unreadable").inc()
            return web.Response(status=400, text=str(error))
        path = f"{PATH}/{request.match_info['namespace']}/{request.match_info['name']}"
        answered = answer(review, self.sets.by_path.get(path))
        self._requests.labels("patched" if b'"patch"' in answered else "left").inc()
        return web.Response(body=answered, content_type="application/json")

    def _announcer(self) -> Announcer:
        sets = [one for _path, one in sorted(self.sets.by_path.items())]
        own = self._options.service.partition("/")[0] or OWN_NAMESPACE
        wanted = announcement(self._options.address(self.port), sets, own_namespace=own)
        return Announcer(self._log, Writer(ENDPOINT), self.sets.clock, wanted)

    async def _stay_known(self) -> None:
        """Tell the API server of this replica whenever the sets change, and now and then."""
        loop = asyncio.get_running_loop()
        told_at = float("-inf")
        while True:
            changed = self.news.is_set()
            self.news.clear()
            if not (held := await self._held()).acts:
                if self._told:
                    await self._forget(ANNOUNCE_EVERY_S)
                self._told, told_at = False, float("-inf")
                self._process.health.not_ready = ""
                self._process.health.note = f"{held.mode}: {held.why}, no webhook is registered"
                await self._news(MODES_S)
                continue
            self._process.health.note = ""
            changed = changed or told_at == float("-inf")
            renew = datetime.now(UTC) >= self._certificate.renew_at()
            due = loop.time() >= told_at + ANNOUNCE_EVERY_S
            if (self.sets.by_path or self._told) and (changed or renew or due):
                await self._tell(renew=renew)
                told_at = loop.time()
            self._process.health.not_ready = ""
            await self._news(MODES_S)

    async def _news(self, within_s: float) -> None:
        """Wait for other sets, and for no longer than so many wall seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.news.wait()

    async def _held(self) -> Held:
        """What the modes on the log say of the shard manager now."""
        with contextlib.suppress(errors.LogUnavailable):  # those that are known hold until it is back
            record = await self._log.last(self._log.subjects.config(MODES))
            event = registry.decode(record.body) if record else None
            if isinstance(event, ModesSet):
                self._acting.heard(event)
        return self._acting.of_service(SERVICE)

    async def _forget(self, within_s: float) -> None:
        await self._announcer().forget(
            self._certificate.ca_pem,
            alone=self._options.address(self.port).is_ours_alone(self.port),
            within_s=within_s,
        )

    async def _tell(self, *, renew: bool) -> None:
        """Have our certificate trusted for the hooks of the present sets; a new one serves only then."""
        old = self._certificate
        new = certificates.make(self._options.address(self.port).hosts) if renew else old
        announcer = self._announcer()
        telling = asyncio.create_task(announcer.trust(new.ca_pem))
        try:
            while not telling.done():
                self._process.health.not_ready = announcer.problem
                await asyncio.wait([telling], timeout=0.2)
            telling.result()
        finally:
            telling.cancel()
        self._told = True
        if renew:
            self._certificate = new
            new.load_into(self._context)
            await announcer.trust(new.ca_pem, retired=(old.ca_pem,))
        _log.info("the API server calls us for objects of shard sets", sets=sorted(self.sets.by_path))


async def run(options: Options, process: Process) -> None:
    """Run until `process.stop` is set.

    Raises:
        LogError: the log cannot be used at the start; see its classes.
        ValueError: neither a URL nor a service that could be called.
    """
    on = LogOptions(options.nats_url, options.cluster, options.nats_credentials)
    async with await connect(on, process) as log:
        await find_stream(log, process)
        if process.stop.is_set():
            return
        endpoint = Endpoint(log, options, process)
        process.health.not_ready = "reading the shard sets"
        minding = asyncio.create_task(halt_when_broken(log, process))
        following = asyncio.create_task(endpoint.sets.follow())
        serving = asyncio.create_task(endpoint.serve())
        try:
            while not process.stop.is_set() and not serving.done() and not following.done():
                process.health.tick()
                await asyncio.wait([serving, following], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            await serving
        finally:
            minding.cancel()
            following.cancel()
            serving.cancel()
