"""Spreads that the modes in force, or an incumbent, hold back: what is recorded of them.

Rules, and places of pods that carry a placement, are facts, and stay on the ledger; the rules say that pods
go in untouched. A cost, an adoption, a deletion or an eviction is recorded when it changes, and not folded:
no pod is believed to be where nobody has put it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.events import acting
from tidewright.events.acting import Acting, Held
from tidewright.events.base import Decision
from tidewright.events.spread import ChangeLedger, ForeseeScaleIn, RecordSpread
from tidewright.spread.state import SpreadState, State

SERVICE = "spread"
ALWAYS = (ChangeLedger, ForeseeScaleIn, RecordSpread)


def held(state: State, spread: SpreadState) -> Held:
    """What holds for a spread now."""
    return held_by(state.acting, spread)


def held_by(known: Acting, spread: SpreadState) -> Held:
    """What holds for a spread where so much is known."""
    return known.held(SERVICE, spread.namespace, {acting.MODE: spread.mode} if spread.mode else None)


def recorded(state: State, spread: SpreadState, decisions: Iterable[Decision]) -> list[Decision]:
    """Decisions about a spread as they are recorded."""
    holds = held(state, spread)
    return [kept for decision in decisions if (kept := acting.recorded(decision, holds, ALWAYS)) is not None]
