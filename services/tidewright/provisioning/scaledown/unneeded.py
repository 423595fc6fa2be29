"""Why nodes stay, by the reasons that `unremovable_nodes_count` has in the reference. Spec 3.10, 4.2.

Nodes of which a watcher of before told go when they are empty: one that is used little is `BlockedByPod`. Of others it is
what passes found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidewright.provisioning.index.index import Index
from tidewright.provisioning.scaledown.candidates.eligible import AT_MINIMUM
from tidewright.provisioning.scaledown.cards import Card
from tidewright.provisioning.scaledown.idle import SCALE_DOWN_DISABLED
from tidewright.provisioning.scaledown.live import cards_of
from tidewright.provisioning.scaledown.passes import PassPlan
from tidewright.provisioning.scaledown.recording import recorded_plan
from tidewright.provisioning.state import GroupState, Node, State

REASONS = (
    "NotAutoscaled",
    "CurrentlyBeingDeleted",
    "ScaleDownDisabledAnnotation",
    "NotUnderutilized",
    "BlockedByPod",
    "NotUnneededLongEnough",
    "NodeGroupMinSizeReached",
)
LITTLE = 0.5
"""`scale-down-utilization-threshold` of the reference: what uses no more of a node is little."""


def unremovable(state: State, index: Index) -> Mapping[str, int]:
    """How many nodes stay for which reason: the first that applies."""
    counted: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
    cards = cards_of(state, index, state.now) if state.scan.told else None
    plan = recorded_plan(state, index, state.now) if state.scan.told else None
    for name, node in state.nodes.items():
        if cards is not None and plan is not None and node.delays is not None:
            reason = _found(state, cards.cards[name], plan)
        else:
            reason = _reason(state, index, name, node, state.groups.get(node.group))
        if reason:
            counted[reason] += 1
    return counted


def _found(state: State, card: Card, plan: PassPlan) -> str:
    """Why a node stays by what passes found; empty of one that goes, and of one that was not looked at."""
    name = card.node.name
    if name in state.removals:
        return "CurrentlyBeingDeleted"
    if name in plan.unneeded:
        return plan.waiting.get(name, "")
    if card.reason:
        return card.reason
    paused = state.paused.get(name)
    if paused is not None and paused.holds(state.scan, state.now):
        return paused.reason
    group = state.groups.get(card.node.group)
    return AT_MINIMUM if group is not None and group.target <= group.min_size else ""


def _reason(state: State, index: Index, name: str, node: Node, group: GroupState | None) -> str:
    if group is None:
        return "NotAutoscaled"
    if node.leaving or node.doomed:
        return "CurrentlyBeingDeleted"
    if node.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return "ScaleDownDisabledAnnotation"
    if name not in state.idle:
        return "NotUnderutilized" if _used(index, name, node) > LITTLE else "BlockedByPod"
    return "NodeGroupMinSizeReached" if group.target <= group.min_size else "NotUnneededLongEnough"


def _used(index: Index, name: str, node: Node) -> float:
    """The larger part of cpu and memory that pods on it ask for, from 0 to 1."""
    row = index.grid.rows.get(name)
    parts = [0.0]
    for resource in ("cpu", "memory"):
        there, free = node.allocatable.get(resource, 0), index.grid.free.get(resource)
        if row is not None and there and free is not None:
            parts.append(1.0 - float(free[row]) / there)
    return max(parts)
