"""Prometheus series of a state: those of the reference that dashboards use, and some of our own. Spec 2.12, 3.10.

Gauges alone, each a function of the state: a restart loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidewright.provisioning.backoff import backed_off
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.state import Request, State, index_of, shape_of
from tidewright.provisioning.view import look

HELP = {
    "cluster_autoscaler_unschedulable_pods_count": "Pods that fit nowhere and may cause an increase.",
    "cluster_autoscaler_nodes_count": "Nodes of all groups by state.",
    "cluster_autoscaler_node_groups_count": "Node groups.",
    "cluster_autoscaler_cluster_safe_to_autoscale": "1 unless too many nodes are unready.",
    "cluster_autoscaler_node_group_backoff_status": "1 while the group is left alone after a failure.",
    "tidewright_provisioning_requests": "ProvisioningRequests of our classes by state.",
    "tidewright_provisioning_booked": "Room kept for requests: cpu in milli-cores, memory in bytes, others as counts.",
    "tidewright_provisioning_open_increase": "Nodes that were ordered and are not all ready.",
    "tidewright_provisioning_boot_seconds": "From the last order of the group to its last node being ready.",
}


class Series(NamedTuple):
    """One line."""

    name: str
    labels: Mapping[str, str]
    value: float
    counter: bool = False


def series(state: State) -> Iterator[Series]:
    """All series, in the order of `HELP`."""
    index = index_of(state)
    view = look(state, index, state.now)
    waiting = sum(not state.pods[key].consumes and not state.pods[key].daemon for key in index.waiting)
    yield Series("cluster_autoscaler_unschedulable_pods_count", {"type": "unschedulable"}, waiting)
    nodes: Counter[str] = Counter()
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
    made = sum(group.autoprovisioned for group in state.groups.values())
    groups = {"autoscaled": len(state.groups) - made, "autoprovisioned": made}
    for name, number in groups.items():
        yield Series("cluster_autoscaler_node_groups_count", {"node_group_type": name}, number)
    yield Series("cluster_autoscaler_cluster_safe_to_autoscale", {}, float(view.healthy))
    for name, entry in sorted(state.backoff.items()):
        labels = {"node_group": name, "reason": entry.code}
        left_alone = float(backed_off(entry, state.now))
        yield Series("cluster_autoscaler_node_group_backoff_status", labels, left_alone)
    standing: Counter[tuple[str, str]] = Counter()
    booked: Counter[str] = Counter()
    for request in state.requests.values():
        if not request.accepted:
            continue
        standing[request.class_name, standing_of(request)] += 1
        for digest, count in request.sets if request.booked else ():
            for resource, amount in shape_of(state, index, digest).requests.items():
                booked[resource] += amount * count
    for (class_name, word), number in sorted(standing.items()):
        yield Series("tidewright_provisioning_requests", {"class": class_name, "state": word}, number)
    for resource, amount in sorted(booked.items()):
        yield Series("tidewright_provisioning_booked", {"resource": resource}, amount)
    for name, opened in sorted(state.open.items()):
        yield Series("tidewright_provisioning_open_increase", {"node_group": name}, opened.increase)
    for name, known in sorted(state.groups.items()):
        if known.boot_s:
            yield Series("tidewright_provisioning_boot_seconds", {"node_group": name}, known.boot_s)


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
