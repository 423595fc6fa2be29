"""The expander `least-cost`: which groups it takes for what, and what it says of that."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.kube.podshape import NodeView
from tidewright.kube.podspecs import of_fields
from tidewright.provisioning.flags import read
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.templates import Template
from tidewright.provisioning.scaleup.leastcost.problem import MOST_CLASSES, Column, problem_of
from tidewright.provisioning.scaleup.leastcost.search import search
from tidewright.provisioning.tell.sentences import sentence

GIB = 2**30
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}]}}  # fmt: skip


def cheap(**config: Any) -> Cluster:
    return Cluster({"expander": "least-cost", **config}, boots=False)


def waiting(cluster: Cluster, count: int, requests: Mapping[str, int], name: str = "p", **more: Any) -> None:
    shape = cluster.shape(requests, more.pop("scheduling", None), labels=more.pop("labels", {}))
    for number in range(count):
        cluster.pod(f"{name}{number}", shape)


def ordered(cluster: Cluster) -> dict[str, int]:
    """Nodes ordered by group."""
    return {i.group: i.size - i.from_size for plan in cluster.of(p.PlanScaleUp) for i in plan.increases}


def said(cluster: Cluster) -> list[str]:
    return [sentence(reason) for plan in cluster.of(p.PlanScaleUp) for reason in plan.because]


def test_pods_of_several_kinds_go_where_they_cost_least_together() -> None:
    # By itself each kind is cheapest on nodes of its own; beside one another they fill the even ones.
    cluster = cheap()
    cluster.add_group("cores", cpu=16_000, memory=16 * GIB, price_micro=600_000)
    cluster.add_group("even", cpu=16_000, memory=64 * GIB, price_micro=800_000)
    cluster.add_group("memory", cpu=8_000, memory=64 * GIB, price_micro=600_000)
    waiting(cluster, 28, {"cpu": 2000, "memory": GIB}, "c")
    waiting(cluster, 28, {"cpu": 200, "memory": 7 * GIB}, "m")
    cluster.settle()
    assert ordered(cluster) == {"even": 4}


def test_the_decision_says_the_price_the_bound_and_what_each_group_is_for() -> None:
    cluster = cheap()
    cluster.add_group("large", cpu=32_000, memory=128 * GIB, price_micro=2_000_000)
    cluster.add_group("small", cpu=4000, memory=16 * GIB, price_micro=200_000)
    waiting(cluster, 10, {"cpu": 4000, "memory": 2 * GIB})
    waiting(cluster, 2, {"cpu": 30_000}, "big")
    cluster.settle()
    assert said(cluster) == [
        "12 pods of 2 shapes are waiting",
        "12 pods are planned as one over 2 groups: their nodes cost 6.0 an hour, and none for them cost less than 5.75",
        "group small is chosen for 10 pods (shapes: 1; most ask for 4 cores, 2 GiB memory), at 0.2 a node",
        "group large is chosen for 2 pods (shapes: 1; most ask for 30 cores), at 2.0 a node",
        "group small holds them with 10 nodes (from 0 to 10, of at most 10)",
        "group large holds them with 2 nodes (from 0 to 2, of at most 10)",
    ]


def test_what_a_limit_keeps_from_the_cheapest_group_goes_to_the_next() -> None:
    cluster = cheap(**{"max-nodes-total": 7})
    cluster.add_group("cheapest", cpu=4000, price_micro=100_000, maximum=2)
    cluster.add_group("middle", cpu=4000, price_micro=150_000, maximum=3)
    cluster.add_group("dear", cpu=4000, price_micro=900_000)
    waiting(cluster, 9, {"cpu": 3000})
    cluster.settle()
    assert ordered(cluster) == {"cheapest": 2, "middle": 3, "dear": 2}
    assert {d.count for d in cluster.of(p.DeclineScaleUp)} == {2}


def test_where_limits_bind_the_pods_that_others_would_help_are_helped_at_less_cost() -> None:
    # Of three nodes in all the large ones hold everything, the small ones cost less for as long as they do.
    cluster = cheap(**{"max-nodes-total": 3})
    cluster.add_group("dear", cpu=8000, price_micro=900_000)
    cluster.add_group("large", cpu=8000, price_micro=500_000)
    cluster.add_group("small", cpu=4000, price_micro=100_000)
    waiting(cluster, 5, {"cpu": 3500})
    cluster.settle()
    assert ordered(cluster) == {"large": 2, "small": 1}


def test_without_prices_scarce_things_are_dear_and_that_is_said() -> None:
    cluster = cheap()
    cluster.add_group("cards", cpu=16_000, memory=64 * GIB, more={"nvidia.com/gpu": 4})
    cluster.add_group("plain", cpu=8000, memory=32 * GIB)
    waiting(cluster, 8, {"cpu": 1900})
    waiting(cluster, 4, {"cpu": 500, "nvidia.com/gpu": 1}, "card")
    cluster.settle()
    assert ordered(cluster)["cards"] == 1
    assert any("as none has a price" in text for text in said(cluster))


def test_groups_without_a_price_count_as_those_with_one_do() -> None:
    cluster = cheap()
    cluster.add_group("known", cpu=8000, memory=32 * GIB, price_micro=400_000)
    cluster.add_group("unknown", cpu=64_000, memory=256 * GIB)
    waiting(cluster, 4, {"cpu": 7500})
    cluster.settle()
    assert ordered(cluster) == {"known": 4}
    assert any("those without a price at what the others cost" in text for text in said(cluster))


def test_groups_that_are_alike_share_when_they_cost_the_same() -> None:
    cluster = cheap(**{"balance-similar-node-groups": True})
    for zone, price in (("a", 100_000), ("b", 100_000), ("c", 900_000)):
        labels = {"topology.kubernetes.io/zone": zone}
        cluster.add_group(zone, cpu=4000, price_micro=price, labels=labels)
    waiting(cluster, 6, {"cpu": 3000})
    cluster.settle()
    assert ordered(cluster) == {"a": 3, "b": 3}


def test_pods_that_keep_apart_and_those_that_spread_are_in_the_same_plan() -> None:
    cluster = cheap()
    for zone in ("a", "b"):
        labels = {"topology.kubernetes.io/zone": zone}
        cluster.add_group(zone, cpu=8000, price_micro=300_000, labels=labels)
    spread = {"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}}}]}  # fmt: skip
    waiting(cluster, 4, {"cpu": 3000}, "s", scheduling=spread, labels={"app": "s"})
    waiting(cluster, 3, {"cpu": 100}, "x", scheduling={"affinity": ANTI}, labels={"app": "x"})
    waiting(cluster, 6, {"cpu": 500})
    cluster.settle()
    (plan,) = cluster.of(p.PlanScaleUp)
    assert plan.placed == 13
    nodes = ordered(cluster)
    assert sum(nodes.values()) == 3
    assert min(nodes.values()) == 1
    alone = {digest for digest, shape in cluster.state.shapes.items() if shape.labels == {"app": "x"}}
    assert all(load.pods[digest] == 1 for load in plan.loads for digest in alone & set(load.pods))


def test_a_request_takes_the_group_in_which_all_of_it_costs_least() -> None:
    cluster = cheap()
    cluster.add_group("snug", cpu=3000, price_micro=900_000)
    cluster.add_group("wide", cpu=16_000, memory=64 * GIB, price_micro=1_000_000)
    cluster.template("worker", "3")
    cluster.request("train", ATOMIC, [("worker", 5)])
    cluster.settle()
    assert ordered(cluster) == {"wide": 1}


def test_a_group_that_grows_as_a_whole_is_taken_where_that_costs_less() -> None:
    cluster = cheap()
    cluster.add_group("whole", cpu=4000, price_micro=100_000, maximum=4, zero_or_max=True)
    cluster.add_group("single", cpu=4000, price_micro=300_000)
    waiting(cluster, 4, {"cpu": 3000})
    cluster.settle()
    assert ordered(cluster) == {"whole": 4}


@pytest.mark.parametrize(
    ("data", "expander"),
    [
        ({}, ("least-waste",)),
        ({"profile": "hold"}, ("least-cost",)),
        ({"profile": "hold", "expander": "price"}, ("price",)),
        ({"expander": "least-cost"}, ("least-cost",)),
    ],
)
def test_hold_plans_at_least_cost_unless_another_expander_is_named(
    data: dict[str, Any], expander: tuple[str, ...]
) -> None:
    chosen, warnings = read(data)
    assert (chosen.expander, warnings) == (expander, ())


def test_it_stands_in_no_chain() -> None:
    chosen, warnings = read({"profile": "hold", "expander": "priority,least-cost"})
    assert chosen.expander == ("least-cost",)
    assert warnings == (
        "expander='priority,least-cost': least-cost plans all groups as one and stands alone; the default stays",
    )


def test_many_shapes_are_planned_as_fewer_classes_that_hold_them_all() -> None:
    chance = Random(3)
    shapes = {
        shape.digest: shape
        for shape in (
            of_fields(
                requests={"cpu": chance.randint(100, 9000), "memory": chance.randint(1, 40_000) * 2**20},
                scheduling={},
                namespace="ns",
            )
            for _ in range(700)
        )
    }
    items = [Item(shape, 3) for shape in shapes.values()]
    view = NodeView(name="t", allocatable={"cpu": 16_000, "memory": 64 * GIB, "pods": 110})
    column = Column(Template(view=view), frozenset(range(len(items))), 1_000_000, 5000)
    asked = problem_of(items, [column], [])
    assert len(asked.counts) <= MOST_CLASSES < len(items)
    assert sorted(number for each in asked.members for number in each) == list(range(len(items)))
    for number, each in enumerate(asked.members):
        for member in each:
            requests = items[member].shape.requests
            assert (asked.requests[number] >= [requests[name] for name in ("cpu", "memory", "pods")]).all()
    found = search(asked)
    assert sum(sum(nodes.held) * nodes.nodes for nodes in found.nodes) == 2100
    assert found.bound.price <= found.price <= 1.05 * found.bound.price
    assert found.steps > 0
    assert search(asked, beside=1000 * found.price).steps == 0  # a thousandth of what else is ordered


def test_sizes_that_would_fit_nowhere_together_are_no_class() -> None:
    # Beside the widest and the longest nodes there is a third kind, of which all are as large as it goes.
    chance = Random(7)
    kinds = {"lean": (31_000, 8), "wide": (4000, 60)}
    sizes = [
        (kind, chance.randint(cpu - 400, cpu), gib) for kind, (cpu, gib) in kinds.items() for _ in range(400)
    ]
    items = [
        Item(of_fields(requests={"cpu": cpu, "memory": gib * GIB + n}, scheduling={}, namespace="ns"), 1)
        for n, (_, cpu, gib) in enumerate(sizes)
    ]
    groups = {"lean": (31_000, 9), "wide": (4000, 61)}
    columns = [
        Column(
            Template(view=NodeView(name=kind, allocatable={"cpu": cpu, "memory": gib * GIB, "pods": 110})),
            frozenset(n for n, (other, _, _) in enumerate(sizes) if other == kind),
            1_000_000,
            5000,
        )
        for kind, (cpu, gib) in groups.items()
    ]
    asked = problem_of(items, columns, [], 1, mean=True)
    assert len(asked.counts) == 2
    assert (asked.most.max(axis=0) > 0).all()
