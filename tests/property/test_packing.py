"""Packing beside an exact solver and beside the reference's estimator, both written here on their own.

The optimum comes from an integer program (highspy), the reference's answer from its algorithm as spec
3.7 states it, pod by pod. What the estimate says of each node is added up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import highspy
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidewright.kube.podshape import HOSTNAME, NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import estimate
from tidewright.provisioning.pack.templates import Estimate, Template

CPU, MEMORY, PODS = 1000, 4000, 8
RESOURCES = ("cpu", "memory", "pods")
NODE = dict(zip(RESOURCES, (CPU, MEMORY, PODS), strict=True))


def shape(name: int, cpu: int, memory: int, *, alone: bool = False) -> PodShape:
    labels = {"app": f"a{name}"}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return of_fields(
        requests={"cpu": cpu, "memory": memory},
        scheduling={"affinity": affinity} if alone else {},
        namespace="ns",
        labels=labels,
    )


def template() -> Template:
    return Template(view=NodeView(name="t", labels={HOSTNAME: "t"}, allocatable=NODE))


@st.composite
def demands(draw: st.DrawFn, most: int, *, apart: bool = False) -> list[Item]:
    """Some shapes with counts, each of which fits on an empty node."""
    count = draw(st.integers(1, 4))
    return [
        Item(
            shape(
                i,
                draw(st.integers(1, 20)) * 50,
                draw(st.integers(0, 20)) * 200,
                alone=apart and draw(st.booleans()),
            ),
            draw(st.integers(1, most)),
        )
        for i in range(count)
    ]


def amount(item: Item, resource: str) -> int:
    return item.shape.requests.get(resource, 0)


def optimum(items: Sequence[Item], bins: int) -> int:
    """The fewest nodes that hold all pods: an integer program with pods per node as unknowns.

    Args:
        items: what is to be placed; all of it fits on `bins` nodes.
        bins: nodes that are enough.
    """
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # its constructor has no annotations
    solver.setOptionValue("output_flag", False)
    infinity = highspy.kHighsInf
    kinds = len(items)
    columns = bins * kinds + bins  # pods of each kind per node, then whether the node is used
    for _ in range(bins):
        for item in items:
            solver.addVar(0, item.count)
    for _ in range(bins):
        solver.addVar(0, 1)
    for column in range(columns):
        solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    for column in range(bins * kinds, columns):
        solver.changeColCost(column, 1.0)

    def row(low: float, high: float, terms: Sequence[tuple[int, float]]) -> None:
        found = [(index, value) for index, value in terms if value]
        solver.addRow(
            low,
            high,
            len(found),
            np.array([index for index, _ in found], dtype=np.int32),
            np.array([value for _, value in found], dtype=np.float64),
        )

    for kind, item in enumerate(items):
        row(item.count, item.count, [(node * kinds + kind, 1.0) for node in range(bins)])
    for node in range(bins):
        used = bins * kinds + node
        for resource in RESOURCES:
            terms = [(node * kinds + k, float(amount(item, resource))) for k, item in enumerate(items)]
            row(-infinity, 0.0, [*terms, (used, -float(NODE[resource]))])
        if node:
            row(-infinity, 0.0, [(used, 1.0), (used - 1, -1.0)])  # nodes are used in their order
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return round(solver.getInfo().objective_function_value)


def reference(items: Sequence[Item], limit: int) -> tuple[int, int]:
    """The reference's estimator of spec 3.7, pod by pod: (nodes with a pod, pods placed)."""

    def score(item: Item) -> float:
        return amount(item, "cpu") / CPU + amount(item, "memory") / MEMORY

    order = sorted(items, key=lambda i: (-score(i), -i.count, i.shape.digest))
    nodes: list[tuple[dict[str, int], list[str]]] = []
    pointer, placed, grow = 0, 0, True

    def fits(item: Item, node: tuple[dict[str, int], list[str]]) -> bool:
        free, held = node
        if item.shape.anti_affinity and item.shape.digest in held:
            return False
        return all(free[r] >= amount(item, r) for r in RESOURCES)

    def put(item: Item, node: tuple[dict[str, int], list[str]]) -> None:
        free, held = node
        for r in RESOURCES:
            free[r] -= amount(item, r)
        held.append(item.shape.digest)

    for item in order:
        rest = item.count
        while rest and nodes:
            turn = [(pointer + k) % len(nodes) for k in range(len(nodes))]
            where = next((k for k in turn if fits(item, nodes[k])), None)
            if where is None:
                break
            put(item, nodes[where])
            pointer = (where + 1) % len(nodes)
            rest, placed = rest - 1, placed + 1
        if not grow:
            continue
        while rest:
            if nodes:
                if fits(item, nodes[-1]):
                    put(item, nodes[-1])
                    rest, placed = rest - 1, placed + 1
                    continue
                if not nodes[-1][1]:
                    break
            if 0 < limit <= len(nodes):
                grow = False
                break
            nodes.append((dict(NODE), []))
            if not fits(item, nodes[-1]):
                break
            put(item, nodes[-1])
            rest, placed = rest - 1, placed + 1
    return sum(bool(held) for _, held in nodes), placed


def added_up(items: Sequence[Item], found: Estimate) -> None:
    """What the layouts say is possible, and is what the estimate says."""
    by_digest = {item.shape.digest: item for item in items}
    placed = dict.fromkeys(by_digest, 0)
    for layout in found.layouts:
        for resource in RESOURCES:
            taken = sum(amount(by_digest[d], resource) * n for d, n in layout.pods.items())
            assert taken <= NODE[resource]
        for digest, pods in layout.pods.items():
            placed[digest] += pods * layout.nodes
            if by_digest[digest].shape.anti_affinity:
                assert pods == 1
    assert sum(layout.nodes for layout in found.layouts) == found.nodes
    assert tuple(placed[item.shape.digest] for item in items) == found.placed


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(demands(6))
def test_small_cases_are_within_eleven_ninths_of_the_optimum(items: list[Item]) -> None:
    found = estimate(items, template())
    added_up(items, found)
    assert found.pods == sum(item.count for item in items)
    best = optimum(items, found.nodes)
    assert found.nodes * 9 <= best * 11 + 6


@settings(max_examples=500, deadline=None)
@given(demands(40, apart=True), st.integers(0, 12))
def test_never_more_nodes_than_the_reference_and_never_fewer_pods(items: list[Item], limit: int) -> None:
    found = estimate(items, template(), limit)
    added_up(items, found)
    nodes, pods = reference(items, limit)
    assert found.pods >= pods
    if found.pods == pods:
        assert found.nodes <= nodes
    if limit:
        assert found.nodes <= limit


@settings(max_examples=150, deadline=None)
@given(demands(200, apart=True), st.integers(0, 30), st.randoms(use_true_random=False))
def test_the_order_in_which_shapes_come_changes_nothing(
    items: list[Item], limit: int, chance: Random
) -> None:
    first = estimate(items, template(), limit)
    shuffled = list(items)
    chance.shuffle(shuffled)
    second = estimate(shuffled, template(), limit)
    assert second.nodes == first.nodes
    assert second.layouts == first.layouts
    by_digest = {item.shape.digest: n for item, n in zip(shuffled, second.placed, strict=True)}
    assert tuple(by_digest[item.shape.digest] for item in items) == first.placed


@settings(max_examples=100, deadline=None)
@given(demands(10))
def test_a_larger_limit_never_places_fewer_pods(items: list[Item]) -> None:
    placed = [estimate(items, template(), limit).pods for limit in (1, 2, 3, 5, 8, 0)]
    assert placed == sorted(placed)
