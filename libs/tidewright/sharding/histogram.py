"""A histogram that is part of a folded state, in Prometheus's cumulative form. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets, seconds: hand-overs take tenths of a second, restarts minutes."""


class Histogram(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Counts by bucket, the last one for all that is larger."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total: float = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, seconds; negative ones (clocks that were set back) count as none."""
        self.counts[bisect_left(BOUNDS_S, max(0.0, value))] += times
        self.total += max(0.0, value) * times

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Upper bound as text, and how many values are not above it."""
        below = 0
        for bound, count in zip((*map("{:g}".format, BOUNDS_S), "+Inf"), self.counts, strict=True):
            below += count
            yield bound, below
