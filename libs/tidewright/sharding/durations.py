"""Durations as the original's configuration writes them: `10s`, `1m30s`, `1.5h`, `-2ms`."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds in a duration text.

    Raises:
        ValueError: not numbers each followed by a unit; only `0` needs none.
    """
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    total_ns = Fraction(0)
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            break
        total_ns += Fraction(part[1]) * _UNITS_NS[part[2]]
        position = part.end()
    if not rest or position < len(rest):
        raise ValueError(f"{text!r} is no duration: expected numbers with units, such as 10s or 1m30s")
    seconds = float(total_ns / 1_000_000_000)
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """A duration in seconds as text, as the original prints it (`10s`, `1m30s`, `1h0m0s`, `500ms`)."""
    if seconds == 0:
        return "0s"
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 1:
        for unit, scale in (("ms", 1e3), ("µs", 1e6)):
            if seconds * scale >= 1:
                return f"{sign}{seconds * scale:.9g}{unit}"
        return f"{sign}{seconds * 1e9:.0f}ns"
    whole, rest = divmod(seconds, 60)
    text = f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(int(whole), 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"
