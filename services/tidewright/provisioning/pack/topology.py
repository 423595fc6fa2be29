"""One shape pod by pod: affinity, anti-affinity within a domain, topology spread.

Only shapes whose own terms depend on where their earlier pods went come here. The counts per domain
are taken from the grid once, and kept up to date while this one shape is placed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tidewright.kube.podshape import HOSTNAME, PodShape, TopologySpread
from tidewright.kube.predicates import conflict, untolerated
from tidewright.kube.taints import Taint
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.nodes import Ints, Mask

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"


class Discounted(NamedTuple):
    """Rows of a grid that count for less: of nodes that are gone already, and one whose pods are just being placed."""

    gone: Mask
    ghost: int


class Walk:
    """Where the next pod of one shape may go, on one grid.

    Call `allowed`, choose a row of it, call `take`. After adding nodes to the grid make a new walk.
    """

    def __init__(self, grid: Grid, shape: PodShape, discounted: Discounted | None = None) -> None:
        self.grid = grid
        self.shape = shape
        self.room = grid.capacity(shape)
        self._tied = grid.devices.ties(shape)
        self._spread = [SpreadCount(grid, shape, constraint, discounted) for constraint in shape.spread]
        self._apart = [
            _domain_counts(grid, term.key, (shape.digest,))
            for term in shape.anti_affinity
            if term.key != HOSTNAME and term.selects(shape)
        ]
        self._beside = _Beside(grid, shape) if shape.affinity else None

    def without_spread(self) -> Mask:
        """Rows that everything but the spread constraints allows."""
        mask: Mask = self.room > 0
        for ids, counts in self._apart:
            mask = mask & ((ids < 0) | (counts[ids] == 0))
        if self._beside is not None:
            mask = mask & self._beside.allowed()
        return mask

    def allowed(self) -> Mask:
        """Rows that take one more pod now."""
        mask = self.without_spread()
        for constraint in self._spread:
            mask = mask & constraint.allowed()
        return mask

    def take(self, row: int) -> None:
        """One pod goes to this row."""
        self.grid.put(self.shape, row)
        self.room[row] -= 1
        for name, amount in self.shape.requests_at(self.grid.devices.stocks.get(row)).items():
            if amount > 0:
                self.room[row] = min(self.room[row], self.grid.free[name][row] // amount)
        if self._tied:
            self.room = self.grid.capacity(self.shape)
        if conflict(self.shape, self.shape):
            self.room[row] = 0
        for ids, counts in self._apart:
            if ids[row] >= 0:
                counts[ids[row]] += 1
        for constraint in self._spread:
            constraint.take(row)
        if self._beside is not None:
            self._beside.take(row)


class SpreadCount:
    """Matching pods per domain of one spread constraint, and which domains count for the minimum."""

    def __init__(
        self, grid: Grid, shape: PodShape, constraint: TopologySpread, discounted: Discounted | None = None
    ) -> None:
        self.constraint = constraint
        self.own = int(constraint.selector.matches(shape.labels))
        self._counts = constraint.counts(shape.labels)
        matching = [
            digest
            for digest, other in grid.shapes.items()
            if other.namespace == shape.namespace and constraint.counts(other.labels)
        ]
        counting = np.zeros(len(grid.views), dtype=np.bool_)
        counting[grid.order()] = True
        if constraint.honor_affinity:
            counting &= grid.affine(shape)
        if constraint.honor_taints:
            counting &= grid.tolerated(shape, cordons=False)
        for other_constraint in shape.spread:  # a node without all the keys is in no domain
            counting &= grid.column(other_constraint.key)[0] >= 0
        if discounted is not None:
            counting &= ~discounted.gone
            if constraint.honor_taints and untolerated(shape, (Taint(TO_BE_DELETED),)) is not None:
                counting[discounted.ghost] = False
        self.counting = counting
        self.values = grid.column(constraint.key)[1]
        self.ids, self.counts = _domain_counts(grid, constraint.key, matching, counting)
        for digest in matching if grid.leaving else ():
            for row, pods in grid.leaving.get(digest, {}).items():
                if counting[row]:
                    self.counts[self.ids[row]] -= pods
        self.counts[-1] = 0
        self.domains = np.unique(self.ids[counting])

    def allowed(self) -> Mask:
        lowest = int(self.counts[self.domains].min()) if len(self.domains) else 0
        if len(self.domains) < self.constraint.min_domains:
            lowest = 0
        fine = self.counts + self.own - lowest <= self.constraint.max_skew
        mask: Mask = (self.ids >= 0) & fine[self.ids]
        return mask

    def pods(self) -> dict[str, int]:
        """Matching pods per domain, of those that count for the minimum."""
        return {self.values[domain]: int(self.counts[domain]) for domain in self.domains.tolist()}

    def take(self, row: int) -> None:
        if self._counts and self.counting[row]:
            self.counts[self.ids[row]] += 1


class _Beside:
    """Required affinity: the domains that hold a pod which matches all the terms."""

    def __init__(self, grid: Grid, shape: PodShape) -> None:
        matching = [
            digest
            for digest, other in grid.shapes.items()
            if grid.where.get(digest) and all(term.selects(other) for term in shape.affinity)
        ]
        keys = [term.key for term in shape.affinity]
        self.found = [_domain_counts(grid, key, matching) for key in keys]
        self.own = all(term.selects(shape) for term in shape.affinity)
        self.any = any(int(counts.sum()) for _, counts in self.found)

    def allowed(self) -> Mask:
        mask = np.ones(len(self.found[0][0]), dtype=np.bool_)
        first = self.own and not self.any  # the first of a set that wants to be together goes anywhere
        for ids, counts in self.found:
            mask &= (ids >= 0) & (np.bool_(first) | (counts[ids] > 0))
        return mask

    def take(self, row: int) -> None:
        if self.own:
            self.any = True
            for ids, counts in self.found:
                if ids[row] >= 0:
                    counts[ids[row]] += 1


def _domain_counts(
    grid: Grid, key: str, digests: Iterable[str], counting: Mask | None = None
) -> tuple[Ints, Ints]:
    """Per row its domain of a key (-1: none), and per domain the number of pods of these shapes."""
    ids, values = grid.column(key)
    counts = np.zeros(len(values) + 1, dtype=np.int64)
    for digest in digests:
        for row, pods in grid.where.get(digest, {}).items():
            if counting is None or counting[row]:
                counts[ids[row]] += pods
    counts[-1] = 0
    return ids, counts


def place_one_by_one(grid: Grid, shape: PodShape, count: int) -> int:
    """Place up to `count` pods in the grid's round robin; the number placed."""
    walk = Walk(grid, shape)
    order = grid.order()
    placed = 0
    while placed < count:
        good = walk.allowed()[order]
        row = next_row(grid, order, good)
        if row is None:
            break
        walk.take(row)
        placed += 1
    return placed


def next_row(grid: Grid, order: Ints, good: Mask) -> int | None:
    """The first good row from the pointer on, in `order`; moves the pointer behind it."""
    ranks = np.flatnonzero(good)
    if not len(ranks):
        return None
    start = grid.pointer % len(order)
    at = int(np.searchsorted(ranks, start))
    rank = int(ranks[at] if at < len(ranks) else ranks[0])
    grid.pointer = (rank + 1) % len(order)
    return int(order[rank])
