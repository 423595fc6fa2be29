"""A request's increase over several groups: ready together, missed together, and stopped half-way."""

from __future__ import annotations

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision
from tidewright.provisioning.group_ids import NodeGroupId

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
BALANCED = {"balance-similar-node-groups": True, "max-node-provision-time": "5m"}


def two_groups(profile: str, kind: type[Cluster] = Cluster) -> Cluster:
    cluster = kind({**BALANCED, "profile": profile}, boots=False)
    for name in ("a", "b"):
        cluster.add_group(name, cpu=4000, maximum=4)
    cluster.template("worker", "3")
    cluster.request("train", ATOMIC, [("worker", 8)])
    cluster.settle()
    return cluster


@pytest.mark.parametrize("profile", ["compat", "hold"])
def test_groups_that_are_ready_in_the_same_moment_make_the_request_ready(profile: str) -> None:
    cluster = two_groups(profile)
    cluster.boot("a")
    cluster.boot("b")
    cluster.advance(15)
    conditions = cluster.conditions("train")
    assert conditions["CapacityReady"].status == "True"
    assert conditions["Provisioned"].status == "True"


def test_one_group_that_does_not_come_is_not_forgotten_when_the_other_does() -> None:
    cluster = two_groups("compat")
    cluster.advance(200)
    cluster.boot("a")
    cluster.advance(200)
    assert cluster.conditions("train")["CapacityReady"].status == "False"
    assert cluster.conditions("train")["Provisioned"].status == "True"


def test_hold_tries_again_when_nodes_do_not_come() -> None:
    cluster = two_groups("hold")
    cluster.advance(310)
    assert cluster.conditions("train")["Provisioned"].status == "False"
    for group in cluster.groups.values():
        assert group.target == 0
        group.instances.clear()
        cluster.observe_group(group.id)
    cluster.boots = True
    cluster.advance(1000)  # both groups' backoff is over
    assert cluster.conditions("train")["Provisioned"].status == "True"
    assert cluster.conditions("train")["CapacityReady"].status == "True"


@pytest.mark.parametrize("profile", ["compat", "hold"])
def test_a_request_of_which_no_instance_can_be_made_is_told(profile: str) -> None:
    cluster = Cluster({"profile": profile}, boots=False)
    cluster.add_group("a", cpu=4000, maximum=4)
    cluster.template("worker", "3")
    cluster.request("train", ATOMIC, [("worker", 2)])
    cluster.settle()
    cluster.groups[NodeGroupId("a")].instances = [
        p.Instance(id=i.id, state="creating", error_class=1, error_code="StockOut")
        for i in cluster.groups[NodeGroupId("a")].instances
    ]
    cluster.observe_group("a")
    cluster.advance(30)
    assert cluster.conditions("train")["CapacityReady"].status == "False"
    assert cluster.conditions("train")["Provisioned"].status == ("True" if profile == "compat" else "False")
    assert cluster.state.open == {}


class Slow(Cluster):
    """A cloud that answers increases when the test says so."""

    def _act(self, decision: Decision) -> None:
        if not isinstance(decision, p.IncreaseNodeGroup):
            super()._act(decision)


def test_a_request_deleted_between_two_orders_sends_no_second_one() -> None:
    cluster = two_groups("compat", Slow)
    (first,) = cluster.of(p.IncreaseNodeGroup)
    cluster.delete_request("train")
    cluster.tell(o.Applied(at=cluster.now, decision=first.id))
    cluster.settle()
    assert len(cluster.of(p.IncreaseNodeGroup)) == 1
    assert [(d.target.name, d.size) for d in cluster.of(p.DecreaseNodeGroup)] == [("a", 0)]
    assert cluster.state.groups[NodeGroupId("b")].target == 0
    assert cluster.state.open == {}


def test_a_plan_that_counted_on_another_one_that_failed_is_made_again_at_once() -> None:
    cluster = Cluster({"balance-similar-node-groups": True})
    for name in ("a", "b"):
        cluster.add_group(name, cpu=4000, maximum=9)
    cluster.refuse["a"] = "OutOfCapacity"
    cluster.template("worker", "3")
    cluster.request("half", ATOMIC, [("worker", 10)])
    cluster.request("other", ATOMIC, [("worker", 3)])
    cluster.settle()
    assert cluster.conditions("half")["Provisioned"].status == "False"
    (said,) = [e for e in cluster.object_events("CapacityNotFound") if e.target.name == "half"]
    assert said.message == "the order for group a failed: OutOfCapacity here"
    assert cluster.conditions("other")["Provisioned"].status == "True"
    assert {name: group.target for name, group in cluster.groups.items()} == {"a": 0, "b": 3}


@pytest.mark.parametrize("cls", [ATOMIC, "check-capacity.autoscaling.x-k8s.io"])
def test_room_on_nodes_that_are_ordered_counts_once_the_cloud_has_taken_the_order(cls: str) -> None:
    cluster = Cluster({}, boots=False)
    cluster.add_group("a", cpu=8000, maximum=1)
    cluster.template("worker", "3")
    cluster.refuse["a"] = "OutOfCapacity"
    cluster.request("first", ATOMIC, [("worker", 1)])
    cluster.request("second", cls, [("worker", 1)])
    cluster.settle()
    for name in ("first", "second"):
        assert cluster.conditions(name)["Provisioned"].status == "False"
    del cluster.refuse["a"]
    cluster.advance(1000)
    for name in ("first", "second"):
        assert cluster.conditions(name)["Provisioned"].status == "True"
    assert cluster.groups[NodeGroupId("a")].target == 1
