"""Claims of volumes and devices, resolved against what facts have told of the objects. Spec 3.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.events.decisions import CreateObject
from tidewright.events.placement import PlacementObjectGone, PlacementObjectObserved
from tidewright.kube import kinds
from tidewright.kube.volumes import ATTACHABLE
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.indexing import index_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.resolving import shape_of
from tidewright.provisioning.state import State

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ZONE = "topology.kubernetes.io/zone"
GPU = "gpu.example.com"


def told(cluster: Cluster, kind: str, name: str, namespace: str = "", **content: Any) -> None:
    """An object as the API server has it, projected by the watcher."""
    metadata = {"name": name, "namespace": namespace, **content.pop("metadata", {})}
    raw = msgspec.json.encode({"metadata": metadata, **content})
    fact = kinds.BY_NAME[kind.lower()].project(raw).fact
    assert isinstance(fact, PlacementObjectObserved)
    cluster.tell(msgspec.structs.replace(fact, at=cluster.now))


def provisioned(cluster: Cluster, name: str) -> bool:
    return cond.is_true(cluster.conditions(name).values(), cond.PROVISIONED)


# --- Devices ---


def device(name: str, model: str = "a100", memory: str = "40Gi", **more: Any) -> JsonObject:
    attributes = {"model": {"string": model}, "uuid": {"string": f"uuid-{name}"}, **more}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}


def pcie(root: int) -> dict[str, Any]:
    return {"resource.kubernetes.io/pcieRoot": {"string": f"r{root}"}}


def offers(cluster: Cluster, node: str, *devices: JsonObject, generation: int = 1, name: str = "") -> None:
    told(
        cluster,
        "ResourceSlice",
        name or f"slice-{node}",
        spec={
            "driver": GPU,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": list(devices),
        },
    )


def device_class(cluster: Cluster, name: str = "gpu", expression: str = f'device.driver == "{GPU}"') -> None:
    told(cluster, "DeviceClass", name, spec={"selectors": [{"cel": {"expression": expression}}]})


def claim_template(cluster: Cluster, name: str, *requests: JsonObject, **more: object) -> None:
    told(
        cluster,
        "ResourceClaimTemplate",
        name,
        "ns",
        spec={"spec": {"devices": {"requests": list(requests), **more}}},
    )


def exactly(name: str = "g", count: int = 1, expression: str = "", **more: object) -> JsonObject:
    found: JsonObject = {"deviceClassName": "gpu", "count": count, **more}
    if expression:
        found["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": found}


def by_template(name: str) -> list[JsonObject]:
    return [{"name": "c", "resourceClaimTemplateName": name}]


def with_devices(nodes: int, devices: int) -> Cluster:
    cluster = Cluster()
    device_class(cluster)
    for n in range(nodes):
        cluster.add_node(f"n{n}")
        offers(cluster, f"n{n}", *(device(f"d{i}") for i in range(devices)))
    claim_template(cluster, "one", exactly())
    cluster.template("worker", "100m", resourceClaims=by_template("one"))
    return cluster


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
    claims = index_of(cluster.state).claims
    assert (claims._slices, claims._pools, claims._last, claims._devices) == ({}, {}, {}, {})


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
    free = [{n: c.tolist() for n, c in g.free.items() if not n.startswith("devices:")} for g in grids]
    assert free[0] == free[1]
    cluster.fold.state = again
    cluster.request("second", CHECK, [("worker", 2)])
    cluster.settle()
    cluster.request("third", CHECK, [("worker", 1)])
    cluster.settle()
    assert (provisioned(cluster, "second"), provisioned(cluster, "third")) == (True, False)


# --- Volumes ---


def claim(cluster: Cluster, name: str, **spec: object) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, **spec}
    told(cluster, "PersistentVolumeClaim", name, "ns", spec=wanted)


def volume(cluster: Cluster, name: str, labels: dict[str, str] | None = None, **spec: object) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, **spec}
    told(cluster, "PersistentVolume", name, metadata={"labels": labels or {}}, spec=wanted)


def zoned(zone: str) -> JsonObject:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def storage_class(cluster: Cluster, name: str = "disks", **more: Any) -> None:
    told(cluster, "StorageClass", name, **{"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer", **more})  # fmt: skip


def using(*claims: str) -> JsonObject:
    return {"volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]}


def two_zones() -> Cluster:
    cluster = Cluster()
    for zone in ("a", "b"):
        cluster.add_group(f"g{zone}", labels={ZONE: zone})
    return cluster


def grown(cluster: Cluster) -> dict[str, int]:
    return {d.target.name: d.size for d in cluster.of(p.IncreaseNodeGroup)}


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


# --- Namespaces ---


def test_terms_select_namespaces_by_their_labels() -> None:
    cluster = Cluster()
    cluster.add_node("n1")
    cluster.add_node("n2")
    told(cluster, "Namespace", "other", metadata={"labels": {"team": "red"}})
    shape = "0" * 32
    cluster.tell(f.ShapeObserved(at=cluster.now, digest=shape, requests={"cpu": 1}, namespace="other", labels={"app": "x"}))  # fmt: skip
    cluster.tell(f.PodObserved(at=cluster.now, namespace="other", name="x", uid="x", shape=shape, phase="Running", node="n1"))  # fmt: skip
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchLabels": {"team": "red"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.template("apart", "3", affinity=affinity)
    cluster.request("two", CHECK, [("apart", 2)])
    cluster.settle()
    assert not provisioned(cluster, "two")
    told(cluster, "Namespace", "other", metadata={"labels": {"team": "blue"}})
    cluster.advance(70)
    assert provisioned(cluster, "two")


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
