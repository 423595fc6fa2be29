"""Metrics and scales of custom targets, asked for on their interval of log time.

Each distinct query is one request per interval, in flight at most once. Answers are appended as they
come, grouped with whatever else has come by then. What is wanted anew is asked for at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.facts import MetricSampled, ObjectFact, WorkloadGone, WorkloadObserved
from tidewright.host.fenced import RENEW_S, Fenced, fenced_in
from tidewright.kube import projection
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery
from tidewright.kube.errors import KubeError
from tidewright.kube.metricquery import NotAQuery
from tidewright.log.clock import Clock
from tidewright.watcher import answers
from tidewright.watcher.appender import Appender
from tidewright.watcher.diff import digest_of
from tidewright.watcher.follow import FactLog
from tidewright.watcher.stamp import Stamp
from tidewright.watcher.wanted import Query, Target, Wanted

INTERVAL_S = 15.0
"""Log time between two samples of a query (watermark-autoscaler.md, 2.1)."""
TIMEOUT_S = 10.0
CONCURRENCY = 32
GROUP = 500
METRIC, WORKLOAD = "metric", "workload"

_log = structlog.get_logger(__name__)


class Sources(msgspec.Struct, frozen=True):
    """Where to ask: the API server, or servers of their own for the metrics APIs."""

    kube: Kube
    external: Kube
    resource: Kube


class Sampler:
    """Everything that is polled for the autoscalers."""

    def __init__(
        self,
        sources: Sources,
        discovery: Discovery,
        log: FactLog,
        appender: Appender,
        stamp: Stamp,
        clock: Clock,
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """`interval_s` is in log seconds."""
        self.wanted = Wanted()
        self.samples = 0
        self.failures = 0
        self._sources = sources
        self._discovery = discovery
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._clock = clock
        self._interval_s = interval_s
        self._new = asyncio.Event()
        self._answers: asyncio.Queue[tuple[str, ObjectFact]] = asyncio.Queue()
        self._limit = asyncio.Semaphore(CONCURRENCY)
        self._in_flight: set[Query | Target] = set()
        self._asked: set[Query | Target] = set()
        self._scales: dict[Target, bytes] = {}

    def observe(self, fact: ObjectFact) -> None:
        """Learn from a fact what is wanted."""
        if self.wanted.observe(fact):
            self._new.set()

    async def run(self) -> None:
        """Ask for ever, stepping back while another process does."""
        while True:
            try:
                await self._own()
            except Fenced as fenced:
                _log.warning("stepped back, standing by", kind=METRIC, message=str(fenced))
            await self._appender.stand_by()

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        self._scales.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._append())
                tasks.create_task(self._ask_on_time(tasks))
        except ExceptionGroup as group:
            if (fenced := fenced_in(group)) is None:
                raise
            raise fenced from group

    async def _ask_on_time(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            interval_s = self._clock.wall_seconds(self._interval_s)
            wait_s = due - loop.time()
            if wait_s <= 0:
                # A tick that was missed is not made up for.
                due = max(due + interval_s, loop.time())
                self._ask(tasks, everything=True)
                continue
            try:
                async with asyncio.timeout(wait_s):
                    await self._new.wait()
            except TimeoutError:
                continue
            self._new.clear()
            self._ask(tasks, everything=False)

    def _ask(self, tasks: asyncio.TaskGroup, *, everything: bool) -> None:
        queries, targets = self.wanted.queries, self.wanted.targets
        known = self._asked
        self._asked = {*queries, *targets}
        for query in queries:
            if everything or query not in known:
                self._start(tasks, query, self._sample(query))
        for target in targets:
            if everything or target not in known:
                self._start(tasks, target, self._scale(target))

    def _start(self, tasks: asyncio.TaskGroup, what: Query | Target, work: Coroutine[Any, Any, None]) -> None:
        if what in self._in_flight:
            work.close()
            return
        self._in_flight.add(what)
        tasks.create_task(work).add_done_callback(lambda _: self._in_flight.discard(what))

    async def _sample(self, query: Query) -> None:
        try:
            wanted = answers.request(query)
        except NotAQuery as error:
            _log.error("a query without a name that can be read", query=query.name, error=str(error))
            return
        source = (
            self._sources.external if wanted.path.startswith(answers.EXTERNAL) else self._sources.resource
        )
        fact: MetricSampled
        try:
            async with self._limit:
                answer = await source.request("GET", wanted.path, query=wanted.params, timeout_s=TIMEOUT_S)
            fact = answers.sample(query, answer.body, 0.0)
        except KubeError as error:
            fact = answers.refused(query, error, 0.0)
        self.samples += 1
        if fact.error:
            self.failures += 1
        slot = self._log.slot_of(query.namespace)
        await self._answers.put((self._log.subjects.fact(slot, METRIC, query.namespace, query.name), fact))

    async def _scale(self, target: Target) -> None:
        async with self._limit:
            fact = await self.scale_of(target)
        if fact is None:
            return
        digest = digest_of(fact)
        if self._scales.get(target) == digest:
            return
        self._scales[target] = digest
        slot = self._log.slot_of(target.namespace)
        subject = self._log.subjects.fact(slot, WORKLOAD, target.namespace, target.subject_name)
        await self._answers.put((subject, fact))

    async def scale_of(self, target: Target) -> WorkloadObserved | WorkloadGone | None:
        """A custom target's scale as a fact, `at` 0; None when the API server could not be asked."""
        group_version = target.api_version or "v1"
        try:
            places = await self._discovery.resources(target.group, target.kind)
            if not places:
                return _gone(
                    target,
                    "unable to determine resource for scale target reference: "
                    f'no matches for kind "{target.kind}" in group "{target.group}"',
                )
            refusals: list[str] = []
            for place in places:
                try:
                    answer = await self._sources.kube.request(
                        "GET", place.item(target.namespace, target.name, "scale"), timeout_s=TIMEOUT_S
                    )
                except KubeError as error:
                    if error.retriable:
                        raise
                    refusals.append(
                        f"could not get scale for the GV {place.api_version}, error: {error.message}"
                    )
                    continue
                return projection.scale(answer.body, target.api_version, target.kind)
        except projection.Malformed as error:
            return _gone(
                target, f"could not get scale for the GV {group_version}, error: {error}, scale not found"
            )
        except KubeError as error:
            _log.warning("a target's scale was not answered", target=target.subject_name, error=str(error))
            return None
        return _gone(target, f"{', '.join(refusals)}, scale not found")

    async def _append(self) -> None:
        """Answers onto the log, grouped; an owner that has none renews its checkpoint."""
        while True:
            group: list[tuple[str, ObjectFact]] = []
            try:
                async with asyncio.timeout(RENEW_S):
                    group.append(await self._answers.get())
            except TimeoutError:
                pass
            while len(group) < GROUP and not self._answers.empty():
                group.append(self._answers.get_nowait())
            at = self._stamp.now()
            messages = [
                (subject, registry.encode(msgspec.structs.replace(fact, at=at))) for subject, fact in group
            ]
            await self._appender.say(messages, resource_version="", at=at)


def _gone(target: Target, reason: str) -> WorkloadGone:
    return WorkloadGone(
        at=0.0,
        namespace=target.namespace,
        name=target.name,
        api_version=target.api_version,
        kind=target.kind,
        reason=reason,
    )
