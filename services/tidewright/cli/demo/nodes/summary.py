"""What happened to pods and nodes, and what it saved, at the end: for people and as JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidewright.cli.chart import chart
from tidewright.cli.demo.nodes.story import NAMESPACE, Bill, NodesStory
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


def as_json(story: NodesStory, run: NodesRun) -> dict[str, Any]:
    """The summary as one JSON value."""
    until = max(run.end, story.now)
    paid, standing = story.paid(run.start, until), story.standing(run.start, until)
    drained = [removal for removal in story.removals if removal.id in story.removed]
    return {
        "story": {"name": "nodes", "start": run.start, "end": until, "speed": run.speed, "wall_s": run.wall_s},
        "decisions": {
            "total": sum(story.decisions.values()),
            "by_type": dict(sorted(story.decisions.items())),
            "scale_ups": len(story.plans),
            "nodes_ordered": sum(i.size - i.from_size for plan in story.plans for i in plan.increases),
            "nodes_removed": len(drained),
            "nodes_drained": sum(removal.kind == "drain" for removal in drained),
            "pods_evicted": story.evicted,
            "removals_undone": len(story.undone),
        },
        "nodes": [[at, nodes] for at, nodes in story.sizes],
        "pods": [[at, pods] for at, pods in story.counts],
        "prices": dict(sorted(story.prices.items())),
        "scale_up": _explained(story, story.largest_plan),
        "scale_down": _explained(story, story.fullest_drain),
        "saved": {
            "paid": _bill(paid),
            "standing": _bill(standing),
            "node_hours": round(standing.hours - paid.hours, 3),
            "price": round(standing.price - paid.price, 3),
        },
        "log": {"folder": run.folder, "cluster": run.cluster},
    }  # fmt: skip


def _bill(bill: Bill) -> dict[str, float]:
    return {"node_hours": round(bill.hours, 3), "price": round(bill.price, 3)}


def _explained(story: NodesStory, decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    explained: dict[str, Any] = {
        "decision": decision.id,
        "at": story.times[decision.id],
        "what": line(decision),
        "because": [{"rule": step.rule, "values": step.values} for step in decision.because],
        "explanation": list(ProvisioningExplainer().sentences(decision)),
    }
    if isinstance(decision, RemoveNode):
        explained |= {"node": decision.node, "gone_at": story.removed.get(decision.id)}
    return explained


def as_text(story: NodesStory, run: NodesRun) -> str:
    """The summary for people."""
    content = as_json(story, run)
    decisions = content["decisions"]
    kinds = ", ".join(f"{count} {name}" for name, count in decisions["by_type"].items())
    undone = f" {decisions['removals_undone']} removals were undone." if decisions["removals_undone"] else ""
    lines = [
        (
            f"{decisions['total']} decisions in {(run.end - run.start) / 60:.0f} minutes, seen in {run.wall_s:.0f} s:"
            f" {decisions['scale_ups']} scale-ups ordered {decisions['nodes_ordered']} nodes,"
            f" {decisions['nodes_removed']} nodes went, {decisions['nodes_drained']} of them drained"
            f" ({decisions['pods_evicted']} pods evicted).{undone}"
        ),
        f"  by type: {kinds}" if kinds else "  none",
        "",
        *chart("nodes", story.sizes, run.start, run.end, width=WIDTH, height=HEIGHT),
        "",
        *chart(f"pods of {NAMESPACE}", story.counts, run.start, run.end, width=WIDTH, height=HEIGHT),
        "",
        *_story_of("scale-up: no pod ever lacked a node", content["scale_up"]),
        "",
        *_story_of("scale-down: no node went in this time", content["scale_down"]),
        "",
        *_saved(content["saved"]),
        "",
        f"Log and cluster are kept in {run.folder}. Ask the log, or go on from there:",
    ]
    if content["scale_down"] is not None:
        lines.append(f"  {run.command} explain node/{content['scale_down']['node']} --data {run.folder}")
    lines += [
        f"  {run.command} verify --data {run.folder}",
        f"  {run.command} up --data {run.folder} --cluster {run.cluster}",
    ]
    return "\n".join(lines)


def _story_of(none: str, explained: dict[str, Any] | None) -> list[str]:
    if explained is None:
        return [f"No {none}."]
    title = f"Why {explained['what']} (decision {explained['decision']}):"
    return [title, *(f"  - {sentence}" for sentence in explained["explanation"])]


def _saved(saved: dict[str, Any]) -> list[str]:
    paid, standing = saved["paid"], saved["standing"]
    share = saved["price"] / standing["price"] if standing["price"] else 0.0
    return [
        f"Saved: {saved['node_hours']:.2f} node-hours and {saved['price']:.2f} ({share:.0%} of the price), against leaving all nodes standing:",
        f"  {'':<24}{'node-hours':>12}{'price':>10}",
        f"  {'as it was':<24}{paid['node_hours']:>12.2f}{paid['price']:>10.2f}",
        f"  {'all nodes left standing':<24}{standing['node_hours']:>12.2f}{standing['price']:>10.2f}",
    ]
