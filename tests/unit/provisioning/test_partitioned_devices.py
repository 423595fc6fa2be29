"""Devices of which others take a part: shared counters, shared capacity; bonds between them. Spec 3.4."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.provisioning.claimworld import (
    CHECK,
    GPU,
    by_template,
    claim_template,
    device_class,
    exactly,
    grown,
    pcie,
    provisioned,
    told,
)
from tests.unit.provisioning.claimworld import device as plain
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events.base import JsonObject
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of

SHORT = {"BookingSeconds": "1"}


def partition(name: str, memory: int, gpu: int = 0, **more: Any) -> JsonObject:
    """A part of a GPU, of so many Gi."""
    return {
        "name": name,
        "attributes": {"profile": {"string": f"{memory}g"}},
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": f"{memory}Gi"}}}],
        **more,
    }


def counters(*gpus: int) -> list[JsonObject]:
    return [{"name": f"gpu-{n}", "counters": {"memory": {"value": "40Gi"}}} for n in gpus]


def sliced(cluster: Cluster, name: str, pool: str = "p", slices: int = 1, **spec: Any) -> None:
    told(
        cluster,
        "ResourceSlice",
        name,
        spec={
            "driver": GPU,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": slices},
            **spec,
        },
    )


def world(*nodes: str) -> Cluster:
    cluster = Cluster()
    device_class(cluster)
    for node in nodes:
        cluster.add_node(node)
    for memory in (10, 20, 40):
        profile = f'device.attributes["{GPU}"].profile == "{memory}g"'
        claim_template(cluster, f"{memory}g", exactly(expression=profile))
        cluster.template(f"{memory}g", "100m", resourceClaims=by_template(f"{memory}g"))
    return cluster


def fits(cluster: Cluster, *sets: tuple[str, int]) -> bool:
    """Whether these pods find room at once; their booking ends soon after."""
    name = f"r{len(cluster.state.requests)}"
    cluster.request(name, CHECK, sets, SHORT)
    cluster.advance(5)
    return provisioned(cluster, name)


def parts(gpu: int = 0) -> list[JsonObject]:
    return [
        partition(f"g{gpu}-{i}-{memory}", memory, gpu) for memory in (10, 20, 40) for i in range(40 // memory)
    ]


def test_parts_of_a_device_take_of_its_counters() -> None:
    cluster = world("n")
    sliced(cluster, "parts", nodeName="n", devices=[*parts(0), *parts(1)], slices=2)
    assert not fits(cluster, ("10g", 1))  # the counters that they name are not there yet
    sliced(cluster, "counters", nodeName="n", sharedCounters=counters(0, 1), slices=2)
    assert fits(cluster, ("10g", 8))
    assert fits(cluster, ("20g", 4))
    assert not fits(cluster, ("20g", 5))
    assert fits(cluster, ("40g", 1), ("20g", 1), ("10g", 2))
    assert not fits(cluster, ("40g", 1), ("20g", 2), ("10g", 1))
    allocated = {"request": "g", "driver": GPU, "pool": "p", "device": "g0-0-10"}
    told(cluster, "ResourceClaim", "used", "ns", status={"allocation": {"devices": {"results": [allocated]}}})
    assert fits(cluster, ("40g", 1), ("20g", 1), ("10g", 1))
    assert not fits(cluster, ("40g", 2))


def test_counters_of_a_pool_are_about_its_devices_on_all_nodes() -> None:
    cluster = world("n0", "n1")
    devices = [partition("a", 40, nodeName="n0"), partition("b", 40, nodeName="n1")]
    sliced(
        cluster, "s", perDeviceNodeSelection=True, devices=devices, sharedCounters=counters(0)
    )  # fmt: skip
    assert fits(cluster, ("40g", 1))
    assert not fits(cluster, ("40g", 2))


def test_a_group_without_nodes_brings_the_counters_that_its_last_node_had() -> None:
    cluster = world()
    cluster.add_group("g", maximum=5)
    cluster.add_node("n", "g")
    sliced(cluster, "s", nodeName="n", devices=parts(0), sharedCounters=counters(0))
    cluster.advance(10)
    cluster.tell(f.NodeGone(at=cluster.now, name="n"))
    cluster.groups["g"].instances.clear()
    cluster.observe_group("g")
    shape = cluster.shape({"cpu": 100}, {"resourceClaims": by_template("20g")})
    for i in range(4):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert grown(cluster) == {"g": 2}


def nic(name: str, policy: JsonObject | None = None, **more: Any) -> JsonObject:
    """A network card whose bandwidth claims have parts of."""
    bandwidth: JsonObject = {"value": "10", **({"requestPolicy": policy} if policy else {})}
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"bandwidth": bandwidth}, **more}


def asking(cluster: Cluster, name: str, *requests: JsonObject, **more: Any) -> None:
    claim_template(cluster, name, *requests, **more)
    cluster.template(name, "100m", resourceClaims=by_template(name))


def part(amount: str, name: str = "g", **more: Any) -> JsonObject:
    return exactly(name, capacity={"requests": {"bandwidth": amount}}, **more)


def test_claims_have_parts_of_a_devices_capacity() -> None:
    cluster = world("n")
    sliced(cluster, "s", nodeName="n", devices=[nic("a"), nic("b")])
    asking(cluster, "three", part("3"))
    asking(cluster, "whole", exactly())
    asking(cluster, "other", exactly(capacity={"requests": {"latency": "1"}}))
    assert fits(cluster, ("three", 6))
    assert not fits(cluster, ("three", 7))
    assert fits(cluster, ("three", 3), ("whole", 1))
    assert not fits(cluster, ("three", 4), ("whole", 1))
    assert not fits(cluster, ("other", 1))
    used = {"request": "g", "driver": GPU, "pool": "p", "device": "a", "shareID": "1", "consumedCapacity": {"bandwidth": "5"}}  # fmt: skip
    told(cluster, "ResourceClaim", "used", "ns", status={"allocation": {"devices": {"results": [used]}}})
    assert fits(cluster, ("three", 4))
    assert not fits(cluster, ("three", 5))


@pytest.mark.parametrize(
    ("policy", "asked", "many"),
    [
        ({"default": "2"}, None, 5),
        ({"default": "1", "validRange": {"min": "4"}}, "1", 2),
        ({"default": "1", "validRange": {"min": "1", "step": "2", "max": "5"}}, "2", 3),
        ({"default": "1", "validRange": {"min": "1", "max": "5"}}, "6", 0),
        ({"default": "1", "validValues": ["1", "5"]}, "2", 2),
        ({"default": "1", "validValues": ["1", "5"]}, "6", 0),
    ],
)
def test_a_device_gives_out_its_capacity_in_the_sizes_of_its_policy(
    policy: JsonObject, asked: str | None, many: int
) -> None:
    cluster = world("n")
    sliced(cluster, "s", nodeName="n", devices=[nic("a", policy)])
    asking(cluster, "t", exactly() if asked is None else part(asked))
    assert not many or fits(cluster, ("t", many))
    assert not fits(cluster, ("t", many + 1))


def test_devices_that_have_to_differ_come_from_as_many_values() -> None:
    cluster = world("n")
    root = "resource.kubernetes.io/pcieRoot"
    devices = [plain(f"d{i}", **pcie(i // 2)) for i in range(4)] + [plain("rootless")]
    sliced(cluster, "s", nodeName="n", devices=devices)
    two = [exactly("a"), exactly("b")]
    asking(cluster, "apart", *two, constraints=[{"distinctAttribute": root}])
    asking(cluster, "three", exactly("a", 3), constraints=[{"distinctAttribute": root}])
    asking(cluster, "named", *two, constraints=[{"distinctAttribute": root, "requests": ["a"]}])
    assert fits(cluster, ("apart", 2))
    assert not fits(cluster, ("three", 1))  # of two roots
    assert fits(cluster, ("named", 2))
    assert not fits(cluster, ("named", 3))


def test_a_shared_device_is_had_twice_by_a_pod_unless_its_parts_have_to_differ() -> None:
    cluster = world("n")
    attributes = {"attributes": {"card": {"string": "a"}}}
    sliced(cluster, "s", nodeName="n", devices=[nic("a", **attributes)])
    two = [part("3", "x"), part("3", "y")]
    asking(cluster, "twice", *two)
    asking(cluster, "apart", *two, constraints=[{"distinctAttribute": f"{GPU}/card"}])
    assert fits(cluster, ("twice", 1))
    assert not fits(cluster, ("apart", 1))


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ({"requests": [exactly(allocationMode="Half")]}, "request 'g' of a resource claim has allocationMode 'Half', which is not understood: ExactCount and All are"),
        ({"requests": [exactly(spare=1)]}, "request 'g' of a resource claim has the field 'spare', which is not understood"),
        ({"requests": [{"name": "g"}]}, "request 'g' of a resource claim names no device class: it is not understood"),
        ({"requests": [exactly()], "constraints": [{"requests": ["g"]}]}, "a constraint of a resource claim names neither matchAttribute nor distinctAttribute: it is not understood"),
    ],
)  # fmt: skip
def test_a_claim_that_is_not_understood_says_so(devices: JsonObject, why: str) -> None:
    cluster = world("n")
    sliced(cluster, "s", nodeName="n", devices=[plain("d")])
    cluster.add_group("g")
    told(cluster, "ResourceClaimTemplate", "odd", "ns", spec={"spec": {"devices": devices}})
    digest = cluster.shape({"cpu": 100}, {"resourceClaims": by_template("odd")})
    cluster.pod("p", digest)
    cluster.template("odd", "100m", resourceClaims=by_template("odd"))
    cluster.request("r", CHECK, [("odd", 1)])
    cluster.settle()
    Evaluation(cluster.state, "")
    assert shape_of(cluster.state, index_of(cluster.state), digest).blocked == why
    assert grown(cluster) == {}
    assert [event.message for event in cluster.object_events("NotTriggerScaleUp")] == [
        f"pod didn't trigger scale-up: 1 {why}"
    ]
    assert [event.message for event in cluster.object_events("CapacityNotFound")] == [
        f"its pods go nowhere as things are: {why}"
    ]
