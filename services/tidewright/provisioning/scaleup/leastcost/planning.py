"""From pods that wait to nodes of all groups at least cost: the problem put, and its answer read.

What is planned here as one are pods whose shapes do not look at other nodes, or only for the even spread over domains by which they are divided
beforehand, over groups that may grow by any number. The rounds of
`scaleup.rounds` see to the others, and make what is chosen here into sizes: cut by limits, shared out among groups that are alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidewright.kube.podshape import HOSTNAME, PodShape
from tidewright.kube.predicates import counted_alone
from tidewright.provisioning.cluster.groups import Group
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.pack.templates import Estimate, Layout
from tidewright.provisioning.scaleup.leastcost.domains import parts_of, without_spread
from tidewright.provisioning.scaleup.leastcost.prices import Prices, prices_of
from tidewright.provisioning.scaleup.leastcost.problem import (
    MOST_CLASSES,
    Column,
    Limit,
    Problem,
    problem_of,
)
from tidewright.provisioning.scaleup.leastcost.realising import realised, reopened
from tidewright.provisioning.scaleup.leastcost.search import SearchResult, search
from tidewright.provisioning.scaleup.plans import World

MEAN_CLASSES = 96
"""Where there are more shapes than classes: with more classes than these, as many steps lead less far."""
REOPENED = 192
"""Items that are planned anew, by themselves, after a plan of classes: those left over, and those on the worst of its nodes."""
_LARGEST_PRICE = 2**30
_NONE_DIVIDED: Mapping[str, int | None] = {}


class GroupShare(NamedTuple):
    """One group's part: how many nodes, and what they hold.

    Attributes:
        items: so many pods of these shapes; `numbers` are theirs among all that were to be planned.
    """

    group: Group
    estimate: Estimate
    items: Sequence[Item]
    numbers: Sequence[int]


class Joint(NamedTuple):
    """Attributes:
    shares: those that hold the most first.
    bound: no nodes of these groups for these pods cost less; in the unit of `prices`.
    """

    shares: tuple[GroupShare, ...]
    prices: Prices
    bound: int


class _Wanted(NamedTuple):
    """What is planned as one class of pods: an item by its number, or what of it goes to one domain."""

    number: int
    item: Item


def plain(shape: PodShape, related: Iterable[PodShape]) -> bool:
    """Whether where a pod goes depends on nothing but what is on that node; `related` as `related_to` has it."""
    if not counted_alone(shape) or shape.claims or shape.single:
        return False
    if any(term.key != HOSTNAME for term in shape.anti_affinity):
        return False
    return not any(
        term.key != HOSTNAME and term.selects(shape) for other in related for term in other.anti_affinity
    )


def divisible(shapes: Sequence[PodShape], grid: Grid) -> frozenset[str]:
    """Those of the shapes, by digest, that would be `plain` if it were settled in which domain their pods go."""
    related = related_to(grid, shapes)
    settled = {shape.digest: without_spread(shape, shapes) for shape in shapes}
    return frozenset(
        digest for digest, shape in settled.items() if shape is not None and plain(shape, related)
    )


def related_to(grid: Grid, others: Iterable[PodShape]) -> list[PodShape]:
    """Shapes with terms that others may be selected by: on nodes, or waiting."""
    here = [grid.shapes[digest] for digest, rows in grid.where.items() if rows]
    return [shape for shape in (*here, *others) if shape.anti_affinity]


def jointly(
    items: Sequence[Item],
    groups: Sequence[Group],
    fits: Mapping[NodeGroupId, Sequence[int]],
    world: World,
    divided: Mapping[str, int | None] = _NONE_DIVIDED,
) -> Joint | None:
    """Nodes for these items at least cost; None where none of the groups can be planned with others, or nothing fits them.

    Args:
        items: what is to be planned as one are those that are `plain`; the others get nothing here.
        groups: those that can grow.
        fits: group to the numbers of the items that it holds.
        world: its limits, and the terms of pods on its nodes.
        divided: shapes that are spread over domains, and are plain but for that, to how many pods a domain may have at most.
    """
    several = [g for g in groups if not g.zero_or_max and g.template is not None and fits[g.id]]
    able = {group.id: frozenset(fits[group.id]) for group in several} if divided else {}
    related = related_to(world.grid, [item.shape for item in items])
    held = sorted({number for group in several for number in fits[group.id]})
    wanted: list[_Wanted] = []
    place: dict[int, int] = {}
    parts: dict[NodeGroupId, list[int]] = {group.id: [] for group in several}
    for number in held:
        item = items[number]
        if item.shape.digest in divided:
            holding = [g for g in several if number in able[g.id]]
            for part in parts_of(item, holding, world.grid, divided[item.shape.digest]):
                for name in part.groups:
                    parts[name].append(len(wanted))
                wanted.append(_Wanted(number, Item(item.shape, part.pods)))
        elif plain(item.shape, related):
            place[number] = len(wanted)
            wanted.append(_Wanted(number, item))
    if not wanted:
        return None
    pods = [each.item for each in wanted]
    prices = prices_of([g for g in groups if g.template is not None], pods)
    unit = 1 + max(prices.node.values()) // _LARGEST_PRICE
    columns = [
        Column(
            template=g.template,
            fits=frozenset([*parts[g.id], *(place[number] for number in fits[g.id] if number in place)]),
            price=max(1, prices.node[g.id] // unit),
            room=g.room + g.max * len(g.also),
        )
        for g in several
        if g.template is not None
    ]
    found = _layouts(pods, columns, _limits(several, world))
    if found is None:
        return None
    layouts, least = found
    numbers = {each.item.shape.digest: each.number for each in wanted}
    shares = [
        _share(g, layouts, items, numbers) for g, layouts in zip(several, layouts, strict=True) if layouts
    ]
    cost = sum(prices.node[share.group.id] * share.estimate.nodes for share in shares)
    return Joint(
        shares=tuple(sorted(shares, key=lambda share: (-share.estimate.pods, share.group.id))),
        prices=prices,
        bound=min(least * unit, cost),
    )


def _limits(groups: Sequence[Group], world: World) -> list[Limit]:
    """Quotas and the number of nodes, as far as they count these groups."""
    limits = [Limit(each, left) for each, left in world.limits.lefts(groups)]
    most = world.settings.max_nodes_total
    if most:
        limits.append(Limit((1,) * len(groups), max(0, most - world.current_nodes)))
    return limits


_Layouts = list[list[Layout]]


def _layouts(
    items: Sequence[Item], columns: Sequence[Column], limits: Sequence[Limit]
) -> tuple[_Layouts, int] | None:
    """Per group what its nodes hold, and what no nodes for these items cost less than; None where they cannot be made few classes."""
    layouts: _Layouts = [[] for _ in columns]
    bound = beside = 0
    for averaged in (True, True, False):
        classes = MEAN_CLASSES if averaged and len(items) > MOST_CLASSES else MOST_CLASSES
        problem = problem_of(items, columns, limits, classes, mean=averaged)
        if len(problem.counts) > 2 * MOST_CLASSES:
            return None
        found = search(problem, beside)
        whole = len(problem.counts) == len(items)
        if whole or not averaged:
            bound = bound or found.bound.price
            for group, held in enumerate(_of_classes(problem, found, items)):
                layouts[group] += held
            break
        each = problem_of(items, columns, (), len(items))
        bound = bound or found.bound.of(each)
        made = realised(problem, each, found.nodes)
        if not problem.limits:  # else what is planned anew might be denied what it had
            made = reopened(made, each, found.bound.worths_of(each), REOPENED)
        alike = Counter((group, tuple(sorted(pods.items()))) for group, pods in made.held)
        for (group, pods), several in alike.items():
            there = {items[item].shape.digest: number for item, number in pods}
            layouts[group].append(Layout(several, dict(sorted(there.items()))))
        nodes = Counter(group for group, _ in made.held)
        beside += sum(columns[group].price * n for group, n in nodes.items())
        left = [n for n, pods in enumerate(made.rest.tolist()) if pods]
        if not left:
            break
        place = {number: index for index, number in enumerate(left)}
        items = [Item(items[number].shape, int(made.rest[number])) for number in left]
        columns = [
            c._replace(fits=frozenset(place[n] for n in c.fits if n in place), room=c.room - nodes[group])
            for group, c in enumerate(columns)
        ]
        limits = [
            limit._replace(left=limit.left - sum(limit.per_node[group] * n for group, n in nodes.items()))
            for limit in limits
        ]
    return layouts, bound


def _of_classes(problem: Problem, found: SearchResult, items: Sequence[Item]) -> _Layouts:
    """Per group what its nodes hold, by shape: of a class the shapes one after the other."""
    queues = [[[number, items[number].count] for number in each] for each in problem.members]
    layouts: list[list[Layout]] = [[] for _ in problem.price]
    for nodes in found.nodes:
        remaining = nodes.nodes
        while remaining > 0:
            alike = min(
                [remaining]
                + [max(1, queues[c][0][1] // pods) for c, pods in enumerate(nodes.held) if pods and queues[c]]
            )
            held: Counter[str] = Counter()
            for c, pods in enumerate(nodes.held):
                for number, each in _drawn(queues[c], pods, alike) if pods else ():
                    held[items[number].shape.digest] += each
            layouts[nodes.group].append(Layout(alike, dict(sorted(held.items()))))
            remaining -= alike
    return layouts


def _drawn(queue: list[list[int]], pods: int, nodes: int) -> list[tuple[int, int]]:
    """Take `pods` for each of so many equal nodes: (item, pods on each). On one node alone they may be of several items."""
    drawn: list[tuple[int, int]] = []
    while pods > 0 and queue:
        number, left = queue[0]
        each = min(pods, left // nodes)
        queue[0][1] -= each * nodes
        if queue[0][1] == 0:
            queue.pop(0)
        drawn.append((number, each))
        pods -= each
    return drawn


def _share(
    group: Group, layouts: Sequence[Layout], items: Sequence[Item], numbers: Mapping[str, int]
) -> GroupShare:
    """`numbers`: of each shape among the items."""
    placed: Counter[int] = Counter()
    for layout in layouts:
        for digest, pods in layout.pods.items():
            placed[numbers[digest]] += pods * layout.nodes
    held = sorted(+placed)
    return GroupShare(
        group,
        Estimate(sum(layout.nodes for layout in layouts), tuple(placed[n] for n in held), tuple(layouts)),
        [Item(items[n].shape, placed[n]) for n in held],
        held,
    )
