"""Objects on which it depends where pods may run: kept, and what they touch marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidewright.events.base import Event
from tidewright.events.placement import PlacementObjectGone, PlacementObjectObserved
from tidewright.provisioning.folding.common import wake
from tidewright.provisioning.folding.facts import someone_waits
from tidewright.provisioning.state import State, index_of


def _observed(state: State, event: PlacementObjectObserved) -> None:
    objects = state.objects.setdefault(event.kind, {})
    key = _key(event)
    old = objects.get(key)
    objects[key] = event.fields
    _changed(state, event.kind, key, old)


def _gone(state: State, event: PlacementObjectGone) -> None:
    key = _key(event)
    old = state.objects.get(event.kind, {}).pop(key, None)
    if old is not None:
        _changed(state, event.kind, key, old)


def _key(event: PlacementObjectObserved | PlacementObjectGone) -> str:
    return f"{event.namespace}/{event.name}" if event.namespace else event.name


def _changed(state: State, kind: str, key: str, old: dict[str, Any] | None) -> None:
    claims = index_of(state).claims
    claims.changed(kind, key, old, state.objects[kind].get(key))
    if claims.stale and someone_waits(state):
        wake(state)


OBJECTS: dict[type[Event], Callable[[State, Any], None]] = {
    PlacementObjectObserved: _observed,
    PlacementObjectGone: _gone,
}
