"""Nodes by how well they suit a shape, kept from one pod to the next.

Placing a pod changes one row, so the next pod of the same shape needs one row rated again and one
maximum, instead of every filter and score over all nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from tidewright.sim.scheduler.table import Floats, NodeTable, Numbers

KEPT: Final = 256
"""Shapes whose ratings are kept; the oldest goes when there are more."""


class _Ranking(msgspec.Struct):
    """Ratings of all rows as of some point in the table's notes; below 0 is no candidate."""

    ratings: Floats
    epoch: int
    seen: int


class Rankings:
    """Ratings by shape over one table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kept: dict[bytes, _Ranking] = {}

    def best(self, key: bytes, rate: Callable[[Numbers], Floats]) -> int | None:
        """The best rated row, the lowest among equals; None when no row is a candidate.

        Args:
            key: of the shape.
            rate: rates the rows it is given; below 0 for no candidate.
        """
        table = self._table
        size = len(table.nodes)
        if size == 0:
            return None
        ranking = self._kept.get(key)
        if ranking is None or ranking.epoch != table.epoch or len(ranking.ratings) != size:
            ranking = self._make(key, rate(np.arange(size)))
        elif ranking.seen < len(table.changes):
            rows = np.array(sorted(set(table.changes[ranking.seen :])), dtype=np.int64)
            ranking.ratings[rows] = rate(rows)
            ranking.seen = len(table.changes)
        best = int(np.argmax(ranking.ratings))
        return best if ranking.ratings[best] >= 0 else None

    def _make(self, key: bytes, ratings: Floats) -> _Ranking:
        self._kept.pop(key, None)
        if len(self._kept) >= KEPT:
            self._kept.pop(next(iter(self._kept)))
        ranking = self._kept[key] = _Ranking(ratings, self._table.epoch, len(self._table.changes))
        return ranking
