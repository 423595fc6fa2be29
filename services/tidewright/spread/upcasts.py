"""States as earlier versions of the decider stored them, made into those of the next version. Pure.

2    what an event touched lay in the state; it is passed from `evolve` to `decide` now
3    a target had one spread; it has all that ask for it, the oldest first
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewright.host.fold.decider import StoredState, Upcast


def _touched_is_passed_on(stored: StoredState) -> StoredState:
    return {name: value for name, value in stored.items() if name != "touched"}


def _a_target_has_several_spreads(stored: StoredState) -> StoredState:
    """Who waited for a target stood in the words of what is wrong with it. Which of them share it now is judged when one changes."""
    targets = {target: [key] for target, key in stored["targets"].items()}
    for key, spread in stored["spreads"].items():
        if not spread["invalid"].startswith(_TAKEN):
            continue
        for keys in targets.values():
            if keys[0] == f"{spread['namespace']}/{spread['invalid'].removeprefix(_TAKEN)}":
                keys.append(key)
                spread["taken_by"] = spread["invalid"].removeprefix(_TAKEN)
                spread["taken_since"] = stored["now"]
    return {**stored, "targets": targets}


_TAKEN = "spec.targetRef: the target is taken by WorkloadSpread "

UPCASTS: Mapping[int, Upcast] = {2: _touched_is_passed_on, 3: _a_target_has_several_spreads}
"""By the version that a state has: how it becomes one of the next."""
