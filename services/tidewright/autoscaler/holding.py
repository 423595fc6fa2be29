"""Objects that are held back, by the modes in force or beside an incumbent: what holds, and what is dropped when nothing does any longer.

In shadow the windows run as if our scales had been made, so that what would be decided is told as often as
it would be. All of that is in what an object keeps, and none of it is so: with the first enforced pass the
object goes on from what its status says.
"""

from __future__ import annotations

from copy import deepcopy

from tidewright.autoscaler import passes
from tidewright.autoscaler.conditions import Change
from tidewright.autoscaler.evaluate import Pass
from tidewright.autoscaler.state import Autoscaler, State
from tidewright.autoscaler.status import Kept
from tidewright.events import acting
from tidewright.events.acting import Acting, Held
from tidewright.events.config import ModesSet
from tidewright.events.incumbents import IncumbentObserved

SERVICE = "autoscaler"


def held(state: State, namespace: str, found: Autoscaler) -> Held:
    """What holds for an object now."""
    return _held(state.acting, namespace, found)


def _held(known: Acting, namespace: str, found: Autoscaler) -> Held:
    return known.held(SERVICE, namespace, {acting.MODE: found.mode} if found.mode else None)


def acting_set(state: State, event: ModesSet | IncumbentObserved) -> None:
    """Other modes, or an incumbent that comes or goes: who was held back and may act now starts from what is so."""
    before = state.acting.copied()
    if not state.acting.heard(event):
        return
    for namespace_name, namespace in sorted(state.namespaces.items()):
        for name in sorted(namespace.objects):
            found = namespace.objects[name]
            changed(state, namespace_name, found, _held(before, namespace_name, found))


def changed(state: State, namespace: str, found: Autoscaler, before: Held) -> None:
    """What holds for an object may be something else than before."""
    now = held(state, namespace, found)
    if now == before:
        return
    if before.acts:
        found.real = deepcopy(found.kept)
    elif now.acts:
        _drop(state, namespace, found)
    found.hold = ""
    found.said.clear()
    passes.run(state, namespace, found)


def _drop(state: State, namespace: str, found: Autoscaler) -> None:
    """Forget what was only thought."""
    found.kept, found.real = found.real or Kept(), None
    ordered = found.ordered.decision if found.ordered is not None else ""
    for decision in (ordered, found.status_decision):
        state.awaited.pop(decision, None)
    found.ordered, found.status_decision = None, ""
    found.shown, found.written_at, found.dirty = None, -1e18, Change.STATUS
    view = state.namespace(namespace)[1].views.get(found.name)
    if view is not None:
        view.settings = None


def repeats(found: Autoscaler, made: Pass | None) -> bool:
    """Whether a scale that is held back says once more what was thought within the window in which it was.

    Bounds (`minReplicas`) act regardless of windows, for what they ask for is so at the next look. What is
    held back is asked for by every sample, as long as nobody else does it.
    """
    rules, kept = found.rules, found.kept
    if made is None or rules is None or rules.dry_run or kept.last_scale_at is None:
        return False
    window_s = rules.up_window_s if made.desired > made.current else rules.down_window_s
    return kept.desired == made.desired and made.now - kept.last_scale_at < window_s
