"""Who asked for an effect, so that its outcome finds its way back."""

from __future__ import annotations

from tidewright.events.acting import NOT_DONE
from tidewright.events.base import ObjectRef, Outcome
from tidewright.events.decisions import CreateObject, DeleteObject, HoldLease, PatchObject, ScaleWorkload
from tidewright.events.outcomes import Applied, Rejected
from tidewright.shardmanager.fold import fleets, sets
from tidewright.shardmanager.fold.touched import Touched
from tidewright.shardmanager.state import Asked, State

_VERBS = {
    CreateObject: "create",
    DeleteObject: "delete",
    PatchObject: "take",
    ScaleWorkload: "scale",
    HoldLease: "hold",
}


def ask(state: State, event: CreateObject | DeleteObject | PatchObject | ScaleWorkload | HoldLease) -> None:
    """Remember who asked."""
    target, verb = event.target, _VERBS[type(event)]
    asked = fleets.asker_of(state, event)
    state.asked[event.id] = asked or Asked(
        shard_set=sets.owner_of(state, target), verb=verb, name=target.name, uid=target.uid
    )
    state.in_flight[_effect(verb, target)] = event.id


def answer(state: State, event: Outcome, touched: Touched) -> None:
    """Pass an outcome to who asked; that of an effect which the actuator left undone as a refusal."""
    asked = state.asked.pop(event.decision, None)
    if asked is None:
        return
    if isinstance(event, Applied) and event.reason in NOT_DONE:
        message = "the actuator writes nothing"
        event = Rejected(at=event.at, decision=event.decision, reason=event.reason, message=message)
    for effect in [effect for effect, decision in state.in_flight.items() if decision == event.decision]:
        del state.in_flight[effect]
    if asked.fleet:
        fleets.answered(state, asked, event, touched)
    elif asked.shard_set:
        sets.answered(state, asked, event, touched)


def _effect(verb: str, target: ObjectRef) -> str:
    return f"{verb} {target.namespace}/{target.name}"
