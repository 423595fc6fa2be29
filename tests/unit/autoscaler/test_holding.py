"""Modes: what the autoscaler does while it is held back, and where it goes on from when it may act."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.world import NS, World, condition, of, one, sample, spec, workload, wpa
from tidewright.events.acting import HELD_BACK, MODE
from tidewright.events.base import Decision
from tidewright.events.config import ModesSet
from tidewright.events.decisions import PatchObject, RecordObjectEvent, ScaleWorkload, SetStatus
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied

SHADOW = ModesSet(at=1.0, mode="shadow")
ENFORCE = ModesSet(at=1.0, mode="enforce")


def at(event: ModesSet, moment: float) -> ModesSet:
    return ModesSet(at=moment, mode=event.mode, selector=event.selector, namespaces=event.namespaces)


def written(decisions: list[Decision]) -> list[Decision]:
    """What the actuator would act on."""
    return [
        d
        for d in decisions
        if isinstance(d, ScaleWorkload | SetStatus | PatchObject | RecordObjectEvent) and not d.shadow
    ]


def shadowed(world: World, moment: float, value: int) -> list[Decision]:
    """A sample, and what the actuator says to what was decided."""
    given = world.feed(sample(moment, value))
    for order in of(given, ScaleWorkload):
        given += world.feed(Applied(at=moment + 0.1, decision=order.id, reason="Shadow"))
    return given


def test_in_shadow_it_says_what_it_would_do_and_why_not_and_nothing_is_written() -> None:
    world = World()
    world.feed(SHADOW)
    world.start(replicas=2)
    given = shadowed(world, 101, 40_000)
    order = one(given, ScaleWorkload)
    assert (order.shadow, order.from_replicas, order.replicas) == (True, 2, 3)
    assert order.because[-1].rule == HELD_BACK
    assert written(given) == []


def test_in_shadow_the_windows_run_so_that_not_every_sample_is_a_decision() -> None:
    world = World()
    world.feed(SHADOW)
    world.start(replicas=2)
    given = [d for n in range(100) for d in shadowed(world, 101 + n, 40_000 + n * 100)]
    assert len(of(given, ScaleWorkload)) == 2  # one per window of 60 s
    assert written(given) == []


@pytest.mark.parametrize("holds", [SHADOW, IncumbentObserved(at=1.0, service="autoscaler", rival="o", present=True, everywhere=True)])  # fmt: skip
def test_a_bound_that_nobody_heeds_is_said_once_a_window_and_not_at_every_sample(holds: Any) -> None:
    world = World()
    world.feed(holds)
    world.start(replicas=2, minReplicas=3)  # which no window forbids to mend
    given = [d for n in range(100) for d in shadowed(world, 101 + n, 90_000)]
    assert len(of(given, ScaleWorkload)) == 2  # one per window of 60 s
    assert len(given) < 12


def test_going_to_enforce_drops_what_was_only_thought() -> None:
    world = World()
    world.feed(SHADOW)
    world.start(replicas=2)
    shadowed(world, 101, 40_000)
    assert world.object().kept.last_scale_at == 101
    given = world.feed(at(ENFORCE, 110.0))
    order = one(given, ScaleWorkload)  # no window of a scale that never was holds it back
    assert (order.shadow, order.replicas) == (False, 3)
    given += world.apply(order, 111.0)
    status = of(given, SetStatus)[-1].status
    assert (status["desiredReplicas"], status["scalingEventsCount"]) == (3, 1)


def test_going_to_enforce_goes_on_from_the_status_that_somebody_else_has_written_meanwhile() -> None:
    world = World()
    world.feed(SHADOW)
    world.start(replicas=2)
    shadowed(world, 101, 40_000)
    theirs = {"lastScaleTime": "1970-01-01T00:01:50Z", "scalingEventsCount": 7}
    world.feed(wpa(112.0, spec=spec(), status=theirs), workload(112.0, 3))
    world.feed(at(ENFORCE, 120.0))
    assert (world.object().kept.last_scale_at, world.object().kept.scaling_events) == (110.0, 7)


def test_going_to_shadow_leaves_what_is_and_forgets_no_scale_that_was_made() -> None:
    world = World()
    world.start(replicas=2)
    order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
    world.apply(order, 102.0)
    assert written(world.feed(at(SHADOW, 110.0))) == []
    shadowed(world, 170.0, 90_000)
    world.feed(at(ENFORCE, 171.0))
    assert world.object().kept.last_scale_at == 101


@pytest.mark.parametrize("asked", ["shadow", "nonsense"])
def test_an_object_is_held_back_by_its_annotation(asked: str) -> None:
    world = World()
    world.feed(wpa(100, spec=spec(), annotations={MODE: asked}), workload(100, 2))
    world.start(replicas=2, at=100.5)  # and is let go when it is taken off
    world.feed(wpa(100.6, spec=spec(), annotations={MODE: asked}))
    given = shadowed(world, 101, 40_000)
    assert one(given, ScaleWorkload).shadow
    assert written(given) == []
    given = world.feed(wpa(110.0, spec=spec(), annotations={}))
    assert not one(given, ScaleWorkload).shadow


def test_a_dry_run_by_annotation_is_that_of_the_spec() -> None:
    world = World()
    world.start(replicas=2)
    given = world.feed(wpa(100.6, spec=spec(), annotations={MODE: "dry-run"}), sample(101, 40_000))
    assert one(given, ScaleWorkload).dry_run
    assert condition(of(given, SetStatus)[-1], "DryRun")["status"] == "True"


def test_an_annotation_does_not_let_loose_what_its_service_holds_back() -> None:
    world = World()
    world.feed(SHADOW)
    world.start(replicas=2)
    given = world.feed(wpa(100.6, spec=spec(), annotations={MODE: "enforce"}))
    assert written(given + shadowed(world, 101, 40_000)) == []


def test_only_in_the_selected_namespaces() -> None:
    world = World()
    world.feed(ModesSet(at=1.0, selector="team=a", namespaces=("bank",)))
    world.start(replicas=2)
    assert one(shadowed(world, 101, 40_000), ScaleWorkload).shadow
    given = world.feed(ModesSet(at=110.0, selector="team=a", namespaces=("bank", NS)))
    assert not one(given, ScaleWorkload).shadow


def test_a_snapshot_in_shadow_goes_on_as_the_fold_that_it_was_made_of() -> None:
    from tidewright.autoscaler.decide import DECIDER
    from tidewright.host.fold.order import Fold

    worlds = World(), World()
    given: list[list[Any]] = []
    for world in worlds:
        world.feed(SHADOW)
        world.start(replicas=2)
        shadowed(world, 101, 40_000)
        if world is worlds[0]:
            world.fold = Fold.resumed(DECIDER, world.fold.snapshot(checkpoint_seq=0, position=world.seq))
        given.append([*shadowed(world, 150, 70_000), *world.feed(at(ENFORCE, 160.0))])
    assert given[0] == given[1]


RIVAL = IncumbentObserved(
    at=1.0, service="autoscaler", rival="the other", present=True, namespaces=(NS,), since=1.0
)


def test_beside_an_incumbent_it_says_what_it_would_do_and_why_not() -> None:
    world = World()
    world.feed(RIVAL)
    world.start(replicas=2)
    given = shadowed(world, 101, 40_000)
    order = one(given, ScaleWorkload)
    assert (order.dry_run, order.shadow, order.replicas) == (True, True, 3)
    why = order.because[-1]
    assert why.rule == HELD_BACK
    assert why.values == {
        "mode": "dry-run",
        "why": "the other is at work on the same objects (stop it, or say --regardless autoscaler)",
    }
    assert written(given) == []


def test_an_incumbent_that_comes_later_ends_the_acting_at_once() -> None:
    world = World()
    world.start(replicas=2)
    world.apply(one(world.feed(sample(101, 40_000)), ScaleWorkload), 102.0)
    given = world.feed(msgspec.structs.replace(RIVAL, at=130.0))
    given += shadowed(world, 170.0, 90_000)
    assert written(given) == []
    assert one(given, ScaleWorkload).shadow


def test_when_it_is_gone_the_autoscaler_goes_on_by_itself_from_what_is_so() -> None:
    world = World()
    world.feed(RIVAL)
    world.start(replicas=2)
    shadowed(world, 101, 40_000)
    given = world.feed(IncumbentObserved(at=110.0, service="autoscaler", rival="the other", quiet_s=60.0))
    order = one(given, ScaleWorkload)
    assert (order.shadow, order.dry_run, order.replicas) == (False, False, 3)


def test_an_incumbent_elsewhere_or_at_the_work_of_another_service_holds_nothing_back() -> None:
    world = World()
    world.feed(
        msgspec.structs.replace(RIVAL, namespaces=("elsewhere",)),
        msgspec.structs.replace(RIVAL, service="spread", everywhere=True),
    )
    world.start(replicas=2)
    assert written(world.feed(sample(101, 40_000)))


def test_regardless_of_an_incumbent_when_the_operator_says_so() -> None:
    world = World()
    world.feed(ModesSet(at=0.5, regardless=("autoscaler",)), RIVAL)
    world.start(replicas=2)
    assert not one(world.feed(sample(101, 40_000)), ScaleWorkload).shadow


def test_that_an_incumbent_is_still_there_changes_nothing() -> None:
    world = World()
    world.feed(RIVAL)
    world.start(replicas=2)
    shadowed(world, 101, 40_000)
    assert world.feed(msgspec.structs.replace(RIVAL, at=120.0, refresh=True)) == []
