"""All Prometheus series of a state, with the reference's names and labels (section 4.2).

A pure function of the state: each object is measured anew as things stand, so that a scrape shows
what the next pass would see, and a restart or a change of owner loses nothing.
Series of what is gone are simply not there any more (D13).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tidewright.autoscaler.api.conditions import Setting
from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.passes import conditions as c
from tidewright.autoscaler.passes.evaluate import evaluate
from tidewright.autoscaler.passes.passes import last_scale_of, scene_of
from tidewright.autoscaler.policy import Policy
from tidewright.autoscaler.state import Autoscaler, State, is_sampled
from tidewright.autoscaler.tell import gauges
from tidewright.autoscaler.tell.gauges import Series
from tidewright.kube.conditions import find

PREFIX = "wpa_controller_"
LABELS = {
    "value": "metric_name",
    "high_watermark": "metric_name",
    "low_watermark": "metric_name",
    "replicas_scaling_proposal": "metric_name",
    "restricted_scaling": "reason",
    "transition_countdown": "transition",
    "forecast_confidence": "metric_name",
    "forecast_coverage": "metric_name",
    "forecast_error": "metric_name",
    "forecast_muted": "metric_name",
    "conditions": "condition",
}
"""The name of a series' own label."""
MISSPELT = {"high_watermark": "high_watermak", "low_watermark": "low_watermak"}
"""Dashboards use both."""


HELP = {
    "value": "Measured value of the metric, milli.",
    "high_watermark": "High watermark of the metric, milli.",
    "low_watermark": "Low watermark of the metric, milli.",
    "high_watermak": "As wpa_controller_high_watermark; dashboards use both names.",
    "low_watermak": "As wpa_controller_low_watermark; dashboards use both names.",
    "replicas_scaling_proposal": "Replicas that the metric asks for.",
    "replicas_scaling_effective": "Replicas that were decided, in a dry run too.",
    "min_replicas": "spec.minReplicas.",
    "max_replicas": "spec.maxReplicas.",
    "restricted_scaling": "1 while this restriction applies.",
    "transition_countdown": "Seconds left in the forbidden window; 0 when it is over.",
    "dry_run": "1 while nothing is written.",
    "scaling_active": "1 when the condition ScalingActive is True.",
    "conditions": "1 when the condition is True.",
    "upscale_replicas_total": "Replicas added by scales that were written.",
    "downscale_replicas_total": "Replicas removed by scales that were written.",
    "lifecycle_control_status": "1 while the monitor of the object blocks it.",
    "forecast_confidence": "How often the upper bound of a forecast is to hold: as is asked for, or as is worth its price.",
    "forecast_coverage": "Part of the forecasts of about a week whose upper bound held.",
    "forecast_error": "Mean error of the forecasts of about a week, milli of the load.",
    "forecast_muted": "1 while the forecast of the metric takes no part.",
    "labels_info": "1; carries the labels of the object that the policy names.",
}
"""What each series says, without the prefix."""


class Sample(NamedTuple):
    """One line of the exposition."""

    name: str
    labels: dict[str, str]
    value: float
    counter: bool = False


def samples(state: State) -> Iterator[Sample]:
    """The series of all objects, in the order of their names."""
    for namespace_name in sorted(state.namespaces):
        namespace = state.namespaces.get(namespace_name)
        if namespace is None:
            continue
        for name in sorted(namespace.objects):
            scaler = namespace.objects.get(name)  # it may go while the others are told
            if scaler is not None and not scaler.deleting:
                # Told whole: events are folded while the series of others are written.
                yield from list(_of_object(state, namespace_name, scaler))


def _of_object(state: State, namespace_name: str, scaler: Autoscaler) -> Iterator[Sample]:
    own = {"wpa_name": scaler.name, "wpa_namespace": namespace_name}
    places = {"resource_namespace": namespace_name, "namespace": namespace_name}
    yield Sample(f"{PREFIX}labels_info", _tags(state, scaler) | own | places, 1.0)
    blocked = find(scaler.kept.conditions, c.SCALING_BLOCKED)
    if blocked is not None:
        monitor = {"monitor_name": scaler.name, "monitor_namespace": namespace_name}
        labels = {**own, "lifecycle_status": "blocked", **monitor}
        yield Sample(f"{PREFIX}lifecycle_control_status", labels, float(blocked.status))
    rules = scaler.rules
    target = "" if rules is None else rules.target_name
    kind = "" if rules is None else rules.target_kind
    base = {**own, **places, "resource_name": target, "resource_kind": kind, "target_name": target}
    values = gauges.of_settings(
        [Setting(k.type, k.status, k.reason, k.message) for k in scaler.kept.conditions]
    )
    values.pop(Series("lifecycle_control_status"), None)
    if rules is not None:
        values |= _of_pass(state, namespace_name, scaler, rules, state.in_force)
        if scaler.forecast is not None:
            values |= gauges.of_forecast(rules, scaler.forecast)
    for series, value in values.items():
        labels = base | ({LABELS[series.name]: series.label} if series.label else {})
        yield Sample(PREFIX + series.name, labels, float(value))
        if series.name in MISSPELT:
            yield Sample(PREFIX + MISSPELT[series.name], labels, float(value))
    yield Sample(f"{PREFIX}upscale_replicas_total", base, float(scaler.added), counter=True)
    yield Sample(f"{PREFIX}downscale_replicas_total", base, float(scaler.removed), counter=True)


def _tags(state: State, scaler: Autoscaler) -> dict[str, str]:
    """The object's labels that the policy names, under names that the exposition allows."""
    exported = state.in_force.labels_as_tags
    return {label_name(label): scaler.labels[label] for label in exported if label in scaler.labels}


def label_name(label: str) -> str:
    """`app.kubernetes.io/name` is `app_kubernetes_io_name`, as scrapers write it too."""
    name = re.sub(r"[^a-zA-Z0-9_]", "_", label)
    return f"_{name}" if name[:1].isdigit() else name


def _of_pass(
    state: State, namespace_name: str, scaler: Autoscaler, rules: Rules, policy: Policy
) -> gauges.Values:
    """What a pass would measure now; nothing while it could not be made."""
    namespace, _ = state.namespace(namespace_name)
    workload = namespace.workloads.get(rules.target_key)
    if workload is None or not is_sampled(namespace, scaler, rules):
        return {}
    scene = scene_of(state, namespace_name, scaler, rules, workload)
    evaluation = evaluate(rules, policy, scene)
    values = gauges.of_pass(rules, policy, evaluation, last_scale_at=last_scale_of(state, scaler))
    values[Series("replicas_scaling_effective")] = scaler.kept.desired
    return values
