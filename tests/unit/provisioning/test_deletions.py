"""Calls that delete the instances of nodes that are ready: which nodes go together, and what becomes of those that are refused."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.provisioning.removalworld import Removing, world
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.decisions import EvictPod
from tidewright.provisioning.scaledown.removal import steps
from tidewright.provisioning.scaledown.removal.steps import TOGETHER_S


def test_a_group_does_not_fall_below_its_minimum() -> None:
    cluster = world(minimum=2)
    cluster.remove("n0", drain=False)
    cluster.remove("n1", drain=False)
    cluster.advance(10.0)
    assert cluster.deleted == ["n0"]
    assert cluster.undone() == ["NodeGroupMinSizeReached"]
    assert cluster.marked() == set()


def test_deletions_of_a_group_are_gathered_for_one_call() -> None:
    cluster = world(config={"node-deletion-batcher-interval": "10s"})
    cluster.remove("n0", drain=False)
    cluster.advance(3.0)
    cluster.remove("n1", drain=False)
    cluster.advance(11.0)
    assert cluster.of(p.DeleteInstances) == []
    cluster.advance(2.0)
    (deletion,) = cluster.of(p.DeleteInstances)
    assert (deletion.nodes, deletion.from_size, deletion.size) == (("n0", "n1"), 3, 1)


def test_of_gathered_deletions_only_those_below_the_minimum_are_undone() -> None:
    cluster = world(4, {"node-deletion-batcher-interval": "10s"}, minimum=2)
    for name in ("n0", "n1", "n2"):
        cluster.remove(name, drain=False)
    cluster.advance(20.0)
    (deletion,) = cluster.of(p.DeleteInstances)
    assert (deletion.nodes, deletion.size) == (("n0", "n1"), 2)
    assert cluster.undone() == ["NodeGroupMinSizeReached"]
    assert cluster.marked() == set()


def test_nodes_of_one_pass_go_in_one_call_once_their_marks_are_there() -> None:
    cluster = world(5, {"node-delete-delay-after-taint": "0s"})
    cluster.decided(*(cluster.removal(f"n{i}", drain=False) for i in range(5)))
    (deletion,) = cluster.of(p.DeleteInstances)
    assert deletion.nodes == ("n0", "n1", "n2", "n3", "n4")
    assert (deletion.from_size, deletion.size) == (5, 0)
    assert cluster.deleted == [f"n{i}" for i in range(5)]


@pytest.mark.parametrize("at_once", [steps.MOST_OF_FEW, steps.MOST_AT_ONCE])
def test_nodes_that_are_enough_wait_for_no_others_and_as_many_as_a_call_takes_go_together_in_the_next(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    count = steps.ENOUGH + at_once + 3
    monkeypatch.setattr(steps, "FEW_NODES", count if at_once == steps.MOST_OF_FEW else at_once)
    cluster = world(count, {"node-delete-delay-after-taint": "0s"})
    cluster.decided(*(cluster.removal(f"n{i}", drain=False) for i in range(count)))
    calls = cluster.of(p.DeleteInstances)
    assert [len(deletion.nodes) for deletion in calls] == [steps.ENOUGH, at_once, 3]
    assert [(d.from_size, d.size) for d in calls] == [(count, at_once + 3), (at_once + 3, 3), (3, 0)]


def test_a_mark_that_does_not_come_is_waited_for_no_longer_than_a_moment() -> None:
    cluster = world(3, {"node-delete-delay-after-taint": "0s"})
    shows = cluster.fact_of

    def seen(name: str, delays: tuple[str, ...] = ()) -> f.NodeObserved:
        fact = shows(name, delays)
        return msgspec.structs.replace(fact, taints=(), annotations={}) if name == "n1" else fact

    cluster.fact_of = seen  # type: ignore[method-assign]  # of the mark of n1 the watcher does not tell
    cluster.decided(*(cluster.removal(f"n{i}", drain=False) for i in range(3)))
    assert cluster.deleted == []
    cluster.advance(2 * TOGETHER_S)
    (deletion,) = cluster.of(p.DeleteInstances)
    assert deletion.nodes == ("n0", "n2")


@pytest.mark.parametrize(
    ("grace_s", "calls"),
    [(0, [("n0", "n1", "n2")]), (int(TOGETHER_S), [("n0", "n1", "n2")]), (30, [("n0",), ("n1", "n2")])],
)
def test_nodes_of_one_pass_whose_pods_end_soon_go_in_one_call(
    grace_s: int, calls: list[tuple[str, ...]]
) -> None:
    cluster = world(3, {"node-delete-delay-after-taint": "0s"})
    for name in ("n0", "n1", "n2"):
        cluster.run_pod(f"of-{name}", name, removal=f.Removal(grace_s=grace_s))
    cluster.decided(*(cluster.removal(name) for name in ("n0", "n1", "n2")))
    assert [deletion.nodes for deletion in cluster.of(p.DeleteInstances)] == calls


def test_a_pod_that_does_not_end_is_waited_for_no_longer_than_a_moment() -> None:
    cluster = world(3, {"node-delete-delay-after-taint": "0s"})
    cluster.run_pod("a", "n0", removal=f.Removal(grace_s=0))
    cluster.run_pod("b", "n1", removal=f.Removal(grace_s=0))
    evict = cluster._evict

    def stays(decision: EvictPod) -> None:
        if decision.target.name == "b":
            cluster._inbox.append(o.Applied(at=cluster.now, decision=decision.id))
        else:
            evict(decision)

    cluster._evict = stays  # type: ignore[method-assign]  # an eviction of b is admitted, and b stays
    cluster.decided(*(cluster.removal(name) for name in ("n0", "n1")))
    assert cluster.deleted == []
    cluster.advance(2 * TOGETHER_S)
    (deletion,) = cluster.of(p.DeleteInstances)
    assert deletion.nodes == ("n0",)


def test_a_node_whose_deletion_is_refused_keeps_no_other_one_from_going() -> None:
    cluster = world(5)
    late = f.PodObserved(at=cluster.now, namespace="ns", name="late", uid="u", node="n3")
    cluster.placed["late"] = late  # of which nobody tells
    cluster.decided(*(cluster.removal(f"n{i}", drain=False) for i in range(5)))
    cluster.advance(30.0)
    assert cluster.deleted == ["n0", "n1", "n2", "n4"]
    assert cluster.state.removals.keys() == {"n3"}
    calls = [call.nodes for call in cluster.of(p.DeleteInstances)]
    assert calls[:2] == [("n0", "n1", "n2", "n3", "n4"), ("n0", "n1", "n2", "n4")]
    assert set(calls[2:]) == {("n3",)}, "the one that is not empty is asked for by itself"


@pytest.mark.parametrize("reason", ["Forbidden", "Invalid"])
def test_what_a_cloud_refuses_of_several_is_asked_for_one_by_one(reason: str) -> None:
    cluster = world(4)
    cluster.deletion_refused = {"n2": reason}
    cluster.decided(*(cluster.removal(f"n{i}", drain=False) for i in range(4)))
    cluster.advance(30.0)
    assert cluster.deleted == ["n0", "n1", "n3"]
    (undone,) = cluster.of(p.UndoRemoval)
    assert (undone.node, undone.reason) == ("n2", "Failed")
    assert cluster.marked() == set()


def going_as_a_whole() -> Removing:
    """Three nodes that go together, one of which has a pod whose budget is closed."""
    cluster = world()
    whole = ("n0", "n1", "n2")
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    cluster.decided(*(cluster.removal(name, drain=name == "n0", whole=whole) for name in whole))
    return cluster


def test_a_group_that_goes_as_a_whole_goes_at_once_or_not_at_all() -> None:
    cluster = going_as_a_whole()
    cluster.advance(60.0)
    assert cluster.deleted == []
    cluster.budget("web", 1)
    assert cluster.deleted == ["n0", "n1", "n2"]
    (deletion,) = cluster.of(p.DeleteInstances)
    assert deletion.size == 0


def test_of_a_group_that_goes_as_a_whole_one_that_stays_keeps_all() -> None:
    cluster = going_as_a_whole()
    cluster.advance(200.0)
    assert sorted(cluster.undone()) == ["AtomicScaleDownFailed", "AtomicScaleDownFailed", "DisruptionBudget"]
    assert (cluster.deleted, cluster.marked()) == ([], set())


def test_a_cloud_that_does_not_delete_undoes_the_drain() -> None:
    cluster = world()
    cluster.delete_fails = "Unavailable"
    cluster.remove("n0", drain=False)
    cluster.advance(6.0)
    (undone,) = cluster.of(p.UndoRemoval)
    assert (undone.reason, undone.failed) == ("Failed", True)
    assert cluster.marked() == set()
    assert cluster.state.groups["g"].target == 3  # type: ignore[index]  # an id is text
    assert not cluster.state.nodes["n0"].doomed


def test_a_pod_that_the_decider_has_not_heard_of_keeps_its_instance() -> None:
    cluster = world()
    cluster.remove("n0", drain=False)
    unheard = f.PodObserved(at=cluster.now, namespace="ns", name="new", uid="u", node="n0")
    cluster.placed["new"] = unheard
    cluster.advance(6.0)
    assert cluster.deleted == []
    assert len(cluster.of(p.DeleteInstances)) == 1
    cluster.advance(10.0)
    assert len(cluster.of(p.DeleteInstances)) > 1, "asked again, as long as nothing else is known"
    del cluster.placed["new"]
    cluster.advance(10.0)
    assert cluster.deleted == ["n0"]


def test_an_instance_that_may_never_be_deleted_is_asked_for_only_so_long() -> None:
    cluster = world()
    cluster.remove("n0", drain=False)
    cluster.placed["new"] = f.PodObserved(at=cluster.now, namespace="ns", name="new", uid="u", node="n0")
    cluster.advance(600.0)
    (undone,) = cluster.of(p.UndoRemoval)
    assert (undone.reason, undone.failed) == ("NotDeleted", True)
    assert (cluster.deleted, cluster.marked()) == ([], set())
    assert len(cluster.of(p.DeleteInstances)) < 60


@pytest.mark.parametrize("known", [True, False])
def test_a_node_whose_deletion_may_have_been_made_stays_marked_until_that_is_known(known: bool) -> None:
    cluster = world()
    cluster.delete_fails = p.ANSWER_LOST
    cluster.remove("n0", drain=False)
    cluster.advance(60.0)
    assert len(cluster.of(p.DeleteInstances)) == 1, "its cloud would take a repeat for another one"
    assert (cluster.undone(), cluster.marked()) == ([], {"n0"})
    cluster.delete_fails = ""
    for _ in range(2 if known else 1):
        cluster.advance(10.0)
        cluster.tell(p.CloudObserved(at=cluster.now, name="", refreshed=cluster.now))
    cluster.advance(600.0)
    assert (cluster.deleted, cluster.undone()) == ((["n0"], []) if known else ([], ["NotDeleted"]))
