"""Modes: in shadow no pod is believed to be where nobody has put it, and enforcing starts from what is so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.spread.cluster import HASH, NAMESPACE, SPREAD, deployment, new_pod, spec, spread_fact
from tests.unit.spread.test_decide import KEY, START, placed
from tidewright.events import registry
from tidewright.events.acting import HELD_BACK, MODE
from tidewright.events.base import Decision, Event
from tidewright.events.config import Mode, ModesSet
from tidewright.events.decisions import (
    DeleteObject,
    Effect,
    PatchObject,
    RecordObjectEvent,
    SetStatus,
    SetTimer,
)
from tidewright.events.facts import NodeObserved
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied
from tidewright.events.spread import ChangeLedger
from tidewright.events.timers import TimerFired
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.order import Fold
from tidewright.log.subjects import Slot
from tidewright.spread.decide import DECIDER
from tidewright.spread.ledger.placing import Request, created, spread_on
from tidewright.spread.state import SpreadState, State
from tidewright.spread.tell.explaining import EXPLAINER

MATCHED = "apps.kruise.io/matched-workloadspread"


class World:
    """One slot of spread, through the host's fold."""

    def __init__(self, *facts: Event) -> None:
        self.fold: Fold[State] = Fold(DECIDER, Slot("0"))
        self.seq, self.now = 0, START
        self.said: list[Decision] = []
        self.see(*facts)

    def see(self, *events: Event, at: float | None = None) -> list[Decision]:
        given: list[Decision] = []
        for event in events:
            self.now = max(self.now, at or self.now)
            self.seq += 1
            msgspec.structs.force_setattr(event, "at", self.now)
            given += [d.decision for d in self.fold.step(self.seq, registry.encode(event), event)]
        self.said += given
        return given

    def go(self, mode: Mode, **more: Any) -> list[Decision]:
        return self.see(ModesSet(at=0, mode=mode, **more))

    def pass_time(self, seconds: float) -> list[Decision]:
        end, given = self.now + seconds, list[Decision]()
        while self.fold.timers and min(self.fold.timers.values()) <= end:
            key, due = min(self.fold.timers.items(), key=lambda one: one[1])
            given += self.see(TimerFired(at=due, key=key), at=due)
        self.now = end
        return given

    @property
    def spread(self) -> SpreadState:
        return self.fold.state.spreads[KEY]


def effects(decisions: list[Decision]) -> list[Effect]:
    return [d for d in decisions if isinstance(d, Effect)]


def done(decisions: list[Decision]) -> list[Effect]:
    return [d for d in effects(decisions) if not d.shadow]


def node() -> NodeObserved:
    return NodeObserved(at=0, name="n1", labels={"zone": "b"})


def stray(n: int) -> Event:
    """A pod that runs, and that no admission has placed."""
    return msgspec.structs.replace(placed("a", n, node="n1"), annotations={})


def shadowed(*facts: Event) -> World:
    return World(ModesSet(at=0, mode="shadow"), node(), spread_fact(spec(3, None)), *deployment(2), *facts)


def test_in_shadow_an_adoption_is_said_once_and_not_believed() -> None:
    world = shadowed(stray(0))
    adoptions = [d for d in world.said if isinstance(d, PatchObject) and MATCHED in str(d.patch)]
    (adoption,) = adoptions
    assert adoption.shadow
    assert adoption.because[-1].rule == HELD_BACK
    assert world.spread.pods["web-0"].subset == ""
    assert world.spread.ledger.counts == {}
    later = world.see(stray(0), Applied(at=0, decision=adoption.id, reason="Shadow")) + world.pass_time(3600)
    assert effects(later) == []


def test_in_shadow_no_status_and_no_object_event_is_written() -> None:
    world = shadowed(placed("a", 0), stray(1))
    assert not [d for d in world.said if isinstance(d, SetStatus | RecordObjectEvent)]
    assert done(world.said) == []


def test_a_spread_that_waits_for_an_hour_in_shadow_says_nothing_more() -> None:
    waiting = placed("a", 0, phase="Pending", unschedulable_since=START)
    adaptive = spec(
        3, None, scheduleStrategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    )
    world = World(ModesSet(at=0, mode="shadow"), node(), spread_fact(adaptive), *deployment(2), waiting)
    given = world.pass_time(3600)
    deletions = [d for d in world.said if isinstance(d, DeleteObject)]
    assert [d.shadow for d in deletions] == [True]
    assert done(given) == []
    assert len([d for d in given if not isinstance(d, SetTimer)]) <= 30


def test_going_to_enforce_adopts_and_writes_the_status_from_what_is_so() -> None:
    world = shadowed(placed("a", 0), stray(1))
    given = world.go("enforce")
    assert [type(d) for d in done(given)].count(SetStatus) == 1
    assert world.spread.pods["web-1"].subset == "b"
    assert world.spread.ledger.counts == {HASH: {"a": 1, "b": 1}}


def test_going_to_shadow_undoes_nothing_and_says_that_pods_go_in_untouched() -> None:
    world = World(node(), spread_fact(spec(3, None)), *deployment(1), placed("a", 0))
    before = world.spread.ledger.counts
    given = world.go("shadow")
    assert done(given) == []
    (changed,) = [d for d in given if isinstance(d, ChangeLedger)]
    assert changed.rules is not None
    assert changed.rules.held_back
    assert world.spread.ledger.counts == before
    spread = spread_on(world.spread.ledger, NAMESPACE, SPREAD)
    pod = new_pod(1)
    assert created(world.spread.ledger, spread, pod, request=Request("r", START)).pod is pod


@pytest.mark.parametrize("how", ["annotation", "namespace"])
def test_one_spread_is_held_back(how: str) -> None:
    annotations = {MODE: "shadow"} if how == "annotation" else {}
    world = World(node(), spread_fact(spec(3, None), annotations=annotations), *deployment(1), stray(0))
    if how == "namespace":
        world = World(
            ModesSet(at=0, selector="team=a"), node(), spread_fact(spec(3, None)), *deployment(1), stray(0)
        )
    assert done(world.said) == []
    assert effects(world.said)
    given = world.see(spread_fact(spec(3, None))) if how == "annotation" else world.go("enforce")
    assert done(given)
    assert world.spread.pods["web-0"].subset == "b"


def test_what_an_actuator_leaves_undone_by_itself_is_not_believed() -> None:
    world = World(node(), spread_fact(spec(3, None)), *deployment(1), stray(0))
    (adoption,) = [d for d in world.said if isinstance(d, PatchObject) and MATCHED in str(d.patch)]
    world.see(Applied(at=0, decision=adoption.id, reason="Shadow"))
    assert world.spread.pods["web-0"].subset == ""
    assert world.spread.ledger.counts == {}


def kruise(*namespaces: str, present: bool = True) -> IncumbentObserved:
    return IncumbentObserved(
        at=0, service="spread", rival="OpenKruise manager", present=present, namespaces=namespaces
    )


def beside_kruise(*namespaces: str) -> World:
    return World(
        kruise(*namespaces), node(), spread_fact(spec(3, None)), *deployment(2), placed("a", 0), stray(1)
    )


def test_beside_kruise_nothing_is_written_and_pods_go_in_untouched() -> None:
    world = beside_kruise(NAMESPACE)
    (adoption,) = [d for d in world.said if isinstance(d, PatchObject) and MATCHED in str(d.patch)]
    assert (adoption.shadow, adoption.dry_run) == (True, True)
    assert adoption.because[-1].values["why"] == (
        "OpenKruise manager is at work on the same objects (stop it, or say --regardless spread)"
    )
    assert done(world.said) == []
    spread = spread_on(world.spread.ledger, NAMESPACE, SPREAD)
    pod = new_pod(1)
    assert created(world.spread.ledger, spread, pod, request=Request("r", START)).pod is pod


def test_when_kruise_is_gone_it_adopts_and_writes_the_status_from_what_is_so() -> None:
    world = beside_kruise(NAMESPACE)
    given = world.see(kruise(present=False))
    assert [type(d) for d in done(given)].count(SetStatus) == 1
    assert world.spread.ledger.counts == {HASH: {"a": 1, "b": 1}}


def test_kruise_that_comes_later_has_pods_go_in_untouched_from_then_on() -> None:
    world = World(node(), spread_fact(spec(3, None)), *deployment(1), placed("a", 0))
    given = world.see(kruise(NAMESPACE), stray(1))
    assert done(given) == []
    spread = spread_on(world.spread.ledger, NAMESPACE, SPREAD)
    pod = new_pod(2)
    assert created(world.spread.ledger, spread, pod, request=Request("r", START)).pod is pod


def test_kruise_in_other_namespaces_holds_nothing_back() -> None:
    assert done(beside_kruise("elsewhere").said)


def test_explain_says_that_a_spread_is_held_back_and_why() -> None:
    world = World(spread_fact(spec(2, None)), *deployment(3))
    asked = Reference("workloadspread", NAMESPACE, SPREAD)
    told = "Nothing is written (shadow): spread is in shadow."
    assert told not in EXPLAINER.standing(world.fold.state, asked, world.now)
    world.go("shadow")
    assert told in EXPLAINER.standing(world.fold.state, asked, world.now)
