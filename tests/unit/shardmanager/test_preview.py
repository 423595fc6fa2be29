"""What a plan says before anything is done, beside what then happens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.shardmanager.test_driver import spec
from tests.unit.shardmanager.test_fold import SPEC, document, started, work
from tidewright.sharding.document import Document
from tidewright.sharding.keyspace import parse_runs, shard_ranges
from tidewright.shardmanager.tell.preview import preview


@pytest.mark.parametrize(
    "change",
    [
        {"workers": {"drain": ["b"]}},
        {"workers": {"weights": {"a": 3}}},
        {"assignment": {"pins": {"31": "a", "0": "c"}}},
        {"assignment": {"moves": {"31": "a"}}},
        {"assignment": {"strategy": "ranges"}},
    ],
)
def test_the_plan_says_exactly_the_moves_that_are_made(change: dict[str, Any]) -> None:
    cluster = started("a", "b", "c")
    before = [r.owner.partition("#")[0] for r in document(cluster).slots]
    after = {**SPEC, **change}
    plan = preview("orders", cluster.document, SPEC, after)
    cluster.shard_set(after, generation=2)
    while work(cluster):
        pass
    owners = [r.owner.partition("#")[0] for r in document(cluster).slots]
    made = {s: (a, b) for s, (a, b) in enumerate(zip(before, owners, strict=True)) if a != b}
    assert made == {s: (m.source, m.target) for m in plan.moves for s in parse_runs(m.slots)}
    assert plan.moved == len(made) > 0
    assert plan.gap_s == 2.0
    assert plan.crash_gap_s == 19.0
    assert not plan.restarts


def test_nothing_to_do_has_no_moves_and_no_gap() -> None:
    cluster = started("a", "b")
    plan = preview("orders", cluster.document, SPEC, SPEC)
    assert (plan.moves, plan.gap_s) == ((), 0.0)
    doubled = preview("orders", cluster.document, SPEC, {"keyspace": {"slots": 64}})
    assert (doubled.moves, doubled.gap_s) == ((), 0.0)
    assert "no key changes its owner" in doubled.notes[0]


def test_what_would_be_refused_is_said_and_nothing_else() -> None:
    cluster = started("a")
    plan = preview("orders", cluster.document, SPEC, {"keyspace": {"slots": 128}})
    assert "can only be doubled" in str(plan.problems[0])
    assert preview("orders", Document(), SPEC, SPEC).gap_s is None
    nobody = preview("orders", cluster.document, SPEC, {**SPEC, "workers": {"drain": ["a"]}})
    assert nobody.gap_s is None


def test_workers_that_are_told_their_slots_restart_when_these_change() -> None:
    told = {i: list(part) for i, part in enumerate(shard_ranges(32, 3))}
    cluster = started("a")
    plan = preview("orders", cluster.document, spec(3), spec(4), pod_slots=told, grace_s=7.0)
    assert plan.starts == ("orders-3",)
    assert plan.restarts == ("orders-0", "orders-1", "orders-2")
    assert plan.moved == 17  # contiguous ranges, 3 -> 4
    assert plan.gap_s is None
    assert "grace 7 s" in plan.gap
    fewer = preview(
        "orders", cluster.document, spec(3, strategy="sticky"), spec(2, strategy="sticky"), pod_slots=told
    )
    assert fewer.stops == ("orders-2",)
    assert fewer.moved == len(told[2])
    same = preview("orders", cluster.document, spec(3), spec(3), pod_slots=told)
    assert (same.restarts, same.moved, same.gap_s) == ((), 0, 0.0)
