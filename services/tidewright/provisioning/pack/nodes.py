"""Nodes as columns: what is free of each resource, which rows a shape may be on by what nodes are alone.

Rows are nodes; a row that was removed is skipped. What is computed of labels, taints and names is
remembered until nodes change. Pods come with `grid`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidewright.kube.podshape import HOSTNAME, NodeTerm, NodeView, PodShape
from tidewright.kube.predicates import untolerated
from tidewright.kube.selectors import Requirement
from tidewright.kube.taints import Taint
from tidewright.provisioning.pack.holdings import Common, Holdings, Reach

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

UNTAINTED = (Taint("node.kubernetes.io/unschedulable"),)


class Nodes:
    """The nodes of a grid, and what is free on them.

    Attributes:
        views: by row; None for a row without a node.
        rows: by name.
        free: resource name to what is left of it per row; negative on an overcommitted node.
        devices: who has which, and which claims have theirs.
    """

    def __init__(self) -> None:
        self.views: list[NodeView | None] = []
        self.rows: dict[str, int] = {}
        self.free: dict[str, Ints] = {}
        self.devices = Holdings()
        self._spare: list[int] = []
        self._columns: dict[str, tuple[Ints, list[str]]] = {}
        self._kinds: tuple[Ints, list[tuple[tuple[Taint, ...], bool]]] | None = None
        self._order: Ints | None = None
        self._masks: dict[str, Mask] = {}
        self._reached: list[tuple[int, ...]] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def _fork_nodes(self, other: Nodes) -> None:
        """Make another one a copy of this. What depends on nodes alone is shared until nodes change."""
        other.views = list(self.views)
        other.rows = dict(self.rows)
        other.free = {name: column.copy() for name, column in self.free.items()}
        other.devices = self.devices.fork()
        other._spare = list(self._spare)
        other._columns = self._columns
        other._kinds = self._kinds
        other._order = self._order
        other._masks = self._masks
        other._reached = self._reached

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

    def _remove_row(self, name: str) -> None:
        row = self.rows.pop(name)
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

    # --- What depends on nodes alone ---

    def order(self) -> Ints:
        """Rows that exist, by node name."""
        if self._order is None:
            self._order = np.array([self.rows[name] for name in sorted(self.rows)], dtype=np.int64)
        return self._order

    def column(self, key: str) -> tuple[Ints, list[str]]:
        """A label as numbers: per row the index into the values, -1 where the label is absent."""
        column = self._columns.get(key)
        if column is None:
            values: dict[str, int] = {}
            ids = np.full(len(self.views), -1, dtype=np.int64)
            for row in self.rows.values():
                view = self.views[row]
                value = view.labels.get(key) if view is not None else None
                if value is None and key == HOSTNAME and view is not None:
                    value = view.name
                if value is not None:
                    ids[row] = values.setdefault(value, len(values))
            column = (ids, list(values))
            self._columns[key] = column
        return column

    def _holding(self, key: str, requirement: Requirement) -> Mask:
        ids, values = self.column(key)
        per_value = np.array(
            [requirement.matches({key: v}) for v in values] + [requirement.matches({})], dtype=np.bool_
        )
        return per_value[ids]

    def _named(self, requirement: Requirement) -> Mask:
        mask = np.zeros(len(self.views), dtype=np.bool_)
        for name, row in self.rows.items():
            mask[row] = requirement.matches({requirement.key: name})
        return mask

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

    def tolerated(self, shape: PodShape, *, cordons: bool = True) -> Mask:
        """Rows whose taints the shape tolerates; a cordon is one where it keeps pods away, and none where domains are counted."""
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
            untolerated(shape, taints) is None
            and not (cordons and cordoned and untolerated(shape, UNTAINTED) is not None)
            for taints, cordoned in kinds
        ]
        return np.array(allowed or [True], dtype=np.bool_)[ids]

    def mask(self, shape: PodShape) -> Mask:
        """Rows where the shape may run, whatever else runs there. Remembered until nodes change."""
        mask = self._masks.get(shape.digest)
        if mask is None:
            if shape.error or shape.blocked:
                mask = np.zeros(len(self.views), dtype=np.bool_)
            else:
                mask = self.affine(shape) & self.tolerated(shape)
                if shape.node_name:
                    only = np.zeros(len(self.views), dtype=np.bool_)
                    if shape.node_name in self.rows:
                        only[self.rows[shape.node_name]] = True
                    mask &= only
                for volume in shape.volumes:
                    if volume.terms:
                        mask &= self._terms(volume.terms)
            self._masks[shape.digest] = mask
        return mask

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
