"""Dashboards as tables of panels, and as the JSON that Grafana loads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: its title, what its axis counts (a unit of Grafana's), and expression and legend of each line."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page. `variables`: a name and the series and label that it is chosen from."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()


_WPA = 'component="autoscaler",wpa_namespace=~"$namespace",wpa_name=~"$autoscaler"'

DASHBOARDS: Final[tuple[Dashboard, ...]] = (
    Dashboard(
        "control-plane", "Tidewright: control plane",
        (
            Panel("Replicas that answer", "none", (('sum by (component) (up{job="tidewright"})', "{{component}}"),)),
            Panel("Replicas that are ready", "none", (("sum by (component) (tidewright_ready)", "{{component}}"),)),
            Panel("Slots held", "none", (("sum by (component) (tidewright_slots_owned)", "{{component}}"),)),
            Panel("Behind the log, events", "none", (("max by (component) (tidewright_fold_lag_events)", "{{component}}"),)),
            Panel("Events folded a second", "ops", (("sum by (component) (rate(tidewright_events_folded_total[5m]))", "{{component}}"),)),
            Panel("Decisions a minute, by type", "none", (("sum by (type) (rate(tidewright_decisions_total[5m])) * 60", "{{type}}"),)),
            Panel("Commits: time, p99", "s", (("histogram_quantile(0.99, sum by (le, component) (rate(tidewright_commit_seconds_bucket[5m])))", "{{component}}"),)),
            Panel("Commits that did not go through, a minute", "none", (('sum by (component, result) (rate(tidewright_commits_total{result!="done"}[5m])) * 60', "{{component}} {{result}}"),)),
            Panel("Outcomes a minute", "none", (("sum by (type, reason) (rate(tidewright_outcomes_total[5m])) * 60", "{{type}} {{reason}}"),)),
            Panel("Decision to outcome, p99", "s", (("histogram_quantile(0.99, sum by (le) (rate(tidewright_actuator_apply_seconds_bucket[5m])))", "p99"),)),
            Panel("Requests to the API server a second", "reqps", (("sum(rate(tidewright_actuator_requests_total[5m]))", "requests"),)),
            Panel("Refused, unbelieved, set aside, halted", "none", (
                ("sum by (service, rule) (increase(tidewright_actuator_not_allowed_total[1h]))", "refused {{service}} {{rule}}"),
                ("sum by (component, cause) (increase(tidewright_unbelieved_messages_total[1h]))", "unbelieved {{component}} {{cause}}"),
                ("sum by (component) (increase(tidewright_messages_set_aside_total[1h]))", "set aside {{component}}"),
                ("max by (component) (tidewright_slots_halted)", "halted {{component}}"),
            )),
            Panel("Another controller is seen", "none", (("max by (service) (tidewright_incumbent_seen)", "{{service}}"),)),
        ),
    ),
    Dashboard(
        "autoscaling", "Tidewright: autoscaling",
        (
            Panel("Value against its marks, milli", "none", (
                (f"wpa_controller_value{{{_WPA}}}", "{{wpa_name}} {{metric_name}}"),
                (f"wpa_controller_high_watermark{{{_WPA}}}", "{{wpa_name}} high"),
                (f"wpa_controller_low_watermark{{{_WPA}}}", "{{wpa_name}} low"),
            )),
            Panel("Replicas: decided, asked for, limits", "none", (
                (f"wpa_controller_replicas_scaling_effective{{{_WPA}}}", "{{wpa_name}} decided"),
                (f"wpa_controller_replicas_scaling_proposal{{{_WPA}}}", "{{wpa_name}} {{metric_name}} asks"),
                (f"wpa_controller_min_replicas{{{_WPA}}}", "{{wpa_name}} min"),
                (f"wpa_controller_max_replicas{{{_WPA}}}", "{{wpa_name}} max"),
            )),
            Panel("Held back, by why", "none", ((f"wpa_controller_restricted_scaling{{{_WPA}}}", "{{wpa_name}} {{reason}}"),)),
            Panel("Seconds left in a forbidden window", "s", ((f"wpa_controller_transition_countdown{{{_WPA}}}", "{{wpa_name}} {{transition}}"),)),
            Panel("Replicas added and removed an hour", "none", (
                ('sum(increase(wpa_controller_upscale_replicas_total{component="autoscaler"}[1h]))', "added"),
                ('sum(increase(wpa_controller_downscale_replicas_total{component="autoscaler"}[1h]))', "removed"),
            )),
            Panel("Not able to scale", "none", (('sum by (wpa_namespace, wpa_name) (wpa_controller_scaling_active{component="autoscaler"} == 0)', "{{wpa_namespace}}/{{wpa_name}}"),)),
            Panel("Pushed samples a second", "ops", (("sum by (result) (rate(tidewright_pushed_samples_total[5m]))", "{{result}}"),)),
            Panel("Dry run", "none", (('sum(wpa_controller_dry_run{component="autoscaler"})', "autoscalers"),)),
        ),
        (("namespace", 'label_values(wpa_controller_value{component="autoscaler"}, wpa_namespace)'), ("autoscaler", 'label_values(wpa_controller_value{component="autoscaler"}, wpa_name)')),
    ),
    Dashboard(
        "nodes", "Tidewright: nodes, requests, buffers",
        (
            Panel("Nodes by state", "none", (('max by (state) (cluster_autoscaler_nodes_count{component="provisioning"})', "{{state}}"),)),
            Panel("Pods that wait", "none", (('max(cluster_autoscaler_unschedulable_pods_count{component="provisioning"})', "pods"),)),
            Panel("Nodes ordered an hour", "none", (('sum(increase(cluster_autoscaler_scaled_up_nodes_total{component="provisioning"}[1h]))', "ordered"),)),
            Panel("Nodes that nobody needs, and that are going", "none", (
                ('max(cluster_autoscaler_unneeded_nodes_count{component="provisioning"})', "unneeded"),
                ('max(cluster_autoscaler_pending_node_deletions{component="provisioning"})', "going"),
            )),
            Panel("Nodes that stay, by why", "none", (('max by (reason) (cluster_autoscaler_unremovable_nodes_count{component="provisioning"})', "{{reason}}"),)),
            Panel("Groups that rest", "none", (('max by (node_group, reason) (cluster_autoscaler_node_group_backoff_status{component="provisioning"})', "{{node_group}} {{reason}}"),)),
            Panel("Requests by state", "none", (("max by (class, state) (tidewright_provisioning_requests)", "{{state}} {{class}}"),)),
            Panel("Room that is kept", "none", (("max by (resource) (tidewright_provisioning_booked)", "{{resource}}"),)),
            Panel("Buffers: chunks", "none", (("max by (namespace, buffer, state) (tidewright_provisioning_buffer_chunks)", "{{namespace}}/{{buffer}} {{state}}"),)),
            Panel("Evictions an hour", "none", (('sum(increase(cluster_autoscaler_evicted_pods_total{component="provisioning"}[1h]))', "evicted"),)),
            Panel("Parts of the work, p99", "s", (('histogram_quantile(0.99, sum by (le, function) (rate(cluster_autoscaler_function_duration_seconds_bucket{component="provisioning"}[5m])))', "{{function}}"),)),
            Panel("Safe to act", "none", (('min(cluster_autoscaler_cluster_safe_to_autoscale{component="provisioning"})', "safe"),)),
        ),
    ),
    Dashboard(
        "spread", "Tidewright: spread",
        (
            Panel("Admission a second", "reqps", (("sum by (path) (rate(tidewright_admission_requests_total[5m]))", "{{path}}"),)),
            Panel("Admission: time", "s", (
                ("histogram_quantile(0.5, sum by (le) (rate(tidewright_admission_seconds_bucket[5m])))", "p50"),
                ("histogram_quantile(0.99, sum by (le) (rate(tidewright_admission_seconds_bucket[5m])))", "p99"),
            )),
            Panel("Callers that were refused a minute", "none", (("sum by (component) (rate(tidewright_callers_refused_total[5m])) * 60", "{{component}}"),)),
            Panel("Decisions a minute", "none", (('sum by (type) (rate(tidewright_decisions_total{component="spread"}[5m])) * 60', "{{type}}"),)),
        ),
    ),
    Dashboard(
        "shards", "Tidewright: shards",
        (
            Panel("Decisions a minute", "none", (('sum by (type) (rate(tidewright_decisions_total{component="shard-manager"}[5m])) * 60', "{{type}}"),)),
            Panel("Labels that were asked for a minute", "none", (("sum(rate(tidewright_shard_labels_requests_total[5m])) * 60", "requests"),)),
            Panel("Slots of the manager itself", "none", (('sum by (component) (tidewright_slots_owned{component="shard-manager"})', "{{component}}"),)),
            Panel("Behind the log, events", "none", (('max by (component) (tidewright_fold_lag_events{component=~"shard-manager|shard-labels"})', "{{component}}"),)),
        ),
    ),
)  # fmt: skip


def files() -> dict[str, str]:
    """All of them as files: name to text."""
    return {
        f"dashboards/{dashboard.name}.json": json.dumps(grafana(dashboard), indent=1) + "\n"
        for dashboard in DASHBOARDS
    }


def grafana(dashboard: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana imports it; the data source is chosen there."""
    source = {"type": "prometheus", "uid": "${source}"}
    chosen: list[dict[str, Any]] = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"}
    ]
    chosen += [
        {
            "name": name, "type": "query", "datasource": source, "query": query, "refresh": 2,
            "includeAll": True, "multi": True, "current": {"text": "All", "value": "$__all"},
        }
        for name, query in dashboard.variables
    ]  # fmt: skip
    return {
        "uid": f"tidewright-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["tidewright"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": chosen},
        "panels": [_panel(n, panel, source) for n, panel in enumerate(dashboard.panels)],
    }


def _panel(n: int, panel: Panel, source: dict[str, str]) -> dict[str, Any]:
    place = {"x": n % _COLUMNS * _WIDTH, "y": n // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    return {
        "id": n + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": source, "expr": expression, "legendFormat": legend}
            for i, (expression, legend) in enumerate(panel.lines)
        ],
    }
