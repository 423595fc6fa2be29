"""New nodes one by one, for shapes whose terms look at domains or at other nodes, or that share devices.

As `estimate` counts it for all others: class by class, what fits the nodes made so far, then fresh ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import counted_alone
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.nodes import Ints, Mask
from tidewright.provisioning.pack.templates import Estimate, Layout, Template
from tidewright.provisioning.pack.together import best_row, kindred
from tidewright.provisioning.pack.topology import Walk, next_row


class Rows:
    """The estimate on single nodes, for shapes whose terms look at domains or at other nodes."""

    def __init__(self, items: Sequence[Item], template: Template, limit: int, cluster: Grid) -> None:
        self.items = items
        self.template = template
        self.limit = limit
        self.grid = cluster.fork()
        self.made: list[int] = []
        self.rows: dict[int, dict[str, int]] = {}
        self._pointer = 0
        self._after: Sequence[int] = ()

    def pack(self, order: Sequence[int]) -> Estimate:
        placed = [0] * len(self.items)
        grow = True
        for position, i in enumerate(order):
            item = self.items[i]
            self._after = order[position + 1 :] if item.shape.claims else ()
            done, grow = self._place(item, grow)
            placed[i] = done
        layouts: dict[tuple[tuple[str, int], ...], int] = {}
        for row in self.made:
            held = self.rows.get(row)
            if held:
                key = tuple(sorted(held.items()))
                layouts[key] = layouts.get(key, 0) + 1
        return Estimate(
            sum(layouts.values()), tuple(placed), tuple(Layout(n, dict(key)) for key, n in layouts.items())
        )

    def _take(self, walk: Walk, row: int, shape: PodShape) -> None:
        walk.take(row)
        held = self.rows.setdefault(row, {})
        held[shape.digest] = held.get(shape.digest, 0) + 1

    def _new_rows(self, count: int) -> list[int]:
        begin = len(self.made)
        names = [f"template-{begin + i}-{self.template.view.name}" for i in range(count)]
        rows = self.grid.add_copies(self.template.view, names)
        for row in rows:
            for item in self.template.residents:
                self.grid.put(item.shape, row, item.count)
        self.made += rows
        return rows

    def _only_new(self, mask: Mask) -> Mask:
        chosen = np.zeros(len(mask), dtype=np.bool_)
        chosen[self.made] = True
        return mask & chosen

    def _place(self, item: Item, grow: bool) -> tuple[int, bool]:
        """One class: what fits the nodes made so far, then fresh ones. Returns (placed, may grow)."""
        if item.shape.claims:
            if self.grid.devices.waits(item.shape):
                return self._together(item, grow)
            if self.grid.tied(item.shape):
                return self._walk(item, False)[0], grow
            if self.grid.devices.entangled(item.shape):
                return self._walk(item, grow)
        if counted_alone(item.shape):
            return self._count_out(item, grow)
        return self._walk(item, grow)

    def _together(self, item: Item, grow: bool) -> tuple[int, bool]:
        """Pods that share a claim: on the node that holds the most of them, then where its devices reach."""
        shape = item.shape
        kin = [item, *kindred(shape, [self.items[i] for i in self._after])]
        row, held = self._best(kin)
        may_grow = grow and not 0 < self.limit <= len(self.made)
        if held < sum(each.count for each in kin) and may_grow and item.count:
            self._new_rows(1)
            row, held = self._best(kin)
        if row is None or not item.count:
            return 0, grow
        pods = min(item.count if counted_alone(shape) else 1, int(self.grid.capacity(shape)[row]))
        self._put(shape, row, pods)
        if pods == item.count:
            return pods, grow
        rest = Item(shape, item.count - pods)
        done, still = self._walk(rest, grow and not self.grid.tied(shape))
        return pods + done, still if not self.grid.tied(shape) else grow

    def _best(self, kin: Sequence[Item]) -> tuple[int | None, int]:
        """Of the nodes made so far the one that holds the most of these pods, and how many."""
        if not self.made:
            return None, 0
        rows = np.array(self.made, dtype=np.int64)
        return best_row(self.grid, self.grid.capacity(kin[0].shape)[rows], rows, kin)

    def _count_out(self, item: Item, grow: bool) -> tuple[int, bool]:
        """As `_walk`, for a shape whose pods do not look at one another: so many at a time."""
        shape, rest = item.shape, item.count
        if self.made and rest:
            room = self.grid.capacity(shape)[self.made]
            for position, pods in self._round_robin(room, rest):
                self._put(shape, self.made[position], pods)
                rest -= pods
        while rest and grow:
            if self.made and not self.rows.get(self.made[-1]):
                break
            if 0 < self.limit <= len(self.made):
                return item.count - rest, False
            row = self._new_rows(1)[0]
            per_node = int(self.grid.capacity(shape)[row])
            if not per_node:
                break
            more = -(-rest // per_node) - 1
            if self.limit > 0:
                more = min(more, self.limit - len(self.made))
            for each in (row, *self._new_rows(more)):
                pods = min(rest, per_node)
                self._put(shape, each, pods)
                rest -= pods
        return item.count - rest, grow

    def _round_robin(self, room: Ints, count: int) -> list[tuple[int, int]]:
        """(position among the nodes made, pods) for one pod per node and round, from the pointer on."""
        start = self._pointer % len(room)
        turned = np.minimum(np.concatenate([room[start:], room[:start]]), count)
        count = min(count, int(turned.sum()))
        if count <= 0:
            return []
        rounds = int(np.searchsorted(np.cumsum(_taking(turned)), count, side="right"))
        given = np.minimum(turned, rounds)
        rest = count - int(given.sum())
        last = int(np.flatnonzero(turned >= rounds)[-1])
        if rest:
            more = np.flatnonzero(turned > rounds)[:rest]
            given[more] += 1
            last = int(more[-1])
        self._pointer = (start + last + 1) % len(room)
        chosen = np.flatnonzero(given)
        return [((start + int(i)) % len(room), int(given[i])) for i in chosen.tolist()]

    def _put(self, shape: PodShape, row: int, pods: int) -> None:
        self.grid.put(shape, row, pods)
        held = self.rows.setdefault(row, {})
        held[shape.digest] = held.get(shape.digest, 0) + pods

    def _walk(self, item: Item, grow: bool) -> tuple[int, bool]:
        shape, rest = item.shape, item.count
        walk = Walk(self.grid, shape)
        while rest and self.made:
            row = self._next(self._only_new(walk.allowed()))
            if row is None:
                break
            self._take(walk, row, shape)
            rest -= 1
        if not rest or not grow:
            return item.count - rest, grow
        rescue = any(c.key == HOSTNAME for c in shape.spread)
        while rest:
            if self.made:
                last = self.made[-1]
                allowed = walk.allowed()
                if allowed[last]:
                    self._take(walk, last, shape)
                    rest -= 1
                    continue
                if rescue and walk.without_spread()[last]:
                    row = next_row(self.grid, self.grid.order(), allowed[self.grid.order()])
                    if row is not None:
                        self._take(walk, row, shape)
                        rest -= 1
                        continue
                if not self.rows.get(last):
                    break
            if 0 < self.limit <= len(self.made):
                return item.count - rest, False
            row = self._new_rows(1)[0]
            walk = Walk(self.grid, shape)
            if not walk.allowed()[row]:
                break
            self._take(walk, row, shape)
            rest -= 1
        return item.count - rest, grow

    def _next(self, mask: Mask) -> int | None:
        good = [row for row in self.made if mask[row]] if mask.any() else []
        if not good:
            return None
        later = [row for row in good if row >= self.made[0] + self._pointer]
        row = later[0] if later else good[0]
        self._pointer = (row - self.made[0] + 1) % len(self.made)
        return row


def _taking(room: Ints) -> Ints:
    """Per round how many nodes take a pod in it."""
    most = int(room.max(initial=0))
    counts = np.bincount(np.minimum(room, most), minlength=most + 1)
    taking: Ints = np.cumsum(counts[::-1])[::-1][1:].astype(np.int64)
    return taking
