"""`evolve`: one event, passed to those that keep something of it."""

from __future__ import annotations

from tidewright.events.base import Event, Outcome
from tidewright.events.config import ModesSet
from tidewright.events.decisions import CreateObject, DeleteObject, HoldLease, PatchObject, ScaleWorkload
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.provisioning import PodTemplateGone, PodTemplateObserved
from tidewright.events.shards import ShardSetObserved
from tidewright.shardmanager import own_services
from tidewright.shardmanager.fold import answers, fleets, modes, pods, sets
from tidewright.shardmanager.fold.touched import PodChange, Touched
from tidewright.shardmanager.state import State


def evolve(state: State, event: Event) -> Touched:
    """Fold one event, in place; what it touched."""
    state.now = max(state.now, event.at)
    touched = Touched()
    match event:
        case PodObserved() | PodGone():
            before = pods.keep(state, event)
            touched.pod = PodChange(before, state.pods.get(event.namespace, {}).get(event.name))
        case PodTemplateObserved() | PodTemplateGone():
            pods.keep_template(state, event)
        case CreateObject() | DeleteObject() | PatchObject() | ScaleWorkload() | HoldLease():
            answers.ask(state, event)
        case Outcome():
            answers.answer(state, event, touched)
        case ModesSet() | IncumbentObserved():
            modes.fold(state, event, touched)
        case ShardSetObserved():
            modes.fold_set(state, event, touched)
    fleets.fold(state, event, touched)
    sets.fold(state, event, touched)
    own_services.fold(state, event, touched)
    return touched
