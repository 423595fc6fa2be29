"""Deletion costs: who leaves first when the workload shrinks (specification, 3.6)."""

from __future__ import annotations

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
