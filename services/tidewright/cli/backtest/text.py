"""The result of a backtest for people on a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import pairwise

from tidewright.asking import tables
from tidewright.autoscaler.backtest import Report, Step
from tidewright.autoscaler.tell.sentences import sentences
from tidewright.cli.backtest.runs import COLUMNS, Result, shown
from tidewright.cli.chart import chart
from tidewright.kube.times import rfc3339

DECISIONS = 3
"""Of each run, told in sentences; the others are in the other forms."""
HEIGHT = 6


def as_text(result: Result) -> str:
    """Load, table, charts, first decisions."""
    series = result.series
    first, last = series.span
    model = (
        "a total that the ready replicas share"
        if result.model.shared
        else "the value itself, whatever the replicas"
    )
    lines = [
        f"Load: {series.source}, {len(series):,} samples from {rfc3339(first)} to {rfc3339(last)}, {model};",
        f"a new pod is ready after {result.model.ready_delay_s:g} s.",
        *([f"Nothing is counted before {rfc3339(first + result.history_s)}."] if result.history_s else []),
        "",
        *table(result),
        *forecasts(result),
        "",
    ]
    width = max(40, min(120, shutil.get_terminal_size((100, 24)).columns) - 12)
    shown_first = result.runs[0].report
    lines += chart(
        "load", [(p.at, p.load_high) for p in shown_first.chart], first, last, width=width, height=HEIGHT
    )
    for run in result.runs[:2] if not result.swept else result.runs[:1]:
        points = [(p.at, float(p.replicas_high)) for p in run.report.chart]
        lines += [
            "",
            *chart(f"replicas, {run.candidate.label}", points, first, last, width=width, height=HEIGHT),
        ]
    if not result.swept:
        for run in result.runs:
            lines += ["", *_decisions(run.candidate.label, run.report)]
    return "\n".join(lines)


def table(result: Result) -> list[str]:
    """A line per run; with a log, what was really done comes first."""
    rows: list[list[str]] = [["POLICY", *(heading for heading, _, _ in COLUMNS)]]
    if result.series.recorded:
        rows.append(recorded(result))
    for run in result.runs:
        rows.append([run.candidate.label, *(shown(form, value(run.report)) for _, form, value in COLUMNS)])
    if len(result.runs) == 2 and not result.swept:
        first, second = (run.report for run in result.runs)
        rows.append(
            ["difference", *(_signed(form, value(second) - value(first)) for _, form, value in COLUMNS)]
        )
    return tables.table(rows[0], rows[1:], cut=False, numbers=True).splitlines()


def forecasts(result: Result) -> list[str]:
    """How the forecasts of each run stood at the end."""
    return [f"{run.candidate.label}: {sentence}" for run in result.runs for sentence in run.report.forecast]


def recorded(result: Result) -> list[str]:
    """What the log says was really done: only what can be told without a model."""
    steps, (first, last) = result.series.recorded, result.series.span
    hours = 0.0
    inside = [(max(at, first), replicas) for at, replicas in steps if at <= last]
    for n, (at, replicas) in enumerate(inside):
        until = inside[n + 1][0] if n + 1 < len(inside) else last
        hours += replicas * max(0.0, until - at) / 3600
    changes = [(before, after) for (_, before), (at, after) in pairwise(steps) if first < at <= last]
    counts = [replicas for at, replicas in inside] or [0]
    up = sum(after > before for before, after in changes)
    figures = {
        "REPLICA-HOURS": f"{hours:,.1f}", "SCALES": f"{len(changes)}", "UP": f"{up}",
        "DOWN": f"{len(changes) - up}", "LEAST": f"{min(counts)}", "MOST": f"{max(counts)}",
    }  # fmt: skip
    return ["as recorded", *(figures.get(heading, "-") for heading, _, _ in COLUMNS)]


def _signed(form: str, value: float) -> str:
    text = shown(form, abs(value))
    return text if not value else f"{'+' if value > 0 else '-'}{text}"


def _decisions(label: str, report: Report) -> list[str]:
    if not report.steps:
        return [f"{label}: nothing was ever scaled."]
    steps = len(report.steps)
    lines = [
        f"{label}: the first {DECISIONS} of {steps} decisions"
        if steps > DECISIONS
        else f"{label}: {steps} decision{'s' * (steps != 1)}"
    ]
    for step in report.steps[:DECISIONS]:
        lines += told(step)
    return lines


def told(step: Step) -> Sequence[str]:
    """One decision in sentences."""
    return [
        f"  {rfc3339(step.at)}  {step.from_replicas} -> {step.to_replicas}",
        *(f"    - {sentence}" for sentence in sentences(step.because)),
    ]
