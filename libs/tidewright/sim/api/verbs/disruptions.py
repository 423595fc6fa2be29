"""What the store holds at the moment of a disruption, for the request log: whether it was one that may be."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from tidewright.kube.selectors import LabelSelector

if TYPE_CHECKING:
    from tidewright.sim.api.api import Api

Object = dict[str, Any]


def evicted(api: Api, pod: Object) -> Object:
    """Of a pod that is asked to go: where it is, how it is, and its budgets with the pods that serve."""
    meta = pod["metadata"]
    labels = meta.get("labels")
    budgets = []
    for record in api.store.table("policy/poddisruptionbudgets").scan(meta["namespace"]):
        budget = record.decode()
        selector = LabelSelector.of((budget.get("spec") or {}).get("selector"))
        if not selector.matches(labels):
            continue
        healthy = sum(
            _serves(other)
            for other in (found.decode() for found in api.store.table("/pods").scan(meta["namespace"]))
            if selector.matches(other["metadata"].get("labels"))
        )
        desired = (budget.get("status") or {}).get("desiredHealthy", 0)
        budgets.append({"name": record.name, "healthy": healthy, "desired": desired})
    return {
        "node": (pod.get("spec") or {}).get("nodeName", ""),
        "serves": _serves(pod),
        "ending": "deletionTimestamp" in meta,
        "budgets": budgets,
    }


def on_nodes(api: Api, nodes: Collection[str]) -> list[Object]:
    """The pods that are bound to some nodes, as far as it matters to whom they would be lost."""
    found = []
    for record in api.store.table("/pods").scan():
        pod = record.decode()
        meta, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName", "")
        if node not in nodes:
            continue
        owner = next((o["kind"] for o in meta.get("ownerReferences") or () if o.get("controller")), "")
        found.append(
            {
                "pod": f"{meta['namespace']}/{meta['name']}",
                "node": node,
                "phase": (pod.get("status") or {}).get("phase", ""),
                "ending": "deletionTimestamp" in meta,
                "owner": owner,
            }
        )
    return found


def _serves(pod: Object) -> bool:
    """Whether a pod counts for its budgets: ready, and not asked to end."""
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )
    return ready and "deletionTimestamp" not in pod["metadata"]
