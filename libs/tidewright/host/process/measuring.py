"""How long the parts of a decider's work take, and when each was last done.

A decider has no clock. One that names the parts of its work (`tidewright.host.fold.parts`) enters each,
and a `Stopwatch` stands behind it, whose histogram and times are on `/metrics`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

from tidewright.host.fold.parts import Parts

BOUNDS_S: Final = tuple(round(0.0001 * 2**n, 6) for n in range(20))
"""Upper bounds of the buckets in seconds, from 0.1 ms to a minute."""


class Stopwatch:
    """Histogram and times of one decider's parts."""

    def __init__(
        self,
        parts: Parts,
        registry: CollectorRegistry,
        looped: Callable[[], float],
        *,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`looped`: seconds since the host's loop last turned."""
        self._clock, self._wall = clock, wall
        self._durations = Histogram(
            parts.durations,
            "Time that a part of the work took, in seconds of the process.",
            ["function"],
            buckets=BOUNDS_S,
            registry=registry,
        )
        self._activity = Gauge(
            parts.activity, "When a part of the work was last done, in seconds since the epoch.",
            ["activity"], registry=registry,
        )  # fmt: skip
        # A quiet loop is not a stuck one: it has looked, and found nothing to decide.
        self._activity.labels(parts.loop).set_function(lambda: wall() - looped())
        self._loop = parts.loop

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure one part."""
        began = self._clock()
        try:
            yield
        finally:
            self._durations.labels(name).observe(self._clock() - began)
            if name != self._loop:
                self._activity.labels(name).set(self._wall())
