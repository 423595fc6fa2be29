"""Groups brought to the size that they are to have at least, or to begin with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.events.base import Decision
from tidewright.events.provisioning import IncreaseNodeGroup
from tidewright.provisioning.fold.common import BEGINNING
from tidewright.provisioning.scaleup.orders import Orders, ordered_plan
from tidewright.provisioning.scaleup.plans import SUCCESSFUL, Plan, Target, World
from tidewright.provisioning.scaleup.sharing import to_minimum
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.sentences import because


def to_least(world: World, orders: Orders) -> list[Decision]:
    """Groups below their minimum get it."""
    below = [g for g in world.groups if g.exists and g.target < g.min]
    targets = to_minimum(below, world.limits)
    if not targets:
        return []
    plan = Plan(result=SUCCESSFUL, targets=targets)
    why = [
        because("BelowMinimum", group=g.id, target=g.target, minimum=g.min)
        for g in below
        if any(t.group == g.id for t in targets)
    ]
    return ordered_plan(orders, plan, world, pods=(), why=why)


def to_begin_with(
    state: State, world: World, orders: Orders, decisions: Sequence[Decision]
) -> list[Decision]:
    """Groups that are to begin with a size get it, once; `decisions`: those of the evaluation so far."""
    groups = state.groups
    ordered = {one.target.name for one in decisions if isinstance(one, IncreaseNodeGroup)}
    lifted = [
        msgspec.structs.replace(g, min=groups[g.id].initial)
        for g in world.groups
        if g.id in groups
        and g.target < groups[g.id].initial
        and not groups[g.id].error
        and g.id not in ordered
    ]
    most = world.settings.max_nodes_total
    if not lifted or (most and ordered):
        return []  # what was ordered just now is not counted yet
    room = most - world.current_nodes if most else sum(g.min for g in lifted)
    targets: list[Target] = []
    for target in to_minimum(lifted, world.limits):
        nodes = min(target.size - target.from_size, room)
        if nodes > 0:
            targets.append(msgspec.structs.replace(target, size=target.from_size + nodes))
            room -= nodes
    if not targets:
        return []
    why = [
        because(BEGINNING, group=t.group, target=t.from_size, initial=groups[t.group].initial)
        for t in targets
    ]
    plan = Plan(result=SUCCESSFUL, targets=tuple(targets))
    return ordered_plan(orders, plan, world, pods=(), why=why)
