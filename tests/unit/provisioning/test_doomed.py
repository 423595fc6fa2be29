"""Nodes whose instances are being deleted: no room for anybody, and no part of what was ordered."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.unanswered import DeleteOrder

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"


class Slow(Cluster):
    """A cloud that takes its time to delete: instances are `deleting`, and their nodes are still ready."""

    refuses = False

    def _shrink(self, decision: p.DeleteInstances) -> list[Event]:
        if self.refuses:
            return []
        group = self.groups[decision.target.name]
        doomed = set(decision.instances)
        group.instances = [
            msgspec.structs.replace(i, state="deleting") if i.id in doomed else i for i in group.instances
        ]
        group.target -= len(doomed)
        return [self._group_fact(decision.target.name)]

    def _grow(self, name: str, size: int) -> list[Event]:
        group = self.groups[name]
        going = [i for i in group.instances if i.state == "deleting"]
        group.instances = [i for i in group.instances if i.state != "deleting"]
        nodes = super()._grow(name, size)[1:]
        group.instances = going + group.instances
        return [self._group_fact(name), *nodes]


def deleting(**config: Any) -> Slow:
    """One node of a group was empty for too long, and is being deleted."""
    cluster = Slow({"scale-down-unneeded-time": "10s", "scale-down-delay-after-add": "1s", **config})
    cluster.add_group("workers", cpu=4000, maximum=5, target=1)
    cluster.add_node("old", "workers")
    cluster.template("three", "3")
    cluster.advance(30)
    assert len(cluster.of(p.DeleteInstances)) == 1
    return cluster


def test_no_request_finds_room_on_a_node_that_is_being_deleted() -> None:
    cluster = deleting()
    cluster.request("check", CHECK, [("three", 1)])
    cluster.request("atomic", ATOMIC, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("check")["Provisioned"].status == "False"
    assert cluster.conditions("atomic")["Provisioned"].reason == "CapacityIsProvisioned"
    assert [(d.from_size, d.size) for d in cluster.of(p.IncreaseNodeGroup)] == [(0, 1)]


def test_what_is_ordered_meanwhile_is_ready_when_its_own_nodes_are_and_is_ordered_once() -> None:
    cluster = deleting()
    cluster.boots = False
    cluster.request("r", ATOMIC, [("three", 1)])
    cluster.pod("p", cluster.shape({"cpu": 3500}))
    cluster.advance(120)
    assert sum(d.size - d.from_size for d in cluster.of(p.IncreaseNodeGroup)) == 2
    assert "CapacityReady" not in cluster.conditions("r")
    cluster.boot("workers")
    cluster.advance(15)
    assert cluster.conditions("r")["CapacityReady"].status == "True"
    assert len(cluster.of(p.DeleteInstances)) == 1  # it is asked for once, however long that takes


def test_a_node_whose_deletion_was_refused_is_room_again() -> None:
    cluster = deleting()
    cluster.groups[NodeGroupId("workers")].instances = [p.Instance(id="sim://old", state="running")]
    cluster.groups[NodeGroupId("workers")].target = 1
    (deletion,) = cluster.of(p.DeleteInstances)
    cluster.state.orders[deletion.id] = DeleteOrder(NodeGroupId("workers"))
    cluster.state.groups[NodeGroupId("workers")].instances = tuple(
        cluster.groups[NodeGroupId("workers")].instances
    )
    cluster.state.groups[NodeGroupId("workers")].going = ()
    cluster.tell(o.Rejected(at=cluster.now, decision=deletion.id, reason="Forbidden", message="no"))
    cluster.observe_group("workers")
    cluster.request("check", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("check")["Provisioned"].status == "True"


def test_a_node_that_the_cloud_takes_away_by_itself_is_no_room_either() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=0, target=1)
    cluster.add_node("old", "workers")
    group = cluster.groups[NodeGroupId("workers")]
    group.instances = [msgspec.structs.replace(i, state="deleting") for i in group.instances]
    cluster.observe_group("workers")
    cluster.template("three", "3")
    cluster.request("check", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("check")["Provisioned"].status == "False"
    cluster.tell(cluster.node_fact("workers", "old"))
    assert cluster.state.nodes["old"].doomed
