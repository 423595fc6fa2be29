"""What is drawn of an object over a stretch of the log: values, marks, counts, and the decisions on them.

No state is folded: of each line the facts within the stretch are read, by their subjects, and its value at the beginning
is the last word before it. So a chart costs what is on it. A line has at most so many points; each stands for a stretch of
time and says the least, the greatest and the last value of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib import import_module
from typing import TypeAlias

from tidewright.asking.answers.form import stamp
from tidewright.asking.answers.series import ObjectSeries, SeriesLine, SeriesMark, SeriesPoint
from tidewright.asking.errors import BadInput
from tidewright.asking.explain import explainer_of
from tidewright.asking.lines import line, subject_object
from tidewright.asking.lookups import Found, decided_about, decoded, fact_subject, last_facts
from tidewright.asking.point_in_time import Moment, is_past
from tidewright.asking.progress import progress
from tidewright.asking.services import BY_NAME, SERVICES, Service
from tidewright.asking.source import Source
from tidewright.asking.told_time import told
from tidewright.events.base import Decision, Event
from tidewright.host.fold.explainer import Explainer, Reference
from tidewright.host.fold.plotter import Plotter, Sample

POINTS = 400
"""Of a line, where no other number is asked for."""
MOST_POINTS = 5_000
MOST_MARKS = 500
"""The last decisions that are on a chart."""
TOLD_EVERY = 2_000


def plotter_of(service: Service) -> Plotter | None:
    """What a service knows to draw; its module is imported here. None: nothing."""
    if not service.plotter:
        return None
    module, _, name = service.plotter.partition(":")
    plotter: Plotter = getattr(import_module(module), name)
    return plotter


async def series(
    source: Source, asked: Reference, since: Moment, until: Moment, points: int = POINTS
) -> ObjectSeries:
    """The lines of an object between two moments, and the decisions about it.

    Raises:
        BadInput: nothing on the log is about the object, the stretch is empty, or too many points are asked for.
    """
    if not 1 <= points <= MOST_POINTS:
        raise BadInput(f"--points {points}: points of a line, 1 to {MOST_POINTS}")
    if since.seq > until.seq:
        raise BadInput("--since is later than --until: the stretch between them is empty")
    charts = [_Chart(asked, service, plotter) for service, plotter in _plotters(asked.kind)]
    drawn = _Drawn(source, asked, since, until, points)
    words = await _before(source, [asked], since)
    later = await last_facts(source, [asked], until.bound)
    if not later and not words and not await _decided(source, asked, until):
        from tidewright.asking.suggestions import unknown

        raise await unknown(source, asked, until)
    references = dict.fromkeys(
        [
            asked,
            *(
                other
                for chart in charts
                for word in (*words, *later)
                for other in chart.elsewhere(word.event)
            ),
        ]
    )
    for word in await _before(source, list(references), since):
        if isinstance(word.event, Event):
            drawn.fact(charts, _object(word.record.subject), word.event, since.at)
    await _read(source, drawn, charts, list(references))
    return drawn.answer()


async def _before(source: Source, of: Sequence[Reference], since: Moment) -> list[Found]:
    """The last words at the beginning of the stretch; none at the beginning of the log."""
    return await last_facts(source, of, since.seq) if since.seq else []


def _plotters(kind: str) -> list[tuple[Service, Plotter]]:
    candidates = [(service, plotter_of(service)) for service in SERVICES if kind in service.explains]
    return [(s, plotter) for s, plotter in candidates if plotter is not None and kind in plotter.kinds]


async def _decided(source: Source, asked: Reference, until: Moment) -> bool:
    return bool(await source.last([decided_about(source, "*", asked)], until.bound))


async def _read(
    source: Source, drawn: _Drawn, charts: Sequence[_Chart], references: Sequence[Reference]
) -> None:
    """All facts and decisions within the stretch."""
    since, until = drawn.since, drawn.until
    places = [r for r in references if r.kind != "metric"]
    patterns = [fact_subject(source, reference) for reference in references]
    patterns += [decided_about(source, "*", place) for place in places]
    patterns = list(await source.narrowed(list(dict.fromkeys(patterns)), since.seq))
    advanced_to = since.seq
    with progress(f"reading {drawn.asked}", until.seq - since.seq) as advance:
        async with aclosing(source.merged(patterns, since.seq)) as records:
            async for record in records:
                if record.seq > until.seq:
                    break
                if record.seq >= advanced_to + TOLD_EVERY:
                    advance(record.seq - advanced_to)
                    advanced_to = record.seq
                found = decoded(record) if is_past(source, record) else None
                if found is None or not isinstance(found.event, Event):
                    continue
                cls, kind, namespace, name = subject_object(record.subject)
                if cls == "fact":
                    drawn.fact(charts, Reference(kind, namespace, name), found.event, told(found.event))
                elif isinstance(found.event, Decision):
                    service = source.subjects.parse(record.subject).rest[0]
                    drawn.decision(charts, service, record.seq, found.event)


def _object(subject: str) -> Reference:
    return Reference(*subject_object(subject)[1:])


@dataclass
class _Chart:
    """What one service draws, from the last facts that it has seen."""

    asked: Reference
    service: Service
    plotter: Plotter
    facts: dict[Reference, Event] = field(default_factory=dict)

    def elsewhere(self, event: object) -> Sequence[Reference]:
        return self.plotter.elsewhere(event) if isinstance(event, Event) else ()

    def take(self, about: Reference, event: Event) -> Sequence[Sample]:
        self.facts[about] = event
        return self.plotter.samples(self.asked, tuple(self.facts.values()), event)


Point: TypeAlias = "tuple[float, float | None, float | None, float | None]"
"""Time, last value, the least and the greatest."""


class Points:
    """The points of a line: every change of its value, or one for each stretch of time where these are more."""

    def __init__(self, unit: str, start: float, end: float, most: int) -> None:
        self.unit = unit
        self._start, self._span, self._most = start, max(end - start, 1e-6), most
        self._points: list[Point] = []

    def add(self, at: float, value: float | None) -> None:
        """A value, in the order of the log; a line holds its value until the next one, and goes on from there."""
        if self._points:
            if self._points[-1][1] == value:
                return
            at = max(at, self._points[-1][0])
        self._points.append((at, value, value, value))
        if len(self._points) > 4 * self._most:
            self._points = self._coarse()

    def points(self) -> list[Point]:
        """As many as may be."""
        return self._points if len(self._points) <= self._most else self._coarse()

    def _coarse(self) -> list[Point]:
        """The last point of each stretch, with the extremes of all in it."""
        coarse: dict[int, Point] = {}
        for at, value, low, high in self._points:
            place = min(self._most - 1, int((at - self._start) / self._span * self._most))
            before = coarse.get(place)
            if before is not None:
                numbers = [number for number in (before[2], before[3], low, high) if number is not None]
                low, high = min(numbers, default=None), max(numbers, default=None)
            coarse[place] = (at, value, low, high)
        return list(coarse.values())

    def answer(self, name: str, of: str) -> SeriesLine:
        """The line."""
        points = tuple(
            SeriesPoint(at=stamp(at), value=value, low=low, high=high)
            for at, value, low, high in self.points()
        )
        return SeriesLine(name=name, of=of, unit=self.unit, points=points)


class _Drawn:
    """A chart as it is made."""

    def __init__(self, source: Source, asked: Reference, since: Moment, until: Moment, points: int) -> None:
        self.source, self.asked, self.since, self.until = source, asked, since, until
        self._points = points
        self._lines: dict[tuple[str, str], Points] = {}
        self._marks: deque[SeriesMark] = deque(maxlen=MOST_MARKS)
        self._decisions = 0

    def fact(self, charts: Iterable[_Chart], about: Reference, event: Event, at: float) -> None:
        """A fact about the object, or about what is drawn with it."""
        at = min(max(at, self.since.at), self.until.at)
        for chart in charts:
            for sample in chart.take(about, event):
                key = (sample.line, sample.of)
                if key not in self._lines:
                    self._lines[key] = Points(sample.unit, self.since.at, self.until.at, self._points)
                self._lines[key].add(at, sample.value)

    def decision(self, charts: Sequence[_Chart], service: str, seq: int, decision: Decision) -> None:
        """A decision on the object, or on what is drawn with it."""
        chart = next((chart for chart in charts if chart.service.name == service), None)
        explainer = _explainer(service)
        if explainer is None or not explainer.concerns(decision, self.asked):
            return
        change = chart.plotter.change(self.asked, decision) if chart is not None else None
        self._decisions += 1
        self._marks.append(
            SeriesMark(
                sequence=seq, at=stamp(told(decision)), service=service, decision=decision.id, text=line(decision),
                shadow=decision.shadow, from_=change[0] if change else None, to=change[1] if change else None,
            )
        )  # fmt: skip

    def answer(self) -> ObjectSeries:
        """What has come together."""
        asked = self.asked
        return ObjectSeries(
            log=self.source.name, sequence=self.until.seq, at=stamp(self.until.at),
            kind=asked.kind, namespace=asked.namespace, name=asked.name,
            since=stamp(self.since.at), until=stamp(self.until.at),
            lines=tuple(points.answer(name, of) for (name, of), points in self._lines.items()),
            marks=tuple(sorted(self._marks, key=lambda mark: (mark.at, mark.sequence))), left_out=self._decisions - len(self._marks),
        )  # fmt: skip


def _explainer(service: str) -> Explainer[object] | None:
    known = BY_NAME.get(service)
    return explainer_of(known) if known is not None else None
