"""A state that an earlier version stored is gone on from as if this one had folded its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tidewright.events.base import Decision, Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import CreateObject, DeleteObject, HoldLease
from tidewright.events.facts import PodGone
from tidewright.events.outcomes import Applied
from tidewright.events.shards import RecordPass
from tidewright.events.timers import TimerFired
from tidewright.shardmanager import own_services
from tidewright.shardmanager.decide import DECIDER
from tidewright.shardmanager.shardset.state import judged
from tidewright.shardmanager.state import State
from tidewright.shardmanager.upcasts import entries_as_configured, specs_as_read

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
    assert (fleet.recorded.running, fleet.recorded.adopted) == (3, 3)
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


def test_a_set_that_was_refused_stays_so_until_its_object_is_observed_again() -> None:
    problem = {"path": "spec.keyspace.slots", "message": "is 33"}
    stored = {"namespace": "ns", "name": "orders", "present": True, "problems": [problem]}
    state = msgspec.convert(specs_as_read({"sets": {"ns/orders": stored}}), State)
    assert [str(p) for p in judged(state.sets["ns/orders"])[1]] == ["spec.keyspace.slots is 33"]


def test_a_set_that_was_acted_upon_is_not_judged_anew() -> None:
    spec = {
        "slots": 33,
        "source": "labels",
        "mode": "restart",
        "gate_refused": "no lock",
        "notices": ["some"],
    }
    stored = {"namespace": "ns", "name": "orders", "present": True, "spec": spec}
    upcast = msgspec.convert(specs_as_read({"sets": {"ns/orders": stored}}), State).sets["ns/orders"]
    assert judged(upcast) == (upcast, [])
    assert (upcast.spec.sources, upcast.spec.mode, upcast.spec.handover) == (("labels",), "gate", "restart")


def test_the_growth_period_of_before_goes_on() -> None:
    follower = {"samples": [], "since": 1.0, "grown_from": 2, "growth_started_at": 100.0, "shrunk_at": None}
    stored = {"namespace": "ns", "name": "orders", "follower": follower}
    grown = msgspec.convert(specs_as_read({"sets": {"ns/orders": stored}}), State).sets["ns/orders"].follower
    assert grown.follow(159.0, 3, 9) == 4
    assert grown.follow(160.0, 3, 9) == 6


def test_our_own_services_are_sized_as_before_and_those_that_were_refused_are_not() -> None:
    sized = {"name": "autoscaler", "most": 6, "capacity": 1000.0, "target": 0.5}
    refused = {"name": "spread", "refused": "services: spread max is 600"}
    stored = {"services": {"ns/autoscaler": sized, "ns/spread": refused}}
    services = msgspec.convert(specs_as_read(stored), State).services
    assert own_services.read(services["ns/autoscaler"].entry) == own_services.Sizing(
        least=1, most=6, capacity=1000.0, target=0.5
    )
    assert own_services.read(services["ns/spread"].entry).refused


def entry_of(**manager: Any) -> JsonObject:
    return {"namespace": "ns", "config": {"manager": {"pod-template-namespace": "ns", **manager}}}


def fleet_of_version_6(**more: Any) -> State:
    """The state of version 4 with a fleet as version 6 stored it."""
    stored = msgspec.json.decode(STORED.read_bytes())
    for version in (4, 5):
        stored = DECIDER.upcasts[version](stored)
    fleet = stored["fleets"]["ns/kozmopropeller"]
    fleet.pop("lock", None)
    fleet.update(more)
    return msgspec.convert(entries_as_configured(stored), State)


def test_a_fleet_goes_on_with_what_was_judged_until_it_is_configured_again() -> None:
    entry = entry_of(shard={})
    state = fleet_of_version_6(warnings=["some"])
    feed(state, TimerFired(at=1020.0, key="scan/ns/kozmopropeller"))
    recorded = state.fleets["ns/kozmopropeller"].recorded
    assert recorded is not None
    assert recorded.warnings == ("some",)
    feed(state, ConfigSet(at=1021.0, name="shardmanager", data={"managers": [entry]}))
    assert feed(state, TimerFired(at=1030.0, key="scan/ns/kozmopropeller"))
    recorded = state.fleets["ns/kozmopropeller"].recorded
    assert recorded is not None
    assert recorded.warnings == ()


def test_a_fleet_that_was_refused_stays_so_until_it_is_configured_otherwise() -> None:
    state = fleet_of_version_6(refused="no such brand", recorded={"error": "no such brand"})
    assert feed(state, TimerFired(at=1020.0, key="scan/ns/kozmopropeller")) == []
    bad, good = entry_of(shard={"shard-count": 33}), entry_of(shard={})
    [record] = feed(state, ConfigSet(at=1021.0, name="shardmanager", data={"managers": [bad]}))
    assert isinstance(record, RecordPass)
    assert "ShardCount (33)" in record.error
    decided = feed(state, ConfigSet(at=1022.0, name="shardmanager", data={"managers": [good]}))
    assert isinstance(decided[0], RecordPass)
    assert (decided[0].error, decided[0].refused) == ("", False)
