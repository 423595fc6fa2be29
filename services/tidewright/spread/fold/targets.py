"""Which spreads have a target: all whose selectors exclude each other; of those that do not, the older one [Q-23].

retarget    a spread asks for a target, another one than before, or none any more
"""

from __future__ import annotations

from tidewright.kube.workloadspreads.sharing import apart, identity, taken
from tidewright.spread.fold.owners import collect, key_of, latest_revision, named, scatter, selecting
from tidewright.spread.fold.touched import Touched
from tidewright.spread.state import SpreadState, State


def retarget(state: State, spread: SpreadState, before: str, touched: Touched) -> None:
    """A spread asks for what `named` says now, and asked for `before`: whoever has a target takes in its pods.

    Others that come to have a target by this, or have it no more, are touched.
    """
    after = named(spread)
    if before and before != after:
        state.targets[before].remove(key_of(spread))
        if not state.targets[before]:
            del state.targets[before]
    if after and after != before:
        keys = state.targets.setdefault(after, [])
        keys.append(key_of(spread))
        keys.sort(key=lambda key: state.spreads[key].created_at)
    if not after:
        spread.taken_by, spread.taken_since = "", 0.0
    others = [
        other
        for target in dict.fromkeys((before, after))
        for other in _judged(state, target)
        if other is not spread
    ]
    for concerned in (spread, *others):
        concerned.target_uid = _target_uid(state, concerned)
        selecting(state, concerned)
    for concerned in (spread, *others):
        scatter(state, concerned, all_of_them=False)
    for concerned in (spread, *others):
        collect(state, concerned)
        concerned.latest = latest_revision(state, concerned)
    touched.spreads.extend(key for other in others if (key := key_of(other)) not in touched.spreads)


def _judged(state: State, target: str) -> list[SpreadState]:
    """Say of each spread that asks for a target whether it has it, from the oldest on; gives those of which that changes."""
    having: list[SpreadState] = []
    changed: list[SpreadState] = []
    for key in state.targets.get(target, ()):
        spread = state.spreads[key]
        older = next((other for other in having if not _apart(spread, other)), None)
        if older is None:
            having.append(spread)
        before = spread.taken_by, spread.invalid
        spread.taken_by = "" if older is None else older.name
        spread.taken_since = 0.0 if older is None else spread.taken_since or state.now
        spread.invalid = "" if older is None else _taken(spread, older)
        if before != (spread.taken_by, spread.invalid):
            changed.append(spread)
    return changed


def _apart(spread: SpreadState, other: SpreadState) -> bool:
    return spread.spread is not None and other.spread is not None and apart(spread.spread, other.spread)


def _taken(spread: SpreadState, by: SpreadState) -> str:
    if spread.spread is None or by.spread is None:
        return ""
    return f"spec.targetRef: {taken(spread.spread, by.spread)}"


def _target_uid(state: State, spread: SpreadState) -> str:
    """The target, if it is there and the spread has it."""
    target = identity(spread.spread.target) if spread.spread is not None else None
    if target is None or not named(spread) or spread.taken_by:
        return ""
    key = (spread.namespace, *target)
    return next(
        (w.uid for w in state.workloads.values() if w.seen and (w.namespace, w.kind, w.name) == key), ""
    )
