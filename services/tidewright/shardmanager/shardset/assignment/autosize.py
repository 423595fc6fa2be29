"""How many shards a load needs (section 3.8), and how fast their number may follow.

    recommend    the number that the load calls for at this moment
    Follower     hysteresis: growth at most doubles a minute, shrinking waits for a quiet window

Amounts are exact (`Fraction`), because a load of exactly its target must not round up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import msgspec

BAND = Fraction(1, 10)
LATENCY_BAND = Fraction(11, 10)
SHRINK_WINDOW_S = 300.0
SHRINK_PERIOD_S = 60.0
GROWTH_PERIOD_S = 60.0
KEPT_S = 3600.0
"""How long is remembered what was recommended and done: far longer than any window or period that is asked for."""


def exact(number: float | int | str | Fraction) -> Fraction:
    """The number that was written: 0.7 is seven tenths, not the nearest binary fraction."""
    return number if isinstance(number, Fraction) else Fraction(str(number))


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the load.

    Attributes:
        loads: of the shards that reported, in units of `capacity`.
        missing: shards that did not report.
        capacity: what one shard can carry at most.
        utilisation: the share of it that is wanted.
        latency_ratio: p99 queue wait by its objective, None without such an objective.
    """

    loads: tuple[Fraction, ...]
    capacity: Fraction
    utilisation: Fraction
    missing: int = 0
    latency_ratio: Fraction | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the number of shards. `useful`: counts that relieve the busiest shard, ascending."""

    minimum: int = 1
    maximum: int = 16
    useful: tuple[int, ...] = ()

    def clamp(self, count: int) -> int:
        """The nearest allowed count; rounded up to a useful one, down where the maximum forbids that."""
        bounded = max(self.minimum, min(self.maximum, count))
        if not self.useful:
            return bounded
        fitting = [c for c in self.useful if self.minimum <= c <= self.maximum]
        return next((c for c in fitting if c >= bounded), fitting[-1] if fitting else bounded)


def recommend(current: int, demand: Demand, limits: Limits) -> int:
    """The number of shards for this demand.

    A shard that does not report counts as fully loaded against shrinking and as idle for growing.
    """
    target = demand.capacity * demand.utilisation
    known = sum(demand.loads, Fraction(0))
    grow = ceil(known / target)
    if not demand.missing and abs(known / (current * target) - 1) <= BAND:
        desired = current
    elif grow >= current:
        desired = grow
    else:
        desired = min(current, ceil((known + demand.missing * target) / target))
    ratio = demand.latency_ratio
    if ratio is not None and ratio > LATENCY_BAND:
        desired = max(desired, min(2 * current, ceil(current * ratio)))
    return limits.clamp(desired)


class Recommendation(msgspec.Struct, frozen=True):
    """A recommendation and when it was made (log time, seconds)."""

    at: float
    desired: int


class Growth(msgspec.Struct, frozen=True):
    """Shards were added: when (log time, seconds), and how many there were before."""

    at: float
    before: int


class Follower(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The memory of auto-sizing: what was recommended and done, whatever follows from it.

    Attributes:
        samples: recommendations of the last `KEPT_S`.
        since: when the first one was made.
        growths: how shards were added within the last `KEPT_S`.
        shrunk_at: last time a shard was taken away.
    """

    samples: list[Recommendation] = []
    since: float | None = None
    growths: list[Growth] = []
    shrunk_at: float | None = None

    def observe(self, at: float, desired: int) -> None:
        """Remember a recommendation. Lists are made anew, so that a copy may be told what its original is not."""
        if self.since is None:
            self.since = at
        self.samples = [s for s in self.samples if s.at > at - KEPT_S]
        self.samples.append(Recommendation(at, desired))

    def changed(self, at: float, before: int, after: int) -> None:
        """Remember that the count was set."""
        if after > before:
            self.growths = [growth for growth in self.growths if growth.at > at - KEPT_S]
            self.growths.append(Growth(at, before))
        elif after < before:
            self.shrunk_at = at

    def follow(self, at: float, current: int, desired: int, *, frozen: bool = False) -> int:
        """The count to set now. `frozen`: a rollout, a doubling or a stuck shard is open."""
        if frozen or desired == current:
            return current
        if desired > current:
            period = self._growth_period()
            running = period is not None and at - period.at < GROWTH_PERIOD_S
            base = period.before if period is not None and running else current
            return max(current, min(desired, 2 * max(1, base)))
        window_full = self.since is not None and at - self.since >= SHRINK_WINDOW_S
        quiet = (
            window_full
            and max((s.desired for s in self.samples if s.at > at - SHRINK_WINDOW_S), default=current)
            < current
        )
        rested = self.shrunk_at is None or at - self.shrunk_at >= SHRINK_PERIOD_S
        return current - 1 if quiet and rested else current

    def _growth_period(self) -> Growth | None:
        """The growth that began the last period: the first one after the period before."""
        period: Growth | None = None
        for growth in self.growths:
            if period is None or growth.at - period.at >= GROWTH_PERIOD_S:
                period = growth
        return period


def known_loads(values: Sequence[float]) -> tuple[Fraction, ...]:
    """Reported loads as exact amounts."""
    return tuple(map(exact, values))
