"""Claims of volumes, resolved against what facts have told of the objects. Spec 3.4."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.provisioning.claimworld import (
    CHECK,
    ZONE,
    claim,
    grown,
    provisioned,
    storage_class,
    told,
    two_zones,
    using,
    volume,
    zoned,
)
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events.decisions import CreateObject
from tidewright.events.placement import PlacementObjectGone
from tidewright.kube.volumes import ATTACHABLE
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.state import State


@pytest.mark.parametrize("by_label", [True, False])
def test_a_bound_volume_takes_its_pod_to_its_zone(by_label: bool) -> None:
    cluster = two_zones()
    if by_label:
        volume(cluster, "v", {ZONE: "b__c"}, claimRef={"namespace": "ns", "name": "data"})
    else:
        volume(cluster, "v", claimRef={"namespace": "ns", "name": "data"}, nodeAffinity=zoned("b"))
    claim(cluster, "data", volumeName="v")
    cluster.pod("p", cluster.shape({"cpu": 1000}, using("data")))
    cluster.settle()
    assert grown(cluster) == {"gb": 1}


def test_a_claim_that_waits_goes_where_its_class_can_make_it() -> None:
    cluster = two_zones()
    storage_class(cluster, allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}])
    claim(cluster, "data", storageClassName="disks")
    cluster.pod("p", cluster.shape({"cpu": 1000}, using("data")))
    cluster.settle()
    assert grown(cluster) == {"gb": 1}


def test_a_local_volume_that_lies_ready_is_where_the_pod_goes() -> None:
    cluster = two_zones()
    storage_class(cluster, "local", provisioner="kubernetes.io/no-provisioner")
    volume(cluster, "small", storageClassName="local", nodeAffinity=zoned("a"), capacity={"storage": "1Gi"})
    volume(cluster, "big", storageClassName="local", nodeAffinity=zoned("b"))
    claim(cluster, "data", storageClassName="local")
    cluster.pod("p", cluster.shape({"cpu": 1000}, using("data")))
    cluster.settle()
    assert grown(cluster) == {"gb": 1}


def test_storage_that_a_driver_says_is_used_up_is_no_place() -> None:
    cluster = two_zones()
    storage_class(cluster)
    told(cluster, "CSIDriver", "csi.example.com", spec={"storageCapacity": True})
    for zone, left in (("a", "5Gi"), ("b", "50Gi")):
        topology = {"matchLabels": {ZONE: zone}}
        told(cluster, "CSIStorageCapacity", zone, "kube-system", storageClassName="disks", nodeTopology=topology, capacity=left)  # fmt: skip
    claim(cluster, "data", storageClassName="disks")
    cluster.pod("p", cluster.shape({"cpu": 1000}, using("data")))
    cluster.settle()
    assert grown(cluster) == {"gb": 1}


@pytest.mark.parametrize("known", ["missing", "immediate", "lost"])
def test_a_claim_that_cannot_be_met_orders_nothing_until_it_can(known: str) -> None:
    cluster = two_zones()
    claim(cluster, "other", volumeName="x")
    storage_class(cluster, volumeBindingMode="Immediate")
    if known == "immediate":
        claim(cluster, "data", storageClassName="disks")
    if known == "lost":
        claim(cluster, "data", volumeName="v")
    cluster.pod("p", cluster.shape({"cpu": 1000}, using("data")))
    cluster.settle()
    assert grown(cluster) == {}
    volume(cluster, "v", claimRef={"namespace": "ns", "name": "data"})
    claim(cluster, "data", volumeName="v")
    cluster.settle()
    assert sum(grown(cluster).values()) == 1


def test_claims_are_not_missing_any_more_once_none_is_known() -> None:
    cluster = two_zones()
    claim(cluster, "other", volumeName="x")
    digest = cluster.shape({"cpu": 1000}, using("data"))
    cluster.pod("p", digest)
    cluster.settle()
    cluster.tell(
        PlacementObjectGone(at=cluster.now, namespace="ns", name="other", kind="PersistentVolumeClaim")
    )
    cluster.settle()
    again = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
    lived_on, restored = (
        shape_of(state, index_of(state), digest).blocked for state in (cluster.state, again)
    )
    assert lived_on == restored == ""


def test_a_node_attaches_as_many_volumes_as_its_driver_says() -> None:
    cluster = Cluster()
    cluster.add_node("n")
    told(cluster, "CSINode", "n", spec={"drivers": [{"name": "csi.example.com", "nodeID": "n", "allocatable": {"count": 2}}]})  # fmt: skip
    storage_class(cluster)
    for i in range(3):
        claim(cluster, f"c{i}", storageClassName="disks")
    cluster.template("two", "100m", **using("c0", "c1"))
    cluster.template("three", "100m", **using("c0", "c1", "c2"))
    cluster.request("three", CHECK, [("three", 1)])
    cluster.settle()
    assert not provisioned(cluster, "three")
    cluster.request("two", CHECK, [("two", 1)], {"BookingSeconds": "1"})
    cluster.advance(5)
    assert provisioned(cluster, "two")
    volume(cluster, "v", csi={"driver": "csi.example.com"}, claimRef={"namespace": "ns", "name": "used"})
    claim(cluster, "used", volumeName="v")
    cluster.pod("holder", cluster.shape({"cpu": 100}, using("used")), node="n")
    cluster.request("again", CHECK, [("two", 1)])
    cluster.settle()
    assert not provisioned(cluster, "again")


def test_a_driver_is_forgotten_with_the_last_who_attaches_by_it() -> None:
    cluster = Cluster()
    cluster.add_node("n")
    storage_class(cluster)
    claim(cluster, "data", storageClassName="disks")
    shape = cluster.shape({"cpu": 100}, using("data"))
    cluster.pod("a", shape, node="n")
    cluster.pod("b", shape)
    cluster.settle()
    [column] = [name for name in index_of(cluster.state).grid.free if name.startswith(ATTACHABLE)]
    for name in "ab":
        cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name=name))
    cluster.tell(f.ShapeGone(at=cluster.now, digest=shape, namespace="ns"))
    cluster.pod("c", cluster.shape({"cpu": 64_000}))
    cluster.settle()
    assert shape not in cluster.state.shapes
    assert column not in index_of(cluster.state).grid.free


def test_drivers_without_a_limit_attach_any_number() -> None:
    cluster = Cluster()
    cluster.add_node("n")
    storage_class(cluster)
    claim(cluster, "data", storageClassName="disks")
    cluster.template("worker", "100m", **using("data"))
    cluster.request("r", CHECK, [("worker", 5)])
    cluster.settle()
    assert provisioned(cluster, "r")


def test_a_volume_for_one_pod_alone_is_used_by_one_wherever_it_is() -> None:
    cluster = Cluster()
    for n in ("n1", "n2"):
        cluster.add_node(n)
    volume(cluster, "v", claimRef={"namespace": "ns", "name": "data"})
    claim(cluster, "data", volumeName="v", accessModes=["ReadWriteOncePod"])
    cluster.template("worker", "100m", **using("data"))
    cluster.request("two", CHECK, [("worker", 2)])
    cluster.request("one", CHECK, [("worker", 1)], {"BookingSeconds": "1"})
    cluster.advance(5)
    assert (provisioned(cluster, "two"), provisioned(cluster, "one")) == (False, True)
    cluster.pod("holder", cluster.shape({"cpu": 100}, using("data")), node="n1")
    cluster.request("after", CHECK, [("worker", 1)])
    cluster.settle()
    assert not provisioned(cluster, "after")


def test_placeholders_ask_for_nothing_that_claims_come_to() -> None:
    cluster = Cluster({"profile": "hold"})
    cluster.add_node("n")
    storage_class(cluster)
    claim(cluster, "data", storageClassName="disks")
    cluster.template("worker", "100m", **using("data"))
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.advance(5)
    (made,) = cluster.of(CreateObject)
    (container,) = made.manifest["spec"]["containers"]
    assert sorted(container["resources"]["requests"]) == ["cpu", "memory"]
