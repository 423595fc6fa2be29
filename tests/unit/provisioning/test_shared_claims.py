"""A claim that several pods name: its devices are taken once, and its pods go to where they are. Spec 3.4."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.claimworld import (
    ATOMIC,
    CHECK,
    GPU,
    ZONE,
    by_template,
    claim_template,
    device,
    device_class,
    exactly,
    grown,
    offers,
    provisioned,
    told,
    with_devices,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.events.base import JsonObject
from tidewright.kube.keys import request_key
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of

SHORT = {"BookingSeconds": "1"}


def claim(cluster: Cluster, name: str = "mine", **status: object) -> None:
    told(
        cluster, "ResourceClaim", name, "ns", spec={"devices": {"requests": [exactly()]}}, status=status
    )  # fmt: skip


def by_name(*names: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": n} for i, n in enumerate(names)]}


def with_group(cluster: Cluster, devices: int, **more: Any) -> None:
    cluster.add_group("gpus", maximum=20, **more)
    group = cluster.groups["gpus"]
    offered = tuple({"driver": GPU, **device(f"d{i}")} for i in range(devices))
    group.template = msgspec.structs.replace(group.template, devices=offered)
    cluster.observe_group("gpus")


def network(cluster: Cluster, *devices: str, **where: Any) -> None:
    """Devices that several nodes reach."""
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec: JsonObject = {"driver": GPU, "pool": pool, "devices": [device(name) for name in devices], **where}
    told(cluster, "ResourceSlice", "net", spec=spec)


def test_pods_of_one_claim_take_its_devices_once_and_sit_on_one_node() -> None:
    cluster = with_devices(nodes=3, devices=1)
    claim(cluster)
    cluster.template("sharer", "1", **by_name("mine"))
    cluster.request("five", CHECK, [("sharer", 5)])  # the nodes have room for twelve, one of them for four
    cluster.request("four", CHECK, [("sharer", 4)], SHORT)
    cluster.advance(5)
    assert (provisioned(cluster, "five"), provisioned(cluster, "four")) == (False, True)
    (places,) = cluster.state.requests[request_key("ns", "four")].places.values()
    assert list(places.values()) == [4]


def test_requests_that_name_one_claim_have_it_together_and_others_do_not() -> None:
    cluster = with_devices(nodes=1, devices=1)
    claim(cluster)
    claim(cluster, "other")
    cluster.template("sharer", "100m", **by_name("mine"))
    cluster.template("stranger", "100m", **by_name("other"))
    cluster.request("a", CHECK, [("sharer", 1)])
    cluster.settle()
    cluster.request("b", CHECK, [("sharer", 1)])
    cluster.request("c", CHECK, [("stranger", 1)])
    cluster.settle()
    assert [provisioned(cluster, name) for name in "abc"] == [True, True, False]


def test_different_pods_of_one_claim_find_a_node_that_holds_them_all() -> None:
    cluster = with_devices(nodes=3, devices=1)
    for node in ("n0", "n2"):
        cluster.pod(f"busy-{node}", cluster.shape({"cpu": 2500}), node=node)
    claim(cluster)
    cluster.template("small", "1", **by_name("mine"))
    cluster.template("large", "3", **by_name("mine"))
    cluster.request("both", CHECK, [("small", 1), ("large", 1)])
    cluster.settle()
    assert provisioned(cluster, "both")
    assert [sorted(nodes) for nodes in cluster.state.requests[request_key("ns", "both")].places.values()] == [
        ["n1"],
        ["n1"],
    ]


@pytest.mark.parametrize(("shared", "nodes"), [(True, 1), (False, 3)])
def test_pending_pods_order_one_node_for_the_claim_that_they_share(shared: bool, nodes: int) -> None:
    cluster = Cluster()
    device_class(cluster)
    with_group(cluster, devices=1)
    claim(cluster)
    claim_template(cluster, "one", exactly())
    shape = cluster.shape(
        {"cpu": 1000}, by_name("mine") if shared else {"resourceClaims": by_template("one")}
    )
    for i in range(3):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert grown(cluster) == {"gpus": nodes}
    cluster.advance(30)
    assert grown(cluster) == {"gpus": nodes}  # what was ordered for them covers them


def test_no_node_is_ordered_for_pods_whose_claim_has_its_devices_on_a_full_one() -> None:
    cluster = Cluster()
    device_class(cluster)
    with_group(cluster, devices=1)
    claim(cluster)
    shape = cluster.shape({"cpu": 1000}, by_name("mine"))
    for i in range(6):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert grown(cluster) == {"gpus": 1}  # four of them; a second one would stand empty
    cluster.settle()
    assert grown(cluster) == {"gpus": 1}


def test_an_atomic_request_leaves_a_claim_to_the_node_that_holds_all_of_its_pods() -> None:
    cluster = with_devices(nodes=1, devices=1)
    cluster.pod("busy", cluster.shape({"cpu": 3000}), node="n0")
    with_group(cluster, devices=1)
    claim(cluster)
    cluster.template("sharer", "1", **by_name("mine"))
    cluster.request("four", ATOMIC, [("sharer", 4)])
    cluster.request("five", ATOMIC, [("sharer", 5)])
    cluster.settle()
    assert grown(cluster) == {"gpus": 1}
    assert not provisioned(cluster, "five")


@pytest.mark.parametrize(("reserved", "fits"), [(250, 6), (255, 1), (256, 0)])
def test_a_claim_is_for_256_pods_at_a_time(reserved: int, fits: int) -> None:
    cluster = with_devices(nodes=1, devices=1)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    allocation = {
        "devices": {"results": [{"request": "g", "driver": GPU, "pool": "n0", "device": "d0"}]},
        "nodeSelector": {"nodeSelectorTerms": terms},
    }
    users = [{"resource": "pods", "name": f"p{i}", "uid": f"u{i}"} for i in range(reserved)]
    claim(cluster, allocation=allocation, reservedFor=users)
    cluster.template("sharer", "10m", **by_name("mine"))
    cluster.request("more", CHECK, [("sharer", fits + 1)])
    if fits:
        cluster.request("rest", CHECK, [("sharer", fits)])
    cluster.settle()
    assert not provisioned(cluster, "more")
    assert not fits or provisioned(cluster, "rest")
    digest = cluster.shape({"cpu": 10}, by_name("mine"))
    cluster.pod("p", digest)
    Evaluation(cluster.state, "")
    why = shape_of(cluster.state, index_of(cluster.state), digest).blocked
    assert why == ("" if fits else 'resourceclaim "mine" is reserved for 256 pods, and no more can have it')


def test_more_pods_than_a_claim_is_for_are_not_placed_at_once() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n", cpu=10**6, pods=1000)
    offers(cluster, "n", device("d0"))
    claim(cluster)
    cluster.template("sharer", "10m", **by_name("mine"))
    cluster.request("all", CHECK, [("sharer", 256)], SHORT)
    cluster.request("more", CHECK, [("sharer", 257)])
    cluster.advance(5)
    assert (provisioned(cluster, "all"), provisioned(cluster, "more")) == (True, False)


def test_devices_that_nodes_reach_together_count_once_for_all_of_them() -> None:
    cluster = Cluster()
    device_class(cluster)
    for n in range(3):
        cluster.add_node(f"n{n}")
    network(cluster, "a", "b", allNodes=True)
    claim_template(cluster, "one", exactly())
    cluster.template("worker", "3", resourceClaims=by_template("one"))
    cluster.request("three", CHECK, [("worker", 3)])
    cluster.request("two", CHECK, [("worker", 2)])
    cluster.settle()
    assert (provisioned(cluster, "three"), provisioned(cluster, "two")) == (False, True)


@pytest.mark.parametrize(("everywhere", "many"), [(True, 3), (False, 2)])
def test_pods_of_a_claim_go_to_all_nodes_that_reach_its_devices(everywhere: bool, many: int) -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_group("a", labels={ZONE: "a"})
    cluster.add_node("n0")
    cluster.add_node("n1", "a")
    cluster.add_node("n2", "a")
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
    where = {"allNodes": True} if everywhere else {"nodeSelector": {"nodeSelectorTerms": terms}}
    network(cluster, "a", **where)
    claim(cluster)
    cluster.template("sharer", "3", **by_name("mine"))
    cluster.request("more", CHECK, [("sharer", many + 1)])
    cluster.request("all", CHECK, [("sharer", many)])
    cluster.settle()
    assert (provisioned(cluster, "more"), provisioned(cluster, "all")) == (False, True)


def test_a_group_grows_for_pods_that_share_a_device_which_its_nodes_reach() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_group("g", maximum=20)
    network(cluster, "a", allNodes=True)
    claim(cluster)
    shape = cluster.shape({"cpu": 3000}, by_name("mine"))
    claim_template(cluster, "one", exactly())
    other = cluster.shape({"cpu": 3000}, {"resourceClaims": by_template("one")})
    for i in range(3):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert grown(cluster) == {"g": 3}
    cluster.pod("other", other)  # the device is had
    cluster.settle()
    assert grown(cluster) == {"g": 3}


def test_an_atomic_request_uses_the_room_of_all_nodes_that_reach_a_claims_device() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n0")
    cluster.add_group("g", maximum=20)
    network(cluster, "a", allNodes=True)
    claim(cluster)
    cluster.template("sharer", "3", **by_name("mine"))
    cluster.request("three", ATOMIC, [("sharer", 3)])
    cluster.settle()
    assert grown(cluster) == {"g": 2}


def test_claims_of_a_pod_that_meet_on_no_node_keep_it_waiting() -> None:
    cluster = with_devices(nodes=2, devices=1)
    for name in ("mine", "yours"):
        claim(cluster, name)
    cluster.template("a", "3", **by_name("mine"))
    cluster.template("b", "3", **by_name("yours"))
    cluster.template("both", "100m", **by_name("mine", "yours"))
    cluster.request("apart", CHECK, [("a", 1), ("b", 1)])
    cluster.settle()
    cluster.request("both", CHECK, [("both", 1)])
    cluster.settle()
    assert (provisioned(cluster, "apart"), provisioned(cluster, "both")) == (True, False)
