"""How much room is kept for a request whose pods are not all there yet. Spec 2.8, [B2]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidewright.kube.podshape import PodShape
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition


class Booking(msgspec.Struct, frozen=True):
    """Attributes:
    items: what room is kept for, per pod set.
    condition: what is written when the booking is over.
    """

    items: tuple[Item, ...] = ()
    condition: Condition | None = None

    @property
    def pods(self) -> int:
        return sum(item.count for item in self.items)


def bookable(conditions: Iterable[Condition]) -> bool:
    """Whether room is kept for a request of ours in this state."""
    found = tuple(conditions)
    return (
        cond.is_true(found, cond.PROVISIONED)
        and not cond.is_true(found, cond.FAILED)
        and not cond.is_true(found, cond.BOOKING_EXPIRED)
        and not cond.is_true(found, cond.CAPACITY_REVOKED)
    )


def booking(conditions: Sequence[Condition], sets: Sequence[Item], placed: Sequence[PodShape]) -> Booking:
    """What is still to be kept: per pod set the count less the consumers that have a place.

    The reference keeps the full count until all consumers run, which counts room twice.

    Args:
        conditions: of the request.
        sets: its pod sets.
        placed: shapes of its consumers that are on a node.
    """
    if not bookable(conditions):
        return Booking()
    total = sum(item.count for item in sets)
    if len(placed) >= total:
        return Booking(condition=cond.BOOKING_CONSUMED)
    left = [item.count for item in sets]
    for shape in placed:
        index = _set_of(shape, sets, left)
        if index is not None:
            left[index] -= 1
    return Booking(items=tuple(Item(item.shape, n) for item, n in zip(sets, left, strict=True) if n))


def _set_of(shape: PodShape, sets: Sequence[Item], left: Sequence[int]) -> int | None:
    """The pod set that a consumer most likely belongs to, of those that lack pods.

    A consumer's labels differ from its template's (controllers add their own), so equal requests
    speak for a set; else it is the first set that lacks one.
    """
    lacking = [i for i in range(len(sets)) if left[i] > 0]
    for i in lacking:
        if sets[i].shape.digest == shape.digest:
            return i
    for i in lacking:
        if sets[i].shape.requests == shape.requests:
            return i
    return lacking[0] if lacking else None
