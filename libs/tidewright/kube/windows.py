"""Windows of time that come again: a cron expression says when one opens, a duration for how long. Pure.

`0 8 * * mon-fri 10h` is open from eight to eighteen on working days; several are separated by `;`. All of it is UTC:
what a zone's clocks do is not on the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

import msgspec
from cronsim import CronSim, CronSimError

from tidewright.kube.durations import parse_duration

EXAMPLE = "'0 8 * * mon-fri 10h' (minute, hour, day, month and weekday in UTC, then how long)"
_FIELDS = 5
"""Of a cron expression."""
SHORTEST_S = 60.0
"""No window is open for less."""


class Window(msgspec.Struct, frozen=True):
    """It opens when its cron expression says so, for so many seconds."""

    schedule: str
    duration_s: float


class Standing(msgspec.Struct, frozen=True):
    """Whether one of several windows is open, and until when at least that stays so; None: for good."""

    open: bool
    until: float | None


@lru_cache(maxsize=4096)
def windows(text: str) -> tuple[Window, ...]:
    """Read windows separated by `;`.

    Raises:
        ValueError: one of them is none; the message quotes it and says what would be valid.
    """
    return tuple(_window(part) for part in text.split(";"))


def unreadable(schedule: str) -> str:
    """What of a cron expression cannot be read; empty of one that can."""
    parts = schedule.split()
    if len(parts) != _FIELDS:
        return f"it has {len(parts)} instead of {_FIELDS} parts"
    try:
        CronSim(schedule, datetime.fromtimestamp(0, UTC))
    except CronSimError as error:
        return f"its {str(error).removeprefix('Bad ')} cannot be read"
    return ""


def _window(text: str) -> Window:
    try:
        window = _read(text)
    except ValueError as error:
        raise ValueError(f"{error}; valid is for instance {EXAMPLE}") from error
    if wrong := unreadable(window.schedule):
        raise ValueError(f"{text.strip()!r}: {wrong}; valid is for instance {EXAMPLE}")
    return window


def _read(text: str) -> Window:
    parts = text.split()
    if len(parts) != _FIELDS + 1:
        raise ValueError(f"{text.strip()!r} has {len(parts)} parts")
    duration_s = parse_duration(parts[-1])
    if duration_s < SHORTEST_S:
        raise ValueError(f"{text.strip()!r} is open for less than a minute")
    return Window(" ".join(parts[:-1]), duration_s)


def standing(several: Sequence[Window], at: float) -> Standing:
    """Whether one of these is open at a time (seconds since the epoch), and when to look again."""
    ends: list[float] = []
    opens: list[float] = []
    for window in several:
        before, after = _around(window.schedule, int(at // 60))
        if before is not None and at < before + window.duration_s:
            ends.append(before + window.duration_s)
        if after is not None:
            opens.append(after)
    if ends:
        return Standing(open=True, until=max(ends))
    return Standing(open=False, until=min(opens, default=None))


@lru_cache(maxsize=8192)
def _around(schedule: str, minute: int) -> tuple[float | None, float | None]:
    """The last opening up to a minute since the epoch, and the next one after it."""
    now = datetime.fromtimestamp(minute * 60, UTC)
    before = next(CronSim(schedule, now.replace(second=1), reverse=True), None)
    after = next(CronSim(schedule, now), None)
    return _seconds(before), _seconds(after)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
