"""The metrics APIs over HTTP, mounted into the embedded API server or on a port of their own.

/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?labelSelector=
/apis/metrics.k8s.io/v1beta1/[namespaces/{namespace}/]pods[/{name}]?labelSelector=
/apis/metrics.k8s.io/v1beta1/nodes[/{name}]
/sim/metrics     GET: what is served; POST: push one value or a list of them
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from tidewright.kube.quantities import format_milli
from tidewright.kube.selectors import LabelSelector, SelectorError
from tidewright.kube.times import rfc3339
from tidewright.log.clock import Clock
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import NODE, Pod
from tidewright.sim.metrics.values import Metrics, Push

EXTERNAL: Final = "external.metrics.k8s.io"
RESOURCE: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
PUSH_PATH: Final = "/sim/metrics"

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

RESOURCES: Final[dict[str, list[dict[str, Any]]]] = {
    RESOURCE: [
        {
            "name": "pods",
            "singularName": "",
            "namespaced": True,
            "kind": "PodMetrics",
            "verbs": ["get", "list"],
        },
        {
            "name": "nodes",
            "singularName": "",
            "namespaced": False,
            "kind": "NodeMetrics",
            "verbs": ["get", "list"],
        },
    ],
    EXTERNAL: [
        {
            "name": "*",
            "singularName": "",
            "namespaced": True,
            "kind": "ExternalMetricValueList",
            "verbs": ["get"],
        },
    ],
}
"""APIResource entries of both groups, for discovery."""


class _Refused(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class MetricsApi:
    """Answers requests for metrics from what `Metrics` and the cache know."""

    def __init__(self, metrics: Metrics, cache: Cache, clock: Clock) -> None:
        self.metrics = metrics
        self._cache = cache
        self._clock = clock
        self._pushes = msgspec.json.Decoder(list[Push] | Push)
        cache.of(NODE)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; refusals are Status objects."""
        try:
            if request.path.rstrip("/") == PUSH_PATH:
                return await self._sim(request)
            return _answer(self._find(request))
        except _Refused as refusal:
            return _answer(_status(refusal), refusal.status)

    def _find(self, request: web.BaseRequest) -> dict[str, Any]:
        if request.method not in ("GET", "HEAD"):
            raise _Refused(405, "MethodNotAllowed", f"{request.method}: metrics are read with GET")
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["apis"]:
                return _group_list()
            case ["apis", group] if group in RESOURCES:
                return _group(group)
            case ["apis", group, "v1beta1"] if group in RESOURCES:
                return _resource_list(group)
            case ["apis", "external.metrics.k8s.io", "v1beta1", "namespaces", namespace, metric]:
                return self._external(namespace, metric, _selector(request))
            case ["apis", "metrics.k8s.io", "v1beta1", "namespaces", namespace, "pods"]:
                return self._pods(self._cache.pods.in_namespace(namespace), _selector(request))
            case ["apis", "metrics.k8s.io", "v1beta1", "pods"]:
                return self._pods(self._cache.pods.objects.values(), _selector(request))
            case ["apis", "metrics.k8s.io", "v1beta1", "namespaces", namespace, "pods", name]:
                return self._pod(namespace, name)
            case ["apis", "metrics.k8s.io", "v1beta1", "nodes"]:
                return self._nodes(_selector(request))
            case ["apis", "metrics.k8s.io", "v1beta1", "nodes", name]:
                return self._node(name)
        raise _Refused(404, "NotFound", "the server could not find the requested resource")

    def _external(self, namespace: str, name: str, selector: LabelSelector) -> dict[str, Any]:
        now = self._clock.now()
        series = self.metrics.external(namespace, name, selector, now)
        if series is None:
            known = ", ".join(self.metrics.names(resource=False)) or "none"
            raise _Refused(
                404, "NotFound", f"no external metric {name} in namespace {namespace}; served are: {known}"
            )
        return {
            "kind": "ExternalMetricValueList",
            "apiVersion": f"{EXTERNAL}/{VERSION}",
            "metadata": {},
            "items": [
                {
                    "metricName": name,
                    "metricLabels": labels,
                    "timestamp": rfc3339(now),
                    "value": format_milli(value),
                }
                for labels, value in series
            ],
        }

    def _pods(self, pods: Iterable[Pod], selector: LabelSelector) -> dict[str, Any]:
        chosen = [pod for pod in pods if selector.matches(pod.metadata.labels)]
        now = self._clock.now()
        usage = self.metrics.pod_usage(chosen, now)
        items = [_pod_metrics(pod, usage[pod.key], now) for pod in chosen if pod.key in usage]
        items.sort(key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))
        return _list("PodMetricsList", items)

    def _pod(self, namespace: str, name: str) -> dict[str, Any]:
        pod = self._cache.pods.get((namespace, name))
        now = self._clock.now()
        usage = self.metrics.pod_usage([pod], now) if pod is not None else {}
        if pod is None or pod.key not in usage:
            raise _Refused(404, "NotFound", f'podmetrics.metrics.k8s.io "{namespace}/{name}" not found')
        metrics = _pod_metrics(pod, usage[pod.key], now)
        return {"kind": "PodMetrics", "apiVersion": f"{RESOURCE}/{VERSION}", **metrics}

    def _nodes(self, selector: LabelSelector) -> dict[str, Any]:
        nodes = [
            node for node in self._cache.of(NODE).objects.values() if selector.matches(node.metadata.labels)
        ]
        names = sorted(node.metadata.name for node in nodes)
        return _list("NodeMetricsList", [self._node_metrics(name) for name in names])

    def _node(self, name: str) -> dict[str, Any]:
        if self._cache.of(NODE).get(("", name)) is None:
            raise _Refused(404, "NotFound", f'nodemetrics.metrics.k8s.io "{name}" not found')
        return {"kind": "NodeMetrics", "apiVersion": f"{RESOURCE}/{VERSION}", **self._node_metrics(name)}

    def _node_metrics(self, name: str) -> dict[str, Any]:
        now = self._clock.now()
        total = {"cpu": 0, "memory": 0}
        for usage in self.metrics.pod_usage(self._cache.pods.on_node(name), now).values():
            for resource in total:
                total[resource] += usage.get(resource, 0)
        node = self._cache.of(NODE).get(("", name))
        labels = node.metadata.labels if node is not None else {}
        return {
            "metadata": {"name": name, "creationTimestamp": rfc3339(now), "labels": labels},
            "timestamp": rfc3339(now),
            "window": "30s",
            "usage": {resource: format_milli(value) for resource, value in total.items()},
        }

    async def _sim(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            try:
                pushed = self._pushes.decode(await request.read())
                for push in pushed if isinstance(pushed, list) else [pushed]:
                    self.metrics.push(push)
            except (msgspec.MsgspecError, ValueError) as error:
                raise _Refused(
                    400,
                    "BadRequest",
                    f'{error}; a push looks like {{"name": "requests", "value": 94, "labels": {{"app": "web"}}}}',
                ) from error
        elif request.method != "GET":
            raise _Refused(405, "MethodNotAllowed", f"{request.method}: valid are GET and POST")
        return _answer({"now": self._clock.now(), "metrics": self.metrics.listing(self._clock.now())})


class SideServer:
    """A port beside the API server: the metrics APIs, pushes, and whatever else is mounted."""

    def __init__(self, api: MetricsApi, host: str = "127.0.0.1", port: int = 0) -> None:
        self.metrics_api = api
        self._host = host
        self._port = port
        self._mounts: dict[str, Handler] = {}
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        """`http://HOST:PORT`, once started."""
        return f"http://{self._host}:{self._port}"

    def mount(self, prefix: str, handler: Handler) -> None:
        """Let another handler answer everything below a path."""
        self._mounts[prefix] = handler

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        for prefix, handler in self._mounts.items():
            if request.path.startswith(prefix):
                return await handler(request)
        return await self.metrics_api.handle(request)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken.
        """
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        await web.TCPSite(runner, self._host, self._port).start()
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening; fine when never started."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def _selector(request: web.BaseRequest) -> LabelSelector:
    text = request.query.get("labelSelector", "")
    try:
        return LabelSelector.parse(text)
    except SelectorError as error:
        raise _Refused(400, "BadRequest", f"labelSelector {text!r}: {error}") from error


def _pod_metrics(pod: Pod, usage: dict[str, int], now: float) -> dict[str, Any]:
    count = max(len(pod.spec.containers), 1)
    containers = [
        {
            "name": container.name,
            # The first container takes what does not divide, so that the sum is the pod's usage.
            "usage": {
                resource: format_milli(value // count + (value % count if index == 0 else 0))
                for resource, value in usage.items()
            },
        }
        for index, container in enumerate(pod.spec.containers)
    ]
    metadata = {
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "creationTimestamp": rfc3339(now),
        "labels": pod.metadata.labels,
    }
    return {"metadata": metadata, "timestamp": rfc3339(now), "window": "30s", "containers": containers}


def _list(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": f"{RESOURCE}/{VERSION}", "metadata": {}, "items": items}


def _group(group: str) -> dict[str, Any]:
    version = {"groupVersion": f"{group}/{VERSION}", "version": VERSION}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": [version],
        "preferredVersion": version,
    }


def _group_list() -> dict[str, Any]:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in RESOURCES]}


def _resource_list(group: str) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{VERSION}",
        "resources": RESOURCES[group],
    }


def _status(refusal: _Refused) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(refusal),
        "reason": refusal.reason,
        "code": refusal.status,
    }


def _answer(content: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")
