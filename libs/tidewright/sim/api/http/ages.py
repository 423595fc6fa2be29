"""Durations as kubectl's tables print them: `45s`, `5m30s`, `3h12m`, `2d4h`, `380d`, `3y40d`."""

from __future__ import annotations

from tidewright.kube.times import seconds

UNKNOWN = "<unknown>"


def age(stamp: str | None, now_s: float) -> str:
    """The time since an RFC 3339 stamp."""
    if not stamp:
        return UNKNOWN
    try:
        return duration(now_s - seconds(stamp))
    except ValueError:
        return "<invalid>"


def duration(elapsed_s: float) -> str:
    """Short for people: two units while the smaller one still says something."""
    whole = int(elapsed_s)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = whole // 3600
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
