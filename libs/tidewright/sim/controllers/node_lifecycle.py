"""Node lifecycle: nodes that went silent, the taints that say so, and the pods they take along.

Reads   nodes, their leases, pods
Writes  the nodes' conditions and taints, the readiness of pods on lost nodes, deletions of pods

A node counts as silent when its lease was not renewed for the grace period (or the lease's own
duration, when many nodes make renewals rare), as this process saw it: the stamps are of another clock. A node without a lease is left alone: nobody promised
heartbeats for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidewright.kube.conditions import entry
from tidewright.kube.taints import tolerates
from tidewright.kube.times import rfc3339
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import LEASE, NODE, POD, Key, Lease, Node, Pod, Taint
from tidewright.sim.controllers.plan import Plan
from tidewright.sim.controllers.writes import STRATEGIC_PATCH, delete, patch
from tidewright.sim.options import ControllerOptions

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NODE_NOT_READY: Final = "NodeNotReady"
"""Reason of a pod's Ready condition while its node is silent."""
CORDONED: Final = "node.kubernetes.io/unschedulable"
ORPHAN_GRACE_S: Final = 40.0
"""Log seconds after which pods are deleted that are bound to a node that never was."""
LEASES: Final = "kube-node-lease"
_OURS: Final = frozenset({NOT_READY, UNREACHABLE, CORDONED})
_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def wanted_taints(node: Node, ready: str, now: float) -> list[Taint]:
    """The node's taints as its readiness (`True`, `False`, `Unknown`) and its cordon ask for.

    A node that never said anything about its readiness gets none.
    """
    desired: list[tuple[str, str]] = []
    if ready == "False":
        desired = [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready == "Unknown":
        desired = [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    if node.spec.unschedulable:
        desired.append((CORDONED, "NoSchedule"))
    known = {(taint.key, taint.effect): taint for taint in node.spec.taints}
    kept = [taint for taint in node.spec.taints if taint.key not in _OURS]
    return kept + [
        known.get((key, effect)) or Taint(key=key, effect=effect, time_added=rfc3339(now))
        for key, effect in desired
    ]


def eviction_s(pod: Pod, taints: Sequence[Taint]) -> float | None:
    """After how many log seconds NoExecute taints delete a pod: 0 at once, None never."""
    spans: list[float] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        covering = [toleration for toleration in pod.spec.tolerations if tolerates(toleration, taint)]
        if not covering:
            return 0.0
        limited = [
            float(toleration.toleration_seconds)
            for toleration in covering
            if toleration.toleration_seconds is not None
        ]
        if limited:
            spans.append(max(0.0, min(limited)))
    return min(spans) if spans else None


class NodeLifecycle:
    """The controller."""

    kind = NODE
    name = "node-lifecycle"

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options
        self._renewals: dict[str, tuple[str, float]] = {}
        # nodes that were there (None), and names that pods are bound to without one, since when
        self._missing: dict[str, float | None] = {}
        self._tainted: dict[tuple[str, str], float] = {}

    def watches(self, cache: Cache) -> list[Any]:
        return [cache.of(NODE), cache.of(LEASE), cache.pods]

    def keys(self, item: Any) -> Iterable[Key]:
        if isinstance(item, Node):
            yield item.key
        elif isinstance(item, Lease) and item.metadata.namespace == LEASES:
            yield ("", item.metadata.name)
        elif isinstance(item, Pod) and item.spec.node_name:
            yield ("", item.spec.node_name)

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        plan = Plan()
        name = key[1]
        node = cache.of(NODE).get(key)
        pods = cache.pods.on_node(name)
        if node is None:
            self._clear(name, pods, now, plan)
            return plan
        self._missing[name] = None
        ready = node.ready
        silent = self._silent(cache, name, now, plan)
        if silent and ready != "Unknown":
            self._lose(node, now, plan)
            ready = "Unknown"
        taints = wanted_taints(node, ready, now)
        if taints != node.spec.taints:
            self._taint(node, taints, plan)
        if ready in ("False", "Unknown"):
            for pod in pods:
                if pod.ready and pod.metadata.deletion_timestamp is None:
                    plan.writes.append(_not_ready(pod, now))
        self._evict(node, taints, pods, now, plan)
        return plan

    def _clear(self, name: str, pods: Sequence[Pod], now: float, plan: Plan) -> None:
        """Take the pods of a node that is gone along; one that never was may still be on its way."""
        self._renewals.pop(name, None)
        if not pods:
            self._missing.pop(name, None)
            return
        since = self._missing.setdefault(name, now)
        due = now if since is None else since + ORPHAN_GRACE_S
        if now < due:
            plan.look_again(due - now)
        else:
            plan.writes.extend(delete(POD, pod.key, pod.metadata.uid, grace_s=0) for pod in pods)

    def _silent(self, cache: Cache, name: str, now: float, plan: Plan) -> bool:
        lease = cache.of(LEASE).get((LEASES, name))
        if lease is None:
            return False
        renewed = lease.spec.renew_time or ""
        known = self._renewals.get(name)
        if known is None or known[0] != renewed:
            known = self._renewals[name] = (renewed, now)
        due = known[1] + max(self._options.node_grace_s, lease.spec.lease_duration_seconds)
        if now >= due:
            return True
        plan.look_again(due - now)
        return False

    def _lose(self, node: Node, now: float, plan: Plan) -> None:
        message = "Kubelet stopped posting node status."
        conditions = [
            entry(type_, "Unknown", now, reason="NodeStatusUnknown", message=message) for type_ in _CONDITIONS
        ]
        change = {"status": {"conditions": conditions}}
        plan.writes.append(patch(NODE, node.key, change, subresource="status", content_type=STRATEGIC_PATCH))

    def _taint(self, node: Node, taints: list[Taint], plan: Plan) -> None:
        change = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": msgspec.to_builtins(taints) or None},
        }
        plan.after.append(patch(NODE, node.key, change))

    def _evict(self, node: Node, taints: list[Taint], pods: Sequence[Pod], now: float, plan: Plan) -> None:
        if not any(taint.effect == "NoExecute" for taint in taints):
            for pod in pods:
                self._tainted.pop((node.metadata.name, pod.metadata.uid), None)
            return
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                continue
            mark = (node.metadata.name, pod.metadata.uid)
            span_s = eviction_s(pod, taints)
            if span_s is None:
                continue
            left_s = self._tainted.setdefault(mark, now) + span_s - now
            if left_s > 0:
                plan.look_again(left_s)
            else:
                self._tainted.pop(mark, None)
                plan.writes.append(delete(POD, pod.key, pod.metadata.uid))


def _not_ready(pod: Pod, now: float) -> Any:
    condition = entry("Ready", False, now, reason=NODE_NOT_READY, message="Node is not ready")
    condition["lastProbeTime"] = None
    change = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
    return patch(
        POD, pod.key, change, subresource="status", content_type=STRATEGIC_PATCH, tolerate=(404, 409)
    )
