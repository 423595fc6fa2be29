"""Conditions of a request, in the words that clients see (spec 2.4); how they are set is `tidewright.kube.conditions`.

In the profile `compat` reasons and messages are verbatim: they surface in Kueue's workloads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from tidewright.kube.conditions import Condition, find, is_true, parse, render, with_condition
from tidewright.kube.times import rfc3339

__all__ = [
    "ACCEPT",
    "ACCEPTED",
    "BOOKING_CONSUMED",
    "BOOKING_EXPIRED",
    "BOOKING_TIME_OVER",
    "CAPACITY_AVAILABLE",
    "CAPACITY_READY",
    "CAPACITY_REVOKED",
    "EXPIRED",
    "FAILED",
    "FOUND",
    "FULLY_PROVISIONED",
    "GIVEN_UP",
    "LOST",
    "NODES_READY",
    "NOT_FOUND",
    "ORDERED",
    "OURS",
    "PROVISIONED",
    "ROOM_READY",
    "Condition",
    "Status",
    "available",
    "capacity_lost",
    "capacity_revoked",
    "failed_to_book",
    "failed_to_create_pods",
    "find",
    "fully",
    "invalid",
    "is_ours",
    "is_true",
    "nodes_missing",
    "nodes_ordered",
    "parse",
    "render",
    "with_condition",
]

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


def bookable(conditions: Iterable[Condition]) -> bool:
    """Whether room is kept for a request of ours in this state."""
    known = tuple(conditions)
    return (
        is_true(known, PROVISIONED)
        and not is_true(known, FAILED)
        and not is_true(known, BOOKING_EXPIRED)
        and not is_true(known, CAPACITY_REVOKED)
    )


def is_ours(condition: Condition) -> bool:
    """Whether a condition is written here; `Unknown` is somebody else's word, whatever its type."""
    return condition.type in OURS and condition.status != "Unknown"
