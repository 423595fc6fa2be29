"""A state that an earlier version stored is gone on from as if this one had folded its log."""

from __future__ import annotations

from pathlib import Path

from tidewright.events.base import Decision, Event
from tidewright.events.decisions import CreateObject, DeleteObject, HoldLease
from tidewright.events.facts import PodGone
from tidewright.events.outcomes import Applied
from tidewright.events.shards import RecordPass
from tidewright.events.timers import TimerFired
from tidewright.shardmanager.decide import DECIDER
from tidewright.shardmanager.state import State

STORED = Path(__file__).parents[2] / "golden" / "states" / "shard-manager.v4.json"


def restored() -> State:
    return DECIDER.restored(STORED.read_bytes(), 4)


def feed(state: State, event: Event) -> list[Decision]:
    touched = DECIDER.evolve(state, event)
    decisions = list(DECIDER.decide(state, event, touched))
    for decision in decisions:
        DECIDER.evolve(state, decision)
    return decisions


def test_a_pass_under_way_goes_on_where_it_was() -> None:
    """Two pods were to be deleted; the first deletion is answered now."""
    state = restored()
    [asked] = [decision for decision, effect in state.asked.items() if effect.fleet == "ns/other"]
    following = feed(state, Applied(at=state.now + 1, decision=asked))
    assert [d.target.name for d in following if isinstance(d, DeleteObject)] == ["other-1"]


def test_a_fleet_at_rest_stays_at_rest_and_its_lock_is_renewed() -> None:
    state = restored()
    fleet = state.fleets["ns/kozmopropeller"]
    assert fleet.recorded is not None
    assert (fleet.recorded.running, fleet.recorded.adopted, fleet.passes) == (3, 3, 2)
    assert fleet.leads(1021.9)
    assert not fleet.leads(1022.0)
    scanned = feed(state, TimerFired(at=1020.0, key="scan/ns/kozmopropeller"))
    assert not any(isinstance(d, RecordPass | CreateObject | DeleteObject) for d in scanned)
    assert any(
        isinstance(d, HoldLease) for d in feed(state, TimerFired(at=1020.0, key="lock/ns/kozmopropeller"))
    )
    gone = feed(state, PodGone(at=1021.0, namespace="ns", name="kozmopropeller-1"))
    assert [d.target.name for d in gone if isinstance(d, CreateObject)] == ["kozmopropeller-1"]


def test_the_assignment_of_a_set_is_kept() -> None:
    shard_set = restored().sets["ns/orders"]
    assert {record.owner for record in shard_set.document.slots} == {"a#1", "b#1"}
