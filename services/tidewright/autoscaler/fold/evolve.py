"""`evolve`: how each event changes the state, and which objects it makes look again.

An object looks again when a round of its metrics is complete (every query answered since it looked
last, or one of them twice), when its spec, its target's count or its gate changes, when its timer
fires, and when a pod changes while it waits for ready pods. A readiness that changes in between is
seen by the next look: multiplied with a value measured before, it would give a wrong number sooner.

Nothing is judged here: what policy has made of the facts is folded from the decisions that say it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tidewright.autoscaler.fold import answers, decisions, forecasts, modes, objects, pods, workloads
from tidewright.autoscaler.fold.touched import NOTHING, Touched, looking
from tidewright.autoscaler.state import TIMER, State, is_sampled
from tidewright.events import registry
from tidewright.events.autoscaler import (
    DatadogMonitorGone,
    DatadogMonitorObserved,
    HoldReplicas,
    RecommendationReceived,
    RecordForecast,
    WatermarkPodAutoscalerGone,
    WatermarkPodAutoscalerObserved,
)
from tidewright.events.base import Event, Fact
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import CancelTimer, RecordObjectEvent, ScaleWorkload, SetStatus, SetTimer
from tidewright.events.facts import MetricSampled, PodGone, PodObserved, WorkloadGone, WorkloadObserved
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied, Failed, Rejected, Superseded
from tidewright.events.timers import TimerFired

CONFIG = "autoscaler"


def evolve(state: State, event: Event) -> Touched:
    """Fold one event; what is none of ours changes nothing."""
    if event.at > state.now:
        state.now = event.at
    handler = HANDLERS.get(type(event))
    if handler is None:
        return NOTHING
    touched = handler(state, event)
    if touched.looks and not (type(event) in registry.FACTS and cast("Fact", event).refresh):
        _begin_rounds(state, touched)
    return touched


def _begin_rounds(state: State, touched: Touched) -> None:
    """Whoever looks, and is not held up by a scale on its way, waits for a whole round of answers from then on."""
    for namespace_name, scaler in touched.looks:
        rules = scaler.rules
        if scaler.fresh and scaler.ordered is None and rules is not None:
            namespace, _ = state.namespace(namespace_name)
            if is_sampled(namespace, scaler, rules):
                scaler.fresh = ()


def _config(state: State, event: ConfigSet) -> Touched:
    if event.name == CONFIG:
        state.configure(event.data)
        for index in state.indices.values():
            for view in index.views.values():
                view.forget()
                view.settings = None
    return NOTHING


def _timer(state: State, event: TimerFired) -> Touched:
    if not event.key.startswith(TIMER):
        return NOTHING
    owner = event.key[len(TIMER) :]
    scaler = decisions.owned(state, owner)
    if scaler is None or scaler.timer_due is None or event.at < scaler.timer_due:
        return NOTHING  # replaced or cancelled just before it fired
    scaler.timer_due = None
    return looking(owner.partition("/")[0], scaler)


HANDLERS: dict[type[Event], Callable[[State, Any], Touched]] = {
    ConfigSet: _config,
    ModesSet: modes.acting_set,
    IncumbentObserved: modes.acting_set,
    MetricSampled: answers.metric_sampled,
    RecommendationReceived: answers.recommended,
    PodObserved: pods.pod_observed,
    PodGone: pods.pod_gone,
    WorkloadObserved: workloads.workload_observed,
    WorkloadGone: workloads.workload_gone,
    DatadogMonitorObserved: answers.monitor_observed,
    DatadogMonitorGone: answers.monitor_gone,
    WatermarkPodAutoscalerObserved: objects.object_observed,
    WatermarkPodAutoscalerGone: objects.object_gone,
    TimerFired: _timer,
    ScaleWorkload: decisions.scale_ordered,
    SetStatus: decisions.status_ordered,
    HoldReplicas: decisions.held,
    RecordObjectEvent: decisions.told,
    RecordForecast: forecasts.recorded,
    SetTimer: decisions.timer_set,
    CancelTimer: decisions.timer_cancelled,
    Applied: decisions.outcome,
    Rejected: decisions.outcome,
    Failed: decisions.outcome,
    Superseded: decisions.outcome,
}
