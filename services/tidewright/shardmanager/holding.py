"""Sets and fleets that the modes in force, or an incumbent, hold back: what is recorded of them.

Nothing of a round or a pass is folded: no lease is believed to be held, no slot given, no pod made. A round
that asks for another one waits, and a pass begins anew with every event, so that what is recorded
is always the first step from what is so.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.events import acting
from tidewright.events.acting import Held
from tidewright.events.base import Decision, target_of
from tidewright.events.decisions import SetTimer
from tidewright.events.shards import RecordPass, ReportShards
from tidewright.shardmanager.fold import sets
from tidewright.shardmanager.fold.modes import of_set
from tidewright.shardmanager.shardset.spec import KIND
from tidewright.shardmanager.state import SERVICE, SET_TIMER, State

ALWAYS = (RecordPass, ReportShards)
LOOK_AGAIN_S = 30.0
"""While a set is held back, time alone has it look again no sooner."""


def recorded(state: State, asked_for: Iterable[Decision]) -> list[Decision]:
    """Decisions as they are recorded."""
    kept: list[Decision] = []
    for decision in asked_for:
        if isinstance(decision, SetTimer):
            marked: Decision | None = _later(state, decision)
        else:
            marked = acting.recorded(decision, _held(state, decision), ALWAYS)
        if marked is not None:
            kept.append(marked)
    return kept


def _held(state: State, decision: Decision) -> Held:
    target = target_of(decision)
    if target is None:
        return state.acting.of_service(SERVICE)
    key = f"{target.namespace}/{target.name}" if target.kind == KIND else sets.owner_of(state, target)
    shard_set = state.sets.get(key)
    if shard_set is not None:
        return of_set(state.acting, shard_set)
    return state.acting.held(SERVICE, target.namespace)


def _later(state: State, timer: SetTimer) -> SetTimer | None:
    shard_set = state.sets.get(timer.key.removeprefix(SET_TIMER)) if timer.key.startswith(SET_TIMER) else None
    if shard_set is None or of_set(state.acting, shard_set).acts:
        return timer
    if shard_set.timer_due is not None and shard_set.timer_due > state.now:
        return None
    return msgspec.structs.replace(timer, due=max(timer.due, state.now + LOOK_AGAIN_S))
