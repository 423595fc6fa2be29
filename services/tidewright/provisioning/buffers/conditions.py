"""Conditions of a buffer, in the exact words that clients know; how they are set is `tidewright.kube.conditions`. Spec 1.3."""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.kube.conditions import Condition

READY = "ReadyForProvisioning"
LIMITED = "LimitedByQuotas"
PROVISIONING = "Provisioning"
CAPACITY_READY = "CapacityReady"

RESOLVED_HERE = frozenset({READY, LIMITED})
"""Types that the controller's half writes."""
INJECTED_HERE = frozenset({PROVISIONING, CAPACITY_READY})
"""Types that the loop's half writes."""

_NOT_READY = "Buffer not ready for provisioning"
NO_COUNT = "couldn't get number of replicas for buffer: "


def _condition(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message)


IS_READY = _condition(READY, "True", "AttributesSetSuccessfully", "ready")
NOT_LIMITED = _condition(LIMITED, "False", "ResourceQuotasAllocated", "")
INJECTED = _condition(PROVISIONING, "True", "FakePodsInjected", "")
NOT_INJECTED = _condition(
    PROVISIONING, "False", "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning"
)
EMPTY = _condition(PROVISIONING, "False", "BufferIsEmpty", "CapacityBuffer has zero replicas")


def capped(cap: int, wanted: int) -> Condition:
    """Ready, with fewer chunks than are asked for."""
    message = f"ready, with {cap} chunks instead of {wanted}: buffer-max-chunks is {cap}"
    return _condition(READY, "True", "AttributesSetSuccessfully", message)


def without_percentage(ready: Condition, percentage: int) -> Condition:
    """Ready, and one field of its size means nothing."""
    left = f"spec.percentage ({percentage}) is left aside: it is of the pods of a workload, and spec.scalableRef names none"
    return _condition(READY, ready.status, ready.reason, f"{ready.message}; {left}")


def not_ready(error: str) -> Condition:
    """It has no shape or no number, and this is why."""
    return _condition(READY, "False", "error", f"{_NOT_READY}: {error}" if error else _NOT_READY)


def limited(wanted: int, granted: int, quotas: Iterable[str]) -> Condition:
    """Quotas leave room for fewer chunks."""
    message = f"Buffer replicas limited from {wanted} to {granted} due to quotas: {', '.join(quotas)}"
    return _condition(LIMITED, "True", "ResourceQuotasAllocated", message)


def no_template(error: str) -> Condition:
    """The template that its status names cannot be had."""
    return _condition(
        PROVISIONING, "False", "FailedToGetPodTemplate", f"failed to get pod template with error: {error}"
    )


def no_chunks(error: str) -> Condition:
    """Its template makes no pods."""
    return _condition(
        PROVISIONING, "False", "FailedToMakeFakePods", f"failed to create fake pods with error: {error}"
    )


def capacity(ready: int, wanted: int, upcoming: int, missing: int, why: str) -> Condition:
    """[B1]: the truth about its chunks."""
    message = f"{ready} of {wanted} chunks on ready nodes, {upcoming} upcoming, {missing} missing"
    if missing and why:
        message += f": {why}"
    if ready == wanted:
        return _condition(CAPACITY_READY, "True", "AllChunksReady", message)
    return _condition(CAPACITY_READY, "False", "ChunksMissing" if missing else "NodesNotReady", message)
