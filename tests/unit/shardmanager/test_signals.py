"""What workers tell of their work: hot slots, canaries, queue wait and backlog, and what is told of hand-overs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.shardmanager.cluster import Cluster
from tests.unit.shardmanager.test_driver import spec, template
from tests.unit.shardmanager.test_fold import document, started, work
from tidewright.events.shards import ChangeRollout, SizeShards
from tidewright.sharding.histogram import BOUNDS_S, Histogram
from tidewright.sharding.signals import Signals, SpaceSaving
from tidewright.shardmanager.tell import exposition


def condition(cluster: Cluster, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in cluster.status["conditions"] if c["type"] == kind)
    return found


def series(cluster: Cluster, name: str) -> dict[str, float]:
    """Values by the labels that tell them apart."""
    found = {}
    for sample in exposition.series(cluster.state):
        if sample.name == name:
            labels = {k: v for k, v in sample.labels.items() if k not in ("namespace", "name")}
            found[",".join(labels.values())] = sample.value
    return found


# Hot slots.


def test_a_slot_that_is_too_busy_for_any_member_is_said_with_its_keys() -> None:
    cluster = started("a", "b", "c", rebalance={"maxMoves": 0})
    slot = next(s for s, r in enumerate(document(cluster).slots) if r.owner == "b#1")
    hot = [{"slot": slot, "keys": ["shop/big", "shop/bigger"]}]
    for _second in range(20):
        cluster.advance(1.0)
        work(cluster)
        cluster.member("a", "1", load={"0": 6})
        cluster.member("b", "1", load={str(slot): 80}, signals={"hot": hot})
    said = condition(cluster, "HotSlot")
    assert said["status"] == "True"
    assert f"slot {slot} of b, mostly shop/big, shop/bigger" in said["message"]
    assert condition(cluster, "Ready")["status"] == "True"


def test_a_slot_is_not_hot_for_being_the_only_one_with_a_little_to_do() -> None:
    cluster = started("a", "b", "c", rebalance={"maxMoves": 0})
    for _second in range(20):
        cluster.advance(1.0)
        work(cluster)
        cluster.member("b", "1", load={"3": 4})
    assert condition(cluster, "HotSlot")["status"] == "False"


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.integers(1, 9)), max_size=200))
def test_a_sketch_keeps_every_key_that_is_heavier_than_its_share(stream: list[tuple[str, int]]) -> None:
    sketch, exact = SpaceSaving(capacity=4), dict.fromkeys("abcdefghijklmnop", 0)
    for key, weight in stream:
        sketch.add(key, weight)
        exact[key] += weight
    total = sum(exact.values())
    for key, weight in exact.items():
        assert weight <= total / 4 or key in sketch.weights
        assert sketch.weights.get(key, weight) >= weight


def test_signals_tell_what_was_counted_and_only_of_slots_that_are_acted_on() -> None:
    signals = Signals()
    for n in range(100):
        signals.waited(n / 100)
        signals.done(failed=n % 2 == 0)
    signals.busy(1, 3.0, "big")
    signals.busy(1, 1.0, "small")
    signals.busy(2, 9.0, "of somebody else")
    signals.backlog(1, 7)
    signals.backlog(2, 100)
    signals.fenced += 2
    told = signals.report([1])
    assert told["backlog"] == 7
    assert told["waitP99"] == pytest.approx(0.99)
    assert 0.4 < told["errorShare"] < 0.6
    assert (told["fenced"], told["hot"]) == (2, [{"slot": 1, "keys": ["big", "small"]}])
    assert Signals().report([]) == dict.fromkeys(("backlog", "waitP99", "errorShare", "fenced", "hot"))


# Auto-sizing by queue wait.


def test_a_queue_wait_beyond_its_objective_grows_a_set_that_is_not_busy() -> None:
    cluster = started("a", autosize={"min": 1, "max": 8, "queueWaitObjective": "1s"})
    cluster.member("a", "1", load={"0": 60}, signals={"waitP99": 1.8}, prepared="")
    cluster.advance(61.0)
    cluster.member("a", "1", load={"0": 60}, signals={"waitP99": 1.8})
    sized = [d for d in cluster.decided if isinstance(d, SizeShards)]
    assert (sized[-1].recommended, sized[-1].shards) == (2, 2)
    assert sized[-1].because[0].values["queue_wait_ratio"] == 1.8


# Canaries.


def canary(**analysis: Any) -> Cluster:
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set(spec(3, injector="dynamic", strategy="sticky", canary=1, canaryAnalysis=analysis))
    cluster.run()
    roll(cluster, 5)
    return cluster


def everybody(cluster: Cluster, bad: str = "", **signals: Any) -> None:
    """Every pod's worker joins or renews, and does what it is asked to; pods end when they have to."""
    for name, pod in list(cluster.pods.items()):
        if pod.deleting_at is None:
            worse = {"errorShare": 0.4} if name == bad else {}
            cluster.member(name, pod.uid, signals={**signals, **worse})
        else:
            cluster.member(name, pod.uid, released=True)
            cluster.vanish(name)
    cluster.run()
    for _round in range(30):
        if not work(cluster):
            break


def roll(cluster: Cluster, seconds: int, bad: str = "", **signals: Any) -> None:
    for _second in range(seconds):
        everybody(cluster, bad, **signals)
        cluster.advance(1.0)


def rolled(cluster: Cluster) -> int:
    return sum(pod.manifest["spec"]["containers"][0].get("image") == "new" for pod in cluster.pods.values())


def test_a_canary_that_does_as_well_as_the_others_is_approved_after_its_period() -> None:
    cluster = canary(period="30s")
    roll(cluster, 15, errorShare=0.02)
    template(cluster, "2", image="new")
    roll(cluster, 25, errorShare=0.02)
    assert rolled(cluster) == 1
    roll(cluster, 90, errorShare=0.02)
    assert rolled(cluster) == 3
    said = [d.state for d in cluster.decided if isinstance(d, ChangeRollout)]
    assert said.index("canary") < said.index("approved") < len(said) - 1
    assert said[-1] == "complete"


def test_a_canary_that_does_worse_pauses_the_rollout_and_says_by_what() -> None:
    cluster = canary(period="30s")
    roll(cluster, 15, errorShare=0.02)
    template(cluster, "2", image="new")
    roll(cluster, 60, bad="orders-0", errorShare=0.02)
    assert rolled(cluster) == 1
    said = condition(cluster, "RolloutPaused")
    assert "error share is 0.4 in the canary and 0.02 in the others" in said["message"]


def test_a_canary_of_workers_that_tell_nothing_waits_for_approval() -> None:
    cluster = canary(period="5s")
    roll(cluster, 15)
    template(cluster, "2", image="new")
    roll(cluster, 60)
    assert rolled(cluster) == 1
    assert cluster.status["rollout"]["waitsFor"] == "CanaryHold"


def test_an_analysis_without_a_canary_is_refused() -> None:
    cluster = Cluster()
    cluster.shard_set(spec(3, injector="dynamic", strategy="sticky", canaryAnalysis={}))
    assert "spec.rollout.canaryAnalysis is given without" in condition(cluster, "InvalidSpec")["message"]


def test_a_rollout_waits_until_the_backlog_is_nearly_what_it_was() -> None:
    cluster = Cluster()
    template(cluster, "1")
    cluster.shard_set(spec(3, injector="dynamic", strategy="sticky"))
    cluster.run()
    roll(cluster, 20, backlog=10)
    template(cluster, "2", image="new")
    roll(cluster, 60, backlog=100)
    assert rolled(cluster) == 1
    roll(cluster, 60, backlog=11)
    assert rolled(cluster) == 3


# Histograms.


@given(st.lists(st.floats(0, 1000), max_size=50))
def test_buckets_count_what_is_not_above_them(values: list[float]) -> None:
    found = Histogram()
    for value in values:
        found.observe(value)
    buckets = dict(found.buckets())
    assert buckets["+Inf"] == len(values)
    for bound in BOUNDS_S:
        assert buckets[f"{bound:g}"] == sum(value <= bound for value in values)


def test_a_planned_hand_over_is_told_by_phase_and_its_gap_by_cause() -> None:
    cluster = started("a")
    cluster.member("b", "1")
    cluster.advance(3.0)
    while work(cluster):
        cluster.advance(0.5)
    cluster.advance(0.2)
    work(cluster)
    count = series(cluster, "shards_handover_seconds_count")
    assert count["prepare"] == count["drain"] == 16
    assert count["activate"] == 32 + 16
    assert series(cluster, "shards_handover_seconds_sum")["prepare"] == pytest.approx(16 * 3.0)
    assert series(cluster, "shards_gap_seconds_count")["planned"] == 16


def test_the_gap_of_a_crash_begins_when_the_member_was_last_heard_of() -> None:
    cluster = started("a", "b")
    for _second in range(20):
        cluster.advance(1.0)
        work(cluster, "b")
    work(cluster, "b")
    gaps = series(cluster, "shards_gap_seconds_sum")
    assert series(cluster, "shards_gap_seconds_count")["crash"] == 16
    assert 17 <= gaps["crash"] / 16 <= 19


def test_fenced_writes_and_refused_entries_are_counted() -> None:
    cluster = started("a", "b")
    cluster.member("a", "1", signals={"fenced": 3})
    cluster.member("b", "1", signals={"fenced": 2})
    cluster.member("b", "1", released=True)
    work(cluster)
    assert series(cluster, "shards_fenced_writes_total") == {"": 5}
    assert series(cluster, "shards_document_conflicts_total") == {"": 0}
    assert cluster.replayed() == cluster.state
