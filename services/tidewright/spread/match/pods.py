"""The facts about a pod that decisions use, and its version.

Pod             the compact facts; built from an API object or (in `decide`) from a recorded fact
revision_of     the revision of the template, as labels say it
version_of      the revision whose ledger counts, where ledgers are kept per revision (2.6)
pod_version     the same of an owner and labels
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidewright.kube.workloadspreads.placements import Placement, placement_of
from tidewright.kube.workloadspreads.spec import MATCHED_ANNOTATION

VERSION_IGNORED = "versionIgnored"
POD_TEMPLATE_HASH = "pod-template-hash"
CONTROLLER_REVISION_HASH = "controller-revision-hash"
VERSIONED_KINDS = frozenset({"deployment", "replicaset"})
"""Kinds whose pods get a ledger per revision, in lower case; an option may add to it [Q-8]."""


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """The controller of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Pod(msgspec.Struct, frozen=True):
    """One pod.

    Attributes:
        phase: as the API gives it.
    """

    name: str
    uid: str = ""
    generate_name: str = ""
    labels: dict[str, str] = {}
    owner: Owner | None = None
    placement: Placement | None = None
    phase: str = ""
    deleting: bool = False

    @property
    def active(self) -> bool:
        return not self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def key(self) -> str:
        """Its key in the ledger: the generated uid if it was placed without a name, else the name."""
        return self.placement.uid if self.placement is not None and self.placement.uid else self.name


def controller_of(obj: Mapping[str, Any]) -> Owner | None:
    """The controller owner reference of an API object."""
    for reference in (obj.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            return msgspec.convert(reference, Owner)
    return None


def pod_of(obj: Mapping[str, Any]) -> Pod:
    """A pod from the API's object."""
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    return Pod(
        name=meta.get("name") or "",
        uid=meta.get("uid") or "",
        generate_name=meta.get("generateName") or "",
        labels=meta.get("labels") or {},
        owner=controller_of(obj),
        placement=placement_of(annotations.get(MATCHED_ANNOTATION)),
        phase=status.get("phase") or "",
        deleting=meta.get("deletionTimestamp") is not None,
    )


def pod_version(
    owner: Owner | None, labels: Mapping[str, str], versioned_kinds: frozenset[str] = VERSIONED_KINDS
) -> str:
    """The revision whose ledger the pod counts in; `versionIgnored` for kinds with one ledger (2.6)."""
    if owner is None:
        return VERSION_IGNORED
    return version_of(owner.kind.lower(), revision_of(labels), versioned_kinds)


def version_of(kind: str, revision: str, versioned_kinds: frozenset[str]) -> str:
    """The revision of a kind (in lower case) whose ledger counts; `versionIgnored` for kinds with one ledger (2.6)."""
    return revision if kind in versioned_kinds else VERSION_IGNORED


def revision_of(labels: Mapping[str, str]) -> str:
    """The revision of the template that a pod was made of; `versionIgnored` where its labels tell of none."""
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
