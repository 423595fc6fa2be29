"""Formulas of the specification beside the plainest reading of them, on random numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.provisioning.cluster.backoff import Entry, after_failure, backed_off, stale
from tidewright.provisioning.cluster.groups import balance
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.estimate import DENIED, node_limit
from tidewright.provisioning.requests.lifecycle import Candidate, in_order, taking_turns
from tidewright.provisioning.scaleup import expander as exp

SIZES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=6)


@given(SIZES, st.integers(0, 120))
def test_balancing_is_one_node_at_a_time_to_the_smallest_group(
    sizes: list[tuple[int, int]], add: int
) -> None:
    groups = [(f"g{i}", size, maximum) for i, (size, maximum) in enumerate(sizes)]
    now = {name: size for name, size, maximum in groups if size < maximum}
    most = {name: maximum for name, _, maximum in groups}
    for _ in range(add):
        able = [(size, name) for name, size in now.items() if size < most[name]]
        if not able:
            break
        now[min(able)[1]] += 1
    before = {name: size for name, size, _ in groups}
    expected = {name: size - before[name] for name, size in now.items() if size > before[name]}
    assert dict(balance(groups, add)) == expected


@given(st.lists(st.floats(0.0, 20_000.0), min_size=1, max_size=12))
def test_a_group_backs_off_longer_only_for_failures_after_the_last_backoff(gaps: list[float]) -> None:
    entry: Entry | None = None
    now, until, duration, last = 0.0, -1.0, 0.0, -1.0
    for gap in gaps:
        now += gap
        if entry is not None and stale(entry, now, 10_800.0):
            assert last + 10_800.0 < now
            entry, duration = None, 0.0
        duration = 300.0 if not duration else min(duration * 2, 1800.0) if until < now else duration
        until, last = now + duration, now
        entry = after_failure(entry, now, initial_s=300.0, maximum_s=1800.0)
        assert (entry.until, entry.duration_s) == (until, duration)
        assert backed_off(entry, until)
        assert not backed_off(entry, until + 0.001)


@given(st.lists(st.integers(-2, 9), min_size=3, max_size=3))
def test_limits_of_an_estimate_are_the_smallest_that_is_set(values: list[int]) -> None:
    static, group, cluster = max(0, values[0]), values[1], values[2]
    found = [v for v in (static, group, cluster) if v]
    expected = DENIED if min(found, default=0) < 0 else min(found, default=0)
    assert node_limit(static, group, cluster) == expected


OPTIONS = st.lists(
    st.builds(
        lambda nodes, cpu, memory, pods: (nodes, cpu, memory, pods),
        st.integers(1, 9), st.integers(0, 4000), st.integers(0, 16_000), st.integers(1, 50),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@given(OPTIONS, st.permutations(["least-waste", "most-pods", "least-nodes"]))
def test_a_chain_of_expanders_keeps_the_best_of_each_in_turn(
    found: list[tuple[int, int, int, int]], chain: list[str]
) -> None:
    options = [
        exp.Option(group=NodeGroupId(f"g{i}"), nodes=n, pods=pods, capacity={"cpu": 4000, "memory": 16_000},
                   cpu=cpu * n, memory=memory * n)
        for i, (n, cpu, memory, pods) in enumerate(found)
    ]  # fmt: skip
    scores: dict[str, Callable[[exp.Option], Fraction]] = {
        "least-waste": lambda o: (
            Fraction(4000 * o.nodes - o.cpu, 4000 * o.nodes)
            + Fraction(16_000 * o.nodes - o.memory, 16_000 * o.nodes)
        ),
        "most-pods": lambda o: Fraction(-o.pods),
        "least-nodes": lambda o: Fraction(o.nodes),
    }
    left = options
    for name in chain:
        best = min(map(scores[name], left))
        left = [o for o in left if abs(scores[name](o) - best) < Fraction(1, 10**9)]
    chosen = exp.choose(options, exp.filters_of(chain, None, 3, []), lambda rest: exp.pick(rest, "seed"))
    assert chosen is not None
    assert chosen in left


CANDIDATES = st.lists(
    st.builds(
        Candidate, name=st.sampled_from("abcdef"), namespace=st.sampled_from(["x", "y", "z"]),
        created_at=st.integers(0, 5).map(float), priority=st.integers(0, 2), starving=st.booleans(),
    ),
    max_size=8, unique_by=lambda c: (c.namespace, c.name),
)  # fmt: skip


@given(CANDIDATES)
def test_the_order_of_requests_is_total_and_turns_leave_nobody_out(found: list[Candidate]) -> None:
    ordered = in_order(found)
    assert ordered == in_order(reversed(ordered))
    turns = in_order(taking_turns(found, {}))
    assert {(c.namespace, c.name) for c in turns} == {(c.namespace, c.name) for c in found}
    waiting = [c for c in turns if not c.starving and c.priority == 0]
    assert [c.turn for c in waiting] == sorted(c.turn for c in waiting)
    assert [c.starving for c in turns] == sorted((c.starving for c in turns), reverse=True)


def test_waste_is_of_what_pods_can_have_and_gpus_are_an_expander_of_their_own() -> None:
    capacity = {"cpu": 8000, "memory": 16_000, "nvidia.com/gpu": 4}
    kept = exp.Option(group=NodeGroupId("keeps-half"), nodes=1, pods=1, capacity=capacity, allocatable={**capacity, "cpu": 4000},
        cpu=4000, memory=16_000, gpu=1,
    )  # fmt: skip
    whole = exp.Option(
        group=NodeGroupId("whole"), nodes=1, pods=1, capacity=capacity, cpu=6000, memory=16_000, gpu=4
    )
    assert exp.waste(kept) == 0.0
    assert exp.waste(whole) == 0.25
    assert exp.least_waste([whole, kept]) == [kept]
    assert exp.least_gpu_waste([whole, kept]) == [whole]


def test_a_group_is_chosen_by_what_its_nodes_leave_for_pods() -> None:
    cluster = Cluster()
    for name, allocatable, capacity in (("a", 3900, 3900), ("b", 3600, 8000)):
        cluster.add_group(name, cpu=allocatable)
        group = cluster.groups[name]
        whole = {**group.template.allocatable, "cpu": capacity}
        group.template = msgspec.structs.replace(group.template, capacity=whole)
        cluster.observe_group(name)
    cluster.pod("p", cluster.shape({"cpu": 3500, "memory": 16 * 2**30}))
    cluster.settle()
    (plan,) = cluster.of(p.PlanScaleUp)
    wasted = {verdict.group: verdict.waste_permille for verdict in plan.verdicts}
    assert wasted == {"a": round(400 / 3.9), "b": round(100 / 3.6)}
    assert [increase.group for increase in plan.increases] == ["b"]
