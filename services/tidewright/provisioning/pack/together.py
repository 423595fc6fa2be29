"""Pods that have devices together: a claim that they share, or devices that several nodes reach.

Where the first of them goes decides where the others may. So a row is looked for that holds all of them,
and where none does, the one that holds the most: as the scheduler would leave them, in the best case.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewright.kube.podshape import PodShape
from tidewright.kube.predicates import conflict, counted_alone
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.nodes import Ints
from tidewright.provisioning.pack.topology import place_one_by_one


def place_together(grid: Grid, shape: PodShape, count: int, along: Sequence[Item] = ()) -> int:
    """Place up to `count` pods of a shape that shares devices; the number placed. See `Grid.place`."""
    placed = 0
    if grid.devices.waits(shape):
        kin = [Item(shape, count), *kindred(shape, along)]
        row, _ = best_row(grid, grid.capacity(shape)[grid.order()], grid.order(), kin)
        if row is None:
            return 0
        first = count if counted_alone(shape) else 1
        placed = min(first, int(grid.capacity(shape)[row]))
        grid.put(shape, row, placed)
    if placed < count:
        placed += place_one_by_one(grid, shape, count - placed)
    return placed


def kindred(shape: PodShape, others: Sequence[Item]) -> list[Item]:
    """Of other pods those that share a claim with this shape, or with one that does."""
    names = _shared(shape)
    candidates = [item for item in others if item.count and item.shape.digest != shape.digest]
    kin: dict[str, Item] = {}
    while more := [
        i for i in candidates if i.shape.digest not in kin and not names.isdisjoint(_shared(i.shape))
    ]:
        for item in more:
            kin[item.shape.digest] = item
            names |= _shared(item.shape)
    return list(kin.values())


def _shared(shape: PodShape) -> set[str]:
    return {claim.claim for claim in shape.claims if claim.claim}


def best_row(grid: Grid, room: Ints, rows: Ints, kin: Sequence[Item]) -> tuple[int | None, int]:
    """The row for the first of these pods: the first one, from the pointer on, of those that hold the most; with how many.

    Args:
        grid: the nodes.
        room: pods of the first kind that each of `rows` takes.
        rows: where to look, in the order of the search.
        kin: the pods; the first kind is to have one there at least.
    """
    if not len(rows):
        return None, 0
    total = sum(item.count for item in kin)
    open_to = [grid.open(item.shape) for item in kin]
    start = grid.pointer % len(rows)
    best: tuple[int, int, int] | None = None
    known: dict[tuple[object, ...], int] = {}
    names = sorted({name for item in kin for name, amount in item.shape.requests.items() if amount > 0})
    for step in range(len(rows)):
        rank = (start + step) % len(rows)
        if room[rank] <= 0:
            continue
        row = int(rows[rank])
        free = {name: int(grid.free[name][row]) if name in grid.free else 0 for name in names}
        key = (
            *free.values(),
            *(bool(mask[row]) for mask in open_to),
            id(grid.devices.stocks.get(row)),
            *(grid.reached()[row] if grid.devices.common is not None else ()),
        )
        held = known.get(key)
        if held is None:
            held = known[key] = _held(grid, row, free, kin, [bool(mask[row]) for mask in open_to])
        if best is None or held > best[0]:
            best = (held, row, rank)
            if held == total:
                break
    if best is None:
        return None, 0
    grid.pointer = (best[2] + 1) % len(rows)
    return best[1], best[0]


def _held(grid: Grid, row: int, free: dict[str, int], kin: Sequence[Item], allowed: Sequence[bool]) -> int:
    """How many of these pods the row holds beside one another; terms on wider domains left aside."""
    devices = grid.devices.alone(row)
    here: list[PodShape] = []
    held = 0
    on_row = np.zeros(len(grid.views), dtype=np.int64)
    for item, may in zip(kin, allowed, strict=True):
        if not may or any(conflict(item.shape, other) for other in here):
            continue
        room = grid.most(item.shape, item.count)
        if conflict(item.shape, item.shape):
            room = min(room, 1)
        for name, amount in item.shape.requests_at(grid.devices.stocks.get(row)).items():
            if amount > 0:
                room = min(room, free[name] // amount)
        if room > 0 and item.shape.claims:
            on_row[:] = 0
            on_row[row] = room
            devices.limit(item.shape, on_row, grid.reached())
            room = int(on_row[row])
        if room > 0:
            devices.take(item.shape, row, room, grid.reached())
            here.append(item.shape)
            for name, amount in item.shape.requests.items():
                if amount > 0:
                    free[name] -= amount * room
            held += room
    return held
