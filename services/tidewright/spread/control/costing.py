"""Deletion costs as decisions (specification, 3.6): only those that change are asked for.

all_costs     of all pods
costs_after   those that one pod's change may have changed
"""

from __future__ import annotations

from functools import lru_cache

from tidewright.events.base import Because, JsonObject
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION, Spread, Subset
from tidewright.spread.control.costs import COST_KINDS, regular_cost, surplus_cost, unmatched_cost
from tidewright.spread.control.gathering import Gathering
from tidewright.spread.state import Row


@lru_cache(maxsize=256)
def _cost_patch(text: str) -> JsonObject:
    """The patch that sets a cost: one object for all pods, which nobody changes."""
    return {"metadata": {"annotations": {DELETION_COST_ANNOTATION: text}}}


def _costed(g: Gathering) -> bool:
    spread = g.s.spread
    return spread is not None and spread.target is not None and spread.target.kind in COST_KINDS


def all_costs(g: Gathering, spread: Spread, adopted: dict[str, Subset]) -> None:
    """The costs of all pods (3.6)."""
    if not _costed(g):
        return
    groups: dict[str, dict[str, list[Row]]] = {}
    mine, known = g.s.name, {subset.name for subset in spread.subsets}
    version_of = g.version
    for row in g.s.pods.values():
        if not row.active:
            continue
        subset = row.subset if row.placed_by == mine and row.subset in known else ""
        if adopted and row.name in adopted:
            subset = adopted[row.name].name
        version = version_of(row)
        of_version = groups.get(version)
        if of_version is None:
            of_version = groups[version] = {}
        rows = of_version.get(subset)
        if rows is None:
            of_version[subset] = [row]
        else:
            rows.append(row)
    for version, of_version in groups.items():
        for subset, rows in of_version.items():
            _group_costs(g, spread, version, subset, rows)


def _group_costs(g: Gathering, spread: Spread, version: str, subset: str, rows: list[Row]) -> None:
    count = len(spread.subsets)
    position = next((i for i, s in enumerate(spread.subsets) if s.name == subset), None)
    if position is None:
        for row in rows:
            _ask(g, row, unmatched_cost(count), "Unmatched", subset)
        return
    index = position if version == g.latest else count - 1 - position
    limit = g.limit(spread.subsets[position], g.replicas)
    surplus = 0 if limit is None else max(0, len(rows) - limit)
    leaving: set[str] = set()
    if surplus:
        leaving = {row.name for row in sorted(rows, key=Row.leaving_order)[:surplus]}
    regular, extra = regular_cost(index, count), surplus_cost(index)
    usual = str(regular)
    for row in rows:
        if leaving and row.name in leaving:
            _ask(g, row, extra, "Surplus", subset)
        elif (row.asked or row.cost) != usual:
            _ask(g, row, regular, "WithinLimit", subset)


def _ask(g: Gathering, row: Row, cost: int, rule: str, subset: str) -> None:
    text = str(cost)
    if text == (row.asked or row.cost):
        return
    because = Because(rule=rule, values={"pod": row.name, "subset": subset, "cost": cost})
    g.patch_pod(row, _cost_patch(text), because)


def costs_after(
    g: Gathering, spread: Spread, before: Row | None, after: Row | None, adopted: dict[str, Subset]
) -> None:
    """The costs that one pod's change may have changed: its own, and its group's when that is over its limit."""
    if not _costed(g):
        return
    if before is not None and after is not None and not adopted and _unmoved(g, spread, before, after):
        return
    count = len(spread.subsets)
    for row in (before, after):
        if row is None or (row is before and after is not None and _same_group(g, before, after)):
            continue
        best = adopted.get(row.name) if row is after else None
        subset = best.name if best is not None else g.subset_of(spread, row)
        position = next((i for i, s in enumerate(spread.subsets) if s.name == subset), None)
        if position is None:
            if row is after and row.active:
                _ask(g, row, unmatched_cost(count), "Unmatched", subset)
            continue
        limit = g.limit(spread.subsets[position], g.replicas)
        version = g.version(row)
        active = g.versions.active(g.s, version, subset) + (1 if best is not None else 0)
        index = position if version == g.latest else count - 1 - position
        was = active + _was_more(g, before, after, row)
        if limit is None or max(active, was) <= limit:
            if row is after and row.active:
                _ask(g, row, regular_cost(index, count), "WithinLimit", subset)
        elif not _settled(g, before, after, surplus_cost(index)):
            rows = [
                r
                for r in g.s.pods.values()
                if r.active and g.version(r) == version and (r is row or g.subset_of(spread, r) == subset)
            ]
            _group_costs(g, spread, version, subset, rows)


def _unmoved(g: Gathering, spread: Spread, before: Row, after: Row) -> bool:
    """The usual event: an active pod within its subset's limit stays so, and has its cost already."""
    if not (before.active and after.active and _same_group(g, before, after)):
        return False
    known = after.asked or after.cost
    if not known or known.startswith("-") or known != (before.asked or before.cost):
        return False
    subset = spread.subset(after.subset) if after.placed_by == g.s.name else None
    if subset is None:
        return False
    limit = g.limit(subset, g.replicas) if subset.limit is not None else None
    version = g.version(after)
    if limit is not None and g.versions.active(g.s, version, after.subset) > limit:
        return False
    count, position = len(spread.subsets), spread.subsets.index(subset)
    index = position if version == g.latest else count - 1 - position
    return known == str(regular_cost(index, count))


def _same_group(g: Gathering, before: Row | None, after: Row) -> bool:
    return (
        before is not None
        and before.subset == after.subset
        and before.placed_by == after.placed_by
        and g.versions.same(before, after)
    )


def _was_more(g: Gathering, before: Row | None, after: Row | None, row: Row) -> int:
    """How many more active pods the row's group had before the change."""
    if after is None or row is before:
        return 1 if before is not None and before.active else 0
    if before is not None and _same_group(g, before, after):
        return int(before.active) - int(after.active)
    return -1 if after.active else 0


def _settled(g: Gathering, before: Row | None, after: Row | None, surplus: int) -> bool:
    """Whether the order of leaving is what it was: a surplus pod went, or nothing that ranks a pod changed."""
    if before is None:
        return False
    if after is None or (before.active and not after.active):
        return before.active and (before.asked or before.cost) == str(surplus)
    return (
        _same_group(g, before, after)
        and before.active == after.active
        and before.leaving_order() == after.leaving_order()
        and before.cost == after.cost
        and bool(after.asked or after.cost)
    )
