"""Modes and incumbents: what the service may do, and what is forgotten when it may act again."""

from __future__ import annotations

from tidewright.events.config import ModesSet
from tidewright.events.incumbents import IncumbentObserved
from tidewright.provisioning.fold import removals
from tidewright.provisioning.fold.common import not_ordered, wake
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.holding import SERVICE
from tidewright.provisioning.scaleup import saga
from tidewright.provisioning.state import Reported, State


def acting_set(state: State, event: ModesSet | IncumbentObserved, touched: Touched) -> None:
    """Other modes, or an incumbent that comes or goes: an evaluation looks at everything anew, from what is so when it was held back."""
    before = state.acting.copied().of_service(SERVICE)
    if not state.acting.heard(event):
        return
    if state.beside.index is not None:
        state.beside.index.cards = None  # who keeps a node depends on where something is done
    touched.removals += state.removals
    if not before.acts and state.acting.of_service(SERVICE).acts:
        touched.removals += _drop(state)
    wake(state, touched)


def _drop(state: State) -> list[str]:
    """Forget orders that were not made any more when it was held back, and what was told only then; nodes that
    still carry marks of ours.
    """
    for execution in state.executions.values():
        if not execution.over:
            for step in execution.steps:
                if step.status in (saga.WAITING, saga.ORDERED):
                    step.status = saga.SKIPPED
            not_ordered(state, execution)
    state.orders.clear()
    for group in state.groups.values():
        if group.answered_at is None:
            group.wanted = None
    for held in state.held.values():
        held.leaving = False
    for remembered in (state.backoff, state.declined, state.said, state.said_at, state.marks):
        remembered.clear()
    state.reported = Reported()
    for request in state.requests.values():
        request.told = ""
    removals.forget(state)
    return removals.leftovers(state)
