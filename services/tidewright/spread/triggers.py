"""Which change of which object wakes which spread (specification, 3.1): the strict profile.

The decider itself wakes for every relevant fact [Q-10]; these rules say what the reference would
have noticed, for comparison in shadow mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tidewright.kube.customworkloads import BadApiVersion, group_version
from tidewright.spread.pods import Owner, Placement
from tidewright.spread.spec import Spread

Action = Literal["create", "update", "delete"]

_WATCHED_FIELDS = {
    "Deployment": ("replicas", "revision"),
    "CloneSet": ("replicas",),
    "ReplicaSet": ("replicas",),
    "StatefulSet": ("replicas",),
    "Job": ("parallelism",),
}


def spread_of_workload(ref: Owner, spreads: Iterable[Spread]) -> Spread | None:
    """The first spread, not being deleted, whose target has the object's group, kind and name."""
    try:
        group, _ = group_version(ref.api_version)
    except BadApiVersion:
        return None
    for spread in spreads:
        target = spread.target
        if target is None or spread.deleting or (target.kind, target.name) != (ref.kind, ref.name):
            continue
        try:
            if group_version(target.api_version)[0] == group:
                return spread
        except BadApiVersion:
            continue
    return None


def woken_by_workload(
    ref: Owner,
    controller: Owner | None,
    action: Action,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    spreads: Iterable[Spread],
) -> Spread | None:
    """The spread that a workload's change wakes.

    `controller` is a ReplicaSet's, whose spread is woken too. `old` and `new` are what an update
    changed: `replicas`, `parallelism`, `revision`, `currentRevision`, `updateRevision`; custom kinds
    give the value at their replicas path as `replicas`.
    """
    if action == "update":
        fields = _WATCHED_FIELDS.get(ref.kind, ("replicas",))
        changed = any(old.get(f) != new.get(f) for f in fields)
        rolled = ref.kind == "CloneSet" and new.get("updateRevision") != old.get("currentRevision")
        if not changed and not rolled:
            return None
    known = list(spreads)
    found = spread_of_workload(ref, known)
    if found is None and ref.kind == "ReplicaSet" and controller is not None:
        return spread_of_workload(controller, known)
    return found


def woken_by_pod(
    placement: Placement | None, action: Action, old: Mapping[str, Any], new: Mapping[str, Any]
) -> str | None:
    """The name of the spread that a pod's change wakes: the annotated one.

    `old` and `new` are what an update changed: `active` and `version`.
    """
    if placement is None or not placement.name:
        return None
    if action == "update":
        stopped = old.get("active", True) and not new.get("active", True)
        if not stopped and old.get("version") == new.get("version"):
            return None
    return placement.name
