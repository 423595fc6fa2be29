"""States as earlier versions stored them, made into those of now. Pure, and of no code that changes with the state.

3 -> 4    what an object keeps is what was recorded last, and nothing is noted of passes
4 -> 5    a spec is judged by who acts upon it; none that was judged is judged anew
"""

from __future__ import annotations

from typing import Any

from tidewright.host.fold.decider import StoredState, Upcast

_PASSES = ("evaluated", "missing", "shown")


def kept_as_recorded(state: StoredState) -> StoredState:
    """From version 3: values of the last pass stood beside those that the status shows."""
    for namespace in state.get("namespaces", {}).values():
        for scaler in namespace.get("objects", {}).values():
            _scaler(scaler)
    return state


def _scaler(scaler: dict[str, Any]) -> None:
    shown = scaler.get("shown")
    kept = scaler.get("kept", {})
    if shown is None:
        kept.pop("utilizations", None)
    else:
        kept["utilizations"] = shown
    for field in _PASSES:
        scaler.pop(field, None)


def specs_as_judged(state: StoredState) -> StoredState:
    """From version 4: specs were judged while folding, so that nothing is asked that is not judged."""
    return state


UPCASTS: dict[int, Upcast] = {3: kept_as_recorded, 4: specs_as_judged}
"""By the version that each starts from."""
