"""Objects on which it depends where pods may run: kept, and what they touch marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidewright.events.base import Event
from tidewright.events.placement import PlacementObjectGone, PlacementObjectObserved
from tidewright.kube.keys import key_of
from tidewright.provisioning.fold.common import wake
from tidewright.provisioning.fold.facts import someone_waits
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.state import State

_OF_BUFFERS = frozenset({"LimitRange", "PriorityClass"})
"""Kinds by which admission makes another pod of a buffer's template, or placeholders are possible."""


def _observed(state: State, event: PlacementObjectObserved, touched: Touched) -> None:
    index_of(state)  # one that is built below would count the object as it is now, and then the change too
    objects = state.objects.setdefault(event.kind, {})
    key = _key(event)
    old = objects.get(key)
    objects[key] = event.fields
    if old != event.fields:
        _changed(state, event.kind, key, old, touched)


def _gone(state: State, event: PlacementObjectGone, touched: Touched) -> None:
    key = _key(event)
    index_of(state)
    there = state.objects.get(event.kind, {})
    old = there.pop(key, None)
    if old is not None:
        if not there:
            del state.objects[event.kind]
        _changed(state, event.kind, key, old, touched)


def _key(event: PlacementObjectObserved | PlacementObjectGone) -> str:
    return key_of(event.namespace, event.name) if event.namespace else event.name


def _changed(state: State, kind: str, key: str, old: dict[str, Any] | None, touched: Touched) -> None:
    index_of(state).claims.changed(kind, key, old, state.objects.get(kind, {}).get(key))
    # Whoever it touches is known to an index that has lived on, not to one that is built anew: both wake.
    if someone_waits(state) or (kind in _OF_BUFFERS and state.buffers):
        wake(state, touched)


OBJECTS: dict[type[Event], Callable[[State, Any, Touched], None]] = {
    PlacementObjectObserved: _observed,
    PlacementObjectGone: _gone,
}
