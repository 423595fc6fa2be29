"""Who is held back, and no longer: what is dropped when nothing holds a spread back any more."""

from __future__ import annotations

from tidewright.events.acting import Held
from tidewright.events.config import ModesSet
from tidewright.events.incumbents import IncumbentObserved
from tidewright.spread import holding
from tidewright.spread.fold.touched import Touched
from tidewright.spread.state import ADOPTING, CALLED, SpreadState, State, spread_key


def acting_set(state: State, event: ModesSet | IncumbentObserved, touched: Touched) -> None:
    """Other modes, or an incumbent that comes or goes: every spread is looked at for which something else holds than before."""
    before = state.acting.copied()
    if not state.acting.heard(event):
        return
    for key in sorted(state.spreads):
        spread = state.spreads[key]
        changed(state, spread, holding.held_by(before, spread), touched)


def changed(state: State, spread: SpreadState, before: Held, touched: Touched) -> None:
    """What holds for a spread may be something else than before."""
    now = holding.held(state, spread)
    if now == before:
        return
    if now.acts:
        _drop(spread)
    key = spread_key(spread.namespace, spread.name)
    if key not in touched.spreads:
        touched.spreads.append(key)


def _drop(spread: SpreadState) -> None:
    """Forget what was asked for and did not come about, and what followed from nobody acting: closed subsets."""
    spread.conditions.clear()
    spread.awaited.clear()
    spread.adopting.clear()
    spread.status, spread.brought_back_at = None, 0.0
    for row in spread.pods.values():
        row.flags &= ~(CALLED | ADOPTING)
        row.asked = ""
