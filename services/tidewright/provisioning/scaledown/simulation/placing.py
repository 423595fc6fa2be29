"""Where pods of nodes that are to go find room: on a fork of the grid, with destinations that close one by one.

What a shape may do by what nodes are is asked of the grid once; what changes with each pod placed (free
amounts) is looked at row by row from where the last search ended, so that a pod costs little however many nodes there are.
Shapes whose terms look at other pods are asked of the grid each time.
"""

from __future__ import annotations

import numpy as np

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import conflict, counted_alone
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.nodes import Ints, Mask
from tidewright.provisioning.pack.topology import Leaving, Walk

_CHUNK = 128
"""Rows looked at in one go: the first has room as a rule."""


class Destinations:
    """A grid to try on, changed in place.

    Attributes:
        grid: the nodes, with the pods that are on them; ours to change.
        open: rows that take pods.
        gone: rows of nodes that were found removable: nothing is there any more.
    """

    def __init__(self, grid: Grid, closed: list[str]) -> None:
        """`closed`: nodes that take no pods, and stay."""
        self.grid = grid
        self.open: Mask = np.zeros(len(grid.views), dtype=np.bool_)
        self.open[grid.order()] = True
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
        self._kinship: dict[str, tuple[int, list[tuple[str, bool]]]] = {}

    # --- Changes ---

    def put(self, shape: PodShape, row: int, count: int = 1) -> None:
        """Pods sit down on a row, or (a negative count) leave it."""
        self.grid.put(shape, row, count)
        for digest, on_row_alone in self._kin(shape):
            mask = self._masks.get(digest)
            if mask is not None and on_row_alone and count > 0:
                mask[row] = False
            elif mask is not None:
                del self._masks[digest]

    def lift(self, shape: PodShape, row: int) -> None:
        """A pod leaves a node that is closed to all for as long as it is gone: what else may go there stays as it is."""
        self.grid.put(shape, row, -1)
        for digest, on_row_alone in self._kin(shape):
            if not on_row_alone:
                self._masks.pop(digest, None)

    def leave(self, row: int) -> None:
        """The node of a row is gone, and what is still on it."""
        self.open[row] = False
        self.gone[row] = True
        self._ranked = self._ranked[self._ranked != row]
        for digest, pods in self.grid.held(row).items():
            self.put(self.grid.shapes[digest], row, -pods)

    def _kin(self, shape: PodShape) -> list[tuple[str, bool]]:
        """Shapes that have been asked for and that a pod of this one keeps away; with whether from its node alone."""
        upto, kin = self._kinship.get(shape.digest, (0, []))
        if upto < len(self._asked):
            kin = kin + [
                (other.digest, not _wider(shape, other))
                for other in self._asked[upto:]
                if _wider(shape, other) or conflict(shape, other)
            ]
            self._kinship[shape.digest] = (len(self._asked), kin)
        return kin

    # --- Questions ---

    def fits(self, shape: PodShape, row: int, avoid: int) -> bool:
        """Whether one more pod may go to this row."""
        if row == avoid or not self.open[row]:
            return False
        if self._counted(shape):
            return bool(self._mask(shape)[row]) and all(
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
        if not self._counted(shape):
            good = (self._allowed(shape, avoid) & within)[order]
            good[order == avoid] = False
            ranks = np.flatnonzero(good)
            if not len(ranks):
                return None
            at = int(np.searchsorted(ranks, start))
            return int(ranks[at] if at < len(ranks) else ranks[0])
        mask = self._mask(shape) & within
        needs = [(self.grid.free.get(name), amount) for name, amount in shape.requests.items() if amount > 0]
        if any(column is None for column, _ in needs):
            return None
        for begin, end in ((start, len(order)), (0, start)):
            for low in range(begin, end, _CHUNK):
                rows = order[low : min(low + _CHUNK, end)]
                good = mask[rows]
                for column, amount in needs:
                    if column is not None:
                        good &= column[rows] >= amount
                good &= rows != avoid
                if good.any():
                    return low + int(good.argmax())
        return None

    def _counted(self, shape: PodShape) -> bool:
        """Whether nothing but free amounts and who is on the row decides."""
        known = self._alone.get(shape.digest)
        if known is None:
            known = self._alone[shape.digest] = counted_alone(shape) and not shape.claims and not shape.single
        return known

    def _mask(self, shape: PodShape) -> Mask:
        mask = self._masks.get(shape.digest)
        if mask is None:
            if shape.digest not in self._seen:
                self._seen.add(shape.digest)
                self._asked.append(shape)
            mask = self.grid.open(shape)
            if conflict(shape, shape):
                inner = self.grid.where.get(shape.digest)
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
        return Walk(self.grid, shape, Leaving(self.gone, ghost)).allowed()


def _wider(shape: PodShape, other: PodShape) -> bool:
    """Whether pods of the one keep those of the other away from more than their own node."""
    return (
        bool(shape.volumes and other.volumes)
        or any(term.key != HOSTNAME and term.selects(other) for term in shape.anti_affinity)
        or any(term.key != HOSTNAME and term.selects(shape) for term in other.anti_affinity)
    )
