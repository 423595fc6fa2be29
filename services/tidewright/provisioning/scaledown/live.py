"""The cluster as passes look at it, made of the state and of the cards of its nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from tidewright.provisioning.consolidation import protection
from tidewright.provisioning.consolidation.arrivals import came
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.pack.grid import Grid
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.cards import Cards, KnownOwners, traits_of
from tidewright.provisioning.scaledown.drain.budgets import Allowance
from tidewright.provisioning.scaledown.drain.rules import Sorted
from tidewright.provisioning.scaledown.lately import delayed
from tidewright.provisioning.scaledown.scene import GroupTraits, Refusal, Resident, SceneNode
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State

EXPECTED = Refusal("BlockedByPod", pod_reason="Expected")
"""Of a node with room that is booked, or that pods need which wait or are to come."""


class Room(msgspec.Struct):
    """Where an evaluation has put what is not there yet: pods that wait, and what is booked.

    Attributes:
        grid: nodes with all of that on them, those on their way too.
        needed: nodes on which something of it is.
        very_new: pods wait, and all of them are too young to be helped.
        ends: log time at which some of it is given back though nothing happens.
    """

    grid: Grid
    needed: frozenset[str] = frozenset()
    very_new: bool = False
    ends: float = math.inf


class LiveScene(passes.Scene):
    """The cluster as the state has it, with what is kept of its nodes.

    Attributes:
        kept_for: nodes of replacements that are under way: passes leave them alone.
        replacing: every node is judged as one that consolidation would have go.
    """

    def __init__(self, state: State, index: Index, cards: Cards, room: Room, now: float) -> None:
        groups = groups_of(state)
        super().__init__(
            nodes=[card.node for card in cards.cards.values()],
            residents={},
            groups=groups,
            grid=room.grid,
            budgets=cards.budgets(state),
            owners=KnownOwners(state),
            empty_going=sum(not removal.drains for removal in state.removals.values()),
            drains_going=sum(removal.drains for removal in state.removals.values()),
        )
        self.state = state
        self.index = index
        self.cards = cards
        self.delayed = delayed(state, index.settings, now)
        self.room = room
        self.now = now
        self.kept_for = set_aside(state)
        self.replacing = False

    def goes_on(self, room: Room, now: float) -> None:
        """As of a later time, at which nothing is otherwise but what time itself makes so."""
        self.room, self.now = room, now
        self.delayed = delayed(self.state, self.index.settings, now)

    @classmethod
    def of(cls, state: State, index: Index, now: float) -> LiveScene:
        """Without regard to what is not there yet: for who only asks."""
        return cls(state, index, cards_of(state, index, now), Room(index.grid), now)

    def node(self, name: str) -> SceneNode:
        return self.cards.cards[name].node

    def pods(self, name: str) -> Sequence[Resident]:
        return self.cards.pods(self.state, self.index, name)

    def kind_of(self, node: SceneNode, settings: Settings, now: float) -> int:
        kind = self.cards.cards[node.name].kind
        return kind if kind is not None else self.cards.kind(self.state, self.index, node.name, now)

    def sorted_pods(self, name: str, settings: Settings, allowance: Allowance, now: float) -> Sorted:
        found = self.cards.ordered(self.state, self.index, name, allowance, now)
        if found.blocked is None and (self.cards.cards[name].consolidates or self.replacing):
            kept = protection.of_pods(
                self.pods(name),
                found.movers,
                allowance,
                moved=self.state.consolidating.moved,
                draining=self._draining(allowance),
                now=now,
            )
            return found if kept is None else Sorted(blocked=kept)
        return found

    def _draining(self, allowance: Allowance) -> Mapping[str, int]:
        """Of each budget the pods that still have to leave nodes which go already."""
        charged: Counter[str] = Counter()
        for name, removal in self.state.removals.items() if allowance.budgets else ():
            asked = {key for key, pod in removal.pods.items() if pod.evicted_at is not None}
            for pod in self.pods(name) if name in self.cards.cards else ():
                if pod.key not in asked and pod.deleting_at is None:
                    charged.update(allowance.covering(pod))
        return charged

    def closed(self, settings: Settings) -> list[str]:
        """Beside nodes that take no pods rows that are no nodes yet."""
        closed = [*self.cards.closed, *self.state.removals, *self.kept_for]
        if self.grid is self.index.grid:
            return closed
        return [*closed, *(name for name in self.grid.rows if name not in self.cards.cards)]


def set_aside(state: State) -> frozenset[str]:
    """Nodes that are being replaced, and those that came to replace them."""
    replacements = state.consolidating.replacements
    return frozenset().union(*(one.nodes for one in replacements), *came(state).values())


def groups_of(state: State) -> dict[NodeGroupId, GroupTraits]:
    """Groups as passes see them."""
    there: dict[NodeGroupId, int] = {}
    if any(group.zero_or_max for group in state.groups.values()):
        for node in state.nodes.values():
            if node.group and not node.doomed:
                there[node.group] = there.get(node.group, 0) + 1
    leaving = Counter(r.group for r in state.removals.values() if not r.deletion)
    return {
        name: traits_of(name, group, there.get(name, 0), leaving[name])
        for name, group in state.groups.items()
    }


def cards_of(state: State, index: Index, now: float, most: int | None = None) -> Cards:
    """The cards of all nodes, up to date; or at most so many more than were."""
    if index.cards is None:
        index.cards = Cards()
    index.cards.bring_up(state, index, now, most)
    return index.cards
