"""How long the parts of a decider's work take, and when each was last done.

A decider has no clock. One that names the parts of its work enters each through its attribute
`part`, which does nothing by itself; the host puts a `Stopwatch` in its place, whose histogram and
times are on `/metrics`. Nothing of it comes back to the decider.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol, TypeAlias

from prometheus_client import CollectorRegistry, Gauge, Histogram

Part: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Entered by name while a part of the work is done."""

BOUNDS_S: Final = tuple(round(0.0001 * 2**n, 6) for n in range(20))
"""Upper bounds of the buckets in seconds, from 0.1 ms to a minute."""


class Measured(Protocol):
    """A decider that names the parts of its work.

    Attributes:
        part: entered while a part is done.
        durations: name of the histogram of how long each took, by `function`.
        activity: name of the gauge of when each was last done, by `activity`.
        loop: the activity that is the host's loop itself.
    """

    part: Part
    durations: str
    activity: str
    loop: str


class Stopwatch:
    """Histogram and times of one decider's parts."""

    def __init__(
        self,
        decider: Measured,
        registry: CollectorRegistry,
        looped: Callable[[], float],
        *,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`looped`: seconds since the host's loop last turned."""
        self._clock, self._wall = clock, wall
        self._durations = Histogram(
            decider.durations,
            "Time that a part of the work took, in seconds of the process.",
            ["function"],
            buckets=BOUNDS_S,
            registry=registry,
        )
        self._activity = Gauge(
            decider.activity, "When a part of the work was last done, in seconds since the epoch.",
            ["activity"], registry=registry,
        )  # fmt: skip
        # A quiet loop is not a stuck one: it has looked, and found nothing to decide.
        self._activity.labels(decider.loop).set_function(lambda: wall() - looped())
        self._loop = decider.loop

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


def measured(decider: object) -> Measured | None:
    """The decider, when it names the parts of its work."""
    return decider if hasattr(decider, "part") and hasattr(decider, "durations") else None  # type: ignore[return-value]  # told by its attributes
