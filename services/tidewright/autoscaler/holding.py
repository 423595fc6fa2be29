"""Objects that are held back, by the modes in force or beside an incumbent: what holds for them.

In shadow the windows run as if our scales had been made, so that what would be decided is told as often as
it would be. All of that is in what an object keeps, and none of it is so: with the first enforced pass the
object goes on from what its status says (`fold.modes`).
"""

from __future__ import annotations

from tidewright.autoscaler.state import Autoscaler, State
from tidewright.events import acting
from tidewright.events.acting import Acting, Held

SERVICE = "autoscaler"


def held(state: State, namespace: str, scaler: Autoscaler) -> Held:
    """What holds for an object now."""
    return held_by(state.acting, namespace, scaler)


def held_by(known: Acting, namespace: str, scaler: Autoscaler) -> Held:
    """What holds for an object where so much is known."""
    return known.held(SERVICE, namespace, {acting.MODE: scaler.mode} if scaler.mode else None)
