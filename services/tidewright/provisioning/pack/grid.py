"""Nodes and who sits where: how many more pods each takes, and forks of it for trials.

The grid answers for thousands of nodes at once with integer arithmetic. The search order is by node
name, round robin with one pointer per evaluation (spec 3.4): a search starts after the node where the
previous one ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import conflict, counted_alone, picky
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.nodes import Ints, Mask, Nodes


class Grid(Nodes):
    """Nodes and the pods on them. Changed in place by the owner; `fork` before you try something.

    Attributes:
        where: shape digest to (row to number of pods).
        leaving: the same of those of them that are being deleted: topology spread counts them no more.
        shapes: every shape that has a pod here, by digest.
        pointer: row rank (position in name order) where the next search starts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.where: dict[str, dict[int, int]] = {}
        self.leaving: dict[str, dict[int, int]] = {}
        self.shapes: dict[str, PodShape] = {}
        self.pointer = 0
        self._own: set[str] = set()
        self._picky: set[str] = set()

    def fork(self) -> Grid:
        """A copy that can be thrown away."""
        other = Grid()
        self._fork_nodes(other)
        other.where = dict(self.where)
        other.leaving = {digest: dict(inner) for digest, inner in self.leaving.items()}
        other.shapes = dict(self.shapes)
        other.pointer = self.pointer
        other._picky = set(self._picky)
        self._own = set()  # both sides now share every inner table
        return other

    def remove_node(self, name: str) -> None:
        """Forget a node. The pods on it are forgotten too."""
        row = self.rows.get(name)
        if row is None:
            return
        for digest in sorted(self.where):
            if row in self.where[digest]:
                self._inner(digest).pop(row)
        for digest in [digest for digest, inner in self.leaving.items() if row in inner]:
            self.leave(digest, row, -self.leaving[digest][row])
        self._remove_row(name)

    # --- Pods ---

    def _inner(self, digest: str) -> dict[int, int]:
        """The shape's table of rows, ours to change."""
        if digest not in self._own:
            self.where[digest] = dict(self.where.get(digest, {}))
            self._own.add(digest)
        return self.where[digest]

    def put(self, shape: PodShape, row: int, count: int = 1) -> None:
        """Place pods on a row without asking; a negative count takes them away."""
        if not count:
            return
        digest = shape.digest
        inner = self.where[digest] if digest in self._own else self._inner(digest)
        pods = inner.get(row, 0) + count
        if pods:
            inner[row] = pods
        else:
            inner.pop(row, None)
        if digest not in self.shapes:
            self._know(shape)
        free = self.free
        for name, amount in shape.requests.items():
            if amount:
                column = free.get(name)
                if column is None:
                    column = self._column_of(name)
                column[row] -= amount * count
        if shape.claims and count > 0:
            self.devices.take(shape, row, count, self.reached())

    def leave(self, digest: str, row: int, count: int = 1) -> None:
        """Of the pods of a shape on a row so many are being deleted; a negative count: no longer so."""
        inner = self.leaving.setdefault(digest, {})
        inner[row] = inner.get(row, 0) + count
        if not inner[row]:
            del inner[row]
        if not inner:
            del self.leaving[digest]

    def put_all(self, shape: PodShape, pods: Mapping[int, int]) -> None:
        """As `put`, for many rows: so many pods on each."""
        inner = self._inner(shape.digest)
        if inner:
            for row, count in pods.items():
                inner[row] = inner.get(row, 0) + count
        else:
            inner.update(pods)
        if shape.digest not in self.shapes:
            self._know(shape)
        rows = np.fromiter(pods, dtype=np.int64, count=len(pods))
        counts = np.fromiter(pods.values(), dtype=np.int64, count=len(pods))
        for name, amount in shape.requests.items():
            if amount:
                self._column_of(name)[rows] -= amount * counts
        for row, count in pods.items() if shape.claims else ():
            self.devices.take(shape, row, count, self.reached())

    def _know(self, shape: PodShape) -> None:
        """The first pod of a shape has come."""
        self.shapes[shape.digest] = shape
        if picky(shape):
            self._picky.add(shape.digest)

    def forget_shape(self, digest: str) -> None:
        """A shape means something else from now on; nothing of it may sit here."""
        self._picky.discard(digest)
        self._masks.pop(digest, None)
        self.shapes.pop(digest, None)

    def drop_shape(self, digest: str) -> None:
        """Nobody has a shape any longer: nothing of it is kept. It stays while anything of it sits here."""
        if not self.where.get(digest):
            self.where.pop(digest, None)
            self._own.discard(digest)
            self.forget_shape(digest)

    def claimed(self, shape: PodShape) -> bool:
        """Whether a pod that is here has a volume of the shape that one pod alone may have, anywhere."""
        exclusive = {volume.claim for volume in shape.volumes if volume.exclusive}
        return bool(exclusive) and any(
            inner
            and self.shapes[digest].namespace == shape.namespace
            and any(volume.claim in exclusive for volume in self.shapes[digest].volumes)
            for digest, inner in self.where.items()
        )

    def held(self, row: int) -> dict[str, int]:
        """What sits on a row: digest to number of pods."""
        return {d: inner[row] for d, inner in sorted(self.where.items()) if row in inner}

    # --- What depends on the pods that are there ---

    def open(self, shape: PodShape) -> Mask:
        """Rows where the shape may run beside the pods that are there, its own terms left aside
        where they are about pods of its own shape.
        """
        mask = self.mask(shape).copy()
        if self.claimed(shape):
            mask[:] = False
        own_keys = sorted({t.key for t in shape.anti_affinity if t.key != HOSTNAME})
        # Of two pods that cannot share a node, or a domain, one at least is picky.
        for digest in self.where if picky(shape) else sorted(self._picky):
            inner = self.where.get(digest)
            if not inner:
                continue
            other = self.shapes[digest]
            if digest != shape.digest and conflict(shape, other):
                mask[list(inner)] = False
            for term in other.anti_affinity:
                if term.key != HOSTNAME and term.selects(shape):
                    self._close_domains(mask, term.key, inner)
            for key in own_keys:
                if any(t.key == key and t.selects(other) for t in shape.anti_affinity):
                    self._close_domains(mask, key, inner)
        return mask

    def _close_domains(self, mask: Mask, key: str, inner: Mapping[int, int]) -> None:
        ids, values = self.column(key)
        taken = np.zeros(len(values) + 1, dtype=np.bool_)
        taken[ids[list(inner)]] = True
        taken[-1] = False  # rows without the label are in no domain
        mask &= ~taken[ids]

    def capacity(self, shape: PodShape) -> Ints:
        """How many pods of this shape each row still takes, its own affinity and spread left aside."""
        mask = self.open(shape)
        room = np.full(len(self.views), np.iinfo(np.int32).max, dtype=np.int64)
        claimed = {claim.resource for claim in shape.claims}
        for name, amount in shape.requests.items():
            if amount > 0:
                column = self.free.get(name)
                if name in claimed:
                    rows = self.devices.plugged(name)
                    if rows:
                        room[rows] = np.minimum(room[rows], self._column_of(name)[rows] // amount)
                    continue
                if column is None:
                    return np.zeros(len(self.views), dtype=np.int64)
                np.minimum(room, column // amount, out=room)
        if conflict(shape, shape):
            np.minimum(room, 1, out=room)
            inner = self.where.get(shape.digest)
            if inner:
                room[list(inner)] = 0
        room[~mask] = 0
        np.maximum(room, 0, out=room)
        if shape.claims:
            self.devices.limit(shape, room, self.reached())
        return room

    def _room_at(self, shape: PodShape, row: int) -> int:
        """The same of one row, for a shape that only its amounts and the node can keep away."""
        if not self.mask(shape)[row]:
            return 0
        asked = ((self.free.get(name), amount) for name, amount in shape.requests.items() if amount > 0)
        fits = (0 if column is None else int(column[row]) // amount for column, amount in asked)
        return max(0, min(fits, default=np.iinfo(np.int32).max))

    def spread_out(self, capacity: Ints, count: int) -> list[tuple[int, int]]:
        """Round robin of `count` pods over rows with this capacity: (row, pods), and move the pointer."""
        order = self.order()
        if not len(order) or count <= 0:
            return []
        start = self.pointer % len(order)
        turned = np.concatenate([order[start:], order[:start]])
        room = capacity[turned]
        count = min(count, int(room.sum()))
        if count <= 0:
            return []
        low, high = 0, int(room.max())
        while low < high:  # the largest number of whole rounds
            middle = (low + high + 1) // 2
            if int(np.minimum(room, middle).sum()) <= count:
                low = middle
            else:
                high = middle - 1
        given = np.minimum(room, low)
        rest = count - int(given.sum())
        if rest:
            more = np.flatnonzero(room > low)[:rest]
            given[more] += 1
            last = int(more[-1])
        else:
            last = int(np.flatnonzero(room >= low)[-1])
        self.pointer = (start + last + 1) % len(order)
        chosen = np.flatnonzero(given)
        return [
            (int(r), int(n)) for r, n in zip(turned[chosen].tolist(), given[chosen].tolist(), strict=True)
        ]

    def place(self, shape: PodShape, count: int, along: Sequence[Item] = ()) -> int:
        """Place up to `count` pods of a shape; the number placed. Fork first if you may regret it.

        `along` is what is going to be placed after it: of that, pods which share a claim with it find room
        beside it, where there is any for all of them.
        """
        count = self.most(shape, count)
        if count <= 0:
            return 0
        if self.devices.entangled(shape):
            from tidewright.provisioning.pack.together import place_together

            return place_together(self, shape, count, along)
        if not counted_alone(shape):
            from tidewright.provisioning.pack.topology import place_one_by_one

            return place_one_by_one(self, shape, count)
        placed = 0
        for row, pods in self.spread_out(self.capacity(shape), count):
            self.put(shape, row, pods)
            placed += pods
        return placed

    def most(self, shape: PodShape, count: int) -> int:
        """Of so many pods those that its claims are for: of volumes for one pod at a time, of devices for a few."""
        if shape.single:
            count = min(count, 1)
        return min(count, self.devices.seats(shape)) if shape.claims else count

    def tied(self, shape: PodShape) -> str:
        """Why no further node helps a shape; empty when one may."""
        claim = self.devices.tied(shape)
        return f"its resource claim {claim} gets its devices on another node" if claim else ""

    def place_at(self, shape: PodShape, count: int, nodes: Mapping[str, int]) -> int:
        """Place up to `count` pods on these nodes, at most so many on each; the number placed."""
        if not counted_alone(shape):
            return 0  # where one may go depends on where the others are
        most = self.most(shape, count)
        simple = not (shape.claims or self._picky or picky(shape))
        room = None if simple else self.capacity(shape)
        placed = 0
        for name in sorted(nodes):
            if placed and self.devices.ties(shape):
                room = self.capacity(shape)
            row = self.rows.get(name)
            if row is None:
                continue
            free = self._room_at(shape, row) if room is None else int(room[row])
            pods = min(most - placed, nodes[name], free)
            if pods > 0:
                self.put(shape, row, pods)
                placed += pods
        return placed

    def place_tightly(self, shape: PodShape, count: int, along: Sequence[Item] = ()) -> int:
        """As `place`, the nodes that take the fewest first, each filled: room that holds larger pods stays whole."""
        if not counted_alone(shape) or self.devices.entangled(shape):
            return self.place(shape, count, along)
        most = self.most(shape, count)
        placed = 0
        room = self.capacity(shape)[self.order()]
        for rank in np.argsort(room, kind="stable").tolist():
            pods = min(most - placed, int(room[rank]))
            if pods > 0:
                self.put(shape, int(self.order()[rank]), pods)
                placed += pods
            if placed == most:
                break
        return placed

    def pods(self) -> int:
        return sum(sum(inner.values()) for inner in self.where.values())
