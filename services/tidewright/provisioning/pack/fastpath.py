"""Which class the reference would pack without simulation, were its fast path on. Spec 3.7, "Fast path".

Packing here always counts; this tells which class the reference moves to the end, for comparing runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import repels


class FastClass(msgspec.Struct, frozen=True):
    """One class: its shape, whose requests are those of the first container, and its pods."""

    shape: PodShape
    count: int


def fast_class(classes: Sequence[FastClass], capacity: Mapping[str, int]) -> int:
    """Index of the class with the largest saving, the last of equals; -1 when none is eligible.

    The saving is pods - pods/nodes in whole numbers, 0 when the number of nodes is not known.
    """
    best, chosen = -1, -1
    for index, found in enumerate(classes):
        shape = found.shape
        if shape.spread or any(t.key != HOSTNAME for t in (*shape.affinity, *shape.anti_affinity)):
            continue
        nodes = found.count if repels(shape, shape, HOSTNAME) else 0
        for name in ("cpu", "memory"):
            if capacity.get(name):
                nodes = max(nodes, -(-found.count * shape.requests.get(name, 0) // capacity[name]))
        score = found.count - found.count // nodes if nodes else 0
        if score >= best:
            best, chosen = score, index
    return chosen
