"""What one node may hold: patterns, found by filling nodes of all groups at the same time.

A pattern says of each class how many pods of it one node holds. It is worth what its pods are worth; one that is worth more than its
node costs improves a plan by which those worths came about.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidewright.provisioning.pack.nodes import Ints, Mask
from tidewright.provisioning.scaleup.leastcost.bound import Floats, added
from tidewright.provisioning.scaleup.leastcost.problem import Problem

FINE = 16
"""Worths are compared as whole numbers, in this part of the unit of prices: sums of those are the same in any order."""
EXCHANGES = 64
"""Pods of one node that give way to larger ones, at most."""


def added_up(pods: Floats, worths: Floats) -> Floats:
    """What rows of pods are worth together, in whole numbers: exact, and without the threads that a matrix product would start."""
    sums: Floats = np.einsum("ij,j->i", pods, worths)
    return sums


class Way(NamedTuple):
    """A way to fill a node: the class next that is worth most for what it takes.

    Attributes:
        whole: all pods of it that fit go there at a time; otherwise half of them.
        fixed: what a pod takes is seen against what a fresh node has, not against what is left.
        squared: what it takes most of counts more.
        alone: what it takes does not count: of large pods the last one on a node is the better the more it is worth.
    """

    whole: bool = True
    fixed: bool = False
    squared: bool = False
    alone: bool = False


WAYS = (Way(), Way(fixed=True), Way(whole=False), Way(squared=True))
DEAREST = Way(alone=True)


def whole(worth: Floats) -> Floats:
    """Worths as whole numbers (in floats, which hold them exactly)."""
    worths: Floats = np.rint(np.maximum(worth, 0.0) * FINE)
    return worths


def fill(problem: Problem, worth: Floats, counts: Ints, groups: Ints, way: Way = WAYS[0]) -> Floats:
    """One pattern for each of these groups: pods per class on a node, no more than `counts` of each."""
    empty = np.zeros((len(groups), len(counts)))
    return filled_up(problem, worth, counts, groups=groups, held=empty, way=way)


def filled_up(
    problem: Problem, worth: Floats, counts: Ints, *, groups: Ints, held: Floats, way: Way
) -> Floats:
    """Nodes of these groups, each with what it holds, filled up."""
    requests = problem.requests.astype(np.float64)
    full = held.copy()
    at = np.arange(len(groups))  # of the rows below, which are those that still take something
    fresh = problem.capacity[groups].astype(np.float64)
    free = fresh - np.einsum("ij,jk->ik", held, requests) if held.any() else fresh.copy()
    left = np.minimum(problem.most[groups], counts[None]) - held
    able: Mask = (left > 0) & (worth > 0)[None]
    enemies = problem.enemies
    if enemies is not None:
        there = (held > 0).astype(np.float64)
        able &= np.einsum("ij,jk->ik", there, enemies.astype(np.float64)) == 0
    some = np.flatnonzero(np.logical_or.reduce(able, axis=0))  # of the columns below
    requests, worth, left, able = requests[some], worth[some], left[:, some], able[:, some]
    if enemies is not None:
        enemies = enemies[np.ix_(some, some)]
    size = _size(requests, fresh if way.fixed else free, way)
    asked = np.ascontiguousarray(requests.T)
    while True:
        for r, amounts in enumerate(asked):
            able &= amounts <= free[:, r, None]
        going: Mask = np.logical_or.reduce(able, axis=1)
        if not going.any():
            return full
        if 4 * np.count_nonzero(going) <= 3 * len(going):
            at, free, left, able, size = at[going], free[going], left[going], able[going], size[going]
        best = np.where(able, worth / size, -1.0).argmax(axis=1)
        cells = best + np.arange(0, able.size, len(some))
        amounts, there = requests.take(best, axis=0), left.take(cells)
        fits = np.where(amounts > 0, np.floor(free / np.maximum(amounts, 1.0)), there[:, None])
        room = np.minimum(np.minimum.reduce(fits, axis=1, initial=np.inf), there)
        taken = np.where(able.take(cells), room if way.whole else np.ceil(room / 2.0), 0.0)
        free -= taken[:, None] * amounts
        full[at, some.take(best)] += taken
        there -= taken
        left.put(cells, there)
        able.put(cells[there <= 0], False)
        if enemies is not None:
            able &= ~(enemies[best] & (taken > 0)[:, None])
        if not (way.fixed or way.alone):
            size = _size(requests, free, way)


def begun(
    problem: Problem, worth: Floats, counts: Ints, *, groups: Ints, part: float, way: Way
) -> tuple[Ints, Floats]:
    """Patterns that begin with one class each, then filled up: for each of these groups as many as there are classes.

    What is worth most for its size is not always on the best node. `part` of the pods that a node holds are there at first, one at least.
    Returns the group of each pattern, and the patterns.
    """
    classes = np.tile(np.arange(len(counts)), len(groups))
    rows = np.repeat(groups, len(counts))
    most = np.where(worth[classes] > 0, np.minimum(problem.most[rows, classes], counts[classes]), 0)
    some = most > 0
    rows, classes, most = rows[some], classes[some], most[some]
    held = np.zeros((len(rows), len(counts)))
    held[np.arange(len(rows)), classes] = np.maximum(np.ceil(most * part), 1.0)
    return rows, filled_up(problem, worth, counts, groups=rows, held=held, way=way)


def exchanged(
    problem: Problem, worth: Floats, counts: Ints, *, groups: Ints, held: Floats, rank: int
) -> Floats:
    """Patterns without one of their classes, filled up anew: the class that is worth least for its size, or the next ones."""
    requests = problem.requests.astype(np.float64)
    size = _size(requests, problem.capacity.astype(np.float64), WAYS[0])[groups]
    ratio = np.where(held > 0, worth[None] / size, np.inf)
    order = np.argsort(ratio, axis=1, kind="stable")
    rows = np.arange(len(groups))
    out = order[rows, np.minimum(rank, (held > 0).sum(axis=1) - 1)]
    part = held.copy()
    part[rows, out] = 0.0
    without = np.broadcast_to(worth, part.shape).copy()
    without[rows, out] = 0.0
    return filled_up(problem, worth, counts, groups=groups, held=part, way=WAYS[0])


def swapped(
    problem: Problem, worth: Floats, counts: Ints, *, groups: Ints, held: Floats, way: Way
) -> tuple[Ints, Floats]:
    """Patterns with one pod of a class instead of one of another, then filled up: all such, for each of these patterns.

    Returns the row that each comes from, and the patterns.
    """
    requests = problem.requests.astype(np.float64)
    able = np.minimum(problem.most[groups], counts[None])
    free = problem.capacity[groups].astype(np.float64) - np.einsum("ij,jk->ik", held, requests)
    rows, out = np.nonzero(held > 0)
    fits: Mask = (held < able)[rows] & (worth > 0)[None]
    fits[np.arange(len(rows)), out] = False
    for r in range(requests.shape[1]):
        fits &= requests[None, :, r] <= (free[rows, r] + requests[out, r])[:, None]
    if problem.enemies is not None:
        part = held[rows]
        part[np.arange(len(rows)), out] -= 1.0
        fits &= np.einsum("ij,jk->ik", (part > 0).astype(np.float64), problem.enemies.astype(np.float64)) == 0
    which, into = np.nonzero(fits)
    rows, out = rows[which], out[which]
    part = held[rows]
    at = np.arange(len(rows))
    part[at, out] -= 1.0
    part[at, into] += 1.0
    return rows, filled_up(problem, worth, counts, groups=groups[rows], held=part, way=way)


def enlarged(problem: Problem, worth: Floats, counts: Ints, group: int, pattern: Floats) -> Floats:
    """A pattern in which pods gave way to larger ones that are worth as much, as long as they fit.

    Where only some of what nodes have is scarce, pods that ask for little of the rest are worth what others are; filled with those first,
    nodes leave room that nothing uses, and what is left at last asks for much. The smallest give way first, to the largest that fit.
    """
    requests = problem.requests.astype(np.float64)
    capacity = problem.capacity[group].astype(np.float64)
    share = np.maximum.reduce(requests / np.maximum(capacity, 1.0), axis=1)
    held, free = pattern.copy(), capacity - added(requests * pattern[:, None])
    some = np.minimum(problem.most[group], counts).astype(np.float64)
    if problem.enemies is not None:
        some[np.logical_or.reduce(problem.enemies, axis=1)] = 0.0
    order = np.argsort(share, kind="stable").tolist()
    for _ in range(EXCHANGES):
        for smaller in order:
            if held[smaller] <= 0:
                continue
            able = (worth >= worth[smaller]) & (share > share[smaller]) & (held < some)
            able &= np.logical_and.reduce(requests <= free + requests[smaller], axis=1)
            if able.any():
                larger = int(np.where(able, share, -1.0).argmax())
                held[smaller] -= 1.0
                held[larger] += 1.0
                free += requests[smaller] - requests[larger]
                break
        else:
            break
    return held


def _size(requests: Floats, free: Floats, way: Way) -> Floats:
    """How much a pod of each class takes of what a node of each group has."""
    if way.alone:
        return np.ones((len(free), len(requests)))
    size = np.zeros((len(free), len(requests)))
    parts = 1.0 / np.maximum(free, 1.0)
    for r in range(requests.shape[1]):
        part = requests[:, r] * parts[:, r, None]
        size += np.multiply(part, part, out=part) if way.squared else part
    return np.maximum(size, 1e-12, out=size)


class Pool:
    """Patterns that were found, each once.

    Attributes:
        held: pods per class, a row per pattern; `group` is the group of each.
    """

    def __init__(self, classes: int) -> None:
        self._held = np.zeros((256, classes))
        self._group = np.zeros(256, dtype=np.int64)
        self._known: set[tuple[int, bytes]] = set()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def held(self) -> Floats:
        return self._held[: len(self)]

    @property
    def group(self) -> Ints:
        return self._group[: len(self)]

    def add(self, group: int, held: Floats) -> bool:
        """Keep a pattern; whether it is a new one."""
        key = (group, held.tobytes())
        if key in self._known or not held.any():
            return False
        if len(self) == len(self._group):
            self._held = np.concatenate([self._held, np.zeros_like(self._held)])
            self._group = np.concatenate([self._group, np.zeros_like(self._group)])
        self._held[len(self)], self._group[len(self)] = held, group
        self._known.add(key)
        return True
