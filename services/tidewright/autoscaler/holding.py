"""Objects that are held back, by the modes in force or beside an incumbent: what holds for them.

In shadow the windows run as if our scales had been made, so that what would be decided is told as often as
it would be. All of that is in what an object keeps, and none of it is so: with the first enforced pass the
object goes on from what its status says (`fold.modes`).
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewright.autoscaler.state import Autoscaler, State
from tidewright.events import acting
from tidewright.events.acting import Acting, Held
from tidewright.events.autoscaler import HoldReplicas, RecordForecast
from tidewright.events.base import Decision

SERVICE = "autoscaler"
ALWAYS = (HoldReplicas, RecordForecast)
"""What is not to be done, and records of its own view of the facts: kept and folded whatever holds an object back."""


def held(state: State, namespace: str, scaler: Autoscaler) -> Held:
    """What holds for an object now."""
    return held_by(state.acting, namespace, scaler)


def held_by(known: Acting, namespace: str, scaler: Autoscaler) -> Held:
    """What holds for an object where so much is known."""
    return known.held(SERVICE, namespace, {acting.MODE: scaler.mode} if scaler.mode else None)


def recorded(
    state: State, namespace: str, scaler: Autoscaler, decisions: Iterable[Decision]
) -> list[Decision]:
    """Decisions about an object as they are recorded."""
    holds = held(state, namespace, scaler)
    return [kept for decision in decisions if (kept := acting.recorded(decision, holds, ALWAYS)) is not None]
