"""Plans at least cost for lists of pods and machine types made by seed, beside what a solver says that none costs less than."""

from __future__ import annotations

from random import Random

import pytest

from tests.bench.pod_lists import LISTS, relaxed
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
