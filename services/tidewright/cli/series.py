"""`tidewright series`: what is drawn of an object over a stretch of the log."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.answers.series import ObjectSeries, SeriesLine
from tidewright.asking.namespaces import Namespace, meant
from tidewright.asking.objects import named, spoken
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.point_in_time import moment_of
from tidewright.asking.series import POINTS
from tidewright.asking.series import series as series_of
from tidewright.asking.tables import plain, table
from tidewright.cli.chart import chart
from tidewright.kube.times import readable, typed_seconds

WIDTH, HEIGHT = 72, 5
DRAWN = ("value", "wanted")
"""Lines that are drawn on a terminal; the others are figures."""
SHOWN = 5
"""The last decisions that are told; all of them with `-o wide`."""


def series(
    *what: Annotated[str, Parameter(help="The object, as KIND/NAME or KIND NAME.")],
    namespace: Namespace = "",
    since: Annotated[str, Parameter(help="From this log time on, so long ago (2h), or seq:N.")] = "1h",
    until: Annotated[str, Parameter(help="Up to this log time, so long ago, or seq:N; now by default.")] = "",
    points: Annotated[int, Parameter(help="Points of a line at most.")] = POINTS,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """Values, watermarks and counts of an object over time, and the decisions about it."""
    asked = named(spoken(what), meant(namespace))

    async def run() -> ObjectSeries:
        async with opened(log, file) as source:
            end = await moment_of(source, until, "--until")
            return await series_of(source, asked, await moment_of(source, since, "--since"), end, points)

    found = asyncio.run(run())
    emit(
        builtins(found), output, lambda: plain(as_text(found, SHOWN)), wide=lambda: plain(as_text(found, None)),
        names=lambda: (f"{asked.kind}/{asked.name}",),
    )  # fmt: skip
    return 0


def as_text(found: ObjectSeries, marks: int | None) -> str:
    """For people: charts of the main lines, figures of all, and so many of the last decisions (None: all)."""
    start, end = typed_seconds(found.since), typed_seconds(found.until)
    where = f" in namespace {found.namespace}" if found.namespace else ""
    lines = [f"{found.kind}/{found.name}{where}, {readable(start)} to {readable(end)} UTC ({found.log})"]
    for line in found.lines:
        if line.name in DRAWN:
            drawn = [(typed_seconds(p.at), p.high) for p in line.points if p.high is not None]
            lines += ["", *chart(_title(line), drawn, start, end, width=WIDTH, height=HEIGHT)]
    if found.lines:
        rows = [_figures(line) for line in found.lines]
        lines += ["", table(("LINE", "FIRST", "LAST", "LEAST", "GREATEST", "CHANGES"), rows, cut=False)]
    shown = found.marks if marks is None else found.marks[-marks:]
    if shown:
        every = len(found.marks) + found.left_out
        lines += ["", f"The last {len(shown)} of {every} decisions:" if len(shown) < every else "Decisions:"]
        lines += [f"  {readable(typed_seconds(mark.at))}  {mark.decision}  {mark.text}" for mark in shown]
    else:
        lines += ["", "Nothing was decided about it then."]
    return "\n".join(lines)


def _title(line: SeriesLine) -> str:
    return " ".join(part for part in (line.name, line.of, f"({line.unit})" if line.unit else "") if part)


def _figures(line: SeriesLine) -> tuple[str, ...]:
    values = [p.value for p in line.points if p.value is not None]
    lows = [p.low for p in line.points if p.low is not None]
    highs = [p.high for p in line.points if p.high is not None]
    first, last = (values[0], values[-1]) if values else (None, None)
    figures = (first, last, min(lows, default=None), max(highs, default=None))
    return (_title(line), *("none" if f is None else f"{f:g}" for f in figures), str(len(line.points) - 1))
