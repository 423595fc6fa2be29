"""The expander `least-cost` on random clusters: what it places, what it keeps to, and that it never does worse for its work."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewright.events.base import JsonObject
from tidewright.kube.podshape import NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.provisioning.cluster.groups import Group
from tidewright.provisioning.cluster.limits import Limits, quota_amounts, quotas_of
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.templates import Template, fits_reason
from tidewright.provisioning.scaleup.leastcost.bound import bound_of, under_limits
from tidewright.provisioning.scaleup.leastcost.problem import Column, Problem, problem_of
from tidewright.provisioning.scaleup.leastcost.realising import realised
from tidewright.provisioning.scaleup.leastcost.search import SearchResult, search
from tidewright.provisioning.scaleup.plans import Plan, World
from tidewright.provisioning.scaleup.rounds import plan_all
from tidewright.provisioning.settings import Quota, Settings

GIB = 2**30
ZONE = "topology.kubernetes.io/zone"
SCHEDULING: tuple[JsonObject, ...] = (
    {},
    {},
    {"nodeSelector": {ZONE: "a"}},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}]}}},
    {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}]},
)  # fmt: skip


def cluster(seed: int) -> tuple[list[Item], World]:
    """Pods that wait, and groups with limits of every kind."""
    chance = Random(seed)
    shapes: dict[str, PodShape] = {}
    for _ in range(chance.randint(1, 8)):
        requests = {"cpu": chance.randint(1, 60) * 100, "memory": chance.randint(1, 40) * GIB // 2}
        if chance.random() < 0.2:
            requests["nvidia.com/gpu"] = chance.randint(1, 2)
        shape = of_fields(
            requests=requests,
            scheduling=chance.choice(SCHEDULING),
            namespace="ns",
            labels={"app": chance.choice("xy")},
        )
        shapes[shape.digest] = shape
    items = [Item(shape, chance.randint(1, 30)) for _, shape in sorted(shapes.items())]
    priced = chance.choice((1.0, 1.0, 0.6, 0.0))
    groups = [group(chance, f"g{number}", priced) for number in range(chance.randint(1, 5))]
    quotas = [Quota(id="all", limits={"cpu": chance.randint(8, 200)})] if chance.random() < 0.3 else []
    if chance.random() < 0.2:
        quotas.append(Quota(id="first", limits={"nodes": chance.randint(0, 4)}, groups=(groups[0].id,)))
    chosen = Settings(
        expander=("least-cost",),
        balance=chance.random() < 0.4,
        max_nodes_total=chance.choice((0, 0, 6, 20)),
        quotas=tuple(quotas),
    )
    return items, World(
        groups=tuple(groups),
        grid=Grid(),
        limits=Limits(quotas_of(chosen)),
        settings=chosen,
        current_nodes=sum(g.target for g in groups),
        seed=str(seed),
    )


def group(chance: Random, name: str, priced: float) -> Group:
    cores = chance.choice((2, 4, 8, 16))
    allocatable = {
        "cpu": cores * 1000 - chance.choice((0, 80)),
        "memory": cores * chance.choice((2, 4, 8)) * GIB,
        "pods": chance.choice((4, 110)),
    }
    if chance.random() < 0.3:
        allocatable["nvidia.com/gpu"] = chance.randint(1, 4)
    target = chance.choice((0, 0, 2))
    return Group(
        id=NodeGroupId(name),
        max=target + chance.choice((0, 1, 3, 40, 1000)),
        target=target,
        nodes=target,
        template=Template(
            view=NodeView(name="t", labels={ZONE: chance.choice("ab")}, allocatable=allocatable)
        ),
        zero_or_max=chance.random() < 0.1,
        backed_off=chance.random() < 0.1,
        price_micro=round(cores * 1e5 * chance.uniform(0.5, 2.0)) if chance.random() < priced else None,
    )


def as_others_do(world: World) -> World:
    return msgspec.structs.replace(
        world, settings=msgspec.structs.replace(world.settings, expander=("least-waste",))
    )


def holds(items: list[Item], world: World, plan: Plan) -> None:
    """No limit is broken, and no node holds more than it has, nor what it may not."""
    groups = {g.id: g for g in world.groups}
    shapes = {item.shape.digest: item.shape for item in items}
    added = {target.group: target.added for target in plan.targets}
    used: Counter[str] = Counter()
    for target in plan.targets:
        grown = groups[target.group]
        assert grown.target == target.from_size < target.size <= grown.max
        assert not grown.backed_off
        assert not grown.zero_or_max or target.size == grown.max
        for name, amount in quota_amounts(grown.node_capacity, grown.labels).items():
            used[name] += amount * target.added
    most = world.settings.max_nodes_total
    assert not added or not most or world.current_nodes + sum(added.values()) <= most
    for quota in world.settings.quotas:
        for name, limit in quota.limits.items():
            if quota.groups is None:
                assert used[name] <= limit
            else:
                assert sum(added.get(g, 0) for g in quota.groups) <= limit
    placed: Counter[str] = Counter()
    laid: Counter[str] = Counter()
    for placement in plan.placements:
        template = groups[placement.group].template
        assert template is not None
        for layout in placement.layouts:
            laid[placement.group] += layout.nodes
            asked: Counter[str] = Counter()
            for digest, pods in layout.pods.items():
                assert not fits_reason(shapes[digest], template)
                placed[digest] += pods * layout.nodes
                for name, amount in shapes[digest].requests.items():
                    asked[name] += amount * pods
            free = template.free()
            assert all(amount <= free.get(name, 0) for name, amount in asked.items())
    assert all(laid[g] <= n for g, n in added.items())
    for item, pods in zip(items, plan.placed, strict=True):
        assert placed[item.shape.digest] <= pods <= item.count


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_every_pod_has_a_place_that_another_expander_finds_at_no_higher_price_and_every_limit_is_kept(
    seed: int,
) -> None:
    items, world = cluster(seed)
    plan = plan_all(items, world)
    other = plan_all(items, as_others_do(world))
    assert all(here >= there for here, there in zip(plan.placed, other.placed, strict=True))
    holds(items, world, plan)
    prices = {g.id: g.price_micro for g in world.groups}
    if plan.placed == other.placed and None not in prices.values():
        costs = [sum((prices[t.group] or 0) * t.added for t in each.targets) for each in (plan, other)]
        assert costs[0] <= costs[1]


def digest() -> str:
    """Of what is found for a problem large enough to take all steps."""
    chance = Random(5)
    requests = [
        {"cpu": chance.randint(1, 90) * 100, "memory": chance.randint(1, 60) * GIB // 2} for _ in range(40)
    ]
    items = [
        Item(of_fields(requests=each, scheduling={}, namespace="ns"), chance.randint(1, 60))
        for each in requests
    ]
    columns = [
        Column(
            Template(view=NodeView(name="t", allocatable={"cpu": c * 1000, "memory": m * GIB, "pods": 110})),
            frozenset(n for n, r in enumerate(requests) if r["cpu"] <= c * 1000 and r["memory"] <= m * GIB),
            c * 31_000 + m * 4_300,
            5000 if c > 8 else 20,
        )
        for c, m in ((8, 32), (16, 64), (16, 128), (32, 64), (48, 192), (96, 384))
    ]
    found = search(problem_of(items, columns, []))
    assert found.steps > 100
    return hashlib.blake2b(repr(found).encode()).hexdigest()


def test_the_steps_are_the_same_whatever_instructions_a_machine_has() -> None:
    without = {
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
        "OPENBLAS_CORETYPE": "Prescott",
    }
    program = "from tests.property.test_least_cost import digest; print(digest())"
    there = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, **without},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=110,
    )
    assert there.stdout.strip() == digest()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_pods_and_groups_give_the_same_plan(seed: int) -> None:
    items, world = cluster(seed)
    encoded = [msgspec.json.encode(plan_all(items, world).placements) for _ in range(2)]
    turned = msgspec.structs.replace(world, groups=world.groups[::-1])
    encoded.append(msgspec.json.encode(plan_all(items, turned).placements))
    assert encoded[0] == encoded[1] == encoded[2]


def problem(seed: int) -> Problem | None:
    """A problem without limits over groups; None where some pod goes nowhere."""
    items, world = cluster(seed)
    columns = [
        Column(
            template=g.template,
            fits=frozenset(n for n, item in enumerate(items) if not fits_reason(item.shape, g.template)),
            price=g.price_micro or 1000,
            room=g.room,
        )
        for g in world.groups
        if g.template is not None
    ]
    if any(not any(n in column.fits for column in columns) for n in range(len(items))):
        return None
    return problem_of(items, columns, [])


def kept(problem: Problem, found: SearchResult) -> None:
    """What the nodes hold is within what they have, and no class has more pods than wait."""
    total = np.zeros(len(problem.counts), dtype=np.int64)
    per_group: Counter[int] = Counter()
    for nodes in found.nodes:
        held = np.array(nodes.held)
        assert (held @ problem.requests <= problem.capacity[nodes.group]).all()
        assert (held <= problem.most[nodes.group]).all()
        total += held * nodes.nodes
        per_group[nodes.group] += nodes.nodes
    assert (total <= problem.counts).all()
    for limit in problem.limits:
        assert sum(limit.per_node[g] * n for g, n in per_group.items()) <= limit.left


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_the_work_on_a_plan_never_makes_it_dearer_and_the_bound_is_never_above_it(seed: int) -> None:
    asked = problem(seed)
    if asked is None:
        return
    found = search(asked)
    kept(asked, found)
    assert found.price == sum(int(asked.price[n.group]) * n.nodes for n in found.nodes)
    unlimited = search(asked._replace(limits=()))
    kept(asked._replace(limits=()), unlimited)
    assert unlimited.bound.price <= unlimited.price <= unlimited.first
    assert sum(sum(n.held) * n.nodes for n in unlimited.nodes) == asked.counts.sum()
    assert bound_of(asked, steps=3).price <= unlimited.price


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_plan_for_classes_on_average_becomes_one_for_the_pods_there_are(seed: int) -> None:
    items, columns = many(seed)
    classes = problem_of(items, columns, [], 6, mean=True)
    each = problem_of(items, columns, [], len(items))
    assert len(classes.counts) < len(each.counts) == len(items)
    found = search(classes)
    made = realised(classes, each, found.nodes)
    placed = Counter[int]()
    nodes = Counter(group for group, _ in made.held)
    for group, pods in made.held:
        asked = sum(each.requests[item] * n for item, n in pods.items())
        assert (asked <= each.capacity[group]).all()
        assert all(each.most[group, item] >= n for item, n in pods.items())
        placed += pods
    assert nodes <= Counter({g: sum(n.nodes for n in found.nodes if n.group == g) for g in nodes})
    assert [placed[i] + int(made.rest[i]) for i in range(len(items))] == each.counts.tolist()
    assert found.bound.of(each) <= sum(int(each.price[g]) * n for g, n in nodes.items()) or made.rest.any()


def many(seed: int) -> tuple[list[Item], list[Column]]:
    """Pods of some forty sizes, some of which share a node with none of their like."""
    chance = Random(seed)
    items = []
    for number in range(chance.randint(20, 40)):
        requests = {"cpu": chance.randint(50, 3900), "memory": chance.randint(1, 60) * GIB // 4, "pods": 1}
        apart: JsonObject = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"n": str(number)}},
        }
        alone = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
        scheduling = alone if chance.random() < 0.1 else {}
        shape = of_fields(requests=requests, scheduling=scheduling, labels={"n": str(number)})
        items.append(Item(shape, chance.randint(1, 9)))
    columns = []
    for cores, gib in ((4, 16), (8, 32), (16, 64)):
        has = {"cpu": cores * 1000, "memory": gib * GIB, "pods": chance.choice((5, 30))}
        template = Template(view=NodeView(name="t", allocatable=has))
        fits = frozenset(n for n, item in enumerate(items) if not fits_reason(item.shape, template))
        columns.append(Column(template, fits, cores * 1000 + chance.randint(0, 900), 500))
    return items, columns


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_no_plan_that_keeps_the_limits_is_below_the_bound_under_them(seed: int) -> None:
    asked = problem(seed)
    if asked is None:
        return
    found = search(asked)
    if sum(sum(n.held) * n.nodes for n in found.nodes) == asked.counts.sum():
        assert found.bound.price <= found.price
        chance = Random(seed)
        for _ in range(3):
            prices = np.array([chance.random() * float(asked.price.max()) for _ in asked.limits])
            assert under_limits(asked, prices).price <= found.price
