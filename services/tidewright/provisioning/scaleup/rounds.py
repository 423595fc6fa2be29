"""Option after option, until nothing is left to decide: a burst is decided once. Spec 3.11.

`plan_all` gives one plan for everything. Between its rounds `enact` lets a trial of the world look as
if the nodes of the last one were there; an evaluation uses it in the same way between its plans.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

from tidewright.kube.podshape import PodShape
from tidewright.provisioning.cluster.groups import Group, cannot_grow, sibling
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.scaleup.coming import planned
from tidewright.provisioning.scaleup.expander import Option
from tidewright.provisioning.scaleup.leastcost.domains import highest
from tidewright.provisioning.scaleup.leastcost.planning import (
    GroupShare,
    Joint,
    divisible,
    jointly,
    plain,
    related_to,
)
from tidewright.provisioning.scaleup.leastcost.prices import Prices, prices_of
from tidewright.provisioning.scaleup.leastcost.reasons import one_by_one, reasons_of
from tidewright.provisioning.scaleup.options import Look, as_option, look, plan
from tidewright.provisioning.scaleup.plans import (
    ALL_OR_NOTHING,
    DEARER,
    NO_OPTIONS,
    NOT_NEEDED,
    SUCCESSFUL,
    Plan,
    World,
)
from tidewright.provisioning.scaleup.sharing import cut_and_share
from tidewright.provisioning.settings import LEAST_COST

SMALL = 400
"""Items times groups: for no more of them the plan is compared with the one that least waste makes."""

AGAIN = 3
"""How often it is planned again while limits leave pods of one domain without a place; what then is too much elsewhere are a few."""


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
    With the expander `least-cost` what can be is planned as one before.
    """
    if LEAST_COST not in world.settings.expander:
        rounds = _Rounds(items, world, redistribute)
        rounds.one_by_one(rounds.shapes)
        return rounds.plan(all_or_nothing)
    return _better(_least_cost(items, world, redistribute), items, world, redistribute).plan(all_or_nothing)


def _least_cost(items: Sequence[Item], world: World, redistribute: bool) -> _Rounds:
    """What can be planned as one, at least cost, and then the rest.

    Where limits leave pods divided among domains without a place in one of them, those of the others would stand unevenly, and cannot: it is planned again
    with no more in any than beside what that one got.
    """
    divided: dict[str, int | None] = dict.fromkeys(divisible([item.shape for item in items], world.grid))
    rounds = _jointly(items, world, redistribute, divided)
    for _ in range(AGAIN):
        uneven = rounds.unevenly(divided, world)
        if not uneven:
            break
        divided |= uneven
        rounds = _jointly(items, world, redistribute, divided)
    rounds.one_by_one(rounds.shapes)
    return rounds


def _jointly(
    items: Sequence[Item], world: World, redistribute: bool, divided: Mapping[str, int | None]
) -> _Rounds:
    rounds = _Rounds(items, world, redistribute)
    rounds.jointly(divided)
    return rounds


def _better(rounds: _Rounds, items: Sequence[Item], world: World, redistribute: bool) -> _Rounds:
    """What was planned at least cost; where limits leave pods without a place, for those pods that can be helped otherwise."""
    placed = rounds.total.placed
    able = {number for hosts in (rounds.first.able if rounds.first else {}).values() for number in hosts}
    short = any(item.count > n for i, (item, n) in enumerate(zip(items, placed, strict=True)) if i in able)
    whole = any(group.zero_or_max for group in world.groups)
    small = len(items) * len(world.groups) <= SMALL  # then it costs next to nothing to look
    if not short and not whole and not small:
        return rounds
    plainly = _Rounds(
        items,
        msgspec.structs.replace(
            world, settings=msgspec.structs.replace(world.settings, expander=("least-waste",))
        ),
        redistribute,
    )
    plainly.one_by_one(plainly.shapes)
    spread = divisible(list(plainly.shapes.values()), world.grid)
    if any(there > here for here, there in zip(placed, plainly.total.placed, strict=True)):
        if plainly.unevenly(spread, world):
            return rounds
        helped = [Item(i.shape, n) for i, n in zip(items, plainly.total.placed, strict=True)]
        same = _least_cost(helped, world, redistribute)
        if same.total.placed != plainly.total.placed or not _cheaper(same, plainly, same.prices):
            return plainly
        same.widen(items)
        same.one_by_one(same.shapes)
        return same
    same_pods = plainly.total.placed == placed and not plainly.unevenly(spread, world, everywhere=True)
    if same_pods and _cheaper(plainly, rounds, rounds.prices):
        plainly.total.why = one_by_one(plainly.price(rounds.prices), rounds.price(rounds.prices))
        return plainly
    return rounds


def _cheaper(one: _Rounds, other: _Rounds, prices: Mapping[NodeGroupId, int]) -> bool:
    """Whether what one has planned costs less; not where a price is not known."""
    price, beside = one.price(prices), other.price(prices)
    return price is not None and beside is not None and price < beside


class _Rounds:
    """A plan that is being made, on a trial of the world.

    Attributes:
        remaining: pods without a place, by shape.
        first: what the first look at the groups said.
        joint: what was planned as one.
        divided: shapes of which so many pods each were planned for the domains over which they are spread, to how many one of these may have at most.
        prices: of one node of each group, where it is to cost least.
    """

    def __init__(self, items: Sequence[Item], world: World, redistribute: bool) -> None:
        self.items = items
        self.redistribute = redistribute
        self.trial = World(
            groups=world.groups,
            grid=world.grid.fork(),
            limits=world.limits.fork(),
            settings=world.settings,
            current_nodes=world.current_nodes,
            seed=world.seed,
        )
        self.shapes = {item.shape.digest: item.shape for item in items}
        self.remaining = {item.shape.digest: item.count for item in items}
        self.total = Plan(result=NO_OPTIONS, option_pods=(0,) * len(items), placed=(0,) * len(items))
        self.first: Plan | None = None
        self.joint: Joint | None = None
        self.divided: Mapping[str, int | None] = {}
        self.prices: Mapping[NodeGroupId, int] = {}
        self._rounds = 0

    def widen(self, items: Sequence[Item]) -> None:
        """From now on for so many pods of the same items."""
        self.items = items
        for item, placed in zip(items, self.total.placed, strict=True):
            self.remaining[item.shape.digest] = item.count - placed

    def waiting(self) -> list[Item]:
        return [Item(self.shapes[d], n) for d, n in self.remaining.items() if n]

    def one_by_one(self, digests: Container[str]) -> None:
        """Option after option for these shapes, until nothing more can be helped."""
        while waiting := [item for item in self.waiting() if item.shape.digest in digests]:
            step = plan(waiting, self.trial, redistribute=self.redistribute)
            if self.first is None:
                self.first = step
            if step.event:
                self.total.event = step.event
            self.total.notes += tuple(note for note in step.notes if note not in self.total.notes)
            if step.result != SUCCESSFUL or not sum(step.placed):
                return
            self._take(step, waiting)
            self._settle()

    def jointly(self, divided: Mapping[str, int | None]) -> None:
        """All that can be planned as one, at least cost; what looks at other nodes comes before it, one by one, but for shapes that are divided."""
        self.divided = divided
        asked = look(self.items, self.trial)
        node = prices_of([group for group in asked.valid if group.template is not None], self.items).node
        self.prices = node | {other: node[g.id] for g in asked.valid for other in g.also if g.id in node}
        self.first = Plan(
            result=NO_OPTIONS, able=asked.able, reasons=asked.reasons, item_reasons=asked.item_reasons
        )
        shapes = list(self.shapes.values())
        related = related_to(self.trial.grid, shapes)
        special = {s.digest for s in shapes if s.digest not in divided and not plain(s, related)}
        if special:
            self.one_by_one(special)
        waiting = self.waiting()
        if special or len(waiting) < len(self.items):
            asked = look(waiting, self.trial)
        self.joint = joint = jointly(waiting, asked.valid, asked.fits, self.trial, divided)
        if joint is None:
            return
        options = []
        for share in joint.shares:
            option = as_option(share.group, share.estimate, share.items)
            step = self._shared(share, option, joint.prices, asked)
            if step.result == SUCCESSFUL:
                options.append(option)
                self._take(step, share.items)
        self.first.options = tuple(options)
        self.total.why = reasons_of(joint)
        self._settle()

    def _shared(self, share: GroupShare, option: Option, prices: Prices, asked: Look) -> Plan:
        """One group's part made into sizes, together with groups that are alike and cost the same."""
        price = prices.node
        now = {group.id: group for group in self.trial.groups}
        valid = [now[g.id] for g in asked.valid if g.id in now and price.get(g.id) == price[share.group.id]]
        mine = {number: index for index, number in enumerate(share.numbers)}
        held = share.estimate.placed
        return cut_and_share(
            Plan(result=NO_OPTIONS, option_pods=held, placed=(0,) * len(held)),
            option,
            share.estimate,
            items=share.items,
            valid=valid,
            fits={
                g.id: [
                    mine[n]
                    for n in asked.fits[g.id]
                    if n in mine and not self._apart(share.items[mine[n]], g, share)
                ]
                for g in valid
            },
            world=self.trial,
            all_or_nothing=False,
            redistribute=self.redistribute,
        )

    def _apart(self, item: Item, group: Group, share: GroupShare) -> bool:
        """Whether these pods are for another domain than that of a group."""
        if item.shape.digest not in self.divided:
            return False
        key = item.shape.spread[0].key
        return group.labels.get(key) != share.group.labels.get(key)

    def unevenly(
        self, spread: Container[str], before: World, *, everywhere: bool = False
    ) -> dict[str, int | None]:
        """Of these shapes those that came to stand in domains as they cannot once these nodes are there, or nodes `everywhere` where they can come.

        Each to how many pods a domain may have beside the one that has least.
        """
        able = self.first.able if everywhere and self.first is not None else {}
        found: dict[str, int | None] = {}
        for number, item in enumerate(self.items):
            if item.shape.digest in spread:
                there = [group for group in before.groups if number in able.get(group.id, ())]
                most = highest(item.shape, before.grid, self.trial.grid, there)
                if most is not None:
                    found[item.shape.digest] = most
        return found

    def _take(self, step: Plan, waiting: Sequence[Item]) -> None:
        self._rounds += 1
        _merge(self.total, step, self.remaining, waiting, self.items)
        enact(self.trial, step, self.shapes, self._rounds)

    def _settle(self) -> None:
        """What is left goes where the new nodes have room."""
        rest = self.waiting()
        for position, item in enumerate(rest):
            after = rest[position + 1 :] if item.shape.claims else ()
            here = self.trial.grid.place(item.shape, item.count, after)
            if here:
                _count(self.total, self.remaining, self.items, {item.shape.digest: here})

    def price(self, prices: Mapping[NodeGroupId, int]) -> int | None:
        """What the nodes cost; None where that is not known of a group."""
        if any(target.group not in prices for target in self.total.targets):
            return None
        return sum(prices[target.group] * target.added for target in self.total.targets)

    def plan(self, all_or_nothing: bool) -> Plan:
        """The plan as it stands, with what the groups said."""
        total, first = self.total, self.first
        total.result = SUCCESSFUL if total.targets else (first.result if first is not None else NOT_NEEDED)
        if first is not None:
            total.options, total.able = first.options, first.able
            total.reasons, total.item_reasons = dict(first.reasons), first.item_reasons
        if self.joint is not None:
            for group in self.trial.groups:
                if group.id in total.able and group.id not in total.chosen:
                    most = self.trial.settings.max_nodes_total
                    why = cannot_grow(group, self.trial.limits, self.trial.current_nodes, most)
                    total.reasons[group.id] = why or DEARER
        if all_or_nothing and any(self.remaining.values()):
            return Plan(
                result=NO_OPTIONS,
                option_pods=total.option_pods,
                placed=(0,) * len(self.items),
                options=total.options,
                reasons={**total.reasons, **{o.group: ALL_OR_NOTHING for o in total.options}},
                item_reasons=total.item_reasons,
                event=total.event,
            )
        return total


def _count(total: Plan, remaining: dict[str, int], items: Sequence[Item], placed: Mapping[str, int]) -> None:
    """So many pods more have a place, by shape."""
    for digest, pods in placed.items():
        remaining[digest] -= pods
    each = zip(total.placed, items, strict=True)
    total.placed = tuple(before + placed.get(item.shape.digest, 0) for before, item in each)


def _merge(
    total: Plan, step: Plan, remaining: dict[str, int], waiting: Sequence[Item], items: Sequence[Item]
) -> None:
    """Add one step to the whole plan: targets of one group become one target."""
    each = zip(waiting, step.placed, strict=True)
    _count(total, remaining, items, {item.shape.digest: pods for item, pods in each if pods})
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
            names = planned(placement.group, layout.nodes, in_round=number, nodes=before, layout=part)
            rows = trial.grid.add_copies(template.view, names)
            for row in rows:
                for item in template.residents:
                    trial.grid.put(item.shape, row, item.count)
                for digest, pods in layout.pods.items():
                    trial.grid.put(shapes[digest], row, pods)
