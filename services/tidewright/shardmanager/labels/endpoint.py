"""The HTTPS endpoint that labels new objects with their slot: `tidewright run shard-labels`.

It holds no credentials: the ShardSets come from the log, and the API server is told of the endpoint
by a decision on the log, which the actuator carries out. While no set needs labels nothing is told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import Counter

from tidewright.events import registry
from tidewright.events.acting import MODES, Acting
from tidewright.events.config import ClockSet, ModesSet
from tidewright.events.shards import ShardSetGone, ShardSetObserved
from tidewright.host.process.process import Process
from tidewright.host.webhook.announce import Announcement
from tidewright.host.webhook.reviews import BadReview, of_objects, read_review
from tidewright.host.webhook.running import run_endpoint
from tidewright.host.webhook.server import EndpointOptions, Server
from tidewright.host.webhook.standing import Standing
from tidewright.log import errors
from tidewright.log.clock import Clock
from tidewright.log.connection import Log
from tidewright.log.reader import Record
from tidewright.shardmanager.labels.hook import PATH, Labelled, announcement, labelled, labelling

ENDPOINT = "shard-labels"
"""Its name on the bus."""
MODES_S = 5.0
"""How often the log is asked for the modes, wall seconds."""
SERVICE = "shard-manager"
"""Whose mode it has."""
AWAY_S = 0.5

_log = structlog.get_logger(__name__)


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
                self._log.outage.met("reading", error)
                await asyncio.sleep(AWAY_S)

    async def _follow(self) -> None:
        subjects = self._log.subjects
        record = await self._log.last(subjects.config("clock"))
        event = registry.read(record.body) if record else None
        if isinstance(event, ClockSet):
            self.clock.set(event)
        after, pattern = 0, subjects.facts("*", "shardset")
        async for fact in self._log.last_per_subject([pattern]):
            after = max(after, fact.seq)
            self._take(fact)
        self.current.set()
        async with self._log.reader([pattern], after=after) as reader:
            while True:
                for fact in await reader.fetch(100, timeout_s=5.0):
                    self._take(fact)

    def _take(self, record: Record) -> None:
        event = registry.read(record.body)
        if not isinstance(event, ShardSetObserved | ShardSetGone):
            return
        path = f"{PATH}/{event.namespace}/{event.name}"
        labelled_set = labelled(event) if isinstance(event, ShardSetObserved) else None
        if labelled_set == self.by_path.get(path):
            return
        if labelled_set is None:
            self.by_path.pop(path, None)
        else:
            self.by_path[path] = labelled_set
        self._changed()


class Endpoint:
    """One replica."""

    def __init__(self, log: Log, options: EndpointOptions, process: Process) -> None:
        self._log, self._options = log, options
        self._news = asyncio.Event()
        """Set when there are other sets, or other modes."""
        self._acting = Acting()
        self._modes_read = asyncio.Event()
        self._current = asyncio.Event()
        self.sets = Sets(log, self._news.set)
        registry_ = process.health.metrics.registry
        self._requests = Counter(
            "tidewright_shard_labels_requests_total", "Admission requests, by answer.", ["answer"],
            registry=registry_,
        )  # fmt: skip
        self.server = Server(ENDPOINT, options, registry_)
        self.server.route(f"{PATH}/{{namespace}}/{{name}}", self._label)

    @property
    def current(self) -> asyncio.Event:
        """Set once the sets were read, and the modes: before, nobody has said that it may not act."""
        return self._current

    def following(self) -> Sequence[Coroutine[Any, Any, None]]:
        """The sets read on, and the modes."""
        return (self.sets.follow(), self._mind_modes(), self._mind_both())

    def standing(self, log: Log, process: Process) -> Standing:
        """As the modes have it that are in force for the shard manager; known while a set needs labels."""
        return Standing(
            self.server, log, process.health, name=ENDPOINT, clock=self.sets.clock, announcement=self._announcement,
            held=lambda: self._acting.of_service(SERVICE), news=self._news,
        )  # fmt: skip

    def _announcement(self) -> Announcement | None:
        sets = [labelled_set for _path, labelled_set in sorted(self.sets.by_path.items())]
        if not sets:
            return None
        return announcement(self.server.address, sets, own_namespace=self._options.own_namespace)

    async def _label(self, request: web.Request, body: bytes) -> web.Response:
        try:
            review = of_objects(read_review(body))
        except BadReview as error:
            self._requests.labels("unreadable").inc()
            return web.Response(status=400, text=str(error))
        path = f"{PATH}/{request.match_info['namespace']}/{request.match_info['name']}"
        answered = labelling(review, self.sets.by_path.get(path))
        self._requests.labels("patched" if b'"patch"' in answered else "left").inc()
        return web.Response(body=answered, content_type="application/json")

    async def _mind_modes(self) -> None:
        """Ask the log for the modes now and then; those that are known hold while it is away."""
        while True:
            with contextlib.suppress(errors.LogUnavailable):
                await self._read_modes()
                self._modes_read.set()
            await asyncio.sleep(MODES_S if self._modes_read.is_set() else AWAY_S)

    async def _mind_both(self) -> None:
        await self.sets.current.wait()
        await self._modes_read.wait()
        self._current.set()

    async def _read_modes(self) -> None:
        record = await self._log.last(self._log.subjects.config(MODES))
        event = registry.decode(record.body) if record else None
        if isinstance(event, ModesSet) and self._acting.heard(event):
            self._news.set()


async def run(options: EndpointOptions, process: Process) -> None:
    """Run until `process.stop` is set; see `run_endpoint`."""
    await run_endpoint(
        options, process, reading="the shard sets", make=lambda log: Endpoint(log, options, process)
    )
