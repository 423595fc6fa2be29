"""What must last is in the decisions: a world that only folds them goes on as the one that took them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.autoscaler.world import NS, World, external, of, one, sample, workload
from tidewright.autoscaler.api.conditions import Change, Condition
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.state import Autoscaler, State
from tidewright.autoscaler.upcasts import kept_as_recorded
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Decision, Event
from tidewright.events.config import ModesSet
from tidewright.events.decisions import ScaleWorkload, SetStatus
from tidewright.events.outcomes import Applied, Superseded
from tidewright.kube import conditions

ABOVE = "AboveHighWatermark"


def above(world: World) -> Condition:
    condition = conditions.find(world.object().kept.conditions, ABOVE)
    assert condition is not None
    return condition


def test_the_exact_time_of_a_condition_is_in_the_status() -> None:
    world = World()
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    status = one(world.feed(sample(101.25, 40_000)), SetStatus)
    index = [entry["type"] for entry in status.status["conditions"]].index(ABOVE)
    assert status.since[index] == 101.25
    assert above(world).since == 101.25


def test_a_status_of_an_older_version_is_folded_by_its_whole_seconds() -> None:
    world = World()
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    status = one(world.feed(sample(101.25, 40_000)), SetStatus)
    DECIDER.evolve(world.fold.state, msgspec.structs.replace(status, since=()))
    assert above(world).since == 101.0
    assert above(world).status


def test_a_scale_says_the_status_that_led_to_it_which_comes_with_the_outcome() -> None:
    world = World()
    world.start(replicas=2)
    order = one(world.feed(sample(101.25, 40_000)), ScaleWorkload)
    assert order.concluded is not None
    assert above(world).since == 101.25
    status = one(world.apply(order, 102.0), SetStatus)
    assert status.status["currentMetrics"] == order.concluded.status["currentMetrics"]
    assert conditions.find(world.object().kept.conditions, "AbleToScale") is not None


def test_a_scale_that_was_superseded_leaves_its_status_to_the_next_look() -> None:
    world = World()
    world.start(replicas=2)
    order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
    assert world.feed(Superseded(at=102, decision=order.id)) == []
    assert world.object().dirty >= Change.REASON
    assert one(world.feed(sample(103, 15_000)), SetStatus).urgent
    assert world.object().dirty is Change.NONE


@pytest.mark.parametrize("mode", ["shadow", "dry-run"])
def test_held_back_a_delay_counts_from_the_instant_at_which_the_mark_was_passed(mode: Any) -> None:
    world = World()
    world.feed(ModesSet(at=1.0, mode=mode))
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    world.feed(sample(101, 15_000))
    hold = one(world.feed(sample(116.5, 40_000)), HoldReplicas)
    assert hold.concluded is not None
    assert above(world).since == 116.5
    order = one(world.fire(), ScaleWorkload)
    assert (order.at, order.shadow) == (146.5, True)


def test_held_back_a_mark_that_is_passed_for_the_same_reason_is_recorded_once() -> None:
    world = World()
    world.feed(ModesSet(at=1.0, mode="shadow"))
    world.start(replicas=2, upscaleDelayAboveWatermarkSeconds=30)
    world.feed(
        workload(100.5, 0, status_replicas=2)
    )  # whoever set it to zero has to set more, whatever is asked for
    recorded = [world.feed(sample(101 + 15 * n, value)) for n, value in enumerate((15_000, 90_000, 91_000))]
    assert [[hold.reason for hold in of(given, HoldReplicas)] for given in recorded] == [
        ["TargetAtZero"],
        ["TargetAtZero"],
        [],
    ]
    assert above(world).since == 116.0


def test_a_dry_run_is_folded_from_its_decision() -> None:
    world = World()
    world.start(replicas=2, dryRun=True)
    order = one(world.feed(sample(101.5, 40_000)), ScaleWorkload)
    kept = world.object().kept
    assert (kept.last_scale_at, kept.scaling_events, kept.desired) == (101.5, 1, order.replicas)


def test_an_outcome_that_comes_late_still_counts() -> None:
    world = World(outcome_timeout_s=60)
    world.start(replicas=2)
    order = one(world.feed(sample(101, 40_000)), ScaleWorkload)
    world.feed(sample(170, 15_000))
    world.feed(Applied(at=171, decision=order.id))
    assert world.object().kept.last_scale_at == 101


def test_a_round_is_used_up_by_a_look_and_not_by_a_scale_on_its_way() -> None:
    world = World()
    world.start(replicas=2, metrics=[external("rps"), external("lag")])
    world.feed(sample(101, 90_000))
    order = one(world.feed(sample(101, 90_000, name="lag")), ScaleWorkload)
    assert world.object().fresh == ()
    world.feed(sample(116, 15_000), sample(116, 15_000, name="lag"))
    assert world.object().fresh == ("external/rps/app=web", "external/lag/app=web")
    world.apply(order, 117)
    assert world.feed(sample(131, 24_000, name="lag"))


def test_a_stored_state_of_version_3_shows_what_was_written_last() -> None:
    stored = {
        "now": 130.0,
        "namespaces": {
            NS: {
                "objects": {
                    "wpa": {
                        "name": "wpa",
                        "evaluated": True,
                        "shown": [7500],
                        "awaits_pods": True,
                        "kept": {"utilizations": [7600], "desired": 2},
                        "hold": "PodsNotReady",
                    },
                    "new": {"name": "new", "kept": {"utilizations": [1]}},
                }
            }
        },
    }
    state = msgspec.convert(kept_as_recorded(stored), State)
    objects = state.namespaces[NS].objects
    assert objects["wpa"].kept.utilizations == (7500,)
    assert objects["wpa"].awaits_pods
    assert objects["new"].kept.utilizations is None
    assert not {"shown", "evaluated"} & set(Autoscaler.__struct_fields__)


def test_a_world_that_only_folds_goes_on_as_the_one_that_decided() -> None:
    deciding, folding = World(), World()
    story: list[Event] = [sample(101.5 + 7.3 * n, 9_000 + 4_111 * (n % 7)) for n in range(40)]
    deciding.start(replicas=2)
    folding.start(replicas=2)
    given: list[Decision] = []
    for event in story:
        decided = deciding.feed(event)
        DECIDER.evolve(folding.fold.state, event)
        for decision in decided:
            DECIDER.evolve(folding.fold.state, decision)
        given += decided
    assert of(given, ScaleWorkload)
    assert folding.fold.state == deciding.fold.state
