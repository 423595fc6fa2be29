"""The chosen option made into sizes: cut by limits, shared out among similar groups. Spec 3.7.

`cut_and_share` ends an option in targets, or in the reason why there are none; `to_minimum` gives
sizes to groups that are below their minimum. Every share is cut by the quota of its own group, and
what one share takes is seen by the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewright.provisioning.cluster.groups import Group, alike, balance, sibling, similar
from tidewright.provisioning.cluster.limits import Limits
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import DENIED, cluster_limit, estimate
from tidewright.provisioning.pack.templates import Estimate, Layout, fits_reason
from tidewright.provisioning.scaleup import expander as exp
from tidewright.provisioning.scaleup.plans import (
    ALL_OR_NOTHING,
    ERROR,
    SUCCESSFUL,
    Placement,
    Plan,
    Target,
    World,
)
from tidewright.provisioning.settings import Settings


def balanced_with(
    group: Group, valid: Sequence[Group], fits: Mapping[NodeGroupId, list[int]], settings: Settings
) -> list[Group]:
    """Groups that share in a balanced increase of this one."""
    if not settings.balance:
        return []
    twins = {
        g.id: g
        for g in valid
        if g.id != group.id and g.exists and not g.zero_or_max and alike(group, g, settings)
    }
    hosts = {name: frozenset(map(str, indexes)) for name, indexes in fits.items()}
    return [twins[name] for name in similar(group.id, twins, hosts, settings.balance)]


def cut_and_share(
    base: Plan,
    chosen: exp.Option,
    best: Estimate,
    *,
    items: Sequence[Item],
    valid: Sequence[Group],
    fits: Mapping[NodeGroupId, list[int]],
    world: World,
    all_or_nothing: bool,
    redistribute: bool,
) -> Plan:
    """Limits cut the chosen option; what is left is shared out among similar groups."""
    settings = world.settings
    group = next(g for g in valid if g.id == chosen.group)
    nodes = best.nodes
    room = cluster_limit(settings.max_nodes_total, world.current_nodes)
    if room == DENIED:
        base.result, base.event = ERROR, "MaxNodesTotalReached"
        return base
    if room > 0:
        nodes = min(nodes, room)
    nodes = min(nodes, world.limits.allowed(group.id, group.labels, group.node_capacity))
    if nodes < best.nodes and all_or_nothing:
        base.reasons = {**base.reasons, group.id: ALL_OR_NOTHING}
        base.able = {}
        return base
    if nodes < 1:
        return base
    if not group.exists and all_or_nothing and group.max < nodes:
        base.reasons = {**base.reasons, group.id: ALL_OR_NOTHING}
        return base
    sharers = {group.id: group, **{g.id: g for g in balanced_with(group, valid, fits, settings)}}
    if not group.exists:
        for name in group.also:
            other = sibling(group, name)
            if other.template is not None and not any(
                fits_reason(items[i].shape, other.template) for i in fits[group.id]
            ):
                sharers[name] = other
    shares = _share(sharers, nodes, world.limits, redistribute or all_or_nothing, group)
    total = sum(added for _, added in shares)
    if total < nodes and all_or_nothing:
        base.reasons = {**base.reasons, group.id: ALL_OR_NOTHING}
        base.able = {}
        return base
    if total == 0:
        return base
    if total < best.nodes and not group.zero_or_max and group.template is not None:
        part = estimate([items[i] for i in fits[group.id]], group.template, total, world.grid)
        placed = [0] * len(items)
        for index, count in zip(fits[group.id], part.placed, strict=True):
            placed[index] = count
        best = Estimate(part.nodes, tuple(placed), part.layouts)
    base.result = SUCCESSFUL
    base.chosen = (group.id,)
    base.placed = best.placed
    base.created = () if group.exists else (group.id,)
    base.targets = tuple(
        Target(
            group=name,
            from_size=sharers[name].target,
            size=sharers[name].target + added,
            max_size=sharers[name].max,
        )
        for name, added in shares
    )
    base.placements = _deal(best.layouts, shares)
    return base


def _share(
    sharers: Mapping[NodeGroupId, Group], nodes: int, limits: Limits, redistribute: bool, first: Group
) -> list[tuple[NodeGroupId, int]]:
    """Balanced additions, each cut by quota, each consumption visible to the next."""
    remaining = nodes
    closed: set[NodeGroupId] = set()
    trial = limits.fork()
    added: dict[NodeGroupId, int] = {}
    order: list[NodeGroupId] = []
    while remaining > 0:
        shares = balance(
            [(g.id, g.target + added.get(g.id, 0), g.max) for g in sharers.values() if g.id not in closed],
            remaining,
        )
        if first.zero_or_max:
            shares = [(first.id, min(remaining, first.max - first.target - added.get(first.id, 0)))]
        given = 0
        for name, share in shares:
            group = sharers[name]
            granted = min(share, trial.allowed(name, group.labels, group.node_capacity))
            if granted < share:
                closed.add(name)
            if granted > 0:
                trial.consume(name, group.labels, group.node_capacity, granted)
                if name not in added:
                    order.append(name)
                added[name] = added.get(name, 0) + granted
                given += granted
        remaining -= given
        if not redistribute or not given or not closed:
            break
    return [(name, added[name]) for name in order]


def _deal(layouts: Sequence[Layout], shares: Sequence[tuple[NodeGroupId, int]]) -> tuple[Placement, ...]:
    """Which group's new nodes hold what: layouts dealt out in order."""
    waiting = list(layouts)
    placements: list[Placement] = []
    for name, nodes in shares:
        mine: list[Layout] = []
        remaining = nodes
        while remaining > 0 and waiting:
            first = waiting[0]
            taken = min(remaining, first.nodes)
            mine.append(Layout(taken, first.pods))
            remaining -= taken
            if taken == first.nodes:
                waiting.pop(0)
            else:
                waiting[0] = Layout(first.nodes - taken, first.pods)
        placements.append(Placement(group=name, layouts=tuple(mine)))
    return tuple(placements)


def to_minimum(groups: Sequence[Group], limits: Limits) -> tuple[Target, ...]:
    """Lift groups that are below their minimum, as far as quotas allow (`enforce-node-group-min-size`)."""
    targets: list[Target] = []
    trial = limits.fork()
    for group in sorted(groups, key=lambda g: g.id):
        missing = group.min - group.target
        if not group.exists or missing <= 0:
            continue
        allowed = min(missing, trial.allowed(group.id, group.labels, group.node_capacity))
        if allowed > 0:
            trial.consume(group.id, group.labels, group.node_capacity, allowed)
            targets.append(
                Target(
                    group=group.id, from_size=group.target, size=group.target + allowed, max_size=group.max
                )
            )
    return tuple(targets)
