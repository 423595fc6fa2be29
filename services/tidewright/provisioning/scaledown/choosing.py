"""Which of the nodes that a pass has found go now, on the state: what consolidation found goes by its own budgets, too."""

from __future__ import annotations

from collections import Counter

from tidewright.provisioning.consolidation import budgets as disruptions
from tidewright.provisioning.consolidation import protection
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.going.cooldown import in_cooldown
from tidewright.provisioning.scaledown.lately import last_of
from tidewright.provisioning.scaledown.live import LiveScene, Room
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State


def draining(state: State) -> bool:
    """Whether pods of nodes that are being replaced are on their way: what they will take is free to see."""
    return any(one.begun for one in state.consolidating.replacements)


def choose(scene: LiveScene, plan: passes.PassPlan) -> None:
    """Who goes now, written into the plan: of those that consolidation found, as many as its budgets allow."""
    settings, cards, now = scene.index.settings, scene.cards.cards, scene.now
    passes.choose(scene, plan, settings, now)
    if not any(cards[leaver.name].consolidates for leaver in plan.going):
        return
    away = Away(scene)
    going = []
    for leaver in plan.going:
        if cards[leaver.name].consolidates:
            since = plan.memory.unneeded[leaver.name]
            rests, until = resting(scene, leaver.name, since)
            if rests:
                plan.waiting[leaver.name] = rests
                plan.rest_until = min(plan.rest_until, until)
                continue
            reason = disruptions.UNDERUTILISED if leaver.drains else disruptions.EMPTY
            if not away.left(leaver.group, reason):
                plan.waiting[leaver.name] = disruptions.EXHAUSTED
                continue
        away.go(leaver.group)
        going.append(leaver)
    plan.going = going


def resting(scene: LiveScene, name: str, since: float | None) -> tuple[str, float]:
    """Why a node rests before consolidation has it go, and until when; see `protection.rest_of_node`."""
    return protection.rest_of_node(
        scene.state.consolidating, name, scene.index.settings, since=since, now=scene.now
    )


class Away:
    """How many nodes of each group are away, and how many more may go by the budgets of consolidation."""

    def __init__(self, scene: LiveScene) -> None:
        self._settings, self._now = scene.index.settings, scene.now
        self._gone = Counter[str](removal.group for removal in scene.state.removals.values())
        self._sizes = Counter[str]()
        for name, card in scene.cards.cards.items():
            self._sizes[card.node.group] += 1
            leaves = card.node.deleting or not card.node.ready
            self._gone[card.node.group] += leaves and name not in scene.state.removals

    def left(self, group: str, reason: str) -> int:
        """Nodes of a group that may go now for a reason."""
        budgets = disruptions.of_group(self._settings.consolidation_budgets, group)
        return disruptions.left(budgets, reason, self._sizes[group], self._gone[group], self._now)

    def go(self, group: str) -> None:
        """One more goes."""
        self._gone[group] += 1


def cooling(state: State, room: Room, settings: Settings, now: float) -> bool:
    """Whether nothing goes now, since something has just come or gone, or is coming."""
    return in_cooldown(last_of(state), settings, now, very_new_pods=room.very_new)
