"""Conditions of a request, in the words that clients see (spec 2.4), and how they are set.

In the profile `compat` reasons and messages are verbatim: they surface in Kueue's workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tidewright.kube.times import rfc3339, seconds_or_none

ACCEPTED = "Accepted"
PROVISIONED = "Provisioned"
FAILED = "Failed"
BOOKING_EXPIRED = "BookingExpired"
CAPACITY_REVOKED = "CapacityRevoked"
CAPACITY_AVAILABLE = "CapacityAvailable"
CAPACITY_READY = "CapacityReady"
FULLY_PROVISIONED = "FullyProvisioned"

OURS = frozenset(
    {
        ACCEPTED,
        PROVISIONED,
        FAILED,
        BOOKING_EXPIRED,
        CAPACITY_REVOKED,
        CAPACITY_AVAILABLE,
        CAPACITY_READY,
        FULLY_PROVISIONED,
    }
)
"""Types that are written here. All others are somebody else's: known, and never written."""

Status = Literal["True", "False", "Unknown"]


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition; `changed_at` is its last transition, in seconds since the epoch."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    changed_at: float = 0.0
    observed_generation: int = 0


def _condition(kind: str, status: Status, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message)


ACCEPT = _condition(ACCEPTED, "True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
FOUND = _condition(PROVISIONED, "True", "CapacityIsFound", "Capacity is found in the cluster")
ORDERED = _condition(PROVISIONED, "True", "CapacityIsProvisioned", "Capacity is found in the cluster")
NOT_FOUND = _condition(
    PROVISIONED, "False", "CapacityIsNotFound", "Capacity is not found, CA will try to find it later."
)
GIVEN_UP = _condition(FAILED, "True", "CapacityIsNotFound", "CA could not find requested capacity")
EXPIRED = _condition(FAILED, "True", "Expired", "ProvisioningRequest is expired")
BOOKING_TIME_OVER = _condition(
    BOOKING_EXPIRED, "True", "CapacityReservationTimeExpired", "Capacity reservation time is expired"
)
BOOKING_CONSUMED = _condition(
    BOOKING_EXPIRED, "True", "CapacityBookingConsumed", "Capacity booking consumed: all pods scheduled"
)


NODES_READY = _condition(CAPACITY_READY, "True", "NodesReady", "All nodes that were ordered are ready")
ROOM_READY = _condition(CAPACITY_READY, "True", "NodesReady", "All its pods fit on nodes that are ready")


LOST = "CapacityLost"


def fully(lacking: int) -> Condition:
    """[B8]: for elastic gangs, whether all pods have a place, not only the minimum."""
    if not lacking:
        return _condition(FULLY_PROVISIONED, "True", "AllProvisioned", "all pods have a place")
    message = f"{lacking} pods above the minimum have no place yet"
    return _condition(FULLY_PROVISIONED, "False", "MinimumProvisioned", message)


def nodes_missing(why: str) -> Condition:
    """[B11]: nodes that were ordered, and will not come any more."""
    return _condition(CAPACITY_READY, "False", "NodesMissing", f"Nodes that were ordered did not come: {why}")


def capacity_lost(pods: int) -> Condition:
    """[B13]: room that was provisioned is not there any more."""
    return _condition(CAPACITY_READY, "False", LOST, f"Room for {pods} of its pods is gone")


def capacity_revoked(pods: int, after: str) -> Condition:
    """[B13]: and it did not come back in time."""
    message = f"Room for {pods} of its pods is gone and was not replaced within {after}"
    return _condition(CAPACITY_REVOKED, "True", LOST, message)


def nodes_ordered(eta: float | None) -> Condition:
    """Profile `hold`: the order went out, and the nodes are not ready yet."""
    message = "Nodes are ordered and not ready yet."
    if eta is not None:
        message += f" ETA: {rfc3339(eta)}"
    return _condition(PROVISIONED, "False", "NodesNotReady", message)


def failed_to_create_pods(message: str) -> Condition:
    return _condition(FAILED, "True", "FailedToCreatePods", message)


def failed_to_book(message: str) -> Condition:
    """Provisioned before this service knew it, and its pods cannot be told any more."""
    return _condition(FAILED, "True", "FailedToBookCapacity", f"Couldn't create pods, err: {message}")


def invalid(message: str) -> Condition:
    """The spec cannot be understood: the API server would have refused it."""
    return _condition(FAILED, "True", "InvalidSpec", message)


def available(provisioned: Condition) -> Condition:
    """`CapacityAvailable` for clients of the original proposal: as `Provisioned`."""
    return msgspec.structs.replace(provisioned, type=CAPACITY_AVAILABLE)


def is_ours(condition: Condition) -> bool:
    """Whether a condition is written here; `Unknown` is somebody else's word, whatever its type."""
    return condition.type in OURS and condition.status != "Unknown"


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((c for c in conditions if c.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def with_condition(
    conditions: Sequence[Condition], new: Condition, now: float, *, refresh: bool = False, generation: int = 0
) -> tuple[Condition, ...]:
    """The conditions with one set; all others stay, also those that are not ours.

    Args:
        conditions: as they are.
        new: what is set; its `changed_at` is ignored.
        now: becomes the transition time when the status changes.
        refresh: take `now` even when the status does not change (`Provisioned=False` in compat, which
            dashboards show as "last tried").
        generation: of the object that this speaks about.
    """
    old = find(conditions, new.type)
    same = old is not None and old.status == new.status
    changed_at = old.changed_at if old is not None and same and not refresh else float(int(now))
    made = msgspec.structs.replace(new, changed_at=changed_at, observed_generation=generation)
    if old is None:
        return (*conditions, made)
    return tuple(made if c.type == new.type else c for c in conditions)


def parse(found: Any) -> tuple[Condition, ...]:
    """Conditions as a stored status has them; what is no condition is left out."""
    if not isinstance(found, list):
        return ()
    return tuple(
        Condition(
            type=c["type"],
            status=str(c.get("status", "Unknown")),
            reason=str(c.get("reason") or ""),
            message=str(c.get("message") or ""),
            changed_at=seconds_or_none(c.get("lastTransitionTime")) or 0.0,
            observed_generation=int(c.get("observedGeneration") or 0),
        )
        for c in found
        if isinstance(c, Mapping) and isinstance(c.get("type"), str)
    )


def render(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Conditions as the API has them."""
    found = []
    for c in conditions:
        entry: dict[str, Any] = {
            "type": c.type,
            "status": c.status,
            "reason": c.reason or "Unknown",  # an empty reason is refused
            "message": c.message,
            "lastTransitionTime": rfc3339(c.changed_at),
        }
        if c.observed_generation:
            entry["observedGeneration"] = c.observed_generation
        found.append(entry)
    return found
