"""Modes: in shadow no lease is held, no slot given and no pod made, and each first step is said once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.shardmanager.cluster import Cluster
from tests.unit.shardmanager.test_compat import KOZMO, LOCK, elected, fleet, names
from tests.unit.shardmanager.test_fold import SPEC, document, owned, work
from tidewright.events.acting import HELD_BACK, MODE
from tidewright.events.base import Decision, Event
from tidewright.events.config import ConfigSet, Mode, ModesSet
from tidewright.events.decisions import CreateObject, Effect, HoldLease, ScaleWorkload, SetStatus, SetTimer
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied
from tidewright.events.shards import ChangeAssignment, ServiceLoadObserved, ShardSetObserved


class Modal(Cluster):
    """A cluster whose actuator heeds what is marked."""

    def go(self, mode: Mode, **more: Any) -> list[Decision]:
        return self.submit(ModesSet(at=self.now, mode=mode, **more))

    def _act(self, decision: Decision) -> list[Event]:
        if not decision.shadow:
            return super()._act(decision)
        shadow = Applied(at=self.now, decision=decision.id, reason="Shadow")
        return [shadow] if isinstance(decision, Effect) else []

    def done(self) -> list[Effect]:
        return [d for d in self.decided if isinstance(d, Effect) and not d.shadow]


def shadowed(namespace: str = "ns") -> Modal:
    cluster = Modal(namespace)
    cluster.go("shadow")
    return cluster


def test_in_shadow_a_fleet_says_which_pods_it_would_make_once() -> None:
    cluster = shadowed(KOZMO)
    cluster.configure(fleet())
    cluster.template()
    cluster.template()
    made = [d for d in cluster.decided if isinstance(d, CreateObject)]
    assert len(made) == 3
    assert all(d.shadow and d.because[-1].rule == HELD_BACK for d in made)
    assert (cluster.done(), cluster.pods, cluster.state.in_flight) == ([], {}, {})


def test_a_plan_that_changes_in_shadow_is_said_again() -> None:
    cluster = shadowed(KOZMO)
    cluster.configure(fleet(2))
    cluster.template()
    before = len(cluster.decided)
    cluster.configure(fleet(3))
    assert len([d for d in cluster.decided[before:] if isinstance(d, CreateObject)]) == 3


def test_in_shadow_no_lease_is_taken_and_what_the_fleet_needs_is_said_all_the_same() -> None:
    cluster = shadowed(KOZMO)
    cluster.configure(elected())
    cluster.template()
    cluster.advance(600)
    assert not [d for d in cluster.decided if isinstance(d, HoldLease)]
    assert cluster.leases == {}
    assert len(names(cluster.decided, CreateObject)) == 3
    assert len([d for d in cluster.decided if isinstance(d, SetTimer)]) <= 1


def test_going_to_enforce_takes_the_lease_and_makes_the_pods() -> None:
    cluster = shadowed(KOZMO)
    cluster.configure(elected())
    cluster.template()
    cluster.go("enforce")
    assert LOCK in cluster.leases
    assert len(cluster.pods) == 3


def test_in_shadow_a_set_says_the_first_round_and_gives_no_slot() -> None:
    cluster = shadowed()
    cluster.shard_set(SPEC)
    cluster.member("a", "1")
    entries = [d for d in cluster.decided if isinstance(d, ChangeAssignment)]
    assert entries
    assert all(d.shadow for d in entries)
    assert document(cluster).slots == []
    assert not [d for d in cluster.decided if isinstance(d, SetStatus)]
    said = len(cluster.decided)
    for _ in range(200):  # renewals, and time
        cluster.member("a", "1")
        cluster.advance(5)
    later = cluster.decided[said:]
    assert {type(d) for d in later} <= {SetTimer}
    assert len(later) <= 40
    assert cluster.done() == []


def test_going_to_enforce_a_set_starts_from_its_members() -> None:
    cluster = shadowed()
    cluster.shard_set(SPEC)
    cluster.member("a", "1")
    cluster.go("enforce")
    while work(cluster):
        pass
    assert owned(cluster) == {"a#1": 32}


def test_going_to_shadow_takes_nobodys_slots() -> None:
    cluster = Modal()
    cluster.shard_set(SPEC)
    cluster.member("a", "1")
    while work(cluster):
        pass
    cluster.go("shadow")
    cluster.advance(600)  # the member is dead by now
    cluster.member("b", "1")
    assert owned(cluster) == {"a#1": 32}
    assert [d for d in cluster.decided if isinstance(d, Effect) and d.shadow]


@pytest.mark.parametrize("how", ["annotation", "namespace"])
def test_one_set_is_held_back(how: str) -> None:
    cluster = Modal()
    annotations = {MODE: "shadow"} if how == "annotation" else {}
    if how == "namespace":
        cluster.go("enforce", selector="team=a")
    fact = cluster.set_fact(SPEC)
    cluster.submit(
        ShardSetObserved(
            at=fact.at,
            namespace="ns",
            name="orders",
            uid="set-uid",
            generation=1,
            spec=SPEC,
            annotations=annotations,
        )
    )
    cluster.member("a", "1")
    assert cluster.done() == []
    if how == "namespace":
        cluster.go("enforce")
    else:
        cluster.submit(fact)
    assert [d for d in cluster.done() if isinstance(d, SetStatus)]


def test_our_own_services_are_not_sized_in_shadow() -> None:
    cluster = shadowed("tidewright")
    entry = {"name": "autoscaler", "deployment": "tidewright/autoscaler", "max": 4, "capacity": 100}
    cluster.submit(ConfigSet(at=cluster.now, name="shardmanager", data={"services": [entry]}))
    for _ in range(50):
        cluster.now += 30
        cluster.submit(
            ServiceLoadObserved(
                at=cluster.now,
                namespace="tidewright",
                name="autoscaler",
                service="autoscaler",
                loads=(190.0,),
                replicas=1,
            )
        )
    scales = [d for d in cluster.decided if isinstance(d, ScaleWorkload)]
    assert [(d.shadow, d.replicas) for d in scales] == [(True, 2)]


def test_what_an_actuator_leaves_undone_by_itself_is_not_believed() -> None:
    class Idle(Cluster):
        def _act(self, decision: Decision) -> list[Event]:
            idle = Applied(at=self.now, decision=decision.id, reason="Shadow")
            return [idle] if isinstance(decision, Effect) else super()._act(decision)

    cluster = Idle(KOZMO)
    cluster.configure(fleet())
    cluster.template()
    assert not any(pod.expected for pod in cluster.state.pods.get(KOZMO, {}).values())


def propeller(at: float, *, present: bool = True, namespace: str = KOZMO) -> IncumbentObserved:
    return IncumbentObserved(
        at=at, service="shard-manager", rival="propeller manager", present=present, namespaces=(namespace,) * present
    )  # fmt: skip


def test_beside_a_propeller_manager_no_lease_is_asked_for_and_no_pod_made() -> None:
    cluster = Modal(KOZMO)
    cluster.submit(propeller(cluster.now))
    cluster.configure(elected())
    cluster.template()
    cluster.advance(600)
    assert cluster.leases == {}
    assert cluster.done() == []
    made = [d for d in cluster.decided if isinstance(d, CreateObject)]
    assert len(made) == 3
    assert made[0].because[-1].values["why"] == (
        "propeller manager is at work on the same objects (stop it, or say --regardless shard-manager)"
    )


def test_when_the_propeller_manager_is_gone_the_lease_is_taken_and_the_pods_are_made() -> None:
    cluster = Modal(KOZMO)
    cluster.submit(propeller(cluster.now))
    cluster.configure(elected())
    cluster.template()
    cluster.submit(propeller(cluster.now, present=False))
    assert LOCK in cluster.leases
    assert len(cluster.pods) == 3


def test_a_propeller_manager_that_comes_later_ends_the_acting_at_once() -> None:
    cluster = Modal(KOZMO)
    cluster.configure(fleet(2))
    cluster.template()
    assert len(cluster.pods) == 2
    before = len(cluster.done())
    cluster.submit(propeller(cluster.now))
    cluster.configure(fleet(3))
    cluster.advance(600)
    assert len(cluster.done()) == before
    assert len(cluster.pods) == 2


def test_a_propeller_manager_in_another_namespace_holds_nothing_back() -> None:
    cluster = Modal(KOZMO)
    cluster.submit(propeller(cluster.now, namespace="elsewhere"))
    cluster.configure(fleet(2))
    cluster.template()
    assert len(cluster.pods) == 2
