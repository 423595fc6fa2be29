"""Node objects and leases of simulated nodes: manifests and patches, as values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidewright.kube import quantities
from tidewright.kube.conditions import entry
from tidewright.kube.times import rfc3339, rfc3339_micro
from tidewright.sim.kubelets.pods import host_ip
from tidewright.sim.options import NODE_LABEL, NodePool

LEASE_NAMESPACE: Final = "kube-node-lease"
KUBELET_VERSION: Final = "v1.37.0-sim"

_CONDITIONS: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def conditions(now: float, *, ready: bool) -> list[dict[str, str]]:
    """A kubelet's node conditions at log time `now`."""
    at = rfc3339(now)
    reported = [
        entry(type_, False, at, reason=reason, message=message) for type_, reason, message in _CONDITIONS
    ]
    reason = "KubeletReady" if ready else "KubeletNotReady"
    message = "kubelet is posting ready status" if ready else "container runtime network not ready"
    reported.append(entry("Ready", ready, at, reason=reason, message=message))
    return [{**condition, "lastHeartbeatTime": at} for condition in reported]


def node_manifest(
    name: str,
    *,
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    provider_id: str = "",
    ready: bool = True,
    now: float,
) -> dict[str, Any]:
    """A Node of ours with its status, as a kubelet registers it at log time `now`."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
                NODE_LABEL: "true",
            },
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {
            "providerID": provider_id or f"sim://{name}",
            **({"taints": [dict(taint) for taint in taints]} if taints else {}),
        },
        "status": node_status(name, capacity, allocatable or capacity, ready=ready, now=now),
    }


def node_status(
    name: str, capacity: Mapping[str, str], allocatable: Mapping[str, str], *, ready: bool, now: float
) -> dict[str, Any]:
    """What a kubelet reports about its node."""
    return {
        "capacity": dict(capacity),
        "allocatable": dict(allocatable),
        "conditions": conditions(now, ready=ready),
        "addresses": [
            {"type": "InternalIP", "address": host_ip(name)},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "sim://1",
            "kernelVersion": "sim",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "tidewright sim",
            "systemUUID": "",
        },
    }


def pool_nodes(pool: NodePool, now: float) -> Iterator[dict[str, Any]]:
    """The Node manifests of a pool."""
    allocatable = less(pool.capacity, pool.reserved)
    for index in range(pool.count):
        zone = pool.zones[index % len(pool.zones)] if pool.zones else ""
        zoned = {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "sim"} if zone else {}
        yield node_manifest(
            f"{pool.prefix}-{index:04d}",
            capacity=pool.capacity,
            allocatable=allocatable,
            labels={**zoned, **pool.labels},
            taints=pool.taints,
            now=now,
        )


def less(capacity: Mapping[str, str], reserved: Mapping[str, str]) -> dict[str, str]:
    """Capacity without what is reserved, never below 0.

    Raises:
        tidewright.kube.quantities.NotAQuantity: a value is none.
    """
    remaining = dict(capacity)
    for name, amount in reserved.items():
        whole = quantities.parse(capacity.get(name, "0"))
        rest = max(whole.nanos - quantities.parse(amount).nanos, 0)
        remaining[name] = str(quantities.Quantity(rest, whole.notation))
    return remaining


def lease_manifest(node: str, node_uid: str, duration_s: int, now: float) -> dict[str, Any]:
    """The lease by which a node lifecycle controller knows that the kubelet lives."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "namespace": LEASE_NAMESPACE,
            "labels": {NODE_LABEL: "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": duration_s,
            "renewTime": rfc3339_micro(now),
        },
    }


def lease_interval_s(nodes: int, wanted_s: float, renewals_per_s: float) -> float:
    """Wall seconds between two renewals of one lease: as wanted, or longer within the rate."""
    return max(wanted_s, nodes / renewals_per_s)
