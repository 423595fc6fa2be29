"""Room that is kept for requests, and the placeholders that hold it. Spec 2.8, [B2]

`booking` says how much is kept for a request whose pods are not all there yet; `room_kept` what room is kept for
in all, and ends what was used up; `hold_room` orders placeholders against others; `lacking` says whose room is on
paper only, once everything was placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidewright.events.base import Decision
from tidewright.kube.keys import PodKey, RequestKey
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.index.settling import nominated
from tidewright.provisioning.pack.classes import Demand, Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests import placeholders
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.quota import claim_booked
from tidewright.provisioning.requests.work import STALENESS_S, RequestWork
from tidewright.provisioning.tell.sentences import because


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


def booking(conditions: Sequence[Condition], sets: Sequence[Item], placed: Sequence[PodShape]) -> Booking:
    """What is still to be kept: per pod set the count less the consumers that have a place.

    The reference keeps the full count until all consumers run, which counts room twice.

    Args:
        conditions: of the request.
        sets: its pod sets.
        placed: shapes of its consumers that are on a node.
    """
    if not cond.bookable(conditions):
        return Booking()
    total = sum(item.count for item in sets)
    if len(placed) >= total:
        return Booking(condition=cond.BOOKING_CONSUMED)
    remaining = [item.count for item in sets]
    for shape in placed:
        index = _set_of(shape, sets, remaining)
        if index is not None:
            remaining[index] -= 1
    return Booking(items=tuple(Item(item.shape, n) for item, n in zip(sets, remaining, strict=True) if n))


def _set_of(shape: PodShape, sets: Sequence[Item], counts: Sequence[int]) -> int | None:
    """The pod set that a consumer most likely belongs to, of those that lack pods.

    A consumer's labels differ from its template's (controllers add their own), so equal requests
    speak for a set; else it is the first set that lacks one.
    """
    lacking = [i for i in range(len(sets)) if counts[i] > 0]
    for i in lacking:
        if sets[i].shape.digest == shape.digest:
            return i
    for i in lacking:
        if sets[i].shape.requests == shape.requests:
            return i
    return lacking[0] if lacking else None


def room_kept(work: RequestWork) -> dict[str, Demand]:
    """What room is kept for, by shape; bookings whose pods have all come end here."""
    demands: dict[str, Demand] = {}
    coming, waiting = _on_their_way(work)
    for key in work.modes:
        if not work.understands(key):
            continue  # provisioned by a service before this one: its pods are still to be read
        waiting_for_nodes = work.busy(key) or work.ordered(key)
        if not cond.bookable(work.conditions_of(key)) and not waiting_for_nodes:
            continue
        sets = tuple(Item(shape, n) for shape, n in work.kept_sets_of(key))
        placed = [
            shape_of(work.state, work.index, work.state.pods[pod].shape)
            for pod in (*work.index.consumers.get(key, {}), *coming.get(key, ()))
        ]
        if waiting_for_nodes and not cond.bookable(work.conditions_of(key)):
            items: Iterable[Item] = sets
        else:
            kept = booking(work.conditions_of(key), sets, placed)
            items = kept.items
            if kept.condition is not None:
                work.put(key, kept.condition, because("BookingUsed", pods=len(placed)))
                work.ended.append(work.release(key, kept.condition.reason))
                work.ended.append(work.event(key, "BookingExpired", kept.condition.message))
                continue
            until = work.booked_until(key)
            if until is not None:
                work.dues.append(until + 0.001)
        work.kept[key] = tuple(items)
        work.uncome[key] = _uncome(work, key, sets, placed, waiting.get(key, ()))
    claim_booked(work)
    work.standing = placeholders.standing(work.state, work.uncome if work.holds() else {}, work.now)
    for key, whole in work.kept.items():
        work.kept[key] = placeholders.without(whole, key, work.standing)
        for item in work.kept[key]:
            demand = demands.setdefault(item.shape.digest, Demand(item.shape, 0))
            demand.count += item.count
    return demands


def _on_their_way(work: RequestWork) -> tuple[dict[RequestKey, list[PodKey]], dict[RequestKey, list[PodKey]]]:
    """Request to its pods that are nominated to a node, and to those that wait without."""
    coming: dict[RequestKey, list[PodKey]] = {}
    waiting: dict[RequestKey, list[PodKey]] = {}
    there = nominated(work.state, work.index)
    for pod, consumer in there.items():
        if consumer.consumes:
            coming.setdefault(consumer.consumes, []).append(pod)
    for pod in work.index.waiting if work.holds() else ():
        request = work.state.pods[pod].consumes
        if request and pod not in there:
            waiting.setdefault(request, []).append(pod)
    return coming, waiting


def places(work: RequestWork) -> dict[str, dict[str, int]]:
    """Where what is kept found its room, by shape and node."""
    room: dict[str, dict[str, int]] = {}
    for key in work.kept:
        for digest, nodes in work.state.requests[key].places.items():
            there = room.setdefault(digest, {})
            for node, pods in nodes.items():
                there[node] = there.get(node, 0) + pods
    return room


def _uncome(
    work: RequestWork,
    key: RequestKey,
    sets: tuple[Item, ...],
    placed: list[PodShape],
    waiting: Sequence[PodKey],
) -> tuple[Item, ...]:
    """[B2]: what of a booking is for pods that do not exist yet: those that wait want the room itself."""
    if not work.holds():
        return ()
    if not cond.bookable(work.conditions_of(key)):
        return sets  # its nodes are on their way
    claimed = [shape_of(work.state, work.index, work.state.pods[pod].shape) for pod in waiting]
    return booking(work.conditions_of(key), sets, [*placed, *claimed]).items


def hold_room(work: RequestWork, real: Grid, trial: Grid, starting: Mapping[int, str]) -> list[Decision]:
    """[B2]: pods that hold the room against others are made and removed.

    Args:
        work: the requests.
        real: nodes and what runs on them.
        trial: the same with what this evaluation has placed.
        starting: rows of nodes on their way to those that are there and have not started.
    """
    decisions = list(placeholders.removals(work.state, work.standing, work.now))
    if work.holds():
        missing = {key: placeholders.without(items, key, work.standing) for key, items in work.uncome.items()}
        room = placeholders.FreeRoom(work.state, work.index)
        decisions += placeholders.creations(
            work.state,
            work.settings,
            work.now,
            missing=missing,
            current=work.standing,
            real=real,
            trial=trial,
            starting=starting,
            room=room,
        )
        work.unheld = room.waiting
        if room.waiting:
            work.dues.append(work.now + STALENESS_S)
    return decisions


def lacking(work: RequestWork, booked: Mapping[str, Demand]) -> dict[RequestKey, tuple[Item, ...]]:
    """Request to what is kept for it on paper only: the last ones lack what has found no room."""
    unplaced = {digest: demand.count for digest, demand in booked.items() if demand.count}
    shortfalls: dict[RequestKey, tuple[Item, ...]] = {}
    for key in reversed(work.kept):
        short = []
        for item in work.kept[key]:
            pods = min(unplaced.get(item.shape.digest, 0), item.count)
            if pods:
                unplaced[item.shape.digest] -= pods
                short.append(Item(item.shape, pods))
        if short:
            shortfalls[key] = tuple(short)
    return shortfalls
