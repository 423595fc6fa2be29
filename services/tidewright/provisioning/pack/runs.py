"""New nodes of one template as runs of equal nodes: filling them is arithmetic on the runs.

A run is (how many nodes, what is free on each, what each holds). Placing pods of one shape splits at
most two runs, so 50,000 pods on 2,500 nodes are a handful of integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tidewright.kube.devices.claims import Claimed
from tidewright.kube.devices.stock import Stock, among

Held: TypeAlias = dict[int, int]
"""Index of an item to the number of its pods on each node of a run."""


class Run:
    """So many nodes in the same state, neighbours in the order in which they were made."""

    __slots__ = ("free", "held", "nodes", "stock")

    def __init__(self, nodes: int, free: list[int], held: Held, stock: Stock | None) -> None:
        self.nodes = nodes
        self.free = free
        self.held = held
        self.stock = stock

    def part(self, nodes: int) -> Run:
        """So many of its nodes."""
        return Run(nodes, list(self.free), dict(self.held), self.stock)


class Needs:
    """What one item asks for, in the form in which runs compute.

    Attributes:
        amounts: (index of the resource, amount per pod), amounts above 0.
        alone: at most one pod of it per node.
        enemies: items that it cannot share a node with.
    """

    __slots__ = ("alone", "amounts", "enemies", "index")

    def __init__(
        self, index: int, amounts: Sequence[tuple[int, int]], alone: bool, enemies: frozenset[int]
    ) -> None:
        self.index = index
        self.amounts = tuple(amounts)
        self.alone = alone
        self.enemies = enemies

    def room(self, free: Sequence[int], held: Mapping[int, int], stock: Stock | None = None) -> int:
        """How many pods of it a node in this state takes; `stock` are its devices."""
        if self.enemies and any(other in self.enemies for other in held):
            return 0
        room = -1
        for resource, amount in self.amounts:
            here = free[resource] // amount
            if room < 0 or here < room:
                room = here
        room = max(room, 0)
        if self.alone:
            room = 0 if self.index in held else min(room, 1)
        return room


class Claiming(Needs):
    """Needs with claims of devices, that each pod has for itself."""

    __slots__ = ("claims", "own")

    def __init__(
        self,
        index: int,
        amounts: Sequence[tuple[int, int]],
        alone: bool,
        enemies: frozenset[int],
        claims: tuple[Claimed, ...],
    ) -> None:
        super().__init__(index, amounts, alone, enemies)
        self.claims = claims
        self.own = (True,) * len(claims)

    def room(self, free: Sequence[int], held: Mapping[int, int], stock: Stock | None = None) -> int:
        room = super().room(free, held)
        if not room:
            return 0
        served = among(self.claims, self.own) if stock is None else stock.serve(self.claims, self.own)
        return min(room, served.room)


def needs_of(
    index: int,
    amounts: Sequence[tuple[int, int]],
    alone: bool,
    enemies: frozenset[int],
    claims: tuple[Claimed, ...],
) -> Needs:
    """Needs of the kind that an item's claims make them."""
    if claims:
        return Claiming(index, amounts, alone, enemies, claims)
    return Needs(index, amounts, alone, enemies)


class Runs:
    """The nodes that an estimate made so far.

    Attributes:
        runs: in the order in which the nodes were made.
        pointer: position of the node where the next round robin search starts.
    """

    def __init__(self, fresh: Sequence[int], stock: Stock | None = None) -> None:
        self.fresh = list(fresh)
        self.stock = stock
        self.runs: list[Run] = []
        self.total = 0
        self.pointer = 0

    def last_is_empty(self) -> bool:
        return bool(self.runs) and not self.runs[-1].held

    def add(self, needs: Needs, nodes: int, pods: int) -> None:
        """Make `nodes` fresh nodes that hold `pods` of an item each (none: empty nodes)."""
        if nodes <= 0:
            return
        run = Run(nodes, list(self.fresh), {}, self.stock)
        self.runs.append(run)
        self.total += nodes
        if pods:
            _put(run, needs, pods)

    def first_fit(self, needs: Needs, count: int) -> int:
        """Fill the nodes one after the other; the number placed."""
        return self._fill(needs, count, None)

    def _fill(self, needs: Needs, count: int, rooms: list[int] | None) -> int:
        """First fit; `rooms`: how many each run's nodes take, where that is known."""
        remaining = count
        index = 0
        while index < len(self.runs) and remaining > 0:
            run = self.runs[index]
            room = needs.room(run.free, run.held, run.stock) if rooms is None else rooms[index]
            if room:
                full = min(run.nodes, remaining // room)
                if 0 < full < run.nodes:
                    self._split(index, full)
                    if rooms is not None:
                        rooms.insert(index, room)
                    run = self.runs[index]
                if full:
                    _put(run, needs, room)
                    remaining -= room * full
                else:
                    self._split(index, 1)
                    _put(self.runs[index], needs, remaining)
                    remaining = 0
            index += 1
        return count - remaining

    def tightest(self, needs: Needs, count: int) -> int:
        """Fill those nodes first that take the fewest; the number placed."""
        return self._ranked(needs, count, 1)

    def widest(self, needs: Needs, count: int) -> int:
        """Fill those nodes first that take the most; the number placed."""
        return self._ranked(needs, count, -1)

    def _ranked(self, needs: Needs, count: int, sign: int) -> int:
        rooms = [needs.room(run.free, run.held, run.stock) for run in self.runs]
        order = sorted(range(len(rooms)), key=lambda i: sign * rooms[i])
        self.runs = [self.runs[i] for i in order]
        return self._fill(needs, count, [rooms[i] for i in order])

    def round_robin(self, needs: Needs, count: int) -> int:
        """One pod per node and round, beginning at the pointer; the number placed."""
        rooms = [needs.room(run.free, run.held, run.stock) for run in self.runs]
        room = sum(run.nodes * r for run, r in zip(self.runs, rooms, strict=True))
        count = min(count, room)
        if count <= 0:
            return 0
        start = self._boundary(self.pointer % self.total)
        rooms = [needs.room(run.free, run.held, run.stock) for run in self.runs]
        rounds, rest = _whole_rounds(self.runs, rooms, count)
        cycle = [*range(start, len(self.runs)), *range(start)]
        pieces: dict[int, list[tuple[int, int]]] = {}
        last = 0
        position = dict(zip(range(len(self.runs)), _starts(self.runs), strict=True))
        for index in cycle:
            run, most = self.runs[index], rooms[index]
            given = min(most, rounds)
            extra = min(run.nodes, rest) if most > rounds else 0
            rest -= extra
            if extra:
                last = position[index] + extra
            elif rest == 0 and not given:
                continue
            pieces[index] = [(extra, given + 1), (run.nodes - extra, given)]
        if not last:  # no remainder: the last node that took part in the last whole round
            ends = [i for i in cycle if rooms[i] >= rounds]
            last = position[ends[-1]] + self.runs[ends[-1]].nodes
        self.pointer = last % self.total
        runs: list[Run] = []
        for index, run in enumerate(self.runs):
            for nodes, pods in pieces.get(index, [(run.nodes, 0)]):
                if nodes:
                    part = run.part(nodes)
                    if pods:
                        _put(part, needs, pods)
                    runs.append(part)
        self.runs = runs
        return count

    def _split(self, index: int, nodes: int) -> None:
        run = self.runs[index]
        if nodes < run.nodes:
            self.runs[index : index + 1] = [
                run.part(nodes),
                run.part(run.nodes - nodes),
            ]

    def _boundary(self, position: int) -> int:
        """Index of the run that begins at this node, splitting one when need be."""
        seen = 0
        for index, run in enumerate(self.runs):
            if seen == position:
                return index
            if seen + run.nodes > position:
                self._split(index, position - seen)
                return index + 1
            seen += run.nodes
        return 0

    def used(self) -> int:
        """Nodes that hold at least one pod."""
        return sum(run.nodes for run in self.runs if run.held)


def _starts(runs: Sequence[Run]) -> list[int]:
    starts, seen = [], 0
    for run in runs:
        starts.append(seen)
        seen += run.nodes
    return starts


def _put(run: Run, needs: Needs, pods: int) -> None:
    for resource, amount in needs.amounts:
        run.free[resource] -= amount * pods
    run.held[needs.index] = run.held.get(needs.index, 0) + pods
    if run.stock is not None and isinstance(needs, Claiming):
        served = run.stock.serve(needs.claims, needs.own)
        run.stock = run.stock.less((number, pick) for _, number, pick in served.picks(pods))


def _whole_rounds(runs: Sequence[Run], rooms: Sequence[int], count: int) -> tuple[int, int]:
    """How many whole rounds `count` pods make, and what is left for one more."""
    rounds = 0
    for room in sorted({r for r in rooms if r > 0}):
        active = sum(run.nodes for run, r in zip(runs, rooms, strict=True) if r >= room)
        if active * (room - rounds) > count:
            rounds += count // active
            return rounds, count % active
        count -= active * (room - rounds)
        rounds = room
    return rounds, count
