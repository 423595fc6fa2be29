"""What other marks, tolerances and windows of an autoscaler would have done with its own recorded load."""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from markupsafe import Markup

from tidewright.asking import load
from tidewright.asking.errors import BadInput
from tidewright.asking.load import Series
from tidewright.asking.source import Source
from tidewright.autoscaler.api.spec import InvalidSpec, Rules, compiled
from tidewright.autoscaler.backtest import LoadModel, Report, backtest
from tidewright.console.apart import Apart, Spent
from tidewright.console.asked import Looking, Moments
from tidewright.console.beside import SAID, beside_the_incumbent
from tidewright.console.charts import Line, Panel, chart
from tidewright.console.kept import Kept
from tidewright.console.lists import Lists
from tidewright.console.words import number, span
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.host.fold.explainer import Reference
from tidewright.kube.quantities import milli

KIND = "watermarkpodautoscaler"
API_VERSION = "datadoghq.com/v1alpha1"
READY_S = 30.0
"""After which a new pod is taken to be ready."""
MOST_S = 7_200
MOST_REPLICAS = 10_000
"""That can be tried, where the autoscaler itself has no more: each replica takes memory of the run."""
CHOICES = 400
"""Autoscalers that are offered."""


@dataclass(frozen=True)
class Setting:
    """A field of the spec that can be tried.

    Attributes:
        name: in the page's URL.
        path: to it in the spec; `quantity`: it is a text there.
        now: its value as it is; `tried`: as it is tried.
        most: of the slider.
    """

    name: str
    label: str
    path: tuple[str | int, ...]
    quantity: bool
    now: float
    tried: float
    most: float

    @property
    def changed(self) -> bool:
        return self.tried != self.now

    @property
    def typed(self) -> str:
        """The value that is tried, as a number field has it."""
        return f"{self.tried:.15g}"


@dataclass(frozen=True)
class Figure:
    """A figure of both runs, for people."""

    name: str
    now: str
    tried: str
    difference: str


@dataclass(frozen=True)
class Means:
    """What the page is made with."""

    source: Source
    moments: Moments
    lists: Lists
    kept: Kept
    apart: Apart


async def page(means: Means, looking: Looking) -> dict[str, Any]:
    """What the template is given.

    Raises:
        BadInput: no such autoscaler, a value that it cannot have, or no load of it.
    """
    source = means.source
    rows = await means.lists.of(KIND, looking.moment)
    choices = [(item.namespace, item.name) for item in rows.items()[:CHOICES]]
    space, name = looking.given("namespace"), looking.given("name")
    if not name:
        return {"choices": choices, "asked": None}
    asked = Reference(KIND, space, name)
    fact = rows.board.facts.get(asked)
    if not isinstance(fact, WatermarkPodAutoscalerObserved):
        raise BadInput(f"{space}/{name}: no such autoscaler at this moment")
    spec: dict[str, Any] = msgspec.to_builtins(fact.spec)
    rules = rules_of(spec, asked)
    settings = settings_of(spec, looking.query)
    tried = changed(spec, settings)
    rules_of(tried, asked)
    since = await means.moments.since(looking)
    series = await load.from_log(source, rules, space, shared=True, after=since.seq, up_to=looking.moment.seq)
    model = LoadModel(shared=True, ready_delay_s=READY_S, start_replicas=series.start_replicas)
    rows_of_load = list(series.rows())

    async def ran() -> list[Report]:
        return await means.apart.run(_ran, [spec, tried] if tried != spec else [spec], rows_of_load, model)

    # By the stretch and not by where it begins, which moves with the end of the log.
    key = f"what-if/{space}/{name}/{looking.window}/{msgspec.json.encode([spec, tried]).decode()}"
    wait_s, reports = 0.0, list[Report]()
    try:
        reports, _ = await means.kept.of(key, looking.moment, ran)
    except Spent as spent:
        wait_s = max(1.0, spent.wait_s)
        reports = (means.kept.latest(key) if looking.moment.end else None) or []
    return {
        "choices": choices,
        "asked": asked,
        "settings": settings,
        "changed": tried != spec,
        "wait_s": wait_s,
        "figures": figures(reports[0], reports[-1]) if reports else [],
        "chart": drawing(series, rules, reports, looking),
        "difference": difference(spec, tried),
        "manifest": manifest(asked, tried),
        "samples": len(series),
        "since": since.at,
        "ready_s": READY_S,
        "beside": await beside_the_incumbent(source, means.kept, rows, looking, asked),
        "said": SAID,
    }


def _ran(specs: Sequence[dict[str, Any]], rows: Sequence[Any], model: LoadModel) -> list[Report]:
    """Each spec over the load; in the child."""
    span_of = (rows[0][0], rows[-1][0])
    return [backtest(spec, iter(rows), model, span=span_of) for spec in specs]


def rules_of(spec: Mapping[str, Any], asked: Reference) -> Rules:
    """The spec, compiled.

    Raises:
        BadInput: it cannot be used, or is decided by a recommender alone.
    """
    try:
        rules = compiled(spec, namespace=asked.namespace, name=asked.name)
    except InvalidSpec as error:
        raise BadInput(str(error)) from error
    if not rules.metrics:
        raise BadInput(
            f"{asked.name}: spec.metrics: what would have been is told for metrics, and it has none"
        )
    return rules


_SECONDS = (
    ("up_window", "no more for, after a scale", "upscaleForbiddenWindowSeconds"),
    ("down_window", "no less for, after a scale", "downscaleForbiddenWindowSeconds"),
    ("up_delay", "above the mark for, before more", "upscaleDelayAboveWatermarkSeconds"),
    ("down_delay", "below the mark for, before less", "downscaleDelayBelowWatermarkSeconds"),
)


def settings_of(spec: Mapping[str, Any], query: Mapping[str, str]) -> list[Setting]:
    """What can be tried, with its values as they are and as a page's URL asks for them.

    Raises:
        BadInput: a value is no number, or outside of what it may be.
    """
    found: list[tuple[str, str, tuple[str | int, ...], bool, float, float]] = []
    for n, entry in enumerate(spec.get("metrics") or []):
        kind = str(entry.get("type", "")).lower()
        named = entry.get(kind)
        if not isinstance(named, Mapping):
            continue
        of = str(named.get("metricName") or named.get("name") or kind)
        marks = {mark: _quantity(named.get(mark)) for mark in ("lowWatermark", "highWatermark")}
        most = _round_up(2.5 * max(marks.values()))
        for mark, said in (("highWatermark", "high watermark"), ("lowWatermark", "low watermark")):
            path = ("metrics", n, kind, mark)
            found.append(
                (f"{mark.removesuffix('Watermark')}{n}", f"{said} of {of}", path, True, marks[mark], most)
            )
    found.append(("tolerance", "tolerance", ("tolerance",), True, _quantity(spec.get("tolerance")), 0.5))
    for name, said, field in _SECONDS:
        found.append((name, f"{said}, seconds", (field,), False, float(spec.get(field) or 0), MOST_S))
    for name, field in (("min", "minReplicas"), ("max", "maxReplicas")):
        now = float(spec.get(field) or 0)
        found.append((name, f"{name}imum of replicas", (field,), False, now, max(20.0, _round_up(2 * now))))
    return [
        Setting(name, label, path, quantity, now, _tried(name, query, now, quantity=quantity), most)
        for name, label, path, quantity, now, most in found
    ]  # fmt: skip


def _tried(name: str, query: Mapping[str, str], now: float, *, quantity: bool) -> float:
    text = query.get(name, "").strip()
    if not text:
        return now
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e15:
        raise BadInput(f"{name}={text}: a number, 0 or more")
    if name in ("min", "max") and value > max(now, MOST_REPLICAS):
        raise BadInput(f"{name}={text}: replicas up to {MOST_REPLICAS} can be tried")
    if value == now:
        return now
    return round(value, 3) if quantity else float(round(value))


def _quantity(text: object) -> float:
    try:
        return milli(str(text)) / 1000 if text not in (None, "") else 0.0
    except ValueError:
        return 0.0


def _round_up(value: float) -> float:
    """A round number at or above it, for the end of a slider."""
    if value <= 0:
        return 1.0
    scale: float = 10 ** math.floor(math.log10(value))
    return math.ceil(value / scale) * scale


def changed(spec: Mapping[str, Any], settings: Sequence[Setting]) -> dict[str, Any]:
    """The spec with what is tried; what is not stays as it is written."""
    tried: dict[str, Any] = copy.deepcopy(dict(spec))
    for setting in settings:
        if setting.changed:
            place: Any = tried
            for step in setting.path[:-1]:
                place = place[step]
            # Quantities are texts in the API, and exact to a thousandth.
            place[setting.path[-1]] = _text(setting.tried) if setting.quantity else int(setting.tried)
    return tried


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{round(value * 1000)}m"


def figures(now: Report, tried: Report) -> list[Figure]:
    """Both runs, line by line."""
    rows = [
        ("Replica-hours", number, now.replica_hours, tried.replica_hours),
        ("Time above its high watermark", span, now.above_high_s, tried.above_high_s),
        ("Time below its low watermark", span, now.below_low_s, tried.below_low_s),
        ("Scales to more", number, now.scale_ups, tried.scale_ups),
        ("Scales to less", number, now.scale_downs, tried.scale_downs),
        ("Most replicas that were missing", number, now.worst_shortfall, tried.worst_shortfall),
        ("Least replicas", number, now.least_replicas, tried.least_replicas),
        ("Most replicas", number, now.most_replicas, tried.most_replicas),
    ]
    return [
        Figure(name, said(a), said(b), "" if a == b else f"{'+' if b > a else '−'}{said(abs(b - a))}")
        for name, said, a, b in rows
    ]


def drawing(series: Series, rules: Rules, reports: Sequence[Report], looking: Looking) -> Markup:
    """The load above; below what was, what the policy does with it, and what the tried one would."""
    loads = [
        Panel(
            f"Load: {metric.display}", "",
            [Line("load", "value", list(_thinned(list(zip(series.times, column, strict=True)))))], height=110,
        )
        for metric, column in list(zip(rules.metrics, series.values, strict=True))[:2]
    ]  # fmt: skip
    lines = [Line("as it was", "existing", [(at, float(n)) for at, n in series.recorded])]
    for style, report in zip(("wanted", "tried"), reports, strict=False):
        lines.append(
            Line(
                "as the policy is" if style == "wanted" else "as it would be", style,
                [(point.at, float(point.replicas_high)) for point in report.chart],
            )
        )  # fmt: skip
    start, end = max(looking.since, series.times[0]), looking.moment.at
    label = (
        "the load, and the replicas as they were and as they would have been; the figures are in the table"
    )
    return chart([*loads, Panel("Replicas", "replicas", lines, whole=True)], start, end, label)


def _thinned(points: Sequence[tuple[float, float]], most: int = 480) -> Sequence[tuple[float, float]]:
    """So many points at most, of each stretch the greatest: no peak is lost."""
    size = -(-len(points) // most)
    return [max(points[n : n + size], key=lambda point: point[1]) for n in range(0, len(points), size)]


def difference(spec: Mapping[str, Any], tried: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines of the spec as it is and as it is tried: `same`, `gone` or `new`, and the text."""
    before, after = (_yaml(one).splitlines() for one in (spec, tried))
    ways = {"  ": "same", "- ": "gone", "+ ": "new"}
    found = [(ways[line[:2]], line[2:]) for line in difflib.ndiff(before, after) if line[:2] in ways]
    return found if any(way != "same" for way, _ in found) else []


def manifest(asked: Reference, spec: Mapping[str, Any]) -> str:
    """What is applied to have it so."""
    return _yaml(
        {
            "apiVersion": API_VERSION, "kind": "WatermarkPodAutoscaler",
            "metadata": {"namespace": asked.namespace, "name": asked.name}, "spec": spec,
        }
    )  # fmt: skip


def _yaml(value: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=100))
