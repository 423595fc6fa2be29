"""How busy each slot is: an exponentially weighted share of time, in percent of one worker (section 3.4)."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

TIME_CONSTANT_S = 30.0
SCALE = 100
"""Units of a slot that is worked on all the time."""


class Load:
    """Busy time by slot, on the clock of whoever gives the times."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._busy_s: dict[int, float] = {}
        self._share: dict[int, float] = {}

    def add(self, slot: int, seconds: float) -> None:
        """Count time spent on a slot."""
        self._busy_s[slot] = self._busy_s.get(slot, 0.0) + seconds

    def report(self, acting: Iterable[int], now: float) -> dict[int, int | None]:
        """Units of the slots that the member acts on; None for those that it no longer reports."""
        elapsed = now - self._since
        if elapsed > 0:
            keep = exp(-elapsed / TIME_CONSTANT_S)
            for slot in {*self._share, *self._busy_s}:
                share = self._busy_s.get(slot, 0.0) / elapsed
                # The first figure of a slot stands as it is: there is nothing to smooth it with.
                self._share[slot] = self._share.get(slot, share) * keep + share * (1 - keep)
            self._busy_s.clear()
            self._since = now
        mine = set(acting)
        units: dict[int, int | None] = {}
        for slot in sorted(self._share):
            units[slot] = round(self._share[slot] * SCALE) if slot in mine else None
        self._share = {slot: share for slot, share in self._share.items() if slot in mine}
        return units
