"""Which pods are decided as one: items (a shape and how many pods have it) and equivalence classes.

Spec 3.7, "Equivalence classes", with [B7]: by content, without a limit per controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidewright.kube.podshape import PodShape


class Item(msgspec.Struct, frozen=True):
    """So many pods of one shape."""

    shape: PodShape
    count: int


class Demand(msgspec.Struct):
    """So many pods of one shape that still lack a place; counts down as they find one."""

    shape: PodShape
    count: int


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """One pod as the rules about pods see it.

    Attributes:
        created_at: log-time seconds of its creation, as Kubernetes stamped it.
        owner_kind, owner_uid: its controller; empty without one.
    """

    name: str
    shape: PodShape
    namespace: str = ""
    annotations: dict[str, str] = {}
    created_at: float = 0.0
    owner_kind: str = ""
    owner_uid: str = ""


def items(shapes: Iterable[tuple[PodShape, int]]) -> list[Item]:
    """Counts per shape, in the order of first appearance."""
    found: dict[str, tuple[PodShape, int]] = {}
    for shape, count in shapes:
        known = found.get(shape.digest)
        found[shape.digest] = (shape, count if known is None else known[1] + count)
    return [Item(shape, count) for shape, count in found.values() if count > 0]


def equivalence(pods: Sequence[Pending]) -> list[list[Pending]]:
    """Pods of one controller and one content form a class; each pod without, and of a DaemonSet, its own.

    For reports about pods: packing itself needs no controllers and joins equal shapes.
    """
    found: dict[tuple[str, str], list[Pending]] = {}
    for index, pod in enumerate(pods):
        alone = not pod.owner_uid or pod.owner_kind == "DaemonSet"
        key = (f"#{index}" if alone else pod.owner_uid, pod.shape.digest)
        found.setdefault(key, []).append(pod)
    return list(found.values())
