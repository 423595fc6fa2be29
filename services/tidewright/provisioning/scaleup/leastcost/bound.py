"""What no plan of these pods can cost less than, and what each pod is worth by it.

The relaxation lets nodes and pods be split. Its dual gives each resource of each group a price, so that all that a node has is
worth what the node costs; a pod is worth what it asks for where that is cheapest. Whatever those prices are, no plan costs less
than its pods are worth together: the search for the highest such sum, by steps towards what is used most, may stop anywhere.
Limits are left aside: with them plans only cost more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidewright.provisioning.pack.nodes import Ints
from tidewright.provisioning.scaleup.leastcost.problem import Problem

Floats: TypeAlias = NDArray[np.float64]

STEPS, FIRST_STEPS, STEPS_EACH = 150, 20, 10
"""At most, and with few classes: so many, and so many for each."""
_NOTHING = 1e-30


class Bound(NamedTuple):
    """Attributes:
    price: no plan that places all pods costs less.
    worth: of one pod of each class, in the unit of prices.
    weights: by which that was found: per resource what part of each group's price it bears.
    dearer: prices of nodes, with what they take of limits; None where they are those of the problem.
    rebate: what all that limits leave comes to at those.
    """

    price: int
    worth: Floats
    weights: tuple[Floats, ...] = ()
    dearer: Ints | None = None
    rebate: int = 0

    def worths_of(self, problem: Problem) -> Floats:
        """What a pod of other classes of the same pods is worth, by the same weights and prices."""
        priced = problem if self.dearer is None else problem._replace(price=self.dearer)
        worths: Floats = _costs(priced, _shares(priced), self.weights).min(axis=0)
        return worths

    def of(self, problem: Problem) -> int:
        """What the same weights and prices give for other classes of the same pods."""
        return _least(problem, float(added(problem.counts * self.worths_of(problem))) - self.rebate)


def bound_of(problem: Problem, steps: int = STEPS) -> Bound:
    """The highest bound that so many steps find. Every class has a group that holds it."""
    groups, classes = problem.most.shape
    able = problem.most > 0
    counts = problem.counts.astype(np.float64)
    shares = _shares(problem)
    weights = _even([np.where(problem.capacity[:, r] > 0, 1.0, 0.0) for r in range(len(shares))])
    best, worth, found = -1.0, np.zeros(classes), tuple(weights)
    for step in range(min(steps, FIRST_STEPS + STEPS_EACH * classes)):
        cost = _costs(problem, shares, weights)
        cheapest = cost.min(axis=0)
        total = float(added(counts * cheapest))
        if total > best:
            best, worth, found = total, cheapest, tuple(weights)
        # What goes where, smoothed: to all groups that are nearly the cheapest, ever more sharply.
        near = 0.3 / (1.0 + step / 10.0)
        closeness = np.where(
            able, np.maximum(0.0, 1.0 + near - cost / np.maximum(cheapest, _NOTHING)[None]), 0.0
        )
        closeness *= closeness
        going = counts[None] * closeness / np.maximum(added(closeness), _NOTHING)[None]
        loads = [added((going * share).T) for share in shares]
        highest = np.maximum.reduce(loads)
        pulls = [load / np.maximum(highest, _NOTHING) for load in loads]
        mean = np.zeros(groups)
        for weight, pull in zip(weights, pulls, strict=True):
            mean += weight * pull
        pace = 1.0 / (1.0 + step / 15.0)
        weights = _even(
            [
                np.where(weight > 0, np.maximum(weight * (1.0 + pace * (pull - mean)), 1e-6), 0.0)
                for weight, pull in zip(weights, pulls, strict=True)
            ]
        )
    return Bound(_least(problem, best), worth, found)


def under_limits(problem: Problem, prices: Floats) -> Bound:
    """The bound where each limit has a price that nodes pay for what they take of it, and plans get back for all that it leaves.

    Whatever those prices are, no plan that keeps the limits costs less. They are in the unit of prices, one for each limit.
    """
    dearer = problem.price.astype(np.float64)
    back = 0.0
    for limit, price in zip(problem.limits, prices.tolist(), strict=True):
        dearer = dearer + price * np.array(limit.per_node, dtype=np.float64)
        back += price * limit.left
    whole, rebate = dearer.astype(np.int64), int(back) + 1
    found = bound_of(problem._replace(price=whole))
    return found._replace(price=max(0, found.price - rebate), dearer=whole, rebate=rebate)


def _shares(problem: Problem) -> list[Floats]:
    """Per resource what part of a node of each group a pod of each class takes."""
    capacity = problem.capacity.astype(np.float64)
    return [
        np.where(problem.most > 0, problem.requests[None, :, r] / np.maximum(capacity[:, r, None], 1.0), 0.0)
        for r in range(problem.requests.shape[1])
    ]


def _costs(problem: Problem, shares: Sequence[Floats], weights: Sequence[Floats]) -> Floats:
    """Per group and class what a pod costs there."""
    cost = np.zeros(problem.most.shape)
    for weight, share in zip(weights, shares, strict=True):
        cost += weight[:, None] * share
    costs: Floats = np.where(problem.most > 0, cost * problem.price.astype(np.float64)[:, None], np.inf)
    return costs


def _least(problem: Problem, total: float) -> int:
    """A little less than was computed, so that no rounding makes it too much; and never less than the dearest single pod needs."""
    alone = np.where(problem.most > 0, problem.price[:, None], np.iinfo(np.int64).max).min(axis=0)
    return max(int(total * (1.0 - 1e-9)), int(alone.max(initial=0, where=problem.counts > 0)))


def _even(weights: list[Floats]) -> list[Floats]:
    """Weights of resources per group that add up to 1."""
    total = np.zeros_like(weights[0])
    for weight in weights:
        total += weight
    return [weight / np.maximum(total, _NOTHING) for weight in weights]


def added(values: Floats) -> Floats:
    """The sum over the first axis, term after term: another order of terms may round otherwise."""
    total: Floats = np.cumsum(values, axis=0)[-1]
    return total
