"""The pods as classes and the groups as columns: all that the search knows, in whole numbers.

A class is a shape, or several that nearly ask for the same and may go to the same groups: there are at most `MOST_CLASSES`,
and a class asks for the most that one of its shapes asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tidewright.kube.predicates import conflict
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.nodes import Ints, Mask
from tidewright.provisioning.pack.templates import Template

MOST_CLASSES = 256
_COARSE = 4
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
    barred = _holds(requests, capacity) & ~fits
    apart = frozenset((*hostile, *alone))
    members = _classes(requests, capacity, barred, apart, most_classes)
    several = np.array([item.count for item in items], dtype=np.int64)
    counts, asked = several, requests
    if len(members) < len(items):
        counts = np.array([several[list(each)].sum() for each in members], dtype=np.int64)
        of_each = [(requests[list(each)], several[list(each)]) for each in members]
        asked = np.array(
            [-(-(r * n[:, None]).sum(axis=0) // n.sum()) if mean else r.max(axis=0) for r, n in of_each]
        )
        least = np.array([most[:, list(each)].min(axis=1) for each in members], dtype=np.int64).T
        most = np.where(least > 0, np.maximum(_most(asked, capacity), 1), 0) if mean else least.copy()
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
    requests: Ints, capacity: Ints, barred: Mask, apart: Collection[int], most_classes: int
) -> tuple[tuple[int, ...], ...]:
    """Items by class: each its own, or, where there are too many, those that agree in ever fewer digits.

    `barred` says per group and item whether something else than its size keeps it away.
    """
    single = tuple((i,) for i in range(len(requests)))
    if len(single) <= most_classes:
        return single
    open_to = _holds(requests, capacity) & ~barred
    others = np.packbits(barred.T, axis=1)
    itself = np.arange(len(requests), dtype=np.int64)
    kept_apart = np.zeros(len(requests), dtype=np.bool_)
    kept_apart[list(apart)] = True
    for bits in (10, 8, 6, 5, 4, 3, 2, 1):
        rounded = _rounded_up(requests, bits)
        still = _holds(rounded, capacity) & ~barred
        # What would fit nowhere for what is added to it stays what it is; with many digits, also what would fit in fewer groups.
        worse = still < open_to if bits > _COARSE else ~np.logical_or.reduce(still, axis=0)[None]
        alone = kept_apart | np.logical_or.reduce(worse, axis=0)
        numbers = np.column_stack([np.where(alone, itself, -1), rounded])
        keys = np.concatenate([numbers.view(np.uint8), others], axis=1)
        kinds: dict[bytes, list[int]] = {}
        for i, key in enumerate(keys.view(f"V{keys.shape[1]}")[:, 0].tolist()):
            kinds.setdefault(key, []).append(i)
        if len(kinds) <= most_classes:
            break
    return tuple(map(tuple, kinds.values()))


def _rounded_up(amounts: Ints, bits: int) -> Ints:
    """Amounts with so many leading bits, rounded up."""
    lengths = np.frexp(amounts.astype(np.float64))[1].astype(np.int64)
    step = np.int64(1) << np.maximum(lengths - bits, 0)
    rounded: Ints = -(-amounts // step) * step
    return rounded
