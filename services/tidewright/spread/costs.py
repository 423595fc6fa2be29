"""Deletion costs: who leaves first when the workload shrinks (specification, 3.6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidewright.spread import limits
from tidewright.spread.adoption import UNMATCHED
from tidewright.spread.pods import Pod, leaving_order
from tidewright.spread.spec import Spread, Subset

COST_KINDS = frozenset({"ReplicaSet", "Deployment", "CloneSet"})
"""Kinds whose controllers look at the cost."""

UNIT = 100


def regular_cost(index: int, count: int) -> int:
    """Of a pod within its subset's limit: earlier subsets are dearer."""
    return UNIT * (count - index)


def surplus_cost(index: int) -> int:
    """Of a pod beyond its subset's limit: below every regular one, later subsets first."""
    return -UNIT * (index + 1)


def unmatched_cost(count: int) -> int:
    """Of a pod in no subset: below every other."""
    return -UNIT * (count + 1)


def version_costs(
    spread: Spread, groups: Mapping[str, Sequence[Pod]], replicas: int, *, latest: bool
) -> Iterator[tuple[Pod, int]]:
    """The wanted cost of every active pod of one version.

    Old versions count the subsets from the back, so that they leave from the front while the new
    version fills up there. A subset whose limit is no number gets no costs.
    """
    count = len(spread.subsets)
    for position, subset in enumerate(spread.subsets):
        index = position if latest else count - 1 - position
        active = [p for p in groups.get(subset.name, ()) if p.active]
        surplus = surplus_of(subset, len(active), replicas)
        if surplus is None:
            continue
        leaving = {p.name for p in sorted(active, key=leaving_order)[:surplus]} if surplus else set()
        for pod in active:
            yield pod, surplus_cost(index) if pod.name in leaving else regular_cost(index, count)
    for pod in groups.get(UNMATCHED, ()):
        if pod.active:
            yield pod, unmatched_cost(count)


def surplus_of(subset: Subset, active: int, replicas: int) -> int | None:
    """Active pods beyond the limit, read leniently; None when it is no number, or negative."""
    if subset.limit is None:
        return 0
    try:
        limit = limits.lenient(subset.limit, replicas)
    except limits.NotALimit:
        return None
    return None if limit < 0 else max(0, active - limit)
