"""Asking recommenders: one POST per object and interval, and its answer as a fact.

Spec: watermark-autoscaler.md, 2.7. What the recommender is told (requested replicas, ready pods) is
read just before: the scale of the target, and the pods that its selector finds.

The address is written by whoever may write the object, and what goes wrong is told on the object: so
only what `outbound` allows is asked, redirects lead nowhere else, and nothing of what is not a
recommendation is repeated.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import aiohttp
import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tidewright.events.autoscaler import RecommendationReceived
from tidewright.events.facts import PodObserved, WorkloadGone, WorkloadObserved
from tidewright.host.process.once import Once
from tidewright.kube import recommendation
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.projection import pods
from tidewright.kube.projection.reading import Malformed
from tidewright.kube.readiness import Pod, pod_of, ready_pods
from tidewright.log.redaction import redacted
from tidewright.watcher.metric_queries import Recommendation, Target
from tidewright.watcher.outbound import SHOWN, CheckedResolver, Hosts, NotAllowed, own_namespace
from tidewright.watcher.tls import BadTls, Contexts, Tls, merged

TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 2**20
MAX_TEXT: Final = 500
"""Characters of what a recommender says in words."""
MAX_CLIENTS: Final = 200
"""Recommenders that have metrics of their own; the rest share `others`."""
REDIRECTS: Final = 3
HEADERS: Final = {
    "Content-Type": "application/json",
    "User-Agent": "wpa-controller",
    "Accept-Encoding": "identity",  # what is packed small is large when it is unpacked
}
BUCKETS_S: Final = (0.1, 0.3, 0.6, 1, 3, 6, 9, 20)
_CLASSES: Final = {401: "forbidden", 403: "forbidden", 404: "not-found", 429: "throttled"}

_log = structlog.get_logger(__name__)

ScaleOf = Callable[[Target], Awaitable[WorkloadObserved | WorkloadGone | None]]


class _Failure(Exception):
    def __init__(self, error: str, error_class: str) -> None:
        super().__init__(error)
        self.error_class = error_class


class ClientMetrics:
    """The reference's series about its HTTP client."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._clients: set[str] = set()
        self.seconds = Histogram(
            "http_client_request_duration_seconds",
            "Time until a recommender's answer was read.",
            ["client", "method", "code"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.requests = Counter(
            "http_client_requests_total", "Answers of recommenders, by status.", ["client", "method", "code"],
            registry=registry,
        )  # fmt: skip
        self.errors = Counter(
            "http_client_requests_errors_total",
            "Requests to recommenders that got no answer.",
            ["client"],
            registry=registry,
        )
        self.inflight = Gauge(
            "http_client_requests_inflight",
            "Requests to recommenders on their way.",
            ["client"],
            registry=registry,
        )

    def client(self, url: str) -> str:
        """The label of a recommender: where it is, without what is asked of it. Objects name them, so they are bounded."""
        parts = urlsplit(url)
        label = f"{parts.scheme}://{parts.netloc}{parts.path}"[:MAX_TEXT]
        if label not in self._clients and len(self._clients) >= MAX_CLIENTS:
            return "others"
        self._clients.add(label)
        return label


class Recommenders:
    """Asks, on behalf of objects."""

    def __init__(
        self,
        kube: Kube,
        scale_of: ScaleOf,
        now: Callable[[], float],
        *,
        cluster: str = "",
        tls: Tls | None = None,
        tls_folder: Path | None = None,
        hosts: Hosts | None = None,
        registry: CollectorRegistry | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Ask for objects.

        Args:
            kube: where pods are listed.
            scale_of: reads the scale of a target.
            now: log time, seconds.
            cluster: what recommenders are told as the cluster's name.
            tls: of the process, for objects that say nothing else.
            tls_folder: where files lie that objects may name; None: they may name none.
            hosts: what may be asked; by default Services of the cluster.
            registry: gets the metrics.
            timeout_s: of one question, wall seconds.
        """
        self.metrics = ClientMetrics(registry)
        self._kube = kube
        self._scale_of = scale_of
        self._now = now
        self._cluster = cluster
        self._tls = tls or Tls()
        self._timeout_s = timeout_s
        self._contexts = Contexts()
        self._tls_folder = tls_folder
        self._hosts = hosts or Hosts(ours=own_namespace())
        self._proxies = urllib.request.getproxies()
        self._refused = Counter(
            "tidewright_recommenders_refused_total",
            "Questions to recommenders whose address or files are not allowed.",
            registry=registry,
        )
        self._once = Once()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, wish: Recommendation) -> RecommendationReceived:
        """The fact that the recommender's answer makes, or the want of one; `at` is 0."""
        spec: dict[str, Any] = msgspec.json.decode(wish.spec)
        spec.setdefault("minReplicas", 1)  # as the decider has it, too
        try:
            current, ready = await self._replicas(wish, spec)
            body = recommendation.request(
                spec, namespace=wish.namespace, cluster=self._cluster, current=current, ready=ready
            )
            reply = recommendation.parse_reply(
                await self._post(spec["recommender"], wish, msgspec.json.encode(body))
            )
        except recommendation.BadReply as error:
            return _failed(wish, str(error), "garbage")
        except _Failure as failure:
            return _failed(wish, str(failure), failure.error_class)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            return _failed(wish, f"spec.recommender cannot be used: {error}", "garbage")
        return RecommendationReceived(
            at=0.0,
            namespace=wish.namespace,
            name=wish.name,
            target_replicas=reply.target_replicas,
            lower_bound_replicas=reply.lower_bound_replicas,
            upper_bound_replicas=reply.upper_bound_replicas,
            observed_value=reply.observed_target_value,
            details=reply.details[:MAX_TEXT],
        )

    async def _replicas(self, wish: Recommendation, spec: dict[str, Any]) -> tuple[int, int]:
        """Requested replicas of the target, and its ready pods, at most those that exist."""
        reference = spec.get("scaleTargetRef") or {}
        target = Target(
            wish.namespace,
            str(reference.get("apiVersion", "")),
            str(reference.get("kind", "")),
            str(reference.get("name", "")),
        )
        scale = await self._scale_of(target)
        if scale is None:
            raise _Failure(f"the scale of {target.kind} {target.name} was not answered", "unavailable")
        if isinstance(scale, WorkloadGone):
            raise _Failure(scale.reason, "not-found")
        try:
            pods = await self._pods(wish.namespace, scale.selector)
        except KubeError as error:
            raise _Failure(
                f"the pods of {target.kind} {target.name} were not answered: {error}", "unavailable"
            ) from error
        delay_s = spec.get("readinessDelaySeconds")
        count = ready_pods(
            pods,
            target_name=target.name,
            now=self._now(),
            delay_s=delay_s if isinstance(delay_s, int) else 0,
            skip_owner_check=wish.skip_owner_check,
        )
        return scale.replicas, min(count.ready, scale.status_replicas)

    async def _pods(self, namespace: str, selector: str) -> list[Pod]:
        # From the API server's cache: this is asked as often as metrics are.
        query = {"labelSelector": selector, "resourceVersion": "0"}
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        answer = await self._kube.request("GET", path, query=query, timeout_s=TIMEOUT_S)
        try:
            facts = [pods.pod(raw).fact for raw in _list.decode(answer.body).items or []]
        except (msgspec.MsgspecError, RecursionError, Malformed) as error:
            raise KubeError(0, "Garbage", f"GET {path}: {error}") from error
        return [pod_of(fact) for fact in facts if isinstance(fact, PodObserved)]

    async def _post(self, recommender: dict[str, Any], wish: Recommendation, body: bytes) -> bytes:
        url = str(recommender.get("url", ""))
        try:
            target = self._hosts.target(url, wish.namespace)
            settings = merged(recommender.get("tlsConfig"), self._tls, self._tls_folder)
            context = await self._contexts.get(settings)
        except NotAllowed as error:
            raise self._not_allowed(wish, url, error) from error
        except BadTls as error:
            raise _Failure(str(error), "garbage") from error
        client = self.metrics.client(target.geturl())
        started = time.monotonic()
        code = ""
        inflight = self.metrics.inflight.labels(client)
        inflight.inc()
        try:
            async with asyncio.timeout(self._timeout_s):
                for _ in range(REDIRECTS + 1):
                    code, content, further = await self._once_asked(target, settings, context, body)
                    if further is None:
                        break
                    target = further
            if code != "200":
                raise _Failure(f"unexpected response code: {code}", _CLASSES.get(int(code), "unavailable"))
            return content
        except NotAllowed as error:
            raise self._not_allowed(wish, url, error) from error
        except TimeoutError as error:
            self.metrics.errors.labels(client).inc()
            raise _Failure(f'Post "{_shown(url)}": no answer in {self._timeout_s:g} s', "timeout") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.metrics.errors.labels(client).inc()
            raise _Failure(f'Post "{_shown(url)}": {error}', "unavailable") from error
        finally:
            inflight.dec()
            if code:
                self.metrics.requests.labels(client, "POST", code).inc()
                self.metrics.seconds.labels(client, "POST", code).observe(time.monotonic() - started)

    async def _once_asked(
        self, target: SplitResult, settings: Tls, context: ssl.SSLContext, body: bytes
    ) -> tuple[str, bytes, SplitResult | None]:
        """Status and content of one answer, and where it says to ask again: at the same place only."""
        url = target.geturl()
        async with self._connected().post(
            url,
            data=body,
            headers=HEADERS,
            ssl=context,
            server_hostname=settings.server_name or None,
            allow_redirects=False,
            proxy=self._proxy(target),
        ) as answer:
            if answer.status in (307, 308):
                further = urlsplit(urljoin(url, answer.headers.get("Location", "")))
                if (further.scheme, further.netloc) != (target.scheme, target.netloc):
                    raise NotAllowed("it redirects to another place, which is not followed")
                return str(answer.status), b"", further
            content = bytearray()
            async for chunk in answer.content.iter_any():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise _Failure(f"the answer is longer than {MAX_ANSWER_BYTES} bytes", "garbage")
            return str(answer.status), bytes(content), None

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            proxies = {urlsplit(url).hostname or "" for url in self._proxies.values()}
            # Without a cache of names: each connection goes to addresses that were looked at for it.
            connector = aiohttp.TCPConnector(
                resolver=CheckedResolver(self._hosts, proxies), use_dns_cache=False
            )
            self._session = aiohttp.ClientSession(
                connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    def _proxy(self, target: SplitResult) -> str | None:
        """The operator's proxy for a host; behind it, the name alone decides."""
        proxy = self._proxies.get(target.scheme)
        return None if proxy is None or urllib.request.proxy_bypass(target.netloc) else proxy

    def _not_allowed(self, wish: Recommendation, url: str, error: NotAllowed) -> _Failure:
        self._refused.inc()
        problem = f"spec.recommender.url {_shown(url)!r} is not asked: {error}"
        if times := self._once.due(wish.namespace, wish.name, str(error)):
            _log.warning(
                "recommender refused", namespace=wish.namespace, name=wish.name, error=problem, times=times
            )
        return _Failure(problem, "forbidden")


def _shown(url: str) -> str:
    return redacted(url if len(url) <= SHOWN else f"{url[:SHOWN]}...")


class _PodList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_PodList)


def _failed(wish: Recommendation, error: str, error_class: str) -> RecommendationReceived:
    text = redacted(error)
    return RecommendationReceived(
        at=0.0,
        namespace=wish.namespace,
        name=wish.name,
        error=text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}...",
        error_class=error_class,
    )
