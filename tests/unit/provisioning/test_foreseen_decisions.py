"""Nodes for pods that the autoscaler has decided upon, before anything has carried that out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.provisioning.workloads import Workloads
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision, Event
from tidewright.events.config import ModesSet
from tidewright.provisioning.evaluate import Evaluation

DECIDED = {"foresight": "decisions"}


def four(config: Any = None, **how: Any) -> Workloads:
    """A Deployment of four pods that are all there."""
    cluster = Workloads(config or DECIDED, **how)
    cluster.add_group("g", maximum=50)
    cluster.deployment("web", 4, status_replicas=4, template=cluster.form())
    cluster.settle()
    return cluster


def sizes(cluster: Workloads) -> list[int]:
    return [order.size for order in cluster.of(p.IncreaseNodeGroup)]


def test_nodes_are_ordered_when_the_decision_is_there() -> None:
    cluster = four(boots=False)
    decision = cluster.scaled("web", 20)
    assert sizes(cluster) == [16]  # in the answer to the decision itself
    (plan,) = cluster.of(p.PlanScaleUp)
    assert [(share.workload, share.pods, share.decision) for share in plan.expected] == [
        ("Deployment/ns/web", 16, decision)
    ]
    (why,) = [reason for reason in plan.because if reason.rule == "PodsDecided"]
    assert why.values == {"pods": 16, "workload": "Deployment ns/web", "decision": decision}


def test_the_same_once_more_from_the_workload_itself_orders_nothing_more() -> None:
    cluster = four(boots=False)
    decision = cluster.scaled("web", 20)
    cluster.advance(0.02)
    cluster.tell(o.Applied(at=cluster.now, decision=decision))
    cluster.deployment("web", 20)
    cluster.deployment("web", 20, status_replicas=12)
    cluster.advance(5)
    assert sizes(cluster) == [16]
    assert cluster.state.scalings == {}


@pytest.mark.parametrize(
    "outcome",
    [
        lambda at, decision: o.Rejected(at=at, decision=decision, reason="Conflict", message="it shows 7"),
        lambda at, decision: o.Failed(at=at, decision=decision, reason="Forbidden"),
        lambda at, decision: o.Superseded(at=at, decision=decision, reason="Superseded"),
        lambda at, decision: o.Applied(at=at, decision=decision, reason="DryRun"),
    ],
)
def test_a_decision_that_is_not_carried_out_counts_no_longer_and_that_is_told(outcome: Any) -> None:
    cluster = four(boots=False)
    decision = cluster.scaled("web", 20)
    cluster.advance(0.02)
    said: Event = outcome(cluster.now, decision)
    cluster.tell(said)
    assert cluster.state.scalings == {}
    cluster.pod("other", cluster.shape({"cpu": 100}))
    cluster.settle()
    (told,) = cluster.object_events("ExpectedPodsDidNotCome")
    assert type(said).__name__ in told.message
    assert cluster.state.foreseen == {}
    assert sizes(cluster) == [16]


def test_decisions_that_come_together_are_two_orders_at_most() -> None:
    cluster = four(boots=False)
    names = [f"web-{number}" for number in range(6)]
    for name in names:
        cluster.deployment(name, 1, status_replicas=1, template=cluster.form())
    for name in names:
        cluster.scaled(name, 3)
    cluster.settle()
    assert sizes(cluster) == [2, 12]


def test_nodes_are_ordered_once_because_of_a_decision_whatever_else_is_decided() -> None:
    """What was ordered for the second of two by name, or was there, is not taken by the first, for which more is ordered then."""
    cluster = four(boots=False)
    cluster.add_node("free")
    for name, cpu in (("a", "3"), ("b", "3100m")):
        cluster.deployment(name, 1, status_replicas=1, template=cluster.form(cpu))
    decisions = []
    for name in ("b", "a"):
        decisions.append(cluster.scaled(name, 3))
        cluster.advance(0.02)
    planned = [(s.decision, s.pods) for plan in cluster.of(p.PlanScaleUp) for s in plan.expected]
    assert planned == [(decisions[0], 1), (decisions[1], 2)]
    assert sizes(cluster) == [1, 3]


def test_decisions_that_come_together_are_two_evaluations_where_there_is_room_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is ordered for them, so that no order says that others have just come."""
    cluster = four(boots=False)
    cluster.add_node("large", cpu=1_000_000, pods=1000)
    names = [f"web-{number}" for number in range(6)]
    for name in names:
        cluster.deployment(name, 1, status_replicas=1, template=cluster.form())
    cluster.settle()
    run: list[float] = []
    whole = Evaluation.run

    def counted(self: Evaluation) -> list[Decision]:
        run.append(self.now)
        return whole(self)

    monkeypatch.setattr(Evaluation, "run", counted)
    for name in names:
        cluster.scaled(name, 3)
    assert len(run) == 1
    cluster.advance(0.02)
    assert len(run) == 2
    assert sizes(cluster) == []


def test_a_decision_to_scale_in_is_no_evaluation_since_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = four(boots=False)
    cluster.deployment("big", 3, template=cluster.form("400"))  # its pods fit nowhere
    cluster.settle()
    monkeypatch.setattr(Evaluation, "run", lambda _: pytest.fail("nothing grows"))
    cluster.scaled("web", 2)


def test_a_decision_that_is_refused_before_anything_was_ordered_orders_nothing() -> None:
    cluster = four()
    cluster.state.last_scale_up = cluster.now
    decision = cluster.scaled("web", 20)
    cluster.tell(o.Rejected(at=cluster.now, decision=decision, reason="Conflict"))
    cluster.settle()
    assert sizes(cluster) == []
    assert cluster.object_events("ExpectedPodsDidNotCome") == []


def test_the_last_decision_counts() -> None:
    cluster = four(boots=False)
    cluster.state.last_scale_up = cluster.now
    cluster.scaled("web", 20)
    cluster.scaled("web", 10)
    cluster.settle()
    assert sizes(cluster) == [6]


def test_nodes_for_a_decision_that_the_next_one_takes_back_are_told_of_and_taken_back() -> None:
    cluster = four(boots=False)
    cluster.scaled("web", 20)
    cluster.advance(0.5)
    assert sizes(cluster) == [16]
    decision = cluster.scaled("web", 4)
    cluster.advance(1)
    (told,) = cluster.object_events("ExpectedPodsDidNotCome")
    assert told.message.endswith(f"and they have not come: it is to have 4 pods by decision {decision}")
    assert cluster.state.foreseen == {}
    assert cluster.groups["g"].target == 0


def test_nodes_for_pods_that_a_decision_wants_no_longer_are_taken_back() -> None:
    cluster = four(boots=False)
    cluster.deployment("web", 10)
    cluster.advance(0.5)
    assert sizes(cluster) == [6]
    cluster.scaled("web", 3)
    cluster.advance(1)
    assert len(cluster.object_events("ExpectedPodsDidNotCome")) == 1
    assert cluster.groups["g"].target == 0


def test_whoever_changes_the_workload_meanwhile_has_the_last_word() -> None:
    cluster = four(boots=False)
    cluster.state.last_scale_up = cluster.now
    cluster.scaled("web", 20)
    cluster.deployment("web", 6)
    cluster.settle()
    assert sizes(cluster) == [2]


def test_a_decision_of_which_nothing_is_ever_seen_is_waited_for_no_longer_than_pods_are() -> None:
    cluster = four(boots=False)
    cluster.scaled("web", 20)
    cluster.advance(120)
    assert len(cluster.object_events("ExpectedPodsDidNotCome")) == 1
    cluster.add_group("h")
    cluster.pod("other", cluster.shape({"cpu": 100}))
    cluster.settle()
    assert sizes(cluster) == [16, 1]  # those sixteen were taken back


def shadowed(cluster: Workloads) -> None:
    cluster.tell(ModesSet(at=cluster.now, services={"autoscaler": "shadow"}))
    cluster.scaled("web", 20)


def recorded_only(cluster: Workloads) -> None:
    cluster.scaled("web", 20, shadow=True)


@pytest.mark.parametrize("play", [shadowed, recorded_only])
def test_an_autoscaler_in_shadow_causes_no_nodes(play: Any) -> None:
    cluster = four()
    play(cluster)
    cluster.settle()
    assert sizes(cluster) == []


def test_with_foresight_by_workloads_decisions_do_not_count() -> None:
    cluster = four({"foresight": "workloads"})
    cluster.scaled("web", 20)
    cluster.settle()
    assert sizes(cluster) == []
    cluster.deployment("web", 20)
    cluster.settle()
    assert sizes(cluster) == [16]


def test_a_decision_to_scale_in_counts_at_once() -> None:
    cluster = four(boots=False)
    cluster.state.last_scale_up = cluster.now
    cluster.deployment("web", 20)
    cluster.scaled("web", 4)
    cluster.settle()
    assert sizes(cluster) == []


def test_what_becomes_of_a_job_hurries_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pods end all the time; only another wish is answered within milliseconds."""
    cluster = four()
    cluster.deployment("big", 3, template=cluster.form("400"))  # which lacks pods all the time
    cluster.workload("Job", "batch", 4, status_replicas=4, completions=100, template=cluster.form())
    cluster.settle()
    run: list[float] = []
    whole = Evaluation.run

    def counted(self: Evaluation) -> list[Decision]:
        run.append(self.now)
        return whole(self)

    monkeypatch.setattr(Evaluation, "run", counted)
    cluster.workload("Job", "batch", 4, status_replicas=3, succeeded=1)
    cluster.advance(0.02)
    assert run == []
    cluster.workload("Job", "batch", 8)
    cluster.advance(0.02)
    assert len(run) == 1
