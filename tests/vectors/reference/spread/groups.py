"""Pods of one version by subset, adopted as they are grouped, and what each of them is to cost (3.3, 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.limits import in_force, lenient
from tests.vectors.reference.spread.pods import ListedPod, belongs, leaving_order
from tests.vectors.reference.spread.ways import Ways
from tidewright.events.base import JsonObject
from tidewright.kube.podapi.nodeterms import Node
from tidewright.kube.workloadspreads import limits
from tidewright.kube.workloadspreads.spec import Spread, Subset
from tidewright.spread.control.adoption import best_subset
from tidewright.spread.control.costs import regular_cost, surplus_cost, unmatched_cost

UNMATCHED = "kruise.io/workloadspread-fake-subset-name"
"""The group of pods that belong to no subset; the name is reserved by the API."""


PodObject = Callable[[str], JsonObject]
"""Pod name to what is known of its object: metadata and spec."""


class Groups(msgspec.Struct):
    """Pods of one version by subset, unmatched ones under `UNMATCHED`; and who was adopted."""

    pods: dict[str, list[ListedPod]]
    adopted: dict[str, str]


def rooms(spread: Spread, pods: Sequence[ListedPod], replicas: int) -> dict[str, int]:
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
        if pod.placement is not None and belongs(pod, spread) and pod.placement.subset in room:
            room[pod.placement.subset] -= 1
    return room


def grouped(
    spread: Spread,
    pods: Sequence[ListedPod],
    room: dict[str, int],
    nodes: Mapping[str, Node],
    obj_of: PodObject,
    ways: Ways,
) -> Groups:
    """Group one version's pods, in list order, adopting as it goes: each takes of the `room` per subset."""
    groups = Groups({s.name: [] for s in spread.subsets}, {})
    groups.pods[UNMATCHED] = []
    for pod in pods:
        placement = pod.placement
        if placement is not None and belongs(pod, spread):
            name = placement.subset
        else:
            node = nodes.get(pod.node) if pod.node else None
            if not pod.active and w.ENDED_POD in ways:
                node = None
            best = None if node is None else best_subset(spread, obj_of(pod.name), node, room)
            name = UNMATCHED if best is None else best.name
            if best is not None:
                groups.adopted[pod.name] = best.name
                room[best.name] -= 1
        groups.pods[name if name in room else UNMATCHED].append(pod)
    return groups


def version_costs(
    spread: Spread, groups: Mapping[str, Sequence[ListedPod]], replicas: int, ways: Ways, *, latest: bool
) -> Iterator[tuple[ListedPod, int]]:
    """The wanted cost of every active pod of one version.

    Old versions count the subsets from the back, so that they leave from the front while the new
    version fills up there. A subset whose limit is no number gets no costs.
    """
    count = len(spread.subsets)
    for position, subset in enumerate(spread.subsets):
        index = position if latest else count - 1 - position
        active = [p for p in groups.get(subset.name, ()) if p.active]
        surplus = surplus_of(subset, len(active), replicas, ways)
        if surplus is None:
            continue
        if w.LIST_ORDER in ways:
            active.sort(key=lambda pod: pod.name)
        leaving = {p.name for p in sorted(active, key=leaving_order)[:surplus]} if surplus else set()
        for pod in active:
            yield pod, surplus_cost(index) if pod.name in leaving else regular_cost(index, count)
    for pod in groups.get(UNMATCHED, ()):
        if pod.active:
            yield pod, unmatched_cost(count)


def surplus_of(subset: Subset, active: int, replicas: int, ways: Ways) -> int | None:
    """Active pods beyond the limit, read leniently; None when it is no number, or negative."""
    if subset.limit is None:
        return 0
    if w.LIMIT_NO_NUMBER in ways:
        return max(0, active - (in_force(subset.limit, replicas) or 0))
    try:
        limit = lenient(subset.limit, replicas)
    except limits.NotALimit:
        return None
    return None if limit < 0 else max(0, active - limit)
