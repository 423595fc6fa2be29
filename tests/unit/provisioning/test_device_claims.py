"""Claims of devices, resolved against what facts have told of the objects. Spec 3.4."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.unit.provisioning.claimworld import (
    CHECK,
    GPU,
    by_template,
    claim_template,
    device,
    device_class,
    exactly,
    grown,
    offers,
    pcie,
    provisioned,
    told,
    with_devices,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.events.base import JsonObject
from tidewright.events.decisions import CreateObject
from tidewright.events.placement import PlacementObjectGone
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.state import State


def test_a_check_counts_the_devices_of_nodes() -> None:
    cluster = with_devices(nodes=2, devices=4)
    cluster.request("fits", CHECK, [("worker", 8)])
    cluster.settle()
    assert provisioned(cluster, "fits")
    cluster.request("more", CHECK, [("worker", 1)])
    cluster.settle()
    assert not provisioned(cluster, "more")


def test_devices_of_allocated_claims_are_taken_and_come_back() -> None:
    cluster = with_devices(nodes=1, devices=2)
    results = [{"request": "g", "driver": GPU, "pool": "n0", "device": "d0"}]
    told(
        cluster, "ResourceClaim", "used", "ns",
        spec={"devices": {"requests": [exactly()]}},
        status={"allocation": {"devices": {"results": results}}},
    )  # fmt: skip
    cluster.request("two", CHECK, [("worker", 2)])
    cluster.settle()
    assert not provisioned(cluster, "two")
    cluster.tell(PlacementObjectGone(at=cluster.now, namespace="ns", name="used", kind="ResourceClaim"))
    cluster.advance(70)
    assert provisioned(cluster, "two")


def test_a_device_that_is_shared_by_an_administrator_is_not_taken() -> None:
    cluster = with_devices(nodes=1, devices=1)
    results = [{"request": "g", "driver": GPU, "pool": "n0", "device": "d0", "adminAccess": True}]
    told(cluster, "ResourceClaim", "watch", "ns", status={"allocation": {"devices": {"results": results}}})
    cluster.request("one", CHECK, [("worker", 1)])
    cluster.settle()
    assert provisioned(cluster, "one")


@pytest.mark.parametrize(
    ("expression", "many"),
    [
        (f'device.attributes["{GPU}"].model == "a100"', 2),
        (f'device.attributes["{GPU}"].model == "h100"', 1),
        (f'device.capacity["{GPU}"].memory.compareTo(quantity("60Gi")) >= 0', 1),
        ('has(device.attributes["other.example.com"].size)', 0),
        ('device.attributes["other.example.com"].size > 1', 0),
        ("this is no expression", 0),
    ],
)
def test_selectors_say_which_devices_will_do(expression: str, many: int) -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n")
    offers(cluster, "n", device("a"), device("b"), device("c", "h100", "80Gi"))
    claim_template(cluster, "t", exactly(expression=expression))
    cluster.template("worker", "100m", resourceClaims=by_template("t"))
    for count in (many, many + 1):
        if count:
            cluster.request(f"r{count}", CHECK, [("worker", count)], {"BookingSeconds": "1"})
            cluster.advance(10)
            assert provisioned(cluster, f"r{count}") is (count == many)


def test_claims_that_may_take_the_same_devices_are_counted_together() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n")
    offers(cluster, "n", device("a"), device("b", "h100"))
    claim_template(cluster, "any", exactly())
    claim_template(cluster, "big", exactly(expression=f'device.attributes["{GPU}"].model == "h100"'))
    cluster.template("any", "100m", resourceClaims=by_template("any"))
    cluster.template("big", "100m", resourceClaims=by_template("big"))
    cluster.request("both", CHECK, [("any", 1), ("big", 1)], {"BookingSeconds": "1"})
    cluster.advance(5)
    assert provisioned(cluster, "both")
    cluster.request("three", CHECK, [("any", 2), ("big", 1)])
    cluster.settle()
    assert not provisioned(cluster, "three")


def test_a_request_that_takes_all_devices_shares_them_with_nobody() -> None:
    cluster = with_devices(nodes=2, devices=4)
    claim_template(cluster, "all", exactly(allocationMode="All"))
    cluster.template("whole", "100m", resourceClaims=by_template("all"))
    cluster.request("one", CHECK, [("worker", 1)])
    cluster.request("whole", CHECK, [("whole", 1)])
    cluster.request("second", CHECK, [("whole", 1)])
    cluster.settle()
    assert provisioned(cluster, "one")
    assert [provisioned(cluster, name) for name in ("second", "whole")] == [True, False]


def test_devices_that_have_to_match_come_from_one_value() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n")
    root = "resource.kubernetes.io/pcieRoot"
    offers(cluster, "n", *(device(f"d{i}", **pcie(i % 3)) for i in range(4)))
    claim_template(cluster, "pair", exactly(count=2), constraints=[{"matchAttribute": root}])
    cluster.template("worker", "100m", resourceClaims=by_template("pair"))
    cluster.request("one", CHECK, [("worker", 1)], {"BookingSeconds": "1"})
    cluster.advance(5)
    assert provisioned(cluster, "one")
    cluster.request("two", CHECK, [("worker", 2)])  # four devices, but only two share a root
    cluster.settle()
    assert not provisioned(cluster, "two")


def test_the_first_alternative_that_is_offered_is_taken() -> None:
    cluster = with_devices(nodes=1, devices=2)
    choice = {
        "name": "g",
        "firstAvailable": [
            {"name": "h", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": f'device.attributes["{GPU}"].model == "h100"'}}]},
            {"name": "a", "deviceClassName": "gpu"},
        ],
    }  # fmt: skip
    claim_template(cluster, "choice", choice)
    cluster.template("choosy", "100m", resourceClaims=by_template("choice"))
    cluster.request("r", CHECK, [("choosy", 2)])
    cluster.settle()
    assert provisioned(cluster, "r")


def test_an_alternative_is_taken_again_when_a_better_one_is_offered() -> None:
    cluster = with_devices(nodes=1, devices=1)
    wanted = f'device.attributes["{GPU}"].model == "h100"'
    first = {"name": "h", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": wanted}}]}
    choices = [first, {"name": "a", "deviceClassName": "gpu"}]
    claim_template(cluster, "choice", {"name": "g", "firstAvailable": choices})
    cluster.template("choosy", "100m", resourceClaims=by_template("choice"))
    kept = {"BookingSeconds": "1"}
    cluster.request("one", CHECK, [("choosy", 1)], kept)
    cluster.advance(5)
    assert provisioned(cluster, "one")
    cluster.add_node("better")
    offers(cluster, "better", device("h0", "h100"), device("h1", "h100"))
    cluster.request("two", CHECK, [("choosy", 2)], kept)
    cluster.settle()
    assert provisioned(cluster, "two")


def test_tainted_devices_are_for_those_who_tolerate_them() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n")
    taint = {"key": "broken", "effect": "NoSchedule"}
    offers(cluster, "n", device("a") | {"taints": [taint]})
    claim_template(cluster, "plain", exactly())
    claim_template(cluster, "brave", exactly(tolerations=[{"key": "broken", "operator": "Exists"}]))
    cluster.template("plain", "100m", resourceClaims=by_template("plain"))
    cluster.template("brave", "100m", resourceClaims=by_template("brave"))
    cluster.request("plain", CHECK, [("plain", 1)])
    cluster.request("brave", CHECK, [("brave", 1)])
    cluster.settle()
    assert (provisioned(cluster, "plain"), provisioned(cluster, "brave")) == (False, True)


def test_of_a_pool_its_last_generation_counts() -> None:
    cluster = with_devices(nodes=1, devices=4)
    offers(cluster, "n0", device("d0"), generation=2, name="newer")
    cluster.request("two", CHECK, [("worker", 2)])
    cluster.settle()
    assert not provisioned(cluster, "two")


def shared(cluster: Cluster, name: str, generation: int, *devices: JsonObject) -> None:
    pool = {"name": "net", "generation": generation, "resourceSliceCount": 2}
    told(cluster, "ResourceSlice", name, spec={"driver": GPU, "pool": pool, "allNodes": True, "devices": list(devices)})  # fmt: skip


def test_of_a_pool_that_nodes_share_its_last_generation_counts_in_every_slice() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n")
    shared(cluster, "old", 1, device("a"), device("b"))
    shared(cluster, "new", 2, device("a"))
    claim_template(cluster, "one", exactly())
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    cluster.request("two", CHECK, [("worker", 2)])
    cluster.settle()
    assert not provisioned(cluster, "two")
    shared(cluster, "old", 2, device("b"))
    cluster.advance(70)
    assert provisioned(cluster, "two")
    cluster.tell(PlacementObjectGone(at=cluster.now, name="new", kind="ResourceSlice"))
    cluster.tell(PlacementObjectGone(at=cluster.now, name="old", kind="ResourceSlice"))
    offers = index_of(cluster.state).claims.offers
    assert offers.common() is None
    assert (offers._pools, offers._read, offers._at, offers._where) == ({}, {}, {}, {})


def test_where_nothing_is_known_of_allocation_claims_hold_up_nobody() -> None:
    cluster = Cluster()
    cluster.add_group("g")
    digest = cluster.shape({"cpu": 1000}, {"resourceClaims": by_template("one")})
    cluster.pod("p", digest)
    cluster.settle()
    assert grown(cluster) == {"g": 1}
    device_class(cluster)  # it is served after all
    Evaluation(cluster.state, "")
    assert (
        shape_of(cluster.state, index_of(cluster.state), digest).blocked
        == 'resourceclaimtemplate "one" not found'
    )


def test_objects_of_the_first_beta_are_read() -> None:
    cluster = Cluster()
    device_class(cluster)
    cluster.add_node("n")
    name, content = "d0", {k: v for k, v in device("d0").items() if k != "name"}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    told(
        cluster, "ResourceSlice", "s",
        spec={"driver": GPU, "pool": pool, "nodeName": "n", "devices": [{"name": name, "basic": content}]},
    )  # fmt: skip
    wanted = {"cel": {"expression": f'device.attributes["{GPU}"].model == "a100"'}}
    claim_template(cluster, "one", {"name": "g", "deviceClassName": "gpu", "selectors": [wanted]})
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    cluster.request("two", CHECK, [("worker", 2)])
    cluster.request("one", CHECK, [("worker", 1)])
    cluster.settle()
    assert (provisioned(cluster, "two"), provisioned(cluster, "one")) == (False, True)


def test_an_allocated_device_touches_the_nodes_of_its_pool_alone() -> None:
    cluster = with_devices(nodes=3, devices=1)
    cluster.request("one", CHECK, [("worker", 1)])
    cluster.settle()
    assert not index_of(cluster.state).claims.stale
    results = [{"request": "g", "driver": GPU, "pool": "n1", "device": "d0"}]
    told(cluster, "ResourceClaim", "used", "ns", status={"allocation": {"devices": {"results": results}}})
    claims = index_of(cluster.state).claims
    assert (claims.stale_nodes, claims.all_nodes) == ({"n1"}, False)


def test_the_first_claim_that_a_restored_state_hears_of_is_counted_once() -> None:
    cluster = with_devices(nodes=1, devices=1)
    cluster.fold.state = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    results = [{"request": "g", "driver": GPU, "pool": "n0", "device": "d0"}]
    told(cluster, "ResourceClaim", "used", "ns", status={"allocation": {"devices": {"results": results}}})
    cluster.tell(PlacementObjectGone(at=cluster.now, namespace="ns", name="used", kind="ResourceClaim"))
    cluster.request("one", CHECK, [("worker", 1)])
    cluster.settle()
    assert provisioned(cluster, "one")


@pytest.mark.parametrize("late", ["DeviceClass", "ResourceClaimTemplate", "ResourceSlice"])
def test_pods_wait_for_what_their_claims_name(late: str) -> None:
    cluster = Cluster()
    cluster.add_node("n")
    parts: dict[str, Callable[[], None]] = {
        "DeviceClass": lambda: device_class(cluster),
        "ResourceClaimTemplate": lambda: claim_template(cluster, "one", exactly()),
        "ResourceSlice": lambda: offers(cluster, "n", device("d")),
    }
    for kind, tell in parts.items():
        if kind != late:
            tell()
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.settle()
    assert not provisioned(cluster, "r")
    parts[late]()
    cluster.advance(70)
    assert provisioned(cluster, "r")


def test_an_allocated_claim_ties_its_pods_to_its_nodes() -> None:
    cluster = with_devices(nodes=2, devices=1)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    allocation = {
        "devices": {"results": [{"request": "g", "driver": GPU, "pool": "n1", "device": "d0"}]},
        "nodeSelector": {"nodeSelectorTerms": terms},
    }
    told(cluster, "ResourceClaim", "mine", "ns", spec={"devices": {"requests": [exactly()]}}, status={"allocation": allocation})  # fmt: skip
    cluster.template("sharer", "3", resourceClaims=[{"name": "c", "resourceClaimName": "mine"}])
    cluster.request("one", CHECK, [("sharer", 1)], {"BookingSeconds": "1"})
    cluster.advance(5)
    assert provisioned(cluster, "one")
    cluster.request("two", CHECK, [("sharer", 2)])
    cluster.settle()
    assert not provisioned(cluster, "two")


def test_an_index_built_anew_counts_devices_the_same() -> None:
    cluster = with_devices(nodes=3, devices=2)
    cluster.request("first", CHECK, [("worker", 4)])
    cluster.settle()
    again = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    grids = [index_of(state).grid for state in (cluster.state, again)]
    free = [({n: c.tolist() for n, c in g.free.items()}, g.devices.stocks) for g in grids]
    assert free[0] == free[1]
    cluster.fold.state = again
    cluster.request("second", CHECK, [("worker", 2)])
    cluster.settle()
    cluster.request("third", CHECK, [("worker", 1)])
    cluster.settle()
    assert (provisioned(cluster, "second"), provisioned(cluster, "third")) == (True, False)


def test_placeholders_do_not_stand_for_devices_that_they_could_not_hold() -> None:
    cluster = Cluster({"profile": "hold"})
    device_class(cluster)
    cluster.add_node("n")
    offers(cluster, "n", device("d0"), device("d1"))
    claim_template(cluster, "one", exactly())
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    cluster.request("first", CHECK, [("worker", 1)])
    cluster.advance(5)
    assert cluster.of(CreateObject) == []
    cluster.request("second", CHECK, [("worker", 2)])
    cluster.settle()
    assert (provisioned(cluster, "first"), provisioned(cluster, "second")) == (True, False)
