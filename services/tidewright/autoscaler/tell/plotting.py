"""A WatermarkPodAutoscaler, or a workload that one scales, as lines of a chart. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.autoscaler.api.spec import InvalidSpec, Rules, parsed
from tidewright.autoscaler.state import KIND
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import ScaleWorkload
from tidewright.events.facts import MetricSampled, WorkloadObserved
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.plotter import Plotter, Sample

OURS = KIND.lower()
REPLICAS = "replicas"


class AutoscalerPlotter:
    """Values with their marks, and replicas."""

    kinds = frozenset((OURS, "deployment", "replicaset", "statefulset"))

    def elsewhere(self, fact: Event) -> Sequence[Reference]:
        """The target, and the answers to the queries."""
        rules = _rules(fact)
        if rules is None:
            return ()
        queries = dict.fromkeys(metric.query for metric in rules.metrics)
        target = Reference(rules.target_kind.lower(), fact.namespace, rules.target_name)  # type: ignore[attr-defined]  # of an object
        return (target, *(Reference("metric", target.namespace, query) for query in queries))

    def samples(self, asked: Reference, facts: Sequence[Event], latest: Event) -> Sequence[Sample]:
        """A value is what is held against the marks: of the algorithm `average`, the part of one ready replica."""
        if isinstance(latest, WorkloadObserved):
            return (
                Sample("wanted", REPLICAS, latest.replicas),
                Sample("existing", REPLICAS, latest.status_replicas),
                Sample("ready", REPLICAS, latest.ready_replicas),
            )
        if (rules := _rules(latest)) is not None:
            limits = (
                Sample("minimum", REPLICAS, rules.min_replicas),
                Sample("maximum", REPLICAS, rules.max_replicas),
            )
            marks = [
                sample
                for metric in rules.metrics
                for sample in (
                    Sample("highWatermark", "", metric.marks.high / 1000, metric.name),
                    Sample("lowWatermark", "", metric.marks.low / 1000, metric.name),
                )
            ]
            return (*limits, *marks)
        if isinstance(latest, MetricSampled):
            rules = next((found for fact in facts if (found := _rules(fact)) is not None), None)
            return () if rules is None else _values(rules, facts, latest)
        return ()

    def change(self, asked: Reference, decision: Decision) -> tuple[float, float] | None:
        """A scale on behalf of the object, or of the workload."""
        if not isinstance(decision, ScaleWorkload):
            return None
        if asked.kind == OURS and decision.owner != f"{KIND}/{asked.namespace}/{asked.name}":
            return None
        return decision.from_replicas, decision.replicas


PLOTTER: Plotter = AutoscalerPlotter()


def _values(rules: Rules, facts: Sequence[Event], sampled: MetricSampled) -> Sequence[Sample]:
    readings = sampled.series_milli or tuple(sampled.pods_milli.values())
    value = None if sampled.error or not readings else sum(readings) / 1000
    if rules.average and value is not None:
        ready = next((fact.ready_replicas for fact in facts if isinstance(fact, WorkloadObserved)), 0)
        value = value / ready if ready else None
    names = dict.fromkeys(metric.name for metric in rules.metrics if metric.query == sampled.name)
    return [Sample("value", "", value, name) for name in names]


def _rules(fact: Event) -> Rules | None:
    if not isinstance(fact, WatermarkPodAutoscalerObserved):
        return None
    try:
        return parsed(fact.spec)
    except InvalidSpec:
        return None
