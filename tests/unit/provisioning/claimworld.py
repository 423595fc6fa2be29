"""Objects that claims refer to, as the watcher tells of them: devices, volumes, their classes."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject
from tidewright.events.placement import PlacementObjectObserved
from tidewright.kube import kinds
from tidewright.provisioning.requests import conditions as cond

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
