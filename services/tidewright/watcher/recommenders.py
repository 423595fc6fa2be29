"""Asking recommenders: one POST per object and interval, and its answer as a fact.

Spec: watermark-autoscaler.md, 2.7. What the recommender is told (requested replicas, ready pods) is
read just before: the scale of the target, and the pods that its selector finds.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tidewright.events.facts import PodObserved, RecommendationReceived, WorkloadGone, WorkloadObserved
from tidewright.kube import recommendation
from tidewright.kube.client import Kube
from tidewright.kube.errors import KubeError
from tidewright.kube.projection import pods
from tidewright.kube.projection.reading import Malformed
from tidewright.kube.readiness import Pod, pod_of, ready_pods
from tidewright.watcher.tls import BadTls, Contexts, Tls, merged
from tidewright.watcher.wanted import Recommendation, Target

TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 2**20
QUOTED_BYTES: Final = 100
"""Of a refusal's body."""
HEADERS: Final = {"Content-Type": "application/json", "User-Agent": "wpa-controller"}
BUCKETS_S: Final = (0.1, 0.3, 0.6, 1, 3, 6, 9, 20)
_CLASSES: Final = {401: "forbidden", 403: "forbidden", 404: "not-found", 429: "throttled"}

ScaleOf = Callable[[Target], Awaitable[WorkloadObserved | WorkloadGone | None]]


class _Failure(Exception):
    def __init__(self, error: str, error_class: str) -> None:
        super().__init__(error)
        self.error_class = error_class


class ClientMetrics:
    """The reference's series about its HTTP client."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
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
        registry: CollectorRegistry | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`now` is log time; `cluster` is what recommenders are told as the cluster's name."""
        self.metrics = ClientMetrics(registry)
        self._kube = kube
        self._scale_of = scale_of
        self._now = now
        self._cluster = cluster
        self._tls = tls or Tls()
        self._timeout_s = timeout_s
        self._contexts = Contexts()
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
                await self._post(spec["recommender"], msgspec.json.encode(body))
            )
        except recommendation.BadReply as error:
            return _failed(wish, str(error), "garbage")
        except _Failure as failure:
            return _failed(wish, str(failure), failure.error_class)
        except (ValueError, TypeError, AttributeError) as error:
            return _failed(wish, f"spec.recommender cannot be used: {error}", "garbage")
        return RecommendationReceived(
            at=0.0,
            namespace=wish.namespace,
            name=wish.name,
            target_replicas=reply.target_replicas,
            lower_bound_replicas=reply.lower_bound_replicas,
            upper_bound_replicas=reply.upper_bound_replicas,
            observed_value=reply.observed_target_value,
            details=reply.details,
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
        except (msgspec.MsgspecError, Malformed) as error:
            raise KubeError(0, "Garbage", f"GET {path}: {error}") from error
        return [pod_of(fact) for fact in facts if isinstance(fact, PodObserved)]

    async def _post(self, recommender: dict[str, Any], body: bytes) -> bytes:
        url = str(recommender.get("url", ""))
        if urlsplit(url).scheme not in ("http", "https"):
            raise _Failure(f"spec.recommender.url is {url!r}; valid are http:// and https:// URLs", "garbage")
        try:
            settings = merged(recommender.get("tlsConfig"), self._tls)
            context = await self._contexts.get(settings)
        except BadTls as error:
            raise _Failure(str(error), "garbage") from error
        if self._session is None:
            # Looking for a proxy costs a thread per request: only where the environment names one.
            self._session = aiohttp.ClientSession(trust_env=bool(urllib.request.getproxies()))
        started = time.monotonic()
        code = ""
        inflight = self.metrics.inflight.labels(url)
        inflight.inc()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._session.post(
                    url,
                    data=body,
                    headers=HEADERS,
                    ssl=context,
                    server_hostname=settings.server_name or None,
                ) as answer,
            ):
                content = await answer.content.read(MAX_ANSWER_BYTES)
                while not answer.content.at_eof():
                    content += await answer.content.read(MAX_ANSWER_BYTES)
                    if len(content) > MAX_ANSWER_BYTES:
                        raise _Failure(f"the answer is longer than {MAX_ANSWER_BYTES} bytes", "garbage")
                code = str(answer.status)
                if answer.status != 200:
                    quoted = content[:QUOTED_BYTES].decode("utf-8", "replace")
                    raise _Failure(
                        f"unexpected response code: {answer.status} ({quoted})",
                        _CLASSES.get(answer.status, "unavailable"),
                    )
                return content
        except TimeoutError as error:
            self.metrics.errors.labels(url).inc()
            raise _Failure(f'Post "{url}": no answer in {self._timeout_s:g} s', "timeout") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.metrics.errors.labels(url).inc()
            raise _Failure(f'Post "{url}": {error}', "unavailable") from error
        finally:
            inflight.dec()
            if code:
                self.metrics.requests.labels(url, "POST", code).inc()
                self.metrics.seconds.labels(url, "POST", code).observe(time.monotonic() - started)


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_List)


def _failed(wish: Recommendation, error: str, error_class: str) -> RecommendationReceived:
    return RecommendationReceived(
        at=0.0, namespace=wish.namespace, name=wish.name, error=error, error_class=error_class
    )
