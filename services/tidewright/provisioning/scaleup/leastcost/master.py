"""Which patterns, and how often, in fractions: a covering linear programme over the patterns found so far.

    minimise    the price of all nodes, and a penalty for each pod without a place
    so that     every pod is on a node or without a place; no limit is broken

Revised simplex with the inverse of the basis. Every operation on fractions is element by element, in a fixed order, so that each
machine takes the same steps; what is compared to choose a pattern are sums of whole numbers, which floats hold exactly.
"""

from __future__ import annotations

import numpy as np

from tidewright.provisioning.pack.nodes import Ints
from tidewright.provisioning.scaleup.leastcost.bound import Floats
from tidewright.provisioning.scaleup.leastcost.patterns import FINE, Pool, added_up, whole
from tidewright.provisioning.scaleup.leastcost.problem import Problem

AT_A_TIME = 24
"""Patterns that enter before all are compared again."""
GAIN = 1e-4
"""By what part of its price a pattern is to be worth more than it costs."""
PENALTY = 10.0
"""What a pod without a place costs, in nodes of the dearest group."""
_ZERO = 1e-9
_NO_PATTERN = -1


class Master:
    """The programme, solved over more and more patterns.

    Attributes:
        pool: the patterns.
        pivots: steps taken.
    """

    def __init__(self, problem: Problem, counts: Ints, lefts: Floats, pool: Pool) -> None:
        self.problem = problem
        self.pool = pool
        self.pivots = 0
        self._classes = len(counts)
        size = self._classes + len(lefts)
        dearest = float(problem.price.max(initial=1))
        self._per_node = [np.array(limit.per_node, dtype=np.float64) for limit in problem.limits]
        self._of_limits = [
            [(self._classes + n, float(each[g])) for n, each in enumerate(self._per_node) if each[g]]
            for g in range(len(problem.price))
        ]
        self._inverse = np.eye(size)  # transposed: what is read and written lies together
        self._product = np.empty((size, size))
        self._value = np.concatenate([counts.astype(np.float64), lefts])
        self._dual = np.concatenate([np.full(self._classes, PENALTY * dearest), np.zeros(len(lefts))])
        self._basis = [_NO_PATTERN] * size

    @property
    def worth(self) -> Floats:
        """Of one pod of each class, as the programme stands."""
        worth: Floats = np.maximum(self._dual[: self._classes], 0.0)
        return worth

    @property
    def limit_prices(self) -> Floats:
        """What one more of what each limit leaves would save."""
        prices: Floats = np.maximum(-self._dual[self._classes :], 0.0)
        return prices

    def costs(self) -> Floats:
        """Of one node of each group with what it takes of limits, in the unit of `whole`."""
        costs: Floats = self.problem.price.astype(np.float64) * FINE
        for limit, per_node in enumerate(self._per_node):
            costs = costs - np.rint(np.minimum(self._dual[self._classes + limit], 0.0) * FINE) * per_node
        least: Floats = np.maximum(costs, 1.0)
        return least

    def chosen(self) -> list[tuple[float, int]]:
        """How many nodes of which pattern."""
        return [
            (float(value), pattern)
            for value, pattern in zip(self._value.tolist(), self._basis, strict=True)
            if pattern != _NO_PATTERN and value > _ZERO
        ]

    def price(self) -> float:
        """Of what is chosen."""
        return sum(
            value * float(self.problem.price[self.pool.group[pattern]]) for value, pattern in self.chosen()
        )

    def offer(self, pattern: int) -> bool:
        """Take a pattern in, if that makes the plan cheaper."""
        group, held = int(self.pool.group[pattern]), self.pool.held[pattern]
        price = float(self.problem.price[group])
        rows = np.flatnonzero(held)
        terms = [*zip(rows.tolist(), held[rows].tolist(), strict=True), *self._of_limits[group]]
        gain = -price
        for row, amount in terms:
            gain += float(self._dual[row]) * amount
        if gain <= GAIN / 2.0 * price:
            return False
        direction = np.zeros(len(self._value))
        for row, amount in terms:
            direction += self._inverse[row] * amount
        return self._enter(pattern, direction, gain)

    def solve(self, pivots: int) -> None:
        """The cheapest over the patterns there are, with at most so many steps in all."""
        self._mend()
        while self.pivots < pivots and len(self.pool):
            ratio = added_up(self.pool.held, whole(self.worth)) / self.costs()[self.pool.group]
            order = np.argsort(-ratio, kind="stable")[:AT_A_TIME]
            better = [pattern for pattern in order.tolist() if ratio[pattern] > 1.0 + GAIN]
            if not sum(self.offer(pattern) for pattern in better):
                return
            self._mend()

    def _mend(self) -> None:
        """Where fewer pods than patterns have room for, or less than a limit allows, makes it cheaper: so be it."""
        for _ in range(64):
            row = int(self._dual[: self._classes].argmin())
            if self._dual[row] >= -1e-6 or not self._enter(
                _NO_PATTERN, -self._inverse[row], -float(self._dual[row])
            ):
                break
        for _ in range(64 if self._per_node else 0):
            row = self._classes + int(self._dual[self._classes :].argmax())
            if self._dual[row] <= 1e-6 or not self._enter(
                _NO_PATTERN, self._inverse[row].copy(), float(self._dual[row])
            ):
                break

    def _enter(self, pattern: int, direction: Floats, gain: float) -> bool:
        """One step of the simplex."""
        down = direction > _ZERO
        if not down.any():
            return False
        ratio = np.where(down, self._value / np.where(down, direction, 1.0), np.inf)
        leaving = int(ratio.argmin())
        step = float(ratio[leaving])
        self._value = np.maximum(self._value - step * direction, 0.0)
        self._value[leaving] = step
        row = self._inverse[:, leaving] / float(direction[leaving])
        self._dual = self._dual - gain * row
        direction[leaving] = 0.0
        np.multiply(row[:, None], direction[None], out=self._product)
        self._inverse -= self._product
        self._inverse[:, leaving] = row
        self._basis[leaving] = pattern
        self.pivots += 1
        return True
