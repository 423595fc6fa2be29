"""Answers of the metrics APIs as facts: values in milli, or why there are none. Pure.

Spec: watermark-autoscaler.md, 2.5 (External) and 2.6 (Resource).
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from tidewright.events.facts import MetricSampled
from tidewright.kube import quantities
from tidewright.kube.errors import TIMEOUT, KubeError
from tidewright.kube.metricquery import MetricQuery
from tidewright.kube.quantities import QuantityText
from tidewright.kube.times import seconds_if_set
from tidewright.log.redaction import redacted
from tidewright.watcher.metric_queries import Query

MAX_SERIES = 10_000
"""Of one answer: as many as may be pushed for a query. A fact of them still fits into a message."""
MAX_PODS = 15_000
MAX_ERROR = 500
"""Characters of what a metrics API says in words: they end up on the log, and on objects."""
NOT_SERVED, NO_PATH = 404, "page not found"
"""How an API server answers on a path that nobody has registered; an adapter says it of a metric in other words."""
_REGISTER = {
    "external": "install an adapter, name one to the watcher (--external-metrics-url), or push samples",
    "resource": "install metrics-server, name one to the watcher (--resource-metrics-url), or push samples",
}
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
RESOURCE = "/apis/metrics.k8s.io/v1beta1"

_BY_CLASS = {"forbidden": "forbidden", "gone": "not-found", "throttled": "throttled"}


class _Value(msgspec.Struct):
    value: QuantityText
    timestamp: str | None = None


class _Values(msgspec.Struct):
    items: list[_Value] | None = None


class _PodMeta(msgspec.Struct):
    name: str


class _ContainerUsage(msgspec.Struct):
    usage: dict[str, QuantityText] = {}


class _PodMetrics(msgspec.Struct):
    metadata: _PodMeta
    timestamp: str | None = None
    containers: list[_ContainerUsage] = []


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] | None = None


_values = msgspec.json.Decoder(_Values)
_pods = msgspec.json.Decoder(_PodMetricsList)


class Request(msgspec.Struct, frozen=True):
    """What to GET for a query."""

    path: str
    selector: str = ""

    @property
    def params(self) -> dict[str, str]:
        """Its query parameters."""
        return {"labelSelector": self.selector} if self.selector else {}


def request(query: Query) -> Request:
    """The request of a query.

    Raises:
        NotAQuery: its name is none.
    """
    parsed = MetricQuery.parse(query.name)
    within = f"/namespaces/{quote(query.namespace, safe='')}"
    if parsed.source == "external":
        return Request(f"{EXTERNAL}{within}/{quote(parsed.metric, safe='')}", parsed.selector)
    return Request(f"{RESOURCE}{within}/pods", parsed.selector)


def sample(query: Query, body: bytes, at: float) -> MetricSampled:
    """The fact that an answer makes; one that cannot be read becomes a failure of class `garbage`."""
    parsed = MetricQuery.parse(query.name)
    try:
        if parsed.source == "external":
            return _external(query, body, at)
        return _resource(query, parsed.metric, body, at)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return failure(query, f"the answer cannot be read: {error}", "garbage", at)


def _external(query: Query, body: bytes, at: float) -> MetricSampled:
    items = _values.decode(body).items or []
    if not items:
        return failure(query, "no metrics returned from external metrics API", "empty", at)
    if len(items) > MAX_SERIES:
        return _too_many(query, "series", len(items), MAX_SERIES, at)
    return MetricSampled(
        at=at,
        namespace=query.namespace,
        name=query.name,
        series_milli=tuple(quantities.milli(item.value) for item in items),
        sampled_at=seconds_if_set(items[0].timestamp),
    )


def _resource(query: Query, resource: str, body: bytes, at: float) -> MetricSampled:
    items = _pods.decode(body).items or []
    if not items:
        return failure(query, "no metrics returned from resource metrics API", "empty", at)
    if len(items) > MAX_PODS:
        return _too_many(query, "pods", len(items), MAX_PODS, at)
    pods: dict[str, int] = {}
    for item in items:
        if item.containers and all(resource in container.usage for container in item.containers):
            pods[item.metadata.name] = sum(quantities.milli(c.usage[resource]) for c in item.containers)
    return MetricSampled(
        at=at,
        namespace=query.namespace,
        name=query.name,
        pods_milli=pods,
        sampled_at=seconds_if_set(items[0].timestamp),
    )


def _too_many(query: Query, what: str, count: int, most: int, at: float) -> MetricSampled:
    problem = f"the answer has {count} {what}, at most {most} are read: select fewer"
    return failure(query, problem, "garbage", at)


def failure(query: Query, error: str, error_class: str, at: float) -> MetricSampled:
    """The fact that a query failed."""
    text = redacted(error)
    return MetricSampled(
        at=at,
        namespace=query.namespace,
        name=query.name,
        error=text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}...",
        error_class=error_class,
    )


def refused(query: Query, error: KubeError, at: float) -> MetricSampled:
    """The fact that a metrics API did not answer, or refused."""
    word = "timeout" if error.reason == TIMEOUT else _BY_CLASS.get(error.error_class, "unavailable")
    message = error.message
    if error.status == NOT_SERVED and NO_PATH in message:
        source = MetricQuery.parse(query.name).source
        root = EXTERNAL if source == "external" else RESOURCE
        message = f"no {source} metrics API is registered ({root} is not served): {_REGISTER[source]}"
    return failure(query, message, word, at)
