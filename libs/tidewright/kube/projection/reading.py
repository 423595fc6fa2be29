"""What all projections share: the metadata that facts carry, and how an object that cannot be read is named."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec

from tidewright.events.facts import ObjectFact, Owner, ShapeObserved, TemplateObserved

AGENT = "tidewright"
"""Who we are to API servers, and so the manager of the fields that we write."""
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
        status_is_ours: we were the last to write its status; False where that is not looked at.
    """

    fact: ObjectFact
    resource_version: str
    shape: ShapeObserved | TemplateObserved | None = None
    status_is_ours: bool = False


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


class ReportedCondition(msgspec.Struct):
    """A condition of a pod or node."""

    type: str
    status: str = ""
    reason: str | None = None
    lastTransitionTime: str | None = None  # noqa: N815


class _Named(msgspec.Struct):
    metadata: Meta


_named = msgspec.json.Decoder(_Named)

UNREADABLE = (
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""What reading an object of any content can raise."""

MAX_DEPTH = 64
"""Lists and mappings within each other in what a fact has of an object as it is: readers go down by calling themselves."""
MAX_ANNOTATION = 2**15
"""Characters of one annotation that a fact has."""
MAX_ANNOTATIONS = 2**17
"""Characters of all of them."""
MAX_LABELS = 2**16
"""Characters of an object's labels, which are looked at by every selector."""
MAX_OWNERS = 100
MAX_FINALIZERS = 200


NESTED_BY_SERVERS = 10_000
"""What an API server takes; the decoder gives up where Python's own calls would."""


@contextmanager
def as_nested_as_json_goes() -> Iterator[None]:
    """Have the decoder go down as far as an API server does; for what is skipped, and not walked through.

    Otherwise one object that is nested deeply would hide all others of its list.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, NESTED_BY_SERVERS + before))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


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
        with as_nested_as_json_goes():
            meta = _named.decode(raw).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
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
    return short({name: value for name, value in annotations.items() if name.startswith(POD_ANNOTATIONS)})


def unapplied(annotations: dict[str, str]) -> dict[str, str]:
    """Without kubectl's copy of the object, and without the revision, which has a field of its own."""
    if LAST_APPLIED in annotations or REVISION in annotations:
        annotations = {
            name: value for name, value in annotations.items() if name not in (LAST_APPLIED, REVISION)
        }
    return short(annotations)


left_out: Counter[str] = Counter()
"""Annotations that were too long for a fact, by name, since the start; for a metric of whoever reads objects."""


def short(annotations: dict[str, str]) -> dict[str, str]:
    """Without what is too long to be copied into a fact at each change of its object.

    Deciders read short ones; what is left out is counted in `left_out`.
    """
    total = sum(map(len, annotations.values()))
    if total <= MAX_ANNOTATION:
        return annotations
    kept: dict[str, str] = {}
    room = MAX_ANNOTATIONS
    for name in sorted(annotations, key=lambda name: (len(annotations[name]), name)):
        size = len(annotations[name])
        if size > MAX_ANNOTATION or size > room:
            if name in left_out or len(left_out) < _NAMES_KEPT:
                left_out[name] += 1
            continue
        room -= size
        kept[name] = annotations[name]
    return {name: value for name, value in annotations.items() if name in kept}


_NAMES_KEPT = 100


def checked(meta: Meta, *free: Any) -> None:
    """Refuse metadata that no object needs, and free parts (`spec`, `status`) that are nested too deeply.

    Raises:
        ValueError: the message names the field and what is valid.
    """
    for field, entries, most in (
        ("ownerReferences", meta.ownerReferences, MAX_OWNERS),
        ("finalizers", meta.finalizers, MAX_FINALIZERS),
    ):
        if entries is not None and len(entries) > most:
            raise ValueError(f"metadata.{field} has {len(entries)} entries; at most {most} are read")
    if meta.labels is not None and len(meta.labels) > _FEW_LABELS:
        size = sum(len(name) + len(value) for name, value in meta.labels.items())
        if size > MAX_LABELS:
            raise ValueError(f"metadata.labels have {size} characters; at most {MAX_LABELS} are read")
    for part in free:
        if deeper_than(part, MAX_DEPTH):
            raise ValueError(f"it is nested too deeply; at most {MAX_DEPTH} levels are read")


_FEW_LABELS = MAX_LABELS // 512
"""So many are short whatever they are: the API allows 63 characters of a value and 317 of a name."""


def deeper_than(value: Any, levels: int) -> bool:
    """Whether lists and mappings lie within each other deeper than this. It calls nothing of itself."""
    layer = [value]
    while layer and levels >= 0:
        within: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                within += item.values()
            elif isinstance(item, list):
                within += item
        layer = [item for item in within if isinstance(item, dict | list)]
        levels -= 1
    return bool(layer)
