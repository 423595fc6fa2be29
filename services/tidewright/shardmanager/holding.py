"""Sets and fleets that the modes in force, or an incumbent, hold back: what is recorded of them, and what is dropped when they may act.

Nothing of a round or a pass is folded: no lease is believed to be held, no slot given, no pod made. A round
that asks for another one waits, and a pass begins anew with every event, so that what is recorded
is always the first step from what is so.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.events import acting
from tidewright.events.acting import Acting, Held
from tidewright.events.base import Decision, ObjectRef
from tidewright.events.config import ModesSet
from tidewright.events.decisions import SetTimer
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.shards import RecordPass, ReportShards
from tidewright.shardmanager import compat, native
from tidewright.shardmanager.rounds import TIMER
from tidewright.shardmanager.sets import ShardSetState
from tidewright.shardmanager.shardset import KIND
from tidewright.shardmanager.state import State

SERVICE = "shard-manager"
ALWAYS = (RecordPass, ReportShards)
LOOK_AGAIN_S = 30.0
"""While a set is held back, time alone has it look again no sooner."""


def of_set(known: Acting, shard_set: ShardSetState) -> Held:
    """What holds for a set."""
    asked = {acting.MODE: shard_set.mode} if shard_set.mode else None
    return known.held(SERVICE, shard_set.namespace, asked)


def recorded(state: State, found: Iterable[Decision]) -> list[Decision]:
    """Decisions as they are recorded."""
    kept: list[Decision] = []
    for decision in found:
        if isinstance(decision, SetTimer):
            one: Decision | None = _later(state, decision)
        else:
            one = acting.recorded(decision, _held(state, decision), ALWAYS)
        if one is not None:
            kept.append(one)
    return kept


def _held(state: State, decision: Decision) -> Held:
    target = getattr(decision, "target", None)
    if not isinstance(target, ObjectRef):
        return state.acting.of_service(SERVICE)
    key = f"{target.namespace}/{target.name}" if target.kind == KIND else native.owner_of(state, target)
    shard_set = state.sets.get(key)
    if shard_set is not None:
        return of_set(state.acting, shard_set)
    return state.acting.held(SERVICE, target.namespace)


def _later(state: State, timer: SetTimer) -> SetTimer | None:
    shard_set = state.sets.get(timer.key.removeprefix(TIMER)) if timer.key.startswith(TIMER) else None
    if shard_set is None or of_set(state.acting, shard_set).acts:
        return timer
    if shard_set.timer_due is not None and shard_set.timer_due > state.now:
        return None
    return msgspec.structs.replace(timer, due=max(timer.due, state.now + LOOK_AGAIN_S))


def acting_set(state: State, event: ModesSet | IncumbentObserved) -> None:
    """Other modes, or an incumbent that comes or goes: every set has a round, and those begin from what is so that were held back."""
    before = state.acting.copied()
    if not state.acting.heard(event):
        return
    if not before.of_service(SERVICE).acts and state.acting.of_service(SERVICE).acts:
        state.asked.clear()
        state.in_flight.clear()
    for key in sorted(state.sets):
        changed(state, state.sets[key], of_set(before, state.sets[key]))
    for _key, fleet in sorted(state.fleets.items()):
        if before.held(SERVICE, fleet.namespace).acts is not state.acting.held(SERVICE, fleet.namespace).acts:
            compat.begin_anew(state, fleet)


def changed(state: State, shard_set: ShardSetState, before: Held) -> None:
    """What holds for a set may be something else than before."""
    now = of_set(state.acting, shard_set)
    if now == before:
        return
    if now.acts:
        shard_set.taking, shard_set.published = [], ""
        shard_set.holds.clear()
        shard_set.refused.clear()
    if shard_set.key not in state.touched:
        state.touched.append(shard_set.key)
