"""Pods with claims, of devices and of volumes: nodes come that can meet them."""

from __future__ import annotations

from typing import Any

from tests import waiting
from tests.e2e.provisioning.world import CHECK, LOOK_EVERY_S, World, false, true
from tests.e2e.sim.world import send
from tidewright.events.placement import PlacementObjectGone, PlacementObjectObserved
from tidewright.events.provisioning import IncreaseNodeGroup

DEVICES = "/apis/resource.k8s.io/v1"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
ZONE = "topology.kubernetes.io/zone"


async def cluster_wide(world: World, path: str, body: dict[str, Any]) -> None:
    """Make an object outside of the test's namespace, for as long as it runs."""
    await send(world.kube, "POST", path, body)
    world.made.append(f"{path}/{body['metadata']['name']}")


def device(name: str) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": "m1"}, "serial": {"string": f"s-{name}"}}}


async def offers(world: World, driver: str, node: str, devices: int) -> None:
    """What a device driver on the node would say."""
    spec = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [device(f"d{i}") for i in range(devices)],
    }
    await cluster_wide(
        world, f"{DEVICES}/resourceslices",
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-gpu"}, "spec": spec},
    )  # fmt: skip


async def heard_of(
    world: World, kind: type[PlacementObjectObserved] | type[PlacementObjectGone], name: str
) -> None:
    """Wait until the log says so of an object."""
    await waiting.until(
        lambda: world.observed(kind),
        lambda facts: any(fact.name == name for fact in facts),
        every_s=LOOK_EVERY_S,
    )


async def test_a_request_for_devices_grows_the_group_that_has_them_and_counts_them(world: World) -> None:
    driver = f"gpu-{world.mark}.example.com"
    group = await world.group("gpus", max=5)
    template = (await world.cloud("GET", f"/groups/{group}"))["template"]
    offered = [{"driver": driver, **device(f"d{i}")} for i in range(4)]
    await world.cloud(
        "PUT", f"/groups/{group}",
        {"id": group, "max": 5, "boot": "0.1", "delete": "0.05", "template": {**template, "devices": offered}},
    )  # fmt: skip
    await world.group("plain", max=5)
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    await cluster_wide(
        world, f"{DEVICES}/deviceclasses",
        {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": f"gpu-{world.mark}"},
            "spec": {"selectors": [selector], "extendedResourceName": f"{driver}/gpu"},
        },
    )  # fmt: skip
    model = f'device.attributes["{driver}"].model == "m1"'
    exactly = {"deviceClassName": f"gpu-{world.mark}", "selectors": [{"cel": {"expression": model}}]}
    claim = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    await send(
        world.kube, "POST", f"{DEVICES}/namespaces/{world.namespace}/resourceclaimtemplates",
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"}, "spec": claim},
    )  # fmt: skip
    await send(
        world.kube, "POST", f"{DEVICES}/namespaces/{world.namespace}/resourceclaims",
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"}, **claim},
    )  # fmt: skip
    await world.start()
    shared = [{"name": "gpu", "resourceClaimName": "shared"}]
    await world.pod_template("sharer", cpu="100m", resourceClaims=shared)
    await world.pod_template(cpu="100m", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    gpu = {f"{driver}/gpu": "1"}
    containers = [{"name": "c", "image": "x", "resources": {"requests": gpu, "limits": gpu}}]
    await world.pod_template("plain", containers=containers)
    await world.ask("train", ("worker", 6))
    await world.request("train", true("Provisioned", "CapacityIsProvisioned"))
    ordered = await world.decided(IncreaseNodeGroup)
    assert [(o.target.name, o.from_size, o.size) for o in ordered] == [(group, 0, 2)]
    for node in await world.nodes(2):  # ready, and still without devices
        await offers(world, driver, node, 4)
    await world.request("train", true("CapacityReady"))
    tainted = f"broken-{world.mark}"
    taint = {"key": "broken", "effect": "NoSchedule"}
    await send(
        world.kube, "POST", RULES,
        {
            "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": tainted},
            "spec": {"deviceSelector": {"driver": driver, "device": "d0"}, "taint": taint},
        },
    )  # fmt: skip
    # Of rules and of requests two watches tell: a request that is judged too early is tried again after a minute.
    await heard_of(world, PlacementObjectObserved, tainted)
    await world.ask("none", ("worker", 1), cls=CHECK)  # six of eight are kept, and two are tainted
    await world.request("none", false("Provisioned", "CapacityIsNotFound"))
    await send(world.kube, "DELETE", f"{RULES}/{tainted}")
    await heard_of(world, PlacementObjectGone, tainted)
    await world.ask("two", ("plain", 1), ("sharer", 3), cls=CHECK)  # a device each: the claim takes one
    await world.request("two", true("Provisioned", "CapacityIsFound"))
    await world.ask("more", ("worker", 1), cls=CHECK)
    await world.request("more", false("Provisioned", "CapacityIsNotFound"))
    assert len(await world.decided(IncreaseNodeGroup)) == 1


async def test_a_pod_with_a_volume_gets_its_node_in_the_zone_of_the_volume(world: World) -> None:
    for zone in ("a", "b"):
        await world.group(f"zone-{zone}", max=3, labels={ZONE: f"{zone}-{world.mark}"})
    name = f"data-{world.mark}"
    values = [f"b-{world.mark}"]
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}]
    size = {"storage": "1Gi"}
    await cluster_wide(
        world, "/api/v1/persistentvolumes",
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "claimRef": {"namespace": world.namespace, "name": "data"},
                "csi": {"driver": "none.example.com", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
        },
    )  # fmt: skip
    await send(
        world.kube, "POST", f"/api/v1/namespaces/{world.namespace}/persistentvolumeclaims",
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
                "resources": {"requests": size},
            },
        },
    )  # fmt: skip
    await world.start()
    await world.pod_template(
        cpu="1", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    )
    await world.ask("one", ("worker", 1))
    await world.request("one", true("Provisioned", "CapacityIsProvisioned"))
    (order,) = await world.decided(IncreaseNodeGroup)
    assert order.target.name.startswith("zone-b")
