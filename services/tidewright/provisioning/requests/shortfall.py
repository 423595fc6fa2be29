"""How far a request is from having its room: what backfill may not make worse. Spec 8, [B6].

shortfall(...)   for how many of its pods there is no room
nearest(...)     the same, with where the others would go
kept(...)        a world in which those places are taken: what is left for those that pass it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.requests.search import Asked, goals_of, place_sets, variants_of, with_grid
from tidewright.provisioning.requests.spec import Mode
from tidewright.provisioning.scaleup import expander as exp
from tidewright.provisioning.scaleup.options import plan
from tidewright.provisioning.scaleup.plans import Plan, World
from tidewright.provisioning.scaleup.rounds import plan_all


class Nearest(NamedTuple):
    """The placement that comes nearest to what a request asks for.

    Attributes:
        lacking: pods for which there is no room.
        grid: nodes, with those of its pods that find room there.
        plan: what it would order for others; None for nothing.
    """

    lacking: int
    grid: Grid
    plan: Plan | None = None


def shortfall(mode: Mode, asked: Asked, world: World) -> int:
    """Pods of a request for which there is no room in this world, however its groups grew; see `nearest`."""
    return nearest(mode, asked, world).lacking


def nearest(mode: Mode, asked: Asked, world: World) -> Nearest:
    """Where the pods of a request would go in this world, as many as find room, however its groups grew.

    Of an elastic gang its minimum counts, of a topology the domain that comes nearest. Groups that cannot
    grow for the moment (backoff, unready nodes) count as if they could: the request may be waiting for them.
    """
    counts = goals_of(asked)[-1]
    hopeful = msgspec.structs.replace(
        world,
        groups=tuple(msgspec.structs.replace(g, backed_off=False, healthy=True) for g in world.groups),
    )

    def placed(sets: Sequence[Item]) -> Nearest:
        return _placed(mode, asked, hopeful, sets)

    variants = variants_of(asked, hopeful, lambda sets: not placed(sets).lacking, counts)
    nothing = Nearest(sum(counts), world.grid)
    return min(map(placed, variants), key=lambda placement: placement.lacking, default=nothing)


def kept(place: Nearest, world: World) -> World:
    """A world without what a placement takes: neither its room on nodes, nor what groups would grow by for it."""
    limits, groups, nodes = world.limits.fork(), {group.id: group for group in world.groups}, 0
    for target in place.plan.targets if place.plan is not None else ():
        group = groups.get(target.group)
        if group is None:
            continue  # one that would come into being beside another
        groups[group.id] = msgspec.structs.replace(group, max=group.max - target.added)
        limits.consume(group.id, group.labels, group.node_capacity, target.added)
        nodes += target.added
    return msgspec.structs.replace(
        world,
        grid=place.grid.fork(),
        groups=tuple(groups.values()),
        limits=limits,
        current_nodes=world.current_nodes + nodes,
    )


def _placed(mode: Mode, asked: Asked, world: World, sets: Sequence[Item]) -> Nearest:
    trial = world.grid.fork()
    here = place_sets(trial, sets, growing=mode is not Mode.CHECK)
    rest = merged((item.shape, item.count - n) for item, n in zip(sets, here, strict=True) if n < item.count)
    total = sum(item.count for item in rest)
    if not rest or mode is Mode.CHECK:
        return Nearest(total, trial)
    beyond = with_grid(world, trial)
    if asked.parameters.across_groups:
        order = plan_all(rest, beyond, redistribute=True)
    else:
        order = plan(rest, beyond, redistribute=True, chooser=_largest)
    return Nearest(total - sum(order.placed), trial, order)


def _largest(options: Sequence[exp.Option]) -> exp.Option | None:
    return min(options, key=lambda option: (-option.pods, option.nodes, option.group), default=None)
