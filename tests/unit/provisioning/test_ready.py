"""When room that was promised is there: on ready nodes at once, on nodes of others' orders when these come."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.decisions import RecordObjectEvent, SetStatus
from tidewright.kube.keys import request_key
from tidewright.provisioning.requests.spec import CONSUME

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
CLASSES = pytest.mark.parametrize("cls", [CHECK, ATOMIC])


def leaning(cls: str, config: dict[str, object] | None = None) -> Cluster:
    """Request `b` has found room on the node that was ordered for `a`, and that is not there yet."""
    cluster = Cluster(config, boots=False)
    cluster.add_group("workers", cpu=8000, maximum=20)
    cluster.template("four", "4")
    cluster.template("three", "3")
    cluster.request("a", ATOMIC, [("four", 1)])
    cluster.settle()
    cluster.request("b", cls, [("three", 1)])
    cluster.settle()
    return cluster


@CLASSES
def test_room_on_nodes_that_are_ready_is_ready_at_once(cls: str) -> None:
    cluster = Cluster()
    cluster.add_node("n1")
    cluster.template("three", "3")
    cluster.request("r", cls, [("three", 1)])
    cluster.settle()
    ready = cluster.conditions("r")["CapacityReady"]
    assert (ready.status, ready.reason) == ("True", "NodesReady")
    assert ready.message == "All its pods fit on nodes that are ready"
    assert cluster.conditions("r")["Provisioned"].reason == "CapacityIsFound"


def test_the_place_in_the_queue_is_told_while_a_request_waits() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=1)
    cluster.template("three", "3")
    for name in ("r", "s"):
        cluster.request(name, ATOMIC, [("three", 2)])
    cluster.settle()
    places = [cluster.statuses[f"ns/{name}"]["provisioningClassDetails"] for name in ("r", "s")]
    assert places == [{"queue-position": "0"}, {"queue-position": "1"}]
    cluster.groups["workers"].maximum = 2
    cluster.observe_group("workers")
    cluster.advance(70)
    assert {*cluster.statuses["ns/r"]["provisioningClassDetails"]} == {"reservation"}


def told(cluster: Cluster, name: str) -> list[str]:
    return [e.reason for e in cluster.of(RecordObjectEvent) if e.target.name == name]


def test_each_step_of_a_request_is_told_by_an_event() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=0)
    shape = cluster.shape({"cpu": 3000})
    cluster.template("three", "3")
    cluster.request("r", ATOMIC, [("three", 1)])
    cluster.advance(1000)  # every attempt comes to the same
    assert told(cluster, "r") == ["Accepted", "CapacityNotFound"]
    cluster.groups["workers"].maximum = 1
    cluster.groups["workers"].template = p.TemplateNode(allocatable={"cpu": 2000, "memory": 2**30, "pods": 9})
    cluster.observe_group("workers")
    cluster.advance(1000)
    assert told(cluster, "r")[2:] == ["CapacityNotFound"]  # for another reason
    cluster.groups["workers"].template = p.TemplateNode(allocatable={"cpu": 4000, "memory": 2**30, "pods": 9})
    cluster.observe_group("workers")
    cluster.advance(650)
    assert told(cluster, "r")[3:] == ["ScaleUpRequested"]
    cluster.pod("p", shape, node="workers-new-1", annotations={CONSUME: "r"})
    cluster.settle()
    assert told(cluster, "r")[4:] == ["BookingExpired"]


@CLASSES
def test_room_on_coming_nodes_is_provisioned_now_and_ready_when_they_are(cls: str) -> None:
    cluster = leaning(cls)
    assert cluster.conditions("b")["Provisioned"].reason == "CapacityIsFound"
    assert "CapacityReady" not in cluster.conditions("b")
    (attempt,) = [d for d in cluster.of(p.AttemptRequest) if d.name == "b"]
    assert attempt.awaits == ("workers",)
    cluster.boot("workers")
    cluster.advance(15)
    assert cluster.conditions("b")["CapacityReady"].status == "True"
    assert len(cluster.of(p.PlanScaleUp)) == 1


@CLASSES
def test_in_hold_room_on_coming_nodes_is_provisioned_when_they_are_ready(cls: str) -> None:
    cluster = leaning(cls, {"profile": "hold"})
    waits = cluster.conditions("b")["Provisioned"]
    assert (waits.status, waits.reason) == ("False", "NodesNotReady")
    cluster.advance(300)
    assert cluster.conditions("b")["Provisioned"].status == "False"
    cluster.boot("workers")
    cluster.advance(15)
    found = cluster.conditions("b")
    assert (found["Provisioned"].status, found["Provisioned"].reason) == ("True", "CapacityIsFound")
    assert found["CapacityReady"].status == "True"
    assert len(cluster.of(p.PlanScaleUp)) == 1
    cluster.advance(620)
    assert cluster.conditions("b")["BookingExpired"].status == "True"


@pytest.mark.parametrize("profile", ["compat", "hold"])
def test_coming_nodes_that_never_come_are_told_to_all_who_found_room_on_them(profile: str) -> None:
    cluster = leaning(ATOMIC, {"profile": profile})
    cluster.groups["workers"].instances = []
    cluster.observe_group("workers")
    cluster.advance(905)
    found = cluster.conditions("b")
    assert found["CapacityReady"].status == "False"
    assert "b" in {event.target.name for event in cluster.object_events("CapacityNotReady")}
    assert found["Provisioned"].status == ("True" if profile == "compat" else "False")


def test_a_request_whose_coming_room_was_taken_back_with_anothers_order_is_told() -> None:
    cluster = leaning(ATOMIC)
    cluster.delete_request("a")
    cluster.advance(15)
    assert cluster.groups["workers"].target == 0
    assert cluster.conditions("b")["CapacityReady"].status == "False"


def test_in_hold_it_looks_for_other_room_when_its_coming_room_was_taken_back() -> None:
    cluster = leaning(ATOMIC, {"profile": "hold"})
    cluster.delete_request("a")
    cluster.advance(120)
    assert [plan.request for plan in cluster.of(p.PlanScaleUp)] == ["ns/a", "ns/b"]
    cluster.boot("workers")
    cluster.advance(15)
    assert cluster.conditions("b")["Provisioned"].status == "True"
    assert cluster.conditions("b")["CapacityReady"].status == "True"


def test_a_part_on_coming_nodes_and_a_part_on_ordered_ones_is_ready_when_both_are() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("first", cpu=8000, maximum=1)
    cluster.template("four", "4")
    cluster.request("a", ATOMIC, [("four", 1)])
    cluster.settle()
    cluster.add_group("second", cpu=8000, maximum=1)
    cluster.request("b", ATOMIC, [("four", 3)])
    cluster.settle()
    assert cluster.conditions("b")["Provisioned"].reason == "CapacityIsProvisioned"
    cluster.boot("second")
    cluster.advance(15)
    assert "CapacityReady" not in cluster.conditions("b")
    cluster.boot("first")
    cluster.advance(15)
    assert cluster.conditions("b")["CapacityReady"].status == "True"


def test_in_hold_the_time_to_try_is_not_over_while_ordered_nodes_boot() -> None:
    cluster = Cluster({"profile": "hold"}, boots=False)
    cluster.add_group("workers", cpu=8000, maximum=20)
    cluster.template("four", "4")
    cluster.request("a", ATOMIC, [("four", 1)], {"ValidUntilSeconds": "30"})
    cluster.advance(60)
    assert "Failed" not in cluster.conditions("a")
    cluster.boot("workers")
    cluster.advance(15)
    assert cluster.conditions("a")["Provisioned"].status == "True"
    assert "Failed" not in cluster.conditions("a")


def test_a_group_that_fails_is_asked_for_nothing_more_in_the_same_evaluation() -> None:
    cluster = leaning(ATOMIC)
    group = cluster.groups["workers"]
    group.instances[0] = msgspec.structs.replace(group.instances[0], error_class=1, error_code="StockOut")
    cluster.observe_group("workers")
    cluster.request("c", ATOMIC, [("four", 2)], {"noRetry": "true"})
    cluster.settle()
    (attempt,) = [d for d in cluster.of(p.AttemptRequest) if d.name == "c"]
    assert {v.group: v.reason for v in attempt.verdicts} == {"workers": "in backoff after failed scale-up"}
    assert [plan.request for plan in cluster.of(p.PlanScaleUp)] == ["ns/a"]


def test_an_order_that_fails_is_a_failed_attempt_and_the_waits_go_on_growing() -> None:
    cluster = Cluster({"initial-node-group-backoff-duration": "1s", "max-node-group-backoff-duration": "1s"})
    cluster.add_group("workers", cpu=4000, maximum=0)
    cluster.template("three", "3")
    cluster.request("r", ATOMIC, [("three", 1)])
    cluster.advance(200)
    cluster.groups["workers"].maximum = 5
    cluster.refuse["workers"] = "Forbidden"
    cluster.observe_group("workers")
    cluster.advance(3000)
    tries = [d.at for d in cluster.of(p.AttemptRequest)]
    waits = [round((after - before) / 60) for before, after in pairwise(tries)]
    assert waits[:6] == [1, 2, 4, 8, 10, 10]


def test_conditions_of_other_writers_are_followed_and_never_written() -> None:
    cluster = Cluster()
    cluster.add_group("workers", maximum=0)
    cluster.template("four", "4")
    for status in ("False", "True"):
        theirs = {"type": "Approved", "status": status, "reason": "Boss", "message": "so"}
        cluster.request("r", ATOMIC, [("four", 1)], status={"conditions": [theirs]})
        cluster.advance(120)
        approved = next(
            c for c in cluster.state.requests[request_key("ns", "r")].conditions if c.type == "Approved"
        )
        assert approved.status == status
    written = [c["type"] for d in cluster.of(SetStatus) for c in d.status["conditions"]]
    assert {*written} == {"Accepted", "Provisioned"}
    assert {d.apply_as for d in cluster.of(SetStatus)} == {"cluster-autoscaler"}


def test_a_status_that_was_written_whole_tells_nothing_of_others() -> None:
    cluster = Cluster()
    cluster.add_group("workers", maximum=0)
    cluster.template("four", "4")
    theirs = {"type": "Approved", "status": "True", "reason": "Boss", "message": "so"}
    cluster.request("r", ATOMIC, [("four", 1)], status={"conditions": [theirs]})
    cluster.settle()
    status = cluster.of(SetStatus)[-1]
    whole = {"conditions": [*status.status["conditions"], {**theirs, "status": "False"}]}
    cluster.tell(msgspec.structs.replace(status, status=whole))
    found = [
        c.status for c in cluster.state.requests[request_key("ns", "r")].conditions if c.type == "Approved"
    ]
    assert found == ["True"]
