"""Pods without a place, adopted by the node that they run on (specification, 3.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

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


def adopt(g: Gathering, spread: Spread, row: Row, adopted: Mapping[str, Subset]) -> Subset | None:
    """Where the node that a pod without a place runs on fits best (3.3); `adopted` are those of this look before it."""
    obj: JsonObject = {
        "metadata": {"name": row.name, "labels": row.labels},
        "spec": g.state.shapes.get(row.shape, {}),
    }
    room = {}
    replicas = g.replicas
    before = Counter(s.name for name, s in adopted.items() if g.versions.same(g.s.pods[name], row))
    for subset in spread.subsets:
        limit = g.limit(subset, replicas)
        # Places of pods that were not seen yet are taken, too.
        seen, held = g.versions.active(g.s, g.version(row), subset.name), g.held(g.version(row), subset.name)
        taken = max(seen + before[subset.name], held)
        room[subset.name] = limits.UNLIMITED if limit is None else limit - taken
    best = best_subset(spread, obj, g.state.nodes[row.node], room)
    if best is None:
        return None
    patch = adoption_patch(spread, best)
    because = Because(rule="Adopted", values={"pod": row.name, "node": row.node, "subset": best.name})
    g.patch_pod(row, patch, because)
    if g.mode.acts:
        g.change("Held", row.name, g.version(row), subset=best.name, pod=row.name, reason="Adopted")
    return best
