"""Folding: what each event changes in the state. Total, and of its arguments alone.

Facts say what is; decisions of ours say what was concluded, and are folded right after their cause;
outcomes say what came of orders. Nothing here asks for the settings or judges how long something took:
that is for `decide`, and what it concluded is folded from its decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tidewright.events.acting import SETTING
from tidewright.events.base import Event, Fact
from tidewright.events.config import ModesSet
from tidewright.events.decisions import CancelTimer, ScaleWorkload, SetTimer
from tidewright.events.facts import PodObserved, TemplateObserved
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.spread import TargetReplicasObserved, WorkloadSpreadObserved
from tidewright.events.timers import TimerFired
from tidewright.kube.keys import pod_key
from tidewright.provisioning.fold import workloads
from tidewright.provisioning.fold.common import EVALUATE, SCAN
from tidewright.provisioning.fold.decisions import DECISIONS
from tidewright.provisioning.fold.facts import FACTS
from tidewright.provisioning.fold.forgetting import forget_come, forget_ended
from tidewright.provisioning.fold.modes import acting_set
from tidewright.provisioning.fold.objects import OBJECTS
from tidewright.provisioning.fold.outcomes import OUTCOMES
from tidewright.provisioning.fold.stirring import changes, disturbs
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.scaledown.removal.saga import REMOVALS
from tidewright.provisioning.state import State

_ALSO_AGAIN = frozenset((*SETTING, TemplateObserved, WorkloadSpreadObserved, TargetReplicasObserved))
"""Facts that are folded also when they are only said again: these were said once, long before anybody here read them."""
_ALONE = ".0"
"""How the id of a decision ends before which its cause gave no other."""


def evolve(state: State, event: Event) -> Touched:
    """Fold one event, and say what it touched."""
    if event.at > state.now:
        state.now = event.at
    touched = Touched()
    kind = type(event)
    apply = _FOLDS.get(kind)
    # Asked of the type: `isinstance` of a Struct costs as much as all the rest here.
    if apply is not None and not (kind in _ONCE and cast("Fact", event).refresh):
        apply(state, event, touched)
    elif isinstance(event, PodObserved) and pod_key(event.namespace, event.name) in state.pods:
        workloads.put(state, event)  # nor where spreads had put pods by then
    if state.scan.told and changes(event, touched):
        state.scan.changes += 1
    if state.scan.part and disturbs(event, touched):
        state.scan.part = 0
        state.scan.restarts += 1
    return touched


def _set_timer(state: State, event: SetTimer, _touched: Touched) -> None:
    if event.key == REMOVALS:
        state.removals_due = event.due
    if event.key == SCAN:
        state.scan.due = event.due
    if event.key != EVALUATE:
        return
    state.due = event.due
    if state.woken:  # by what has just come, else it would have been set already
        state.burst_at, state.woken_at, state.woken = state.now, None, False
    elif not event.id.endswith(_ALONE):  # with the other decisions of an evaluation: the burst is over
        state.burst_at = state.woken_at = None


def _cancel_timer(state: State, event: CancelTimer, _touched: Touched) -> None:
    if event.key == EVALUATE:
        state.due = state.burst_at = state.woken_at = None
    elif event.key == SCAN:
        state.scan.due = None


def _timer(state: State, event: TimerFired, _touched: Touched) -> None:
    if event.key == REMOVALS:
        state.removals_due = None
    if event.key == EVALUATE:
        state.due, state.woken = None, False
        if state.buffers:
            state.buffers_looked_at = state.now
        forget_ended(state)
        forget_come(state)
    elif event.key == SCAN:
        scan = state.scan
        scan.due, scan.at = None, event.at
        scan.fired += 1
        if scan.before is not None and not (state.due is not None and state.due <= event.at):
            scan.part += 1
            scan.began = event.at if scan.part == 1 else scan.began


_FOLDS: dict[type[Event], Callable[[State, Any, Touched], None]] = {
    **FACTS,
    **OBJECTS,
    **DECISIONS,
    **OUTCOMES,
    SetTimer: _set_timer,
    CancelTimer: _cancel_timer,
    ScaleWorkload: workloads.scaled,
    TimerFired: _timer,
    ModesSet: acting_set,
    IncumbentObserved: acting_set,
}
_ONCE = frozenset(kind for kind in _FOLDS if issubclass(kind, Fact) and kind not in _ALSO_AGAIN)
"""Facts that are not folded when they are only said again."""
