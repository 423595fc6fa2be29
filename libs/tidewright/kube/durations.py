"""Go's durations (`10s`, `1h30m`, `1.5ms`), as flags, annotations and configuration of Kubernetes have them. Pure.

To the nanosecond, as Go counts them. Tables of kubectl print ages otherwise: that is the API server's concern.
"""

from __future__ import annotations

import re
from typing import Final

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
_SECOND_NS = _UNITS_NS["s"]
_LONGEST_NS = (1 << 63) - 1
"""Some 292 years; the shortest is one nanosecond further below zero."""
LONGEST_S: Final = _LONGEST_NS // _SECOND_NS
"""Seconds that are said without a unit are no more either: clocks and calendars go no further than some thousands of years."""
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MOST_DIGITS = 20
"""No part of a duration has more that count: before the point it would be too long, behind it nothing changes."""


def parse_duration(text: str) -> float:
    """Seconds of a duration: numbers, each with its unit, summed; with a sign or without.

    Raises:
        ValueError: not numbers each followed by a unit (only `0` needs none), or more than 292 years;
            the message quotes the text.
    """
    total_ns = _nanoseconds(text.removeprefix("-") if text.startswith("-") else text.removeprefix("+"))
    if total_ns is None:
        raise ValueError(f"{text!r} is no duration: expected numbers with units, such as 10s or 1m30s")
    negative = text.startswith("-")
    if total_ns > _LONGEST_NS + negative:
        raise ValueError(f"{text!r} is too long for a duration: at most 292 years")
    return (-total_ns if negative else total_ns) / _SECOND_NS


def format_duration(seconds: float) -> str:
    """A duration as Go prints it: `10s`, `1m30s`, `1h0m0s`, `500ms`, `1.5µs`, `0s`."""
    total_ns = round(seconds * _SECOND_NS)
    sign, total_ns = ("-", -total_ns) if total_ns < 0 else ("", total_ns)
    if 0 < total_ns < _SECOND_NS:
        unit = next(unit for unit in ("ms", "µs", "ns") if total_ns >= _UNITS_NS[unit])
        return f"{sign}{_decimal(total_ns, _UNITS_NS[unit])}{unit}"
    minutes, rest_ns = divmod(total_ns, _UNITS_NS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest_ns, _SECOND_NS)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _nanoseconds(text: str) -> int | None:
    """Of a text without a sign; None when it is no duration."""
    if text == "0":
        return 0
    total_ns, position = 0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or not (part[1] or part[2]):
            return None
        unit_ns, whole, fraction = _UNITS_NS[part[3]], part[1].lstrip("0"), (part[2] or "")[:_MOST_DIGITS]
        if len(whole) > _MOST_DIGITS:
            return _LONGEST_NS + 2
        total_ns += int(whole or 0) * unit_ns + int(fraction or 0) * unit_ns // 10 ** len(fraction)
        position = part.end()
    return total_ns if text else None


def _decimal(amount: int, unit: int) -> str:
    """`amount / unit` exactly, without zeros at the end; `unit` is a power of ten."""
    whole, rest = divmod(amount, unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
