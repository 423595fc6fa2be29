"""The one timer event."""

from __future__ import annotations

from tidewright.events.base import Timer


class TimerFired(Timer, frozen=True, kw_only=True, tag="timer.fired.v1"):
    """A timer's due time has come; `at` is the due time, not the time of delivery."""
