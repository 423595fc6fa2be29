"""A part of a pass, on the state.

The timer `scan` has it done, at most every `scan-interval`, and only while something may come of it: after a change of the
cluster, and at times at which time alone changes something (`next_pass`). A part tries a bounded number of pods, and the pass goes on
with the next timer; what was found is recorded (`recording`), so that each part begins where the one before it has ended.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidewright.events.base import Decision
from tidewright.events.provisioning import TrackUnneededNodes
from tidewright.provisioning.cluster.backoff import backed_off
from tidewright.provisioning.cluster.cluster_state import Counts, Health, cluster_healthy
from tidewright.provisioning.index.index import Index
from tidewright.provisioning.scaledown import passes
from tidewright.provisioning.scaledown.beginning import begun
from tidewright.provisioning.scaledown.candidates.eligible import listed
from tidewright.provisioning.scaledown.cards import Cards
from tidewright.provisioning.scaledown.choosing import choose, cooling, draining
from tidewright.provisioning.scaledown.live import LiveScene, Room, cards_of
from tidewright.provisioning.scaledown.next_pass import SOON_S, next_due
from tidewright.provisioning.scaledown.recording import memory_of, not_reached, overdue, record_of
from tidewright.provisioning.scaledown.scene import SceneNode
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State

MOST_TRIES = 2000
"""Nodes tried and pods placed in one part of a pass."""
MOST_RESTARTS = 3
"""So often a pass of one piece begins anew, since something came."""
READ_AT_ONCE = 1000
"""Nodes that are read at once before the first pass."""


class Found(msgspec.Struct):
    """What a part of a pass came to.

    Attributes:
        decisions: what is recorded.
        plan: what it found; None when it did not look.
        due: when to look again; None: when something changes.
    """

    decisions: list[Decision] = []
    plan: passes.PassPlan | None = None
    due: float | None = None


def reads_first(state: State, index: Index, now: float) -> bool:
    """Whether nodes are read before the first pass: so many at a time that no event is held up by all of them."""
    if state.scan.fired * READ_AT_ONCE >= len(state.nodes):
        return False
    cards_of(state, index, now, READ_AT_ONCE)
    return True


def healthy(cards: Cards, settings: Settings) -> bool:
    """Whether not too many nodes are unready: else what looks unneeded may be what its pods are waiting for."""
    counts = Counts(ready=len(cards.cards) - len(cards.unready), unready=len(cards.unready))
    return cluster_healthy([counts], Health(settings.ok_unready, settings.unready_percent))


def forgotten(state: State, now: float) -> Found:
    """Nothing is known to be unneeded any more: scale-down is off, or the cluster is not healthy."""
    if not state.unneeded:
        return Found()
    return Found([TrackUnneededNodes(at=now, needed=tuple(sorted(state.unneeded)))])


class UnderWay(NamedTuple):
    """A pass of which a part was made.

    Attributes:
        part: which one, counted since the pass began or began anew.
        restarts: how often it had begun anew.
        whole: it is of one piece, as the reference makes it: nothing is recorded of it before its end.
    """

    part: int
    restarts: int
    whole: bool
    scene: LiveScene
    run: passes.Pass


def of_one_piece(state: State, settings: Settings) -> bool:
    """Whether a pass finds what one does that is made in one go, as the reference does.

    Its parts go on from each other while nothing comes between them, and from the beginning when something does. Where that
    has happened a few times the pass goes on as ours do: what was found stays found.
    """
    return bool(settings.as_reference) and state.scan.restarts < MOST_RESTARTS


def as_of(state: State, settings: Settings, now: float) -> float:
    """When what a part looks at is looked at: where the pass is of one piece as its first part did."""
    scan = state.scan
    later = of_one_piece(state, settings) and scan.part > 1
    return scan.began if later and scan.began is not None else now


def taken_up(state: State, index: Index, now: float) -> UnderWay | None:
    """What the next part goes on from, taken out of the index; None where it has to begin, or to make again what is not kept.

    Parts are counted also where none is made, so it is asked whether it is of the same beginning, too.
    """
    made, index.under_way = index.under_way, None
    scan = state.scan
    if made is None or (made.part + 1, made.restarts) != (scan.part, scan.restarts):
        return None
    if made.scene.cards is not index.cards:
        # What came in between has everything read anew, and did not disturb the pass.
        return None
    if of_one_piece(state, index.settings):
        return made if made.whole and made.scene.now == scan.began else None
    return made if not made.whole and _as_it_was(state, index, made, now) else None


def _as_it_was(state: State, index: Index, made: UnderWay, now: float) -> bool:
    """Whether a part that begins with what is recorded would look at what the part before it has left: no node was read anew, and
    time has changed nothing.
    """
    cards, then = made.scene.cards, made.scene.now
    return (
        not (index.changed or index.owners_changed)
        and cards.next_change() > now
        and all(paused.until > now for paused in state.paused.values())
        and all(backed_off(one, then) is backed_off(one, now) for one in state.backoff.values())
    )


def _keeps(made: UnderWay, index: Index) -> bool:
    """Whether the next part may go on from this one. One of ours does only where nothing waits, or keeps room."""
    if not made.run.more:
        return False
    return made.whole or (
        not index.settings.as_reference and made.run.plain and made.scene.room.grid is index.grid
    )


def let_go(state: State, index: Index) -> None:
    """A pass that was disturbed begins anew: what was made of it is not kept until then."""
    if not state.scan.part:
        index.under_way = None


def _made(state: State, index: Index, room: Room, made: UnderWay | None, now: float) -> UnderWay:
    """The pass with a part more.

    One of one piece is made as far as so many parts come: what is not kept any more, after a restart, is made again. Any
    other begins with what is recorded; where the part before is kept, and would have left the same, it goes on from that.
    """
    settings, part = index.settings, max(1, state.scan.part)
    whole = of_one_piece(state, settings)
    if made is not None and not whole:
        stands = room.grid is index.grid and made.run.taken_up(memory_of(state, settings, now), now)
        made = made if stands else None
    if made is not None:
        made.scene.goes_on(room, as_of(state, settings, now))
    else:
        now = as_of(state, settings, now)
        scene = LiveScene(state, index, cards_of(state, index, now), room, now)
        scene.adopts = not whole
        run = passes.Pass(
            scene, _willing(state, scene, settings, now), memory_of(state, settings, now), settings, now
        )
        made = UnderWay(part, state.scan.restarts, whole, scene, run)
    made = made._replace(part=part)
    made.run.go_on(MOST_TRIES * part if whole else MOST_TRIES)
    index.under_way = made if _keeps(made, index) else None
    return made


def part_of_a_pass(state: State, index: Index, room: Room, kept: UnderWay | None, now: float) -> Found:
    """Look at nodes as far as a part of a pass does, after what is `kept` of it, and record what is otherwise than it was."""
    settings = index.settings
    made = _made(state, index, room, kept, now)
    scene, plan = made.scene, made.run.plan()
    # A pass that tried nodes again which it has refused itself would not end; the next one comes no sooner than that.
    rested = now + settings.scan_interval_s
    plan.memory.recheck_at = {name: max(at, rested) for name, at in plan.memory.recheck_at.items()}
    found = Found(plan=plan)
    if plan.more and made.whole:
        if state.scan.before is None:
            before = len(state.unneeded)
            found.decisions.append(TrackUnneededNodes(at=now, before=before, more=True))
        found.due = now + SOON_S
        return found
    if plan.more:
        found.decisions += record_of(state, plan, {}, now)
        found.due = now + SOON_S
        return found
    choose(scene, plan)
    if cools := draining(state) or cooling(state, room, settings, now):
        plan.going = []
    late = overdue(scene, plan, settings, now, cools=cools) if settings.track_latency else {}
    found.decisions += record_of(state, plan, late, now, not_reached(plan) if settings.track_skipped else ())
    found.decisions += begun(state, plan, settings, now)
    found.due = next_due(state, scene, plan, settings, now)
    return found


def whole_pass(state: State, index: Index, room: Room, now: float) -> passes.PassPlan:
    """A pass in one go, of which nothing is recorded."""
    scene = LiveScene(state, index, cards_of(state, index, now), room, now)
    settings = index.settings
    willing = _willing(state, scene, settings, now)
    plan = passes.simulate(scene, willing, memory_of(state, settings, now), settings, now)
    choose(scene, plan)
    return plan


def _willing(state: State, scene: LiveScene, settings: Settings, now: float) -> list[SceneNode]:
    """Nodes that a pass looks at."""
    cards, needed = scene.cards, scene.room.needed
    late = scene.delayed if "B23" in settings.as_reference else frozenset()
    return [
        node
        for node in (cards.cards[name].node for name in _in_order(state, cards, now))
        if not listed(node, scene.groups)
        and node.name not in needed
        and node.name not in state.removals
        and node.name not in scene.kept_for
        and node.group not in late
        and (node.name not in state.paused or state.paused[node.name].until <= now)
    ]


def _in_order(state: State, cards: Cards, now: float) -> list[str]:
    """Nodes that may be looked at: those that are used little first, then what consolidation adds to them.

    Of a group in backoff it adds none: what goes there may not come back.
    """
    little: list[str] = []
    used: list[str] = []
    for name in cards.eligible:
        card = cards.cards[name]
        if not card.consolidates:
            little.append(name)
        elif not backed_off(state.backoff.get(card.node.group), now):
            used.append(name)
    return [*sorted(little), *sorted(used)]
