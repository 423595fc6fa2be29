"""What one look at an object concludes: writes, in which order, and when to look again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from tidewright.sim.controllers.cache import Cache, KindStore
from tidewright.sim.controllers.objects import ClientKind, Key, Pod
from tidewright.sim.controllers.writes import Write


class Plan(msgspec.Struct):
    """The outcome of one `reconcile`.

    Attributes:
        writes: sent side by side.
        after: sent when those were answered (statuses).
        again_s: log seconds after which to look again, 0 for at once; None waits for a change.
    """

    writes: list[Write] = []
    after: list[Write] = []
    again_s: float | None = None

    def look_again(self, after_s: float | None) -> None:
        """Look again after so many log seconds, unless it is to happen earlier anyway."""
        if after_s is not None and (self.again_s is None or after_s < self.again_s):
            self.again_s = after_s


class Controller(Protocol):
    """One workload controller; it holds no state of its own."""

    @property
    def kind(self) -> ClientKind[Any]: ...

    @property
    def name(self) -> str: ...

    def watches(self, cache: Cache) -> list[KindStore[Any]]:
        """The stores whose changes matter."""

    def keys(self, item: Any) -> Iterable[Key]:
        """The keys of its own kind that a changed object concerns."""

    def reconcile(self, cache: Cache, key: Key, now: float) -> Plan:
        """Pure: what to write so that the object gets closer to its spec. `now` is log time."""


def next_availability(pods: Iterable[Pod], min_ready_s: int, now: float) -> float | None:
    """Log seconds until the next ready pod counts as available; None when none waits for that."""
    if min_ready_s == 0:
        return None
    waits = [
        pod.ready_since + min_ready_s - now
        for pod in pods
        if pod.ready and not pod.available(min_ready_s, now)
    ]
    return max(min(waits), 0.0) if waits else None
