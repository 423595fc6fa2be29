"""Metrics by name, and what they are worth at a log time and a number of ready pods.

A metric's raw value comes from a trace, a constant or a push. `shared` divides it by the ready pods
that carry the load, so that the value falls as replicas come up, as a real load per replica does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tidewright.kube.selectors import LabelSelector
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import Pod
from tidewright.sim.metrics.trace import Trace
from tidewright.sim.options import MetricOptions, Source

IDLE = {"cpu": 1, "memory": 16 * 2**20 * 1000}
"""What a running pod uses that no resource metric speaks of: a millicore, 16 MiB. In milli."""


class Metric:
    """One metric and its source."""

    def __init__(self, options: MetricOptions) -> None:
        self.options = options
        self.selector = LabelSelector.parse(options.selector)
        self.pushed = options.value
        self.trace = Trace.load(options.trace) if options.trace is not None else None
        if options.source is Source.TRACE and self.trace is None:
            raise ValueError(f"metric {options.name}: source trace needs a CSV file")

    def raw(self, now: float) -> float | None:
        """The value before sharing; None when there is none yet."""
        if self.options.source is Source.TRACE and self.trace is not None:
            shift = 0.0 if self.options.anchor is None else self.options.anchor - self.trace.times[0]
            return self.trace.at(now - shift, repeat=self.options.repeat) * self.options.factor
        return None if self.pushed is None else self.pushed * self.options.factor

    def serves(self, namespace: str) -> bool:
        return self.options.namespace in ("", namespace)

    def carriers(self, pods: Iterable[Pod]) -> list[Pod]:
        """The pods among these that carry the load."""
        return [pod for pod in pods if carries(pod) and self.selector.matches(pod.metadata.labels)]


class Push(msgspec.Struct, forbid_unknown_fields=True):
    """One pushed value, as `POST /sim/metrics` takes it.

    Attributes:
        value: None forgets the metric.
        resource: a resource metric (`cpu` in cores, `memory` in bytes), the total over the pods.
        selector: of the pods that carry it; text form.
    """

    name: str
    value: float | None
    namespace: str = ""
    labels: dict[str, str] = {}
    resource: bool = False
    selector: str = ""
    shared: bool = False


class Metrics:
    """All metrics of one simulated cluster."""

    def __init__(self, cache: Cache, metrics: Iterable[MetricOptions] = ()) -> None:
        self._cache = cache
        self._metrics: dict[tuple[bool, str, str, str], Metric] = {}
        for options in metrics:
            self.add(options)

    def add(self, options: MetricOptions) -> None:
        """Serve one more metric, or replace it.

        Raises:
            ValueError: a selector or trace that cannot be read (`SelectorError`, `TraceError`).
        """
        self._metrics[_key(options.resource, options.namespace, options.name, options.labels)] = Metric(
            options
        )

    def push(self, push: Push) -> None:
        """Take in a pushed value.

        Raises:
            ValueError: a selector that cannot be read.
        """
        key = _key(push.resource, push.namespace, push.name, push.labels)
        known = self._metrics.get(key)
        if push.value is None:
            self._metrics.pop(key, None)
        elif known is not None and known.options.source is Source.PUSHED:
            known.pushed = push.value
        else:
            self._metrics[key] = Metric(
                MetricOptions(
                    name=push.name,
                    namespace=push.namespace,
                    labels=push.labels,
                    resource=push.resource,
                    selector=push.selector,
                    shared=push.shared,
                    source=Source.PUSHED,
                    value=push.value,
                )
            )

    def names(self, *, resource: bool) -> list[str]:
        """Metric names, sorted."""
        return sorted({key[2] for key in self._metrics if key[0] == resource})

    def external(
        self, namespace: str, name: str, selector: LabelSelector, now: float
    ) -> list[tuple[dict[str, str], int]] | None:
        """Labels and milli value of each series; None for a metric that nobody serves."""
        metrics = [
            metric
            for (resource, _, known, _), metric in sorted(self._metrics.items())
            if not resource and known == name and metric.serves(namespace)
        ]
        if not metrics:
            return None
        series = []
        for metric in metrics:
            value = metric.raw(now)
            if value is None or not selector.matches(metric.options.labels):
                continue
            if metric.options.shared:
                value /= max(len(metric.carriers(self._cache.pods.in_namespace(namespace))), 1)
            series.append((dict(metric.options.labels), milli_of(value)))
        return series

    def pod_usage(self, pods: Iterable[Pod], now: float) -> dict[tuple[str, str], dict[str, int]]:
        """CPU and memory in milli (of cores, of bytes) of each of these pods that runs."""
        running = [pod for pod in pods if pod.status.phase == "Running"]
        usage = {pod.key: dict(IDLE) for pod in running}
        for (resource, _, name, _), metric in sorted(self._metrics.items()):
            value = metric.raw(now) if resource else None
            if value is None:
                continue
            counts: dict[str, int] = {}
            for pod in metric.carriers(running):
                namespace = pod.metadata.namespace
                if not metric.serves(namespace):
                    continue
                if namespace not in counts:
                    counts[namespace] = len(metric.carriers(self._cache.pods.in_namespace(namespace)))
                usage[pod.key][name] = milli_of(value / counts[namespace])
        return usage

    def listing(self, now: float) -> list[dict[str, Any]]:
        """Every metric with its present value, for people."""
        return [
            {
                "name": metric.options.name,
                "namespace": metric.options.namespace,
                "labels": metric.options.labels,
                "resource": metric.options.resource,
                "source": metric.options.source.value,
                "value": metric.raw(now),
            }
            for _, metric in sorted(self._metrics.items())
        ]


def carries(pod: Pod) -> bool:
    """Whether a pod takes its share of the load: running, ready, not on its way out."""
    return pod.status.phase == "Running" and pod.ready and pod.metadata.deletion_timestamp is None


def milli_of(value: float) -> int:
    """A value in thousandths, rounded to the nearest."""
    return math.floor(value * 1000 + 0.5)


def _key(resource: bool, namespace: str, name: str, labels: Mapping[str, str]) -> tuple[bool, str, str, str]:
    said = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
    return (resource, namespace, name, said)
