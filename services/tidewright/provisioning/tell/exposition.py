"""Prometheus series of a state: those of the reference that dashboards use, and some of our own. Spec 2.12, 3.10.

All are functions of the state, counters too: a restart loses nothing. What needs a clock is not among
them: the host measures `function_duration_seconds` and `last_activity` (`parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.spec import mode_of
from tidewright.provisioning.scaledown.going.cooldown import in_cooldown
from tidewright.provisioning.scaledown.lately import last_of
from tidewright.provisioning.scaledown.unneeded import unremovable
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import Request, State
from tidewright.provisioning.tell import buffers, counts

HELP = {
    "cluster_autoscaler_unschedulable_pods_count": "Pods that fit nowhere and may cause an increase.",
    "cluster_autoscaler_nodes_count": "Nodes, and instances that are no nodes yet, by state.",
    "cluster_autoscaler_node_groups_count": "Node groups.",
    "cluster_autoscaler_cluster_safe_to_autoscale": "1 unless too many nodes are unready.",
    "cluster_autoscaler_node_group_backoff_status": "1 while the group is left alone after a failure, by its code.",
    "cluster_autoscaler_unneeded_nodes_count": "Nodes that nobody needs, and that go when that stays so.",
    "cluster_autoscaler_unremovable_nodes_count": "Nodes that stay, by the first reason that applies.",
    "cluster_autoscaler_scale_down_in_cooldown": "1 while nothing goes, since nodes came, went, or failed to go.",
    "cluster_autoscaler_pending_node_deletions": "Nodes that are being removed.",
    "cluster_autoscaler_scaled_up_nodes_total": "Nodes ordered, once the cloud has accepted the order.",
    "cluster_autoscaler_scaled_down_nodes_total": "Nodes removed, by reason.",
    "cluster_autoscaler_node_removal_latency_seconds": "From the end of a node's unneeded time to its deletion, or to its being needed again, by what kept it last (`node-removal-latency-tracking-enabled`).",
    "cluster_autoscaler_max_node_skip_eval_duration_seconds": "For how long a node that may be unneeded has not been looked at, since passes found enough others: the longest (`max-node-skip-eval-time-tracker-enabled`).",
    "cluster_autoscaler_old_unregistered_nodes_removed_count": "Instances deleted that never became a node.",
    "cluster_autoscaler_failed_scale_ups_total": "Failures that left a group in backoff, by reason.",
    "cluster_autoscaler_evicted_pods_total": "Pods evicted to free nodes, by what came of it.",
    "cluster_autoscaler_errors_total": "Orders and writes that were refused or failed, by type.",
    "cluster_autoscaler_skipped_scale_events_count": "Groups that a limit kept from growing, by its resource.",
    "tidewright_provisioning_attempts_total": "Attempts at requests by class and result.",
    "tidewright_provisioning_provisioned_seconds": "From a request's creation to Provisioned=True.",
    "tidewright_provisioning_nodes_ready_seconds": "From a request's creation to all its nodes being ready.",
    "tidewright_provisioning_requests": "ProvisioningRequests of our classes by state.",
    "tidewright_provisioning_booked": "Room kept for requests: cpu in milli-cores, memory in bytes, others as counts.",
    "tidewright_provisioning_open_increase": "Nodes that were ordered and are not all ready.",
    "tidewright_provisioning_boot_seconds": "From the last order of the group to its last node being ready.",
    **buffers.HELP,
}


_ALWAYS = ("cluster_autoscaler_evicted_pods_total", "cluster_autoscaler_scaled_up_nodes_total")


class Series(NamedTuple):
    """One line."""

    name: str
    labels: Mapping[str, str]
    value: float
    counter: bool = False


def _removals(state: State, settings: Settings) -> Iterator[Series]:
    """Nodes on their way out, and whether none may begin to go now."""
    cooling = in_cooldown(last_of(state), settings, state.now)
    yield Series("cluster_autoscaler_scale_down_in_cooldown", {}, float(settings.scale_down and cooling))
    yield Series("cluster_autoscaler_pending_node_deletions", {}, len(state.removals))
    if settings.track_skipped:
        longest = state.now - min(state.scan.skipped.values(), default=state.now)
        # Who does not look at nodes at all skips none.
        yield Series(
            "cluster_autoscaler_max_node_skip_eval_duration_seconds",
            {},
            longest if settings.scale_down else 0.0,
        )


def series(state: State) -> Iterator[Series]:  # noqa: C901  # a line per series
    """All series, in the order of `HELP`."""
    index = index_of(state)
    view = look(state, index, state.now)
    waiting = sum(not state.pods[key].consumes and not state.pods[key].daemon for key in index.waiting)
    yield Series("cluster_autoscaler_unschedulable_pods_count", {"type": "unschedulable"}, waiting)
    nodes = Counter(ready=view.loose.ready, unready=view.loose.unready, notStarted=view.loose.not_started)
    for group in view.groups.values():
        counts = group.counts
        nodes.update(
            ready=counts.ready,
            unready=counts.unready,
            notStarted=counts.not_started,
            unregistered=counts.unregistered,
            longUnregistered=counts.long_unregistered,
        )
    for name in ("ready", "unready", "notStarted", "longUnregistered", "unregistered"):
        yield Series("cluster_autoscaler_nodes_count", {"state": name}, nodes[name])
    autoprovisioned = sum(group.autoprovisioned for group in state.groups.values())
    groups = {"autoscaled": len(state.groups) - autoprovisioned, "autoprovisioned": autoprovisioned}
    for name, number in groups.items():
        yield Series("cluster_autoscaler_node_groups_count", {"node_group_type": name}, number)
    yield Series("cluster_autoscaler_cluster_safe_to_autoscale", {}, float(view.healthy))
    for name in sorted({*state.groups, *state.backoff}):
        entry = state.backoff.get(name)
        labels = {"node_group": name, "reason": entry.code if entry is not None else ""}
        left_alone = float(backed_off(entry, state.now))
        yield Series("cluster_autoscaler_node_group_backoff_status", labels, left_alone)
    yield Series("cluster_autoscaler_unneeded_nodes_count", {}, len(state.idle) + len(state.unneeded))
    if index.settings.scale_down:
        for reason, number in unremovable(state, index).items():
            yield Series("cluster_autoscaler_unremovable_nodes_count", {"reason": reason}, number)
    yield from _removals(state, index.settings)
    yield from _counters(state)
    standing: Counter[tuple[str, str]] = Counter()
    booked: Counter[str] = Counter()
    for request in state.requests.values():
        if not request.accepted and not _failed_here(request, index.settings.processor_instance):
            continue
        standing[request.class_name, standing_of(request)] += 1
        for digest, count in request.sets if request.booked else ():
            for resource, amount in shape_of(state, index, digest).requests.items():
                booked[resource] += amount * count
    for (class_name, word), number in sorted(standing.items()):
        yield Series("tidewright_provisioning_requests", {"class": class_name, "state": word}, number)
    for resource, amount in sorted(booked.items()):
        yield Series("tidewright_provisioning_booked", {"resource": resource}, amount)
    for series_name, of, value in buffers.series(state) if state.buffers else ():
        yield Series(series_name, of, value)
    for name, opened in sorted(state.open.items()):
        yield Series("tidewright_provisioning_open_increase", {"node_group": name}, opened.increase)
    for name, known in sorted(state.groups.items()):
        if known.boot_s:
            yield Series("tidewright_provisioning_boot_seconds", {"node_group": name}, known.boot_s)


def _counters(state: State) -> Iterator[Series]:
    """Counters, those that nothing was counted of yet at 0, then histograms."""
    for name in _ALWAYS:
        if name not in state.counts:
            yield Series(name, {}, 0.0, counter=True)
    for key in sorted(state.counts):
        name, labels = counts.read(key)
        yield Series(name, labels, state.counts[key], counter=True)
    for name, labels, value in counts.lines(state.histograms):
        yield Series(name, labels, value, counter=True)


def _failed_here(request: Request, instance: str) -> bool:
    """Whether it is one of ours that failed before it could be taken up."""
    ours = mode_of(request.class_name, request.parameters, instance) is not None
    return ours and cond.is_true(request.conditions, cond.FAILED)


def standing_of(request: Request) -> str:
    """`failed`, `expired`, `provisioned` or `waiting`."""
    for kind, word in (
        (cond.FAILED, "failed"),
        (cond.BOOKING_EXPIRED, "expired"),
        (cond.PROVISIONED, "provisioned"),
    ):
        if cond.is_true(request.conditions, kind):
            return word
    return "waiting"
