"""The facts about a pod that decisions use, its version, and the annotation that says where it belongs.

Pod             the compact facts; built from an API object or (in `decide`) from a recorded fact
Placement       the annotation, read: which spread, which subset, which ledger key
annotation      the annotation, written: byte-compatible with the reference
pod_version     the revision of the template, where ledgers are kept per revision (2.6)
leaving_order   who is cheapest to lose, among the pods of one subset (3.6)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidewright.spread.spec import DELETION_COST_ANNOTATION, MATCHED_ANNOTATION

VERSION_IGNORED = "versionIgnored"
POD_TEMPLATE_HASH = "pod-template-hash"
CONTROLLER_REVISION_HASH = "controller-revision-hash"
VERSIONED_KINDS = frozenset({"deployment", "replicaset"})
"""Kinds whose pods get a ledger per revision, in lower case; an option may add to it [Q-8]."""

_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """The controller of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Placement(msgspec.Struct, frozen=True):
    """The annotation: `uid` is the ledger key of a pod that had no name yet when it was placed."""

    name: str = ""
    subset: str = ""
    uid: str = ""


class Pod(msgspec.Struct, frozen=True):
    """One pod.

    Attributes:
        phase: as the API gives it; absent counts as Pending where pods are ranked.
        ready_at: last transition of the Ready condition while it is True, seconds; None when absent.
        unschedulable: condition PodScheduled is False with reason `Unschedulable`.
        cost: the deletion cost annotation as it is, "" when absent.
        restarts: largest count among containers, and among restartable init containers.
    """

    name: str
    uid: str = ""
    generate_name: str = ""
    labels: dict[str, str] = {}
    owner: Owner | None = None
    owner_uids: tuple[str, ...] = ()
    placement: Placement | None = None
    cost: str = ""
    phase: str = ""
    deleting: bool = False
    node: str = ""
    ready: bool = False
    ready_at: float | None = None
    unschedulable: bool = False
    restarts: tuple[int, int] = (0, 0)
    created_at: float | None = None

    @property
    def active(self) -> bool:
        return not self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def key(self) -> str:
        """Its key in the ledger: the generated uid if it was placed without a name, else the name."""
        return self.placement.uid if self.placement is not None and self.placement.uid else self.name


_usual = msgspec.json.Decoder(Placement)


def placement_of(text: str | None) -> Placement | None:
    """Read the annotation; the case of keys does not matter. None: absent, or it cannot be read."""
    if not text:
        return None
    if text.startswith('{"name":'):
        # As everybody writes it; what is not is read with more care below.
        try:
            return _usual.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            pass
    try:
        found = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    read = {"name": "", "subset": "", "uid": ""}
    for key, value in found.items():
        if (known := key.lower()) not in read or value is None:
            continue
        if not isinstance(value, str):
            return None
        read[known] = value
    return Placement(**read)


def annotation(placement: Placement) -> str:
    """Write the annotation: compact JSON in the reference's order, `uid` only if there is one."""
    fields = {"name": placement.name, "subset": placement.subset}
    if placement.uid:
        fields["uid"] = placement.uid
    text = msgspec.json.encode(fields).decode()
    # The reference's encoder escapes these for HTML; an existing fleet carries them so.
    for char, escaped in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escaped)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def controller_of(obj: Mapping[str, Any]) -> Owner | None:
    """The controller owner reference of an API object."""
    for reference in (obj.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            return msgspec.convert(reference, Owner)
    return None


def pod_of(obj: Mapping[str, Any]) -> Pod:
    """A pod from the API's object; times are RFC 3339 text or seconds."""
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    scheduled = conditions.get("PodScheduled") or {}
    is_ready = ready.get("status") == "True"
    return Pod(
        name=meta.get("name") or "",
        uid=meta.get("uid") or "",
        generate_name=meta.get("generateName") or "",
        labels=meta.get("labels") or {},
        owner=controller_of(obj),
        owner_uids=tuple(o.get("uid") or "" for o in meta.get("ownerReferences") or ()),
        placement=placement_of(annotations.get(MATCHED_ANNOTATION)),
        cost=annotations.get(DELETION_COST_ANNOTATION, ""),
        phase=status.get("phase") or "",
        deleting=meta.get("deletionTimestamp") is not None,
        node=spec.get("nodeName") or "",
        ready=is_ready,
        ready_at=seconds(ready.get("lastTransitionTime")) if is_ready else None,
        unschedulable=scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable",
        restarts=_restarts(spec, status),
        created_at=seconds(meta.get("creationTimestamp")),
    )


def _restarts(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[int, int]:
    restartable = {
        c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"
    }
    return (
        max((s.get("restartCount") or 0 for s in status.get("containerStatuses") or ()), default=0),
        max(
            (
                s.get("restartCount") or 0
                for s in status.get("initContainerStatuses") or ()
                if s.get("name") in restartable
            ),
            default=0,
        ),
    )


def seconds(value: str | float | None) -> float | None:
    """A time of the API in seconds since the epoch."""
    if value is None or isinstance(value, int | float):
        return value
    return datetime.fromisoformat(value).timestamp()


def pod_version(
    owner: Owner | None, labels: Mapping[str, str], versioned_kinds: frozenset[str] = VERSIONED_KINDS
) -> str:
    """The revision whose ledger the pod counts in; `versionIgnored` for kinds with one ledger (2.6)."""
    if owner is None or owner.kind.lower() not in versioned_kinds:
        return VERSION_IGNORED
    if POD_TEMPLATE_HASH in labels:
        return labels[POD_TEMPLATE_HASH]
    return (
        short_hash(labels[CONTROLLER_REVISION_HASH])
        if CONTROLLER_REVISION_HASH in labels
        else VERSION_IGNORED
    )


def short_hash(revision: str) -> str:
    """The part of a revision name after its last dash."""
    return revision.rpartition("-")[2]


def leaving_order(pod: Pod) -> tuple[bool, int, bool, float, int, int, float]:
    """Sort key: pods that are cheapest to lose come first (3.6, rules 1 to 6; the list order is rule 7)."""
    return (
        pod.node != "",
        _PHASE_RANK.get(pod.phase, 0),
        pod.ready,
        _newest_first(pod.ready_at) if pod.ready else 0.0,
        -pod.restarts[0],
        -pod.restarts[1],
        _newest_first(pod.created_at),
    )


def _newest_first(at: float | None) -> float:
    return -math.inf if at is None else -at
