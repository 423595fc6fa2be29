"""Durations as kubectl's tables print them: `45s`, `5m30s`, `3h12m`, `2d4h`, `380d`, `3y40d`."""

from __future__ import annotations

from tidewright.sim.api.metadata import parse_stamp

UNKNOWN = "<unknown>"


def age(stamp: str | None, now_s: float) -> str:
    """The time since an RFC 3339 stamp."""
    if not stamp:
        return UNKNOWN
    try:
        return duration(now_s - parse_stamp(stamp))
    except ValueError:
        return "<invalid>"


def duration(elapsed_s: float) -> str:
    """Short for people: two units while the smaller one still says something."""
    seconds = int(elapsed_s)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = seconds // 3600
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    if days < 8 * 365:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"
