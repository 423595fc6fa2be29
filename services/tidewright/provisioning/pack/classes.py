"""Which pods are decided as one: items (a shape and how many pods have it) and equivalence classes.

Spec 3.7, "Equivalence classes", with [B7]: by content, without a limit per controller.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def items(shapes: Iterable[tuple[PodShape, int]]) -> list[Item]:
    """Counts per shape, in the order of first appearance."""
    counted: dict[str, tuple[PodShape, int]] = {}
    for shape, count in shapes:
        known = counted.get(shape.digest)
        counted[shape.digest] = (shape, count if known is None else known[1] + count)
    return [Item(shape, count) for shape, count in counted.values() if count > 0]
