"""A decider small enough to check by eye: every third pod of a namespace is worth a decision.

It also asks to be woken a second after each of them, once per namespace.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidewright.events.base import Because, Decision, Event, ObjectRef
from tidewright.events.decisions import HoldReplicas, SetTimer
from tidewright.events.facts import PodObserved
from tidewright.events.timers import TimerFired


class State(msgspec.Struct):
    pods: dict[str, int] = {}
    holds: dict[str, int] = {}
    woken: int = 0


class Counting:
    service = "counting"
    state_version = 1
    state_type = State
    kinds = frozenset({"pod"})

    def initial(self) -> State:
        return State()

    def evolve(self, state: State, event: Event) -> State:
        match event:
            case PodObserved(namespace=namespace):
                state.pods[namespace] = state.pods.get(namespace, 0) + 1
            case HoldReplicas(target=target):
                state.holds[target.namespace] = state.holds.get(target.namespace, 0) + 1
            case TimerFired():
                state.woken += 1
        return state

    def decide(self, state: State, event: Event) -> Iterable[Decision]:
        if isinstance(event, PodObserved) and event.name == "poison":
            raise RuntimeError("poison")
        if isinstance(event, PodObserved) and state.pods[event.namespace] % 3 == 0:
            count = state.pods[event.namespace]
            target = ObjectRef(api_version="v1", kind="Namespace", namespace=event.namespace, name="all")
            yield HoldReplicas(
                at=event.at,
                because=(Because(rule="Third", values={"pods": count}),),
                target=target,
                replicas=count,
                # Depends on what it decided before, so that a lost or doubled decision shows.
                reason=f"hold {state.holds.get(event.namespace, 0) + 1}",
            )
            yield SetTimer(at=event.at, key=f"wake/{event.namespace}", due=event.at + 1)
