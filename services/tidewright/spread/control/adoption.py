"""Where a pod without a placement fits best: how well its node fits each subset (specification, 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewright.events.base import JsonObject
from tidewright.kube.podapi.merging import read_back
from tidewright.kube.podapi.nodeterms import (
    Node,
    merged_terms,
    preference,
    required_terms,
    term_matches,
    tolerates,
)
from tidewright.kube.strategicmerge import InvalidPatch
from tidewright.kube.workloadspreads.inject import patched
from tidewright.kube.workloadspreads.spec import Spread, Subset

_PREFERENCE, _PATCHED, _ROOM = 100, 10, 1


def fit(obj: Mapping[str, Any], node: Node, subset: Subset, room: int) -> int | None:
    """How well the node a pod runs on fits the subset; None: not at all."""
    spec: Mapping[str, Any] = obj.get("spec") or {}
    tolerations = [*(spec.get("tolerations") or ()), *subset.tolerations]
    if not all(tolerates(tolerations, taint) for taint in node.taints):
        return None
    if subset.required is not None:
        terms = merged_terms(required_terms(spec), subset.required)
        if not any(term_matches(term, node) for term in terms):
            return None
    score = _PREFERENCE * preference(subset.preferred, node)
    if subset.patch and _unchanged(obj, subset.patch):
        score += _PATCHED
    return score + _ROOM if room > 0 else score


def _unchanged(obj: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    try:
        before = read_back(dict(obj))
        after = patched(before, patch)
    except InvalidPatch:
        return False
    return _without_annotations(before) == _without_annotations(after)


def _without_annotations(obj: JsonObject) -> JsonObject:
    meta = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "annotations"}
    return {**obj, "metadata": meta}


def best_subset(spread: Spread, obj: Mapping[str, Any], node: Node, room: Mapping[str, int]) -> Subset | None:
    """The subset with the highest score, the earlier one on a tie."""
    best: Subset | None = None
    highest = -1
    for subset in spread.subsets:
        score = fit(obj, node, subset, room[subset.name])
        if score is not None and score > highest:
            best, highest = subset, score
    return best
