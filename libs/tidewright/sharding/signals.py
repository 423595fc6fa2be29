"""What a worker tells of its work besides its busy time: backlog, queue wait, errors, refused writes, hot keys.

hot keys    the top ten of a slot by busy time, by a space-saving sketch: what the largest ones are is
            right, how large they are is an upper bound
queue wait  the 99th percentile of the last waits
errors      share of failed pieces of work, exponentially weighted
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

TOP_KEYS = 10
SKETCH = 32
"""Keys that a sketch keeps; the top ten of them are told."""
WAITS = 1000
"""Waits of which the percentile is taken."""
WEIGHT = 0.02
"""Of the newest piece of work in the share of errors: the last fifty or so count."""
TOLD_SLOTS = 3
"""Slots whose hot keys are told: the busiest."""


class SpaceSaving:
    """The heaviest keys of a stream in bounded space (Metwally, Agrawal, El Abbadi 2005)."""

    def __init__(self, capacity: int = SKETCH) -> None:
        self.capacity = capacity
        self.weights: dict[str, float] = {}

    def add(self, key: str, weight: float) -> None:
        """Count a key. A new one takes the place of the lightest, and its weight as an upper bound."""
        if key in self.weights or len(self.weights) < self.capacity:
            self.weights[key] = self.weights.get(key, 0.0) + weight
            return
        lightest = min(self.weights, key=lambda k: (self.weights[k], k))
        self.weights[key] = self.weights.pop(lightest) + weight

    def top(self, count: int = TOP_KEYS) -> list[str]:
        """The heaviest keys, the heaviest first."""
        return sorted(self.weights, key=lambda k: (-self.weights[k], k))[:count]

    def fade(self) -> None:
        """Let the past weigh half as much."""
        self.weights = {key: weight / 2 for key, weight in self.weights.items()}


class Signals:
    """Of one worker process."""

    def __init__(self) -> None:
        self._sketches: dict[int, SpaceSaving] = {}
        self._busy: dict[int, float] = {}
        self._waits: deque[float] = deque(maxlen=WAITS)
        self._backlog: dict[int, int] = {}
        self._errors: float | None = None
        self.fenced = 0

    def busy(self, slot: int, seconds: float, key: str) -> None:
        """Count time spent on a key of a slot."""
        self._busy[slot] = self._busy.get(slot, 0.0) + seconds
        if key:
            self._sketches.setdefault(slot, SpaceSaving()).add(key, seconds)

    def waited(self, seconds: float) -> None:
        """Count how long a piece of work has waited for its turn."""
        self._waits.append(seconds)

    def backlog(self, slot: int, count: int) -> None:
        """Say how much work of a slot waits."""
        self._backlog[slot] = count

    def done(self, *, failed: bool) -> None:
        """Count a piece of work that has ended."""
        share = 1.0 if failed else 0.0
        self._errors = share if self._errors is None else self._errors * (1 - WEIGHT) + share * WEIGHT

    def report(self, acting: Iterable[int]) -> dict[str, Any]:
        """What is told now, and for which slots; None removes what was told before."""
        mine = set(acting)
        busiest = sorted(mine & set(self._sketches), key=lambda s: (-self._busy.get(s, 0.0), s))[:TOLD_SLOTS]
        signals: dict[str, Any] = {
            "backlog": sum(n for slot, n in self._backlog.items() if slot in mine) if self._backlog else None,
            "waitP99": self._wait_p99(),
            "errorShare": None if self._errors is None else round(self._errors, 4),
            "fenced": self.fenced or None,
            "hot": [{"slot": slot, "keys": self._sketches[slot].top()} for slot in busiest] or None,
        }
        for sketch in self._sketches.values():
            sketch.fade()
        self._busy = {slot: seconds / 2 for slot, seconds in self._busy.items() if slot in mine}
        self._sketches = {slot: sketch for slot, sketch in self._sketches.items() if slot in mine}
        self._backlog = {slot: count for slot, count in self._backlog.items() if slot in mine}
        return signals

    def _wait_p99(self) -> float | None:
        if not self._waits:
            return None
        ordered = sorted(self._waits)
        return round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 4)
