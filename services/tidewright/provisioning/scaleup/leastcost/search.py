"""The first plan, and the better one.

The first plan takes, again and again, the pattern that is worth most for its price, by what pods are worth where the bound was found; another
one values them anew now and then, and the cheaper counts. The better one is found by column generation: a programme says how often which of the patterns known are used and what pods are worth
by that; patterns worth more than their nodes cost by it come in, until none is found; where much is still lacking to the bound, pods of nodes are swapped in search of more. What comes out in whole nodes is kept, what
is most of a node too, and the rest is solved again. Where that gives few nodes, parts of them are planned anew in the same way. Work is bounded by
steps, in proportion to their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from tidewright.provisioning.pack.nodes import Ints
from tidewright.provisioning.scaleup.leastcost.bound import Bound, Floats, added, bound_of, under_limits
from tidewright.provisioning.scaleup.leastcost.master import Master
from tidewright.provisioning.scaleup.leastcost.patterns import (
    DEAREST,
    FINE,
    WAYS,
    Pool,
    added_up,
    begun,
    enlarged,
    exchanged,
    fill,
    swapped,
    whole,
)
from tidewright.provisioning.scaleup.leastcost.problem import Problem

WORK = 70_000_000
"""Numbers that the steps of one search may touch; a step touches the square of the number of classes and limits."""
FEWEST, MOST_PIVOTS = 300, 3500
FILLS, FILLS_OF_REST = 600, 8
"""How often nodes of all groups are filled in search of patterns, at first and for each rest."""
BEGUN = 6
"""Groups, those nearest to being worth their price, of which nodes are begun with each class."""
PARTS = (1.0, 0.0, 0.5, 0.25)
"""With so much of what a node holds of the class, one after the other."""
BEGINNINGS = tuple((part, way) for way in (*WAYS[::2], DEAREST) for part in PARTS)
SWAPS, SWAPPED = 12, 100
"""How often each pod of a node is swapped for each other one, and up to how many classes."""
DEEP, AS_ONE = 400, 20_000
"""Fills where those found nothing more; for so many numbers each counts once more."""
RESTS = 12
AT_ONCE = 8
"""Groups of which the first plan looks for the best pattern at a time."""
PORTION, STEPS_ANEW = 0.1, 20
"""Another first plan values pods anew after each such part, by so many steps: what goes on well together would else be used up."""
ENOUGH, NEARLY = 1.001, 1.02
"""A plan that costs so little more than the bound is not improved, or not any deeper."""
SEVERAL, FEW = 8, 60
"""A plan of so many nodes is planned again in part: where there are few, each that is not full tells."""
TURNS, FILLS_ANEW, STEPS_OF_PART = 6, 40, 600
STRETCH = 120
"""Steps before new patterns are looked for."""
STEADY, INERTIA = 0.85, 0.8
PROMISING = 0.9
WORTH_IT = 1.0001
"""What a pattern is to be worth for its price, to come in."""
_MOSTLY = 0.6
_UNBOUNDED = 2**40


class FilledNodes(NamedTuple):
    """So many nodes of a group that hold so many pods of each class."""

    group: int
    held: tuple[int, ...]
    nodes: int


class SearchResult(NamedTuple):
    """Attributes:
    nodes: the plan.
    price: of its nodes; `first` that of the first plan.
    bound: no plan that places all the pods costs less.
    steps: what the improvement took.
    """

    nodes: tuple[FilledNodes, ...]
    price: int
    first: int
    bound: Bound
    steps: int


class _Draft:
    """A plan that is being made: nodes so far, the pods that they leave, and what limits leave."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.nodes: list[tuple[int, Floats, int]] = []
        self.counts = problem.counts.astype(np.float64)
        self.lefts = [limit.left for limit in problem.limits]

    @property
    def rest(self) -> Ints:
        return self.counts.astype(np.int64)

    @property
    def left(self) -> Floats:
        return np.array(self.lefts, dtype=np.float64)

    def price(self) -> int:
        return sum(int(self.problem.price[group]) * nodes for group, _, nodes in self.nodes)

    def unplaced(self) -> int:
        return int(self.rest.sum())

    def allowed(self, group: int) -> int:
        """Nodes of a group that the limits still allow."""
        each = zip(self.problem.limits, self.lefts, strict=True)
        return min(
            (max(0, left) // limit.per_node[group] for limit, left in each if limit.per_node[group]),
            default=_UNBOUNDED,
        )

    def add(self, group: int, held: Floats, nodes: int) -> int:
        """Nodes of a pattern, as many as limits allow, with no more pods than are left; how many."""
        added = 0
        while nodes > 0:
            held = np.minimum(held, self.counts)
            some = held > 0
            if not some.any():
                break
            full = int((self.counts[some] // held[some]).min())
            given = min(nodes, full, self.allowed(group))
            if given <= 0:
                break
            self.nodes.append((group, held, given))
            self.counts = self.counts - held * given
            self.lefts = [
                left - limit.per_node[group] * given
                for limit, left in zip(self.problem.limits, self.lefts, strict=True)
            ]
            nodes -= given
            added += given
        return added

    def greedily(self, worth: Floats, portion: float = 1.0) -> None:
        """Again and again the pattern that is worth most for its price.

        `portion`: after each such part of what all pods are worth, those that are left are valued anew.
        """
        price = self.problem.price
        worths = whole(worth)
        part = portion * _worth(self.counts, worth)
        taken = 0.0
        # With fewer pods left a group's best pattern is hardly worth more than it was: the best ones of before are looked at first.
        last = np.full(len(price), np.inf)
        while self.counts.any():
            groups = np.argsort(-last, kind="stable")[: AT_ONCE if np.isfinite(last).all() else None]
            held = fill(self.problem, worths, self.rest, groups)
            open_to = np.array([self.allowed(g) > 0 for g in groups.tolist()], dtype=np.bool_)
            last[groups] = np.where(open_to, added_up(held, worths) / price[groups], 0.0)
            best = int(last.argmax())
            if last[best] <= 0.0:
                return
            if best not in groups:
                continue
            filled = held[groups.tolist().index(best)]
            pattern = enlarged(self.problem, worths, self.rest, best, filled)
            each = _worth(pattern, worth)
            some = pattern > 0
            nodes = int((self.counts[some] // pattern[some]).min())
            if portion < 1.0:
                nodes = min(nodes, max(1, int((part - taken) / each)))
            taken += each * self.add(best, pattern, nodes)
            if portion < 1.0 and taken >= part and self.counts.any():
                worth = bound_of(self.problem._replace(counts=self.rest), STEPS_ANEW).worth
                worths, taken = whole(worth), 0.0
                last = np.full(len(price), np.inf)


def _worth(pods: Floats, worth: Floats) -> float:
    """What so many pods of each class are worth."""
    return float(added(pods * worth))


def search(problem: Problem, beside: int = 0) -> SearchResult:
    """The plan of least cost that a bounded search finds; it places as many pods as it can.

    `beside` is what the nodes cost that are planned already: what cannot make the whole noticeably cheaper is not improved.
    """
    bound = bound_of(problem)
    worth = bound.worth
    drafts = [_Draft(problem), _Draft(problem)]
    for draft, portion in zip(drafts, (1.0, PORTION), strict=True):
        draft.greedily(worth, portion)
    first = best = min(drafts, key=_cost)
    steps = 0
    enough = ENOUGH * bound.price + (ENOUGH - 1.0) * beside
    if first.unplaced() or first.price() > enough:
        better = _Better(problem, bound, drafts)
        best = min((first, better.draft), key=_cost)
        nearly = NEARLY * bound.price + (NEARLY - 1.0) * beside
        if (limit_prices := better.master.limit_prices).any():
            bound = max(bound, under_limits(problem, limit_prices), key=lambda each: each.price)
        elif _exact(problem) and best.price() > nearly and (deeper := better.deeper()):
            best = min((best, deeper), key=_cost)
        steps = better.steps
        if best.price() > enough and SEVERAL <= sum(nodes for _, _, nodes in best.nodes) <= FEW:
            best = _anew(problem, best, worth)
    return SearchResult(
        nodes=tuple(
            FilledNodes(group, tuple(int(n) for n in held.tolist()), nodes)
            for group, held, nodes in best.nodes
        ),
        price=best.price(),
        first=first.price(),
        bound=bound,
        steps=steps,
    )


def _exact(problem: Problem) -> bool:
    """Whether each class is one shape: else what is had by looking deeper is lost to these."""
    return all(len(each) == 1 for each in problem.members)


def _cost(draft: _Draft) -> tuple[int, int]:
    """What plans are compared by: pods without a place, then the price."""
    return draft.unplaced(), draft.price()


class _Better:
    """A plan by column generation, begun with the patterns of others.

    Attributes:
        draft: the plan.
        master: the programme for all pods.
        steps: in all.
    """

    def __init__(self, problem: Problem, bound: Bound, first: Sequence[_Draft]) -> None:
        size = len(problem.counts) + len(problem.limits)
        self._problem = problem
        self._pivots = max(FEWEST, min(MOST_PIVOTS, WORK // size**2))
        pool = Pool(len(problem.counts))
        for group, held, _ in [nodes for each in first for nodes in each.nodes]:
            pool.add(group, held)
        self.draft = _Draft(problem)
        self.master, self._hunt = _generated(problem, self.draft, pool, bound.worth, (self._pivots, FILLS))
        self.steps = _completed(problem, self.draft, self.master, self._pivots)

    def deeper(self) -> _Draft | None:
        """Another plan, where patterns are found that filling nodes did not find; None where that changes little."""
        hunt, master = self._hunt, self.master
        before, steps = master.price(), master.pivots
        if not hunt.ended:
            return None
        while hunt.deep < DEEP and master.pivots < self._pivots and hunt.deeper(master):
            master.solve(min(self._pivots, master.pivots + STRETCH))
        draft: _Draft | None = None
        if ENOUGH * master.price() < before:
            draft = _Draft(self._problem)
            _completed(self._problem, draft, master, self._pivots)
        self.steps += master.pivots - steps
        return draft


def _completed(problem: Problem, draft: _Draft, master: Master, pivots: int) -> int:
    """The rest of a draft, from what a programme for it says, in whole nodes; steps in all."""
    steps = master.pivots
    for _ in range(RESTS):
        if not _taken(draft, master) or not draft.counts.any():
            break
        worth = master.worth
        pool = _of_rest(problem, draft, master.pool, worth)
        rest = _Draft(problem)
        rest.counts, rest.lefts = draft.counts, list(draft.lefts)
        rest.greedily(worth)
        for group, held, _ in rest.nodes:
            pool.add(group, held)
        left = max(FEWEST, min(pivots // 4, 3 * pivots // 2 - steps))
        master, _ = _generated(problem, draft, pool, worth, (left, FILLS_OF_REST))
        steps += master.pivots
    draft.greedily(master.worth)
    return steps


def _anew(problem: Problem, best: _Draft, worth: Floats) -> _Draft:
    """A plan of few nodes, of which a part is planned again in turns: the third, half or two thirds whose pods are worth least for their price, then every second."""
    worths = whole(worth)
    for turn in range(TURNS):
        each = [(group, held) for group, held, nodes in best.nodes for _ in range(nodes)]
        values = added_up(np.array([held for _, held in each]), worths).tolist()
        parts = [value / int(problem.price[group]) for value, (group, _) in zip(values, each, strict=True)]
        worst = sorted(range(len(each)), key=parts.__getitem__)
        gone = set(worst[: len(each) * (turn + 2) // 6] if turn < 3 else worst[turn % 2 :: 2])
        draft, pool = _Draft(problem), Pool(len(problem.counts))
        for number, (group, held) in enumerate(each):
            if number in gone:
                pool.add(group, held)
            else:
                draft.add(group, held, 1)
        master, _ = _generated(problem, draft, pool, worth, (STEPS_OF_PART, FILLS_ANEW))
        _completed(problem, draft, master, STEPS_OF_PART)
        best = min((best, draft), key=_cost)
    return best


def _generated(
    problem: Problem, draft: _Draft, pool: Pool, worth: Floats, most: tuple[int, int]
) -> tuple[Master, _Hunt]:
    """The programme for what a draft leaves, with the patterns that it lacks; at most so many steps and fills."""
    pivots, fills = most
    counts = draft.rest
    _alone(problem, counts, pool)
    master = Master(problem, counts, draft.left, pool)
    for pattern in range(len(pool)):
        master.offer(pattern)
    master.solve(min(pivots, master.pivots + STRETCH))
    hunt = _Hunt(problem, counts, worth)
    while hunt.fills < fills and master.pivots < pivots and hunt.better(master):
        master.solve(min(pivots, master.pivots + STRETCH))
    return master, hunt


class _Hunt:
    """The search for patterns that are worth more than they cost.

    Attributes:
        fills: how often nodes were filled.
        ended: filling found none any more.
        deep: how much was looked for deeper since then.
    """

    def __init__(self, problem: Problem, counts: Ints, worth: Floats) -> None:
        self.problem = problem
        self.counts = counts
        self.fills = 0
        self.deep = 0
        self.ended = False
        self._steady = worth
        self._turn = 0
        self._rank = 0
        self._beginning = 0
        self._last = np.full(len(problem.price), np.inf)

    def better(self, master: Master) -> bool:
        """Add patterns that make the plan of a programme cheaper; whether there were any."""
        now = master.worth
        # What pods are worth jumps from step to step; seen with what they were worth before, it leads to better patterns.
        mixed = STEADY * self._steady + (1.0 - STEADY) * now
        added = self._filled(master, mixed, PROMISING) or self._filled(master, now, PROMISING)
        added += self._changed(master, now)
        self._steady = INERTIA * self._steady + (1.0 - INERTIA) * now
        self.ended = not (added > 0 or self._filled(master, now, 0.0) > 0 or self._begun(master, now) > 0)
        return not self.ended

    def deeper(self, master: Master) -> bool:
        """Fill nodes of all groups that begin with one class each, in more ways, and swap pods of the best of them, until that adds some; whether it did."""
        if self._filled(master, master.worth, 0.0):
            return True
        worths = whole(master.worth)
        order = np.argsort(-self._last, kind="stable")
        best = fill(self.problem, worths, self.counts, np.arange(len(order)))
        parts = [order[at : at + BEGUN] for at in range(0, len(order), BEGUN)]
        for groups, _ in product(parts, BEGINNINGS):
            part, way = BEGINNINGS[self._beginning % len(BEGINNINGS)]
            self._beginning += 1
            rows, held = begun(self.problem, worths, self.counts, groups=groups, part=part, way=way)
            if (added := self._kept_deep(master, rows, held)) or self.deep >= DEEP:
                return added
            _improved(best, rows, held, worths)
        for turn in range(SWAPS if len(self.counts) <= SWAPPED else 0):
            better = False
            for groups in parts:
                way = (WAYS[0], DEAREST)[turn % 2]
                rows, held = swapped(
                    self.problem, worths, self.counts, groups=groups, held=best[groups], way=way
                )
                if (added := self._kept_deep(master, groups[rows], held)) or self.deep >= DEEP:
                    return added
                better |= _improved(best, groups[rows], held, worths)
            if not better:
                break
        return False

    def _kept_deep(self, master: Master, groups: Ints, held: Floats) -> bool:
        """Take in what is worth more than it costs; whether there was any."""
        self.deep += 1 + held.size // AS_ONE
        return self._kept(master, groups, held) > 0

    def _filled(self, master: Master, worth: Floats, promising: float) -> int:
        """Fill nodes in one way after the other until that adds some: of groups that were nearly good enough, now and then of all."""
        for _ in range(len(WAYS)):
            every = self._turn % len(WAYS) == 0
            groups = np.flatnonzero(self._last >= (0.0 if every else promising))
            held = fill(self.problem, whole(worth), self.counts, groups, WAYS[self._turn % len(WAYS)])
            self._turn += 1
            self._last[groups] = added_up(held, whole(master.worth)) / master.costs()[groups]
            if added := self._kept(master, groups, held):
                return added
        return 0

    def _begun(self, master: Master, worth: Floats) -> int:
        """Fill nodes that begin with one class each, until that adds some."""
        groups = np.argsort(-self._last, kind="stable")[:BEGUN]
        for _ in range(2 * len(PARTS)):
            part = PARTS[self._beginning % len(PARTS)]
            way = WAYS[0 if self._beginning % (2 * len(PARTS)) < len(PARTS) else 2]
            self._beginning += 1
            rows, held = begun(self.problem, whole(worth), self.counts, groups=groups, part=part, way=way)
            if added := self._kept(master, rows, held):
                return added
        return 0

    def _changed(self, master: Master, worth: Floats) -> int:
        """Change the patterns in use in one class, until that adds some."""
        used = np.array([pattern for _, pattern in master.chosen()], dtype=np.int64)
        groups = master.pool.group[used]
        held = np.minimum(master.pool.held[used], self.counts[None])
        for _ in range(len(WAYS)):
            rank = self._rank % len(WAYS)
            changed = exchanged(self.problem, whole(worth), self.counts, groups=groups, held=held, rank=rank)
            self._rank += 1
            if added := self._kept(master, groups, changed):
                return added
        return 0

    def _kept(self, master: Master, groups: Ints, held: Floats) -> int:
        """Take in what is worth more than it costs; how many new patterns."""
        self.fills += 1
        ratio = added_up(held, whole(master.worth)) / master.costs()[groups]
        better = np.flatnonzero(ratio > WORTH_IT).tolist()
        return sum(master.pool.add(int(groups[row]), held[row]) for row in better)


def _improved(best: Floats, rows: Ints, held: Floats, worths: Floats) -> bool:
    """Keep the best of each row in place of what was there; whether any was better."""
    values = added_up(held, worths)
    order = np.lexsort((-values, rows))
    first = order[np.unique(rows[order], return_index=True)[1]]
    better = first[values[first] > added_up(best[rows[first]], worths)]
    best[rows[better]] = held[better]
    return len(better) > 0


def _alone(problem: Problem, counts: Ints, pool: Pool) -> None:
    """Per class a pattern of it alone, in the group where that is cheapest: every pod has a place in the programme."""
    each = np.minimum(problem.most, counts[None])
    unit = np.where(each > 0, problem.price[:, None] / np.maximum(each, 1), np.inf)
    for number in np.flatnonzero(counts).tolist():
        group = int(unit[:, number].argmin())
        held = np.zeros(len(counts))
        held[number] = each[group, number]
        pool.add(group, held)


def _taken(draft: _Draft, master: Master) -> bool:
    """What the programme uses in whole nodes goes into the draft, and where most of a node; whether any did."""
    chosen = sorted(
        ((value - int(value + 1e-6), int(value + 1e-6), pattern) for value, pattern in master.chosen()),
        key=lambda each: (-each[0], each[2]),
    )
    pool, added = master.pool, 0
    for _, nodes, pattern in chosen:
        if nodes:
            added += draft.add(int(pool.group[pattern]), pool.held[pattern], nodes)
    worths, costs = whole(master.worth), master.costs()
    for part, _, pattern in chosen:
        if part < (_MOSTLY if added else 1e-6):
            continue
        group = int(pool.group[pattern])
        held = np.minimum(pool.held[pattern], draft.counts)
        if not added or added_up(held[None], worths)[0] >= 0.95 * costs[group]:
            added += draft.add(group, held, 1)
    return added > 0


def _of_rest(problem: Problem, draft: _Draft, pool: Pool, worth: Floats) -> Pool:
    """Of the patterns known those that are still worth it, cut to the pods that are left."""
    rest = Pool(len(problem.counts))
    worths = whole(worth)
    cut = np.minimum(pool.held, draft.counts[None])
    good = added_up(cut, worths) >= 0.8 * FINE * problem.price[pool.group]
    for pattern in np.flatnonzero(good).tolist():
        rest.add(int(pool.group[pattern]), cut[pattern])
    return rest
