"""Plans at least cost for lists of pods and machine types made by seed, beside what a solver says that none costs less than."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.bench.pod_lists import GIB, LISTS, PodList, cloud, group_of, pod, relaxed, world_of
from tidewright.provisioning.pack.classes import items as counted
from tidewright.provisioning.scaleup.rounds import plan_all


@pytest.mark.parametrize(
    ("name", "pods", "most"),
    [
        ("typed sizes", 300, 1.04),
        ("measured sizes", 700, 1.02),  # more sizes than classes
        ("large measured", 700, 1.035),
        ("cards", 800, 1.05),
        ("many small", 800, 1.02),  # all are worth the same: the scarce thing is a place on a node
        ("soon full", 800, 1.05),
        ("taints", 1500, 1.05),
        ("zones", 1500, 1.05),
        ("zones", 200, 1.03),  # few nodes: parts of them are planned anew
    ],
)
def test_a_plan_costs_little_more_than_nodes_and_pods_that_may_be_split(
    name: str, pods: int, most: float
) -> None:
    found = LISTS[name](Random(1), pods)
    plan = plan_all(found.items, found.world)
    assert sum(plan.placed) == sum(item.count for item in found.items)
    prices = {group.id: (group.price_micro or 0) / 1e6 for group in found.world.groups}
    cost, bound = sum(prices[t.group] * t.added for t in plan.targets), relaxed(found)
    assert bound <= cost <= most * bound
    said = plan.why[0].values
    assert said["price"] == pytest.approx(cost, abs=1e-4)
    assert isinstance(said["bound"], int | float)
    assert said["bound"] <= bound * 1.0001  # what the reasons compare it with is one, too


def halves(chance: Random, pods: int) -> PodList:
    """Pods of 30 to 47 cores: what is left beside one is just enough for some others, or too little for any."""
    sizes = [(chance.uniform(30, 47), chance.uniform(1, 7)) for _ in range(60)]
    several = Counter(chance.choices(range(60), k=pods))
    shapes = [
        (pod(cores * 1000, cores * ratio * GIB), several[n])
        for n, (cores, ratio) in enumerate(sizes)
        if several[n]
    ]
    return PodList(tuple(counted(shapes)), world_of([group_of(m, kept=0.03) for m in cloud(chance)]))


def test_pods_of_which_two_share_a_node_cost_what_a_solver_finds_as_the_least() -> None:
    found = halves(Random(1), 400)
    plan = plan_all(found.items, found.world)
    assert sum(plan.placed) == 400
    prices = {group.id: (group.price_micro or 0) / 1e6 for group in found.world.groups}
    cost = sum(prices[t.group] * t.added for t in plan.targets)
    # By integer programming over all that a node can hold. Nodes and pods that may be split would cost 794.1.
    assert cost == pytest.approx(890.912, rel=0.003)
    assert relaxed(found) == pytest.approx(794.1, rel=0.001)
