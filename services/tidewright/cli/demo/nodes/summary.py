"""What happened to pods and nodes, and what it saved, at the end: for people and as JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tidewright.asking.answers.form import stamp, stamp_if_set
from tidewright.cli.answers import (
    NodeBill,
    NodeCounts,
    NodesStorySummary,
    Played,
    SavedNodes,
    ToldNodes,
    Where,
)
from tidewright.cli.chart import chart
from tidewright.cli.demo.nodes.story import NAMESPACE, Bill, NodesStory
from tidewright.cli.demo.summary import points, rules
from tidewright.events.base import Decision
from tidewright.events.provisioning import RemoveNode
from tidewright.provisioning.tell.explaining import ProvisioningExplainer
from tidewright.provisioning.tell.lines import line

WIDTH, HEIGHT = 64, 6


@dataclass(frozen=True)
class NodesRun:
    """The circumstances of a run.

    Attributes:
        start, end: of the story, log seconds.
        speed: log seconds per wall second.
        folder: the data folder, in which the log is kept.
        command: how a user types our command here.
    """

    start: float
    end: float
    speed: float
    folder: str
    cluster: str
    command: str = "tidewright"

    @property
    def wall_s(self) -> float:
        """How long the story took."""
        return (self.end - self.start) / self.speed


def summary(story: NodesStory, run: NodesRun) -> NodesStorySummary:
    """The summary for programs."""
    until = max(run.end, story.now)
    paid, standing = story.paid(run.start, until), story.standing(run.start, until)
    drained = [removal for removal in story.removals if removal.id in story.removed]
    return NodesStorySummary(
        story=Played(
            name="nodes", source="", since=stamp(run.start), until=stamp(until), speed=run.speed, took_seconds=run.wall_s
        ),
        decisions=NodeCounts(
            total=sum(story.decisions.values()),
            by_type=dict(sorted(story.decisions.items())),
            scale_ups=len(story.plans),
            nodes_ordered=sum(i.size - i.from_size for plan in story.plans for i in plan.increases),
            nodes_removed=len(drained),
            nodes_drained=sum(removal.kind == "drain" for removal in drained),
            pods_evicted=story.evicted,
            removals_undone=len(story.undone),
        ),
        nodes=points(story.sizes),
        pods=points(story.counts),
        prices_per_hour_micro={group: micro(price) for group, price in sorted(story.prices.items())},
        scale_up=_explained(story, story.largest_plan),
        scale_down=_explained(story, story.fullest_drain),
        saved=SavedNodes(
            paid=_bill(paid),
            standing=_bill(standing),
            node_hours=round(standing.hours - paid.hours, 3),
            price_micro=micro(standing.price - paid.price),
        ),
        log=Where(folder=run.folder, cluster=run.cluster),
    )  # fmt: skip


def micro(price: float) -> int:
    """An amount in millionths of the currency."""
    return round(price * 1_000_000)


def _bill(bill: Bill) -> NodeBill:
    return NodeBill(node_hours=round(bill.hours, 3), price_micro=micro(bill.price))


def _explained(story: NodesStory, decision: Decision | None) -> ToldNodes | None:
    if decision is None:
        return None
    removal = decision if isinstance(decision, RemoveNode) else None
    return ToldNodes(
        decision=decision.id,
        at=stamp(story.times[decision.id]),
        what=line(decision),
        because=rules(decision.because),
        explanation=tuple(ProvisioningExplainer().sentences(decision)),
        node="" if removal is None else removal.node,
        gone_at=None if removal is None else stamp_if_set(story.removed.get(removal.id)),
    )


def as_text(story: NodesStory, run: NodesRun) -> str:
    """The summary for people."""
    content = summary(story, run)
    decisions = content.decisions
    kinds = ", ".join(f"{count} {name}" for name, count in decisions.by_type.items())
    back = decisions.removals_undone
    undone = f" {back} removal{'s were' if back > 1 else ' was'} undone." if back else ""
    lines = [
        (
            f"{decisions.total} decisions in {(run.end - run.start) / 60:.0f} minutes, seen in {run.wall_s:.0f} s:"
            f" {decisions.scale_ups} scale-ups ordered {decisions.nodes_ordered} nodes,"
            f" {decisions.nodes_removed} nodes went, {decisions.nodes_drained} of them drained"
            f" ({decisions.pods_evicted} pods evicted).{undone}"
        ),
        f"  by type: {kinds}" if kinds else "  none",
        "",
        *chart("nodes", story.sizes, run.start, run.end, width=WIDTH, height=HEIGHT),
        "",
        *chart(f"pods of {NAMESPACE}", story.counts, run.start, run.end, width=WIDTH, height=HEIGHT),
        "",
        *_story_of("scale-up: no pod ever lacked a node", content.scale_up),
        "",
        *_story_of("scale-down: no node went in this time", content.scale_down),
        "",
        *_saved(content.saved),
        "",
        f"Log and cluster are kept in {run.folder}. Ask the log, or go on from there:",
    ]
    if content.scale_down is not None:
        lines.append(f"  {run.command} explain node/{content.scale_down.node} --data {run.folder}")
    lines += [
        f"  {run.command} console --data {run.folder}",
        f"  {run.command} verify --data {run.folder}",
        f"  {run.command} up --data {run.folder} --cluster {run.cluster}",
    ]
    return "\n".join(lines)


def _story_of(none: str, told: ToldNodes | None) -> list[str]:
    if told is None:
        return [f"No {none}."]
    title = f"Why {told.what} (decision {told.decision}):"
    return [title, *(f"  - {sentence}" for sentence in told.explanation)]


def _saved(saved: SavedNodes) -> list[str]:
    paid, standing = saved.paid, saved.standing
    share = saved.price_micro / standing.price_micro if standing.price_micro else 0.0
    return [
        f"Saved: {saved.node_hours:.2f} node-hours and {saved.price_micro / 1e6:.2f} ({share:.0%} of the price), against leaving all nodes standing:",
        f"  {'':<24}{'node-hours':>12}{'price':>10}",
        f"  {'as it was':<24}{paid.node_hours:>12.2f}{paid.price_micro / 1e6:>10.2f}",
        f"  {'all nodes left standing':<24}{standing.node_hours:>12.2f}{standing.price_micro / 1e6:>10.2f}",
    ]
