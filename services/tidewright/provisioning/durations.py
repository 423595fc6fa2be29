"""Durations as people write them in flags, parameters and annotations (`90m`, `1h30m`, `1.5s`)."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


class DurationError(ValueError):
    """The text is no duration; the message shows valid ones."""


def parse_duration_s(text: str) -> float:
    """Seconds of a duration: numbers with units, summed, with an optional sign.

    Raises:
        DurationError: it is none.
    """
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    total, position = 0.0, 0
    for match in _PART.finditer(body):
        if match.start() != position:
            break
        total += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    if not body or position != len(body):
        raise DurationError(f"{text!r} is not a duration; valid are for instance 90s, 5m, 1h30m")
    return -total if text.startswith("-") else total


def duration_text(seconds: float) -> str:
    """As the reference prints whole seconds: `3m0s`, `1h0m0s`, `45s`."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{secs}s"
    return f"{minutes}m{secs}s" if minutes else f"{secs}s"
