"""Pods that share claims, placed on nodes and estimated on new ones, against rules checked from scratch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewright.kube.devices.claims import Claimed, parse
from tidewright.kube.devices.devices import device
from tidewright.kube.devices.stock import Stock
from tidewright.kube.podshape import PODS, NodeView, PodShape
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import estimate
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.templates import Template
from tidewright.provisioning.requests.search import place_sets


def claim(devices: int, name: str = "") -> Claimed:
    spec = {"requests": [{"name": "r", "exactly": {"deviceClassName": "any", "count": devices}}]}
    return msgspec.structs.replace(parse(spec, lambda _: ()), claim=name and f"ns/{name}")


SHARED = {"k0": 1, "k1": 2}
"""Claims by name, and how many devices they ask for."""


@st.composite
def sets(draw: st.DrawFn, always: Sequence[str] = ()) -> tuple[Item, ...]:
    """Kinds of pods: how much cpu, which shared claims, and a claim of their own or none."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from(sorted(SHARED)), unique=True, max_size=2))
        names = sorted({*names, *always})
        own = draw(st.integers(0, 1))
        shape = PodShape(
            digest=f"{number}-{own}-{','.join(names)}",
            namespace="ns",
            requests={"cpu": draw(st.integers(1, 2)), PODS: 1},
            claims=(*(claim(SHARED[name], name) for name in names), *([claim(1)] if own else [])),
        )
        found.append(Item(shape, draw(st.integers(1, 4))))
    return tuple(found)


nodes = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 5)), min_size=1, max_size=4)
"""Cpu and devices of each."""


def view(name: str, cpu: int, devices: int) -> NodeView:
    stock = Stock([device("d", name, {"name": f"{i}"}) for i in range(devices)]) if devices else None
    return NodeView(name=name, allocatable={"cpu": cpu, PODS: 110}, stock=stock)


def holds(items: Iterable[Item], cpu: int, devices: int) -> bool:
    """Whether a node holds these pods, the claims that they share once."""
    held = [item for item in items if item.count]
    names = {c.claim for item in held for c in item.shape.claims if c.claim}
    wanted = sum(SHARED[name.removeprefix("ns/")] for name in names)
    wanted += sum(item.count for item in held if any(not c.claim for c in item.shape.claims))
    return sum(item.count * item.shape.requests["cpu"] for item in held) <= cpu and wanted <= devices


def lie(
    items: Sequence[Item], held: Mapping[str, Mapping[str, int]], sizes: Mapping[str, tuple[int, int]]
) -> None:
    """Every node holds what is on it, and every shared claim is on one node."""
    shapes = {item.shape.digest: item.shape for item in items}
    for node, pods in held.items():
        assert holds([Item(shapes[digest], n) for digest, n in pods.items()], *sizes[node]), node
    for name in SHARED:
        users = {
            node for node, pods in held.items() for digest in pods if pods[digest] and name in digest
        }  # fmt: skip
        assert len(users) <= 1, (name, users)


def grid_of(found: Sequence[tuple[int, int]]) -> Grid:
    grid = Grid()
    for number, (cpu, devices) in enumerate(found):
        grid.add_node(view(f"n{number}", cpu, devices))
    return grid


def on_nodes(grid: Grid) -> dict[str, dict[str, int]]:
    return {name: grid.held(row) for name, row in grid.rows.items()}


@settings(max_examples=120, deadline=None)
@given(sets(), nodes, st.booleans())
def test_what_is_placed_lies_by_the_rules(
    items: tuple[Item, ...], found: list[tuple[int, int]], growing: bool
) -> None:
    grid = grid_of(found)
    placed = place_sets(grid, items, growing=growing)
    held = on_nodes(grid)
    lie(items, held, {f"n{number}": size for number, size in enumerate(found)})
    for item, n in zip(items, placed, strict=True):
        assert n == sum(pods.get(item.shape.digest, 0) for pods in held.values()) <= item.count


@settings(max_examples=120, deadline=None)
@given(sets(always=("k0",)), nodes)
def test_pods_of_one_claim_are_all_placed_where_a_node_holds_them_all(
    items: tuple[Item, ...], found: list[tuple[int, int]]
) -> None:
    fits = any(holds(items, *size) for size in found)
    total = sum(item.count for item in items)
    assert (sum(place_sets(grid_of(found), items)) == total) is fits
    assert sum(place_sets(grid_of(found), items, growing=True)) == (total if fits else 0)
    [first, *_] = items
    most = max(
        n for n in range(first.count + 1) if not n or any(holds([Item(first.shape, n)], *s) for s in found)
    )
    assert place_sets(grid_of(found), [first]) == (most,)


@settings(max_examples=120, deadline=None)
@given(sets(), st.tuples(st.integers(1, 8), st.integers(0, 5)), st.sampled_from([0, 0, 1, 2]))
def test_new_nodes_hold_what_they_are_ordered_for(
    items: tuple[Item, ...], size: tuple[int, int], limit: int
) -> None:
    made = estimate(items, Template(view=view("template", *size)), limit)
    names = [f"t{i}-{n}" for i, layout in enumerate(made.layouts) for n in range(layout.nodes)]
    each = [layout.pods for layout in made.layouts for _ in range(layout.nodes)]
    assert made.nodes == len(names)
    assert not limit or made.nodes <= limit
    lie(items, dict(zip(names, each, strict=True)), dict.fromkeys(names, size))
    for item, n in zip(items, made.placed, strict=True):
        assert n == sum(pods.get(item.shape.digest, 0) for pods in each) <= item.count
    if not limit and holds(items, *size):
        assert made.placed == tuple(item.count for item in items)
