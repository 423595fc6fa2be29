"""Who may act, and what is dropped of sets and fleets when that changes.

Nothing of what was held back is remembered: no lease is believed to be held, no slot given, no pod made. Who
may act begins from what is so.
"""

from __future__ import annotations

from tidewright.events.acting import MODE, Acting, Held
from tidewright.events.config import ModesSet
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.shards import ShardSetObserved
from tidewright.shardmanager.fold.touched import Look, Touched
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import SERVICE, State


def of_set(known: Acting, shard_set: ShardSetState) -> Held:
    """What holds for a set."""
    asked = {MODE: shard_set.mode} if shard_set.mode else None
    return known.held(SERVICE, shard_set.namespace, asked)


def fold(state: State, event: ModesSet | IncumbentObserved, touched: Touched) -> None:
    """Other modes, or an incumbent that comes or goes."""
    before = state.acting.copied()
    if not state.acting.heard(event):
        return
    if not before.of_service(SERVICE).acts and state.acting.of_service(SERVICE).acts:
        state.asked.clear()
        state.in_flight.clear()
    for key in sorted(state.sets):
        _changed(state, state.sets[key], of_set(before, state.sets[key]), touched)
    for key, fleet in sorted(state.fleets.items()):
        touched.look(key, Look.MODES)
        if before.held(SERVICE, fleet.namespace).acts is not state.acting.held(SERVICE, fleet.namespace).acts:
            fleet.current = None
            if fleet.lock is not None:
                fleet.lock.due = True
            touched.look(key, Look.PASS)


def fold_set(state: State, event: ShardSetObserved, touched: Touched) -> None:
    """A set whose annotation may ask for another mode than before."""
    known = state.sets.get(f"{event.namespace}/{event.name}")
    if known is None:
        return
    before = of_set(state.acting, known)
    known.mode = event.annotations.get(MODE, "")
    _changed(state, known, before, touched)


def _changed(state: State, shard_set: ShardSetState, before: Held, touched: Touched) -> None:
    """What holds for a set may be something else than before."""
    now = of_set(state.acting, shard_set)
    if now == before:
        return
    if now.acts:
        shard_set.taking, shard_set.published = [], ""
        shard_set.answers.clear()
        shard_set.refused.clear()
    touched.touch(shard_set.key)
