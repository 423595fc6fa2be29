"""The scheduling-relevant part of a pod, found without parsing it twice.

Pods of one template share their shape, so the raw bytes of the fields that decide about it are the
key of a cache; only a new combination is decoded and computed (by `podspecs`, which knows the
rules). Pure but for the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tidewright.events.facts import ShapeObserved
from tidewright.kube import podspecs

NULL = msgspec.Raw(b"null")

REVISION_LABELS = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
    }
)
"""Labels that differ per revision or per pod: kept where the pod's own terms name them (`matchLabelKeys`)."""

CACHE_SIZE = 50_000


class ContainerFields(msgspec.Struct):
    """What counts of a container."""

    resources: msgspec.Raw = NULL
    ports: msgspec.Raw = NULL
    restartPolicy: str | None = None  # noqa: N815 - the API's name


class EmptyDir(msgspec.Struct):
    """What counts of an emptyDir."""

    medium: str | None = None


class HostPath(msgspec.Struct):
    """A directory of the node: that there is one."""


class VolumeFields(msgspec.Struct):
    """What counts of a volume: claims, and those that are made along with the pod; and whether it lies on the node."""

    name: str = ""
    persistentVolumeClaim: msgspec.Raw = NULL  # noqa: N815 - the API's name
    ephemeral: msgspec.Raw = NULL
    emptyDir: EmptyDir | None = None  # noqa: N815 - the API's names
    hostPath: HostPath | None = None  # noqa: N815


class SpecFields(msgspec.Struct):
    """What counts of a pod spec."""

    containers: list[ContainerFields] = []
    initContainers: list[ContainerFields] | None = None  # noqa: N815 - the API's names
    volumes: list[VolumeFields] | None = None
    nodeName: str | None = None  # noqa: N815
    nodeSelector: msgspec.Raw = NULL  # noqa: N815
    affinity: msgspec.Raw = NULL
    tolerations: msgspec.Raw = NULL
    topologySpreadConstraints: msgspec.Raw = NULL  # noqa: N815
    schedulingGates: msgspec.Raw = NULL  # noqa: N815
    resourceClaims: msgspec.Raw = NULL  # noqa: N815
    overhead: msgspec.Raw = NULL
    resources: msgspec.Raw = NULL
    priority: int | None = None


_Key: TypeAlias = tuple[object, ...]
_any = msgspec.json.Decoder()


class Shapes:
    """Shapes by the raw bytes that make them."""

    def __init__(self) -> None:
        self._cache: dict[_Key, ShapeObserved] = {}

    def of(self, namespace: str, labels: Mapping[str, str], spec: SpecFields) -> ShapeObserved:
        """The shape of a pod, with `at` 0.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: a field of the spec that cannot be read.
        """
        key = _key(namespace, labels, spec)
        shape = self._cache.get(key)
        if shape is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            shape = _shape(namespace, labels, spec)
            self._cache[key] = shape
        return shape


def _key(namespace: str, labels: Mapping[str, str], spec: SpecFields) -> _Key:
    containers = [(bytes(c.resources), bytes(c.ports), c.restartPolicy) for c in spec.containers]
    inits = [(bytes(c.resources), bytes(c.ports), c.restartPolicy) for c in spec.initContainers or ()]
    claims = [
        (bytes(volume.persistentVolumeClaim), bytes(volume.ephemeral))
        for volume in spec.volumes or ()
        if volume.persistentVolumeClaim is not NULL or volume.ephemeral is not NULL
    ]
    return (
        namespace,
        spec.priority,
        bytes(spec.nodeSelector),
        bytes(spec.affinity),
        bytes(spec.tolerations),
        bytes(spec.topologySpreadConstraints),
        bytes(spec.schedulingGates),
        bytes(spec.resourceClaims),
        bytes(spec.overhead),
        bytes(spec.resources),
        *containers,
        None,
        *inits,
        None,
        *claims,
        None,
        *labels.items(),
    )


def _shape(namespace: str, labels: Mapping[str, str], spec: SpecFields) -> ShapeObserved:
    fields: dict[str, Any] = {
        name: _any.decode(getattr(spec, name))
        for name in (
            "nodeSelector",
            "affinity",
            "tolerations",
            "topologySpreadConstraints",
            "schedulingGates",
            "resourceClaims",
            "overhead",
            "resources",
        )
    }
    fields["containers"] = [_container(container) for container in spec.containers]
    fields["initContainers"] = [_container(container) for container in spec.initContainers or ()]
    fields["volumes"] = [
        {
            kind: _any.decode(raw)
            for kind, raw in (
                ("persistentVolumeClaim", volume.persistentVolumeClaim),
                ("ephemeral", volume.ephemeral),
            )
            if raw is not NULL
        }
        for volume in spec.volumes or ()
        if volume.persistentVolumeClaim is not NULL or volume.ephemeral is not NULL
    ]
    requests = podspecs.pod_requests(fields)
    scheduling = podspecs.scheduling_fields(fields)
    named = bytes(spec.affinity) + bytes(spec.topologySpreadConstraints)
    own = {
        name: labels[name] for name in sorted(labels) if name not in REVISION_LABELS or name.encode() in named
    }
    priority = spec.priority or 0
    return ShapeObserved(
        at=0.0,
        digest=podspecs.digest_of(requests, scheduling, namespace, own, priority),
        requests=requests,
        scheduling=scheduling,
        namespace=namespace,
        labels=own,
        priority=priority,
    )


def _container(container: ContainerFields) -> dict[str, Any]:
    return {
        "resources": _any.decode(container.resources),
        "ports": _any.decode(container.ports),
        "restartPolicy": container.restartPolicy,
    }
