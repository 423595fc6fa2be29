"""DaemonSet: one pod on each node that fits, rolled a few at a time.

Reads   DaemonSets, nodes, their pods and ControllerRevisions
Writes  pods (the scheduler binds them: node affinity names the node), revisions, the status
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    NODE,
    POD,
    DaemonSet,
    JsonObject,
    Key,
    Node,
    Pod,
    PodSpec,
    RollingUpdateDaemonSet,
    Toleration,
    owner_of,
    share,
)
from tidewright.sim.controllers.plan import Plan, next_availability
from tidewright.sim.controllers.replicasets import pod_manifest
from tidewright.sim.controllers.revisions import revision_of, surplus
from tidewright.sim.controllers.writes import Write, create, delete, patch
from tidewright.sim.scheduler.matching import HARD, first_untolerated, matches_affinity

HASH_LABEL: Final = "controller-revision-hash"
HISTORY_LIMIT: Final = 10

TOLERATIONS: Final[tuple[dict[str, str], ...]] = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""What every daemon pod tolerates."""

_ADDED = tuple(
    Toleration(key=toleration["key"], operator="Exists", effect=toleration["effect"])
    for toleration in TOLERATIONS
)


def runs_on(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Whether a daemon pod should be started on a node, and whether one that runs there may stay."""
    if spec.node_name not in ("", node.metadata.name):
        return False, False
    if not matches_affinity(spec, node.metadata.labels, node.metadata.name):
        return False, False
    tolerations = [*spec.tolerations, *_ADDED]
    start = first_untolerated(node.spec.taints, tolerations, HARD) is None
    stay = first_untolerated(node.spec.taints, tolerations, frozenset({"NoExecute"})) is None
    return start, stay


def node_of(pod: Pod) -> str:
    """The node a daemon pod runs on or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = ((pod.spec.affinity or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


class DaemonSets:
    """The controller."""

    kind = DAEMON_SET
    name = "daemonset"

    def __init__(self) -> None:
        self._known: dict[Key, None] = {}

    def watches(self, cache: Cache) -> list[Any]:
        return [cache.of(DAEMON_SET), cache.of(NODE), cache.pods, cache.of(CONTROLLER_REVISION)]

    def keys(self, item: Any) -> Iterable[Key]:
        if isinstance(item, DaemonSet):
            self._known[item.key] = None
            yield item.key
        elif isinstance(item, Node):
            yield from self._known
        else:
            owner = item.metadata.controller
            if owner is not None and owner.kind == "DaemonSet":
                yield (item.metadata.namespace, owner.name)

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        plan = Plan()
        daemon = cache.of(DAEMON_SET).get(key)
        if daemon is None:
            self._known.pop(key, None)
            return plan
        if daemon.metadata.deletion_timestamp is not None:
            return plan
        revisions = cache.of(CONTROLLER_REVISION).owned(daemon.metadata.uid)
        update, write = revision_of(DAEMON_SET, daemon.metadata, daemon.spec.template, revisions)
        if write is not None:
            plan.writes.append(write)
            plan.look_again(0.0)
            return plan
        spec = msgspec.convert(daemon.spec.template.get("spec") or {}, PodSpec)
        by_node: dict[str, list[Pod]] = {}
        for pod in cache.pods.owned(daemon.metadata.uid):
            by_node.setdefault(node_of(pod), []).append(pod)
        fit: dict[str, tuple[bool, bool]] = {
            node.metadata.name: runs_on(spec, node) for node in cache.of(NODE).objects.values()
        }
        digest = update.removeprefix(f"{daemon.metadata.name}-")
        plan.writes.extend(_manage(daemon, by_node, fit, digest))
        if not plan.writes:
            plan.writes.extend(_roll(daemon, by_node, fit, digest, now))
        if not plan.writes:
            used = {update} | {
                f"{daemon.metadata.name}-{pod.metadata.labels.get(HASH_LABEL, '')}"
                for pods in by_node.values()
                for pod in pods
            }
            plan.writes.extend(surplus(revisions, used, HISTORY_LIMIT))
        _report(daemon, by_node, fit, digest=digest, now=now, plan=plan)
        return plan


def _manage(
    daemon: DaemonSet, by_node: dict[str, list[Pod]], fit: dict[str, tuple[bool, bool]], digest: str
) -> list[Write]:
    writes: list[Write] = []
    for node, (start, stay) in sorted(fit.items()):
        pods = by_node.get(node, [])
        active = sorted((pod for pod in pods if pod.active), key=_age)
        leaving = any(pod.metadata.deletion_timestamp is not None for pod in pods)
        failed = [pod for pod in pods if pod.finished and pod.metadata.deletion_timestamp is None]
        writes.extend(delete(POD, pod.key, pod.metadata.uid) for pod in failed)
        if start and not active and not leaving and not failed:
            writes.append(_create(daemon, node, digest))
        if active and not stay:
            writes.extend(delete(POD, pod.key, pod.metadata.uid) for pod in active)
        elif len(active) > 1:
            writes.extend(delete(POD, pod.key, pod.metadata.uid) for pod in active[1:])
    for node, pods in sorted(by_node.items()):
        if node not in fit:
            writes.extend(delete(POD, pod.key, pod.metadata.uid) for pod in pods if pod.active)
    return writes


def _age(pod: Pod) -> tuple[bool, float, str]:
    return (not pod.spec.node_name, pod.metadata.created, pod.metadata.name)


def _roll(
    daemon: DaemonSet,
    by_node: dict[str, list[Pod]],
    fit: dict[str, tuple[bool, bool]],
    digest: str,
    now: float,
) -> list[Write]:
    """Delete old pods as far as unavailability allows; surge is taken as unavailability here."""
    if daemon.spec.update_strategy.type == "OnDelete":
        return []
    rolling = daemon.spec.update_strategy.rolling_update or RollingUpdateDaemonSet()
    eligible = [node for node, (start, _) in sorted(fit.items()) if start]
    limit = share(rolling.max_unavailable, len(eligible), up=True)
    limit = max(1, limit or share(rolling.max_surge, len(eligible), up=True))
    down = 0
    broken: list[Pod] = []
    candidates: list[Pod] = []
    for node in eligible:
        active = [pod for pod in by_node.get(node, []) if pod.active]
        available = any(pod.available(daemon.spec.min_ready_seconds, now) for pod in active)
        down += not available
        old = [pod for pod in active if pod.metadata.labels.get(HASH_LABEL) != digest]
        (candidates if available else broken).extend(old)
    # Old pods that are down already cost nothing.
    chosen = [*broken, *candidates[: max(0, limit - down)]]
    return [delete(POD, pod.key, pod.metadata.uid) for pod in chosen]


def _create(daemon: DaemonSet, node: str, digest: str) -> Write:
    manifest = pod_manifest(
        daemon.spec.template,
        owner_of(DAEMON_SET, daemon.metadata),
        generateName=f"{daemon.metadata.name}-",
        namespace=daemon.metadata.namespace,
        labels={HASH_LABEL: digest, "pod-template-generation": str(daemon.metadata.generation)},
    )
    spec = dict(manifest["spec"])
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = (node_affinity.get(required) or {}).get("nodeSelectorTerms") or [{}]
    node_affinity[required] = {"nodeSelectorTerms": [{**term, "matchFields": [here]} for term in terms]}
    spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}
    spec["tolerations"] = [*(spec.get("tolerations") or []), *TOLERATIONS]
    manifest["spec"] = spec
    return create(POD, daemon.metadata.namespace, manifest)


def _report(
    daemon: DaemonSet,
    by_node: dict[str, list[Pod]],
    fit: dict[str, tuple[bool, bool]],
    *,
    digest: str,
    now: float,
    plan: Plan,
) -> None:
    eligible = [node for node, (start, _) in fit.items() if start]
    serving = {node: _serving(by_node.get(node, []), now, daemon.spec.min_ready_seconds) for node in eligible}
    available = sum(is_available for _, is_available in serving.values())
    status: JsonObject = {
        "observedGeneration": daemon.metadata.generation,
        "desiredNumberScheduled": len(eligible),
        "currentNumberScheduled": sum(any(pod.active for pod in by_node.get(node, [])) for node in eligible),
        "numberMisscheduled": sum(
            any(pod.active for pod in pods)
            for node, pods in by_node.items()
            if not fit.get(node, (False,))[0]
        ),
        "numberReady": sum(is_ready for is_ready, _ in serving.values()),
        "numberAvailable": available,
        "numberUnavailable": len(eligible) - available,
        "updatedNumberScheduled": sum(
            any(pod.active and pod.metadata.labels.get(HASH_LABEL) == digest for pod in by_node.get(node, []))
            for node in eligible
        ),
    }
    recorded = msgspec.to_builtins(daemon.status)
    if any(recorded.get(name, 0) != value for name, value in status.items()):
        plan.after.append(patch(DAEMON_SET, daemon.key, {"status": status}, subresource="status"))
    pods = [pod for found_pods in by_node.values() for pod in found_pods if pod.active]
    plan.look_again(next_availability(pods, daemon.spec.min_ready_seconds, now))


def _serving(pods: Sequence[Pod], now: float, min_ready_s: int) -> tuple[bool, bool]:
    active = [pod for pod in pods if pod.active]
    return any(pod.ready for pod in active), any(pod.available(min_ready_s, now) for pod in active)
