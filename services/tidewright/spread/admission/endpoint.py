"""The HTTPS endpoint that the API server calls: pods on create, delete and eviction; spreads; conversion.

Every placement is on the log before it is answered. When the log cannot be reached, the spread's own
policy decides: refuse (the default), or admit by the last known state and record it afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiohttp import web
from prometheus_client import Counter, Histogram

from tidewright.events.base import JsonObject
from tidewright.events.spread import PodLeaving, PodPlaced
from tidewright.host.process.process import Process
from tidewright.host.webhook.callers import Answer
from tidewright.host.webhook.reviews import BadReview, Review, answer, check_metadata, of_objects, read_review
from tidewright.host.webhook.running import run_endpoint
from tidewright.host.webhook.server import EndpointOptions, Server
from tidewright.host.webhook.standing import Standing
from tidewright.kube.customworkloads import BadApiVersion
from tidewright.kube.jsonpatch import json_patch
from tidewright.kube.webhooks import FailurePolicy
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import BadSpread, Spread, parse
from tidewright.log import errors
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.spread.admission.books import Book, Books
from tidewright.spread.api import hooks, validation
from tidewright.spread.api.conversion import converted
from tidewright.spread.decide import SERVICE
from tidewright.spread.ledger import ledger as ledgers
from tidewright.spread.ledger import placing
from tidewright.spread.ledger.placing import Placed, Request
from tidewright.spread.match.admit import Refused, spread_for
from tidewright.spread.match.matching import Forbidden, NotFound
from tidewright.spread.match.pods import Pod, pod_of, pod_version

OWNER_WAIT_S = 3.0
"""How long a pod waits for an owner that has not been seen yet, before it is refused [Q-5]."""
REPLICAS_WAIT_S = 3.0
"""How long a pod beyond its workload's known replicas waits for their new number, when limits are percentages."""
EVICTED_WAIT_S = 1.0
"""How long a pod that finds a subset full waits for what comes of an eviction from it."""
AGAIN_S = 0.05
"""How long until the log is asked once more for the fact about a pod."""
IN_FORCE_WAIT_S = 2.0
"""How long pods wait for the rules of a spread that this replica has just let in: they come by the log."""
ENDPOINT = "spread-admission"
"""Its name on the bus."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options(EndpointOptions):
    """What the endpoint takes.

    Attributes:
        failure_policy: of the webhooks for pods: what the API server does when no replica answers.
        enabled: the feature gate; off, spreads are refused and pods go in untouched.
    """

    failure_policy: FailurePolicy = "Ignore"
    enabled: bool = True


class Endpoint:
    """The endpoint of one replica."""

    def __init__(self, books: Books, options: Options, process: Process | None = None) -> None:
        self.books = books
        self.options = options
        self._awaited: dict[tuple[str, str], tuple[Spread, float]] = {}
        registry = process.health.metrics.registry if process is not None else None
        self._requests = Counter(
            "tidewright_admission_requests_total", "Admission requests, by path and answer.", ["path", "answer"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "tidewright_admission_seconds", "Time from a request read to its answer.", ["path"], registry=registry,
            buckets=(0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.5, 1, 5),
        )  # fmt: skip
        self.server = Server(ENDPOINT, options, registry)
        for path, handler in (
            (hooks.CREATE_POD, self._create_pod),
            (hooks.DELETE_POD, self._remove_pod),
            (hooks.VALIDATE_SPREAD, self._spread),
            ("/validate-apps-kruise-io-v1alpha1-workloadspread", self._spread),
        ):
            self.server.route(path, self._reviewed(path, handler))
        self.server.route(hooks.CONVERT, self._convert)

    @property
    def current(self) -> asyncio.Event:
        """Set once the ledgers were read."""
        return self.books.current

    def following(self) -> Sequence[Coroutine[Any, Any, None]]:
        """The ledgers read on, and what the log could not take appended later."""
        return (self.books.follow(), self.books.append_late())

    def standing(self, log: Log, process: Process) -> Standing:
        """As the modes have it that are in force for spread."""
        observed, options = self.books.observed, self.options
        announcement = hooks.announcement(
            self.server.address, options.failure_policy, own_namespace=options.own_namespace
        )
        return Standing(
            self.server, log, process.health, name=ENDPOINT, clock=observed.clock, announcement=lambda: announcement,
            held=lambda: observed.acting.of_service(SERVICE), news=observed.other_modes,
        )  # fmt: skip

    # -- requests ------------------------------------------------------------------------------

    def _reviewed(self, path: str, handler: Callable[[Review], Awaitable[bytes]]) -> Answer:
        """A handler of reviews as a handler of requests: what cannot be read is answered 400."""

        async def handle(request: web.Request, body: bytes) -> web.Response:
            with self._seconds.labels(path).time():
                try:
                    review = read_review(body)
                except BadReview as error:
                    self._requests.labels(path, "unreadable").inc()
                    return web.Response(status=400, text=str(error))
                try:
                    answered = await handler(review)
                    outcome = "answered"
                except Refused as refused:
                    _log.info(
                        "pod refused", namespace=review.namespace, reason=refused.reason, error=str(refused)
                    )
                    answered = answer(review, refused=str(refused), code=refused.code)
                    outcome = refused.reason
            self._requests.labels(path, outcome).inc()
            return web.Response(body=answered, content_type="application/json")

        return handle

    async def _convert(self, request: web.Request, body: bytes) -> web.Response:
        try:
            return web.Response(body=converted(body), content_type="application/json")
        except BadReview as error:
            return web.Response(status=400, text=str(error))

    async def _create_pod(self, review: Review) -> bytes:
        """A new pod: choose a subset, record it, inject (2.2)."""
        obj = review.obj
        is_new_pod = (review.operation, review.resource, review.subresource) == ("CREATE", "pods", "")
        if not self.options.enabled or obj is None or not is_new_pod or review.dry_run:
            return answer(review)
        pod = _read(obj)
        namespace = (obj.get("metadata") or {}).get("namespace") or review.namespace
        await self._in_force(namespace)
        if not self.books.in_namespace(namespace):
            return answer(review)
        spread, unread = await self._spread_for(pod, namespace)
        book = None if spread is None else self.books.find(namespace, spread.name)
        if book is None:
            if unread:
                _log.warning(
                    "an owner may not be read, the pod goes in untouched", namespace=namespace, error=unread
                )
            return answer(review, warnings=[f"no WorkloadSpread takes this pod: {unread}"] if unread else ())
        await self._replicas_known(book, pod)
        await self._evictions_known(book, pod)
        placed = await self._place(book, obj, pod, review)
        return answer(review, patch=json_patch(obj, placed.pod) if placed.pod is not obj else ())

    async def _in_force(self, namespace: str) -> None:
        """Let the spreads that were just let in take effect: their workload is often made with them."""
        loop = asyncio.get_running_loop()
        for (where, name), (spread, deadline) in list(self._awaited.items()):
            if where != namespace:
                continue
            while loop.time() < deadline:
                self.books.changed.clear()
                book = self.books.find(namespace, name)
                rules = book.ledger.rules if book is not None else None
                if rules is not None and not rules.gone and rules.generation >= spread.generation:
                    break
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        await self.books.changed.wait()
            self._awaited.pop((where, name), None)

    async def _spread_for(self, pod: Pod, namespace: str) -> tuple[Spread | None, str]:
        """Which spread takes the pod, and which owner may not be read; waits for one that was not seen yet and may matter."""
        plain, unread = self.books.observed.reader(namespace), ""

        def read(api_version: str, kind: str, name: str) -> JsonObject:
            nonlocal unread
            try:
                return plain(api_version, kind, name)
            except Forbidden as error:
                unread = str(error)
                raise

        deadline = asyncio.get_running_loop().time() + OWNER_WAIT_S
        while True:
            spreads = [b.spread for b in self.books.in_namespace(namespace) if b.spread is not None]
            self.books.changed.clear()
            try:
                return spread_for(pod, spreads, self.books.observed.whitelist, read), unread
            except Refused:
                remaining_s = deadline - asyncio.get_running_loop().time()
                if remaining_s <= 0:
                    raise
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(remaining_s):
                        await self.books.changed.wait()

    async def _replicas_known(self, book: Book, pod: Pod) -> None:
        """Let percentages follow the workload that was just scaled.

        A revision holds as many pods as its workload wants, and here comes one more: then it wants more
        than we know of, and the fact about it is under way. (Or the pod is a surge, and waits in vain.)
        """
        if book.spread is None or not limits.needs_replicas(s.limit for s in book.spread.subsets):
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REPLICAS_WAIT_S
        version = pod_version(pod.owner, pod.labels, self.books.observed.versioned_kinds)
        while (rules := book.ledger.rules) is not None and rules.replicas > -1:
            held = sum(book.ledger.counts.get(version, {}).values())
            if held < rules.replicas or loop.time() >= deadline:
                return
            book.arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await book.arrived.wait()

    async def _evictions_known(self, book: Book, pod: Pod) -> None:
        """Let the pod that replaces an evicted one find its place: that it is free is under way."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EVICTED_WAIT_S
        version = pod_version(pod.owner, pod.labels, self.books.observed.versioned_kinds)
        while ledgers.awaits_eviction(book.ledger, version, self.books.observed.clock.now()):
            if loop.time() >= deadline:
                return
            book.arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await book.arrived.wait()

    async def _place(self, book: Book, obj: JsonObject, pod: Pod, review: Review) -> Placed:
        kinds = self.books.observed.versioned_kinds

        def choose(current: Book) -> tuple[Placed, PodPlaced | None]:
            request = Request(review.uid, self.books.observed.clock.now())
            placed = placing.created(
                current.ledger, current.spread, obj, request=request, versioned_kinds=kinds, pod=pod
            )
            return placed, placed.entry

        try:
            return await self.books.book(book, choose)
        except errors.LogError as error:
            rules = book.ledger.rules
            if rules is None or not rules.fail_open:
                raise Refused(
                    "Unavailable", f"the placement cannot be recorded: {error}", code=503
                ) from error
            placed, entry = choose(book)
            if entry is not None:
                self.books.record_late(_unfenced(entry))
            return placed

    async def _remove_pod(self, review: Review) -> bytes:
        """A delete frees the pod's place, an eviction announces that it may be free soon; updates change nothing (2.9)."""
        obj = review.old
        evicted = (review.operation, review.subresource) == ("CREATE", "eviction")
        if not self.options.enabled or review.resource != "pods" or review.dry_run:
            return answer(review)
        if evicted:
            obj = await self._evicted(review)
        elif (review.operation, review.subresource) != ("DELETE", ""):
            return answer(review)
        if obj is None:
            return answer(review)
        pod = _read(obj)
        namespace = (obj.get("metadata") or {}).get("namespace") or review.namespace
        book = None if pod.placement is None else self.books.find(namespace, pod.placement.name)
        if book is None or book.spread is None:
            return answer(review)
        kinds = self.books.observed.versioned_kinds
        removable = obj

        def choose(current: Book) -> tuple[None, PodLeaving | None]:
            request = Request(review.uid, self.books.observed.clock.now())
            entry = placing.removed(
                current.ledger, current.spread, removable, request, kinds, evicted=evicted
            )
            return None, entry

        try:
            await self.books.book(book, choose)
        except errors.LogError as error:
            # The pod's end is seen anyway, a moment later: no reason to keep it from being deleted.
            if not self.books.log.outage.explains("recording deletes", error):
                _log.warning("a delete is not recorded", namespace=namespace, pod=pod.name, error=str(error))
        return answer(review)

    async def _evicted(self, review: Review) -> JsonObject | None:
        """The pod that an Eviction names, as it was seen last; None: not seen, or only tried (dry run)."""
        if ((review.obj or {}).get("deleteOptions") or {}).get("dryRun"):
            return None
        name = review.name or ((review.obj or {}).get("metadata") or {}).get("name") or ""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EVICTED_WAIT_S
        try:
            while True:
                pod = await self.books.observed.pod(review.namespace, name)
                if pod is not None or not self.books.awaits(review.namespace, name) or loop.time() > deadline:
                    return pod
                await asyncio.sleep(AGAIN_S)  # it was placed a moment ago, and the fact about it is under way
        except errors.LogError as error:
            if not self.books.log.outage.explains("recording evictions", error):
                pod_name = f"{review.namespace}/{name}"
                _log.warning("an eviction is not recorded", pod=pod_name, error=str(error))
            return None

    async def _spread(self, review: Review) -> bytes:
        """A WorkloadSpread created or updated: the rules V1 to V25 (1.5)."""
        if not self.options.enabled:
            return answer(review, refused="feature-gate WorkloadSpread is not enabled", code=403)
        if review.obj is None or review.operation not in ("CREATE", "UPDATE"):
            return answer(review)
        try:
            of_objects(review)
        except BadReview as error:
            return answer(review, refused=str(error), code=400)
        name = (review.obj.get("metadata") or {}).get("name") or review.name
        others = [
            b.spread
            for b in self.books.in_namespace(review.namespace)
            if b.spread is not None and b.name != name
        ]
        try:
            obj = {
                **review.obj,
                "metadata": {**(review.obj.get("metadata") or {}), "namespace": review.namespace},
            }
            target = await self._target(parse(obj), review.namespace)
            around = validation.Surroundings(self.books.observed.stated_whitelist, others, target)
            wrong = validation.errors(obj, around, review.old if review.operation == "UPDATE" else None)
        except BadSpread as error:
            return answer(review, refused=str(error), code=400)
        warnings = validation.warnings(review.obj)
        if wrong:
            return answer(review, refused="; ".join(map(str, wrong)), code=400, warnings=warnings)
        if not review.dry_run:
            deadline = asyncio.get_running_loop().time() + IN_FORCE_WAIT_S
            self._awaited[review.namespace, str(name)] = (parse(obj), deadline)
        return answer(review, warnings=warnings)

    async def _target(self, spread: Spread, namespace: str) -> Callable[[str, str, str], JsonObject]:
        """Reads the spread's target as far as V12 looks at it: the form of its pod template.

        One that is not there, that may not be read, or whose template cannot be asked for now is not checked; a
        pod to which the patch does not apply is refused with the reason in any case, and takes no place.
        """
        known = None
        if spread.target is not None and any(subset.patch is not None for subset in spread.subsets):
            with contextlib.suppress(BadApiVersion, errors.LogError):
                known = await self.books.observed.template(namespace, spread.target)

        def read(api_version: str, kind: str, name: str) -> JsonObject:
            if known is None:
                raise NotFound(f"{api_version} {kind} {name}")
            claims = [{"metadata": {"name": claim}} for claim in known.claims]
            return {"spec": {"template": {"spec": known.spec}, "volumeClaimTemplates": claims}}

        return read


def _read(obj: JsonObject) -> Pod:
    """A pod from a review. Raises Refused (400) for an object that no API server would send."""
    try:
        check_metadata("object", obj)
        return pod_of(obj)
    except (TypeError, AttributeError, ValueError) as error:
        raise Refused("Unreadable", f"the object is no pod: {error}", code=400) from error


def _unfenced(entry: PodPlaced) -> PodPlaced:
    return msgspec.structs.replace(entry, unfenced=True)


async def run(options: Options, process: Process) -> None:
    """Run until `process.stop` is set; see `run_endpoint`."""
    await run_endpoint(
        options, process, reading="the ledgers",
        make=lambda log: Endpoint(Books(log, Writer(SERVICE)), options, process),
    )  # fmt: skip
