"""Spreads that the modes in force, or an incumbent, hold back: what is recorded of them, and what is dropped when they may act.

Rules, and places of pods that carry a placement, are facts, and stay on the ledger; the rules say that pods
go in untouched. A cost, an adoption, a deletion or an eviction is recorded when it changes, and not folded:
no pod is believed to be where nobody has put it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.events import acting
from tidewright.events.acting import Acting, Held
from tidewright.events.base import Decision
from tidewright.events.config import ModesSet
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.spread import ChangeLedger, ForeseeScaleIn, RecordSpread
from tidewright.spread.state import ADOPTING, CALLED, SpreadState, State, Touched, spread_key

SERVICE = "spread"
ALWAYS = (ChangeLedger, ForeseeScaleIn, RecordSpread)


def held(state: State, spread: SpreadState) -> Held:
    """What holds for a spread now."""
    return _held(state.acting, spread)


def _held(known: Acting, spread: SpreadState) -> Held:
    return known.held(SERVICE, spread.namespace, {acting.MODE: spread.mode} if spread.mode else None)


def recorded(state: State, spread: SpreadState, decisions: Iterable[Decision]) -> list[Decision]:
    """Decisions about a spread as they are recorded."""
    holds = held(state, spread)
    return [kept for decision in decisions if (kept := acting.recorded(decision, holds, ALWAYS)) is not None]


def acting_set(state: State, event: ModesSet | IncumbentObserved, touched: Touched) -> None:
    """Other modes, or an incumbent that comes or goes: every spread is looked at for which something else holds than before."""
    before = state.acting.copied()
    if not state.acting.heard(event):
        return
    for key in sorted(state.spreads):
        spread = state.spreads[key]
        changed(state, spread, _held(before, spread), touched)


def changed(state: State, spread: SpreadState, before: Held, touched: Touched) -> None:
    """What holds for a spread may be something else than before."""
    now = held(state, spread)
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
