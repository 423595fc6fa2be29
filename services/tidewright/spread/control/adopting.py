"""Pods without a place, adopted by the node that they run on (specification, 3.3)."""

from __future__ import annotations

from collections import Counter

from tidewright.events.base import Because, JsonObject
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.inject import adoption_patch
from tidewright.kube.workloadspreads.spec import Spread, Subset
from tidewright.spread.control.adoption import best_subset
from tidewright.spread.control.gathering import Gathering
from tidewright.spread.state import Row


def adoptable(g: Gathering, spread: Spread, row: Row) -> bool:
    """Whether a pod runs on a known node and belongs to no subset."""
    return bool(row.node) and row.active and not g.belongs(row) and row.node in g.state.nodes


def adopt(g: Gathering, spread: Spread, row: Row, before: Counter[tuple[str, str]]) -> Subset | None:
    """Where the node that a pod without a place runs on fits best (3.3); `before`: by version and subset how many this look has adopted, which it counts on."""
    obj: JsonObject = {
        "metadata": {"name": row.name, "labels": row.labels},
        "spec": g.state.shapes.get(row.shape, {}),
    }
    room = {}
    replicas, version = g.replicas, g.version(row)
    for subset in spread.subsets:
        limit = g.limit(subset, replicas)
        # Places of pods that were not seen yet are taken, too.
        seen, held = g.versions.active(g.s, version, subset.name), g.held(version, subset.name)
        taken = max(seen + before[version, subset.name], held)
        room[subset.name] = limits.UNLIMITED if limit is None else limit - taken
    best = best_subset(spread, obj, g.state.nodes[row.node], room)
    if best is None:
        return None
    patch = adoption_patch(spread, best)
    because = Because(rule="Adopted", values={"pod": row.name, "node": row.node, "subset": best.name})
    g.patch_pod(row, patch, because)
    if g.mode.acts:
        g.change("Held", row.name, version, subset=best.name, pod=row.name, reason="Adopted")
    before[version, best.name] += 1
    return best
