"""Projections of what decides where pods may run besides nodes and pods: storage, devices, namespaces. Pure.

`KEPT` says per kind what of an object is kept; whatever else changes of it is no fact. `forms` says what it has to be like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from tidewright.events.base import JsonObject
from tidewright.events.placement import PlacementObjectObserved
from tidewright.kube import quantities
from tidewright.kube.projection.forms import FORMS
from tidewright.kube.projection.reading import (
    UNREADABLE,
    Bytes,
    Meta,
    Project,
    Projection,
    checked,
    malformed,
)

Keep: TypeAlias = Callable[[Mapping[str, Any], Meta], JsonObject]
"""The whole object and its metadata to what is kept of it."""

ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of volumes that bind their pods to nodes with the same."""

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


_any = msgspec.json.Decoder()


def placement(kind: str) -> Project:
    """The projection of a kind in `KEPT`."""
    keep, form = KEPT[kind], msgspec.json.Decoder(FORMS[kind])

    def project(raw: Bytes) -> Projection:
        try:
            meta = form.decode(raw).metadata
            kept = keep(_any.decode(raw), meta)
            checked(meta, kept)
            fact = PlacementObjectObserved(
                at=0.0,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                kind=kind,
                fields={name: value for name, value in kept.items() if value not in (None, "", [], {})},
            )
            return Projection(fact, meta.resourceVersion)
        except UNREADABLE as error:
            raise malformed(kind, raw, error) from error

    return project


def _bytes(amounts: Mapping[str, Any] | None, name: str = "storage") -> int | None:
    return quantities.whole(amounts[name]) if amounts and name in amounts else None


def _claim(claim: Mapping[str, Any], meta: Meta) -> JsonObject:
    spec = claim.get("spec") or {}
    return {
        "accessModes": spec.get("accessModes"),
        "storageClassName": spec.get("storageClassName"),
        "noClass": spec.get("storageClassName") == "",
        "volumeName": spec.get("volumeName"),
        "selector": spec.get("selector"),
        "storage": _bytes((spec.get("resources") or {}).get("requests")),
    }


def _volume(volume: Mapping[str, Any], meta: Meta) -> JsonObject:
    spec = volume.get("spec") or {}
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    claim = spec.get("claimRef") or {}
    return {
        "accessModes": spec.get("accessModes"),
        "storageClassName": spec.get("storageClassName"),
        "driver": (spec.get("csi") or {}).get("driver"),
        "nodeSelectorTerms": required.get("nodeSelectorTerms"),
        "labels": {k: v for k, v in (meta.labels or {}).items() if k in ZONE_LABELS}
        if claim
        else meta.labels,
        "claim": f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else "",
        "storage": _bytes(spec.get("capacity")),
    }


def _storage_class(storage_class: Mapping[str, Any], meta: Meta) -> JsonObject:
    return {
        "provisioner": storage_class.get("provisioner"),
        "waits": storage_class.get("volumeBindingMode") == "WaitForFirstConsumer",
        "allowedTopologies": storage_class.get("allowedTopologies"),
        "default": (meta.annotations or {}).get(DEFAULT_CLASS) == "true",
    }


def _csi_node(csi_node: Mapping[str, Any], meta: Meta) -> JsonObject:
    drivers = (csi_node.get("spec") or {}).get("drivers") or ()
    return {"drivers": {d["name"]: (d.get("allocatable") or {}).get("count") for d in drivers}}


def _csi_driver(csi_driver: Mapping[str, Any], meta: Meta) -> JsonObject:
    return {"storageCapacity": (csi_driver.get("spec") or {}).get("storageCapacity") or None}


def _capacity(capacity: Mapping[str, Any], meta: Meta) -> JsonObject:
    return {
        "storageClassName": capacity.get("storageClassName"),
        "nodeTopology": capacity.get("nodeTopology"),
        "anywhere": capacity.get("nodeTopology") == {},
        "capacity": _bytes(capacity, "capacity"),
        "maximumVolumeSize": _bytes(capacity, "maximumVolumeSize"),
    }


def _resource_claim(claim: Mapping[str, Any], meta: Meta) -> JsonObject:
    allocation = (claim.get("status") or {}).get("allocation")
    kept: JsonObject = {
        "devices": (claim.get("spec") or {}).get("devices"),
        "reserved": len((claim.get("status") or {}).get("reservedFor") or ()) or None,
    }
    if allocation is not None:
        kept["allocation"] = {
            "nodeSelectorTerms": (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or [],
            "devices": [
                [result["driver"], result["pool"], result["device"], *_part(result)]
                for result in (allocation.get("devices") or {}).get("results") or ()
                if not result.get("adminAccess")
            ],
        }
    return kept


def _part(result: Mapping[str, Any]) -> list[dict[str, int]]:
    """Of a device that others have parts of as well, what of its capacities is had, in thousandths."""
    if not result.get("shareID") and not result.get("consumedCapacity"):
        return []
    return [{name: quantities.milli(n) for name, n in sorted((result.get("consumedCapacity") or {}).items())}]


def _claim_template(template: Mapping[str, Any], meta: Meta) -> JsonObject:
    return {"devices": ((template.get("spec") or {}).get("spec") or {}).get("devices")}


def _slice(resource_slice: Mapping[str, Any], meta: Meta) -> JsonObject:
    spec = resource_slice.get("spec") or {}
    pool = spec.get("pool") or {}
    return {
        "driver": spec.get("driver"),
        "pool": pool.get("name"),
        "generation": pool.get("generation"),
        "nodeName": spec.get("nodeName"),
        "nodeSelectorTerms": (spec.get("nodeSelector") or {}).get("nodeSelectorTerms"),
        "allNodes": spec.get("allNodes") or None,
        "perDevice": spec.get("perDeviceNodeSelection") or None,
        "sharedCounters": spec.get("sharedCounters"),
        # Before v1, what a device is stood one level deeper.
        "devices": [{**device, **(device.get("basic") or {})} for device in spec.get("devices") or ()],
    }


def _device_class(device_class: Mapping[str, Any], meta: Meta) -> JsonObject:
    spec = device_class.get("spec") or {}
    resource = spec.get("extendedResourceName")
    return {
        "selectors": spec.get("selectors"),
        "extendedResourceName": resource,
        "created": meta.creationTimestamp if resource else None,  # of two the younger one stands for it
    }


def _taint_rule(rule: Mapping[str, Any], meta: Meta) -> JsonObject:
    spec = rule.get("spec") or {}
    selector, taint = spec.get("deviceSelector"), spec.get("taint") or {}
    return {
        "selects": selector is not None,  # an empty selector takes every device, none takes none
        **{name: (selector or {}).get(name) for name in ("driver", "pool", "device")},
        **{name: taint.get(name) for name in ("key", "value", "effect")},
    }


def _namespace(namespace: Mapping[str, Any], meta: Meta) -> JsonObject:
    # No pod is made there any more once it is being deleted.
    return {"labels": meta.labels, "deleting": True if meta.deletionTimestamp else None}


def _limit_range(limit_range: Mapping[str, Any], meta: Meta) -> JsonObject:
    return {"limits": (limit_range.get("spec") or {}).get("limits")}


def _priority_class(priority_class: Mapping[str, Any], meta: Meta) -> JsonObject:
    return {
        "value": priority_class.get("value") or 0,
        "preemptionPolicy": priority_class.get("preemptionPolicy"),
        "globalDefault": priority_class.get("globalDefault") or None,
    }


KEPT: dict[str, Keep] = {
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "StorageClass": _storage_class,
    "CSINode": _csi_node,
    "CSIDriver": _csi_driver,
    "CSIStorageCapacity": _capacity,
    "ResourceClaim": _resource_claim,
    "ResourceClaimTemplate": _claim_template,
    "ResourceSlice": _slice,
    "DeviceClass": _device_class,
    "DeviceTaintRule": _taint_rule,
    "Namespace": _namespace,
    "LimitRange": _limit_range,
    "PriorityClass": _priority_class,
}
