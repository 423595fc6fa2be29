"""Objects that are held back, by the modes in force or beside an incumbent: what holds for them.

In shadow the windows run as if our scales had been made, so that what would be decided is told as often as
it would be. All of that is in what an object keeps, and none of it is so: with the first enforced pass the
object goes on from what its status says (`fold.modes`).
"""

from __future__ import annotations

from tidewright.autoscaler.passes.evaluate import Pass
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


def repeats(scaler: Autoscaler, made: Pass | None, last_scale_at: float | None) -> bool:
    """Whether a scale that is held back says once more what was thought within the window in which it was.

    Bounds (`minReplicas`) act regardless of windows, for what they ask for is so at the next look. What is
    held back is asked for by every sample, as long as nobody else does it.

    `last_scale_at` is the time that windows count from.
    """
    rules = scaler.rules
    if made is None or rules is None or rules.dry_run or last_scale_at is None:
        return False
    window_s = rules.up_window_s if made.desired > made.current else rules.down_window_s
    return scaler.kept.desired == made.desired and made.now - last_scale_at < window_s
