"""Of the objects of a log, those for which a forecast would have paid, and how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidewright.asking import load, tables
from tidewright.asking.answers.backtest import ForecastFigures, ForecastSuggestions, SuggestedForecast
from tidewright.asking.errors import BadInput
from tidewright.asking.load import Series
from tidewright.asking.progress import progress
from tidewright.asking.source import Source
from tidewright.autoscaler.backtest import LoadModel, Report
from tidewright.autoscaler.passes.forecasts import STANDINGS
from tidewright.cli.backtest import runs
from tidewright.cli.backtest.manifest import Candidate, with_forecasts
from tidewright.cli.backtest.objects import objects_of
from tidewright.cli.backtest.runs import Run, shown

TRIED = ("lead=10m", "lead=30m", "lead=60m")
DAY_S = 86400
MOST_HISTORY_S = 7 * DAY_S
LESS_ABOVE, MORE_HOURS = 0.75, 1.05
"""What pays: at most this part of the time above the high watermark, for at most so many times the replica-hours."""


@dataclass(frozen=True)
class Suggestion:
    """What forecasts would have been to an object.

    Attributes:
        forecast: the best of what was tried: of those that pay the one with the least time above the mark, else the one
            that saves most of it; empty where nothing could be tried.
        without: what its policy did alone; `having` with that forecast.
        why: in words, why nothing is suggested; empty where something is.
    """

    namespace: str
    name: str
    forecast: str = ""
    without: Report | None = None
    having: Report | None = None
    why: str = ""

    @property
    def pays(self) -> bool:
        return not self.why


def history_of(series: Series) -> float:
    """Seconds of a load that forecasts learn from, and nothing is counted of."""
    first, last = series.span
    return min((last - first) / 2, MOST_HISTORY_S)


async def suggestions(
    source: Source,
    namespace: str,
    name: str,
    forecasts: Sequence[str],
    *,
    history: Callable[[Series], float],
    ready_delay_s: float,
) -> list[Suggestion]:
    """Try forecasts on every object of a log.

    Args:
        source: the log.
        namespace: of the objects; empty for every one.
        name: of the one object that is meant; empty for all.
        forecasts: what is tried, each as an annotation has it.
        history: how much of a load goes before what is counted, seconds.
        ready_delay_s: from a pod's creation until it is ready.

    Raises:
        BadInput: the log has no such object.
    """
    found: list[Suggestion] = []
    for candidate in await objects_of(source, namespace, name):
        try:
            rules = runs.rules_of(candidate)
            series = await load.from_log(source, rules, candidate.namespace, shared=True)
            model = LoadModel(ready_delay_s=ready_delay_s, start_replicas=series.start_replicas)
            found.append(_tried(candidate, series, model, forecasts, history(series)))
        except BadInput as error:
            found.append(Suggestion(candidate.namespace, candidate.name, why=str(error)))
    return found


def _tried(
    candidate: Candidate, series: Series, model: LoadModel, forecasts: Sequence[str], history_s: float
) -> Suggestion:
    """What the best forecast would have been to one object."""
    candidates = with_forecasts([candidate], forecasts)
    with progress(candidate.label, len(series) * len(candidates)) as advance:
        alone, *others = runs.run_all(candidates, series, model, {}, advance, history_s=history_s)
    best = min(
        others, key=lambda run: (not _pays(alone, run), run.report.above_high_s, run.report.replica_hours)
    )
    return Suggestion(
        candidate.namespace,
        candidate.name,
        best.candidate.forecast,
        alone.report,
        best.report,
        why="" if _pays(alone, best) else _why_not(alone.report, best.report),
    )


def _pays(alone: Run, run: Run) -> bool:
    without, having = alone.report, run.report
    return (
        without.above_high_s > 0
        and having.above_high_s <= LESS_ABOVE * without.above_high_s
        and having.replica_hours <= MORE_HOURS * without.replica_hours
    )


def _why_not(without: Report, having: Report) -> str:
    if not without.above_high_s:
        return "its load was never above the high watermark"
    if having.muted:
        return STANDINGS[having.muted]
    if having.replica_hours > MORE_HOURS * without.replica_hours:
        return f"it would have cost {having.replica_hours / without.replica_hours - 1:.1%} more replica-hours"
    return "too little of the time above the high watermark would have been saved"


def answer(log: str, found: Sequence[Suggestion]) -> ForecastSuggestions:
    """For programs."""
    return ForecastSuggestions(
        log=log,
        items=tuple(
            SuggestedForecast(
                namespace=suggestion.namespace, name=suggestion.name, pays=suggestion.pays, forecast=suggestion.forecast,
                confidence=0.0 if suggestion.having is None else suggestion.having.confidence,
                without=_figures(suggestion.without), having=_figures(suggestion.having), why_not=suggestion.why,
            )
            for suggestion in found
        ),
    )  # fmt: skip


def _figures(report: Report | None) -> ForecastFigures | None:
    if report is None:
        return None
    return ForecastFigures(
        above_high_seconds=round(report.above_high_s, 3), replica_hours=round(report.replica_hours, 3)
    )


def as_text(found: Sequence[Suggestion]) -> str:
    """All objects, those for which it would have paid first, those with the most saved above the others."""
    ordered = sorted(found, key=lambda s: (not s.pays, -_saved_s(s), s.namespace, s.name))
    headings = (
        "NAMESPACE",
        "NAME",
        "FORECAST",
        "CONFIDENCE",
        "ABOVE-HIGH",
        "WITH-IT",
        "REPLICA-HOURS",
        "WITH-IT",
        "WHY-NOT",
    )
    rows = []
    for suggestion in ordered:
        without, having = suggestion.without, suggestion.having
        figures = ("-",) * 4
        if without is not None and having is not None:
            more = having.replica_hours / without.replica_hours - 1 if without.replica_hours else 0.0
            figures = (
                shown("span", without.above_high_s),
                shown("span", having.above_high_s),
                f"{without.replica_hours:,.1f}",
                f"{more:+.1%}",
            )
        asks = suggestion.forecast if suggestion.pays else "-"
        sure = f"{having.confidence:g}" if having is not None and suggestion.pays else "-"
        rows.append((suggestion.namespace, suggestion.name, asks, sure, *figures, suggestion.why or "-"))
    return tables.table(headings, rows, cut=False)


def _saved_s(suggestion: Suggestion) -> float:
    if suggestion.without is None or suggestion.having is None:
        return 0.0
    return suggestion.without.above_high_s - suggestion.having.above_high_s
