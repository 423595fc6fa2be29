"""Facts about objects that decide where pods may run: storage, devices, namespaces.

One pair of types for all of these kinds: deciders look them up by kind and name, and nothing happens
because of one but that pods which refer to it may fit elsewhere. The watcher's table of kinds says
which there are; `tidewright.kube.projection.placement` says what of each is kept.
"""

from __future__ import annotations

from tidewright.events.base import JsonObject
from tidewright.events.facts import ObjectFact


class PlacementObjectObserved(ObjectFact, frozen=True, kw_only=True, tag="fact.placement-object-observed.v1"):
    """An object on which it depends where pods may run.

    Attributes:
        kind: `PersistentVolumeClaim`, `PersistentVolume`, `StorageClass`, `CSINode`, `CSIDriver`,
            `CSIStorageCapacity`, `ResourceClaim`, `ResourceClaimTemplate`, `ResourceSlice`,
            `DeviceClass`, `DeviceTaintRule`, `Namespace`, `LimitRange` or `PriorityClass`.
        fields: what placement looks at, under the names of the API; amounts of storage in bytes.
    """

    kind: str = ""
    fields: JsonObject = {}


class PlacementObjectGone(ObjectFact, frozen=True, kw_only=True, tag="fact.placement-object-gone.v1"):
    """An object on which it depended where pods may run is no longer there."""

    kind: str = ""
