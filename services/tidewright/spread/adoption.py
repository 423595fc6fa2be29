"""Grouping pods by subset; a pod without a placement is adopted where its node fits best (3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tidewright.events.base import JsonObject
from tidewright.spread import limits
from tidewright.spread.inject import patched
from tidewright.spread.nodeterms import (
    Node,
    merged_terms,
    preference,
    required_terms,
    term_matches,
    tolerates,
)
from tidewright.spread.podjson import InvalidPatch, read_back
from tidewright.spread.pods import Pod
from tidewright.spread.spec import Spread, Subset

UNMATCHED = "kruise.io/workloadspread-fake-subset-name"
"""The group of pods that belong to no subset; the name is reserved by the API."""

_PREFERENCE, _PATCHED, _ROOM = 100, 10, 1

PodObject = Callable[[str], JsonObject]
"""Pod name to what is known of its object: metadata and spec."""


class Groups(msgspec.Struct):
    """Pods of one version by subset, unmatched ones under `UNMATCHED`; and who was adopted."""

    pods: dict[str, list[Pod]]
    adopted: dict[str, str]


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


def rooms(spread: Spread, pods: Sequence[Pod], replicas: int) -> dict[str, int]:
    """Free places per subset, by the annotations alone."""
    room = {}
    for subset in spread.subsets:
        try:
            room[subset.name] = (
                limits.UNLIMITED if subset.limit is None else limits.strict(subset.limit, replicas)
            )
        except limits.NotALimit:
            room[subset.name] = 0
    for pod in pods:
        if pod.placement is not None and pod.placement.name == spread.name and pod.placement.subset in room:
            room[pod.placement.subset] -= 1
    return room


def grouped(
    spread: Spread, pods: Sequence[Pod], replicas: int, nodes: Mapping[str, Node], obj_of: PodObject
) -> Groups:
    """Group one version's pods, in list order, adopting as it goes."""
    room = rooms(spread, pods, replicas)
    groups = Groups({s.name: [] for s in spread.subsets}, {})
    groups.pods[UNMATCHED] = []
    for pod in pods:
        placement = pod.placement
        if placement is not None and placement.name == spread.name and placement.subset:
            name = placement.subset
        else:
            node = nodes.get(pod.node) if pod.node else None
            best = None if node is None else best_subset(spread, obj_of(pod.name), node, room)
            name = UNMATCHED if best is None else best.name
            if best is not None:
                groups.adopted[pod.name] = best.name
                room[best.name] -= 1
        groups.pods[name if name in room else UNMATCHED].append(pod)
    return groups
