"""Folding: what each event changes in the state. Total, and of its arguments alone.

Facts say what is; decisions of ours say what was concluded, and are folded right after their cause;
outcomes say what came of orders. `woken` tells `decide` that an evaluation may find something to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidewright.events.acting import SETTING
from tidewright.events.base import Event, Fact
from tidewright.events.config import ModesSet
from tidewright.events.decisions import (
    CancelTimer,
    SetTimer,
)
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.timers import TimerFired
from tidewright.provisioning.folding.common import (
    CONFIGURATION_IGNORED,
    EVALUATE,
    key_of,
)
from tidewright.provisioning.folding.decisions import DECISIONS, signature
from tidewright.provisioning.folding.facts import FACTS
from tidewright.provisioning.folding.objects import OBJECTS
from tidewright.provisioning.folding.outcomes import OUTCOMES
from tidewright.provisioning.forgetting import run_out
from tidewright.provisioning.holding import acting_set
from tidewright.provisioning.indexing import index_of
from tidewright.provisioning.state import State


def evolve(state: State, event: Event) -> State:
    """Fold one event."""
    state.now = max(state.now, event.at)
    state.touched = ()
    apply = _FOLDS.get(type(event))
    if apply is not None and (not (isinstance(event, Fact) and event.refresh) or isinstance(event, SETTING)):
        apply(state, event)
    return state


def _set_timer(state: State, event: SetTimer) -> None:
    if event.key == EVALUATE:
        state.due = event.due
        state.woken = False


def _cancel_timer(state: State, event: CancelTimer) -> None:
    if event.key == EVALUATE:
        state.due = None


def rearmed(state: State) -> float | None:
    """When to look again, for a burst that is still going on; None when it is over."""
    settings = index_of(state).settings
    if state.last_wake is None or state.first_wake is None:
        return None
    end = state.first_wake + settings.burst_s
    due = min(state.last_wake + settings.quiet_s, end)
    if due <= state.now < end and _scheduler_is_busy(state, settings.burst_s):
        due = min(state.now + settings.quiet_s, end)
    return due if due > state.now else None


def _scheduler_is_busy(state: State, burst_s: float) -> bool:
    """Whether pods of the same burst have not been tried: the next ones to fit nowhere may be among them.

    Pods that have not been tried for longer than a burst lasts are another scheduler's, or gated.
    """
    last = state.last_wake or 0.0
    pods = (state.pods[key] for key in index_of(state).untried)
    return any(pod.untried_at <= last and state.now - pod.untried_at < burst_s for pod in pods)


def _timer(state: State, event: TimerFired) -> None:
    if event.key != EVALUATE:
        return
    state.due = None
    state.evaluating = rearmed(state) is None
    if state.evaluating:
        state.woken, state.first_wake, state.last_wake = False, None, None
        state.evaluated_at = state.now
        run_out(state)


_FOLDS: dict[type[Event], Callable[[State, Any], None]] = {
    **FACTS,
    **OBJECTS,
    **DECISIONS,
    **OUTCOMES,
    SetTimer: _set_timer,
    CancelTimer: _cancel_timer,
    TimerFired: _timer,
    ModesSet: acting_set,
    IncumbentObserved: acting_set,
}

__all__ = [
    "CONFIGURATION_IGNORED",
    "EVALUATE",
    "evolve",
    "key_of",
    "rearmed",
    "signature",
]
