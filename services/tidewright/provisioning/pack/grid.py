"""Nodes as columns: what is free of each resource, who sits where, and forks of it for trials.

The grid answers for thousands of nodes at once with integer arithmetic. Rows are nodes; a row that
was removed is skipped. The search order is by node name, round robin with one pointer per
evaluation (spec 3.4): a search starts after the node where the previous one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidewright.kube.podshape import HOSTNAME, NodeTerm, NodeView, PodShape
from tidewright.kube.predicates import conflict, counted_alone, untolerated
from tidewright.kube.selectors import Requirement
from tidewright.kube.taints import Taint
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.holdings import Common, Holdings, Reach

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

UNTAINTED = (Taint("node.kubernetes.io/unschedulable"),)


class Grid:
    """Nodes and the pods on them. Changed in place by the owner; `fork` before you try something.

    Attributes:
        free: resource name to what is left of it per row; negative on an overcommitted node.
        where: shape digest to (row to number of pods).
        shapes: every shape that has a pod here, by digest.
        pointer: row rank (position in name order) where the next search starts.
        devices: who has which, and which claims have theirs.
    """

    def __init__(self) -> None:
        self.views: list[NodeView | None] = []
        self.rows: dict[str, int] = {}
        self.free: dict[str, Ints] = {}
        self.where: dict[str, dict[int, int]] = {}
        self.shapes: dict[str, PodShape] = {}
        self.pointer = 0
        self.devices = Holdings()
        self._spare: list[int] = []
        self._own: set[str] = set()
        self._columns: dict[str, tuple[Ints, list[str]]] = {}
        self._kinds: tuple[Ints, list[tuple[tuple[Taint, ...], bool]]] | None = None
        self._order: Ints | None = None
        self._masks: dict[str, Mask] = {}
        self._reached: list[tuple[int, ...]] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def fork(self) -> Grid:
        """A copy that can be thrown away. What depends on nodes alone is shared until nodes change."""
        other = Grid()
        other.views = list(self.views)
        other.rows = dict(self.rows)
        other.free = {name: column.copy() for name, column in self.free.items()}
        other.where = dict(self.where)
        other.shapes = dict(self.shapes)
        other.pointer = self.pointer
        other.devices = self.devices.fork()
        other._spare = list(self._spare)
        other._columns = self._columns
        other._kinds = self._kinds
        other._order = self._order
        other._masks = self._masks
        other._reached = self._reached
        self._own = set()  # both sides now share every inner table
        return other

    # --- Nodes ---

    def add_node(self, view: NodeView) -> int:
        """Add or replace a node; its pods stay where they are. Returns its row."""
        row = self.rows.get(view.name)
        if row is None:
            if self._spare:
                row = self._spare.pop()
                self.views[row] = view
            else:
                row = len(self.views)
                self.views.append(view)
                for name, column in self.free.items():
                    self.free[name] = np.append(column, np.int64(0))
            self.rows[view.name] = row
            before: Mapping[str, int] = {}
        else:
            old = self.views[row]
            before = old.allocatable if old is not None else {}
            self.views[row] = view
        for name in sorted({*before, *view.allocatable}):
            self._column_of(name)[row] += view.allocatable.get(name, 0) - before.get(name, 0)
        self.devices.put_node(row, view.stock)
        self._forget_views()
        return row

    def add_nodes(self, views: Iterable[NodeView]) -> None:
        """Add nodes that are not here, in one step."""
        added = list(views)
        start = len(self.views)
        for row, view in enumerate(added, start):
            self.rows[view.name] = row
            self.devices.put_node(row, view.stock)
        self.views += added
        names = {*self.free, *(name for view in added for name in view.allocatable)}
        for name in sorted(names):
            more = np.array([view.allocatable.get(name, 0) for view in added], dtype=np.int64)
            self.free[name] = np.concatenate([self._column_of(name, start)[:start], more])
        self._forget_views()

    def add_copies(self, template: NodeView, names: Iterable[str]) -> list[int]:
        """Add fresh copies of one template in one step: what is known of the other rows is extended."""
        added = list(names)
        if not added:
            return []
        start, count = len(self.views), len(added)
        for name in added:
            labels = {**template.labels, HOSTNAME: name}
            self.rows[name] = len(self.views)
            self.views.append(
                NodeView(
                    name=name,
                    labels=labels,
                    taints=template.taints,
                    allocatable=template.allocatable,
                    unschedulable=template.unschedulable,
                    stock=template.stock,
                )
            )
            self.devices.put_node(self.rows[name], template.stock)
        for name in template.allocatable:
            self._column_of(name, start)
        for name, column in self.free.items():
            more = np.full(count, template.allocatable.get(name, 0), dtype=np.int64)
            self.free[name] = np.concatenate([column[:start], more])
        self._forget_views()
        return list(range(start, start + count))

    def remove_node(self, name: str) -> None:
        """Forget a node. The pods on it are forgotten too."""
        row = self.rows.pop(name, None)
        if row is None:
            return
        for digest in sorted(self.where):
            if row in self.where[digest]:
                self._inner(digest).pop(row)
        for column in self.free.values():
            column[row] = 0
        self.views[row] = None
        self.devices.put_node(row, None)
        self._spare.append(row)
        self._forget_views()

    def _forget_views(self) -> None:
        self._columns, self._kinds, self._order, self._masks, self._reached = {}, None, None, {}, None

    def _column_of(self, resource: str, length: int | None = None) -> Ints:
        column = self.free.get(resource)
        if column is None:
            column = np.zeros(len(self.views) if length is None else length, dtype=np.int64)
            self.free[resource] = column
        return column

    def drop_columns(self, names: Iterable[str]) -> None:
        """Forget resources of which nobody has any."""
        for name in names:
            del self.free[name]

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
        inner = self._inner(shape.digest)
        inner[row] = inner.get(row, 0) + count
        if not inner[row]:
            del inner[row]
        self.shapes.setdefault(shape.digest, shape)
        for name, amount in shape.requests.items():
            if amount:
                self._column_of(name)[row] -= amount * count
        if shape.claims and count > 0:
            self.devices.take(shape, row, count, self.reached())

    def put_all(self, shape: PodShape, pods: Mapping[int, int]) -> None:
        """As `put`, for many rows: so many pods on each."""
        inner = self._inner(shape.digest)
        for row, count in pods.items():
            inner[row] = inner.get(row, 0) + count
        self.shapes.setdefault(shape.digest, shape)
        rows = np.fromiter(pods, dtype=np.int64, count=len(pods))
        counts = np.fromiter(pods.values(), dtype=np.int64, count=len(pods))
        for name, amount in shape.requests.items():
            if amount:
                self._column_of(name)[rows] -= amount * counts
        for row, count in pods.items() if shape.claims else ():
            self.devices.take(shape, row, count, self.reached())

    def forget_shape(self, digest: str) -> None:
        """A shape means something else from now on; nothing of it may sit here."""
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

    # --- What depends on nodes alone ---

    def order(self) -> Ints:
        """Rows that exist, by node name."""
        if self._order is None:
            self._order = np.array([self.rows[name] for name in sorted(self.rows)], dtype=np.int64)
        return self._order

    def column(self, key: str) -> tuple[Ints, list[str]]:
        """A label as numbers: per row the index into the values, -1 where the label is absent."""
        found = self._columns.get(key)
        if found is None:
            values: dict[str, int] = {}
            ids = np.full(len(self.views), -1, dtype=np.int64)
            for row in self.rows.values():
                view = self.views[row]
                value = view.labels.get(key) if view is not None else None
                if value is None and key == HOSTNAME and view is not None:
                    value = view.name
                if value is not None:
                    ids[row] = values.setdefault(value, len(values))
            found = (ids, list(values))
            self._columns[key] = found
        return found

    def _holding(self, key: str, requirement: Requirement) -> Mask:
        ids, values = self.column(key)
        per_value = np.array(
            [requirement.matches({key: v}) for v in values] + [requirement.matches({})], dtype=np.bool_
        )
        return per_value[ids]

    def _named(self, requirement: Requirement) -> Mask:
        found = np.zeros(len(self.views), dtype=np.bool_)
        for name, row in self.rows.items():
            found[row] = requirement.matches({requirement.key: name})
        return found

    def _terms(self, terms: Iterable[NodeTerm]) -> Mask:
        some = np.zeros(len(self.views), dtype=np.bool_)
        for term in terms:
            if not term.labels and not term.names:
                continue
            every = np.ones(len(self.views), dtype=np.bool_)
            for r in term.labels:
                every &= self._holding(r.key, r)
            for r in term.names:
                every &= self._named(r)
            some |= every
        return some

    def affine(self, shape: PodShape) -> Mask:
        """Rows that node selector and required node affinity allow."""
        mask = np.zeros(len(self.views), dtype=np.bool_)
        mask[self.order()] = True
        for r in shape.selector:
            mask &= self._holding(r.key, r)
        if shape.terms is not None:
            mask &= self._terms(shape.terms)
        return mask

    def tolerated(self, shape: PodShape) -> Mask:
        """Rows whose taints the shape tolerates."""
        if self._kinds is None:
            known: dict[tuple[tuple[Taint, ...], bool], int] = {}
            ids = np.zeros(len(self.views), dtype=np.int64)
            for row in self.rows.values():
                view = self.views[row]
                if view is not None:
                    ids[row] = known.setdefault((view.taints, view.unschedulable), len(known))
            self._kinds = (ids, list(known))
        ids, kinds = self._kinds
        allowed = [
            untolerated(shape, taints) is None and (not cordoned or untolerated(shape, UNTAINTED) is None)
            for taints, cordoned in kinds
        ]
        return np.array(allowed or [True], dtype=np.bool_)[ids]

    def mask(self, shape: PodShape) -> Mask:
        """Rows where the shape may run, whatever else runs there. Remembered until nodes change."""
        found = self._masks.get(shape.digest)
        if found is None:
            if shape.error or shape.blocked:
                found = np.zeros(len(self.views), dtype=np.bool_)
            else:
                found = self.affine(shape) & self.tolerated(shape)
                if shape.node_name:
                    only = np.zeros(len(self.views), dtype=np.bool_)
                    if shape.node_name in self.rows:
                        only[self.rows[shape.node_name]] = True
                    found &= only
                for volume in shape.volumes:
                    if volume.terms:
                        found &= self._terms(volume.terms)
            self._masks[shape.digest] = found
        return found

    def share(self, common: Common | None) -> None:
        """From now on these are the devices that nodes have together."""
        self.devices.common, self._reached = common, None

    def reached(self) -> list[tuple[int, ...]]:
        """Per row the numbers of the common devices that it reaches; empty where there are none."""
        if self.devices.common is None:
            return []
        if self._reached is None:
            reaches = self.devices.common.reaches
            kinds = list(dict.fromkeys(reaches))
            masks = np.array([self._from(reach) for reach in kinds]).T
            known: dict[bytes, tuple[int, ...]] = {}
            self._reached = []
            for row in masks:
                key = row.tobytes()
                if key not in known:
                    good = {reach for reach, here in zip(kinds, row.tolist(), strict=True) if here}
                    known[key] = tuple(i for i, reach in enumerate(reaches) if reach in good)
                self._reached.append(known[key])
        return self._reached

    def _from(self, reach: Reach) -> Mask:
        """Rows that reach a device."""
        if not reach.node:
            return np.ones(len(self.views), dtype=np.bool_) if reach.everywhere else self._terms(reach.terms)
        mask = np.zeros(len(self.views), dtype=np.bool_)
        if reach.node in self.rows:
            mask[self.rows[reach.node]] = True
        return mask

    # --- What depends on the pods that are there ---

    def open(self, shape: PodShape) -> Mask:
        """Rows where the shape may run beside the pods that are there, its own terms left aside
        where they are about pods of its own shape.
        """
        mask = self.mask(shape).copy()
        if self.claimed(shape):
            mask[:] = False
        own_keys = sorted({t.key for t in shape.anti_affinity if t.key != HOSTNAME})
        for digest, inner in self.where.items():
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
        found = np.full(len(self.views), np.iinfo(np.int32).max, dtype=np.int64)
        for name, amount in shape.requests.items():
            if amount > 0:
                column = self.free.get(name)
                if column is None:
                    return np.zeros(len(self.views), dtype=np.int64)
                np.minimum(found, column // amount, out=found)
        if conflict(shape, shape):
            np.minimum(found, 1, out=found)
            inner = self.where.get(shape.digest)
            if inner:
                found[list(inner)] = 0
        found[~mask] = 0
        np.maximum(found, 0, out=found)
        if shape.claims:
            self.devices.limit(shape, found, self.reached())
        return found

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
        left = self.most(shape, count)
        room = self.capacity(shape)
        placed = 0
        for name in sorted(nodes):
            if placed and self.devices.ties(shape):
                room = self.capacity(shape)
            row = self.rows.get(name)
            pods = 0 if row is None else min(left - placed, nodes[name], int(room[row]))
            if row is not None and pods > 0:
                self.put(shape, row, pods)
                placed += pods
        return placed

    def place_tightly(self, shape: PodShape, count: int, along: Sequence[Item] = ()) -> int:
        """As `place`, the nodes that take the fewest first, each filled: room that holds larger pods stays whole."""
        if not counted_alone(shape) or self.devices.entangled(shape):
            return self.place(shape, count, along)
        left = self.most(shape, count)
        placed = 0
        room = self.capacity(shape)[self.order()]
        for rank in np.argsort(room, kind="stable").tolist():
            pods = min(left - placed, int(room[rank]))
            if pods > 0:
                self.put(shape, int(self.order()[rank]), pods)
                placed += pods
            if placed == left:
                break
        return placed

    def pods(self) -> int:
        return sum(sum(inner.values()) for inner in self.where.values())
