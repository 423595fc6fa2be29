"""The result of a backtest as one HTML page that needs nothing else: figures, charts, every decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import TypeAlias

from tidewright.autoscaler.backtest import Point, Step
from tidewright.autoscaler.passes.limits import LIMITS
from tidewright.autoscaler.tell.sentences import sentences
from tidewright.cli.backtest.runs import COLUMNS, Result, Run, shown
from tidewright.cli.backtest.text import recorded
from tidewright.kube.times import rfc3339

WIDTH, LEFT, RIGHT = 1040, 64, 12
PANEL, GAP, TOP, BOTTOM = 190, 34, 22, 30
MOST_MARKS = 200
"""Of a run; more would hide the lines that they stand on."""
MOST_DECISIONS = 500
"""Told on the page, per run; a page of a year's decisions would be slow to open."""
MOST_LINES = 6
"""Runs in one chart; a sweep may have more, which the table shows."""
COLOURS = ("--one", "--two", "--three", "--four", "--five", "--six")

Place: TypeAlias = Callable[[float], float]
"""From a time or a value to a place in the drawing."""
Height: TypeAlias = Callable[[float, float, float, float], float]
"""Likewise, of value, bottom and top of the axis, and where its panel begins."""

HEADINGS = {
    "REPLICA-HOURS": ("Replica-hours", "Replicas, times the hours that they were asked for"),
    "ABOVE-HIGH": ("Above high mark", "Time that a metric was above its high watermark"),
    "BELOW-LOW": ("Below low mark", "Time that a metric was below its low watermark"),
    "SCALES": ("Scales", "Changes of the count"),
    "UP": ("Up", "Changes to more"),
    "DOWN": ("Down", "Changes to fewer"),
    "WORST-SHORTFALL": (
        "Worst shortfall",
        "Most replicas that were ever missing to bring a metric under its high mark",
    ),
    "LEAST": ("Least", "Fewest replicas"),
    "MOST": ("Most", "Most replicas"),
}
"""What the page calls each figure, and explains it with."""

TICKS_S = (
    60,
    300,
    900,
    1800,
    3600,
    3 * 3600,
    6 * 3600,
    12 * 3600,
    *(86400 * n for n in (1, 2, 7, 14, 28, 56, 91, 182, 364)),
)
MOST_TICKS = 8

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6b7b; --line: #d9e0e7; --ground: #fff; --panel: #f6f8fa;
  --load: #8a97a6; --one: #0b6bcb; --two: #c2410c; --three: #15803d; --four: #7e22ce; --five: #b45309; --six: #0e7490; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa8b6; --line: #2d3742; --ground: #10161d;
  --panel: #182029; --load: #76869a; --one: #58a6ff; --two: #ff8a5c; --three: #56d364; --four: #d2a8ff; --five: #e3b341;
  --six: #4fd1e0; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 2rem auto;
  max-width: 66rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.sub { color: var(--soft); margin: 0 0 1.5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; font-size: .78rem; letter-spacing: .02em; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
tr.best td.best { font-weight: 700; } td.best { color: var(--three); font-weight: 700; }
svg { width: 100%; height: auto; display: block; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } svg .title { fill: var(--ink); font-weight: 600; }
.key { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; margin: .6rem 0 0; padding: 0; list-style: none; }
.key i { display: inline-block; width: 1.4em; height: 0; border-top: 3px solid; vertical-align: middle; margin-right: .4em; }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
summary b { font-variant-numeric: tabular-nums; } details ul { margin: .3rem 0 .6rem; color: var(--soft); }
.up::before { content: "\\25B2\\00A0"; color: var(--two); } .down::before { content: "\\25BC\\00A0"; color: var(--one); }
.list { max-height: 30rem; overflow-y: auto; border: 1px solid var(--line); border-radius: 6px; padding: 0 .8rem; }
.list details:last-child { border-bottom: 0; } summary time { color: var(--soft); font-variant-numeric: tabular-nums; }
summary b { display: inline-block; min-width: 5.5em; margin: 0 .8em; } summary span { color: var(--soft); }
"""


def as_html(result: Result) -> str:
    """The page."""
    series = result.series
    first, last = series.span
    title = "Backtest: " + " and ".join(run.candidate.label for run in result.runs[:2])
    if len(result.runs) > 2:
        title = f"Backtest: {len(result.runs)} policies"
    model = (
        "a total that the ready replicas share"
        if result.model.shared
        else "the value itself, whatever the replicas"
    )
    about = (
        f"{series.source}: {len(series):,} samples, {rfc3339(first)} to {rfc3339(last)}. The load is {model}; a new pod is "
        f"ready after {result.model.ready_delay_s:g} s."
    )
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">{escape(about)}</p>',
        f'<div class="scroll">{_table(result)}</div>',
        "<h2>Load, replicas and decisions</h2>",
        _chart(result.runs[:MOST_LINES], first, last),
        _key(result.runs),
    ]
    for run in result.runs[: 1 if result.swept else None]:
        count = len(run.report.steps)
        parts += [f"<h2>{count:,} decisions of {escape(run.candidate.label)}</h2>", _decisions(run)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _table(result: Result) -> str:
    best: dict[int, float] = {}
    if len(result.runs) > 1:
        for n, (heading, _, value) in enumerate(COLUMNS):
            if heading not in ("BELOW-LOW", "LEAST", "MOST", "UP", "DOWN"):
                figures = [value(run.report) for run in result.runs]
                if min(figures) != max(figures):
                    best[n] = min(figures)
    head = "<th scope=col>Policy</th>" + "".join(
        f'<th scope=col title="{escape(HEADINGS[heading][1])}">{escape(HEADINGS[heading][0])}</th>'
        for heading, _, _ in COLUMNS
    )
    rows = []
    if result.series.recorded:
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in recorded(result)) + "</tr>")
    for run in result.runs:
        cells = [f"<td>{escape(run.candidate.label)}</td>"]
        for n, (_, form, value) in enumerate(COLUMNS):
            figure = value(run.report)
            mark = " class=best" if best.get(n) == figure else ""
            cells.append(f"<td{mark}>{escape(shown(form, figure))}</td>")
        rows.append("<tr>" + "".join(cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _chart(runs: Sequence[Run], first: float, last: float) -> str:
    width = WIDTH - LEFT - RIGHT
    span = max(last - first, 1e-9)

    def x(at: float) -> float:
        return LEFT + (at - first) / span * width

    points = runs[0].report.chart
    load_top = _ceiling(max((p.load_high for p in points), default=1.0))
    replicas_top = _ceiling(
        max((p.replicas_high for run in runs for p in run.report.chart), default=1), whole=True
    )
    load_bottom = min(0.0, min((p.load_low for p in points), default=0.0))

    def y(value: float, bottom: float, top: float, offset: float) -> float:
        return offset + PANEL - (value - bottom) / (top - bottom or 1.0) * PANEL

    second = TOP + PANEL + GAP
    height = second + PANEL + BOTTOM
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Load and replicas over time">',
        *_grid("Load", load_bottom, load_top, TOP, y),
        *_grid("Replicas", 0, replicas_top, second, y, whole=True),
        _band(points, last, x, lambda v: y(v, load_bottom, load_top, TOP)),
    ]
    for n, run in enumerate(runs):
        parts.append(
            _steps(
                run.report.chart, last, x, lambda v: y(v, 0, replicas_top, second), COLOURS[n % len(COLOURS)]
            )
        )
    if len(runs) <= 2:
        for n, run in enumerate(runs):
            parts += [
                _mark(step, x(step.at), y(step.to_replicas, 0, replicas_top, second), COLOURS[n])
                for step in (run.report.steps if len(run.report.steps) <= MOST_MARKS else ())
            ]
    for at, text in _ticks(first, last):
        here = f"{x(at):.1f}"
        ends = f'x1="{here}" x2="{here}" y1="{TOP}" y2="{second + PANEL}"'
        parts += [
            f'<line {ends} stroke="var(--line)" stroke-dasharray="2 4"/>',
            f'<text x="{here}" y="{height - 10}" text-anchor="middle">{text}</text>',
        ]
    return "\n".join([*parts, "</svg>"])


def _ticks(first: float, last: float) -> list[tuple[float, str]]:
    """Round times of the span (UTC), as many as find room, and what is written under them."""
    step = next((s for s in TICKS_S if (last - first) / s <= MOST_TICKS), TICKS_S[-1])
    margin = (last - first) * 0.03  # a text there would leave the drawing
    ticks: list[tuple[float, str]] = []
    at = float(math.ceil((first + margin) / step) * step)
    while at <= last - margin:
        day, time = rfc3339(at)[:10], rfc3339(at)[11:16]
        ticks.append((at, day if step >= 86400 or (time == "00:00" and step >= 3600) else time))
        at += step
    if ticks and not any("-" in text for _, text in ticks):
        ticks[0] = (ticks[0][0], rfc3339(ticks[0][0])[:16].replace("T", " "))
    return ticks


def _grid(
    title: str, bottom: float, top: float, offset: float, y: Height, *, whole: bool = False
) -> list[str]:
    parts = [f'<text class="title" x="8" y="{offset - 8}">{title}</text>']
    ticks = min(4, max(1, round(top - bottom))) if whole else 4
    for n in range(ticks + 1):
        value = bottom + (top - bottom) * n / ticks
        at = y(value, bottom, top, offset)
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--line)"/>',
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:,.4g}</text>',
        ]
    return parts


def _band(points: Sequence[Point], last: float, x: Place, y: Place) -> str:
    """Least and greatest load of each stretch, as an area."""
    if not points:
        return ""
    ends = [p.at for p in points[1:]] + [last]
    over = [
        f"{x(a):.1f},{y(p.load_high):.1f} {x(b):.1f},{y(p.load_high):.1f}"
        for p, a, b in _stretches(points, ends)
    ]
    under = [
        f"{x(b):.1f},{y(p.load_low):.1f} {x(a):.1f},{y(p.load_low):.1f}"
        for p, a, b in _stretches(points, ends)
    ]
    shape = " ".join([*over, *reversed(under)])
    return (
        f'<polygon points="{shape}" fill="var(--load)" fill-opacity=".35" stroke="var(--load)" stroke-width="1.2" '
        'stroke-linejoin="round"/>'
    )


def _stretches(points: Sequence[Point], ends: Sequence[float]) -> list[tuple[Point, float, float]]:
    return [(p, p.at, end) for p, end in zip(points, ends, strict=True)]


def _steps(points: Sequence[Point], last: float, x: Place, y: Place, colour: str) -> str:
    if not points:
        return ""
    path = [f"M{x(points[0].at):.1f},{y(points[0].replicas_high):.1f}"]
    for p in points[1:]:
        path.append(f"H{x(p.at):.1f}V{y(p.replicas_high):.1f}")
    path.append(f"H{x(last):.1f}")
    return f'<path d="{"".join(path)}" fill="none" stroke="var({colour})" stroke-width="1.8"/>'


def _mark(step: Step, x: float, y: float, colour: str) -> str:
    up = step.to_replicas > step.from_replicas
    shape = f"M{x:.1f},{y - 5:.1f}l4,7h-8z" if up else f"M{x:.1f},{y + 5:.1f}l4,-7h-8z"
    why = sentences(step.because)
    text = f"{rfc3339(step.at)}: {step.from_replicas} -> {step.to_replicas}\n" + "\n".join(why)
    return f'<path d="{shape}" fill="var({colour})"><title>{escape(text)}</title></path>'


def _key(runs: Sequence[Run]) -> str:
    items = ['<li><i style="border-color:var(--load)"></i>load, least to greatest</li>']
    items += [
        f'<li><i style="border-color:var({COLOURS[n]})"></i>replicas, {escape(run.candidate.label)}</li>'
        for n, run in enumerate(runs[:MOST_LINES])
    ]
    if len(runs) > MOST_LINES:
        items.append(f"<li>{len(runs) - MOST_LINES} more in the table</li>")
    return f'<ul class="key">{"".join(items)}</ul>'


def _decisions(run: Run) -> str:
    steps = run.report.steps
    if not steps:
        return "<p>Nothing was ever scaled.</p>"
    entries = []
    for step in steps[:MOST_DECISIONS]:
        way = "up" if step.to_replicas > step.from_replicas else "down"
        why = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(step.because))
        entries.append(
            f'<details><summary class="{way}"><time>{rfc3339(step.at)[:19].replace("T", " ")}</time>'
            f"<b>{step.from_replicas} &rarr; {step.to_replicas}</b><span>{escape(_reason(step))}</span>"
            f"</summary><ul>{why}</ul></details>"
        )
    if len(steps) > MOST_DECISIONS:
        entries.append(f"<p>{len(steps) - MOST_DECISIONS:,} more are in the JSON form.</p>")
    return '<div class="list">' + "\n".join(entries) + "</div>"


def _reason(step: Step) -> str:
    """The reason in the reference's words, and what bounded the step."""
    fields = [LIMITS[because.rule].field for because in step.because if because.rule in LIMITS]
    bound = f", bounded by {fields[0]}" if fields else ""
    reason = next(
        (str(because.values.get("reason", "")) for because in step.because if because.rule == "ScaleDecided"),
        "",
    )
    return f"{reason}{bound}"


def _ceiling(value: float, *, whole: bool = False) -> float:
    """A round number at or above a value, for the top of an axis."""
    if value <= 0:
        return 1.0
    scale: float = 10 ** math.floor(math.log10(value))
    top = next(step * scale for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * scale >= value)
    if whole:
        return float(math.ceil(value / 4) * 4 if value > 4 else math.ceil(value))
    return top
