"""Wall time to log time and back, as the last `ClockSet` says.

Watcher, sim and hosts read it; deciders do not know that it exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidewright.events.config import ClockSet


class Clock:
    """The mapping in force: identity until a `ClockSet` is given."""

    def __init__(self, wall: Callable[[], float] = time.time, setting: ClockSet | None = None) -> None:
        self._wall = wall
        self.setting = setting

    @property
    def speed(self) -> float:
        """Log seconds per wall second."""
        return self.setting.speed if self.setting else 1.0

    def set(self, setting: ClockSet | None) -> None:
        """Follow another mapping from now on; None is the identity."""
        self.setting = setting

    def now(self) -> float:
        """Log time, seconds since the epoch."""
        return self.log_of(self._wall())

    def log_of(self, wall: float) -> float:
        """The log time at this wall time."""
        if self.setting is None:
            return wall
        return self.setting.log + (wall - self.setting.wall) * self.setting.speed

    def wall_of(self, log: float) -> float:
        """The wall time at this log time."""
        if self.setting is None:
            return log
        return self.setting.wall + (log - self.setting.log) / self.setting.speed

    def wall_seconds(self, log_seconds: float) -> float:
        """How long a span of log time takes on the wall."""
        return log_seconds / self.speed
