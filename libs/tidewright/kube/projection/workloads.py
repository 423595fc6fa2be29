"""Kinds with replicas, a selector and a template; and what a scale subresource says."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from tidewright.events.facts import TemplateObserved, WorkloadObserved
from tidewright.kube.projection.reading import (
    REVISION,
    UNREADABLE,
    Bytes,
    Meta,
    Project,
    Projection,
    checked,
    malformed,
    owners,
    unapplied,
)
from tidewright.kube.selectors import LabelSelector
from tidewright.kube.shapes import NULL
from tidewright.kube.templates import Templates, unreadable
from tidewright.kube.times import seconds_if_set


class _TemplateMeta(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(msgspec.Struct):
    metadata: _TemplateMeta | None = None
    spec: msgspec.Raw = NULL


class _RollingUpdate(msgspec.Struct):
    maxSurge: int | str | None = None  # noqa: N815


class _Strategy(msgspec.Struct):
    type: str = ""
    rollingUpdate: _RollingUpdate | None = None  # noqa: N815


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _WorkloadSpec(msgspec.Struct):
    replicas: int | None = None
    parallelism: int | None = None
    selector: msgspec.Raw = NULL
    template: _Template | None = None
    volumeClaimTemplates: msgspec.Raw = NULL  # noqa: N815
    paused: bool | None = None
    strategy: msgspec.Raw = NULL
    podManagementPolicy: str | None = None  # noqa: N815
    suspend: bool | None = None
    managedBy: str | None = None  # noqa: N815
    completions: int | None = None
    podReplacementPolicy: str | None = None  # noqa: N815


class _WorkloadStatus(msgspec.Struct):
    replicas: int = 0
    active: int = 0
    ready: int = 0
    readyReplicas: int = 0  # noqa: N815
    observedGeneration: int = 0  # noqa: N815
    updateRevision: str | None = None  # noqa: N815
    succeeded: int = 0
    failedIndexes: str | None = None  # noqa: N815
    conditions: list[_Condition] | None = None


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


class _ControllerSpec(msgspec.Struct):
    replicas: int | None = None
    selector: dict[str, str] | None = None


class _Controller(msgspec.Struct):
    metadata: Meta
    spec: _ControllerSpec = msgspec.field(default_factory=_ControllerSpec)
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)


class _Bare(msgspec.Struct):
    metadata: Meta


_workload = msgspec.json.Decoder(_Workload)
_scale = msgspec.json.Decoder(_Scale)
_controller = msgspec.json.Decoder(_Controller)
_bare = msgspec.json.Decoder(_Bare)
_strategy = msgspec.json.Decoder(_Strategy | None)
_any = msgspec.json.Decoder()
_templates = Templates()

_OF_CAPACITY = ("cluster-autoscaler.kubernetes.io/", "autoscaling.x-k8s.io/")
"""Prefixes of the annotations of a template by which its pods ask for room in another way, or later."""
_USUAL_SURGE = "25%"
MOST_INDEXES = 2**31
"""More than this no Job has."""
_ENDED = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
_JOB_CONTROLLER = (None, "", "kubernetes.io/job-controller")
"""What `managedBy` says of Jobs whose pods are made in this cluster."""


def workload(api_version: str, kind: str, *, checked_template: bool = True) -> Project:
    """A projection for a kind with replicas (Jobs: parallelism), selector and template.

    Args:
        api_version: of the kind.
        kind: its name.
        checked_template: the API server takes no template that is none, so that one is malformed; else it is told as one that cannot be read.
    """

    def project(raw: Bytes) -> Projection:
        try:
            fields = _workload.decode(raw)
            meta, spec, status = fields.metadata, fields.spec, fields.status
            checked(meta)
            annotations = meta.annotations or {}
            meta_of_pods = spec.template.metadata if spec.template else None
            template = _template(meta.namespace, spec, checked_template)
            replicas = spec.parallelism if spec.replicas is None else spec.replicas
            about_pods = (meta_of_pods.annotations if meta_of_pods else None) or {}
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
                annotations=unapplied(annotations),
                owners=owners(meta.ownerReferences),
                created_at=seconds_if_set(meta.creationTimestamp),
                deleting_at=seconds_if_set(meta.deletionTimestamp),
                paused=bool(spec.paused),
                template=template.digest if template else "",
                template_annotations={
                    name: about_pods[name] for name in sorted(about_pods) if name.startswith(_OF_CAPACITY)
                },
                max_surge=_max_surge(bytes(spec.strategy)) if kind == "Deployment" else "",
                ordered=kind == "StatefulSet" and spec.podManagementPolicy != "Parallel",
                suspended=bool(spec.suspend) or (kind == "Job" and spec.managedBy not in _JOB_CONTROLLER),
                completions=spec.completions,
                succeeded=status.succeeded,
                failed=_indexes(status.failedIndexes) if kind == "Job" else 0,
                ended=kind == "Job" and any(_holds(c, *_ENDED) for c in status.conditions or ()),
                refused=next(
                    (c.message or c.reason for c in status.conditions or () if _holds(c, "ReplicaFailure")),
                    "",
                ),
                after_end=spec.podReplacementPolicy == "Failed",
            )
            return Projection(fact, meta.resourceVersion, template)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def _template(namespace: str, spec: _WorkloadSpec, checked_template: bool) -> TemplateObserved | None:
    """What its pods are made of; of somebody else's kind one that cannot be read does not keep the rest from being told."""
    if not spec.template or bytes(spec.template.spec) == bytes(NULL):
        return None
    of_pods = bytes(spec.template.spec)
    try:
        return _templates.of(namespace, of_pods, bytes(spec.volumeClaimTemplates))
    except UNREADABLE as error:
        if checked_template:
            raise
        return unreadable(namespace, of_pods, error)


def _indexes(text: str | None) -> int:
    """How many indexes a list of numbers and ranges names, such as `1,3-5`; 0 for what is none."""
    count = 0
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            return 0
        count += int(last) - int(first) + 1 if dash else 1
    return min(max(0, count), MOST_INDEXES)


def _max_surge(raw: bytes) -> str:
    """How many pods more than wanted a Deployment may have while it rolls out, as it is written: `1`, or `25%`."""
    strategy = _strategy.decode(raw) or _Strategy()
    if strategy.type == "Recreate":
        return ""
    surge = strategy.rollingUpdate.maxSurge if strategy.rollingUpdate is not None else None
    return _USUAL_SURGE if surge is None else str(surge)


def _holds(condition: _Condition, *types: str) -> bool:
    return condition.type in types and condition.status == "True"


def replication_controller(raw: Bytes) -> Projection:
    """A ReplicationController: how many pods it wants. Its selector is a mapping, and its template nobody asks for."""
    try:
        fields = _controller.decode(raw)
        meta, spec = fields.metadata, fields.spec
        checked(meta)
        fact = WorkloadObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            api_version="v1",
            kind="ReplicationController",
            replicas=1 if spec.replicas is None else spec.replicas,
            status_replicas=fields.status.replicas,
            ready_replicas=fields.status.readyReplicas,
            selector=str(LabelSelector.of({"matchLabels": spec.selector or {}})),
            generation=meta.generation,
            observed_generation=fields.status.observedGeneration,
            owners=owners(meta.ownerReferences),
            created_at=seconds_if_set(meta.creationTimestamp),
            deleting_at=seconds_if_set(meta.deletionTimestamp),
        )
        return Projection(fact, meta.resourceVersion)
    except UNREADABLE as error:
        raise malformed("ReplicationController", raw, error) from error


def bare_workload(api_version: str, kind: str) -> Project:
    """A projection for a custom workload whose spec cannot be read: who owns it, and nothing of what it wants."""

    def project(raw: Bytes) -> Projection:
        try:
            meta = _bare.decode(raw).metadata
            checked(meta)
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
                annotations=unapplied(meta.annotations or {}),
                owners=owners(meta.ownerReferences),
                created_at=seconds_if_set(meta.creationTimestamp),
                deleting_at=seconds_if_set(meta.deletionTimestamp),
            )
            return Projection(fact, meta.resourceVersion)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def scale(raw: Bytes, api_version: str, kind: str) -> WorkloadObserved:
    """What the scale subresource of a custom resource says; `api_version` and `kind` are the resource's."""
    try:
        fields = _scale.decode(raw)
        meta = fields.metadata
        return WorkloadObserved(
            at=0.0,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            api_version=api_version,
            kind=kind,
            replicas=fields.spec.replicas,
            status_replicas=fields.status.replicas,
            selector=fields.status.selector,
            created_at=seconds_if_set(meta.creationTimestamp),
        )
    except UNREADABLE as error:
        raise malformed(f"{kind} scale", raw, error) from error


@lru_cache(maxsize=4096)
def _selector(raw: bytes) -> str:
    """The text form of a workload's selector, as its scale's `status.selector` would be."""
    return str(LabelSelector.of(_any.decode(raw) or {}))
