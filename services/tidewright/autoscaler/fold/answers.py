"""What others were asked: metrics, recommenders, monitors."""

from __future__ import annotations

from tidewright.autoscaler.fold import forecasts
from tidewright.autoscaler.fold.index import in_order
from tidewright.autoscaler.fold.touched import NOTHING, Touched, looking
from tidewright.autoscaler.state import Autoscaler, Monitor, Namespace, State
from tidewright.events.autoscaler import DatadogMonitorGone, DatadogMonitorObserved, RecommendationReceived
from tidewright.events.facts import MetricSampled


def metric_sampled(state: State, event: MetricSampled) -> Touched:
    """A round of metrics is complete when each was answered, or this one twice."""
    namespace, index = state.namespace(event.namespace)
    namespace.samples[event.name] = event
    if event.refresh:
        return NOTHING
    looks = []
    for name in in_order(index.by_query.get(event.name, ())):
        scaler = namespace.objects[name]
        if scaler.forecast is not None:
            forecasts.sampled(state, event, scaler)
        if _completes_round(scaler, event.name):
            looks.append((event.namespace, scaler))
    return Touched(looks=tuple(looks)) if looks else NOTHING


def _completes_round(scaler: Autoscaler, query: str) -> bool:
    """Whether every query was answered since it looked last, or this one twice.

    So the order in which the answers of one round arrive changes nothing, and one metric that is
    no longer answered does not stop the others.
    """
    rules = scaler.rules
    if rules is None:
        return False
    if len(rules.metrics) == 1 or query in scaler.fresh:
        return True
    scaler.fresh = (*scaler.fresh, query)
    return len(scaler.fresh) == len({metric.query for metric in rules.metrics})


def recommended(state: State, event: RecommendationReceived) -> Touched:
    """A recommender's answer."""
    namespace, _ = state.namespace(event.namespace)
    namespace.recommendations[event.name] = event
    scaler = namespace.objects.get(event.name)
    if scaler is None or scaler.rules is None or not scaler.rules.recommender:
        return NOTHING
    return looking(event.namespace, scaler)


def monitor_observed(state: State, event: DatadogMonitorObserved) -> Touched:
    """Another state of a monitor that may hold an object."""
    namespace, _ = state.namespace(event.namespace)
    known = namespace.monitors.get(event.name)
    namespace.monitors[event.name] = Monitor(event.state)
    if namespace.monitors[event.name] == known:
        return NOTHING
    return _gate_changed(event.namespace, namespace, event.name)


def monitor_gone(state: State, event: DatadogMonitorGone) -> Touched:
    """A monitor that is not there, or cannot be read."""
    namespace, _ = state.namespace(event.namespace)
    namespace.monitors[event.name] = Monitor(error=event.reason or f'DatadogMonitor "{event.name}" not found')
    return _gate_changed(event.namespace, namespace, event.name)


def _gate_changed(namespace_name: str, namespace: Namespace, name: str) -> Touched:
    scaler = namespace.objects.get(name)
    return NOTHING if scaler is None or scaler.lifecycle is None else looking(namespace_name, scaler)
