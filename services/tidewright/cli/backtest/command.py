"""`tidewright backtest wpa`: the decider over a recorded load, with one policy or several; `backtest --suggest`: over a log's."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from tidewright.asking.answers.form import builtins
from tidewright.asking.errors import BadInput
from tidewright.asking.namespaces import meant
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.tables import plain
from tidewright.cli.commands import BY_NAME, with_examples

POLICY = Group("Policy", sort_key=0)
LOAD = Group("Load", sort_key=1)

app = App(name="backtest", help_format="plaintext", help_epilogue=BY_NAME["backtest"].epilogue)


@app.default
def suggest(
    name: Annotated[
        str, Parameter(help="One WatermarkPodAutoscaler of the log; all that it has by default.")
    ] = "",
    /,
    *,
    suggest: Annotated[
        bool,
        Parameter(
            help="Name the objects for which a forecast would have paid, and how much.",
            negative="",
        ),
    ] = False,
    forecast: Annotated[
        tuple[str, ...],
        Parameter(
            help="What to try, as lead=10m|30m,confidence=0.35; may be repeated. By default lead=10m, lead=30m and lead=60m.",
            negative="",
        ),
    ] = (),
    history: Annotated[
        str,
        Parameter(
            help="How much of each load goes before what is counted; by default half of it, and at most 7d.",
            group=LOAD,
        ),
    ] = "",
    ready_delay: Annotated[float, Parameter(help="Seconds until a new pod is ready.", group=LOAD)] = 30.0,
    namespace: Annotated[
        str, Parameter(name=["--namespace", "-n"], help="Of the objects; every one by default.")
    ] = "",
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """What a policy would have done with a recorded load; or, with --suggest, who would do better with forecasts."""
    if not suggest:
        raise BadInput(
            "say what: `tidewright backtest wpa -f FILE ...`, or `tidewright backtest --suggest --log FILE`"
        )
    if ready_delay < 0:
        raise BadInput(f"--ready-delay {ready_delay:g}: seconds, 0 or more")
    from tidewright.cli.backtest import manifest
    from tidewright.cli.backtest import suggest as suggesting

    manifest.with_forecasts([], forecast)

    async def run() -> tuple[str, list[suggesting.Suggestion]]:
        async with opened(log, file) as source:
            return source.name, await suggesting.suggestions(
                source, namespace, name, forecast or suggesting.TRIED,
                history=lambda series: _history(history, series) if history else suggesting.history_of(series),
                ready_delay_s=ready_delay,
            )  # fmt: skip

    asked, found = asyncio.run(run())
    emit(
        builtins(suggesting.answer(asked, found)),
        output,
        lambda: plain(suggesting.as_text(found)),
        names=lambda: (
            f"watermarkpodautoscaler/{suggestion.name}" for suggestion in found if suggestion.pays
        ),
    )
    return 0


@app.command(name="wpa")
def wpa(
    *,
    filename: Annotated[
        Path,
        Parameter(name=["--filename", "-f"], help="Manifest with one WatermarkPodAutoscaler.", group=POLICY),
    ],
    metrics: Annotated[
        Path | None,
        Parameter(
            help="Load, CSV: timestamp, a column per metric (or value); else the log's.",
            group=LOAD,
        ),
    ] = None,
    compare: Annotated[
        Path | None, Parameter(help="A second manifest, beside the first.", group=POLICY)
    ] = None,
    sweep: Annotated[
        tuple[str, ...],
        Parameter(help="FIELD=A,B,C: the policy with each value of a field; may be repeated.", group=POLICY),
    ] = (),
    forecast: Annotated[
        tuple[str, ...],
        Parameter(
            help="The policy with forecasts, beside itself without: lead=10m, or lead=10m|30m,confidence=0.2|0.35 "
            "for a sweep; may be repeated.",
            negative="",
            group=POLICY,
        ),
    ] = (),
    strict: Annotated[
        bool, Parameter(help="With the reference's defects.", negative="", group=POLICY)
    ] = False,
    load: Annotated[
        Literal["shared", "value"],
        Parameter(
            help="shared: a total that ready replicas share; value: the metric's value, whatever the replicas.",
            group=LOAD,
        ),
    ] = "shared",
    ready_delay: Annotated[float, Parameter(help="Seconds until a new pod is ready.", group=LOAD)] = 30.0,
    start_replicas: Annotated[
        int | None,
        Parameter(help="Replicas at the start; by default as recorded, or minReplicas.", group=LOAD),
    ] = None,
    history: Annotated[
        str,
        Parameter(
            help="How much of the load goes before what is counted, as 168h or 7d: forecasts learn from it.",
            group=LOAD,
        ),
    ] = "0s",
    namespace: Annotated[
        str,
        Parameter(
            name=["--namespace", "-n"],
            help="Of the object, on the log; the manifest's or the kubeconfig's by default.",
        ),
    ] = "",
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Annotated[
        Literal["table", "json", "yaml", "html"],
        Parameter(name=["--output", "-o"], help="How to print the result."),
    ] = "table",
) -> int:
    """What a WatermarkPodAutoscaler would have done with a recorded load."""
    from tidewright.asking.progress import progress
    from tidewright.autoscaler.backtest import LoadModel
    from tidewright.cli.backtest import manifest, runs
    from tidewright.cli.backtest.runs import Result

    if metrics is not None and (named := _named(log, file)):
        raise BadInput(f"--metrics and {named}: both say where the load is, give one of them")
    if compare is not None and sweep:
        raise BadInput("--compare and --sweep: one of them")
    if ready_delay < 0:
        raise BadInput(f"--ready-delay {ready_delay:g}: seconds, 0 or more")
    if start_replicas is not None and start_replicas < 1:
        raise BadInput(f"--start-replicas {start_replicas}: 1 or more")
    base = manifest.load(filename, "--filename")
    candidates = manifest.variants(base, sweep) if sweep else [base]
    if compare is not None:
        candidates.append(manifest.load(compare, "--compare"))
        if candidates[0].label == candidates[1].label:
            candidates = [_relabelled(candidates[0], str(filename)), _relabelled(candidates[1], str(compare))]
    candidates = manifest.with_forecasts(candidates, forecast)
    rules = [runs.rules_of(candidate) for candidate in candidates]
    counts = {len(candidate_rules.metrics) for candidate_rules in rules}
    if len(counts) > 1:
        raise BadInput(
            f"--compare {compare}: has {max(counts)} metrics, the other {min(counts)}; one load is for both"
        )
    shared = load == "shared"
    if metrics is not None:
        series = _from_csv(metrics, rules[0])
    else:
        series = _from_log(log, file, rules[0], namespace or base.namespace or meant(""), shared=shared)
    history_s = _history(history, series)
    model = LoadModel(
        shared=shared,
        ready_delay_s=ready_delay,
        start_replicas=start_replicas if start_replicas is not None else series.start_replicas,
    )
    with progress("running", len(series) * len(candidates)) as advance:
        finished_runs = runs.run_all(
            candidates, series, model, {"strict": strict}, advance, history_s=history_s
        )
    _print(Result(series, model, finished_runs, bool(sweep), history_s), output)
    return 0


def _history(text: str, series: Any) -> float:
    """Seconds of history; days may be written as such."""
    from tidewright.kube.durations import parse_duration

    days = text.removesuffix("d")
    try:
        history_s = float(days) * 86400 if days != text else parse_duration(text)
    except ValueError as error:
        raise BadInput(f"--history {text}: write for instance 168h or 7d") from error
    first, last = series.span
    if not 0 <= history_s <= last - first:
        raise BadInput(
            f"--history {text}: from nothing to the {(last - first) / 86400:.1f}d that the load has"
        )
    return history_s


def _relabelled(candidate: Any, label: str) -> Any:
    from dataclasses import replace

    return replace(candidate, label=label)


def _named(log: AskedLogOptions | None, file: Path | None) -> str:
    """The option that names one log or another; empty where none does: whoever has a server in the environment may give a file of metrics."""
    if file is not None:
        return "--log"
    if log is not None and (log.data is not None or log.archive):
        return "--data" if log.data is not None else "--archive"
    return ""


def _from_csv(metrics: Path, rules: Any) -> Any:
    from tidewright.asking import load
    from tidewright.asking.progress import progress

    rows = metrics.stat().st_size // 30 if metrics.is_file() else 0
    with progress("reading", rows) as advance:
        return load.from_csv(metrics, rules.metrics, advance)


def _from_log(
    log: AskedLogOptions | None, file: Path | None, rules: Any, namespace: str, *, shared: bool
) -> Any:
    from tidewright.asking import load

    async def read() -> Any:
        async with opened(log, file) as source:
            return await load.from_log(source, rules, namespace, shared=shared)

    return asyncio.run(read())


def _print(result: Any, output: Literal["table", "json", "yaml", "html"]) -> None:
    from tidewright.cli.backtest import runs, text

    if output == "html":
        from tidewright.cli.backtest.page import as_html

        sys.stdout.write(as_html(result))
    else:
        emit(builtins(runs.answer(result)), output, lambda: plain(text.as_text(result)))


with_examples(app, "backtest")
