"""`tidewright forecast learn`: a model of a load, as configuration of the autoscaler."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from tidewright.asking.errors import BadInput
from tidewright.asking.opening import FromFile, opened
from tidewright.asking.options import AskedLogOptions
from tidewright.cli.commands import BY_NAME, with_examples

if TYPE_CHECKING:
    from tidewright.asking.load import Series
    from tidewright.autoscaler.api.spec import Rules
    from tidewright.autoscaler.forecast.asked import Asked
    from tidewright.autoscaler.forecast.learnt import Model
    from tidewright.cli.backtest.manifest import Candidate

LOAD = Group("Load", sort_key=0)

app = App(name="forecast", help_format="plaintext", help_epilogue=BY_NAME["forecast"].epilogue)


@app.command
def learn(
    name: Annotated[
        str, Parameter(help="The WatermarkPodAutoscaler of the log; by default all that it has.")
    ] = "",
    /,
    *,
    filename: Annotated[
        Path | None,
        Parameter(name=["--filename", "-f"], help="Manifest with it, instead of the log's own.", group=LOAD),
    ] = None,
    metrics: Annotated[
        Path | None,
        Parameter(
            help="Load, CSV: timestamp, and a column per metric (or value), each the total that replicas share. "
            "Needs --filename.",
            group=LOAD,
        ),
    ] = None,
    forecast: Annotated[
        str,
        Parameter(
            help="What will be asked for, as lead=10m,confidence=0.9; by default what the object's annotation has."
        ),
    ] = "",
    namespace: Annotated[
        str,
        Parameter(
            name=["--namespace", "-n"],
            help="Of the object; the manifest's, or every one of the log, by default.",
        ),
    ] = "",
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Annotated[
        Literal["yaml", "values", "json"],
        Parameter(
            name=["--output", "-o"],
            help="yaml, json: for the part autoscaler of the ConfigMap; values: for the Helm chart.",
        ),
    ] = "yaml",
) -> int:
    """Learn the rhythm of a load from what was recorded, as configuration: a forecast that is then asked for does not start blind."""
    from tidewright.autoscaler.forecast.learnt import MOST_MODELS, as_data
    from tidewright.cli.backtest import manifest

    if metrics is not None and filename is None:
        raise BadInput("--metrics: give the object, too, with --filename")
    if metrics is not None and file is not None:
        raise BadInput("--metrics and --log: one of them")
    if filename is not None and name:
        raise BadInput("a name and --filename: one of them")
    given = None if filename is None else manifest.load(filename, "--filename")
    if given is not None:
        manifest.with_forecasts([given], [forecast] if forecast else [])
    if metrics is not None and given is not None:
        models = {_key(given, namespace): _from_csv(given, metrics, forecast)}
    else:
        models = asyncio.run(_from_log(given, name, namespace, forecast, where=log, file=file))
    if len(models) > MOST_MODELS:
        raise BadInput(
            f"{len(models)} objects, at most {MOST_MODELS} models can be configured: name one, or a namespace"
        )
    for key, model in models.items():
        for line in _told(key, model):
            print(line, file=sys.stderr)
    _print({key: as_data(model) for key, model in models.items()}, output)
    return 0


def _key(candidate: Candidate, namespace: str) -> str:
    """What a model is filed under in the configuration."""
    if not candidate.name:
        raise BadInput(f"{candidate.label}: the object has no name, under which its model could be filed")
    return f"{namespace or candidate.namespace or 'default'}/{candidate.name}"


def _asks(candidate: Candidate, forecast: str) -> Asked:
    from tidewright.autoscaler.forecast.asked import ANNOTATION, EXAMPLE, BadForecast, asked

    text, where = (forecast, "--forecast") if forecast else (candidate.asks, f"annotation {ANNOTATION}")
    if not text:
        raise BadInput(
            f"{candidate.label}: has no annotation {ANNOTATION}; say what will be asked for, for instance --forecast {EXAMPLE}"
        )
    try:
        return asked(text)
    except BadForecast as error:
        raise BadInput(f"{candidate.label}: {where} {text}: {error}") from error


def _from_csv(candidate: Candidate, path: Path, forecast: str) -> Model:
    from tidewright.asking import load
    from tidewright.asking.progress import progress
    from tidewright.cli.backtest import runs

    asks, rules = _asks(candidate, forecast), runs.rules_of(candidate)
    rows = path.stat().st_size // 30 if path.is_file() else 0
    with progress("reading", rows) as advance:
        series = load.from_csv(path, rules.metrics, advance)
    return _learnt(series, rules, asks)


async def _from_log(
    given: Candidate | None,
    name: str,
    namespace: str,
    forecast: str,
    *,
    where: AskedLogOptions | None,
    file: Path | None,
) -> dict[str, Model]:
    from tidewright.asking import load
    from tidewright.cli.backtest import runs
    from tidewright.cli.backtest.objects import objects_of

    async with opened(where, file) as source:
        candidates = [given] if given is not None else await objects_of(source, namespace, name)
        if given is None and not forecast:
            candidates = [candidate for candidate in candidates if candidate.asks] or candidates
        models: dict[str, Model] = {}
        skipped: list[BadInput] = []
        for candidate in candidates:
            key = _key(candidate, namespace if given is not None else "")
            try:
                asks, rules = _asks(candidate, forecast), runs.rules_of(candidate)
                series = await load.from_log(source, rules, key.partition("/")[0], shared=True)
            except BadInput as error:
                skipped.append(error)
                continue
            models[key] = _learnt(series, rules, asks)
    if not models:
        raise skipped[0]
    for why in skipped:
        print(f"left out: {why}", file=sys.stderr)
    return models


def _learnt(series: Series, rules: Rules, asks: Asked) -> Model:
    """A model of the metrics that would be forecast."""
    from tidewright.autoscaler.forecast.learnt import Model, learn
    from tidewright.autoscaler.forecast.load import MOST_METRICS, digest
    from tidewright.autoscaler.passes.forecasts import bands

    counted = bands(rules)
    return Model(
        lead_s=asks.lead_s,
        confidence=asks.confidence,
        seasons={
            digest(metric.query): learn(
                ((at, round(value * 1000)) for at, value in zip(series.times, values, strict=True)),
                asks,
                counted.get(digest(metric.query)),
            )
            for metric, values in zip(rules.metrics[:MOST_METRICS], series.values, strict=False)
        },
    )


def _told(key: str, model: Model) -> list[str]:
    """What was learnt, a line per metric, and one of the confidence that is worth its price where none is named."""
    from tidewright.autoscaler.forecast import bounds, memory
    from tidewright.autoscaler.passes.forecasts import STANDINGS
    from tidewright.autoscaler.tell.foretelling import priced

    lines = []
    for known in model.seasons.values():
        confidence = bounds.sure(known, model.confidence)
        error, covered = bounds.mean_error(known), bounds.coverage(known, confidence)
        held = (
            ""
            if covered is None or error is None
            else f", the bound held in {covered:.0%}, off by {error / 1000:.3g} on average"
        )
        lines.append(
            f"{key}: {memory.days(known):.1f} days of load{held}: {STANDINGS[bounds.mute(known, confidence)]}."
        )
        lines += [f"{key}: {sentence}" for sentence in priced(known, "the load")]
    return lines


def _print(models: dict[str, Any], output: str) -> None:
    part = {"forecast_models": models}
    if output == "json":
        print(json.dumps(part))
        return
    print(_as_yaml(part if output == "yaml" else {"config": {"autoscaler": part}}), end="")


def _as_yaml(value: dict[str, Any]) -> str:
    """YAML in which texts are quoted: a digest such as 12e345678901 is a number to some who read it."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes every text."""

    Dumper.add_representer(
        str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
    )
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, default_flow_style=None, width=120)
    return text


with_examples(app, "forecast")
