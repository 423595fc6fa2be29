"""Modes: no phantom nodes in shadow, what would be ordered is said once, and enforcing starts from what is so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.acting import HELD_BACK, MODE
from tidewright.events.base import Decision
from tidewright.events.config import ConfigSet, Mode, ModesSet
from tidewright.events.decisions import Effect, SetStatus, SetTimer
from tidewright.events.incumbents import IncumbentObserved
from tidewright.events.outcomes import Applied
from tidewright.host.fold.explainer import Reference
from tidewright.kube.keys import parts
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.tell.explaining import EXPLAINER

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


class Shadowed(Cluster):
    """A cluster whose actuator heeds what is marked."""

    def __init__(self, mode: Mode = "shadow", config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        self.go(mode)

    def go(self, mode: Mode, **more: Any) -> None:
        self.tell(ModesSet(at=self.now, mode=mode, **more))

    def _act(self, decision: Decision) -> None:
        if not decision.shadow:
            super()._act(decision)
        elif isinstance(decision, Effect):
            self._inbox.append(Applied(at=self.now, decision=decision.id, reason="Shadow"))

    def done(self) -> list[Effect]:
        return [d for d in self.of(Effect) if not d.shadow]

    def waiting(self, count: int = 8) -> None:
        self.add_group("workers", cpu=4000, maximum=50)
        shape = self.shape({"cpu": 2000})
        for i in range(count):
            self.pod(f"p{i}", shape)


def test_in_shadow_a_plan_is_said_once_and_no_node_is_awaited() -> None:
    cluster = Shadowed()
    cluster.waiting()
    cluster.advance(3600)
    (plan,) = cluster.of(p.PlanScaleUp)
    assert plan.shadow
    assert plan.because[-1].rule == HELD_BACK
    (order,) = cluster.of(p.IncreaseNodeGroup)
    assert (order.shadow, order.from_size, order.size) == (True, 0, 4)
    assert cluster.done() == []
    assert (cluster.state.open, cluster.state.executions, cluster.state.orders) == ({}, {}, {})


def test_in_shadow_what_waits_for_an_hour_does_not_fill_the_log() -> None:
    cluster = Shadowed()
    cluster.waiting()
    cluster.settle()
    before = len(cluster.said)
    cluster.advance(3600)
    later = cluster.said[before:]
    assert {type(d) for d in later} == {SetTimer}
    assert len(later) <= 60


def test_a_plan_that_changes_is_said_again() -> None:
    cluster = Shadowed()
    cluster.waiting(8)
    cluster.settle()
    cluster.pod("one-more", cluster.shape({"cpu": 3000}))
    cluster.settle()
    assert [d.size for d in cluster.of(p.IncreaseNodeGroup)] == [4, 5]


def test_going_to_enforce_orders_at_once_what_is_needed_then() -> None:
    cluster = Shadowed()
    cluster.waiting()
    cluster.advance(120)
    cluster.go("enforce")
    cluster.settle()
    assert [(d.from_size, d.size) for d in cluster.done() if isinstance(d, p.IncreaseNodeGroup)] == [(0, 4)]
    assert cluster.groups[NodeGroupId("workers")].target == 4


def test_going_to_shadow_with_an_order_on_its_way_waits_for_nothing_afterwards() -> None:
    cluster = Shadowed("enforce")
    cluster.silent = True
    cluster.waiting()
    cluster.settle()
    assert cluster.state.open
    cluster.go("shadow")
    for decision in list(cluster.state.orders):  # the actuator has heard of it before it came to them
        cluster.tell(Applied(at=cluster.now, decision=decision, reason="Shadow"))
    assert (cluster.state.open, cluster.state.groups[NodeGroupId("workers")].wanted) == ({}, None)
    cluster.silent = False
    cluster.go("enforce")
    cluster.settle()
    assert cluster.groups[NodeGroupId("workers")].target == 4  # and not after a backoff


def test_an_actuator_that_writes_nothing_by_itself_is_one_that_refuses() -> None:
    cluster = Cluster()
    cluster.silent = True
    cluster.add_group("workers", cpu=4000, maximum=50)
    cluster.pod("p", cluster.shape({"cpu": 2000}))
    cluster.settle()
    for _ in range(100):
        for decision in list(cluster.state.orders):
            cluster.tell(Applied(at=cluster.now, decision=decision, reason="Shadow"))
        cluster.advance(10)
    assert cluster.state.open == {}
    assert len(cluster.of(p.IncreaseNodeGroup)) <= 3  # 1,000 s with a backoff of 300 s and more


@pytest.mark.parametrize("class_name", [CHECK, ATOMIC])
def test_a_request_is_taken_up_and_answered_in_shadow_and_nobody_tells_it(class_name: str) -> None:
    cluster = Shadowed()
    cluster.add_group("workers", cpu=4000, maximum=50)
    cluster.add_node("n", "workers")
    cluster.template("worker", "3500m")
    for n in range(30):  # more than a batch of an evaluation
        cluster.request(f"r{n}", class_name, [("worker", 1)])
    cluster.advance(3600)
    attempts = cluster.of(p.AttemptRequest)
    assert sorted({d.name for d in attempts}) == sorted(f"r{n}" for n in range(30))
    assert all(d.shadow for d in attempts)
    assert len(attempts) <= 90
    assert cluster.of(SetStatus) == []
    assert cluster.done() == []
    assert not any(r.booked for r in cluster.state.requests.values())
    asked = Reference("provisioningrequest", *parts(next(iter(cluster.state.requests))))
    told = EXPLAINER.standing(cluster.state, asked, cluster.now)
    assert told[0] == "Nothing of it is done (shadow): provisioning is in shadow."
    cluster.go("enforce")
    cluster.settle()
    assert any(c["Provisioned"].status == "True" for n in range(30) if (c := cluster.conditions(f"r{n}")))


def test_idle_nodes_stay_in_shadow() -> None:
    cluster = Shadowed()
    cluster.add_group("workers", cpu=4000, maximum=50, target=1)
    cluster.add_node("n", "workers")
    cluster.advance(7200)
    (thought,) = cluster.of(p.DeleteInstances)
    assert thought.shadow
    assert cluster.groups[NodeGroupId("workers")].target == 1
    cluster.go("enforce")
    cluster.advance(1200)
    assert cluster.groups[NodeGroupId("workers")].target == 0


@pytest.mark.parametrize("selector", [False, True])
def test_one_request_is_held_back_and_nobody_else_sees_what_it_would_take(selector: bool) -> None:
    cluster = Shadowed("enforce")
    if selector:
        cluster.go("enforce", selector="team=a", namespaces=("other",))
    cluster.add_group("workers", cpu=4000, maximum=50)
    cluster.template("worker", "3500m")
    more = {} if selector else {"annotations": {MODE: "shadow"}}
    cluster.request("quiet", ATOMIC, [("worker", 3)], **more)
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.advance(600)
    thought = [d for d in cluster.of(p.PlanScaleUp) if d.request]
    assert all(d.shadow for d in thought)
    assert 1 <= len(thought) <= 2  # again when the group has another size
    assert cluster.groups[NodeGroupId("workers")].target == 1
    assert "ns/quiet" not in cluster.statuses
    if not selector:
        cluster.request("quiet", ATOMIC, [("worker", 3)])
        cluster.settle()
        assert cluster.conditions("quiet")["Provisioned"].status == "True"


def test_a_request_in_dry_run_is_answered_on_itself() -> None:
    cluster = Shadowed("enforce")
    cluster.add_group("workers", cpu=4000, maximum=50)
    cluster.template("worker", "3500m")
    cluster.request("r", ATOMIC, [("worker", 3)], annotations={MODE: "dry-run"})
    cluster.settle()
    assert cluster.conditions("r")["Failed"].reason == "DryRun"
    assert cluster.groups[NodeGroupId("workers")].target == 0


def test_the_dry_run_of_the_configuration_waits_for_no_nodes_either() -> None:
    cluster = Cluster()
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data={"dry-run": True}))
    cluster.add_group("workers", cpu=4000, maximum=50)
    cluster.pod("p", cluster.shape({"cpu": 2000}))
    cluster.advance(3600)
    (order,) = cluster.of(p.IncreaseNodeGroup)
    assert order.dry_run
    assert cluster.state.open == {}


def beside(at: float, *, present: bool = True, **more: Any) -> IncumbentObserved:
    return IncumbentObserved(
        at=at, service="provisioning", rival="Cluster Autoscaler", present=present, everywhere=present, **more
    )


def test_beside_cluster_autoscaler_it_says_what_it_would_order_and_orders_nothing() -> None:
    cluster = Shadowed("enforce")
    cluster.tell(beside(cluster.now))
    cluster.waiting()
    cluster.advance(3600)
    (plan,) = cluster.of(p.PlanScaleUp)
    assert plan.shadow
    assert plan.because[-1].values["why"] == (
        "Cluster Autoscaler is at work on the same objects (stop it, or say --regardless provisioning)"
    )
    assert cluster.done() == []  # the status ConfigMap is not written either
    assert cluster.groups[NodeGroupId("workers")].target == 0


def test_a_plan_under_way_ends_at_its_next_step_when_an_incumbent_comes() -> None:
    cluster = Shadowed("enforce")
    cluster.waiting()
    cluster.settle()
    ordered = len(cluster.done())
    assert ordered
    cluster.tell(beside(cluster.now))
    cluster.pod("one-more", cluster.shape({"cpu": 4000}))
    cluster.advance(3600)
    assert len(cluster.done()) == ordered
    assert cluster.groups[NodeGroupId("workers")].target == 4


def test_when_cluster_autoscaler_is_gone_it_orders_what_is_needed_then() -> None:
    cluster = Shadowed("enforce")
    cluster.tell(beside(cluster.now))
    cluster.waiting()
    cluster.advance(120)
    cluster.tell(beside(cluster.now, present=False, quiet_s=60.0))
    cluster.settle()
    assert cluster.groups[NodeGroupId("workers")].target == 4


def test_beside_an_incumbent_regardless_or_when_it_does_the_work_of_another_service() -> None:
    for event in (ModesSet(at=0, regardless=("provisioning",)), beside(0, present=False)):
        cluster = Shadowed("enforce")
        cluster.tell(event)
        if isinstance(event, ModesSet):
            cluster.tell(beside(cluster.now))
        cluster.tell(msgspec.structs.replace(beside(cluster.now), service="spread"))
        cluster.waiting()
        cluster.settle()
        assert cluster.groups[NodeGroupId("workers")].target == 4
