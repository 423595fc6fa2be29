"""What nodes cost that would hold the pods of others: planned as the expander `least-cost` plans. Addendum 4.2, rules 3, 7 and 8.

The pods of the nodes that would go find room on those that are there, beside what is booked and expected; for the rest nodes
are planned, of groups with a price. The others stand before anything is drained: so limits count both, and what
both cost while both run must be saved within the hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from tidewright.kube.keys import PodKey
from tidewright.kube.podshape import PodShape
from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.cluster.groups import Group
from tidewright.provisioning.cluster.view import View, look
from tidewright.provisioning.consolidation import modes, protection, spot
from tidewright.provisioning.consolidation.arrivals import being_replaced
from tidewright.provisioning.consolidation.budgets import UNDERUTILISED
from tidewright.provisioning.consolidation.kept import GIVEN_UP_REST_S, REMEMBERED_S
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.pack.classes import Item
from tidewright.provisioning.pack.classes import items as merged
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.candidates.eligible import listed
from tidewright.provisioning.scaledown.choosing import Away, resting
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import BLOCKED_BY_POD, mirrored, of_daemons
from tidewright.provisioning.scaledown.going.timers import Floors
from tidewright.provisioning.scaledown.going.whole import WAITS_FOR_POD
from tidewright.provisioning.scaledown.live import LiveScene, Room, cards_of
from tidewright.provisioning.scaledown.next_pass import SOON_S
from tidewright.provisioning.scaledown.scene import Refusal, Resident
from tidewright.provisioning.scaledown.simulation.removal import NO_PLACE
from tidewright.provisioning.scaleup.plans import SUCCESSFUL, Plan, World
from tidewright.provisioning.scaleup.rounds import plan_all
from tidewright.provisioning.settings import LEAST_COST
from tidewright.provisioning.state import State

HOUR_S = 3600.0
MOST_NODES = 20
"""Nodes that one replacement takes the place of, at most."""
MOST_PODS = 400
"""Pods that one trial moves, at most."""
MOST_ALONE = 10
"""Nodes tried one by one in one round."""
NOTHING_CHEAPER = "NothingCheaper"
"""Of a node whose pods fit on no other, and for which no others cost enough less."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes, and those that would replace them.

    Attributes:
        plan: the others, made on `world`.
        pods: how many would move.
        before_micro, after_micro: what they cost an hour, and the others, in millionths.
        overlap_micro: what it costs that both run until the pods have moved.
    """

    nodes: tuple[str, ...]
    plan: Plan
    world: World
    pods: int
    before_micro: int
    after_micro: int
    overlap_micro: int

    @property
    def groups(self) -> dict[str, int]:
        """What would be ordered: group to nodes."""
        return {target.group: target.added for target in self.plan.targets}

    def saves(self, part: float) -> bool:
        """Whether more is saved within an hour than this part, and than what the overlap costs."""
        saving = self.before_micro - self.after_micro
        return saving > max(self.before_micro * part, self.overlap_micro)


class Round:
    """One look at what could be replaced, on the state as a pass has left it.

    Attributes:
        kept: nodes tried alone that something keeps, whatever others cost.
    """

    def __init__(
        self, state: State, index: Index, room: Room, plan: passes.PassPlan | None, now: float
    ) -> None:
        self.state, self.index, self.now = state, index, now
        self.settings = index.settings
        self.scene = LiveScene(state, index, cards_of(state, index, now), room, now)
        self.scene.replacing = True
        self.pass_ = plan
        self.rest_until = float("inf")
        self.kept: dict[str, Refusal] = {}
        self._before: list[str] = []
        self._promised: list[tuple[PodShape, str]] = []
        self._promised_to = 0

    @cached_property
    def view(self) -> View:
        return look(self.state, self.index, self.now)

    @cached_property
    def away(self) -> Away:
        return Away(self.scene)

    @cached_property
    def _others(self) -> tuple[Group, ...]:
        """Groups that may bring other nodes: with a price, to which the risk of spot nodes is added."""
        found = []
        for name, view in sorted(self.view.groups.items()):
            group = view.group
            price = group.price_micro
            if (
                price is None
                or group.zero_or_max
                or group.backed_off
                or not group.healthy
                or not group.exists
            ):
                continue
            revoked = self.state.consolidating.revoked.get(name, ())
            price = spot.risk_price(price, revoked, group.nodes, self.now, REMEMBERED_S)
            found.append(msgspec.structs.replace(group, price_micro=price))
        return tuple(found)

    @cached_property
    def _grid(self) -> Grid:
        """Nodes that stay and take pods, with what is booked or expected on them."""
        grid = self.scene.grid.fork()
        for name in self.scene.closed(self.settings):
            grid.remove_node(name)
        return grid

    # --- What goes before ---

    def leave_to(self, names: Sequence[str]) -> None:
        """These nodes are replaced before what is looked at from now on: it leaves them budgets, and their pods the room that they will take.

        Where the nodes that come in their place are needed, none of it counts on these.
        """
        there = self.scene.cards.cards
        self._before += [name for name in names if name in there and name not in self.state.removals]

    def _left(self) -> Grid:
        """Nodes that stay and take pods, with what those of nodes that are replaced before will take of them: found when it is asked for."""
        grid, names = self._grid, self._before[self._promised_to :]
        self._promised_to = len(self._before)
        for name in names:
            grid.remove_node(name)
        for pod, row in _tightly(grid, self._leaving(names)):
            view = grid.views[row]
            if view is not None:
                self._promised.append((pod.shape, view.name))
        return grid

    def with_promises(self) -> Grid:
        """All nodes, with what those pods will take."""
        self._left()
        grid = self.scene.grid.fork()
        for shape, name in self._promised:
            grid.put(shape, grid.rows[name])
        return grid

    def allowance(self) -> Allowance:
        """What disruption budgets have left beside those nodes."""
        allowance = Allowance(self.scene.budgets)
        allowance.charge(self._leaving(self._before))
        return allowance

    def _leaving(self, names: Iterable[str]) -> list[Resident]:
        """The pods that leave nodes with them."""
        return [
            pod for name in names for pod in self.scene.pods(name) if not (of_daemons(pod) or mirrored(pod))
        ]

    # --- Who ---

    def candidates(self) -> list[str]:
        """Nodes whose pods fit on no other, those first that cost the most for what it takes to move their pods."""
        names = [name for name in self.scene.cards.eligible if self.may_go(name)]
        return sorted(names, key=lambda name: (-self._price(name) / self._effort(name), name))

    def may_go(self, name: str) -> bool:
        """Whether a node may be replaced, whatever others cost; notes when one that rests may."""
        state, card = self.state, self.scene.cards.cards.get(name)
        if card is None or card.reason or name not in state.nodes or not self._fits_nowhere(name):
            return False
        node, group = card.node, state.groups.get(card.node.group)
        if (
            group is None
            or group.zero_or_max
            or group.price_micro is None
            or modes.mode_of(self.settings.consolidation, node.group) != modes.REPLACE
            or backed_off(state.backoff.get(node.group), self.now)
            or listed(node, self.scene.groups)
            or name in self.scene.room.needed
            or name in state.removals
            or name in self.scene.kept_for
        ):
            return False
        created_at = state.nodes[name].created_at
        if protection.of_node(node.annotations, created_at, self.now):
            self.rest_until = min(self.rest_until, max(self.now, created_at + protection.YOUNG_S + SOON_S))
            return False
        _, until = resting(self.scene, name, None)
        given_up = state.consolidating.given_up.get(name)
        if given_up is not None:
            until = max(until, given_up + GIVEN_UP_REST_S)
        if until > self.now:
            self.rest_until = min(self.rest_until, until)
            return False
        return True

    def _fits_nowhere(self, name: str) -> bool:
        """Whether passes have found that a node's pods have no place elsewhere, and nothing else of it."""
        if self.pass_ is not None and name in self.pass_.unneeded:
            return False
        refused = self.pass_.refused.get(name) if self.pass_ is not None else None
        paused = self.state.paused.get(name)
        reason = refused.reason if refused is not None else paused.reason if paused is not None else ""
        return reason == NO_PLACE

    def _price(self, name: str) -> int:
        return self.state.groups[self.state.nodes[name].group].price_micro or 0

    def _effort(self, name: str) -> float:
        """What it takes to move a node's pods, as Karpenter weighs it: by their number and priority."""
        moving = (pod for pod in self.scene.pods(name) if not (of_daemons(pod) or mirrored(pod)))
        return 1.0 + sum(min(10.0, max(0.0, 1.0 + pod.priority / 2**25)) for pod in moving)

    # --- For what ---

    def trial(self, names: Sequence[str]) -> Trial | None:
        """What would replace these nodes; None where nothing does for less, or something keeps one of them."""
        movers = self._movers(names)
        if isinstance(movers, Refusal):
            if len(names) == 1:
                self.kept[names[0]] = movers
            return None
        if len(movers) > MOST_PODS:
            return None
        grid = self._left().fork()
        for name in names:
            grid.remove_node(name)
        rest = _placed(grid, movers)
        if not rest:
            return None  # they need no others: passes find that
        groups = self._allowed(names)
        world = World(
            groups=groups,
            grid=grid,
            limits=self.view.limits.fork(),
            settings=msgspec.structs.replace(self.settings, expander=(LEAST_COST,)),
            current_nodes=self.view.current_nodes,
            seed=f"{self.now:.6f}",
        )
        plan = plan_all(rest, world, all_or_nothing=True)
        prices = {group.id: group.price_micro for group in groups}
        costs = [(target, prices.get(target.group)) for target in plan.targets]
        known = [(target, price) for target, price in costs if price is not None]
        if plan.result != SUCCESSFUL or not known or len(known) < len(costs):
            return None
        drain_s = self.settings.after_taint_s + max((pod.grace_s for pod in movers), default=0.0)
        overlap = sum(
            target.added * price * (self._boot_s(target.group) + drain_s) / HOUR_S for target, price in known
        )
        found = Trial(
            nodes=tuple(names),
            plan=plan,
            world=world,
            pods=len(movers),
            before_micro=sum(map(self._price, names)),
            after_micro=sum(target.added * price for target, price in known),
            overlap_micro=round(overlap),
        )
        return found if found.saves(self.settings.min_saving) else None

    def packed(self, names: Sequence[str], closed: Iterable[str]) -> dict[PodKey, str]:
        """Where the pods of these nodes find room when the large ones come first, each where it fits the most tightly.

        Looked for one after the other they would be spread, and the last large one found no room that is there in all.
        """
        grid = self.with_promises()
        for name in (*closed, *names):
            grid.remove_node(name)
        views = grid.views
        return {
            pod.key: view.name if (view := views[row]) is not None else ""
            for pod, row in _tightly(grid, self._leaving(names))
        }

    def _movers(self, names: Sequence[str]) -> list[Resident] | Refusal:
        """The pods that would leave these nodes; or what keeps one of them: a pod, or its group or the cluster needs it."""
        floors = Floors(self.scene.nodes, self.scene.groups, self.settings)
        for name in self._before:
            floors.take(self.scene.cards.cards[name].node)
        allowance = self.allowance()
        movers: list[Resident] = []
        for name in names:
            pods = self.scene.sorted_pods(name, self.settings, allowance, self.now)
            node = self.scene.cards.cards[name].node
            if pods.blocked is not None:
                return pods.blocked
            if pods.waits:
                return Refusal(BLOCKED_BY_POD, pod=pods.waits[0], pod_reason=WAITS_FOR_POD)
            if reason := floors.refusal(node):
                return Refusal(reason)
            floors.take(node)
            allowance.charge(pods.movers)
            movers += pods.movers
        return movers

    def _allowed(self, names: Sequence[str]) -> tuple[Group, ...]:
        """Groups that may bring nodes in place of these: for spot nodes spot nodes alone, and where enough types are cheaper."""
        if not any(spot.is_spot(self.state.nodes[name].labels) for name in names):
            return self._others
        below = sum(map(self._price, names))
        if spot.cheaper_types(self._others, below) < self.settings.spot_types_min:
            return ()
        return tuple(group for group in self._others if spot.is_spot(group.labels))

    def _boot_s(self, group: NodeGroupId) -> float:
        """How long a node of a group takes to come: as the last one, or as long as it may."""
        known = self.state.groups.get(group)
        return (known.boot_s if known is not None else 0.0) or self.view.groups[group].provision_s

    # --- Search ---

    def beside(self) -> int | None:
        """How many nodes may be replaced beside those before: as many as may be drained at a time in all; None: there are none before."""
        if not self._before and not self.state.consolidating.replacements:
            return None
        under_way = sum(name in self.state.removals for name in being_replaced(self.state))
        most = min(self.settings.max_drains, self.settings.max_parallelism)
        return max(0, most - under_way - len(self._before))

    def search(self) -> tuple[Trial | None, tuple[str, ...]]:
        """The first replacement that saves enough, of several nodes before single ones; and nodes for which there is none alone."""
        most = self.beside()
        if most == 0:
            return None, ()
        names = self._within([name for name in self.candidates() if name not in self._before])
        count = len(several := self._several(names if most is None else self._within(names, most)))
        while count >= 2:
            found = self._without_swaps(several[:count])
            if found is not None:
                return found, ()
            count //= 2
        tried: list[str] = []
        for name in names[:MOST_ALONE]:
            found = self._without_swaps([name])
            if found is not None:
                return found, tuple(tried)
            tried.append(name)
        return None, tuple(tried)

    def _within(self, names: Sequence[str], most: int | None = None) -> list[str]:
        """Those of which the budgets of consolidation let one go beside those before; or as many of them as go together, at most so many."""
        before = grouped(self.state, self._before)
        left = {
            group: self.away.left(group, UNDERUTILISED) - before[group]
            for group in grouped(self.state, names)
        }
        found: list[str] = []
        for name in names:
            group = self.state.nodes[name].group
            if left[group] > 0 and (most is None or len(found) < most):
                left[group] -= most is not None
                found.append(name)
        return found

    def _without_swaps(self, names: Sequence[str]) -> Trial | None:
        """What would replace these nodes, those left out whose own group would bring others in their place: they may as well stay."""
        while names:
            found = self.trial(names)
            if found is None:
                return None
            again = [name for name in names if self.state.nodes[name].group not in found.groups]
            if len(again) == len(names):
                return found
            names = again
        return None

    def _several(self, names: Iterable[str]) -> list[str]:
        """The first of these, as many as one trial takes."""
        found: list[str] = []
        pods = 0
        for name in names:
            pods += len(self.scene.pods(name))
            if pods > MOST_PODS or len(found) == MOST_NODES:
                break
            found.append(name)
        return found


def _weight(shape: PodShape) -> tuple[int, int, int, str]:
    """Sorts pods: highest priority first, then the larger ones."""
    requests = shape.requests
    return -shape.priority, -requests.get("cpu", 0), -requests.get("memory", 0), shape.digest


def _tightly(grid: Grid, pods: Iterable[Resident]) -> Iterator[tuple[Resident, int]]:
    """Put pods on the grid, the large ones first, each where it fits the most tightly: those that have room, with their rows."""
    order = grid.order()
    for pod in sorted(pods, key=lambda pod: (*_weight(pod.shape), pod.key)):
        room = grid.capacity(pod.shape)[order]
        ranks = np.flatnonzero(room > 0)
        if len(ranks):
            row = int(order[ranks[room[ranks].argmin()]])
            grid.put(pod.shape, row)
            yield pod, row


def _placed(grid: Grid, movers: Sequence[Resident]) -> list[Item]:
    """Put pods where there is room, and say which have none: highest priority first, then the larger ones."""
    items = sorted(merged((pod.shape, 1) for pod in movers), key=lambda item: _weight(item.shape))
    rest = []
    for position, item in enumerate(items):
        along = items[position + 1 :] if item.shape.claims else ()
        lacking = item.count - grid.place(item.shape, item.count, along)
        if lacking:
            rest.append(Item(item.shape, lacking))
    return rest


def named(groups: Mapping[str, int]) -> str:
    """Groups with how many nodes of each."""
    return ", ".join(f"{nodes} of group {group}" for group, nodes in sorted(groups.items()))


def amount(micro: int) -> str:
    """Millionths as a price."""
    return f"{micro / 1e6:.4f}"


def grouped(state: State, names: Iterable[str]) -> Counter[NodeGroupId]:
    """Nodes by group."""
    return Counter(state.nodes[name].group for name in names if name in state.nodes)
