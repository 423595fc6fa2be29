"""The pods as classes and the groups as columns: all that the search knows, in whole numbers.

A class is a shape, or several that nearly ask for the same and may go to the same groups: there are at most `MOST_CLASSES`, if those that have to be
told apart are no more. A class asks for the most that one of its shapes asks for, or for what they ask for on average.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from tidewright.kube.predicates import conflict
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.nodes import Ints, Mask
from tidewright.provisioning.pack.templates import Template

MOST_CLASSES = 256
_WHOLE = 2**20
_NOWHERE = 2**60
_UNBOUNDED = 2**40


class Column(NamedTuple):
    """One group.

    Attributes:
        fits: items that it holds, by their numbers.
        price: of one node; above 0.
        room: nodes that it still takes.
    """

    template: Template
    fits: frozenset[int]
    price: int
    room: int


class Limit(NamedTuple):
    """A limit over several groups: of what it counts, so much per node of each group, so much is left."""

    per_node: tuple[int, ...]
    left: int


class Problem(NamedTuple):
    """Classes are rows of `requests`, groups those of `capacity`; `members` are the items of each class.

    Attributes:
        requests: per class and resource.
        counts: pods per class.
        capacity: per group and resource, what a fresh node has left for pods.
        most: per group and class, pods of the class alone on a node; 0 where it may not go.
        price: of one node, per group.
        limits: those that would be broken if all groups had nodes for all pods that they hold, each class on its own.
        enemies: per class those with which it cannot share a node; None where there are none.
        apart: items that cannot share a node with some other, or with their like; each is a class of its own.
    """

    requests: Ints
    counts: Ints
    capacity: Ints
    most: Ints
    price: Ints
    limits: tuple[Limit, ...]
    enemies: Mask | None
    members: tuple[tuple[int, ...], ...]
    apart: frozenset[int] = frozenset()


def problem_of(
    items: Sequence[Item],
    columns: Sequence[Column],
    limits: Sequence[Limit],
    most_classes: int = MOST_CLASSES,
    *,
    mean: bool = False,
) -> Problem:
    """The problem of giving these pods, whose shapes do not look at other nodes, nodes of these groups.

    `mean`: a class asks for what its shapes do on average, instead of for the most; a plan is then to be made one for the shapes.
    """
    names = sorted({name for item in items for name, amount in item.shape.requests.items() if amount > 0})
    free = [column.template.free() for column in columns]
    requests = np.array([[i.shape.requests.get(name, 0) for name in names] for i in items], dtype=np.int64)
    capacity = np.array([[max(0, f.get(name, 0)) for name in names] for f in free], dtype=np.int64)
    requests, capacity = requests.reshape(len(items), len(names)), capacity.reshape(len(columns), len(names))
    fits = np.zeros((len(columns), len(items)), dtype=np.bool_)
    for number, column in enumerate(columns):
        fits[number, list(column.fits)] = True
    hostile, alone = _conflicts(items)
    most = np.where(fits, _most(requests, capacity), 0)
    most[:, alone] = np.minimum(most[:, alone], 1)
    apart = frozenset((*hostile, *alone))
    several = np.array([item.count for item in items], dtype=np.int64)
    members = _classes(requests, several, capacity, fits, apart=apart, most=most_classes)
    counts, asked = several, requests
    if len(members) < len(items):
        counts = np.array([several[list(each)].sum() for each in members], dtype=np.int64)
        of_each = [(requests[list(each)], several[list(each)]) for each in members]
        asked = np.array(
            [-(-(r * n[:, None]).sum(axis=0) // n.sum()) if mean else r.max(axis=0) for r, n in of_each]
        )
        least = np.array([most[:, list(each)].min(axis=1) for each in members], dtype=np.int64).T
        whole = _most(asked, capacity)
        most = np.where(least > 0, np.maximum(whole, 1), 0) if mean else np.minimum(least, whole)
        single = np.array([len(each) == 1 for each in members])
        most[:, single] = least[:, single]
    enemies = None
    if hostile and len(members) <= 2 * MOST_CLASSES:
        place = {i: number for number, each in enumerate(members) for i in each}
        enemies = np.zeros((len(members), len(members)), dtype=np.bool_)
        for a, others in hostile.items():
            for b in others:
                enemies[place[a], place[b]] = True
    wanted = np.where(most > 0, -(-counts[None] // np.maximum(most, 1)), 0).sum(axis=1).tolist()
    rooms = [
        Limit(tuple(int(g == number) for g in range(len(columns))), column.room)
        for number, column in enumerate(columns)
    ]
    return Problem(
        requests=asked.reshape(len(members), len(names)),
        counts=counts,
        capacity=capacity,
        most=most,
        price=np.array([column.price for column in columns], dtype=np.int64),
        limits=tuple(
            limit
            for limit in (*rooms, *limits)
            if sum(n * each for n, each in zip(wanted, limit.per_node, strict=True)) > limit.left
        ),
        enemies=enemies,
        members=members,
        apart=apart,
    )


def _most(requests: Ints, capacity: Ints) -> Ints:
    """Per group and item, how many of its pods alone the amounts on a node allow."""
    most = np.full((len(capacity), len(requests)), _UNBOUNDED, dtype=np.int64)
    for resource in range(requests.shape[1]):
        some = requests[:, resource] > 0
        here = capacity[:, resource, None] // requests[None, some, resource]
        most[:, some] = np.minimum(most[:, some], here)
    return most


def _holds(requests: Ints, capacity: Ints) -> Mask:
    """Per group and item, whether the amounts on a node allow one pod of it."""
    holds = np.ones((len(capacity), len(requests)), dtype=np.bool_)
    for resource in range(requests.shape[1]):
        holds &= requests[None, :, resource] <= capacity[:, resource, None]
    return holds


def _conflicts(items: Sequence[Item]) -> tuple[Mapping[int, set[int]], list[int]]:
    """Items that cannot share a node: with which others, and those of which a node takes one pod."""
    hostile: dict[int, set[int]] = {}
    alone: list[int] = []
    for a, item in enumerate(items):
        shape = item.shape
        if not (shape.host_ports or shape.anti_affinity or shape.volumes):
            continue
        for b, other in enumerate(items):
            if not conflict(shape, other.shape):
                continue
            if a == b:
                alone.append(a)
            else:
                hostile.setdefault(a, set()).add(b)
                hostile.setdefault(b, set()).add(a)
    return hostile, alone


def _classes(
    requests: Ints, several: Ints, capacity: Ints, fits: Mask, *, apart: Collection[int], most: int
) -> tuple[tuple[int, ...], ...]:
    """Items by class: each its own, or, where there are too many, those together that ask for nearly the same.

    What differs most, for all its pods and beside the largest nodes, is told apart first; and what would fit nowhere together in any case.
    """
    if len(requests) <= most:
        return tuple((i,) for i in range(len(requests)))
    barred = np.packbits((_holds(requests, capacity) & ~fits).T, axis=1)
    kinds: dict[tuple[int, bytes], list[int]] = {}
    for i, others in enumerate(barred):
        kinds.setdefault((i if i in apart else -1, others.tobytes()), []).append(i)
    share = np.floor(requests / np.maximum(capacity.max(axis=0), 1) * _WHOLE).astype(np.int64)
    cells = [np.array(each) for each in kinds.values()]
    queue: list[tuple[int, int, int]] = []

    def put(number: int) -> None:
        cell = cells[number]
        if len(cell) < 2:
            return
        spread = (share[cell].max(axis=0) - share[cell].min(axis=0)).tolist()
        widest = max(range(len(spread)), key=spread.__getitem__)
        there = fits[:, cell].all(axis=1) & (requests[cell].max(axis=0) <= capacity).all(axis=1)
        urgent = 0 if there.any() else _NOWHERE
        heappush(queue, (-spread[widest] * int(several[cell].sum()) - urgent, number, widest))

    for number in range(len(cells)):
        put(number)
    while queue and (len(cells) < most or queue[0][0] <= -_NOWHERE):
        _, number, resource = heappop(queue)
        cell = cells[number]
        values, pods = share[cell, resource], several[cell]
        above = values > (values * pods).sum() // pods.sum()
        if not above.any():  # all ask for the same but for rounding
            above = np.arange(len(cell)) > 0
        cells[number] = cell[~above]
        cells.append(cell[above])
        put(number)
        put(len(cells) - 1)
    return tuple(sorted(tuple(cell.tolist()) for cell in cells))
