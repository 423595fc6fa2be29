"""Loads that come and go, on nodes of their own: what makes nodes unneeded while there are pods on them.

Fillers take a node each, and their number is drawn anew all the while. Beside them are pods of a fixed number, under
budgets that let one of them go at a time: where fillers have gone, these are what a node must be drained of. At the
end there are no fillers, and all others fit on one node, of which they take too much for it to go.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from tidewright.kube.taints import DELETION_CANDIDATE, DRAIN, TO_BE_DELETED, UNNEEDED
from tidewright.sim.kubelets.pods import READY_SECONDS

Change = tuple[str, dict[str, Any]]
"""Path of an object, and a merge patch of it."""

NAMESPACE = "moving"
GROUP = "moving"
"""The node group, whose nodes take nobody else."""
FILLER = "filler"
APPS, REPLICAS = 3, 4
KEPT = APPS * REPLICAS
"""Pods under budgets: with half a core each, three quarters of a node of eight cores."""
READY_S = 30
"""Log seconds from a pod's start until it is ready. One that has left a node has its budget closed as long, so that the pods of a
node leave one after the other, and a drain takes long enough for a kill to meet it."""
MOST_FILLERS = 4
LAST_NODES = 1
SETTINGS = {
    "foresight": "decisions",
    "scale-down-unneeded-time": "60s",
    "scale-down-delay-after-add": "30s",
    "scale-down-delay-after-failure": "30s",
    "unremovable-node-recheck-timeout": "30s",
    "node-delete-delay-after-taint": "5s",
    # Of log time, which runs thirty times as fast as a machine whose other work makes everybody slow.
    "max-node-provision-time": "2h",
}
_FILLERS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{FILLER}"


def config() -> dict[str, str]:
    """What the services' ConfigMap says of provisioning, in log time."""
    return {"provisioning": msgspec.json.encode(SETTINGS).decode()}


def group(
    name: str = GROUP, *, most: int = MOST_FILLERS + 3, boot: str = "uniform:5:15", machine_type: str = "m8"
) -> dict[str, Any]:
    """A node group, as the cloud's file has it, whose nodes only those take who ask for it (`only_in`)."""
    return {
        "id": name, "max": most, "boot": boot, "machine_type": machine_type,
        "template": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "labels": {"group": name},
            "taints": [{"key": "group", "value": name, "effect": "NoSchedule"}],
        },
    }  # fmt: skip


def only_in(name: str) -> dict[str, Any]:
    """What the spec of a pod says that goes to the nodes of a group."""
    return {"nodeSelector": {"group": name}, "tolerations": [{"key": "group", "operator": "Exists"}]}


def manifests(image: str) -> list[tuple[str, dict[str, Any]]]:
    """Path of the collection and object, in the order in which they are made."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    made: list[tuple[str, dict[str, Any]]] = [("/api/v1/namespaces", namespace)]
    deployments = _FILLERS.rpartition("/")[0]
    for n in range(APPS):
        name = f"kept-{n}"
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": REPLICAS - 1, "selector": {"matchLabels": {"app": name}}},
        }
        made.append((f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets", budget))
        kept = _deployment(name, REPLICAS, "500m", image)
        kept["spec"]["template"]["metadata"]["annotations"] = {READY_SECONDS: str(READY_S)}
        made.append((deployments, kept))
    made.append((deployments, _deployment(FILLER, MOST_FILLERS, "4500m", image)))
    return made


def change(draw: random.Random) -> Change:
    """Another number of fillers: few more often than many, so that nodes go."""
    return _FILLERS, {"spec": {"replicas": max(0, draw.randint(-2, MOST_FILLERS))}}


def last() -> Change:
    """What everything ends with."""
    return _FILLERS, {"spec": {"replicas": 0}}


def is_ours(node: dict[str, Any]) -> bool:
    """Whether it is a node of the group."""
    return bool(node["metadata"].get("labels", {}).get("group") == GROUP)


def drained_for(node: dict[str, Any]) -> str:
    """The decision on whose behalf a node carries our mark; empty without one."""
    mark: str = (node["metadata"].get("annotations") or {}).get(DRAIN, "")
    return mark.partition(" ")[0]


def is_marked(node: dict[str, Any]) -> bool:
    """Whether a node has anything on it that a removal leaves: taints, annotations, the cordon."""
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    annotations = node["metadata"].get("annotations") or {}
    return bool(
        taints & {TO_BE_DELETED, DELETION_CANDIDATE}
        or {DRAIN, UNNEEDED} & annotations.keys()
        or node["spec"].get("unschedulable")
    )


def _deployment(name: str, replicas: int, cpu: str, image: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "app", "image": image, "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}}}
    spec = {
        **only_in(GROUP),
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
