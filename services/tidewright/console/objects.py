"""One object: its chart, why it is as it is, why nothing else happens, what would change it, and what was seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tidewright.asking.answers.explain import ExplainedDecision, ObjectExplanation, Told
from tidewright.asking.answers.form import stamp
from tidewright.asking.answers.series import ObjectSeries, SeriesLine
from tidewright.asking.errors import BadInput
from tidewright.asking.explain import explained, explained_decision
from tidewright.asking.lines import subject_object
from tidewright.asking.objects import SHORT, plain_kind
from tidewright.asking.rendering import answer
from tidewright.asking.series import series
from tidewright.asking.source import Source
from tidewright.console.asked import Looking, Moments
from tidewright.console.charts import Line, Mark, Panel, chart
from tidewright.console.words import seconds
from tidewright.host.fold.explainer import Reference

POINTS = 240
"""Of a line: more than a screen shows."""
COUNTS = {
    "wanted": "wanted", "existing": "existing", "ready": "ready", "onTheirWay": "on their way", "leaving": "leaving",
    "minimum": "minimum", "maximum": "maximum",
}  # fmt: skip
"""Lines of counts, in the order of the key, and what people call them."""
VALUES = {"value": "value", "highWatermark": "high watermark", "lowWatermark": "low watermark"}
OF_OBJECTS = frozenset({"fact", "decision", "outcome"})
"""Classes whose subjects name an object that has a page."""
UNTOLD = frozenset({"timer", "none", "shape"})
"""What stands in the place of a kind and is none."""
MARKS = (("up", "\u25b2", "more was decided"), ("down", "\u25bc", "less was decided"))
FILLED = frozenset({"ready"})


@dataclass(frozen=True)
class Step:
    """Something in the history of a decision, from what caused it to what came of it."""

    role: str
    told: Told
    about: Reference | None


def reference(kind: str, namespace: str, name: str) -> Reference:
    """The object of a page's path.

    Raises:
        BadInput: there can be no such kind.
    """
    kind = kind.lower()
    return Reference(plain_kind(SHORT.get(kind, kind)), "" if namespace == "_" else namespace, name)


async def page(source: Source, moments: Moments, looking: Looking, asked: Reference) -> dict[str, Any]:
    """What the template is given.

    Raises:
        BadInput: nothing on the log is about such an object, or the decision is not about it.
    """
    explanation = answer(await explained(source, asked, looking.moment))
    identity = looking.given("decision")
    chosen: ExplainedDecision | None = None
    if identity:
        one = answer(await explained_decision(source, identity, asked))
        chosen = one.decisions[0]
    try:
        drawn = await series(source, asked, await moments.since(looking), looking.moment, POINTS)
    except BadInput:
        drawn = None
    return {
        "asked": asked,
        "explanation": explanation,
        "decisions": [chosen] if chosen is not None else list(explanation.decisions),
        "chosen": chosen,
        # Of one that is looked at by itself as it is told above them.
        "steps": {d.sequence: steps_of(d) for d in [*explanation.decisions, chosen] if d is not None},
        "series": drawn,
        "chart": drawing(drawn, looking, asked, identity) if drawn is not None else Markup(""),
        "key": key_of(drawn) if drawn is not None else [],
        "marks": marks_of(drawn) if drawn is not None else [],
        "figures": figures(drawn) if drawn is not None else [],
        "manifest": manifest(explanation),
    }


def steps_of(decision: ExplainedDecision) -> list[Step]:
    """From the first cause to the outcome, in their order."""
    steps = [Step("caused by", cause, _about(cause)) for cause in reversed(decision.causes)]
    steps.append(Step("decided", decision, _about(decision)))
    steps += [Step("with it", other, _about(other)) for other in decision.beside[:6]]
    if decision.outcome is not None:
        steps.append(Step("came of it", decision.outcome, _about(decision.outcome)))
    return steps


def _about(told: Told) -> Reference | None:
    cls, kind, namespace, name = subject_object(told.subject)
    return Reference(kind, namespace, name) if cls in OF_OBJECTS and name and kind not in UNTOLD else None


def drawing(found: ObjectSeries, looking: Looking, asked: Reference, chosen: str) -> Markup:
    """Values with their marks above, counts with the decisions below."""
    start, end = seconds(found.since), seconds(found.until)
    metrics = list(dict.fromkeys(line.of for line in found.lines if line.name in VALUES))
    panels = []
    for metric in metrics[:4]:
        lines = [
            Line(f"{name} of {metric}" if metric else name, line.name, _steps(line))
            for line in found.lines
            if line.of == metric and (name := VALUES.get(line.name)) is not None
        ]
        panels.append(Panel(metric or "Value", "", lines, height=130))
    marks = [
        Mark(
            at=seconds(mark.at), way=_way(mark.from_, mark.to), value=mark.to, text=mark.text, shadow=mark.shadow,
            chosen=mark.decision == chosen,
            href=looking.object(asked, decision=mark.decision) + "#why",
        )
        for mark in found.marks
    ]  # fmt: skip
    counts = [line for name in COUNTS for line in found.lines if line.name == name]
    if counts:
        unit = counts[0].unit or "replicas"
        lines = [
            Line(COUNTS[line.name], line.name, _steps(line), filled=line.name in FILLED) for line in counts
        ]
        lines.sort(key=lambda line: not line.filled)
        panels.append(Panel(unit.capitalize(), unit, lines, marks, whole=True))
    elif marks:
        panels.append(Panel("Decisions", "", [], marks, height=40, whole=True))
    if not panels:
        return Markup("")
    label = f"{asked.kind} {asked.name}: values, counts and decisions; the figures are in the table below"
    return chart(panels, start, end, label)


def _steps(line: SeriesLine) -> list[tuple[float, float | None]]:
    steps: list[tuple[float, float | None]] = []
    for point in line.points:
        at = seconds(point.at)
        # Of a stretch with several values the greatest is shown, so that no peak is lost.
        steps.append((at, point.high if point.high is not None and point.high != point.low else point.value))
    return steps


def _way(before: float | None, after: float | None) -> int:
    if before is None or after is None or before == after:
        return 0
    return 1 if after > before else -1


def key_of(found: ObjectSeries) -> list[tuple[str, str]]:
    """Style and name of each line that is drawn."""
    there = {line.name for line in found.lines if any(point.value is not None for point in line.points)}
    return [(name, said) for name, said in (VALUES | COUNTS).items() if name in there]


def marks_of(found: ObjectSeries) -> list[tuple[str, str, str]]:
    """Style, sign and name of each kind of mark that is drawn."""
    ways = {_way(mark.from_, mark.to) for mark in found.marks}
    drawn = [mark for mark, way in zip(MARKS, (1, -1), strict=True) if way in ways]
    left = "left as it is, and why" if found.kind == "watermarkpodautoscaler" else "decided"
    held = ("hold", "\u25cf", left)
    return [*drawn, held] if 0 in ways else drawn


def figures(found: ObjectSeries) -> list[tuple[str, str, float | None, float | None, float | None]]:
    """Of each line its name, its metric, the value at the moment, the least and the greatest of the stretch."""
    rows = []
    for line in found.lines:
        name = (VALUES | COUNTS).get(line.name, line.name)
        lows = [point.low for point in line.points if point.low is not None]
        highs = [point.high for point in line.points if point.high is not None]
        last = line.points[-1].value if line.points else None
        rows.append((name, line.of, last, min(lows, default=None), max(highs, default=None)))
    return rows


def manifest(explanation: ObjectExplanation) -> str:
    """What was observed of the object then, as YAML; empty where nothing was."""
    if explanation.last_word is None or not isinstance(explanation.last_word.event, dict):
        return ""
    import yaml  # the first page is there sooner without

    shown = {
        _camelled(name): stamp(value) if name.endswith("_at") and isinstance(value, float) else value
        for name, value in explanation.last_word.event.items()
        if name not in ("type", "at")
    }
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100))


def _camelled(name: str) -> str:
    """A field as objects of Kubernetes have it."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
