"""A small chart of a step function over time, in text. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from datetime import UTC, datetime

LONG_S = 90 * 86_400
"""Of a longer time than this, the year says more than the minute."""
BLOCKS = " ▁▂▃▄▅▆▇█"


def sampled(points: Sequence[tuple[float, float]], start: float, end: float, width: int) -> list[float]:
    """The greatest value within each of `width` equal spans; the value in force where nothing changes."""
    times = [at for at, _ in points]
    values = []
    for column in range(width):
        begin = start + (end - start) * column / width
        until = start + (end - start) * (column + 1) / width
        first = max(0, bisect.bisect_right(times, begin) - 1)
        last = max(first + 1, bisect.bisect_left(times, until))
        values.append(max((value for _, value in points[first:last]), default=0.0))
    return values


def bars(values: Sequence[float], height: int) -> list[str]:
    """Columns of eighths of a line, the top line first."""
    top = max(values, default=0.0) or 1.0
    eighths = [round(value / top * height * 8) for value in values]
    return [
        "".join(BLOCKS[min(8, max(0, e - line * 8))] for e in eighths).rstrip()
        for line in reversed(range(height))
    ]


def chart(
    title: str, points: Sequence[tuple[float, float]], start: float, end: float, *, width: int, height: int
) -> list[str]:
    """The lines of a chart with its scale and its first and last time."""
    if not points or end <= start:
        return [f"{title}: nothing recorded"]
    values = sampled(points, start, end, width)
    top = max(values)
    label = len(f"{top:g}")
    lines = [title]
    for index, bar in enumerate(bars(values, height)):
        scale = f"{top:g}" if index == 0 else ("0" if index == height - 1 else "")
        lines.append(f"{scale:>{label}} |{bar}")
    first, last = (day(start), day(end)) if end - start > LONG_S else (clock(start), clock(end))
    lines.append(f"{'':>{label}}  {first}{last:>{max(1, width - len(first))}}")
    return lines


def clock(at: float) -> str:
    """Log time for people: UTC, to the minute."""
    return datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M")


def day(at: float) -> str:
    """Log time for people: UTC, to the day."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
