"""The search for room: is there room (check), or one order for all that lacks room (atomic).

Spec 2.7 and 2.11. It works on the evaluation's own fork of the cluster: what it places stays there for the
requests after it. What is decided of what it finds: see `attempt`.

`CLASSES` is the registry: a class is a function from (request, world) to (result, plan, conditions,
details). Further classes register by their mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from tidewright.kube.podshape import PodShape
from tidewright.kube.selectors import Requirement
from tidewright.provisioning.index.resolving import domain_of, pinned_digest
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.together import kindred
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.conditions import Condition
from tidewright.provisioning.requests.spec import Mode, Parameters
from tidewright.provisioning.scaleup.options import plan
from tidewright.provisioning.scaleup.plans import ERROR, NO_OPTIONS, NOT_NEEDED, SUCCESSFUL, Plan, World
from tidewright.provisioning.scaleup.rounds import plan_all
from tidewright.provisioning.settings import LEAST_COST


class Attempt(msgspec.Struct, kw_only=True):
    """What came of an attempt.

    Attributes:
        result: `Successful`, `NotNeeded`, `NoOptionsAvailable`, `Error`.
        conditions: to be set, in order.
        plan: what is ordered; None for nothing.
        placed: pods per pod set that have a place now or on ordered nodes.
        details: for `provisioningClassDetails`.
        shapes: the pod sets' shapes as they were placed (with a topology's domain fixed).
        passes: a request before it in the queue that it would have delayed, and therefore got nothing.
    """

    result: str
    conditions: tuple[Condition, ...]
    plan: Plan | None = None
    placed: tuple[int, ...] = ()
    details: dict[str, str] = {}
    shapes: tuple[PodShape, ...] = ()
    error: str = ""
    passes: str = ""

    @property
    def domains(self) -> tuple[str, ...]:
        """Per pod set the value of its topology; empty without one."""
        values = tuple(domain_of(shape.digest) for shape in self.shapes)
        return values if any(values) else ()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for: pod sets as shapes with counts, and its parameters."""

    sets: tuple[Item, ...]
    parameters: Parameters = Parameters()
    alias: bool = False


Class: TypeAlias = Callable[[Asked, World], Attempt]


def search(mode: Mode, asked: Asked, world: World) -> Attempt:
    """Try a request of ours; `world.grid` then holds what was placed."""
    attempt = CLASSES[mode](asked, world)
    if asked.alias:
        extra = tuple(cond.available(c) for c in attempt.conditions if c.type == cond.PROVISIONED)
        attempt.conditions += extra
    return attempt


def _failure(asked: Asked) -> tuple[Condition, ...]:
    return (cond.GIVEN_UP,) if asked.parameters.no_retry else (cond.NOT_FOUND,)


def _keep(world: World, trial: Grid) -> None:
    world.grid = trial


def check(asked: Asked, world: World) -> Attempt:
    """Everything fits where there is room, or nothing is placed. Never adds nodes."""

    def fits(sets: Sequence[Item]) -> bool:
        return _enough(place_sets(world.grid.fork(), sets), sets, asked.parameters)

    for sets in variants_of(asked, world, fits):
        trial = world.grid.fork()
        placed = place_sets(trial, sets)
        if _enough(placed, sets, asked.parameters):
            _keep(world, trial)
            return Attempt(
                result=SUCCESSFUL,
                conditions=(cond.FOUND, *_fully(asked, placed)),
                placed=placed,
                shapes=tuple(item.shape for item in sets),
            )
    return Attempt(result=NO_OPTIONS, conditions=_failure(asked), placed=(0,) * len(asked.sets))


def atomic(asked: Asked, world: World) -> Attempt:
    """Place what fits; for the rest one plan that holds all of it, or nothing."""

    def fits(sets: Sequence[Item]) -> bool:
        order = _ordered(asked, world, sets)[2]
        return order is None or order.result == SUCCESSFUL

    last: Plan | None = None
    for counts in goals_of(asked):
        for sets in variants_of(asked, world, fits, counts):
            trial, here, order = _ordered(asked, world, sets)
            shapes = tuple(item.shape for item in sets)
            if order is None:
                _keep(world, trial)
                return Attempt(
                    result=NOT_NEEDED,
                    conditions=(cond.FOUND, *_fully(asked, here)),
                    placed=here,
                    shapes=shapes,
                )
            if order.result == SUCCESSFUL:
                _keep(world, trial)
                full = tuple(item.count for item in sets)
                return Attempt(
                    result=SUCCESSFUL,
                    conditions=(cond.ORDERED, *_fully(asked, full)),
                    plan=order,
                    placed=full,
                    shapes=shapes,
                )
            last = last or order
    return Attempt(
        result=ERROR if last is not None and last.result == ERROR else NO_OPTIONS,
        conditions=_failure(asked),
        plan=last,
        placed=(0,) * len(asked.sets),
        error=last.event if last is not None else "",
    )


def _ordered(asked: Asked, world: World, sets: Sequence[Item]) -> tuple[Grid, tuple[int, ...], Plan | None]:
    """What fits placed on a trial, and the plan for the rest; None when there is no rest."""
    trial = world.grid.fork()
    here = place_sets(trial, sets, growing=True)
    rest = merged((item.shape, item.count - n) for item, n in zip(sets, here, strict=True) if n < item.count)
    if not rest:
        return trial, here, None
    on_trial = with_grid(world, trial)
    ways = [plan, plan_all] if asked.parameters.across_groups else [plan]
    if LEAST_COST in world.settings.expander:
        ways.reverse()  # over all groups it costs least
    for way in ways:
        order = way(rest, on_trial, all_or_nothing=True, redistribute=True)
        if order.result == SUCCESSFUL:
            break
    return trial, here, order


def grow(rest: Sequence[Item], world: World) -> Plan:
    """[B8]: as many of these pods as can be had, for a request that is provisioned already."""
    return plan_all(rest, world, redistribute=True)


CLASSES: dict[Mode, Class] = {Mode.CHECK: check, Mode.ATOMIC: atomic}


def with_grid(world: World, grid: Grid) -> World:
    return World(
        groups=world.groups,
        grid=grid,
        limits=world.limits,
        settings=world.settings,
        current_nodes=world.current_nodes,
        seed=world.seed,
    )


def place_sets(grid: Grid, sets: Sequence[Item], *, growing: bool = False) -> tuple[int, ...]:
    """Place each pod set best effort, the highest priority first; pods placed per set.

    `growing`: nodes may come for the rest, so pods that a claim ties to one node are all placed, or left to those.
    """
    placed = [0] * len(sets)
    apart: set[str] = set()
    order = sorted(range(len(sets)), key=lambda i: (-sets[i].shape.priority, i))
    for position, index in enumerate(order):
        after = [sets[other] for other in order[position + 1 :]]
        if sets[index].shape.digest in apart:
            continue
        if growing and grid.devices.waits(sets[index].shape):
            kin = [sets[index], *kindred(sets[index].shape, after)]
            trial = grid.fork()
            unplaced = sum(i.count - trial.place(i.shape, i.count, kin[n + 1 :]) for n, i in enumerate(kin))
            if unplaced and any(trial.tied(item.shape) for item in kin):
                apart |= {item.shape.digest for item in kin}
                continue
        placed[index] = grid.place(sets[index].shape, sets[index].count, after)
    return tuple(placed)


def _enough(placed: Sequence[int], sets: Sequence[Item], parameters: Parameters) -> bool:
    return all(
        n >= min(item.count, parameters.min_counts.get(index, item.count))
        for index, (n, item) in enumerate(zip(placed, sets, strict=True))
    )


def _fully(asked: Asked, placed: Sequence[int]) -> tuple[Condition, ...]:
    """[B8]: for elastic gangs, whether all pods have a place, not only the minimum."""
    if not asked.parameters.min_counts:
        return ()
    return (cond.fully(sum(item.count - n for item, n in zip(asked.sets, placed, strict=True))),)


def goals_of(asked: Asked) -> list[tuple[int, ...]]:
    """Counts to try: all pods, then the minimum where the user allows it."""
    full = tuple(item.count for item in asked.sets)
    least = tuple(min(n, asked.parameters.min_counts.get(i, n)) for i, n in enumerate(full))
    return [full] if least == full else [full, least]


def variants_of(
    asked: Asked,
    world: World,
    fits: Callable[[Sequence[Item]], bool],
    counts: Sequence[int] | None = None,
) -> list[tuple[Item, ...]]:
    """The pod sets to place; with a topology one variant per domain, those with most room first.

    Where each pod set may have a domain of its own there is one variant: each set in turn takes the
    first domain in which it fits beside those before it.
    """
    goal = counts or [item.count for item in asked.sets]
    sets = tuple(Item(item.shape, n) for item, n in zip(asked.sets, goal, strict=True))
    key = asked.parameters.topology
    if not key:
        return [sets]
    values = _domains(world, key)
    if not asked.parameters.topology_per_set:
        return [tuple(Item(pinned(item.shape, key, v), item.count) for item in sets) for v in values]
    chosen: tuple[Item, ...] = ()
    for item in sets:
        tries = ((*chosen, Item(pinned(item.shape, key, v), item.count)) for v in values)
        longer = next((variant for variant in tries if fits(variant)), None)
        if longer is None:
            return []
        chosen = longer
    return [chosen]


def _domains(world: World, key: str) -> list[str]:
    """Values of a label among nodes and templates; the ones with most free cpu first, then by name."""
    free: dict[str, int] = {}
    ids, values = world.grid.column(key)
    cpu = world.grid.free.get("cpu")
    for index, value in enumerate(values):
        free[value] = int(cpu[ids == index].sum()) if cpu is not None else 0
    for group in world.groups:
        value = group.labels.get(key, "")
        if value:
            free[value] = free.get(value, 0) + group.room * group.node_capacity.get("cpu", 0)
    return sorted(free, key=lambda value: (-free[value], value))


def pinned(shape: PodShape, key: str, value: str) -> PodShape:
    """The shape with one more condition on the node: its domain."""
    return msgspec.structs.replace(
        shape,
        digest=pinned_digest(shape.digest, key, value),
        selector=(*shape.selector, Requirement(key, "In", frozenset({value}))),
    )
