"""Runs of the decider, one per candidate, over one load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidewright.asking.errors import BadInput
from tidewright.asking.load import Series
from tidewright.autoscaler.api.spec import InvalidSpec, Rules, compiled
from tidewright.autoscaler.backtest import LoadModel, Report, Step, backtest, summary
from tidewright.autoscaler.tell.sentences import sentences
from tidewright.cli.backtest.manifest import Candidate
from tidewright.kube.times import rfc3339


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


def as_json(result: Result) -> dict[str, Any]:
    """The whole result."""
    series = result.series
    first, last = series.span
    return {
        "load": {
            "source": series.source, "samples": len(series), "from": rfc3339(first), "to": rfc3339(last),
            "model": "shared" if result.model.shared else "value",
            "ready_delay_s": result.model.ready_delay_s, "start_replicas": result.model.start_replicas,
            "history_s": result.history_s,
        },
        "recorded": [{"at": rfc3339(at), "replicas": replicas} for at, replicas in series.recorded],
        "runs": [
            {
                "name": run.candidate.label,
                "summary": summary(run.report),
                "worst_shortfall_at": None
                if run.report.worst_shortfall_at is None
                else rfc3339(run.report.worst_shortfall_at),
                "decisions": [step_json(step) for step in run.report.steps],
                "chart": [
                    {
                        "at": rfc3339(p.at), "load_low": p.load_low, "load_high": p.load_high,
                        "replicas_low": p.replicas_low, "replicas_high": p.replicas_high, "ready_low": p.ready_low,
                    }
                    for p in run.report.chart
                ],
            }
            for run in result.runs
        ],
    }  # fmt: skip


def step_json(step: Step) -> dict[str, Any]:
    """A decision with its reasons, as sentences and as they are on the log."""
    return {
        "at": rfc3339(step.at),
        "from": step.from_replicas,
        "to": step.to_replicas,
        "why": sentences(step.because),
        "because": [{"rule": because.rule, "values": dict(because.values)} for because in step.because],
    }


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
