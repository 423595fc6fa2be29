"""States as earlier versions of the decider stored them, made into those of the next version. Pure.

2    what an event touched lay in the state; it is passed from `evolve` to `decide` now
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.host.fold.decider import StoredState, Upcast


def _touched_is_passed_on(stored: StoredState) -> StoredState:
    return {name: value for name, value in stored.items() if name != "touched"}


UPCASTS: Mapping[int, Upcast] = {2: _touched_is_passed_on}
"""By the version that a state has: how it becomes one of the next."""
