"""Who is held back, and no longer: what is dropped when nothing holds an object back any more."""

from __future__ import annotations

from copy import deepcopy

from tidewright.autoscaler import holding
from tidewright.autoscaler.api.conditions import Change
from tidewright.autoscaler.api.status import Kept
from tidewright.autoscaler.fold.touched import NOTHING, Touched
from tidewright.autoscaler.state import Autoscaler, State
from tidewright.events.acting import Held
from tidewright.events.config import ModesSet
from tidewright.events.incumbents import IncumbentObserved


def acting_set(state: State, event: ModesSet | IncumbentObserved) -> Touched:
    """Other modes, or an incumbent that comes or goes: who was held back and may act now starts from what is so."""
    before = state.acting.copied()
    if not state.acting.heard(event):
        return NOTHING
    looks = tuple(
        [
            (namespace_name, namespace.objects[name])
            for namespace_name, namespace in sorted(state.namespaces.items())
            for name in sorted(namespace.objects)
            if changed(
                state,
                namespace_name,
                namespace.objects[name],
                holding.held_by(before, namespace_name, namespace.objects[name]),
            )
        ]
    )
    return Touched(looks=looks) if looks else NOTHING


def changed(state: State, namespace: str, scaler: Autoscaler, before: Held) -> bool:
    """Whether something else than before holds for an object; then all that is said of it is said anew."""
    now = holding.held(state, namespace, scaler)
    if now == before:
        return False
    if before.acts:
        scaler.real = deepcopy(scaler.kept)
    elif now.acts:
        _drop(state, namespace, scaler)
    scaler.hold = ""
    scaler.said.clear()
    return True


def _drop(state: State, namespace: str, scaler: Autoscaler) -> None:
    """Forget what was only thought."""
    scaler.kept, scaler.real = scaler.real or Kept(), None
    ordered = scaler.ordered.decision if scaler.ordered is not None else ""
    for decision in (ordered, scaler.status_decision):
        state.awaited.pop(decision, None)
    scaler.ordered, scaler.status_decision = None, ""
    scaler.written_at, scaler.dirty = -1e18, Change.STATUS
    state.namespace(namespace)[1].forget_settings(scaler.name)
