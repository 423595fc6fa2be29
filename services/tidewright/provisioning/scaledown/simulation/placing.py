"""Where pods of nodes that are to go find room: on a fork of the grid, with destinations that close one by one.

What a shape may do by what nodes are is asked of the grid once; what changes with each pod placed (free
amounts) is looked at row by row from where the last search ended, so that a pod costs little however many nodes there are.
Shapes whose terms look at other pods are asked of the grid each time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast

import numpy as np

from tidewright.kube.keys import PodKey
from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import conflict, counted_alone
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.nodes import Ints, Mask
from tidewright.provisioning.pack.topology import Discounted, Walk
from tidewright.provisioning.scaledown.drain.rules import Sorted
from tidewright.provisioning.scaledown.scene import Resident

_PROBED = 4
"""Rows looked at one by one: the first has room as a rule."""
_CHUNK = 128
"""Rows looked at in one go after that."""


class Destinations:
    """A grid to try on, changed in place.

    Attributes:
        grid: the nodes, with the pods that are on them; ours to change.
        open: rows that take pods.
        gone: rows of nodes that were found removable: nothing is there any more.
    """

    def __init__(self, grid: Grid, closed: list[str]) -> None:
        """`closed`: nodes that take no pods, and stay; so do cordoned ones, also of pods that would tolerate it."""
        self.grid = grid
        self.open: Mask = np.zeros(len(grid.views), dtype=np.bool_)
        self.open[grid.order()] = True
        self.open[[row for row, view in enumerate(grid.views) if view is not None and view.unschedulable]] = (
            False
        )
        for name in closed:
            if name in grid.rows:
                self.open[grid.rows[name]] = False
        self.gone: Mask = np.zeros(len(grid.views), dtype=np.bool_)
        self.last = 0
        self._ranked = grid.order()
        self._masks: dict[str, Mask] = {}
        self._alone: dict[str, bool] = {}
        self._asked: list[PodShape] = []
        self._seen: set[str] = set()
        self._noticed: dict[str, bool] = {}
        self._fights: dict[str, bool] = {}
        self._kinship: dict[str, tuple[int, list[tuple[str, bool]]]] = {}

    # --- Changes ---

    def put(self, shape: PodShape, row: int, count: int = 1, *, leaving: bool = False) -> None:
        """Pods sit down on a row, or (a negative count) leave it; `leaving`: they are being deleted."""
        self._sit(shape, row, count, leaving=leaving)
        for digest, on_row_alone in self._kin(shape):
            mask = self._masks.get(digest)
            if mask is not None and on_row_alone and count > 0:
                mask[row] = False
            elif mask is not None:
                del self._masks[digest]

    def lift(self, shape: PodShape, row: int, *, leaving: bool = False) -> None:
        """A pod leaves a node that is closed to all for as long as it is gone: what else may go there stays as it is."""
        self._sit(shape, row, -1, leaving=leaving)
        for digest, on_row_alone in self._kin(shape):
            if not on_row_alone:
                self._masks.pop(digest, None)

    def _sit(self, shape: PodShape, row: int, count: int, *, leaving: bool) -> None:
        """Take amounts, and note who sits there where somebody looks at that."""
        if self.noticed(shape):
            self.grid.put(shape, row, count)
            if leaving:
                self.grid.leave(shape.digest, row, count)
            return
        for name, amount in shape.requests.items():
            if amount:
                self.grid.free[name][row] -= amount * count

    def noticed(self, shape: PodShape) -> bool:
        """Whether it matters to any pod, or to itself, who else of this shape is where."""
        known = self._noticed.get(shape.digest)
        if known is None:
            known = self._noticed[shape.digest] = (
                bool(shape.claims)
                or any(name not in self.grid.free for name in shape.requests)
                or self._may_fight(shape)
                or any(_looks_at(other, shape) for other in self._lookers)
            )
        return known

    @cached_property
    def _lookers(self) -> list[PodShape]:
        """Shapes of pods that want to be where others are, or to be spread among them."""
        return [shape for shape in self.grid.shapes.values() if shape.spread or shape.affinity]

    def leave(self, row: int) -> None:
        """The node of a row is gone, and what is still on it."""
        self.leave_all([row])

    def leave_all(self, rows: list[int]) -> None:
        """As `leave`, of several."""
        if not rows:
            return
        self.open[rows] = False
        self.gone[rows] = True
        self._ranked = self._ranked[~self.gone[self._ranked]]
        for digest in self._watched:
            inner = self.grid.where.get(digest, {})
            for row in rows:
                if row in inner:
                    self.put(self.grid.shapes[digest], row, -inner[row])
                    inner = self.grid.where.get(digest, {})

    def clear(self, row: int) -> list[tuple[PodShape, int, int]]:
        """Have nobody look at pods that stay on a node which is to go; what `restore` puts back: shapes with how many, and how many leave."""
        found: list[tuple[PodShape, int, int]] = []
        for digest in self._watched:
            shape, there = self.grid.shapes[digest], self.grid.where.get(digest, {}).get(row, 0)
            if there and not shape.claims:
                leaving = self.grid.leaving.get(digest, {}).get(row, 0)
                found.append((shape, there, leaving))
                self.put(shape, row, leaving - there)
                self.put(shape, row, -leaving, leaving=True)
        return found

    def restore(self, row: int, cleared: Iterable[tuple[PodShape, int, int]]) -> None:
        """Undo `clear`."""
        for shape, there, leaving in cleared:
            self.put(shape, row, there - leaving)
            self.put(shape, row, leaving, leaving=True)

    @cached_property
    def _watched(self) -> list[str]:
        """Digests of pods that somebody looks at."""
        return [digest for digest, shape in self.grid.shapes.items() if self.noticed(shape)]

    def _kin(self, shape: PodShape) -> list[tuple[str, bool]]:
        """Shapes that have been asked for and that a pod of this one keeps away; with whether from its node alone."""
        upto, kin = self._kinship.get(shape.digest, (0, []))
        if upto < len(self._asked):
            asked = self._asked[upto:] if self._may_fight(shape) else ()
            kin = kin + [
                (other.digest, not _wider(shape, other))
                for other in asked
                if _wider(shape, other) or conflict(shape, other)
            ]
            self._kinship[shape.digest] = (len(self._asked), kin)
        return kin

    @cached_property
    def _fighters(self) -> list[PodShape]:
        """Shapes of pods that may keep others away."""
        return [s for s in self.grid.shapes.values() if s.host_ports or s.anti_affinity or s.volumes]

    def _may_fight(self, shape: PodShape) -> bool:
        """Whether pods of a shape keep others away, or are kept away by others."""
        known = self._fights.get(shape.digest)
        if known is None:
            known = self._fights[shape.digest] = bool(
                shape.host_ports or shape.anti_affinity or shape.volumes
            ) or any(_wider(shape, other) or conflict(shape, other) for other in self._fighters)
        return known

    # --- Questions ---

    def fits(self, shape: PodShape, row: int, avoid: int) -> bool:
        """Whether one more pod may go to this row."""
        if row == avoid or not self.open[row]:
            return False
        if self.counted(shape):
            return bool(self.mask(shape)[row]) and all(
                int(self.grid.free[name][row]) >= amount if name in self.grid.free else False
                for name, amount in shape.requests.items()
                if amount > 0
            )
        return bool(self._allowed(shape, avoid)[row])

    def search(self, shape: PodShape, avoid: int, first: Mask | None = None) -> int | None:
        """The next row with room, from where the last search ended; that of `first` with it before others."""
        order = self._ranked
        if not len(order):
            return None
        start = (self.last + 1) % len(order)
        for within in (self.open & first, self.open & ~first) if first is not None else (self.open,):
            rank = self._next(shape, order, start, within, avoid)
            if rank is not None:
                self.last = rank
                return int(order[rank])
        return None

    def _next(self, shape: PodShape, order: Ints, start: int, within: Mask, avoid: int) -> int | None:
        if not self.counted(shape):
            good = (self._allowed(shape, avoid) & within)[order]
            good[order == avoid] = False
            ranks = np.flatnonzero(good)
            if not len(ranks):
                return None
            at = int(np.searchsorted(ranks, start))
            return int(ranks[at] if at < len(ranks) else ranks[0])
        may, needs = self.mask(shape), list[tuple[Ints, int]]()
        for name, amount in shape.requests.items():
            if amount > 0:
                column = self.grid.free.get(name)
                if column is None:
                    return None
                needs.append((column, amount))
        probed = min(start + _PROBED, len(order))
        for rank in range(start, probed):
            row = order[rank]
            if (
                may[row]
                and within[row]
                and row != avoid
                and all(free[row] >= amount for free, amount in needs)
            ):
                return rank
        mask = may & within
        for begin, end in ((probed, len(order)), (0, start)):
            for low in range(begin, end, _CHUNK):
                rows = order[low : min(low + _CHUNK, end)]
                good = mask[rows]
                for free, amount in needs:
                    good &= free[rows] >= amount
                good &= rows != avoid
                if good.any():
                    return low + int(good.argmax())
        return None

    def counted(self, shape: PodShape) -> bool:
        """Whether nothing but free amounts and who is on the row decides."""
        known = self._alone.get(shape.digest)
        if known is None:
            known = self._alone[shape.digest] = counted_alone(shape) and not shape.claims and not shape.single
        return known

    def amounts_alone(self, shapes: Iterable[PodShape]) -> bool:
        """Whether pods of these shapes look at nothing but amounts, and nobody looks at where they are."""
        return all(self.simple(shape) and not self.noticed(shape) for shape in shapes)

    def simple(self, shape: PodShape) -> bool:
        """Whether a pod looks at nothing but amounts."""
        return self.counted(shape) and not (shape.host_ports or shape.anti_affinity or shape.volumes)

    def mask(self, shape: PodShape) -> Mask:
        """Where a pod may be, by the nodes and by who is there; amounts left aside."""
        mask = self._masks.get(shape.digest)
        if mask is None:
            if shape.digest not in self._seen:
                self._seen.add(shape.digest)
                self._asked.append(shape)
            if not self._may_fight(shape):
                mask = self.grid.mask(shape)
            else:
                mask = self.grid.open(shape)
                inner = self.grid.where.get(shape.digest) if conflict(shape, shape) else None
                if inner:
                    mask[list(inner)] = False
            self._masks[shape.digest] = mask
        return mask

    def _allowed(self, shape: PodShape, ghost: int) -> Mask:
        """For shapes with terms, volumes or devices of their own: asked of the grid as it is now."""
        if shape.claims or shape.single:
            if self.grid.most(shape, 1) < 1:
                return np.zeros(len(self.grid.views), dtype=np.bool_)
            if counted_alone(shape):
                return self.grid.capacity(shape) > 0
        return Walk(self.grid, shape, Discounted(self.gone, ghost)).allowed()


class Adoption:
    """Removals of before put onto the destinations all at once: amounts summed up by row, and no search.

    Of the nodes that are kept those count that `stand`: all that could come after them is already on the rows that they
    go to. Where these together ask for more than a row has, who comes first has it.

    Attributes:
        taken: the nodes that were, so far.
        shapes: of the pods of all nodes that might be.
    """

    def __init__(self, destinations: Destinations, kept: Mapping[str, Mapping[PodKey, str]]) -> None:
        self.destinations = destinations
        self.taken: list[str] = []
        self._kept = kept
        self._pods: list[Resident] = []
        self.shapes: list[PodShape] = []
        self._standing: dict[str, tuple[int, int]] = {}
        self._rows: Ints = np.zeros(0, dtype=np.int64)
        self._numbers: Ints = self._rows
        self._left: dict[str, dict[int, int]] = {}
        self._narrow: dict[str, list[tuple[PodShape, int]]] = {}

    def stand(self, standing: Mapping[str, Sorted]) -> None:
        """Say which nodes may be taken, with the pods that move: those whose pods may be where they are to go, room left aside."""
        there = self.destinations.grid.rows
        digests: list[str] = []
        rows: list[int] = []
        known: dict[str, PodShape] = {}
        for name, pods in standing.items():
            found = list(map(there.get, map(self._kept[name].__getitem__, pods.keys)))
            if name not in there or None in found:
                continue
            self._standing[name] = (len(digests), len(digests) + len(pods.keys))
            digests += pods.digests
            self._pods += pods.movers
            rows += cast("list[int]", found)
            known.update(zip(pods.digests, pods.shapes, strict=True))
        numbers = {digest: number for number, digest in enumerate(known)}
        self.shapes = list(known.values())
        self._rows = np.array(rows, dtype=np.int64)
        self._numbers = np.array(list(map(numbers.__getitem__, digests)), dtype=np.int64)
        if digests:
            self._leave_out()
            self._sum_up()

    def _leave_out(self) -> None:
        """Nodes with a pod that may not be there, or that looks at more than amounts."""
        destinations = self.destinations
        stay = destinations.open.copy()
        stay[[row for name in self._kept if (row := destinations.grid.rows.get(name)) is not None]] = False
        nowhere = np.zeros(len(stay), dtype=np.bool_)
        masks = np.stack(
            [destinations.mask(shape) if destinations.simple(shape) else nowhere for shape in self.shapes]
        )
        wrong = np.flatnonzero(~(masks[self._numbers, self._rows] & stay[self._rows])).tolist()
        for name in self._with(wrong):
            del self._standing[name]

    def _with(self, positions: Sequence[int]) -> list[str]:
        """Nodes with a pod at one of these positions."""
        names, begins = list(self._standing), [begin for begin, _ in self._standing.values()]
        filled = [at for at, (begin, end) in enumerate(self._standing.values()) if end > begin]
        names, begins = [names[at] for at in filled], [begins[at] for at in filled]
        return [names[at] for at in sorted({bisect_right(begins, position) - 1 for position in positions})]

    def _sum_up(self) -> None:
        """Find the rows of which more is asked than they have, and who asks for it."""
        free = self.destinations.grid.free
        counted = self._pods_of(self._standing)
        short = np.zeros(len(self.destinations.grid.views), dtype=np.bool_)
        amounts = self._amounts()
        for resource, asks in amounts.items():
            column = free.get(resource)
            asked = np.zeros(len(short), dtype=np.int64)
            np.add.at(asked, self._rows[counted], asks[self._numbers[counted]])
            short |= (asked > 0) & (asked > (0 if column is None else column))
        narrow = np.flatnonzero(short).tolist()
        for resource in amounts if narrow else ():
            column = free.get(resource)
            self._left[resource] = {row: 0 if column is None else int(column[row]) for row in narrow}
        touched = np.flatnonzero(short[self._rows] & counted).tolist()
        for name in self._with(touched):
            self._narrow[name] = [
                (self.shapes[self._numbers[at]], int(self._rows[at]))
                for at in range(*self._standing[name])
                if short[self._rows[at]]
            ]

    def _pods_of(self, names: Iterable[str]) -> Mask:
        """Positions of the pods of these nodes."""
        found = np.zeros(len(self._rows), dtype=np.bool_)
        for name in names:
            begin, end = self._standing[name]
            found[begin:end] = True
        return found

    def take(self, name: str) -> bool:
        """Whether a node's pods fit where they are to go, beside all that were taken before it; then they are there."""
        if name not in self._standing or not self._fit(self._narrow.get(name, ())):
            return False
        self.taken.append(name)
        return True

    def _fit(self, found: Sequence[tuple[PodShape, int]]) -> bool:
        """Take their amounts off what is left; put back when that is not enough."""
        for taken, (shape, row) in enumerate(found):
            if any(amount > self._left[name][row] for name, amount in shape.requests.items() if amount > 0):
                for other, there in found[:taken]:
                    self._take(other, there, -1)
                return False
            self._take(shape, row, 1)
        return True

    def _take(self, shape: PodShape, row: int, count: int) -> None:
        for name, amount in shape.requests.items():
            if amount > 0:
                self._left[name][row] -= amount * count

    def _amounts(self) -> dict[str, Ints]:
        """What each shape asks for, by resource."""
        names = {name for shape in self.shapes for name, amount in shape.requests.items() if amount > 0}
        return {
            name: np.array([max(0, shape.requests.get(name, 0)) for shape in self.shapes], dtype=np.int64)
            for name in sorted(names)
        }

    def close(self) -> None:
        """Put what was taken onto the grid, and close the nodes that it leaves."""
        destinations = self.destinations
        noticed = np.array([destinations.noticed(shape) for shape in self.shapes], dtype=np.bool_)
        taken = self._pods_of(self.taken)
        if len(noticed):
            counted = taken & ~noticed[self._numbers]
            for resource, asks in self._amounts().items():
                column = destinations.grid.free.get(resource)
                if column is not None:
                    np.subtract.at(column, self._rows[counted], asks[self._numbers[counted]])
        for name in self.taken if noticed.any() else ():
            here = destinations.grid.rows[name]
            for at in range(*self._standing[name]):
                if noticed[self._numbers[at]]:
                    shape, leaving = self.shapes[self._numbers[at]], self._pods[at].deleting_at is not None
                    destinations.put(shape, int(self._rows[at]), leaving=leaving)
                    destinations.lift(shape, here, leaving=leaving)
        destinations.leave_all([destinations.grid.rows[name] for name in self.taken])
        self._rows[~taken] = -1

    def at(self, row: int) -> list[Resident]:
        """The pods of nodes that were taken, and put on a row."""
        return [self._pods[at] for at in np.flatnonzero(self._rows == row)]

    def placed(self) -> Iterator[tuple[int, Resident]]:
        """All pods of nodes that were taken, with the rows on which they are, in the order in which `at` has them."""
        return ((row, pod) for row, pod in zip(self._rows.tolist(), self._pods, strict=True) if row >= 0)


def _looks_at(shape: PodShape, other: PodShape) -> bool:
    """Whether a term of the one counts pods of the other."""
    return any(term.selects(other) for term in shape.affinity) or any(
        constraint.counts(other.labels) for constraint in shape.spread if shape.namespace == other.namespace
    )


def _wider(shape: PodShape, other: PodShape) -> bool:
    """Whether pods of the one keep those of the other away from more than their own node."""
    return (
        bool(shape.volumes and other.volumes)
        or any(term.key != HOSTNAME and term.selects(other) for term in shape.anti_affinity)
        or any(term.key != HOSTNAME and term.selects(shape) for term in other.anti_affinity)
    )
