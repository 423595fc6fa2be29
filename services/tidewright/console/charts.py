"""Drawings as SVG, with classes for the style sheet and titles for whoever points or listens. Pure.

Nothing in them is script or style of its own: the page's policy allows neither. Each chart is drawn wide and narrow, and the
style sheet shows the one that fits, so that its letters are read on a telephone, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from markupsafe import Markup, escape

from tidewright.console.words import clock, harmless, number

WIDE, NARROW = 960, 380
LEFT, RIGHT, TOP, BOTTOM, GAP = 52, 12, 22, 26, 34
TICKS_S = (
    1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
)  # fmt: skip
"""Steps between two times under a chart, seconds."""

Step: TypeAlias = tuple[float, float | None]
"""A log time, and the value from then on; None where there is none."""


@dataclass(frozen=True)
class Line:
    """A line that holds its value from one step to the next.

    Attributes:
        style: class of the style sheet, which also says it in the key.
        name: for people.
        filled: the area under it is drawn, too.
    """

    name: str
    style: str
    steps: Sequence[Step]
    filled: bool = False


@dataclass(frozen=True)
class Mark:
    """A decision on a chart.

    Attributes:
        way: 1 for more, -1 for less, 0 for none.
        value: where it stands on the axis; None for the bottom.
        href: what it leads to; `chosen` when that is what the page shows.
    """

    at: float
    way: int
    value: float | None
    text: str
    href: str
    shadow: bool = False
    chosen: bool = False


@dataclass(frozen=True)
class Panel:
    """One drawing above another, over the same time.

    Attributes:
        unit: under which its axis is counted.
        whole: only whole numbers stand at the axis.
    """

    title: str
    unit: str
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    height: int = 150
    whole: bool = False


def chart(panels: Sequence[Panel], start: float, end: float, label: str) -> Markup:
    """Panels over one stretch of time, wide and narrow."""
    drawn = [_drawn(panels, start, max(end, start + 1e-3), label, width) for width in (WIDE, NARROW)]
    wide, narrow = drawn
    return Markup(
        '<div class="chart"><div class="wide">{}</div><div class="narrow">{}</div></div>'
    ).format(  # both are escaped
        wide, narrow
    )


def _drawn(panels: Sequence[Panel], start: float, end: float, label: str, width: int) -> Markup:
    inner = width - LEFT - RIGHT

    def x(at: float) -> float:
        return LEFT + (min(max(at, start), end) - start) / (end - start) * inner

    parts: list[str] = []
    top = 0
    for panel in panels:
        parts += _panel(panel, top + TOP, x, width)
        top += TOP + panel.height + GAP - 12
    height = top + BOTTOM - 12
    parts += _times(start, end, x, height, width)
    body = "".join(parts)
    return Markup(  # noqa: S704  # every text in it is escaped where it is put in
        f'<svg viewBox="0 0 {width} {height}" role="group" aria-label="{_text(label)}" preserveAspectRatio="xMidYMin meet">{body}</svg>'
    )


def _panel(panel: Panel, top: int, x: Callable[[float], float], width: int) -> list[str]:
    low, high = _bounds(panel)
    height = panel.height

    def y(value: float) -> float:
        return top + height - (value - low) / (high - low) * height

    parts = [f'<text class="title" x="{LEFT}" y="{top - 8}">{_text(panel.title)}</text>']
    for value in _axis(low, high, whole=panel.whole) if panel.lines else ():
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
            f'<text class="axis" x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{_text(_short(value))}</text>'
        )
    end = width - RIGHT
    for line in panel.lines:
        if not any(value is not None for _, value in line.steps):
            continue
        path = _path(line.steps, x, y, end)
        if line.filled:
            parts.append(f'<path class="area {line.style}" d="{_area(line.steps, x, y, end, y(low))}"/>')
        parts.append(f'<path class="line {line.style}" d="{path}"><title>{_text(line.name)}</title></path>')
    parts += [_mark(mark, x, y, top + height) for mark in panel.marks]
    return parts


def _bounds(panel: Panel) -> tuple[float, float]:
    values = [value for line in panel.lines for _, value in line.steps if value is not None]
    low, high = min([0.0, *values]), max(values, default=1.0)
    if high <= low:
        high = low + 1
    return low, _ceiling(high, whole=panel.whole)


def _ceiling(value: float, *, whole: bool) -> float:
    """A round number at or above a value."""
    if value <= 0:
        return 1.0
    scale: float = 10 ** math.floor(math.log10(value))
    top = next(
        step * scale for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * scale >= value - 1e-12
    )
    return float(math.ceil(top)) if whole else top


def _axis(low: float, high: float, *, whole: bool) -> list[float]:
    count = 4
    if whole:
        step = max(1, math.ceil((high - low) / 4))
        return [low + step * n for n in range(math.floor((high - low) / step) + 1)]
    return [low + (high - low) * n / count for n in range(count + 1)]


def _short(value: float) -> str:
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= power * 10:
            return f"{value / power:,.4g}{letter}"
    return number(value)


def _path(steps: Sequence[Step], x: Callable[[float], float], y: Callable[[float], float], end: float) -> str:
    parts: list[str] = []
    down = False
    for at, value in steps:
        if value is None:
            if down:
                parts.append(f"H{x(at):.1f}")
            down = False
        elif down:
            parts.append(f"H{x(at):.1f}V{y(value):.1f}")
        else:
            parts.append(f"M{x(at):.1f},{y(value):.1f}")
            down = True
    if down:
        parts.append(f"H{end:.1f}")
    return "".join(parts)


def _area(
    steps: Sequence[Step], x: Callable[[float], float], y: Callable[[float], float], end: float, bottom: float
) -> str:
    parts: list[str] = []
    for n, (at, value) in enumerate(steps):
        if value is None:
            continue
        until = x(steps[n + 1][0]) if n + 1 < len(steps) else end
        parts.append(f"M{x(at):.1f},{bottom:.1f}V{y(value):.1f}H{until:.1f}V{bottom:.1f}Z")
    return "".join(parts)


def _mark(mark: Mark, x: Callable[[float], float], y: Callable[[float], float], bottom: float) -> str:
    here = x(mark.at)
    there = bottom if mark.value is None else y(mark.value)
    if mark.way:
        sign = -1 if mark.way > 0 else 1
        shape = f'<path d="M{here:.1f},{there + sign * 7:.1f}l5,{-sign * 11}h-10z"/>'
    else:
        shape = f'<circle cx="{here:.1f}" cy="{bottom:.1f}" r="3.5"/>'
    kind = "up" if mark.way > 0 else "down" if mark.way < 0 else "hold"
    classes = " ".join(
        ["mark", kind, *(["thought"] if mark.shadow else []), *(["chosen"] if mark.chosen else [])]
    )
    said = _text(f"{clock(mark.at)}: {mark.text}")
    # The ring is what a finger can hit.
    return (
        f'<a href="{_text(mark.href)}" class="{classes}" aria-label="{said}"><title>{said}</title>'
        f'<circle class="reach" cx="{here:.1f}" cy="{there:.1f}" r="11"/>{shape}</a>'
    )


def _times(start: float, end: float, x: Callable[[float], float], height: int, width: int) -> list[str]:
    most = 8 if width == WIDE else 3
    step = next((s for s in TICKS_S if (end - start) / s <= most), TICKS_S[-1])
    parts: list[str] = []
    at = math.ceil((start + (end - start) * 0.04) / step) * step
    while at <= end - (end - start) * 0.04:
        day = datetime.fromtimestamp(at, UTC)
        text = (
            f"{day:%b %d}"
            if step >= 86_400 or (step >= 300 and day.hour == day.minute == 0)
            else f"{day:%H:%M}"
            if step >= 60
            else f"{day:%H:%M:%S}"
        )
        parts.append(
            f'<line class="tick" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{TOP}" y2="{height - BOTTOM + 4}"/>'
            f'<text class="axis" x="{x(at):.1f}" y="{height - 8}" text-anchor="middle">{text}</text>'
        )
        at += step
    return parts


def _text(text: str) -> str:
    return str(escape(harmless(text)))


GAUGE, GAUGE_HEIGHT = 150, 26


def gauge(value: float | None, low: float | None, high: float | None, label: str) -> Markup:
    """A value against its marks: the band between them, and where the value is."""
    numbers = [n for n in (value, low, high) if n is not None]
    if not numbers:
        return Markup("")
    top = max(numbers) * 1.15 or 1.0
    bottom = min(0.0, *numbers)

    def x(n: float) -> float:
        return 4 + (n - bottom) / (top - bottom or 1.0) * (GAUGE - 8)

    parts = [f'<line class="track" x1="4" x2="{GAUGE - 4}" y1="13" y2="13"/>']
    if low is not None and high is not None:
        parts.append(
            f'<rect class="band" x="{x(low):.1f}" y="7" width="{max(2.0, x(high) - x(low)):.1f}" height="12" rx="2"/>'
        )
    if value is not None:
        where = (
            "above"
            if high is not None and value > high
            else "below"
            if low is not None and value < low
            else "within"
        )
        here = x(value)
        shape = {
            "above": f"M{here:.1f},4l6,9l-6,9l-6,-9z",
            "below": f"M{here:.1f},4l6,9l-6,9l-6,-9z",
            "within": f"M{here - 5:.1f},8h10v10h-10z",
        }[where]
        parts.append(f'<path class="value {where}" d="{shape}"/>')
    return Markup(  # noqa: S704  # its one text is escaped
        f'<svg class="gauge" viewBox="0 0 {GAUGE} {GAUGE_HEIGHT}" width="{GAUGE}" height="{GAUGE_HEIGHT}" role="img" '
        f'aria-label="{_text(label)}"><title>{_text(label)}</title>{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class Bucket:
    """A stretch of time with a count of each class of event."""

    start: float
    end: float
    counts: dict[str, int]
    href: str


def histogram(buckets: Sequence[Bucket], classes: Sequence[str], label: str) -> Markup:
    """Counts per stretch of time, one above the other by class; each bar leads to its stretch."""
    if not buckets:
        return Markup("")
    drawn = []
    for width, height in ((WIDE, 110), (NARROW, 120)):
        inner, top = width - LEFT - RIGHT, 10
        most = _ceiling(max(sum(b.counts.values()) for b in buckets) or 1, whole=True)
        panel = height - top - BOTTOM
        start, end = buckets[0].start, max(buckets[-1].end, buckets[0].start + 1e-3)

        def x(at: float, start: float = start, end: float = end, inner: int = inner) -> float:
            return LEFT + (at - start) / (end - start) * inner

        parts = []
        for value in (0.0, most):
            y = top + panel - value / most * panel
            parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                f'<text class="axis" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_text(_short(value))}</text>'
            )
        for bucket in buckets:
            parts.append(_bar(bucket, classes, x, (top, panel, most)))
        parts += _times(start, end, x, height, width)
        drawn.append(
            f'<svg viewBox="0 0 {width} {height}" role="group" aria-label="{_text(label)}">{"".join(parts)}</svg>'
        )
    return Markup(  # noqa: S704  # every text in it is escaped where it is put in
        f'<div class="chart"><div class="wide">{drawn[0]}</div><div class="narrow">{drawn[1]}</div></div>'
    )


def _bar(
    bucket: Bucket, classes: Sequence[str], x: Callable[[float], float], panel: tuple[int, int, float]
) -> str:
    top, height, most = panel
    left, width = x(bucket.start) + 0.5, max(1.0, x(bucket.end) - x(bucket.start) - 1)
    said = ", ".join(f"{n} {name}s" for name, n in bucket.counts.items() if n) or "nothing"
    label = _text(f"{clock(bucket.start)} to {clock(bucket.end)}: {said}")
    shapes, base = [], float(top + height)
    for name in classes:
        count = bucket.counts.get(name, 0)
        if count:
            tall = count / most * height
            base -= tall
            shapes.append(
                f'<rect class="bar {name}" x="{left:.1f}" y="{base:.1f}" width="{width:.1f}" height="{tall:.1f}"/>'
            )
    return (
        f'<a href="{_text(bucket.href)}" aria-label="{label}"><title>{label}</title>'
        f'<rect class="reach" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height}"/>{"".join(shapes)}</a>'
    )


@dataclass(frozen=True)
class Cell:
    """A node on a map: how full it is, 0 to 1."""

    fill: float
    style: str
    text: str
    href: str


def cells(these: Iterable[Cell], label: str, *, side: int = 14, columns: int = 60) -> Markup:
    """Many things of one kind as squares, each with its title; filled from below."""
    listed = list(these)
    drawn = []
    for across in (columns, max(8, columns // 3)):
        rows = math.ceil(len(listed) / across) or 1
        pitch = side + 2
        parts = []
        for n, cell in enumerate(listed):
            left, top = n % across * pitch, n // across * pitch
            tall = round(min(1.0, max(0.0, cell.fill)) * side, 1)
            said = _text(cell.text)
            parts.append(
                f'<a href="{_text(cell.href)}" aria-label="{said}" class="cell {cell.style}"><title>{said}</title>'
                f'<rect class="box" x="{left}" y="{top}" width="{side}" height="{side}" rx="2"/>'
                f'<rect class="fill" x="{left}" y="{top + side - tall:.1f}" width="{side}" height="{tall}" rx="2"/></a>'
            )
        drawn.append(
            f'<svg class="cells" viewBox="0 0 {across * pitch} {rows * pitch}" role="group" aria-label="{_text(label)}">{"".join(parts)}</svg>'
        )
    return Markup(  # noqa: S704  # every text in it is escaped where it is put in
        f'<div class="chart"><div class="wide">{drawn[0]}</div><div class="narrow">{drawn[1]}</div></div>'
    )


@dataclass(frozen=True)
class Stretch:
    """A run of slots with one owner, the end left out."""

    start: int
    end: int
    style: str
    text: str


def strip(stretches: Sequence[Stretch], slots: int, label: str) -> Markup:
    """Slots in their order, coloured by owner."""
    drawn = []
    for width in (WIDE, NARROW):
        parts = []
        for one in stretches:
            left, right = one.start / (slots or 1) * width, one.end / (slots or 1) * width
            gap = 0.6 if right - left > 3 else 0.0
            parts.append(
                f'<rect class="slot {one.style}" x="{left:.2f}" y="2" width="{right - left - gap:.2f}" height="26">'
                f"<title>{_text(one.text)}</title></rect>"
            )
        drawn.append(
            f'<svg viewBox="0 0 {width} 30" role="img" aria-label="{_text(label)}">{"".join(parts)}</svg>'
        )
    return Markup(  # noqa: S704  # every text in it is escaped where it is put in
        f'<div class="chart"><div class="wide">{drawn[0]}</div><div class="narrow">{drawn[1]}</div></div>'
    )
