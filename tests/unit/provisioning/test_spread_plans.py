"""Pods that are spread over zones, in plans at least cost: evenly over the zones where nodes can come, beside all the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from tests.bench.pod_lists import LISTS, ZONE, Machine, group_of, pod, relaxed, world_of
from tidewright.events.base import JsonObject
from tidewright.kube.podshape import NodeView
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.scaleup.leastcost.domains import parts_of
from tidewright.provisioning.scaleup.plans import Plan, World
from tidewright.provisioning.scaleup.rounds import plan_all

GIB = 2**30


def spread(app: str, count: int, cpu: int = 1000, **more: object) -> Item:
    term: JsonObject = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": app}}, **more}  # fmt: skip
    return Item(pod(cpu, GIB, scheduling={"topologySpreadConstraints": [term]}, app=app), count)


def zonal(most: Mapping[str, int], *, prices: Mapping[str, float] | None = None, **settings: object) -> World:
    """A group of small machines in each zone."""
    machines = [Machine(f"m-{z}", 4, 16, (prices or {}).get(z, 0.2), zone=z, most=n) for z, n in most.items()]
    return world_of([group_of(machine) for machine in machines], **settings)


def standing(world: World, zone: str, pods: int, item: Item) -> None:
    """A full node in a zone, with so many of these pods."""
    has = {"cpu": 1000 * pods, "memory": GIB * pods, "pods": 110}
    view = NodeView(name=f"old-{zone}", labels={ZONE: zone}, allocatable=has)
    world.grid.add_node(view)
    world.grid.put(item.shape, world.grid.rows[view.name], pods)


def by_zone(plan: Plan, world: World, item: Item) -> Counter[str]:
    zones = {group.id: group.labels[ZONE] for group in world.groups}
    pods = Counter[str]()
    for placement in plan.placements:
        for layout in placement.layouts:
            pods[zones[placement.group]] += layout.nodes * layout.pods.get(item.shape.digest, 0)
    return +pods


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_a_list_of_which_a_third_is_spread_costs_little_more_than_the_bound_and_stands_evenly(
    seed: int,
) -> None:
    found = LISTS["spread"](Random(seed), 800)
    plan = plan_all(found.items, found.world)
    assert sum(plan.placed) == sum(item.count for item in found.items)
    prices = {group.id: (group.price_micro or 0) / 1e6 for group in found.world.groups}
    assert sum(prices[t.group] * t.added for t in plan.targets) <= 1.05 * relaxed(found)
    for item in [item for item in found.items if item.shape.spread]:
        there = by_zone(plan, found.world, item)
        assert max(there.values()) - min(there[zone] for zone in "abc") <= 1


def test_a_cheap_zone_gets_no_more_than_its_part() -> None:
    item, world = spread("s", 31), zonal({"a": 50, "b": 50, "c": 50}, prices={"a": 0.1, "c": 0.3})
    plan = plan_all([item, Item(pod(500, GIB), 20)], world)
    assert by_zone(plan, world, item) == {
        "a": 11,
        "b": 10,
        "c": 10,
    }  # what is left over goes where it is cheapest


def test_what_stands_already_counts_and_a_zone_where_no_node_can_come_keeps_the_others_down() -> None:
    item = spread("s", 30)
    world = zonal({"a": 50, "b": 50})
    for zone, pods in (("a", 5), ("b", 2), ("c", 4)):
        standing(world, zone, pods, item)
    plan = plan_all([item, Item(pod(500, GIB, app="x"), 500)], world)
    assert by_zone(plan, world, item) == {"b": 3}  # 5, 5 and 4: more would be two more than in c
    assert plan.placed == (3, 500)


def test_with_too_few_zones_each_gets_the_skew_and_no_more() -> None:
    item = spread("s", 30, minDomains=3, maxSkew=4)
    world = zonal({"a": 50, "b": 50})
    assert {part.pods for part in parts_of(item, world.groups, world.grid)} == {4}
    assert by_zone(plan_all([item], world), world, item) == {"a": 4, "b": 4}


def test_a_zone_that_is_soon_full_leaves_no_more_than_the_skew_in_the_others() -> None:
    item, other = spread("s", 60), spread("t", 9)
    world = zonal({"a": 50, "b": 50, "c": 2})
    for zone in "abc":
        standing(world, zone, 1, Item(pod(1000, GIB), 1))
    plan = plan_all([item, other, *(Item(pod(400 + n, GIB), 9) for n in range(40))], world)
    for each in (item, other):
        there = by_zone(plan, world, each)
        assert max(there.values()) - min(there[zone] for zone in "abc") <= 1


def test_pods_that_another_shape_is_counted_with_are_planned_as_before() -> None:
    large, small = spread("s", 6), spread("s", 6, cpu=500)
    world = zonal({"a": 50, "b": 50})
    plan = plan_all([large, small], world)
    assert sum(plan.placed) == 12


def test_zones_that_are_alike_do_not_share_what_is_for_one_of_them() -> None:
    item, world = spread("s", 24), zonal({"a": 50, "b": 50, "c": 50}, balance=True)
    standing(world, "a", 6, item)
    plan = plan_all([item, *(Item(pod(300 + n, GIB), 4) for n in range(150))], world)
    assert by_zone(plan, world, item) == {"a": 4, "b": 10, "c": 10}


def soon_full(seed: int) -> tuple[list[Item], World]:
    """Spread pods beside others, on machines of which each zone has few."""
    chance = Random(seed)
    zones, sizes = "abc"[: chance.choice((2, 3))], chance.sample((2, 4, 8, 16), 2)
    machines = [
        Machine(f"m-{zone}-{cores}", cores, 4 * cores, 0.05 * cores * chance.uniform(0.9, 1.1), zone=zone,
                most=chance.choice((1, 3, 10, 40)))
        for zone in zones for cores in sizes
    ]  # fmt: skip
    shapes = [spread(f"s{n}", chance.randint(5, 60), chance.choice((250, 500, 1000, 2000)),
                     maxSkew=chance.choice((1, 1, 2))) for n in range(5)]  # fmt: skip
    others = [
        Item(pod(chance.choice((300, 700, 1500)), GIB, app=f"o{n}"), chance.randint(5, 30)) for n in range(5)
    ]
    return [*shapes, *others], world_of([group_of(machine) for machine in machines])


@pytest.mark.parametrize("seed", [9, 15, 23, 25, 26, 32, 33, 36, 48, 51])
def test_where_zones_are_soon_full_no_pods_are_planned_in_others_that_could_not_stand_there(
    seed: int,
) -> None:
    items, world = soon_full(seed)
    plan = plan_all(items, world)
    zones = {group.labels[ZONE] for group in world.groups if group.id in plan.chosen}
    for item in [item for item in items if item.shape.spread]:
        there = by_zone(plan, world, item)
        levels = [there[zone] for zone in zones]
        assert max(levels) - min(levels) <= item.shape.spread[0].max_skew
