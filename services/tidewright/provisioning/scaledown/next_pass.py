"""Whether the next part of a pass comes, and when."""

from __future__ import annotations

from collections.abc import Sequence

from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.consolidation import budgets as disruptions
from tidewright.provisioning.consolidation import protection
from tidewright.provisioning.holding import LOOK_AGAIN_S, marks
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.going.cooldown import cool_at
from tidewright.provisioning.scaledown.going.timers import wait_s
from tidewright.provisioning.scaledown.going.whole import Leaver
from tidewright.provisioning.scaledown.lately import last_of, last_of_group
from tidewright.provisioning.scaledown.live import LiveScene
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State

SOON_S = 0.001
FULL_S = 1.0
"""How long passes rest at least while as many nodes go as may: what they would find cannot go before one of these has, and
that has the next pass come."""


def may_come(state: State, index: Index) -> bool:
    """Whether a pass may find anything: some group is above its minimum, or something is remembered that may be over.

    Or some node has our soft taint, of which it is to be rid.
    """
    if state.unneeded or index.soft or state.consolidating.replacements:
        return True
    if not index.settings.scale_down or not state.scan.told:
        return False
    return bool(state.paused) or any(group.target > group.min_size for group in state.groups.values())


def rest_s(state: State, settings: Settings, begun: Sequence[Leaver] = ()) -> float:
    """How long after a pass the next one comes, if something has changed; `begun`: nodes whose removal is decided and not folded yet."""
    count = len(state.removals) + len(begun)
    drains = sum(removal.drains for removal in state.removals.values()) + sum(one.drains for one in begun)
    full = count >= settings.max_parallelism or 0 < settings.max_drains <= drains
    return max(settings.scan_interval_s, FULL_S) if full else settings.scan_interval_s


def next_due(
    state: State, scene: LiveScene, plan: passes.PassPlan, settings: Settings, now: float
) -> float | None:
    """When to look again though nothing changes: the first time at which time alone may make a difference."""
    acts = marks(state)
    local = state.lately.values() if settings.delay_local else ()
    dues = [scene.cards.next_change(), scene.room.ends, *_tried_again(state, scene, plan, settings, now)]
    for name, since in plan.memory.unneeded.items():
        node = scene.cards.cards[name].node
        dues.append(since + wait_s(node, scene.groups[node.group], settings) + SOON_S)
    if disruptions.EXHAUSTED in plan.waiting.values():
        dues.append(disruptions.next_change(settings.consolidation_budgets, now) or 0.0)
    dues.append(plan.rest_until)
    if plan.unneeded:
        dues.append(cool_at(last_of(state), settings))
        dues += [cool_at(last_of_group(one), settings) for one in local]
    if plan.limited or (plan.going and acts):  # what only would go is no other the next time
        dues.append(now + (settings.scan_interval_s if acts else LOOK_AGAIN_S))
    future = [due for due in dues if now < due < float("inf")]
    return max(min(future), now + rest_s(state, settings, plan.going)) if future else None


def _tried_again(
    state: State, scene: LiveScene, plan: passes.PassPlan, settings: Settings, now: float
) -> list[float]:
    """When nodes that stay are tried again though nothing changes.

    Those of which a pass would find the same are not: what is refused now, and what was refused before and nothing has changed since.
    """
    index, kept = scene.index, state.consolidating
    # Room that is kept for what is not there ends with time, and so does what makes other nodes dear, or not to be had.
    passing = scene.room.grid is not index.grid or (
        settings.replaces
        and (
            bool(kept.revoked)
            or disruptions.next_change(settings.consolidation_budgets, now) is not None
            or any(backed_off(failure, now) for failure in state.backoff.values())
        )
    )
    dues = [
        plan.memory.recheck_at[name]
        for name, refusal in plan.refused.items()
        if passing or refusal.pod_reason in protection.PASSING
    ]
    dues += [
        paused.until
        for paused in state.paused.values()
        if passing or paused.changes != state.scan.changes or paused.pod_reason in protection.PASSING
    ]
    return dues
