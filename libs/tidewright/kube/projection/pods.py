"""Pods, with their shapes."""

from __future__ import annotations

import msgspec

from tidewright.events.facts import LocalVolume, PodObserved, Removal
from tidewright.kube.projection.reading import (
    UNREADABLE,
    Bytes,
    Meta,
    Projection,
    ReportedCondition,
    checked,
    malformed,
    owners,
    wanted,
)
from tidewright.kube.shapes import Shapes, SpecFields, VolumeFields
from tidewright.kube.times import seconds_if_set

FLEET_MARK = "shardConfigHash"
"""The annotation of pods of a propeller fleet, whose arguments say which part of the keyspace they have."""

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of pods that stand for static ones."""

DEFAULT_GRACE_S = 30
"""What the API server gives a pod that names no grace period."""


class _ContainerStatus(msgspec.Struct):
    restartCount: int = 0  # noqa: N815


class _PodStatus(msgspec.Struct):
    phase: str = "Pending"
    reason: str | None = None
    startTime: str | None = None  # noqa: N815
    nominatedNodeName: str | None = None  # noqa: N815
    conditions: list[ReportedCondition] | None = None
    containerStatuses: list[_ContainerStatus] | None = None  # noqa: N815


class _PodSpec(SpecFields):
    restartPolicy: str = "Always"  # noqa: N815
    terminationGracePeriodSeconds: int | None = None  # noqa: N815


class _Pod(msgspec.Struct):
    metadata: Meta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _ToldContainer(msgspec.Struct):
    name: str = ""
    args: list[str] | None = None
    restartPolicy: str | None = None  # noqa: N815


class _ToldSpec(msgspec.Struct):
    containers: list[_ToldContainer] = []
    initContainers: list[_ToldContainer] | None = None  # noqa: N815


class _NamedStatus(msgspec.Struct):
    name: str = ""
    restartCount: int = 0  # noqa: N815


class _ToldStatus(msgspec.Struct):
    initContainerStatuses: list[_NamedStatus] | None = None  # noqa: N815


class _ToldPod(msgspec.Struct):
    """A pod as far as only few pods are read."""

    spec: _ToldSpec = msgspec.field(default_factory=_ToldSpec)
    status: _ToldStatus = msgspec.field(default_factory=_ToldStatus)


_pod = msgspec.json.Decoder(_Pod)
_told = msgspec.json.Decoder(_ToldPod)
_shapes = Shapes()


def pod(raw: Bytes) -> Projection:
    """A Pod, with its shape."""
    try:
        fields = _pod.decode(raw)
        meta, status = fields.metadata, fields.status
        checked(meta)
        labels = meta.labels or {}
        shape = _shapes.of(meta.namespace, labels, fields.spec)
        ready: bool | None = None
        ready_changed_at: float | None = None
        unschedulable_since: float | None = None
        for condition in status.conditions or ():
            if condition.type == "Ready":
                ready = condition.status == "True"
                ready_changed_at = seconds_if_set(condition.lastTransitionTime)
            elif (
                condition.type == "PodScheduled"
                and condition.status == "False"
                and condition.reason == "Unschedulable"
            ):
                unschedulable_since = seconds_if_set(condition.lastTransitionTime)
        restarts = 0
        for container in status.containerStatuses or ():
            if container.restartCount > restarts:
                restarts = container.restartCount
        fact = PodObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            shape=shape.digest,
            phase=status.phase,
            node=fields.spec.nodeName or "",
            ready=ready,
            ready_changed_at=ready_changed_at,
            created_at=seconds_if_set(meta.creationTimestamp),
            started_at=seconds_if_set(status.startTime),
            unschedulable_since=unschedulable_since,
            deleting_at=seconds_if_set(meta.deletionTimestamp),
            reason=status.reason or "",
            restarts=restarts,
            sidecar_restarts=_sidecar_restarts(raw) if _has_sidecars(fields.spec) else 0,
            labels=labels,
            annotations=wanted(meta.annotations),
            owners=owners(meta.ownerReferences),
            args=_args(raw) if FLEET_MARK in (meta.annotations or ()) else {},
            nominated=(status.nominatedNodeName or "") if not fields.spec.nodeName else "",
            removal=_removal(meta, fields.spec),
        )
        return Projection(fact, meta.resourceVersion, shape)
    except UNREADABLE as error:
        raise malformed("Pod", raw, error) from error


def _removal(meta: Meta, spec: _PodSpec) -> Removal:
    grace_s = spec.terminationGracePeriodSeconds
    return Removal(
        restart_policy=spec.restartPolicy,
        grace_s=DEFAULT_GRACE_S if grace_s is None else grace_s,
        volumes=tuple(volume for v in spec.volumes or () if (volume := _local(v)) is not None),
        mirror=MIRROR in (meta.annotations or ()),
    )


def _local(volume: VolumeFields) -> LocalVolume | None:
    if volume.emptyDir is not None:
        return LocalVolume(name=volume.name, kind="emptyDir", medium=volume.emptyDir.medium or "")
    if volume.hostPath is not None:
        return LocalVolume(name=volume.name, kind="hostPath")
    return None


def _args(raw: Bytes) -> dict[str, tuple[str, ...]]:
    """The arguments of each container. A reading of its own: the pods of all others are not to pay for it."""
    return {c.name: tuple(c.args) for c in _told.decode(raw).spec.containers if c.args}


def _has_sidecars(spec: SpecFields) -> bool:
    return spec.initContainers is not None and any(c.restartPolicy == "Always" for c in spec.initContainers)


def _sidecar_restarts(raw: Bytes) -> int:
    """The largest restart count of its restartable init containers. A reading of its own, too."""
    fields = _told.decode(raw)
    sidecars = {c.name for c in fields.spec.initContainers or () if c.restartPolicy == "Always"}
    counts = [s.restartCount for s in fields.status.initContainerStatuses or () if s.name in sidecars]
    return max(counts, default=0)
