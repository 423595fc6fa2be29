"""One option for a set of pods: what each group could do, and which of them is chosen. Spec 3.7.

`plan` asks of every group which pods its template holds and how many nodes that takes, lets the
expanders choose, and has the choice cut by limits and shared out. It takes one option, as the
reference does in one of its loops, and changes nothing of its world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tidewright.provisioning.cluster.groups import Group, cannot_grow
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import cluster_limit, estimate, group_limit, node_limit
from tidewright.provisioning.pack.templates import AskedShapes, Estimate
from tidewright.provisioning.scaleup import expander as exp
from tidewright.provisioning.scaleup.plans import (
    ALL_OR_NOTHING,
    FILTERED_OUT,
    NO_OPTIONS,
    NOT_NEEDED,
    Plan,
    World,
)
from tidewright.provisioning.scaleup.sharing import balanced_with, cut_and_share

Chooser: TypeAlias = Callable[[Sequence[exp.Option]], exp.Option | None]


def chooser_of(world: World, notes: list[exp.PriorityNote]) -> Chooser:
    """The configured chain of expanders with its seeded fallback."""
    filters = exp.filters_of(world.settings.expander, world.settings.priorities, world.current_nodes, notes)

    def choose(options: Sequence[exp.Option]) -> exp.Option | None:
        return exp.choose(options, filters, lambda remaining: exp.pick(remaining, world.seed))

    return choose


class Look(NamedTuple):
    """Which groups may help which items.

    Attributes:
        valid: groups that can grow, and are of use by themselves.
        fits: group to the numbers of the items that it holds.
        able: the same, of those that hold any.
        reasons: group to why it cannot grow.
        item_reasons: item and group to why it does not hold it.
    """

    valid: list[Group]
    fits: dict[NodeGroupId, list[int]]
    able: dict[NodeGroupId, frozenset[int]]
    reasons: dict[NodeGroupId, str]
    item_reasons: dict[tuple[int, NodeGroupId], str]


def look(items: Sequence[Item], world: World) -> Look:
    """Ask every group what keeps it from growing, and from holding each item."""
    reasons: dict[NodeGroupId, str] = {}
    item_reasons: dict[tuple[int, NodeGroupId], str] = {}
    fits: dict[NodeGroupId, list[int]] = {}
    valid: list[Group] = []
    shapes = [item.shape for item in items]
    asking, claiming = AskedShapes(shapes), [index for index, shape in enumerate(shapes) if shape.claims]
    for group in sorted(world.groups, key=lambda g: g.id):
        reason = cannot_grow(group, world.limits, world.current_nodes, world.settings.max_nodes_total)
        if reason:
            reasons[group.id] = reason
        if group.template is None:
            continue
        short = asking.reasons(group.template)
        for index in claiming:
            if index not in short and (tied := world.grid.tied(shapes[index])):
                short[index] = tied
        for index in sorted(short) if claiming else short:
            item_reasons[index, group.id] = short[index]
        if not reason:
            valid.append(group)
            fits[group.id] = [index for index in range(len(shapes)) if index not in short]
    valid = [g for g in valid if not _needless(g, fits)]
    able = {g.id: frozenset(fits[g.id]) for g in valid if fits[g.id]}
    return Look(valid, fits, able, reasons, item_reasons)


def plan(
    items: Sequence[Item],
    world: World,
    *,
    all_or_nothing: bool = False,
    redistribute: bool = False,
    chooser: Chooser | None = None,
) -> Plan:
    """One option for these pods, none of which fits where there is room now.

    Args:
        items: shapes with counts, each shape once.
        world: groups, nodes and limits; not changed.
        all_or_nothing: one option holds every pod, uncut by any limit, or nothing is ordered.
        redistribute: nodes that a quota denies one of several balanced groups go to the others.
        chooser: takes the place of the configured expanders.
    """
    if not items:
        return Plan(result=NOT_NEEDED)
    nothing = (0,) * len(items)
    asked = look(items, world)
    reasons, fits, valid, able = asked.reasons, asked.fits, asked.valid, asked.able
    estimates: dict[NodeGroupId, Estimate] = {}
    options: list[exp.Option] = []
    for group in valid:
        option, best = _option(group, valid, items, fits=fits, world=world, all_or_nothing=all_or_nothing)
        if option is None:
            continue
        if all_or_nothing and option.pods < sum(item.count for item in items):
            reasons[group.id] = ALL_OR_NOTHING
            able.pop(group.id, None)
            continue
        estimates[group.id] = best
        options.append(option)
    if all_or_nothing:
        for group in valid:
            if group.id not in estimates:
                reasons.setdefault(group.id, ALL_OR_NOTHING)
                able.pop(group.id, None)
    base = Plan(
        result=NO_OPTIONS,
        options=tuple(options),
        option_pods=nothing,
        placed=nothing,
        able=able,
        reasons=reasons,
        item_reasons=asked.item_reasons,
    )
    if not options:
        return base
    notes: list[exp.PriorityNote] = []
    chosen = (chooser or chooser_of(world, notes))(options)
    base.notes = tuple(notes)
    if chosen is None:
        base.reasons = {**reasons, **{o.group: FILTERED_OUT for o in options}}
        return base
    base.option_pods = estimates[chosen.group].placed
    return cut_and_share(
        base,
        chosen,
        estimates[chosen.group],
        items=items,
        valid=valid,
        fits=fits,
        world=world,
        all_or_nothing=all_or_nothing,
        redistribute=redistribute,
    )


def _needless(group: Group, fits: Mapping[NodeGroupId, list[int]]) -> bool:
    """A group in a further zone that could be made, where the one that brings it along will do."""
    return group.beside in fits and set(fits[group.beside]) >= set(fits[group.id])


def _option(
    group: Group,
    valid: Sequence[Group],
    items: Sequence[Item],
    *,
    fits: Mapping[NodeGroupId, list[int]],
    world: World,
    all_or_nothing: bool,
) -> tuple[exp.Option | None, Estimate]:
    nothing = Estimate(0, (0,) * len(items))
    chosen = fits[group.id]
    if not chosen or group.template is None:
        return None, nothing
    peers = balanced_with(group, valid, fits, world.settings)
    # No request is refused for its size [B7]: the static limit holds for pending pods alone.
    static = 0 if all_or_nothing else world.settings.max_nodes_per_scaleup
    limit = node_limit(
        static,
        group_limit([g.room for g in (group, *peers)]) + (group.max * len(group.also)),
        cluster_limit(world.settings.max_nodes_total, world.current_nodes),
    )
    part = estimate([items[i] for i in chosen], group.template, limit, world.grid)
    placed = [0] * len(items)
    for index, count in zip(chosen, part.placed, strict=True):
        placed[index] = count
    nodes = part.nodes
    if group.zero_or_max:
        if all_or_nothing and nodes > group.max:
            return None, nothing
        if nodes > 0:
            nodes = group.max
    if nodes == 0 or part.pods == 0:
        return None, nothing
    best = Estimate(nodes, tuple(placed), part.layouts)
    return as_option(group, best, items), best


def as_option(group: Group, best: Estimate, items: Sequence[Item]) -> exp.Option:
    """So many nodes of a group with what they hold, in the numbers that choices go by."""
    held = [(item.shape.requests, n) for item, n in zip(items, best.placed, strict=True) if n]

    def total(name: str) -> int:
        return sum(requests.get(name, 0) * n for requests, n in held)

    gpu = [name for name in group.node_capacity if name.endswith("/gpu") and group.node_capacity[name] > 0]
    cpu, memory, gpus = total("cpu"), total("memory"), sum(total(name) for name in gpu)
    return exp.Option(
        group=group.id,
        nodes=best.nodes,
        pods=best.pods,
        capacity=dict(group.node_capacity),
        allocatable={} if group.template is None else dict(group.template.view.allocatable),
        cpu=cpu,
        memory=memory,
        gpu=gpus,
        node_price=None if group.price_micro is None else group.price_micro / 1e6,
        pod_price=exp.pod_price(cpu, memory, gpus),
        exists=group.exists,
        has_gpu=bool(gpu),
    )
