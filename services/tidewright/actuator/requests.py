"""Effects as requests: bodies, preconditions, and whether the wanted state is there already. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    EvictPod,
    HoldLease,
    PatchObject,
    ScaleWorkload,
    SetStatus,
)
from tidewright.kube.conditions import by_type
from tidewright.kube.mergepatch import merged
from tidewright.kube.times import rfc3339_micro

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"

DECISION = "tidewright.dev/decision"
"""Annotation that carries the id of the decision that an object, or its last patch, comes from."""


class Mismatch(ValueError):
    """The object is not as the decider saw it; says which value was found and which expected."""


class LeaseHeld(ValueError):
    """Another holder has the Lease; `record` is what its decider needs to know of that."""

    def __init__(self, message: str, record: JsonObject) -> None:
        super().__init__(message)
        self.record = record


def holds(obj: JsonObject, patch: JsonObject) -> bool:
    """Whether a merge patch would change nothing."""
    return bool(merged(obj, patch) == obj)


def at_pointer(obj: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901); None when there is none."""
    if not pointer:
        return obj
    value = obj
    for token in pointer.removeprefix("/").split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def check_expected(obj: JsonObject, expect: JsonObject) -> None:
    """Raises Mismatch for the first pointer whose value is another one than the decider saw."""
    for pointer, expected in expect.items():
        value = at_pointer(obj, pointer)
        if value != expected:
            raise Mismatch(f"{pointer} is {_shown(value)}, not {_shown(expected)}")


def check_uid(obj: JsonObject, target: ObjectRef) -> None:
    """Raises Mismatch when the object is another one of the same name."""
    current_uid = (obj.get("metadata") or {}).get("uid", "")
    if target.uid and current_uid and current_uid != target.uid:
        raise Mismatch(f"uid is {current_uid}, not {target.uid}: another {target.kind} of the same name")


def decision_of(obj: JsonObject) -> str:
    """The id of the decision that an object carries; empty without one."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(DECISION, ""))


def resource_version(obj: JsonObject) -> str:
    """Of the object; empty when it has none."""
    return str((obj.get("metadata") or {}).get("resourceVersion", ""))


def uid(obj: JsonObject) -> str:
    """Of the object; empty when it has none."""
    return str((obj.get("metadata") or {}).get("uid", ""))


def scale_patch(effect: ScaleWorkload) -> bytes | None:
    """A JSON patch of a scale that applies only where it is as the decision saw it; None where that cannot be tested.

    A count of 0 is left out of a scale, and what is not there cannot be tested.
    """
    if effect.from_replicas <= 0 or effect.from_replicas == effect.replicas:
        return None
    count = "/spec/replicas"
    operations = [{"op": "test", "path": count, "value": effect.from_replicas}]
    if effect.target.uid:
        operations.append({"op": "test", "path": "/metadata/uid", "value": effect.target.uid})
    operations.append({"op": "replace", "path": count, "value": effect.replicas})
    return msgspec.json.encode(operations)


def patch_body(effect: PatchObject, seen_version: str) -> bytes:
    """The merge patch: the effect's, marked with its decision, for the version that was checked."""
    mark: JsonObject = {"metadata": {"annotations": {DECISION: effect.id}}}
    if seen_version:
        mark["metadata"]["resourceVersion"] = seen_version
    return msgspec.json.encode(merged_keeping_nulls(effect.patch, mark))


def merged_keeping_nulls(patch: Any, more: Any) -> Any:
    """Two merge patches as one; `more` wins."""
    if not isinstance(patch, dict) or not isinstance(more, dict):
        return more
    result = dict(patch)
    for name, value in more.items():
        result[name] = merged_keeping_nulls(result[name], value) if name in result else value
    return result


def create_body(effect: CreateObject) -> bytes:
    """The manifest, marked with its decision, under the target's name."""
    target = effect.target
    metadata = {"name": target.name} | ({"namespace": target.namespace} if target.namespace else {})
    mark = {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": metadata | {"annotations": {DECISION: effect.id}},
    }
    return msgspec.json.encode(merged_keeping_nulls(effect.manifest, mark))


def delete_body(effect: DeleteObject, uid: str) -> bytes:
    """DeleteOptions, with the uid as precondition when there is one."""
    options: JsonObject = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": effect.propagation,
    }
    if effect.grace_period_s is not None:
        options["gracePeriodSeconds"] = effect.grace_period_s
    if uid:
        options["preconditions"] = {"uid": uid}
    return msgspec.json.encode(options)


def lease_body(effect: HoldLease) -> bytes:
    """A new Lease, held from its first moment."""
    target, now = effect.target, rfc3339_micro(effect.at)
    lease: JsonObject = {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "annotations": {DECISION: effect.id},
        },
        "spec": {**_record(effect), "acquireTime": now, "leaseTransitions": 0},
    }
    return msgspec.json.encode(lease)


def lease_patch(effect: HoldLease, lease: JsonObject) -> bytes | None:
    """The merge patch that renews or takes a Lease as it was seen; None when this renewal stands there.

    Raises:
        LeaseHeld: another holder has it, and was not seen to have stopped.
    """
    spec = lease.get("spec") or {}
    holder, mine = spec.get("holderIdentity") or "", _record(effect)
    if holder == effect.holder:
        if all(spec.get(key) == value for key, value in mine.items()):
            return None
    else:
        record = f"{holder} {spec.get('renewTime') or ''}"
        if holder and record != effect.stopped:
            target = effect.target
            raise LeaseHeld(
                f"{holder} holds lease {target.namespace}/{target.name}, not {effect.holder}",
                {
                    "record": record,
                    "holder": holder,
                    "duration_s": int(spec.get("leaseDurationSeconds") or effect.duration_s),
                },
            )
        mine["acquireTime"] = mine["renewTime"]
        mine["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
    metadata: JsonObject = {"annotations": {DECISION: effect.id}}
    if version := resource_version(lease):
        metadata["resourceVersion"] = version
    return msgspec.json.encode({"metadata": metadata, "spec": mine})


def _record(effect: HoldLease) -> JsonObject:
    return {
        "holderIdentity": effect.holder,
        "leaseDurationSeconds": effect.duration_s,
        "renewTime": rfc3339_micro(effect.at),
    }


def eviction_body(effect: EvictPod, uid: str) -> bytes:
    """A policy/v1 Eviction of the pod, with the uid as precondition when there is one."""
    target = effect.target
    body: JsonObject = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": target.name, "namespace": target.namespace},
    }
    options: JsonObject = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if effect.grace_period_s is not None:
        options["gracePeriodSeconds"] = effect.grace_period_s
    if options:
        body["deleteOptions"] = options
    return msgspec.json.encode(body)


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def stamped(effect: SetStatus) -> JsonObject:
    """The wanted status, with the decision's id where it is to be."""
    if not effect.stamp:
        return effect.status
    patch: Any = effect.id
    for member in reversed(effect.stamp):
        patch = {member: patch}
    status: JsonObject = merged(effect.status, patch)
    return status


def apply_body(effect: SetStatus, status: JsonObject, obj: JsonObject) -> bytes | None:
    """What is applied to make a status hold what is wanted, beside what others keep in it; None when it does.

    Raises:
        Mismatch: it is another object of the same name.
    """
    check_uid(obj, effect.target)
    if within(status, obj.get("status") or {}):
        return None
    target = effect.target
    # Neither an object made anew under the name in between is meant, nor what others have written since: forced
    # as it is, a write that was long on its way would take back what a later decision has said.
    metadata = {
        "namespace": target.namespace, "name": target.name, "uid": target.uid, "resourceVersion": resource_version(obj),
    }  # fmt: skip
    return msgspec.json.encode(
        {
            "apiVersion": obj.get("apiVersion", target.api_version),
            "kind": target.kind,
            "metadata": {name: value for name, value in metadata.items() if value},
            "status": status,
        }
    )


def within(desired: Any, current: Any) -> bool:
    """Whether all that is wanted is there: members of objects, and conditions by their type."""
    if isinstance(desired, dict) and isinstance(current, dict):
        return all(within(value, current.get(name)) for name, value in desired.items())
    if isinstance(desired, list) and _typed(desired) and _typed(current):
        there = by_type(current)
        return all(within(condition, there.get(condition["type"])) for condition in desired)
    return bool(desired == current)


def _typed(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "type" in item for item in value)
