"""What happened in the demo, at its end: for people and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidewright.asking.answers.form import stamp
from tidewright.autoscaler.tell.sentences import sentences
from tidewright.cli.answers import (
    AppliedRule,
    FollowedMetric,
    LoadStory,
    Played,
    Point,
    ScaleCounts,
    ScaledObject,
    ToldScale,
    Where,
)
from tidewright.cli.chart import chart
from tidewright.cli.demo.objects import METRIC, NAME, NAMESPACE, Marks
from tidewright.cli.demo.story import Story
from tidewright.events.base import Because
from tidewright.events.decisions import ScaleWorkload

WIDTH, HEIGHT = 64, 6
MEANS = {
    "RateLimited": "object events beyond what one object may have",
    "Conflict": "from a count that had changed, and decided again",
}
"""Reasons of the actuator that a demo leads to, for people."""


@dataclass(frozen=True)
class DemoRun:
    """The circumstances of a run.

    Attributes:
        trace: where the load came from.
        start, end: of the load, log seconds.
        speed: log seconds per wall second.
        folder: the data folder, in which the log is kept.
        wall_s: how long the load took.
        command: how a user types our command here.
    """

    trace: str
    marks: Marks
    start: float
    end: float
    speed: float
    folder: str
    cluster: str
    wall_s: float
    command: str = "tidewright"


def summary(story: Story, run: DemoRun) -> LoadStory:
    """The summary for programs."""
    outcomes = Counter(type(outcome).__name__.lower() for outcome in story.outcomes.values())
    return LoadStory(
        story=Played(
            name="load", source=run.trace, since=stamp(run.start), until=stamp(run.end), speed=run.speed,
            took_seconds=run.wall_s,
        ),
        target=ScaledObject(kind="Deployment", namespace=NAMESPACE, name=NAME),
        metric=FollowedMetric(name=METRIC, high_watermark=run.marks.high, low_watermark=run.marks.low),
        decisions=ScaleCounts(
            total=sum(story.decisions.values()),
            by_type=dict(sorted(story.decisions.items())),
            outcomes=dict(sorted(outcomes.items())),
            unmet_because=story.unmet,
            scale_ups=sum(s.replicas > s.from_replicas for s in story.steps),
            scale_downs=sum(s.replicas < s.from_replicas for s in story.steps),
        ),
        replicas=points(story.replicas),
        load=points(story.load),
        scale_up=_explained(story, story.largest(up=True)),
        scale_down=_explained(story, story.largest(up=False)),
        log=Where(folder=run.folder, cluster=run.cluster),
    )  # fmt: skip


def points(values: Iterable[tuple[float, float]]) -> tuple[Point, ...]:
    """A step function as answers have it."""
    return tuple(Point(at=stamp(at), value=value) for at, value in values)


def rules(because: Iterable[Because]) -> tuple[AppliedRule, ...]:
    """Why, as answers have it."""
    return tuple(AppliedRule(rule=step.rule, values=dict(step.values)) for step in because)


def _explained(story: Story, scale: ScaleWorkload | None) -> ToldScale | None:
    if scale is None:
        return None
    return ToldScale(
        decision=scale.id,
        at=stamp(story.times[scale.id]),
        from_=scale.from_replicas,
        to=scale.replicas,
        because=rules(scale.because),
        explanation=tuple(sentences(scale.because)),
        outcome=story.applied(scale) or None,
    )


def as_text(story: Story, run: DemoRun) -> str:
    """The summary for people."""
    content = summary(story, run)
    decisions = content.decisions
    kinds = ", ".join(f"{count} {name}" for name, count in decisions.by_type.items())
    lines = [
        (
            f"{decisions.total} decisions in {_span(run.end - run.start)} of load, seen in {run.wall_s:.0f} s:"
            f" {decisions.scale_ups} scale-ups, {decisions.scale_downs} scale-downs."
        ),
        f"  by type: {kinds}" if kinds else "  none",
        *_outcomes(decisions.outcomes, decisions.unmet_because),
        "",
        *chart(
            f"replicas of {NAMESPACE}/{NAME}", story.replicas, run.start, run.end, width=WIDTH, height=HEIGHT
        ),
        "",
        *chart(f"load ({METRIC})", story.load, run.start, run.end, width=WIDTH, height=HEIGHT),
    ]
    for direction, told in (("up", content.scale_up), ("down", content.scale_down)):
        lines += ["", *_story_of(direction, told)]
    lines += [
        "",
        f"Log and cluster are kept in {run.folder}. Ask the log, or go on from there:",
        f"  {run.command} explain wpa/{NAME} -n {NAMESPACE} --data {run.folder}",
        f"  {run.command} console --data {run.folder}",
        f"  {run.command} verify --data {run.folder}",
        f"  {run.command} up --data {run.folder} --cluster {run.cluster}",
    ]
    return "\n".join(lines)


def _outcomes(outcomes: Mapping[str, int], unmet: Mapping[str, int]) -> list[str]:
    """What came of the decisions, and where not all was done, why."""
    if not outcomes:
        return []
    because = ", ".join(f"{count} {MEANS.get(reason, reason)}" for reason, count in unmet.items())
    counts = ", ".join(f"{count} {name}" for name, count in outcomes.items())
    return [f"  outcomes: {counts}" + (f" ({because})" if because else "")]


def _story_of(direction: str, told: ToldScale | None) -> list[str]:
    if told is None:
        return [f"No scale-{direction}: the load never asked for one."]
    title = f"Why {told.from_} -> {told.to} replicas (decision {told.decision}):"
    return [title, *(f"  - {line}" for line in told.explanation), f"  - Outcome: {told.outcome or 'open'}."]


def _span(seconds: float) -> str:
    hours = seconds / 3600
    return (
        f"{hours / 24:.1f} days"
        if hours >= 48
        else (f"{hours:.1f} hours" if hours >= 1 else f"{seconds:.0f} s")
    )
