"""Gate mode: successors stand by with locks that the manager holds, and nobody's work is done twice."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.shardmanager.cluster import Cluster, Pod
from tests.unit.shardmanager.test_driver import slots, template
from tests.unit.shardmanager.test_fold import document
from tidewright.events.decisions import CreateObject, DeleteObject, PatchObject
from tidewright.events.shards import ChangeRollout
from tidewright.shardmanager.propeller.worker import parse_args


def spec(replicas: int, **rollout: Any) -> dict[str, Any]:
    return {
        "keyspace": {"slots": 32, "hash": "fnv1a32", "slotLabel": "shard-key"},
        "workers": {
            "driver": "pods",
            "injector": "propeller",
            "leaderElection": True,
            "replicas": replicas,
            "template": {"name": "orders-template", "container": "orders"},
        },
        "assignment": {"strategy": "ranges"},
        "handover": {"mode": "gate"},
        "rollout": {"minReady": "2s", **rollout},
    }


class Fleet:
    """A cluster whose workers elect: each acts when it holds the lock that it was told, and until it is gone."""

    def __init__(self, replicas: int) -> None:
        self.cluster = Cluster()
        self.stuck: set[str] = set()
        self.broken = False
        self.idle: Counter[int] = Counter()
        template(self.cluster, "1")
        self.cluster.shard_set(spec(replicas))

    def lock(self, pod: Pod) -> str:
        return parse_args(pod.manifest["spec"]["containers"][0]["args"]).lock_name

    def acting(self) -> list[Pod]:
        found = []
        for pod in self.cluster.pods.values():
            lease = self.cluster.leases.get(self.lock(pod))
            if lease is not None and lease["spec"]["holderIdentity"] == pod.uid:
                found.append(pod)
        return found

    def elect(self) -> None:
        for _name, pod in sorted(self.cluster.pods.items()):
            if pod.phase == "Running" and pod.deleting_at is None:
                lease = self.cluster.leases.setdefault(self.lock(pod), {"spec": {"holderIdentity": ""}})
                if not lease["spec"]["holderIdentity"]:
                    lease["spec"]["holderIdentity"] = pod.uid

    def run(self, seconds: int = 100) -> None:
        """Second by second: pods start and end, workers elect, and no slot is ever acted on by two."""
        for _second in range(seconds):
            claimed = Counter(slot for pod in self.acting() for slot in slots(pod))
            assert not claimed or max(claimed.values()) == 1, "two workers act on one slot"
            self.idle.update(set(range(32)) - set(claimed))
            for name, pod in list(self.cluster.pods.items()):
                gone = pod.deleting_at is not None and self.cluster.now - pod.deleting_at >= 3.0
                if gone and name not in self.stuck:
                    lease = self.cluster.leases.get(self.lock(pod))
                    if lease is not None and lease["spec"]["holderIdentity"] == pod.uid:
                        lease["spec"]["holderIdentity"] = ""  # its end, or its lease's
                    self.cluster.vanish(name)
                elif pod.phase == "Pending" and pod.deleting_at is None and not self.broken:
                    self.cluster.run(name)
            self.elect()
            self.cluster.advance(1.0)

    def resize(self, replicas: int, generation: int = 2, **rollout: Any) -> None:
        self.idle.clear()
        self.cluster.shard_set(spec(replicas, **rollout), generation=generation)

    def assert_whole(self, replicas: int) -> None:
        assert sorted(s for pod in self.acting() for s in slots(pod)) == list(range(32))
        assert len(self.cluster.pods) == replicas
        assert not document(self.cluster).unowned()
        assert self.status["state"] == "Complete"

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.status["rollout"]
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = next(c for c in self.cluster.status["conditions"] if c["type"] == kind)
        return found


def started(replicas: int) -> Fleet:
    fleet = Fleet(replicas)
    fleet.run(30)
    fleet.assert_whole(replicas)
    return fleet


def test_a_new_fleet_needs_no_gate() -> None:
    fleet = started(4)
    assert not any(isinstance(d, CreateObject) and d.target.kind == "Lease" for d in fleet.cluster.decided)


def test_a_new_template_stands_by_before_the_first_old_pod_is_stopped() -> None:
    fleet = started(3)
    old = set(fleet.cluster.pods)
    fleet.cluster.decided.clear()
    template(fleet.cluster, "2", image="new")
    fleet.run()
    fleet.assert_whole(3)
    assert old.isdisjoint(fleet.cluster.pods)
    pods = [
        d
        for d in fleet.cluster.decided
        if isinstance(d, CreateObject | DeleteObject) and d.target.kind == "Pod"
    ]
    assert [type(d) for d in pods] == [CreateObject] * 3 + [DeleteObject] * 3
    # A slot waits for the old pod's end alone: its successor is up already.
    assert max(fleet.idle.values()) <= 6


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9))
def test_any_resize_has_never_two_owners_and_ends_whole(before: int, after: int) -> None:
    fleet = started(before)
    fleet.resize(after)
    fleet.run(160)
    fleet.assert_whole(after)
    assert fleet.cluster.replayed() == fleet.cluster.state


def test_an_interleaved_shard_waits_for_all_its_old_owners_and_they_go_back_to_back() -> None:
    fleet = started(3)
    fleet.cluster.decided.clear()
    fleet.resize(4)
    fleet.run(80)
    fleet.assert_whole(4)
    # Slots 8 to 10 of new shard 1 came from old 0, the rest from old 1: 0 is gone, then 1 goes without a pause.
    stops = [d.at for d in fleet.cluster.decided if isinstance(d, DeleteObject) and d.target.kind == "Pod"]
    assert [round(b - a) for a, b in itertools.pairwise(stops)] == [3, 3]
    assert max(fleet.idle.values()) <= 4


def test_a_stuck_old_pod_keeps_its_successors_waiting_and_the_others_are_not_stopped() -> None:
    fleet = started(4)
    fleet.stuck = set(fleet.cluster.pods)
    template(fleet.cluster, "2", image="new")
    fleet.run(60)
    stopped = [p for p in fleet.cluster.pods.values() if p.deleting_at is not None]
    assert len(stopped) == 1
    fleet.run(300)
    assert "do not go away" in fleet.condition("Stuck")["message"]


def test_locks_are_renewed_while_they_are_held_and_removed_with_their_generation() -> None:
    fleet = started(2)
    template(fleet.cluster, "2", image="new")
    fleet.stuck = set(fleet.cluster.pods)
    fleet.cluster.decided.clear()
    fleet.run(30)
    renewals = [
        d for d in fleet.cluster.decided if isinstance(d, PatchObject) and "renewTime" in d.patch["spec"]
    ]
    assert len(renewals) >= 8
    fleet.stuck.clear()
    fleet.run()
    fleet.assert_whole(2)
    template(fleet.cluster, "3", image="newer")
    fleet.run()
    fleet.assert_whole(2)
    generations = {name.split("-")[1] for name in fleet.cluster.pods}
    ours = [name for name, lease in fleet.cluster.leases.items() if "acquireTime" in lease["spec"]]
    assert {name.split("-")[1] for name in ours} == generations


def test_a_template_that_does_not_start_pauses_with_every_old_pod_at_work() -> None:
    fleet = started(3)
    old = set(fleet.cluster.pods)
    fleet.resize(3, progressDeadline="30s")
    fleet.broken = True
    template(fleet.cluster, "2", image="broken")
    fleet.run(60)
    assert fleet.status["state"] == "Paused"
    assert {pod.name for pod in fleet.acting()} == old
    assert not fleet.idle
    fleet.broken = False
    fleet.resize(3, generation=3, undo=True)
    fleet.cluster.shard_set({**spec(3, undo=True, resumes=1)}, generation=4)
    fleet.run()
    assert {pod.name for pod in fleet.acting()} == old == set(fleet.cluster.pods)


def test_a_pod_that_is_lost_comes_back_under_its_lock() -> None:
    fleet = started(3)
    template(fleet.cluster, "2", image="new")
    fleet.run()
    name = sorted(fleet.cluster.pods)[1]
    fleet.cluster.fail(name)
    fleet.run(30)
    fleet.assert_whole(3)
    assert name in fleet.cluster.pods


def test_a_lock_that_somebody_took_is_said() -> None:
    fleet = started(2)
    fleet.stuck = set(fleet.cluster.pods)
    template(fleet.cluster, "2", image="new")
    for _second in range(6):
        fleet.cluster.run()
        fleet.cluster.advance(1.0)
    lock = next(name for name, lease in fleet.cluster.leases.items() if "acquireTime" in lease["spec"])
    fleet.cluster.leases[lock]["spec"]["holderIdentity"] = "somebody"
    fleet.cluster.advance(10.0)
    assert lock in fleet.condition("Stuck")["message"]
    assert fleet.condition("Stuck")["reason"] == "GateLost"


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ({"leaderElection": False}, "leaderElection is not true"),
        ({"injector": "slots-env"}, "lockFlag is missing"),
    ],
)
def test_workers_that_would_not_wait_are_restarted_one_at_a_time_and_it_is_said(
    workers: dict[str, Any], said: str
) -> None:
    cluster = Cluster()
    template(cluster, "1")
    wanted = spec(2)
    wanted["workers"].update(workers)
    cluster.shard_set(wanted)
    cluster.run()
    found = next(c for c in cluster.status["conditions"] if c["type"] == "GateRefused")
    assert found["status"] == "True"
    assert said in found["message"]
    assert sorted(cluster.pods) == ["orders-0", "orders-1"]


def test_a_set_in_place_goes_over_to_gates_and_back() -> None:
    fleet = Fleet(3)
    in_place = spec(3)
    in_place["handover"] = {"mode": "restart"}
    fleet.cluster.shard_set(in_place, generation=2)
    fleet.run()
    fleet.resize(3, generation=3)
    fleet.run()
    fleet.assert_whole(3)
    fleet.cluster.shard_set(in_place, generation=4)
    fleet.run()
    fleet.assert_whole(3)
    assert sorted(fleet.cluster.pods) == ["orders-0", "orders-1", "orders-2"]


def test_a_rollout_is_told_from_its_start_to_its_end() -> None:
    fleet = started(2)
    fleet.cluster.decided.clear()
    template(fleet.cluster, "2", image="new")
    fleet.run()
    assert [d.state for d in fleet.cluster.decided if isinstance(d, ChangeRollout)] == ["started", "complete"]
