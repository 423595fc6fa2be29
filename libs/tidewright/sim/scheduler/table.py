"""The nodes as arrays, so that one pod's filters and scores are a few array operations.

A node keeps its row as long as it exists; rows of vanished nodes are reused. What depends on the
node alone (selectors, affinity, taints) is kept per shape as a mask and repaired row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidewright.kube.podspecs import amounts
from tidewright.sim.controllers.objects import Node

Mask: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

NOTES = 200_000
MASKS = 512
"""Cached per-shape values; the oldest goes when there are more."""


class NodeTable:
    """All nodes: one row each, one column per resource."""

    def __init__(self) -> None:
        self.nodes: list[Node | None] = []
        self.row_of: dict[str, int] = {}
        self.columns: dict[str, int] = {}
        self.present: Mask = np.zeros(0, dtype=np.bool_)
        self.cordoned: Mask = np.zeros(0, dtype=np.bool_)
        self.allocatable: Numbers = np.zeros((0, 0), dtype=np.int64)
        self.used: Numbers = np.zeros((0, 0), dtype=np.int64)
        self.scored: Floats = np.zeros((0, 2))
        self.changes: list[int] = []
        self.epoch = 0
        self._free_rows: list[int] = []
        self._values: dict[str, tuple[Callable[[Node], int], Numbers]] = {}
        self._domains: dict[str, tuple[dict[str, int], Numbers]] = {}
        for name in ("cpu", "memory", "ephemeral-storage", "pods"):
            self.column(name)

    def __len__(self) -> int:
        return len(self.row_of)

    def changed(self, row: int) -> None:
        """Note that a row differs; who keeps something per row repairs it from `changes`.

        When the notes get too many they start again under another `epoch`.
        """
        if len(self.changes) >= NOTES:
            self.changes.clear()
            self.epoch += 1
        self.changes.append(row)

    def column(self, resource: str) -> int:
        """The column of a resource, made when it is new."""
        column = self.columns.get(resource)
        if column is None:
            column = self.columns[resource] = len(self.columns)
            pad = ((0, 0), (0, 1))
            self.allocatable = np.pad(self.allocatable, pad)
            self.used = np.pad(self.used, pad)
        return column

    def put(self, node: Node) -> int:
        """Add a node or take in its change; its row."""
        row = self.row_of.get(node.metadata.name)
        if row is None:
            row = self._new_row()
            self.row_of[node.metadata.name] = row
            self.used[row] = 0
            self.scored[row] = 0
        self.nodes[row] = node
        self.present[row] = True
        self.cordoned[row] = node.spec.unschedulable
        given = {self.column(name): value for name, value in amounts(node.status.allocatable).items()}
        self.allocatable[row] = 0
        for column, value in given.items():
            self.allocatable[row, column] = value
        for compute, values in self._values.values():
            values[row] = compute(node)
        for key, (index, rows) in self._domains.items():
            rows[row] = _domain(index, node.metadata.labels.get(key))
        self.changed(row)
        return row

    def drop(self, name: str) -> int | None:
        """Forget a node; the row that it had."""
        row = self.row_of.pop(name, None)
        if row is not None:
            self.nodes[row] = None
            self.present[row] = False
            self.used[row] = 0
            self.scored[row] = 0
            self._free_rows.append(row)
            self.changed(row)
        return row

    def _new_row(self) -> int:
        if not self._free_rows:
            size = len(self.nodes)
            more = max(64, size)
            self.nodes.extend([None] * more)
            self.present = np.pad(self.present, (0, more))
            self.cordoned = np.pad(self.cordoned, (0, more))
            self.allocatable = np.pad(self.allocatable, ((0, more), (0, 0)))
            self.used = np.pad(self.used, ((0, more), (0, 0)))
            self.scored = np.pad(self.scored, ((0, more), (0, 0)))
            self._values = {
                key: (compute, np.pad(values, (0, more))) for key, (compute, values) in self._values.items()
            }
            self._domains = {
                key: (index, np.pad(rows, (0, more), constant_values=-1))
                for key, (index, rows) in self._domains.items()
            }
            self._free_rows = list(range(size + more - 1, size - 1, -1))
        return self._free_rows.pop()

    def values(self, key: str, compute: Callable[[Node], int]) -> Numbers:
        """A number per node that depends on the node alone, kept current; `key` names it."""
        entry = self._values.get(key)
        if entry is None:
            rows = np.zeros(len(self.nodes), dtype=np.int64)
            for row in self.row_of.values():
                node = self.nodes[row]
                if node is not None:
                    rows[row] = compute(node)
            if len(self._values) >= MASKS:
                self._values.pop(next(iter(self._values)))
            entry = self._values[key] = (compute, rows)
        return entry[1]

    def domains(self, label: str) -> Numbers:
        """The topology domain of each node as a small number; -1 for nodes without the label."""
        entry = self._domains.get(label)
        if entry is None:
            index: dict[str, int] = {}
            rows = np.full(len(self.nodes), -1, dtype=np.int64)
            for row in self.row_of.values():
                node = self.nodes[row]
                if node is not None:
                    rows[row] = _domain(index, node.metadata.labels.get(label))
            entry = self._domains[label] = (index, rows)
        return entry[1]

    def rows(self) -> Iterable[int]:
        return self.row_of.values()


def _domain(index: dict[str, int], value: str | None) -> int:
    return -1 if value is None else index.setdefault(value, len(index))
