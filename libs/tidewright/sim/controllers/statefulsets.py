"""StatefulSet: pods with ordinals, one after the other, rolled from the highest down.

Reads   StatefulSets, their pods and ControllerRevisions
Writes  pods, persistent volume claims, ControllerRevisions, the status
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import (
    CLAIM,
    CONTROLLER_REVISION,
    POD,
    STATEFUL_SET,
    ControllerRevision,
    JsonObject,
    Key,
    Pod,
    RollingUpdateStatefulSet,
    StatefulSet,
    owner_of,
    share,
)
from tidewright.sim.controllers.plan import Plan, next_availability
from tidewright.sim.controllers.replicasets import pod_manifest
from tidewright.sim.controllers.revisions import revision_of, surplus, template_of
from tidewright.sim.controllers.writes import Write, create, delete, patch

HASH_LABEL: Final = "controller-revision-hash"
HISTORY_LIMIT: Final = 10


class Member(msgspec.Struct, frozen=True):
    """One ordinal as it is: `pod` None when there is none.

    Attributes:
        healthy: running, available, and not being deleted.
        updated: of the update revision.
    """

    ordinal: int
    pod: Pod | None = None
    healthy: bool = False
    updated: bool = True

    @property
    def leaving(self) -> bool:
        return self.pod is not None and self.pod.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        return self.pod is not None and self.pod.finished


class Steps(msgspec.Struct):
    """What to do now: ordinals to create, pods to delete."""

    create: list[int] = []
    delete: list[Pod] = []


def next_steps(  # noqa: C901  # the steps of one pass, in their order
    desired: Sequence[Member], condemned: Sequence[Member], *, parallel: bool, on_delete: bool, partition: int,
    max_unavailable: int = 1,
) -> Steps:  # fmt: skip
    """The next writes of a StatefulSet.

    Args:
        desired: one member per ordinal of the spec, ascending.
        condemned: existing members beyond it, ascending.
        parallel: pod management policy `Parallel`.
        on_delete: update strategy `OnDelete`: nothing is rolled.
        partition: ordinals below it keep their revision.
        max_unavailable: of a rolling update, >= 1.
    """
    steps = Steps()
    for member in desired:
        if member.finished and not member.leaving and member.pod is not None:
            steps.delete.append(member.pod)
        elif member.pod is None:
            steps.create.append(member.ordinal)
        if not parallel and not member.healthy:
            return steps
    first_unhealthy = next((member.ordinal for member in (*desired, *condemned) if not member.healthy), None)
    for member in reversed(condemned):
        if member.leaving:
            if parallel:
                continue
            return steps
        if not parallel and not member.healthy and member.ordinal != first_unhealthy:
            return steps
        if member.pod is not None:
            steps.delete.append(member.pod)
        if not parallel:
            return steps
    if on_delete:
        return steps
    down = sum(1 for member in desired if not member.healthy)
    for member in reversed(desired):
        if member.ordinal < partition:
            break
        if not member.updated and member.pod is not None and not member.leaving:
            if member.healthy and down >= max_unavailable:
                break
            steps.delete.append(member.pod)
            if member.healthy:
                down += 1
            elif max_unavailable == 1:
                break
        elif not member.healthy and max_unavailable == 1:
            break
    return steps


class StatefulSets:
    """The controller."""

    kind = STATEFUL_SET
    name = "statefulset"

    def watches(self, cache: Cache) -> list[Any]:
        return [cache.of(STATEFUL_SET), cache.pods, cache.of(CONTROLLER_REVISION)]

    def keys(self, item: Any) -> Iterable[Key]:
        if isinstance(item, StatefulSet):
            yield item.key
            return
        owner = item.metadata.controller
        if owner is not None and owner.kind == "StatefulSet":
            yield (item.metadata.namespace, owner.name)

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        plan = Plan()
        stateful = cache.of(STATEFUL_SET).get(key)
        if stateful is None or stateful.metadata.deletion_timestamp is not None:
            return plan
        revisions = cache.of(CONTROLLER_REVISION).owned(stateful.metadata.uid)
        update, write = revision_of(STATEFUL_SET, stateful.metadata, stateful.spec.template, revisions)
        if write is not None:
            plan.writes.append(write)
            plan.look_again(0.0)
            return plan
        current = stateful.status.current_revision or update
        pods = cache.pods.owned(stateful.metadata.uid)
        if all(_revision(pod, stateful) in ("", update) for pod in pods) and current != update:
            current = update if len(pods) >= stateful.spec.replicas else current
        desired, condemned = _members(stateful, pods, update, now)
        rolling = stateful.spec.update_strategy.rolling_update or RollingUpdateStatefulSet()
        steps = next_steps(
            desired,
            condemned,
            parallel=stateful.spec.pod_management_policy == "Parallel",
            on_delete=stateful.spec.update_strategy.type == "OnDelete",
            partition=rolling.partition,
            max_unavailable=max(1, share(rolling.max_unavailable, stateful.spec.replicas, up=True)),
        )
        for ordinal in steps.create:
            old = ordinal < rolling.partition + stateful.spec.ordinals.start and current != update
            plan.writes.extend(_create(stateful, ordinal, current if old else update, revisions))
        plan.writes.extend(delete(POD, pod.key, pod.metadata.uid) for pod in steps.delete)
        if not plan.writes:
            used = {update, current, *(_revision(pod, stateful) for pod in pods)}
            plan.writes.extend(surplus(revisions, used, HISTORY_LIMIT))
        _report(stateful, pods, current, update=update, now=now, plan=plan)
        return plan


def _revision(pod: Pod, stateful: StatefulSet) -> str:
    digest = pod.metadata.labels.get(HASH_LABEL, "")
    # Real pods carry the revision's whole name; so do ours.
    return digest if not digest or digest.startswith(stateful.metadata.name) else ""


def _ordinal(pod: Pod) -> int:
    text = pod.metadata.name.rpartition("-")[2]
    return int(text) if text.isdigit() else -1


def _members(
    stateful: StatefulSet, pods: Sequence[Pod], update: str, now: float
) -> tuple[list[Member], list[Member]]:
    by_ordinal = {_ordinal(pod): pod for pod in pods}
    start = stateful.spec.ordinals.start
    end = start + stateful.spec.replicas

    def member(ordinal: int) -> Member:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            return Member(ordinal)
        healthy = pod.active and pod.available(stateful.spec.min_ready_seconds, now)
        return Member(ordinal, pod, healthy, _revision(pod, stateful) == update)

    beyond = sorted(ordinal for ordinal in by_ordinal if not start <= ordinal < end)
    return [member(ordinal) for ordinal in range(start, end)], [member(ordinal) for ordinal in beyond]


def _create(
    stateful: StatefulSet, ordinal: int, revision: str, revisions: Sequence[ControllerRevision]
) -> list[Write]:
    metadata = stateful.metadata
    name = f"{metadata.name}-{ordinal}"
    stored = next((candidate for candidate in revisions if candidate.metadata.name == revision), None)
    template = template_of(stored) if stored is not None else stateful.spec.template
    manifest = pod_manifest(
        template,
        owner_of(STATEFUL_SET, metadata),
        name=name,
        namespace=metadata.namespace,
        labels={
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            HASH_LABEL: revision,
        },
    )
    spec = dict(manifest["spec"])
    spec["hostname"] = name
    if stateful.spec.service_name:
        spec["subdomain"] = stateful.spec.service_name
    writes: list[Write] = []
    volumes = list(spec.get("volumes") or [])
    for claim in stateful.spec.volume_claim_templates:
        claim_name = f"{claim['metadata']['name']}-{name}"
        volumes = [volume for volume in volumes if volume["name"] != claim["metadata"]["name"]]
        volumes.append(
            {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}}
        )
        writes.append(_claim(stateful, claim, claim_name))
    if volumes:
        spec["volumes"] = volumes
    manifest["spec"] = spec
    writes.append(create(POD, metadata.namespace, manifest, tolerate=(409,)))
    return writes


def _claim(stateful: StatefulSet, claim: JsonObject, name: str) -> Write:
    labels = {
        **((claim.get("metadata") or {}).get("labels") or {}),
        **(stateful.spec.selector.get("matchLabels") or {}),
    }
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": stateful.metadata.namespace, "labels": labels},
        "spec": claim.get("spec") or {},
    }
    return create(CLAIM, stateful.metadata.namespace, body, tolerate=(409,))


def _report(
    stateful: StatefulSet, pods: Sequence[Pod], current: str, *, update: str, now: float, plan: Plan
) -> None:
    live = [pod for pod in pods if not pod.finished]
    active = [pod for pod in pods if pod.active]
    updated = sum(_revision(pod, stateful) == update for pod in active)
    available = sum(pod.available(stateful.spec.min_ready_seconds, now) for pod in active)
    if updated == stateful.spec.replicas == available and len(live) == updated:
        current = update
    status: JsonObject = {
        "observedGeneration": stateful.metadata.generation,
        "replicas": len(live),
        "readyReplicas": sum(pod.ready for pod in live),
        "availableReplicas": available,
        "currentReplicas": sum(_revision(pod, stateful) == current for pod in active),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
    }
    recorded = msgspec.to_builtins(stateful.status)
    if any(recorded.get(name, 0) != value for name, value in status.items()):
        plan.after.append(
            patch(
                STATEFUL_SET, stateful.key, {"status": {**status, "collisionCount": 0}}, subresource="status"
            )
        )
    plan.look_again(next_availability(active, stateful.spec.min_ready_seconds, now))
