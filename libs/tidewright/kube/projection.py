"""Raw object bytes to facts: only the fields that some decider uses, decoded once. Pure.

One function per kind, each `bytes -> Projection`; `kinds` lists them. A projection's fact has `at` 0:
whoever publishes it stamps it. Objects that cannot be read raise `Malformed`, which names the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from tidewright.events.facts import (
    DatadogMonitorObserved,
    NodeObserved,
    ObjectFact,
    Owner,
    PodObserved,
    ResourceFact,
    ShapeObserved,
    TemplateObserved,
    WorkloadObserved,
)
from tidewright.kube.podspecs import amounts
from tidewright.kube.selectors import LabelSelector
from tidewright.kube.shapes import NULL, Shapes, SpecFields
from tidewright.kube.templates import Templates
from tidewright.kube.times import seconds

REVISION = "deployment.kubernetes.io/revision"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

POD_ANNOTATIONS = (
    "cluster-autoscaler.kubernetes.io/",
    "autoscaling.x-k8s.io/",
    "controller.kubernetes.io/",
    "apps.kruise.io/",
    "kueue.x-k8s.io/",
    "karpenter.sh/",
    "tidewright",
    "shards.tidewright.dev/",
    "podTemplateResourceVersion",
    "shardConfigHash",
)
"""Prefixes of the annotations of pods and nodes that deciders look at; network plugins write others."""


class Malformed(ValueError):
    """An object that cannot be read: which one, which field, what was expected."""


class Projection(msgspec.Struct, frozen=True):
    """What one object says.

    Attributes:
        fact: with `at` 0.
        resource_version: of the object.
        shape: what is said once per content: the shape of a pod, the template of a workload; with `at` 0.
    """

    fact: ObjectFact
    resource_version: str
    shape: ShapeObserved | TemplateObserved | None = None


Bytes: TypeAlias = bytes | msgspec.Raw
Project: TypeAlias = Callable[[Bytes], Projection]


class _OwnerReference(msgspec.Struct):
    kind: str
    name: str
    uid: str = ""
    apiVersion: str = ""  # noqa: N815 - the API's names, here and below
    controller: bool | None = None


class Meta(msgspec.Struct):
    """The metadata that facts carry, under the API's names."""

    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    generation: int = 0
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[_OwnerReference] | None = None  # noqa: N815


class _Condition(msgspec.Struct):
    type: str
    status: str = ""
    reason: str | None = None
    lastTransitionTime: str | None = None  # noqa: N815


class _ContainerStatus(msgspec.Struct):
    restartCount: int = 0  # noqa: N815


class _PodStatus(msgspec.Struct):
    phase: str = "Pending"
    reason: str | None = None
    startTime: str | None = None  # noqa: N815
    nominatedNodeName: str | None = None  # noqa: N815
    conditions: list[_Condition] | None = None
    containerStatuses: list[_ContainerStatus] | None = None  # noqa: N815


class _Pod(msgspec.Struct):
    metadata: Meta
    spec: SpecFields = msgspec.field(default_factory=SpecFields)
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


class _Taint(msgspec.Struct):
    key: str
    value: str = ""
    effect: str = ""


class _NodeSpec(msgspec.Struct):
    providerID: str = ""  # noqa: N815
    unschedulable: bool = False
    taints: list[_Taint] | None = None


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct):
    metadata: Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _TemplateMeta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Template(msgspec.Struct):
    metadata: _TemplateMeta | None = None
    spec: msgspec.Raw = NULL


class _WorkloadSpec(msgspec.Struct):
    replicas: int | None = None
    parallelism: int | None = None
    selector: msgspec.Raw = NULL
    template: _Template | None = None
    volumeClaimTemplates: msgspec.Raw = NULL  # noqa: N815
    paused: bool | None = None


class _WorkloadStatus(msgspec.Struct):
    replicas: int = 0
    active: int = 0
    ready: int = 0
    readyReplicas: int = 0  # noqa: N815
    observedGeneration: int = 0  # noqa: N815
    updateRevision: str | None = None  # noqa: N815


class _Workload(msgspec.Struct):
    metadata: Meta
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)


class _ScaleSpec(msgspec.Struct):
    replicas: int = 0


class _ScaleStatus(msgspec.Struct):
    replicas: int = 0
    selector: str = ""


class _Scale(msgspec.Struct):
    metadata: Meta
    spec: _ScaleSpec = msgspec.field(default_factory=_ScaleSpec)
    status: _ScaleStatus = msgspec.field(default_factory=_ScaleStatus)


class _Bare(msgspec.Struct):
    metadata: Meta


class _Resource(msgspec.Struct):
    metadata: Meta
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class _Named(msgspec.Struct):
    metadata: Meta


_pod = msgspec.json.Decoder(_Pod)
_told = msgspec.json.Decoder(_ToldPod)
_node = msgspec.json.Decoder(_Node)
_workload = msgspec.json.Decoder(_Workload)
_scale = msgspec.json.Decoder(_Scale)
_resource = msgspec.json.Decoder(_Resource)
_bare = msgspec.json.Decoder(_Bare)
_named = msgspec.json.Decoder(_Named)
_any = msgspec.json.Decoder()
_shapes = Shapes()
_templates = Templates()

FLEET_MARK = "shardConfigHash"
"""The annotation of pods of a propeller fleet, whose arguments say which part of the keyspace they have."""

UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, AttributeError, KeyError)
"""What reading an object of any content can raise."""


class Identity(msgspec.Struct, frozen=True):
    """Which object some bytes are about."""

    namespace: str
    name: str
    uid: str
    resource_version: str


def identity(raw: Bytes) -> Identity:
    """Read the metadata alone.

    Raises:
        Malformed: even that cannot be read.
    """
    try:
        meta = _named.decode(raw).metadata
    except msgspec.MsgspecError as error:
        raise Malformed(f"an object without readable metadata: {error}") from error
    return Identity(meta.namespace, meta.name, meta.uid, meta.resourceVersion)


def pod(raw: Bytes) -> Projection:
    """A Pod, with its shape."""
    try:
        found = _pod.decode(raw)
        meta, status = found.metadata, found.status
        labels = meta.labels or {}
        shape = _shapes.of(meta.namespace, labels, found.spec)
        ready: bool | None = None
        ready_changed_at: float | None = None
        unschedulable_since: float | None = None
        for condition in status.conditions or ():
            if condition.type == "Ready":
                ready = condition.status == "True"
                ready_changed_at = _time(condition.lastTransitionTime)
            elif (
                condition.type == "PodScheduled"
                and condition.status == "False"
                and condition.reason == "Unschedulable"
            ):
                unschedulable_since = _time(condition.lastTransitionTime)
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
            node=found.spec.nodeName or "",
            ready=ready,
            ready_changed_at=ready_changed_at,
            created_at=_time(meta.creationTimestamp),
            started_at=_time(status.startTime),
            unschedulable_since=unschedulable_since,
            deleting_at=_time(meta.deletionTimestamp),
            reason=status.reason or "",
            restarts=restarts,
            sidecar_restarts=_sidecar_restarts(raw) if _has_sidecars(found.spec) else 0,
            labels=labels,
            annotations=_wanted(meta.annotations),
            owners=_owners(meta.ownerReferences),
            args=_args(raw) if FLEET_MARK in (meta.annotations or ()) else {},
            nominated=(status.nominatedNodeName or "") if not found.spec.nodeName else "",
        )
        return Projection(fact, meta.resourceVersion, shape)
    except UNREADABLE as error:
        raise malformed("Pod", raw, error) from error


def _args(raw: Bytes) -> dict[str, tuple[str, ...]]:
    """The arguments of each container. A reading of its own: the pods of all others are not to pay for it."""
    return {c.name: tuple(c.args) for c in _told.decode(raw).spec.containers if c.args}


def _has_sidecars(spec: SpecFields) -> bool:
    return spec.initContainers is not None and any(c.restartPolicy == "Always" for c in spec.initContainers)


def _sidecar_restarts(raw: Bytes) -> int:
    """The largest restart count of its restartable init containers. A reading of its own, too."""
    found = _told.decode(raw)
    sidecars = {c.name for c in found.spec.initContainers or () if c.restartPolicy == "Always"}
    counts = [s.restartCount for s in found.status.initContainerStatuses or () if s.name in sidecars]
    return max(counts, default=0)


def node(raw: Bytes) -> Projection:
    """A Node."""
    try:
        found = _node.decode(raw)
        meta = found.metadata
        ready = next((c for c in found.status.conditions or () if c.type == "Ready"), None)
        taints = tuple({"key": t.key, "value": t.value, "effect": t.effect} for t in found.spec.taints or ())
        fact = NodeObserved(
            at=0.0,
            name=meta.name,
            uid=meta.uid,
            labels=meta.labels or {},
            annotations=_wanted(meta.annotations),
            allocatable=amounts(found.status.allocatable or {}),
            taints=taints,
            unschedulable=found.spec.unschedulable,
            ready=ready.status == "True" if ready else None,
            ready_changed_at=_time(ready.lastTransitionTime) if ready else None,
            created_at=_time(meta.creationTimestamp),
            deleting_at=_time(meta.deletionTimestamp),
            provider_id=found.spec.providerID,
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("Node", raw, error) from error


def workload(api_version: str, kind: str) -> Project:
    """A projection for a kind with replicas (Jobs: parallelism), selector and template."""

    def project(raw: Bytes) -> Projection:
        try:
            found = _workload.decode(raw)
            meta, spec, status = found.metadata, found.spec, found.status
            annotations = meta.annotations or {}
            meta_of_pods = spec.template.metadata if spec.template else None
            template = (
                _templates.of(meta.namespace, bytes(spec.template.spec), bytes(spec.volumeClaimTemplates))
                if spec.template and bytes(spec.template.spec) != bytes(NULL)
                else None
            )
            replicas = spec.parallelism if spec.replicas is None else spec.replicas
            fact = WorkloadObserved(
                at=0.0,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                api_version=api_version,
                kind=kind,
                replicas=1 if replicas is None else replicas,
                status_replicas=status.replicas or status.active,
                ready_replicas=status.readyReplicas or status.ready,
                selector=_selector(bytes(spec.selector)),
                generation=meta.generation,
                observed_generation=status.observedGeneration,
                revision=status.updateRevision or annotations.get(REVISION, ""),
                template_labels=(meta_of_pods.labels if meta_of_pods else None) or {},
                labels=meta.labels or {},
                annotations=_unapplied(annotations),
                owners=_owners(meta.ownerReferences),
                created_at=_time(meta.creationTimestamp),
                deleting_at=_time(meta.deletionTimestamp),
                paused=bool(spec.paused),
                template=template.digest if template else "",
            )
            return Projection(fact, meta.resourceVersion, template)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def bare_workload(api_version: str, kind: str) -> Project:
    """A projection for a custom workload whose spec cannot be read: who owns it, and nothing of what it wants."""

    def project(raw: Bytes) -> Projection:
        try:
            meta = _bare.decode(raw).metadata
            fact = WorkloadObserved(
                at=0.0,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                api_version=api_version,
                kind=kind,
                replicas=-1,
                generation=meta.generation,
                labels=meta.labels or {},
                annotations=_unapplied(meta.annotations or {}),
                owners=_owners(meta.ownerReferences),
                created_at=_time(meta.creationTimestamp),
                deleting_at=_time(meta.deletionTimestamp),
            )
            return Projection(fact, meta.resourceVersion)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def scale(raw: Bytes, api_version: str, kind: str) -> WorkloadObserved:
    """What the scale subresource of a custom resource says; `api_version` and `kind` are the resource's."""
    try:
        found = _scale.decode(raw)
        meta = found.metadata
        return WorkloadObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            api_version=api_version,
            kind=kind,
            replicas=found.spec.replicas,
            status_replicas=found.status.replicas,
            selector=found.status.selector,
            created_at=_time(meta.creationTimestamp),
        )
    except UNREADABLE as error:
        raise malformed(f"{kind} scale", raw, error) from error


def resource(kind: str, fact_type: type[ResourceFact]) -> Project:
    """A projection for a custom resource: spec and status as they are stored."""

    def project(raw: Bytes) -> Projection:
        try:
            found = _resource.decode(raw)
            meta = found.metadata
            fact = fact_type(
                at=0.0,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                generation=meta.generation,
                created_at=_time(meta.creationTimestamp),
                deleting_at=_time(meta.deletionTimestamp),
                labels=meta.labels or {},
                annotations=_unapplied(meta.annotations or {}),
                finalizers=tuple(meta.finalizers or ()),
                spec=found.spec or {},
                status=found.status or {},
            )
            return Projection(fact, meta.resourceVersion)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def datadog_monitor(raw: Bytes) -> Projection:
    """A DatadogMonitor: its state, when that is a text."""
    try:
        found = _resource.decode(raw)
        meta = found.metadata
        state = (found.status or {}).get("monitorState")
        fact = DatadogMonitorObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            state=state if isinstance(state, str) else None,
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("DatadogMonitor", raw, error) from error


def _time(text: str | None) -> float | None:
    return None if text is None else seconds(text)


def _owners(references: list[_OwnerReference] | None) -> tuple[Owner, ...]:
    if not references:
        return ()
    return tuple(
        Owner(kind=r.kind, name=r.name, uid=r.uid, api_version=r.apiVersion, controller=bool(r.controller))
        for r in references
    )


def _wanted(annotations: Mapping[str, str] | None) -> dict[str, str]:
    if not annotations:
        return {}
    return {name: value for name, value in annotations.items() if name.startswith(POD_ANNOTATIONS)}


def _unapplied(annotations: dict[str, str]) -> dict[str, str]:
    """Without kubectl's copy of the object, and without the revision, which has a field of its own."""
    if LAST_APPLIED not in annotations and REVISION not in annotations:
        return annotations
    return {name: value for name, value in annotations.items() if name not in (LAST_APPLIED, REVISION)}


@lru_cache(maxsize=4096)
def _selector(raw: bytes) -> str:
    """The text form of a workload's selector, as its scale's `status.selector` would be."""
    return str(LabelSelector.of(_any.decode(raw) or {}))


def malformed(kind: str, raw: Bytes, error: Exception) -> Malformed:
    """The error that names the object, if its metadata can be read."""
    try:
        who = identity(raw)
        where = f"{kind} {who.namespace}/{who.name}" if who.namespace else f"{kind} {who.name}"
    except Malformed:
        where = f"a {kind} without readable metadata"
    return Malformed(f"{where} cannot be read: {error}")
