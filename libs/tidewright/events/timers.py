"""The timer events."""

from __future__ import annotations

from tidewright.events.base import Timer


class TimerFired(Timer, frozen=True, kw_only=True, tag="timer.fired.v1"):
    """A timer's due time has come; `at` is the due time, not the time of delivery."""


class TimerStepped(Timer, frozen=True, kw_only=True, tag="timer.stepped.v1"):
    """A timer further away than the log's retention is set in steps, and this is one of them.

    The host sets the next step; deciders never see it. `at` is the due time of the timer itself.
    """
