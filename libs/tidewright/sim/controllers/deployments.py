"""Deployment: one ReplicaSet per pod template, rolled over within surge and unavailability.

Reads   Deployments, their ReplicaSets
Writes  ReplicaSets, the Deployment's status and revision
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidewright.kube.conditions import find, transition
from tidewright.kube.times import rfc3339, seconds_or_none
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.objects import (
    DEPLOYMENT,
    REPLICA_SET,
    Condition,
    Deployment,
    JsonObject,
    Key,
    ReplicaSet,
    RollingUpdateDeployment,
    owner_of,
)
from tidewright.sim.controllers.plan import Plan
from tidewright.sim.controllers.rollout import Bounds, Sizes, grow_new, proportional, shrink_old
from tidewright.sim.controllers.writes import create, delete, patch

REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
HASH_LABEL: Final = "pod-template-hash"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes' own: no vowels, so no words


def template_hash(template: JsonObject) -> str:
    """Ten characters that stand for a pod template."""
    digest = hashlib.blake2b(msgspec.json.encode(template, order="deterministic"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(10):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)


def same_template(replica_set: ReplicaSet, template: JsonObject) -> bool:
    """Whether a ReplicaSet was made from this template (its hash label aside)."""
    current = replica_set.spec.template
    metadata = current.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    desired = template.get("metadata") or {}
    return (
        labels == (desired.get("labels") or {})
        and (metadata.get("annotations") or {}) == (desired.get("annotations") or {})
        and (current.get("spec") or {}) == (template.get("spec") or {})
    )


def bounds_of(deployment: Deployment) -> Bounds:
    """Surge and unavailability in pods; a Recreate Deployment has neither."""
    spec = deployment.spec
    if spec.strategy.type != "RollingUpdate":
        return Bounds(spec.replicas, 0, spec.replicas)
    rolling = spec.strategy.rolling_update or RollingUpdateDeployment()
    return Bounds.of(spec.replicas, rolling.max_surge, rolling.max_unavailable)


def _revision(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _sizes(replica_set: ReplicaSet) -> Sizes:
    metadata, status = replica_set.metadata, replica_set.status
    return Sizes(metadata.name, replica_set.spec.replicas, status.available_replicas, metadata.created)


class Deployments:
    """The controller."""

    kind = DEPLOYMENT
    name = "deployment"

    def watches(self, cache: Cache) -> list[Any]:
        return [cache.of(DEPLOYMENT), cache.of(REPLICA_SET)]

    def keys(self, item: Any) -> Iterable[Key]:
        if isinstance(item, Deployment):
            yield item.key
        elif isinstance(item, ReplicaSet):
            owner = item.metadata.controller
            if owner is not None and owner.kind == "Deployment":
                yield (item.metadata.namespace, owner.name)

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        plan = Plan()
        deployment = cache.of(DEPLOYMENT).get(key)
        if deployment is None:
            return plan
        sets = cache.of(REPLICA_SET).owned(deployment.metadata.uid)
        new = next(
            (
                replica_set
                for replica_set in sorted(sets, key=_age)
                if same_template(replica_set, deployment.spec.template)
            ),
            None,
        )
        if deployment.metadata.deletion_timestamp is None:
            if deployment.spec.paused or _is_scaling(deployment, sets):
                _scale(deployment, sets, new, plan)
            elif deployment.spec.strategy.type == "Recreate":
                _recreate(cache, deployment, sets, new, plan)
            else:
                _roll(deployment, sets, new, plan)
            if not plan.writes:
                _clean_up(deployment, sets, new, plan)
        _report(deployment, sets, new, now, plan)
        return plan


def _age(replica_set: ReplicaSet) -> tuple[float, str]:
    return (replica_set.metadata.created, replica_set.metadata.name)


def _annotations(deployment: Deployment) -> dict[str, str]:
    bounds = bounds_of(deployment)
    return {DESIRED: str(bounds.replicas), MAXIMUM: str(bounds.replicas + bounds.surge)}


def _is_scaling(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether `spec.replicas` changed since the ReplicaSets were sized last."""
    if (
        deployment.spec.strategy.type != "RollingUpdate"
        and sum(replica_set.spec.replicas > 0 for replica_set in sets) > 1
    ):
        return False
    desired = str(deployment.spec.replicas)
    return any(
        replica_set.spec.replicas > 0 and replica_set.metadata.annotations.get(DESIRED, desired) != desired
        for replica_set in sets
    )


def _resize(deployment: Deployment, replica_set: ReplicaSet, replicas: int, plan: Plan) -> None:
    """Set the size of one ReplicaSet and note what it was sized for."""
    notes = _annotations(deployment)
    annotations = replica_set.metadata.annotations
    noted = all(annotations.get(name) == value for name, value in notes.items())
    if replica_set.spec.replicas == replicas and noted:
        return
    change: JsonObject = {"metadata": {"annotations": notes}}
    if replica_set.spec.replicas != replicas:
        change["spec"] = {"replicas": replicas}
    plan.writes.append(patch(REPLICA_SET, replica_set.key, change))


def _scale(deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, plan: Plan) -> None:
    active = [replica_set for replica_set in sets if replica_set.spec.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else new
        if only is not None:
            _resize(deployment, only, deployment.spec.replicas, plan)
        return
    if new is not None and new.spec.replicas == new.status.available_replicas == deployment.spec.replicas:
        for replica_set in active:
            if replica_set is not new:
                _resize(deployment, replica_set, 0, plan)
        return
    if deployment.spec.strategy.type != "RollingUpdate":
        return
    bounds = bounds_of(deployment)
    limit = bounds.replicas + bounds.surge if bounds.replicas > 0 else 0
    sizes = proportional(
        [_sizes(replica_set) for replica_set in active], limit, new.metadata.name if new is not None else ""
    )
    for replica_set in active:
        _resize(
            deployment, replica_set, sizes.get(replica_set.metadata.name, replica_set.spec.replicas), plan
        )


def _create(deployment: Deployment, sets: Sequence[ReplicaSet], replicas: int, plan: Plan) -> None:
    metadata, spec = deployment.metadata, deployment.spec
    digest = template_hash(spec.template)
    template = dict(spec.template)
    given = template.get("metadata") or {}
    template["metadata"] = {**given, "labels": {**(given.get("labels") or {}), HASH_LABEL: digest}}
    selector = dict(spec.selector)
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
    revision = max((_revision(replica_set) for replica_set in sets), default=0) + 1
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata.name}-{digest}",
            "namespace": metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": {**_copied(deployment), **_annotations(deployment), REVISION: str(revision)},
            "ownerReferences": [owner_of(DEPLOYMENT, metadata)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    }
    plan.writes.append(create(REPLICA_SET, metadata.namespace, body, tolerate=(409,)))


def _copied(deployment: Deployment) -> dict[str, str]:
    skipped = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MAXIMUM)
    return {name: value for name, value in deployment.metadata.annotations.items() if name not in skipped}


def _adopt_revision(deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet, plan: Plan) -> bool:
    """A rollback makes an old ReplicaSet the newest: it gets the next revision."""
    highest = max((_revision(replica_set) for replica_set in sets if replica_set is not new), default=0)
    if _revision(new) > highest or (len(sets) == 1 and _revision(new) > 0):
        return False
    annotations = {**_annotations(deployment), REVISION: str(highest + 1)}
    plan.writes.append(patch(REPLICA_SET, new.key, {"metadata": {"annotations": annotations}}))
    return True


def _roll(deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, plan: Plan) -> None:
    bounds = bounds_of(deployment)
    old = [replica_set for replica_set in sets if replica_set is not new]
    if new is None:
        empty = Sizes("", 0, 0)
        _create(deployment, sets, grow_new(empty, [_sizes(replica_set) for replica_set in old], bounds), plan)
        return
    if _adopt_revision(deployment, sets, new, plan):
        plan.look_again(0.0)
        return
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        change = {"spec": {"minReadySeconds": deployment.spec.min_ready_seconds}}
        plan.writes.append(patch(REPLICA_SET, new.key, change))
    old_sizes = [_sizes(replica_set) for replica_set in old]
    size = grow_new(_sizes(new), old_sizes, bounds)
    _resize(deployment, new, size, plan)
    if size != new.spec.replicas:
        return
    smaller = shrink_old(_sizes(new), [sizes for sizes in old_sizes if sizes.replicas > 0], bounds)
    for replica_set in old:
        if replica_set.metadata.name in smaller:
            _resize(deployment, replica_set, smaller[replica_set.metadata.name], plan)


def _recreate(
    cache: Cache, deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, plan: Plan
) -> None:
    old = [replica_set for replica_set in sets if replica_set is not new]
    for replica_set in old:
        if replica_set.spec.replicas > 0:
            _resize(deployment, replica_set, 0, plan)
    if plan.writes:
        return
    unfinished = [
        pod for replica_set in old for pod in cache.pods.owned(replica_set.metadata.uid) if not pod.finished
    ]
    if unfinished:
        # Deployments do not hear of pods; old ones may still be terminating when their set says 0.
        plan.look_again(0.5)
    elif new is None:
        _create(deployment, sets, deployment.spec.replicas, plan)
    elif _adopt_revision(deployment, sets, new, plan):
        plan.look_again(0.0)
    else:
        _resize(deployment, new, deployment.spec.replicas, plan)


def _clean_up(deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, plan: Plan) -> None:
    """Delete the oldest empty ReplicaSets beyond the history limit, once the rollout is complete."""
    limit = deployment.spec.revision_history_limit
    if limit is None or new is None or not _complete(deployment, sets, new):
        return
    old = sorted(
        (
            replica_set
            for replica_set in sets
            if replica_set is not new
            and replica_set.spec.replicas == replica_set.status.replicas == 0
            and replica_set.status.observed_generation >= replica_set.metadata.generation
            and replica_set.metadata.deletion_timestamp is None
        ),
        key=_revision,
    )
    for replica_set in old[: max(0, len(old) - limit)]:
        plan.writes.append(delete(REPLICA_SET, replica_set.key, replica_set.metadata.uid))


def _complete(deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet) -> bool:
    desired = deployment.spec.replicas
    return (
        new.status.replicas == desired
        and new.status.available_replicas == desired
        and sum(replica_set.status.replicas for replica_set in sets) == desired
    )


# --- status -----------------------------------------------------------------------------------


def _report(
    deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, now: float, plan: Plan
) -> None:
    available = sum(replica_set.status.available_replicas for replica_set in sets)
    total = sum(replica_set.spec.replicas for replica_set in sets)
    current: JsonObject = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(replica_set.status.replicas for replica_set in sets),
        "updatedReplicas": new.status.replicas if new is not None else 0,
        "readyReplicas": sum(replica_set.status.ready_replicas for replica_set in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total - available),
    }
    status = deployment.status
    recorded = {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "updatedReplicas": status.updated_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "unavailableReplicas": status.unavailable_replicas,
    }
    conditions = _conditions(deployment, sets, new, counts=current, now=now, plan=plan)
    if current != recorded or conditions != status.conditions:
        current["conditions"] = conditions
        plan.after.append(patch(DEPLOYMENT, deployment.key, {"status": current}, subresource="status"))
    revision = str(_revision(new)) if new is not None else ""
    if revision and revision != "0" and deployment.metadata.annotations.get(REVISION) != revision:
        change = {"metadata": {"annotations": {REVISION: revision}}}
        plan.after.append(patch(DEPLOYMENT, deployment.key, change))


def _conditions(
    deployment: Deployment,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    *,
    counts: JsonObject,
    now: float,
    plan: Plan,
) -> list[Condition]:
    bounds = bounds_of(deployment)
    enough = counts["availableReplicas"] >= bounds.replicas - bounds.unavailable
    conditions = [
        Condition(
            type="Available",
            status="True" if enough else "False",
            reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        )
    ]
    progress = _progressing(deployment, sets, new, counts=counts, now=now, plan=plan)
    if progress is not None:
        conditions.append(progress)
    ours = {condition.type for condition in conditions}
    kept = [
        condition
        for condition in deployment.status.conditions
        if condition.type not in ours and condition.type not in ("Available", "Progressing")
    ]
    return [_dated(deployment, condition, now) for condition in conditions] + kept


def _dated(deployment: Deployment, condition: Condition, now: float) -> Condition:
    """The condition with its stamps: unchanged ones keep theirs."""
    before = find(deployment.status.conditions, condition.type)
    if before is condition:
        return before
    condition.last_transition_time = condition.last_update_time = rfc3339(now)
    if before is None:
        return condition
    same = before.status == condition.status and before.reason == condition.reason
    # Progress is dated anew each time: the deadline counts from the last of it.
    if same and condition.reason != "ReplicaSetUpdated":
        return before
    condition.last_transition_time = transition(
        (before.status, before.last_transition_time), condition.status, condition.last_transition_time
    )
    return condition


def _progressing(
    deployment: Deployment,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    *,
    counts: JsonObject,
    now: float,
    plan: Plan,
) -> Condition | None:
    deadline_s = deployment.spec.progress_deadline_seconds
    before = find(deployment.status.conditions, "Progressing")
    if deadline_s is None:
        return None
    paused = deployment.spec.paused
    if paused and before is not None and before.reason == "ProgressDeadlineExceeded":
        return before  # what took too long stays so
    if paused:
        message = "Deployment is paused"
        return Condition(type="Progressing", status="Unknown", reason="DeploymentPaused", message=message)
    if before is not None and before.reason == "DeploymentPaused":
        message = "Deployment is resumed"
        return Condition(type="Progressing", status="Unknown", reason="DeploymentResumed", message=message)
    if new is None:
        return before or Condition(
            type="Progressing",
            status="True",
            reason="NewReplicaSetCreated",
            message="Created new replica set",
        )
    name = new.metadata.name
    desired = deployment.spec.replicas
    if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == desired:
        message = f'ReplicaSet "{name}" has successfully progressed.'
        return Condition(type="Progressing", status="True", reason="NewReplicaSetAvailable", message=message)
    status = deployment.status
    moved = (
        counts["updatedReplicas"] > status.updated_replicas
        or counts["readyReplicas"] > status.ready_replicas
        or counts["availableReplicas"] > status.available_replicas
        or counts["replicas"] - counts["updatedReplicas"] < status.replicas - status.updated_replicas
    )
    message = f'ReplicaSet "{name}" is progressing.'
    progressing = Condition(type="Progressing", status="True", reason="ReplicaSetUpdated", message=message)
    if (
        moved
        or before is None
        or before.reason == "DeploymentResumed"
        or (before.reason == "NewReplicaSetAvailable" and before.status == "True")
    ):
        plan.look_again(float(deadline_s))
        return progressing
    if before.status == "False":
        return before
    due = (seconds_or_none(before.last_update_time) or 0.0) + deadline_s
    if due > now:
        plan.look_again(due - now + 1.0)
        return before
    message = f'ReplicaSet "{name}" has timed out progressing.'
    return Condition(type="Progressing", status="False", reason="ProgressDeadlineExceeded", message=message)
