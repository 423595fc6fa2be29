"""From pods to one plan: options per group, the choice, limits, balancing. Spec 3.7.

`plan` takes one option, as the reference does in one of its loops. `plan_all` repeats until nothing is
left to decide (spec 3.11), and gives one plan for everything: a burst is decided once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from tidewright.kube.predicates import HOSTNAME, NodeView, PodShape
from tidewright.provisioning import expander as exp
from tidewright.provisioning.groups import Group, alike, balance, cannot_grow, sibling, similar
from tidewright.provisioning.limits import Limits
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.estimate import (
    DENIED,
    Estimate,
    Layout,
    cluster_limit,
    estimate,
    fits_reason,
    group_limit,
    node_limit,
)
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.settings import Settings

ALL_OR_NOTHING = "not all pods would fit and scale-up is using all-or-nothing strategy"
FILTERED_OUT = "expansion options filtered out and no longer considered"
EXECUTION_FAILED = "scale-up execution failed"
NOT_CHOSEN = "another option was chosen"
MAX_NODES_TOTAL = "max total nodes in cluster reached"

SUCCESSFUL, NO_OPTIONS, NOT_NEEDED, ERROR, NOT_TRIED = (
    "Successful",
    "NoOptionsAvailable",
    "NotNeeded",
    "Error",
    "NotTried",
)

Chooser: TypeAlias = Callable[[Sequence[exp.Option]], exp.Option | None]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One group's part of a plan: absolute sizes."""

    group: str
    from_size: int
    size: int
    max_size: int = 0

    @property
    def added(self) -> int:
        return self.size - self.from_size


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """What the new nodes of one group will hold."""

    group: str
    layouts: tuple[Layout, ...]


class Plan(msgspec.Struct, kw_only=True):
    """What to order and why.

    Attributes:
        result: `Successful`, `NoOptionsAvailable`, `NotNeeded` or `Error`.
        targets: in the order of their execution.
        created: groups that come into being first.
        options: every option there was.
        chosen: ids of the options taken, in order.
        option_pods: pods per item that the options hold, before limits cut them.
        placed: pods per item that the plan places.
        able: group to the items that it could host, were it chosen.
        reasons: group to why it was skipped, or rejected.
        item_reasons: (item, group) as `index/group` to the predicate's reason.
        placements: what the new nodes will hold.
        event: something to report besides (`MaxNodesTotalReached`).
        notes: what there is to say about the priorities of groups.
    """

    result: str
    targets: tuple[Target, ...] = ()
    created: tuple[str, ...] = ()
    options: tuple[exp.Option, ...] = ()
    chosen: tuple[str, ...] = ()
    option_pods: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()
    able: dict[str, frozenset[int]] = {}
    reasons: dict[str, str] = {}
    item_reasons: dict[str, str] = {}
    placements: tuple[Placement, ...] = ()
    event: str = ""
    notes: tuple[exp.PriorityNote, ...] = ()

    def awaiting(self, item: int) -> bool:
        """Whether some group could host the item, were it tried again."""
        return any(item in hosts for hosts in self.able.values())

    def out(self) -> dict[str, str]:
        """Group to why it is no option at all, whatever the item."""
        options = {option.group for option in self.options}
        found: dict[str, str] = {}
        for key, reason in self.item_reasons.items():
            group = key.split("/", 1)[1]
            if group not in options:
                found.setdefault(group, reason)
        for group, reason in self.reasons.items():
            if group not in self.chosen and (reason != ALL_OR_NOTHING or group not in found):
                found[group] = reason  # what a pod lacks there says more than that not all fit
        return found

    def why_not(self, item: int) -> dict[str, str]:
        """Group to the reason why it does not help this item."""
        found = {
            key.split("/", 1)[1]: reason
            for key, reason in self.item_reasons.items()
            if key.split("/", 1)[0] == str(item)
        }
        return {**found, **self.reasons}


class World(msgspec.Struct, kw_only=True):
    """What a plan is made against. `limits` already counts what exists and is upcoming.

    Attributes:
        grid: existing and upcoming nodes with their pods.
        current_nodes: how many nodes there are, upcoming ones included.
        seed: draws the pick of the random expander.
    """

    groups: tuple[Group, ...]
    grid: Grid
    limits: Limits
    settings: Settings
    current_nodes: int
    seed: str = ""


def chooser_of(world: World, notes: list[exp.PriorityNote]) -> Chooser:
    """The configured chain of expanders with its seeded fallback."""
    filters = exp.filters_of(world.settings.expander, world.settings.priorities, world.current_nodes, notes)

    def choose(options: Sequence[exp.Option]) -> exp.Option | None:
        return exp.choose(options, filters, lambda left: exp.pick(left, world.seed))

    return choose


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
    settings, nothing = world.settings, (0,) * len(items)
    reasons: dict[str, str] = {}
    item_reasons: dict[str, str] = {}
    fits: dict[str, list[int]] = {}
    valid: list[Group] = []
    for group in sorted(world.groups, key=lambda g: g.id):
        reason = cannot_grow(group, world.limits, world.current_nodes, settings.max_nodes_total)
        if reason:
            reasons[group.id] = reason
        if group.template is None:
            continue
        good: list[int] = []
        for index, item in enumerate(items):
            why = fits_reason(item.shape, group.template)
            if why:
                item_reasons[f"{index}/{group.id}"] = why
            else:
                good.append(index)
        if not reason:
            valid.append(group)
            fits[group.id] = good
    valid = [g for g in valid if not _needless(g, fits)]
    able = {g.id: frozenset(fits[g.id]) for g in valid if fits[g.id]}
    found: dict[str, Estimate] = {}
    options: list[exp.Option] = []
    for group in valid:
        option, best = _option(group, valid, items, fits, world, all_or_nothing)
        if option is None:
            continue
        if all_or_nothing and option.pods < sum(item.count for item in items):
            reasons[group.id] = ALL_OR_NOTHING
            able.pop(group.id, None)
            continue
        found[group.id] = best
        options.append(option)
    if all_or_nothing:
        for group in valid:
            if group.id not in found:
                reasons.setdefault(group.id, ALL_OR_NOTHING)
                able.pop(group.id, None)
    base = Plan(
        result=NO_OPTIONS,
        options=tuple(options),
        option_pods=nothing,
        placed=nothing,
        able=able,
        reasons=reasons,
        item_reasons=item_reasons,
    )
    if not options:
        return base
    notes: list[exp.PriorityNote] = []
    chosen = (chooser or chooser_of(world, notes))(options)
    base.notes = tuple(notes)
    if chosen is None:
        base.reasons = {**reasons, **{o.group: FILTERED_OUT for o in options}}
        return base
    base.option_pods = found[chosen.group].placed
    return _cut_and_share(
        base, chosen, found[chosen.group], items, valid, fits, world, all_or_nothing, redistribute
    )


def _needless(group: Group, fits: Mapping[str, list[int]]) -> bool:
    """A group in a further zone that could be made, where the one that brings it along will do."""
    return group.beside in fits and set(fits[group.beside]) >= set(fits[group.id])


def _option(
    group: Group,
    valid: Sequence[Group],
    items: Sequence[Item],
    fits: Mapping[str, list[int]],
    world: World,
    all_or_nothing: bool,
) -> tuple[exp.Option | None, Estimate]:
    nothing = Estimate(0, (0,) * len(items))
    chosen = fits[group.id]
    if not chosen or group.template is None:
        return None, nothing
    peers = _peers(group, valid, fits, world.settings)
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
    return _as_option(group, best, items), best


def _as_option(group: Group, best: Estimate, items: Sequence[Item]) -> exp.Option:
    def total(name: str) -> int:
        return sum(item.shape.requests.get(name, 0) * n for item, n in zip(items, best.placed, strict=True))

    gpu = [name for name in group.node_capacity if name.endswith("/gpu") and group.node_capacity[name] > 0]
    cpu, memory, gpus = total("cpu"), total("memory"), sum(total(name) for name in gpu)
    return exp.Option(
        group=group.id,
        nodes=best.nodes,
        pods=best.pods,
        capacity=dict(group.node_capacity),
        cpu=cpu,
        memory=memory,
        gpu=gpus,
        node_price=None if group.price_micro is None else group.price_micro / 1e6,
        pod_price=exp.pod_price(cpu, memory, gpus),
        exists=group.exists,
        has_gpu=bool(gpu),
    )


def _peers(
    group: Group, valid: Sequence[Group], fits: Mapping[str, list[int]], settings: Settings
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


def _cut_and_share(
    base: Plan,
    chosen: exp.Option,
    best: Estimate,
    items: Sequence[Item],
    valid: Sequence[Group],
    fits: Mapping[str, list[int]],
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
    sharers = {group.id: group, **{g.id: g for g in _peers(group, valid, fits, settings)}}
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
    sharers: Mapping[str, Group], nodes: int, limits: Limits, redistribute: bool, first: Group
) -> list[tuple[str, int]]:
    """Balanced additions, each cut by quota, each consumption visible to the next."""
    left = nodes
    closed: set[str] = set()
    trial = limits.fork()
    added: dict[str, int] = {}
    order: list[str] = []
    while left > 0:
        shares = balance(
            [(g.id, g.target + added.get(g.id, 0), g.max) for g in sharers.values() if g.id not in closed],
            left,
        )
        if first.zero_or_max:
            shares = [(first.id, min(left, first.max - first.target - added.get(first.id, 0)))]
        given = 0
        for name, wanted in shares:
            group = sharers[name]
            granted = min(wanted, trial.allowed(name, group.labels, group.node_capacity))
            if granted < wanted:
                closed.add(name)
            if granted > 0:
                trial.consume(name, group.labels, group.node_capacity, granted)
                if name not in added:
                    order.append(name)
                added[name] = added.get(name, 0) + granted
                given += granted
        left -= given
        if not redistribute or not given or not closed:
            break
    return [(name, added[name]) for name in order]


def _deal(layouts: Sequence[Layout], shares: Sequence[tuple[str, int]]) -> tuple[Placement, ...]:
    """Which group's new nodes hold what: layouts dealt out in order."""
    waiting = list(layouts)
    found: list[Placement] = []
    for name, nodes in shares:
        mine: list[Layout] = []
        left = nodes
        while left > 0 and waiting:
            first = waiting[0]
            taken = min(left, first.nodes)
            mine.append(Layout(taken, first.pods))
            left -= taken
            if taken == first.nodes:
                waiting.pop(0)
            else:
                waiting[0] = Layout(first.nodes - taken, first.pods)
        found.append(Placement(group=name, layouts=tuple(mine)))
    return tuple(found)


def plan_all(
    items: Sequence[Item],
    world: World,
    *,
    all_or_nothing: bool = False,
    redistribute: bool = False,
) -> Plan:
    """One plan for everything that can be helped, over as many groups as it takes. Spec 3.11, [B8].

    After each option its nodes and pods are added to a trial, and what is left is decided again, on
    the room that the new nodes have left first. All-or-nothing here means: all pods, over all groups.
    """
    trial = World(
        groups=world.groups,
        grid=world.grid.fork(),
        limits=world.limits.fork(),
        settings=world.settings,
        current_nodes=world.current_nodes,
        seed=world.seed,
    )
    shapes = {item.shape.digest: item.shape for item in items}
    left = {item.shape.digest: item.count for item in items}
    total = Plan(result=NO_OPTIONS, option_pods=(0,) * len(items), placed=(0,) * len(items))
    first: Plan | None = None
    rounds = 0
    while any(left.values()):
        waiting = [Item(shapes[d], n) for d, n in left.items() if n]
        step = plan(waiting, trial, redistribute=redistribute)
        if first is None:
            first = step
        if step.event:
            total.event = step.event
        total.notes += tuple(note for note in step.notes if note not in total.notes)
        if step.result != SUCCESSFUL or not sum(step.placed):
            break
        rounds += 1
        _merge(total, step, left, waiting, items)
        enact(trial, step, shapes, rounds)
        for item in [Item(shapes[d], n) for d, n in left.items() if n]:
            here = trial.grid.place(item.shape, item.count)
            if here:
                _count(total, left, items, item.shape.digest, here)
    total.result = SUCCESSFUL if total.targets else (first.result if first is not None else NOT_NEEDED)
    if first is not None:
        total.options, total.able = first.options, first.able
        total.reasons, total.item_reasons = dict(first.reasons), first.item_reasons
    if all_or_nothing and any(left.values()):
        return Plan(
            result=NO_OPTIONS,
            option_pods=total.option_pods,
            placed=(0,) * len(items),
            options=total.options,
            reasons={**total.reasons, **{o.group: ALL_OR_NOTHING for o in total.options}},
            item_reasons=total.item_reasons,
            event=total.event,
        )
    return total


def _count(total: Plan, left: dict[str, int], items: Sequence[Item], digest: str, pods: int) -> None:
    index = next(i for i, item in enumerate(items) if item.shape.digest == digest)
    placed = list(total.placed)
    placed[index] += pods
    total.placed = tuple(placed)
    left[digest] -= pods


def _merge(
    total: Plan, step: Plan, left: dict[str, int], waiting: Sequence[Item], items: Sequence[Item]
) -> None:
    """Add one step to the whole plan: targets of one group become one target."""
    for item, pods in zip(waiting, step.placed, strict=True):
        if pods:
            _count(total, left, items, item.shape.digest, pods)
    targets = {target.group: target for target in total.targets}
    for target in step.targets:
        before = targets.get(target.group)
        targets[target.group] = (
            target if before is None else msgspec.structs.replace(before, size=target.size)
        )
    total.targets = tuple(targets.values())
    total.created += tuple(name for name in step.created if name not in total.created)
    total.chosen += tuple(name for name in step.chosen if name not in total.chosen)
    total.placements += step.placements
    total.option_pods = tuple(total.placed)


def enact(trial: World, step: Plan, shapes: Mapping[str, PodShape], number: int = 0) -> None:
    """Let the trial look as if the step's nodes were there, with the pods that they are for."""
    groups = {group.id: group for group in trial.groups}
    for target in step.targets:
        group = groups.get(target.group)
        if group is None:  # one that comes into being beside its first
            group = sibling(next(g for g in groups.values() if target.group in g.also), target.group)
        groups[target.group] = msgspec.structs.replace(
            group, target=target.size, nodes=group.nodes + target.added, exists=True, also=(), beside=""
        )
        trial.limits.consume(group.id, group.labels, group.node_capacity, target.added)
        trial.current_nodes += target.added
    trial.groups = tuple(groups.values())
    for placement in step.placements:
        template = groups[placement.group].template
        if template is None:
            continue
        for part, layout in enumerate(placement.layouts):
            before = len(trial.grid.views)
            names = [f"planned/{number}/{placement.group}/{before}/{part}/{i}" for i in range(layout.nodes)]
            rows = trial.grid.add_copies(template.view, names)
            for row in rows:
                for item in template.residents:
                    trial.grid.put(item.shape, row, item.count)
                for digest, pods in layout.pods.items():
                    trial.grid.put(shapes[digest], row, pods)


def to_minimum(groups: Sequence[Group], limits: Limits) -> tuple[Target, ...]:
    """Lift groups that are below their minimum, as far as quotas allow (`enforce-node-group-min-size`)."""
    found: list[Target] = []
    trial = limits.fork()
    for group in sorted(groups, key=lambda g: g.id):
        missing = group.min - group.target
        if not group.exists or missing <= 0:
            continue
        allowed = min(missing, trial.allowed(group.id, group.labels, group.node_capacity))
        if allowed > 0:
            trial.consume(group.id, group.labels, group.node_capacity, allowed)
            found.append(
                Target(
                    group=group.id, from_size=group.target, size=group.target + allowed, max_size=group.max
                )
            )
    return tuple(found)


def upcoming_views(group: Group, count: int, prefix: str = "upcoming") -> list[NodeView]:
    """Placeholders for nodes of a group that are on their way."""
    if group.template is None:
        return []
    view = group.template.view
    return [
        NodeView(
            name=f"{prefix}/{group.id}/{index}",
            labels={**view.labels, HOSTNAME: f"{prefix}/{group.id}/{index}"},
            taints=view.taints,
            allocatable=view.allocatable,
        )
        for index in range(count)
    ]
