"""What all projections share: the metadata that facts carry, and how an object that cannot be read is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from tidewright.events.facts import ObjectFact, Owner, ShapeObserved, TemplateObserved
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


class OwnerReference(msgspec.Struct):
    """One of an object's owners, under the API's names."""

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
    ownerReferences: list[OwnerReference] | None = None  # noqa: N815


class Condition(msgspec.Struct):
    """A condition of a pod or node."""

    type: str
    status: str = ""
    reason: str | None = None
    lastTransitionTime: str | None = None  # noqa: N815


class _Named(msgspec.Struct):
    metadata: Meta


_named = msgspec.json.Decoder(_Named)

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


def malformed(kind: str, raw: Bytes, error: Exception) -> Malformed:
    """The error that names the object, if its metadata can be read."""
    try:
        who = identity(raw)
        where = f"{kind} {who.namespace}/{who.name}" if who.namespace else f"{kind} {who.name}"
    except Malformed:
        where = f"a {kind} without readable metadata"
    return Malformed(f"{where} cannot be read: {error}")


def moment(text: str | None) -> float | None:
    """A time of the API in seconds."""
    return None if text is None else seconds(text)


def owners(references: list[OwnerReference] | None) -> tuple[Owner, ...]:
    """Owner references as facts have them."""
    if not references:
        return ()
    return tuple(
        Owner(kind=r.kind, name=r.name, uid=r.uid, api_version=r.apiVersion, controller=bool(r.controller))
        for r in references
    )


def wanted(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Of a pod's or node's annotations those that deciders look at."""
    if not annotations:
        return {}
    return {name: value for name, value in annotations.items() if name.startswith(POD_ANNOTATIONS)}


def unapplied(annotations: dict[str, str]) -> dict[str, str]:
    """Without kubectl's copy of the object, and without the revision, which has a field of its own."""
    if LAST_APPLIED not in annotations and REVISION not in annotations:
        return annotations
    return {name: value for name, value in annotations.items() if name not in (LAST_APPLIED, REVISION)}
