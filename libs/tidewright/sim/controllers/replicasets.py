"""ReplicaSet: as many pods as `spec.replicas`, and who goes first when there are too many.

Reads   ReplicaSets, their pods, the pods of sibling ReplicaSets (for the scale-in order)
Writes  pods, the ReplicaSet's status
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from typing import Any, Final

import msgspec

from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import (
    POD,
    REPLICA_SET,
    Key,
    Metadata,
    Pod,
    ReplicaSet,
    owner_of,
)
from tidewright.sim.controllers.plan import Plan, next_availability
from tidewright.sim.controllers.writes import create, delete, patch

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
BURST: Final = 500
"""Pods created or deleted in one look, as the real controller's burst."""

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def victims(pods: Sequence[Pod], count: int, related: Iterable[Pod], now: float) -> list[Pod]:
    """The `count` pods that scale-in deletes, in the real controller's order.

    In turn: not yet bound; Pending before Unknown before Running; not ready; lower deletion cost;
    more related pods on the same node; ready for a shorter time (compared by the binary logarithm
    of the span in nanoseconds, equal ones by uid); more restarts; younger (likewise by logarithm).

    Args:
        pods: the active pods of the ReplicaSet.
        count: how many to choose, <= len(pods).
        related: active pods of all ReplicaSets with the same owner, these included.
        now: log time, seconds since the epoch.
    """
    if count >= len(pods):
        return list(pods)
    crowd = Counter(pod.spec.node_name for pod in related if pod.active)

    def compare(pod: Pod, other: Pod) -> int:
        return _compare(pod, other, crowd, now)

    return sorted(pods, key=cmp_to_key(compare))[:count]


def deletion_cost(pod: Pod) -> int:
    """The pod's cost; text that is no 32-bit integer counts as 0, as in the real controller."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    digits = text.removeprefix("-")
    plain = digits == "0" if digits.startswith("0") or not digits else digits.isascii() and digits.isdigit()
    value = int(text) if plain and text != "-0" else 0
    return value if -(2**31) <= value < 2**31 else 0


def _compare(pod: Pod, other: Pod, crowd: Counter[str], now: float) -> int:
    first = (
        bool(pod.spec.node_name) - bool(other.spec.node_name)
        or _PHASES.get(pod.status.phase, 0) - _PHASES.get(other.status.phase, 0)
        or pod.ready - other.ready
        or deletion_cost(pod) - deletion_cost(other)
        or crowd[other.spec.node_name] - crowd[pod.spec.node_name]
    )
    if first:
        return first
    if pod.ready and other.ready and pod.ready_since != other.ready_since:
        return _by_age(pod, other, pod.ready_since, other.ready_since, now)
    if pod.restarts != other.restarts:
        return other.restarts - pod.restarts
    if pod.metadata.created != other.metadata.created:
        return _by_age(pod, other, pod.metadata.created, other.metadata.created, now)
    return 0


def _by_age(pod: Pod, other: Pod, since: float, other_since: float, now: float) -> int:
    if not since or not other_since:
        return -1 if not since else 1
    difference = _log_age(since, now) - _log_age(other_since, now)
    if difference:
        return difference
    return -1 if pod.metadata.uid < other.metadata.uid else 1


def _log_age(since: float, now: float) -> int:
    nanos = (now - since) * 1e9
    return int(math.log2(nanos)) if nanos >= 1 else -1


def pod_manifest(template: dict[str, Any], owner: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A pod made from a template: its labels, annotations and spec, with an owner.

    `metadata` overrides what the template says (`name`, `generateName`); labels are merged.
    """
    given = template.get("metadata") or {}
    merged = {
        "labels": {**(given.get("labels") or {}), **metadata.pop("labels", {})},
        "annotations": {**(given.get("annotations") or {}), **metadata.pop("annotations", {})},
        "finalizers": given.get("finalizers") or [],
        "ownerReferences": [owner],
        **metadata,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: value for name, value in merged.items() if value},
        "spec": template.get("spec") or {},
    }


def _name_prefix(name: str) -> str:
    """`generateName` leaves room for five characters within the 63 of a host name."""
    return f"{name}-"[:248]


class ReplicaSets:
    """The controller."""

    kind = REPLICA_SET
    name = "replicaset"

    def watches(self, cache: Cache) -> list[Any]:
        return [cache.of(REPLICA_SET), cache.pods]

    def keys(self, item: Any) -> Iterable[Key]:
        """Which ReplicaSets a changed object concerns."""
        if isinstance(item, ReplicaSet):
            yield item.key
        elif isinstance(item, Pod):
            owner = item.metadata.controller
            if owner is not None and owner.kind == "ReplicaSet":
                yield (item.metadata.namespace, owner.name)

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        """What brings one ReplicaSet closer to its spec."""
        replica_set = cache.of(REPLICA_SET).get(key)
        plan = Plan()
        if replica_set is None:
            return plan
        pods = cache.pods.owned(replica_set.metadata.uid)
        active = [pod for pod in pods if pod.active]
        if replica_set.metadata.deletion_timestamp is None:
            self._fill(cache, replica_set, active, now, plan)
        self._report(replica_set, active, now, plan)
        return plan

    def _fill(self, cache: Cache, replica_set: ReplicaSet, active: list[Pod], now: float, plan: Plan) -> None:
        missing = replica_set.spec.replicas - len(active)
        if missing > 0:
            metadata = replica_set.metadata
            manifest = pod_manifest(
                replica_set.spec.template,
                owner_of(REPLICA_SET, metadata),
                generateName=_name_prefix(metadata.name),
                namespace=metadata.namespace,
            )
            body = msgspec.json.encode(manifest)
            plan.writes.extend(create(POD, metadata.namespace, body) for _ in range(min(missing, BURST)))
            plan.again_s = 0.0 if missing > BURST else None
        elif missing < 0:
            related = _related(cache, replica_set.metadata)
            chosen = victims(active, min(-missing, BURST), related, now)
            plan.writes.extend(delete(POD, pod.key, pod.metadata.uid) for pod in chosen)
            plan.again_s = 0.0 if -missing > BURST else None

    def _report(self, replica_set: ReplicaSet, active: list[Pod], now: float, plan: Plan) -> None:
        spec, status = replica_set.spec, replica_set.status
        labels = (spec.template.get("metadata") or {}).get("labels") or {}
        current = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(
                all(pod.metadata.labels.get(name) == value for name, value in labels.items())
                for pod in active
            ),
            "readyReplicas": sum(pod.ready for pod in active),
            "availableReplicas": sum(pod.available(spec.min_ready_seconds, now) for pod in active),
            "observedGeneration": replica_set.metadata.generation,
        }
        recorded = {
            "replicas": status.replicas,
            "fullyLabeledReplicas": status.fully_labeled_replicas,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "observedGeneration": status.observed_generation,
        }
        if current != recorded:
            plan.after.append(patch(REPLICA_SET, replica_set.key, {"status": current}, subresource="status"))
        plan.look_again(next_availability(active, spec.min_ready_seconds, now))


def _related(cache: Cache, metadata: Metadata) -> list[Pod]:
    """Pods of all ReplicaSets that share the controller; of this one alone without a controller."""
    owner = metadata.controller
    if owner is None:
        return cache.pods.owned(metadata.uid)
    siblings = cache.of(REPLICA_SET).owned(owner.uid)
    return [pod for sibling in siblings for pod in cache.pods.owned(sibling.metadata.uid)]
