"""The formulas of the shard manager's specification, written down again as they stand there, beside the code."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_shards import tables
from tests.vectors.reference.propeller_gates import gates
from tidewright.sharding.keyspace import fnv1a32, shard_ranges
from tidewright.shardmanager.propeller.config import WILDCARD, ShardConfig, ShardMapping, ShardType
from tidewright.shardmanager.propeller.resize import minimal_moves
from tidewright.shardmanager.propeller.strategy import shard_args
from tidewright.shardmanager.shardset.assignment.assign import assign
from tidewright.shardmanager.shardset.assignment.autosize import Demand, Limits, recommend
from tidewright.shardmanager.shardset.assignment.balance import rebalance


@given(st.binary(max_size=60))
def test_the_hash_of_a_shard_key(data: bytes) -> None:
    h = 0x811C9DC5
    for byte in data:
        h = ((h ^ byte) * 0x01000193) % 2**32
    assert fnv1a32(data) == h


@given(st.integers(1, 4096), st.integers(1, 200))
def test_the_ranges_of_shards(size: int, n: int) -> None:
    q = size // n
    r = size - n * q

    def start(i: int) -> int:
        return min(i, r) * (q + 1) + max(0, i - r) * q

    assert [(x.start, x.stop) for x in shard_ranges(size, n)] == [(start(i), start(i + 1)) for i in range(n)]


@given(st.integers(1, 32), st.data())
def test_the_arguments_of_a_hash_shard(count: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, count - 1))
    q, r = divmod(32, count)
    first = index * q + min(index, r)
    expected: list[str] = []
    for key in range(first, first + q + (index < r)):
        expected += ["--propeller.include-shard-key-label", str(key)]
    expected.append(f"--propeller.leader-election.lock-config-map.Name=propeller-leader-{index}")
    assert shard_args(ShardConfig(shard_count=count), index) == expected


@given(
    st.sampled_from([ShardType.PROJECT, ShardType.DOMAIN]),
    st.lists(
        st.lists(st.text("abc-,* ", min_size=1, max_size=5), min_size=1, max_size=3), min_size=1, max_size=5
    ),
    st.integers(0, 5),
)
def test_the_arguments_of_a_mapped_shard(kind: ShardType, shards: list[list[str]], wildcard: int) -> None:
    mapped = [[i for i in ids if i != WILDCARD] or ["x"] for ids in shards]
    mapped.insert(min(wildcard, len(mapped)), [WILDCARD])
    config = ShardConfig(type=kind, per_shard_mapping=tuple(ShardMapping(tuple(ids)) for ids in mapped))
    label = kind.value.lower()
    for index, ids in enumerate(mapped):
        expected: list[str] = []
        if ids == [WILDCARD]:
            for other in [i for n, others in enumerate(mapped) if n != index for i in others]:
                expected += [f"--propeller.exclude-{label}-label", other]
        else:
            for one in ids:
                expected += [f"--propeller.include-{label}-label", one]
        assert shard_args(config, index)[:-1] == expected


@given(tables())
def test_sticky_assignment(table: tuple[int, list[str | None], dict[str, int], dict[int, str]]) -> None:
    size, before, weights, pins = table
    total = sum(weights.values())
    quota = {m: size * w // total for m, w in weights.items()}
    rest = size - sum(quota.values())
    previous = [o if o in weights else None for o in before]
    held = {m: previous.count(m) for m in weights}
    order = sorted(weights, key=lambda m: (-(size * weights[m] % total), not held[m] > quota[m], m))
    for member in order[:rest]:
        quota[member] += 1
    owner = list(previous)
    fixed = {s: m for s, m in pins.items() if m in weights}
    for slot, member in fixed.items():
        owner[slot] = member
    for member in sorted(weights):
        for slot in reversed(range(size)):
            if owner.count(member) <= quota[member]:
                break
            if owner[slot] == member and slot not in fixed:
                owner[slot] = None
    for slot in range(size):
        if owner[slot] is None:
            owner[slot] = min(weights, key=lambda m: (-(quota[m] - owner.count(m)), m))
    made = assign(size, before, weights, pins)
    assert (made.quota, list(made.table)) == (quota, owner)


@settings(max_examples=60)
@given(st.integers(2, 5), st.lists(st.integers(0, 30), min_size=1, max_size=14), st.integers(0, 6), st.data())
def test_moves_for_load(count: int, cost: list[int], most: int, data: st.DataObject) -> None:
    members = [f"m{i}" for i in range(count)]
    weights = {m: data.draw(st.integers(1, 3)) for m in members}
    owner = [data.draw(st.sampled_from(members)) for _slot in cost]
    theta = Fraction(15, 100)
    made = rebalance(owner, cost, weights, theta=theta, max_moves=most, cooling=[])
    load = {m: sum(c for o, c in zip(owner, cost, strict=True) if o == m) for m in members}
    mean = Fraction(sum(load.values()), sum(weights.values()))
    resting: set[int] = set()
    moves: list[tuple[int, str, str]] = []
    if max(Fraction(load[m], weights[m]) for m in members) > (1 + theta) * mean:
        while len(moves) < most:
            ratio = {m: Fraction(load[m], weights[m]) for m in members}
            high = min(members, key=lambda m: (-ratio[m], m))
            low = min(members, key=lambda m: (ratio[m], m))
            if ratio[high] <= (1 + theta / 2) * mean:
                break
            choices = [
                (
                    max(
                        Fraction(load[high] - cost[s], weights[high]),
                        Fraction(load[low] + cost[s], weights[low]),
                    ),
                    cost[s],
                    s,
                )
                for s, o in enumerate(owner)
                if o == high and s not in resting and cost[s] > 0
            ]
            if not choices or min(choices)[0] >= ratio[high]:
                break
            _after, amount, slot = min(choices)
            owner[slot] = low
            load[high] -= amount
            load[low] += amount
            resting.add(slot)
            moves.append((slot, high, low))
    assert [(m.slot, m.source, m.target) for m in made.moves] == moves


@given(
    st.integers(1, 20),
    st.lists(st.integers(0, 200), min_size=1, max_size=20),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 400)),
)
def test_auto_sizing(current: int, loads: list[int], missing: int, latency_percent: int | None) -> None:
    target = 100 * Fraction(7, 10)
    known = Fraction(sum(loads))
    grow = ceil(known / target)
    shrink = ceil((known + missing * target) / target)
    desired = grow if grow >= current else min(current, shrink)
    if not missing and abs(known / (current * target) - 1) <= Fraction(1, 10):
        desired = current
    ratio = None if latency_percent is None else Fraction(latency_percent, 100)
    if ratio is not None and ratio > Fraction(11, 10):
        desired = max(desired, min(2 * current, ceil(current * ratio)))
    demand = Demand(
        loads=tuple(map(Fraction, loads)),
        capacity=Fraction(100),
        utilisation=Fraction(7, 10),
        missing=missing,
        latency_ratio=ratio,
    )
    assert recommend(current, demand, Limits(minimum=2, maximum=12)) == max(2, min(12, desired))


@given(st.integers(1, 40), st.integers(1, 40))
def test_gates_and_the_least_that_moves(before: int, after: int) -> None:
    old = [i for i, r in enumerate(shard_ranges(64, before)) for _slot in r]
    new = [i for i, r in enumerate(shard_ranges(64, after)) for _slot in r]
    for gate in gates(64, before, after):
        mine = [s for s in range(64) if new[s] == gate.new_index]
        assert list(gate.opens_after_old) == sorted({old[s] for s in mine})
    assert minimal_moves(64, before, after) <= sum(a != b for a, b in zip(old, new, strict=True))
