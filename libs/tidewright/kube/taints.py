"""Taints and tolerations: which taint keeps a pod away.

Taints come decoded by whoever reads nodes, hence the protocols; the rule is one for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
"""The taint of a node that is being removed; its value is when that began, unix seconds."""
DELETION_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
"""The soft taint of a node that is not needed and waits; its value is since when, unix seconds."""
DRAIN = "tidewright.dev/drain"
"""Annotation of a node with our `TO_BE_DELETED`: the id of the decision to remove it; ` cordoned` behind it where
the cordon is ours, too."""
UNNEEDED = "tidewright.dev/unneeded"
"""Annotation of a node with our `DELETION_CANDIDATE`."""
MARKS = {TO_BE_DELETED: (DRAIN, "NoSchedule"), DELETION_CANDIDATE: (UNNEEDED, "PreferNoSchedule")}
"""Taints of removals to the annotation that says that they are ours, and to their effect."""
CORDONED = " cordoned"
"""Behind a decision's id in `DRAIN`: the node was schedulable before."""

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep a pod away; `PreferNoSchedule` is a preference."""


class TaintLike(Protocol):
    """A taint, whoever decoded it."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class TolerationLike(TaintLike, Protocol):
    """A toleration, whoever decoded it."""

    @property
    def operator(self) -> str: ...


def tolerates(toleration: TolerationLike, taint: TaintLike) -> bool:
    """Whether one toleration covers a taint. Exact and case-sensitive; an empty effect covers every effect."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


class Taint(msgspec.Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True):
    """An empty key with `Exists` tolerates everything; an empty effect, every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        return tolerates(self, taint)


def taints_of(taints: Iterable[Mapping[str, str]]) -> tuple[Taint, ...]:
    return tuple(
        Taint(t.get("key", ""), t.get("value") or "", t.get("effect") or "NoSchedule") for t in taints
    )
