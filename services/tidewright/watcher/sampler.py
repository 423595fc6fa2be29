"""Metrics, scales of custom targets and recommendations, asked for on their interval of log time.

Each distinct request is made once per interval, however many objects and queries it serves, and is
in flight at most once. Each source has a budget of its own, so that one that hangs holds up no
other. Answers are appended as they come, grouped with whatever else has come by then. What is wanted
anew is asked for at once; what is pushed to us is not asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec
import structlog

from tidewright.events import registry
from tidewright.events.autoscaler import DatadogMonitorGone
from tidewright.events.facts import ObjectFact, WorkloadGone, WorkloadObserved
from tidewright.host.ports.tokens import EVERYTHING, Token
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery
from tidewright.kube.errors import KubeError
from tidewright.kube.metricquery import NotAQuery
from tidewright.kube.projection import workloads
from tidewright.kube.projection.reading import Malformed
from tidewright.log.clock import Clock
from tidewright.watcher import metric_facts
from tidewright.watcher.appender import Appender
from tidewright.watcher.diff import digest_of
from tidewright.watcher.follow import FactLog
from tidewright.watcher.kind_ownership import Heard
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.metric_queries import Gate, Query, Recommendation, Target, Wish, Wishes
from tidewright.watcher.pushed import Pushed, Sample, Taken
from tidewright.watcher.recommenders import Recommenders

INTERVAL_S = 15.0
"""Log time between two samples of a query (watermark-autoscaler.md, 2.1)."""
TIMEOUT_S = 10.0
CONCURRENCY = 32
MAX_ANSWER_BYTES = 32 * 2**20
"""Of a metrics API; tens of thousands of pods fit."""
GROUP = 500
METRIC, WORKLOAD, RECOMMENDATION = "metric", "workload", "recommendation"
MONITOR = "datadogmonitor"
ON_THE_LOG_WITHIN_S = 8.0
"""Wall seconds that a push waits for the log, before it is told to come again; senders give up after 10 s or more."""
PUSHED_WAITING = 20_000
"""Pushed facts that wait for the log; more are refused."""

Answer: TypeAlias = tuple[str, ObjectFact, "asyncio.Future[None] | None"]
Asked: TypeAlias = metric_facts.Request | Target | Recommendation | Gate
"""What makes one request: queries with the same one share it."""

_log = structlog.get_logger(__name__)


class NotSampling(Exception):
    """This process does not sample at the moment; the message says why."""


class SampledElsewhere(NotSampling):
    """Another process does, or this one is only starting."""


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
        *,
        appender: Appender,
        stamp: Stamp,
        clock: Clock,
        interval_s: float = INTERVAL_S,
        shared_metrics: Collection[str] = (),
    ) -> None:
        """`interval_s` is in log seconds; `shared_metrics` belong to no namespace, see `Pushed`."""
        self.wanted = Wishes()
        self.pushed = Pushed(shared_metrics)
        self.clock = clock
        self.samples = 0
        self.failures = 0
        self.recommenders: Recommenders | None = None
        """Without them no recommender is asked."""
        self.unable: Callable[[], str] = lambda: ""
        """Why nothing can be appended to the log at present; then a push is refused at once."""
        self.monitors_unread: Callable[[], bool] = lambda: False
        """Whether monitors cannot be followed: then each one that gates an object is asked for, to say why."""
        self._sources = sources
        self._discovery = discovery
        self._log = log
        self._appender = appender
        self._stamp = stamp
        self._interval_s = interval_s
        self._new = asyncio.Event()
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()
        self._limits = {
            kind: asyncio.Semaphore(CONCURRENCY) for kind in ("external", "resource", "scale", "ask")
        }
        self._in_flight: set[Asked] = set()
        self._fresh: set[Wish] = set()
        self._scales: dict[Target, bytes] = {}
        self._gates: dict[Gate, str] = {}
        self._owns = False

    def observe(self, fact: ObjectFact) -> None:
        """Learn from a fact what is wanted."""
        new, gone = self.wanted.observe(fact)
        for wish in gone:
            if isinstance(wish, Query):
                self.pushed.forget(wish)
            elif isinstance(wish, Target):
                self._scales.pop(wish, None)
            elif isinstance(wish, Gate):
                self._gates.pop(wish, None)
        for wish in new:
            if isinstance(wish, Query):
                self.pushed.want(wish)
        if new:
            self._fresh.update(new)
            self._new.set()

    async def push(self, samples: Iterable[Sample], token: Token = EVERYTHING) -> Taken:
        """Take samples that were pushed with a token; returns when what they say is on the log.

        Raises:
            SampledElsewhere: this process does not sample.
            NotSampling: too much waits for the log, or it takes nothing at present.
            BadPush: there are too many.
        """
        if not self._owns:
            raise SampledElsewhere(
                "another watcher samples metrics at the moment, or this one is only starting"
            )
        if unable := self.unable():
            raise NotSampling(unable)
        if self._answers.qsize() > PUSHED_WAITING:
            raise NotSampling("too many samples wait for the log")
        taken = self.pushed.take(list(samples), self._stamp.now(), token)
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[None]] = []
        for fact in taken.facts:
            done: asyncio.Future[None] = loop.create_future()
            waiting.append(done)
            self._say(METRIC, fact, fact.name, done)
        try:
            async with asyncio.timeout(ON_THE_LOG_WITHIN_S):
                await asyncio.gather(*waiting)
        except TimeoutError as error:
            raise NotSampling(
                f"the log did not take it within {ON_THE_LOG_WITHIN_S:g} s: push again, which does no harm"
            ) from error
        return taken

    @property
    def samples_here(self) -> bool:
        """Whether this process samples, and takes what is pushed."""
        return self._owns

    def _say(self, kind: str, fact: ObjectFact, name: str, done: asyncio.Future[None] | None = None) -> None:
        slot = self._log.slot_of(fact.namespace)
        self._answers.put_nowait((self._log.subjects.fact(slot, kind, fact.namespace, name), fact, done))

    async def run(self, autoscalers: Heard | None = None) -> None:
        """Ask for ever, stepping back while another process does, or hears of the autoscalers."""
        if autoscalers is not None:
            await autoscalers.keep(self._appender, self._own, kind=METRIC)
        await self._appender.keep(self._own, kind=METRIC)

    async def _own(self) -> None:
        position = await self._appender.claim()
        self._stamp.raise_to(position.at)
        self._scales.clear()
        self._gates.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._append())
                tasks.create_task(self._ask_on_time(tasks))
                self._owns = True
        finally:
            self._owns = False
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        """Whoever pushed and waits is told to push again."""
        while not self._answers.empty():
            *_, done = self._answers.get_nowait()
            _refuse(done)

    async def _ask_on_time(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            interval_s = self.clock.wall_seconds(self._interval_s)
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
        """Make the requests for everything that is wanted, or for what is wanted anew."""
        wishes = self.wanted.all if everything else [wish for wish in self._fresh if wish in self.wanted]
        self._fresh.clear()
        now = self._stamp.now()
        queries: dict[metric_facts.Request, list[Query]] = {}
        for wish in wishes:
            match wish:
                case Target():
                    self._start(tasks, wish, self._scale(wish))
                case Gate():
                    if self.monitors_unread():
                        self._start(tasks, wish, self._gate(wish))
                case Recommendation():
                    if self.recommenders is not None:
                        self._start(tasks, wish, self._recommendation(wish, self.recommenders))
                case _ if not self.pushed.lives(wish, now):
                    try:
                        queries.setdefault(metric_facts.request(wish), []).append(wish)
                    except NotAQuery as error:
                        _log.error(
                            "a query without a name that can be read", query=wish.name, error=str(error)
                        )
        for request, asking in queries.items():
            self._start(tasks, request, self._sample(request, asking))

    def _start(self, tasks: asyncio.TaskGroup, what: Asked, work: Coroutine[Any, Any, None]) -> None:
        if what in self._in_flight:
            work.close()
            return
        self._in_flight.add(what)
        tasks.create_task(work).add_done_callback(lambda _: self._in_flight.discard(what))

    async def _sample(self, request: metric_facts.Request, queries: list[Query]) -> None:
        external = request.path.startswith(metric_facts.EXTERNAL)
        source = self._sources.external if external else self._sources.resource
        body, refusal = b"", None
        try:
            async with self._limits["external" if external else "resource"]:
                answer = await source.request(
                    "GET",
                    request.path,
                    query=request.params,
                    timeout_s=TIMEOUT_S,
                    limit_bytes=MAX_ANSWER_BYTES,
                )
            body = answer.body
        except KubeError as error:
            refusal = error
        now = self._stamp.now()
        for query in queries:
            if self.pushed.lives(query, now):
                continue  # pushed meanwhile, which is younger
            fact = (
                metric_facts.sample(query, body, 0.0)
                if refusal is None
                else metric_facts.refused(query, refusal, 0.0)
            )
            self.samples += 1
            if fact.error:
                self.failures += 1
            self._say(METRIC, fact, query.name)

    async def _recommendation(self, wish: Recommendation, recommenders: Recommenders) -> None:
        async with self._limits["ask"]:
            fact = await recommenders.ask(wish)
        self.samples += 1
        if fact.error:
            self.failures += 1
        if wish in self.wanted:
            self._say(RECOMMENDATION, fact, wish.name)

    async def _gate(self, wish: Gate) -> None:
        """Why a monitor cannot be read; one that can be is its follower's to tell."""
        namespace, name = quote(wish.namespace, safe=""), quote(wish.name, safe="")
        path = f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/datadogmonitors/{name}"
        try:
            async with self._limits["scale"]:
                await self._sources.kube.request("GET", path, timeout_s=TIMEOUT_S)
            return
        except KubeError as error:
            reason = error.message
        if self._gates.get(wish) != reason and wish in self.wanted:
            self._gates[wish] = reason
            fact = DatadogMonitorGone(at=0.0, namespace=wish.namespace, name=wish.name, reason=reason)
            self._say(MONITOR, fact, wish.name)

    async def _scale(self, target: Target) -> None:
        async with self._limits["scale"]:
            fact = await self.scale_of(target)
        if fact is None:
            return
        digest = digest_of(fact)
        if self._scales.get(target) == digest:
            return
        self._scales[target] = digest
        self._say(WORKLOAD, fact, target.subject_name)

    async def scale_of(self, target: Target) -> WorkloadObserved | WorkloadGone | None:
        """A custom target's scale as a fact, `at` 0; None when the API server could not be asked."""
        group_version = target.api_version or "v1"
        if group_version.count("/") > 1:
            return _gone(
                target,
                "invalid API version in scale target reference: "
                f"unexpected GroupVersion string: {target.api_version}",
            )
        try:
            places = await self._discovery.resources(target.group, target.kind)
            if not places:
                return _gone(
                    target,
                    "unable to determine resource for scale target reference: "
                    f'no matches for kind "{target.kind}" in group "{target.group}"',
                )
            refusals: list[str] = []
            lost = False
            for place in places:
                try:
                    answer = await self._sources.kube.request(
                        "GET", place.item(target.namespace, target.name, "scale"), timeout_s=TIMEOUT_S
                    )
                except KubeError as error:
                    if error.retriable:
                        raise
                    lost = lost or error.status == 404
                    refusals.append(
                        f"could not get scale for the GV {place.api_version}, error: {error.message}"
                    )
                    continue
                return workloads.scale(answer.body, target.api_version, target.kind)
            if lost and self._discovery.doubt(target.group, target.kind):
                return await self.scale_of(target)
        except Malformed as error:
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
            group: list[Answer] = []
            try:
                async with asyncio.timeout(self._appender.renewal_in_s):
                    group.append(await self._answers.get())
            except TimeoutError:
                if self._appender.renewal_in_s:
                    continue
            while len(group) < GROUP and not self._answers.empty():
                group.append(self._answers.get_nowait())
            at = self._stamp.now()
            messages = [
                (subject, registry.encode(msgspec.structs.replace(fact, at=at))) for subject, fact, _ in group
            ]
            try:
                await self._appender.say(messages, resource_version="", at=at)
            except BaseException:
                for *_, done in group:
                    _refuse(done)
                raise
            for *_, done in group:
                if done is not None and not done.done():
                    done.set_result(None)


def _refuse(done: asyncio.Future[None] | None) -> None:
    if done is not None and not done.done():
        done.set_exception(NotSampling("another watcher has taken over"))


def _gone(target: Target, reason: str) -> WorkloadGone:
    return WorkloadGone(
        at=0.0,
        namespace=target.namespace,
        name=target.name,
        api_version=target.api_version,
        kind=target.kind,
        reason=reason,
    )
