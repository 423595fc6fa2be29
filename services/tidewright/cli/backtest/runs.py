"""Runs of the decider, one per candidate, over one load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidewright.asking.answers.backtest import (
    Backtest,
    LoadTried,
    RecordedCount,
    TriedFigures,
    TriedPolicy,
    TriedScale,
    TriedStretch,
)
from tidewright.asking.answers.explain import Reason
from tidewright.asking.answers.form import stamp, stamp_if_set
from tidewright.asking.errors import BadInput
from tidewright.asking.load import Series
from tidewright.autoscaler.api.spec import InvalidSpec, Rules, compiled
from tidewright.autoscaler.backtest import LoadModel, Point, Report, Step, backtest
from tidewright.autoscaler.tell.sentences import sentence
from tidewright.cli.backtest.manifest import Candidate


@dataclass(frozen=True)
class Run:
    """A candidate and what came of it."""

    candidate: Candidate
    report: Report


@dataclass(frozen=True)
class Result:
    """All runs over one load.

    Attributes:
        swept: they are variants of one object.
        history_s: how much of the load only went before what is counted.
    """

    series: Series
    model: LoadModel
    runs: list[Run]
    swept: bool
    history_s: float = 0.0


def rules_of(candidate: Candidate) -> Rules:
    """The candidate's spec, compiled.

    Raises:
        BadInput: it cannot be used; the message names the field.
    """
    try:
        rules = compiled(
            candidate.spec, namespace=candidate.namespace or "default", name=candidate.name or "wpa"
        )
    except InvalidSpec as error:
        raise BadInput(f"{candidate.label}: {error}") from error
    if not rules.metrics:
        raise BadInput(f"{candidate.label}: spec.metrics: a backtest needs at least one metric")
    return rules


def run_all(
    candidates: Sequence[Candidate],
    series: Series,
    model: LoadModel,
    policy: dict[str, Any],
    advance: Callable[[int], None],
    *,
    history_s: float = 0.0,
) -> list[Run]:
    """Run every candidate; nothing is counted of the first `history_s` seconds of the load.

    Raises:
        BadInput: a spec or the series cannot be used.
    """
    finished_runs = []
    for candidate in candidates:
        done = 0

        def step(samples: int) -> None:
            nonlocal done
            advance(samples - done)
            done = samples

        try:
            report = backtest(
                candidate.spec,
                series.rows(),
                model,
                policy=policy,
                span=series.span,
                forecast=candidate.forecast,
                history_s=history_s,
                progress=step,
            )
        except ValueError as error:  # InvalidSpec, BadSeries
            raise BadInput(f"{candidate.label}: {error}") from error
        step(len(series))
        finished_runs.append(Run(candidate, report))
    return finished_runs


def answer(result: Result) -> Backtest:
    """For programs."""
    series, model = result.series, result.model
    first, last = series.span
    return Backtest(
        load=LoadTried(
            source=series.source, samples=len(series), from_=stamp(first), to=stamp(last),
            model="shared" if model.shared else "value", ready_delay_seconds=model.ready_delay_s,
            start_replicas=model.start_replicas, history_seconds=result.history_s,
        ),
        recorded=tuple(RecordedCount(at=stamp(at), replicas=replicas) for at, replicas in series.recorded),
        policies=tuple(
            TriedPolicy(
                name=run.candidate.label, figures=_figures(run.report), forecast=run.report.forecast, decisions=tuple(map(_scale, run.report.steps)),
                chart=tuple(map(_stretch, run.report.chart)),
            )
            for run in result.runs
        ),
    )  # fmt: skip


def _figures(report: Report) -> TriedFigures:
    return TriedFigures(
        samples=report.samples,
        duration_seconds=round(report.duration_s, 3),
        replica_hours=round(report.replica_hours, 3),
        above_high_seconds=round(report.above_high_s, 3),
        below_low_seconds=round(report.below_low_s, 3),
        scale_ups=report.scale_ups,
        scale_downs=report.scale_downs,
        most_missing_replicas=report.worst_shortfall,
        most_missing_at=stamp_if_set(report.worst_shortfall_at),
        least_replicas=report.least_replicas,
        most_replicas=report.most_replicas,
    )


def _scale(step: Step) -> TriedScale:
    return TriedScale(
        at=stamp(step.at),
        from_=step.from_replicas,
        to=step.to_replicas,
        because=tuple(
            Reason(sentence=sentence(because), rule=because.rule, values=dict(because.values))
            for because in step.because
        ),
    )


def _stretch(point: Point) -> TriedStretch:
    return TriedStretch(
        at=stamp(point.at),
        least_load=point.load_low,
        most_load=point.load_high,
        least_replicas=point.replicas_low,
        most_replicas=point.replicas_high,
        least_ready_replicas=point.ready_low,
    )


COLUMNS: tuple[tuple[str, str, Callable[[Report], float]], ...] = (
    ("REPLICA-HOURS", "{:,.1f}", lambda r: r.replica_hours),
    ("ABOVE-HIGH", "span", lambda r: r.above_high_s),
    ("BELOW-LOW", "span", lambda r: r.below_low_s),
    ("SCALES", "{:,.0f}", lambda r: r.scale_ups + r.scale_downs),
    ("UP", "{:,.0f}", lambda r: r.scale_ups),
    ("DOWN", "{:,.0f}", lambda r: r.scale_downs),
    ("WORST-SHORTFALL", "{:,.0f}", lambda r: r.worst_shortfall),
    ("LEAST", "{:,.0f}", lambda r: r.least_replicas),
    ("MOST", "{:,.0f}", lambda r: r.most_replicas),
)
"""Figures of a report: heading, form, value. Less is better, except for the last two and `BELOW-LOW`."""


def shown(form: str, value: float) -> str:
    """A figure for people; spans of time as `3d4h` or `12m30s`."""
    if form != "span":
        return form.format(value)
    seconds = round(value)
    parts = [
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    ]
    rendered = [f"{count}{unit}" for count, unit in parts if count]
    return "".join(rendered[:2]) or "0s"
