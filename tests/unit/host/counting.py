"""A decider small enough to check by eye: every third pod of a namespace is worth a decision.

It also asks to be woken a second after each of them, once per namespace.
"""

from __future__ import annotations

import msgspec

from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Because, Decision, Event, ObjectRef
from tidewright.events.decisions import SetTimer
from tidewright.events.facts import PodObserved
from tidewright.events.timers import TimerFired
from tidewright.host.fold.decider import Decider


class State(msgspec.Struct):
    pods: dict[str, int] = {}
    holds: dict[str, int] = {}
    woken: int = 0


def evolve(state: State, event: Event) -> None:
    """Fold one event."""
    match event:
        case PodObserved(namespace=namespace):
            state.pods[namespace] = state.pods.get(namespace, 0) + 1
        case HoldReplicas(target=target):
            state.holds[target.namespace] = state.holds.get(target.namespace, 0) + 1
        case TimerFired():
            state.woken += 1


def decide(state: State, event: Event, _: None) -> list[Decision]:
    """A hold and a timer for every third pod."""
    if not isinstance(event, PodObserved):
        return []
    if event.name == "poison":
        raise RuntimeError("poison")
    count = state.pods[event.namespace]
    if count % 3:
        return []
    target = ObjectRef(api_version="v1", kind="Namespace", namespace=event.namespace, name="all")
    hold = HoldReplicas(
        at=event.at,
        because=(Because(rule="Third", values={"pods": count}),),
        target=target,
        replicas=count,
        # Depends on what it decided before, so that a lost or doubled decision shows.
        reason=f"hold {state.holds.get(event.namespace, 0) + 1}",
    )
    return [hold, SetTimer(at=event.at, key=f"wake/{event.namespace}", due=event.at + 1)]


COUNTING = Decider(
    service="counting",
    state_version=1,
    state_type=State,
    kinds=frozenset({"pod"}),
    evolve=evolve,
    decide=decide,
)
