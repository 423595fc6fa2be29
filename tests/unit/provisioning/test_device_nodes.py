"""Groups that grow for the devices of their nodes, and nodes whose devices come late. Spec 3.2, 3.4."""

from __future__ import annotations

import msgspec

from tests.unit.provisioning.claimworld import (
    ATOMIC,
    GPU,
    by_template,
    claim_template,
    device,
    device_class,
    exactly,
    offers,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p


def test_a_group_grows_by_the_nodes_whose_devices_are_asked_for() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_group("plain", maximum=20)
    cluster.add_group("gpus", maximum=20)
    offered = tuple({"driver": GPU, **device(f"d{i}")} for i in range(4))
    group = cluster.groups["gpus"]
    group.template = msgspec.structs.replace(group.template, devices=offered)
    cluster.observe_group("gpus")
    claim_template(cluster, "one", exactly())
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    cluster.request("train", ATOMIC, [("worker", 10)])
    cluster.settle()
    assert [(d.target.name, d.size) for d in cluster.of(p.IncreaseNodeGroup)] == [("gpus", 3)]


def test_nodes_whose_devices_have_not_come_yet_are_on_their_way() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_group("gpus", maximum=20)
    offered = tuple({"driver": GPU, **device(f"d{i}")} for i in range(2))
    group = cluster.groups["gpus"]
    group.template = msgspec.structs.replace(group.template, devices=offered)
    cluster.observe_group("gpus")
    claim_template(cluster, "one", exactly())
    shape = cluster.shape({"cpu": 100}, {"resourceClaims": by_template("one")})
    for i in range(4):
        cluster.pod(f"p{i}", shape)
    cluster.advance(60)  # both nodes are there and ready, without devices
    assert len(cluster.state.nodes) == 2
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [2]
    for name in sorted(cluster.state.nodes):
        offers(cluster, name, *(device(f"d{i}") for i in range(2)))
    cluster.advance(60)
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [2]
    cluster.pod("p5", shape)
    cluster.settle()
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [2, 3]


def test_nodes_without_their_gpus_are_on_their_way() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("gpus", maximum=20, more={"nvidia.com/gpu": 1})
    shape = cluster.shape({"cpu": 100, "nvidia.com/gpu": 1})
    cluster.pod("p", shape)
    cluster.settle()
    node = cluster.node_fact("gpus", "gpus-new-1")
    assert isinstance(node, f.NodeObserved)
    blind = {name: amount for name, amount in node.allocatable.items() if name != "nvidia.com/gpu"}
    cluster.tell(msgspec.structs.replace(node, allocatable=blind))
    cluster.observe_group("gpus")
    cluster.advance(120)
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [1]
    cluster.tell(msgspec.structs.replace(node, at=cluster.now))
    cluster.advance(20)
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [1]
    assert [d.result for d in cluster.of(p.CloseScaleUp)] == ["Finished"]


def test_devices_of_a_template_that_cannot_be_read_are_not_there() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_group("gpus", maximum=20)
    group = cluster.groups["gpus"]
    odd = (
        {"driver": GPU},
        {"driver": GPU, "name": "a", "capacity": {"memory": {"value": "much"}}},
        {
            "driver": GPU,
            "name": "b",
            "capacity": {"memory": {"value": "1", "requestPolicy": {"default": "?"}}},
        },
        {"driver": GPU, "name": "c", "consumesCounters": [{"counterSet": "s", "counters": {"x": {}}}]},
        {"driver": GPU, "sharedCounters": [{"counters": {"x": {"value": "1"}}}]},
    )
    group.template = msgspec.structs.replace(group.template, devices=(*odd, {"driver": GPU, **device("d")}))
    cluster.observe_group("gpus")
    claim_template(cluster, "one", exactly())
    shape = cluster.shape({"cpu": 100}, {"resourceClaims": by_template("one")})
    for i in range(2):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [2]
