"""The decider from facts to orders, with a played cloud: spec sections 2, 3 and 8."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.decisions import DeleteObject, RecordObjectEvent, SetStatus
from tidewright.events.facts import PodObserved
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.requests.spec import CONSUME
from tidewright.provisioning.state import State

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
GIB = 2**30
DAY = 86_400.0


def test_a_burst_of_pods_is_decided_once() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=8000, maximum=500)
    shape = cluster.shape({"cpu": 2000})
    for i in range(800):
        cluster.pod(f"p{i}", shape)
        cluster.now += 0.0005
    cluster.settle()
    orders = cluster.of(p.IncreaseNodeGroup)
    assert [(d.from_size, d.size) for d in orders] == [(0, 200)]
    assert cluster.groups["workers"].target == 200
    assert len(cluster.object_events("TriggeredScaleUp")) == 50


def test_a_burst_that_the_scheduler_works_through_slowly_is_decided_once() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=8000, maximum=500)
    shape = cluster.shape({"cpu": 2000})
    told = [PodObserved(at=cluster.now, namespace="ns", name=f"p{i}", shape=shape) for i in range(80)]
    for pod in told:
        cluster.tell(pod)
    for i in range(80):
        cluster.advance(0.01 if i % 8 else 0.08)  # longer than the quiet window now and then
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert [(d.from_size, d.size) for d in cluster.of(p.IncreaseNodeGroup)] == [(0, 20)]


def test_pods_that_no_scheduler_tries_hold_up_nothing() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=8000, maximum=500)
    shape = cluster.shape({"cpu": 2000})
    cluster.tell(PodObserved(at=cluster.now, namespace="ns", name="gated", shape=shape))
    cluster.advance(60)
    cluster.pod("p", shape)
    cluster.advance(0.1)
    assert len(cluster.of(p.IncreaseNodeGroup)) == 1


def test_pods_that_fit_order_nothing() -> None:
    cluster = Cluster()
    cluster.add_group("workers", target=1)
    cluster.add_node("n1", "workers")
    shape = cluster.shape({"cpu": 1000})
    for i in range(4):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    assert cluster.of(p.PlanScaleUp) == []


def test_an_evaluation_after_an_order_orders_nothing_more() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("workers", cpu=10_000, maximum=50)
    for i, cpu in enumerate((6000, 4000, 3000, 7000, 5000, 5000, 2000, 8000)):
        cluster.pod(f"p{i}", cluster.shape({"cpu": cpu}))
    cluster.settle()
    assert len(cluster.of(p.PlanScaleUp)) == 1
    cluster.advance(120)
    cluster.observe_group("workers")
    cluster.settle()
    assert len(cluster.of(p.PlanScaleUp)) == 1


def test_an_atomic_request_of_150_nodes_goes_through_in_one_order() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=200)
    cluster.template("worker", "3500m")
    cluster.request("train", ATOMIC, [("worker", 150)])
    cluster.settle()
    assert [(d.from_size, d.size) for d in cluster.of(p.IncreaseNodeGroup)] == [(0, 150)]
    conditions = cluster.conditions("train")
    assert conditions["Accepted"].status == "True"
    assert conditions["Provisioned"].status == "True"
    assert conditions["Provisioned"].reason == "CapacityIsProvisioned"
    assert conditions["Provisioned"].message == "Capacity is found in the cluster"
    cluster.advance(30)
    assert cluster.conditions("train")["CapacityReady"].status == "True"
    cluster.advance(601)
    expired = cluster.conditions("train")["BookingExpired"]
    assert (expired.status, expired.reason) == ("True", "CapacityReservationTimeExpired")


def test_unused_nodes_of_a_request_go_when_booking_and_patience_are_over() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=20)
    cluster.template("worker", "3500m")
    cluster.request("train", ATOMIC, [("worker", 5)])
    cluster.advance(1000)
    assert cluster.groups["workers"].target == 5
    cluster.advance(600)
    assert cluster.groups["workers"].target == 0
    assert cluster.state.nodes == {}


def test_all_or_nothing_takes_back_what_was_ordered_when_one_group_fails() -> None:
    cluster = Cluster({"balance-similar-node-groups": True}, boots=False)
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.add_group("b", cpu=4000, maximum=10)
    cluster.refuse["b"] = "OutOfCapacity"
    cluster.template("worker", "3500m")
    cluster.request("train", ATOMIC, [("worker", 10)])
    cluster.settle()
    assert {d.target.name for d in cluster.of(p.IncreaseNodeGroup)} >= {"a", "b"}
    assert cluster.of(p.DecreaseNodeGroup)[0].target.name == "a"
    assert cluster.groups["a"].target == 0
    assert cluster.groups["b"].target == 0
    assert cluster.conditions("train")["Provisioned"].status == "False"
    backed_off = [d for d in cluster.of(p.BackOffGroup) if d.group == "b"]
    assert backed_off[0].error_class == 1
    assert backed_off[0].until == pytest.approx(cluster.now + 300, abs=5)
    told = {e.target.kind: e.message for e in cluster.object_events("ScaleUpReverted")}
    assert told["ProvisioningRequest"].startswith("what was ordered beside what failed is taken back: ")
    assert "that had not come are taken back" in told["ConfigMap"]


def test_the_rejected_request_is_tried_again_after_a_minute_on_what_is_left() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.add_group("b", cpu=4000, maximum=10)
    cluster.refuse["a"] = cluster.refuse["b"] = "OutOfCapacity"
    cluster.template("worker", "3500m")
    cluster.request("train", ATOMIC, [("worker", 3)])
    cluster.settle()
    cluster.refuse.clear()
    assert len(cluster.of(p.AttemptRequest)) == 1
    cluster.advance(57)
    assert len(cluster.of(p.AttemptRequest)) == 1
    cluster.advance(5)
    assert len(cluster.of(p.AttemptRequest)) == 2
    assert cluster.conditions("train")["Provisioned"].status == "True"


def test_two_check_requests_compete_for_the_same_room() -> None:
    cluster = Cluster()
    for i in range(4):
        cluster.add_node(f"n{i}")
    cluster.template("worker", "1500m")
    cluster.request("first", CHECK, [("worker", 6)])
    cluster.now += 1
    cluster.request("second", CHECK, [("worker", 6)])
    cluster.settle()
    assert cluster.conditions("first")["Provisioned"].status == "True"
    second = cluster.conditions("second")["Provisioned"]
    assert (second.status, second.reason) == ("False", "CapacityIsNotFound")
    assert second.message == "Capacity is not found, CA will try to find it later."
    cluster.delete_request("first")
    cluster.advance(65)
    assert cluster.conditions("second")["Provisioned"].status == "True"


def test_check_requests_wait_1_2_4_8_10_10_minutes() -> None:
    cluster = Cluster()
    cluster.template("worker", "1500m")
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.advance(3000)
    tries = [d.at for d in cluster.of(p.AttemptRequest)]
    waits = [round(b - a) for a, b in pairwise(tries)]
    assert waits[:6] == [60, 120, 240, 480, 600, 600]


def test_no_retry_fails_for_good() -> None:
    cluster = Cluster()
    cluster.template("worker", "1500m")
    cluster.request("r", CHECK, [("worker", 1)], {"noRetry": "true"})
    cluster.advance(3600)
    conditions = cluster.conditions("r")
    assert conditions["Failed"].message == "CA could not find requested capacity"
    assert "Provisioned" not in conditions
    assert len(cluster.of(p.AttemptRequest)) == 1


def test_cancelling_during_the_increase_takes_back_what_has_not_come() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("workers", cpu=4000, maximum=20)
    cluster.template("worker", "3500m")
    cluster.request("train", ATOMIC, [("worker", 8)])
    cluster.settle()
    cluster.boot("workers", 3)
    cluster.settle()
    assert cluster.groups["workers"].target == 8
    cluster.delete_request("train")
    assert cluster.groups["workers"].target == 3
    cluster.settle()
    assert "ns/train" not in cluster.state.requests
    assert len(cluster.of(p.PlanScaleUp)) == 1


def test_cancelling_leaves_the_orders_of_others_alone() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("workers", cpu=4000, maximum=20)
    cluster.template("worker", "3500m")
    cluster.request("one", ATOMIC, [("worker", 4)])
    cluster.settle()
    cluster.request("two", ATOMIC, [("worker", 5)])
    cluster.settle()
    assert cluster.groups["workers"].target == 9
    cluster.delete_request("one")
    assert cluster.groups["workers"].target == 5


def test_requests_of_other_classes_are_not_touched() -> None:
    cluster = Cluster()
    cluster.template("worker", "1")
    cluster.request("foreign", "queued-provisioning.gke.io", [("worker", 1)])
    cluster.advance(20 * DAY)
    assert cluster.of(SetStatus) == []
    assert cluster.of(DeleteObject) == []


def test_a_template_may_come_a_little_late() -> None:
    cluster = Cluster()
    cluster.add_node("n1")
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.advance(1)
    cluster.template("worker", "1")
    cluster.settle()
    assert cluster.conditions("r")["Provisioned"].status == "True"


def test_a_template_that_does_not_come_fails_the_request() -> None:
    cluster = Cluster()
    cluster.template("there", "1")
    cluster.request("r", CHECK, [("there", 1), ("b", 2), ("b", 3)])
    cluster.advance(5)
    failed = cluster.conditions("r")["Failed"]
    assert failed.reason == "FailedToCreatePods"
    assert failed.message == (
        "missing pod templates, 3 pod templates were referenced, 2 templates were missing: b,b"
    )


def test_a_template_changed_after_acceptance_changes_nothing() -> None:
    cluster = Cluster()
    cluster.template("worker", "3")
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.settle()
    cluster.template("worker", "100")
    cluster.add_node("n1")
    cluster.advance(70)
    assert cluster.conditions("r")["Provisioned"].status == "True"


def test_parameters_added_later_are_ignored() -> None:
    cluster = Cluster()
    cluster.template("worker", "3")
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.settle()
    cluster.request("r", CHECK, [("worker", 1)], {"noRetry": "true"})
    cluster.advance(200)
    assert "Failed" not in cluster.conditions("r")


def test_an_unprovisioned_request_expires_and_is_collected() -> None:
    cluster = Cluster()
    cluster.template("worker", "3")
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.advance(7 * DAY + 60)
    failed = cluster.conditions("r")["Failed"]
    assert (failed.reason, failed.message) == ("Expired", "ProvisioningRequest is expired")
    assert cluster.of(DeleteObject) == []
    cluster.advance(7 * DAY + 60)
    assert [d.target.name for d in cluster.of(DeleteObject)][:1] == ["r"]


def test_valid_until_seconds_ends_a_request() -> None:
    cluster = Cluster()
    cluster.template("worker", "3")
    cluster.request("r", CHECK, [("worker", 1)], {"ValidUntilSeconds": "90m"})
    cluster.advance(90 * 60 + 10)
    assert cluster.conditions("r")["Failed"].reason == "Expired"


def test_a_late_increase_is_taken_back_by_what_is_missing() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("workers", cpu=4000, maximum=20)
    shape = cluster.shape({"cpu": 3500})
    for i in range(4):
        cluster.pod(f"p{i}", shape)
    cluster.settle()
    cluster.groups["workers"].instances = cluster.groups["workers"].instances[:2]
    cluster.boot("workers", 2)
    for i in range(2):
        cluster.pod(f"p{i}", shape, node=f"workers-new-{i + 1}")
    cluster.advance(910)
    assert [d.code for d in cluster.of(p.BackOffGroup)] == ["timeout"]
    assert [(d.from_size, d.size) for d in cluster.of(p.DecreaseNodeGroup)] == [(4, 2)]
    assert len(cluster.object_events("ScaleUpTimedOut")) == 1
    assert cluster.groups["workers"].target == 2


def test_instances_that_cannot_be_created_are_deleted_and_the_group_backs_off() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("cheap", cpu=4000, maximum=20)
    cluster.add_group("dear", cpu=8000, maximum=20)
    shape = cluster.shape({"cpu": 3500, "memory": 15 * GIB})
    cluster.pod("p0", shape)
    cluster.settle()
    assert [d.target.name for d in cluster.of(p.IncreaseNodeGroup)] == ["cheap"]
    stuck = cluster.groups["cheap"].instances[0]
    cluster.groups["cheap"].instances = [
        p.Instance(id=stuck.id, state="creating", error_class=1, error_code="STOCKOUT")
    ]
    cluster.observe_group("cheap")
    cluster.settle()
    assert [d.instances for d in cluster.of(p.DeleteInstances)] == [(stuck.id,)]
    assert cluster.groups["cheap"].target == 0
    assert [d.target.name for d in cluster.of(p.IncreaseNodeGroup)] == ["cheap", "dear"]


def test_consumers_cause_no_increase_and_are_told_once() -> None:
    cluster = Cluster()
    cluster.add_group("workers", maximum=20)
    shape = cluster.shape({"cpu": 3500})
    annotations = {"autoscaling.x-k8s.io/consume-provisioning-request": "absent"}
    cluster.pod("p0", shape, annotations=annotations)
    cluster.advance(100)
    assert cluster.of(p.PlanScaleUp) == []
    told = [d for d in cluster.of(RecordObjectEvent) if d.target.kind == "Pod"]
    assert [d.message for d in told] == [
        "Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest ns/absent"
    ]


def test_booking_ends_when_all_consumers_have_a_node() -> None:
    cluster = Cluster()
    for i in range(2):
        cluster.add_node(f"n{i}")
    cluster.template("worker", "3")
    cluster.request("r", CHECK, [("worker", 2)])
    cluster.settle()
    shape = cluster.shape({"cpu": 3000, "memory": 2**20})
    annotations = {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}
    cluster.pod("c0", shape, node="n0", annotations=annotations)
    cluster.settle()
    assert "BookingExpired" not in cluster.conditions("r")
    cluster.pod("c1", shape, node="n1", annotations=annotations)
    cluster.settle()
    assert cluster.conditions("r")["BookingExpired"].reason == "CapacityBookingConsumed"


def test_a_pod_that_no_group_can_take_is_told_why_once() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000)
    cluster.pod("big", cluster.shape({"cpu": 100_000}))
    cluster.advance(300)
    told = cluster.object_events("NotTriggerScaleUp")
    assert [d.message for d in told] == ["pod didn't trigger scale-up: 1 Insufficient cpu"]
    assert len(cluster.of(p.DeclineScaleUp)) == 1


def test_several_groups_serve_one_burst_in_one_plan() -> None:
    cluster = Cluster()
    cluster.add_group("cpu", cpu=8000, maximum=20)
    cluster.add_group("gpu", cpu=4000, maximum=20, more={"nvidia.com/gpu": 1})
    for i in range(4):
        cluster.pod(f"c{i}", cluster.shape({"cpu": 6000}))
        cluster.pod(f"g{i}", cluster.shape({"cpu": 1000, "nvidia.com/gpu": 1}))
    cluster.settle()
    plans = cluster.of(p.PlanScaleUp)
    assert len(plans) == 1
    assert {i.group: i.size for i in plans[0].increases} == {"cpu": 4, "gpu": 4}


def test_a_gang_over_several_groups_needs_the_users_word() -> None:
    def run(parameters: dict[str, str]) -> Cluster:
        cluster = Cluster()
        cluster.add_group("cpu", cpu=8000, maximum=20)
        cluster.add_group("gpu", cpu=4000, maximum=20, more={"nvidia.com/gpu": 1})
        cluster.template("c", "6")
        cluster.tell(
            p.PodTemplateObserved(
                at=cluster.now,
                namespace="ns",
                name="g",
                template={
                    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
                },
            )
        )
        cluster.request("gang", ATOMIC, [("c", 2), ("g", 3)], parameters)
        cluster.settle()
        return cluster

    assert run({}).conditions("gang")["Provisioned"].status == "False"
    spread = run({"AcrossGroups": "true"})
    assert {n: g.target for n, g in spread.groups.items()} == {"cpu": 2, "gpu": 3}
    assert spread.conditions("gang")["Provisioned"].status == "True"


def test_a_topology_keeps_a_gang_in_one_zone() -> None:
    cluster = Cluster()
    zone = "topology.kubernetes.io/zone"
    cluster.add_group("a", maximum=3, labels={zone: "a"})
    cluster.add_group("b", maximum=9, labels={zone: "b"})
    cluster.template("worker", "3500m")
    cluster.request("gang", ATOMIC, [("worker", 5)], {"Topology": zone})
    cluster.settle()
    assert {n: g.target for n, g in cluster.groups.items()} == {"a": 0, "b": 5}


def test_a_minimum_count_is_enough_for_an_elastic_gang() -> None:
    cluster = Cluster()
    cluster.add_group("a", maximum=4)
    cluster.template("worker", "3500m")
    cluster.request("gang", ATOMIC, [("worker", 8)], {"MinCount": "3"})
    cluster.settle()
    assert cluster.groups["a"].target == 3
    assert cluster.conditions("gang")["Provisioned"].status == "True"


def test_the_namespaces_quota_is_looked_at_before_ordering() -> None:
    cluster = Cluster()
    cluster.add_group("a", maximum=40)
    cluster.tell(
        p.ResourceQuotaObserved(
            at=cluster.now, namespace="ns", name="team", hard={"requests.cpu": 9000}, used={}
        )
    )
    cluster.template("worker", "3500m")
    cluster.request("gang", ATOMIC, [("worker", 8)])
    cluster.settle()
    assert cluster.of(p.PlanScaleUp) == []
    reason = cluster.of(p.AttemptRequest)[0].because[0]
    assert reason.values["quota"] == 'exceeded quota: "team", resources: requests.cpu'


def test_a_dry_run_answers_and_orders_nothing() -> None:
    cluster = Cluster()
    cluster.add_group("a", maximum=40, price_micro=250_000)
    cluster.template("worker", "3500m")
    cluster.request("r", ATOMIC, [("worker", 8)], annotations={"tidewright.dev/dry-run": "true"})
    cluster.settle()
    assert cluster.of(p.PlanScaleUp) == []
    details = cluster.statuses["ns/r"]["provisioningClassDetails"]
    assert details["would-scale-up"] == "a:+8"
    assert details["would-cost"] == "2.0000"


def test_a_group_is_made_for_pods_that_none_can_hold_and_removed_when_empty() -> None:
    machine = {"name": "big", "resources": {"cpu": 64_000, "memory": 2**38}}
    cluster = Cluster({"machine-types": [machine]})
    cluster.add_group("small", cpu=4000, maximum=4)
    cluster.pod("p0", cluster.shape({"cpu": 60_000}))
    cluster.settle()
    assert [d.machine_type for d in cluster.of(p.CreateNodeGroup)] == ["big"]
    assert cluster.groups["autoprovisioned-big"].target == 1
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="p0"))
    cluster.advance(2000)
    assert cluster.groups["autoprovisioned-big"].target == 0
    assert [d.target.name for d in cluster.of(p.DeleteNodeGroup)][:1] == ["autoprovisioned-big"]


def test_hold_says_provisioned_when_nodes_are_ready() -> None:
    cluster = Cluster({"profile": "hold"}, boots=False)
    cluster.add_group("workers", maximum=20)
    cluster.template("worker", "3500m")
    cluster.request("r", ATOMIC, [("worker", 3)])
    cluster.advance(60)
    waits = cluster.conditions("r")["Provisioned"]
    assert (waits.status, waits.reason) == ("False", "NodesNotReady")
    assert waits.message == "Nodes are ordered and not ready yet."
    cluster.boot("workers")
    cluster.advance(15)
    assert cluster.conditions("r")["Provisioned"].reason == "CapacityIsProvisioned"
    assert cluster.conditions("r")["CapacityReady"].status == "True"


def test_hold_tells_when_the_next_attempt_is() -> None:
    cluster = Cluster({"profile": "hold"})
    cluster.template("worker", "3500m")
    cluster.request("r", CHECK, [("worker", 3)])
    cluster.settle()
    assert " ETA: 20" in cluster.conditions("r")["Provisioned"].message


def test_nodes_that_never_come_make_capacity_not_ready() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("workers", maximum=20)
    cluster.template("worker", "3500m")
    cluster.request("r", ATOMIC, [("worker", 3)])
    cluster.advance(5)
    cluster.groups["workers"].instances = []
    cluster.observe_group("workers")
    cluster.advance(920)
    conditions = cluster.conditions("r")
    assert conditions["CapacityReady"].status == "False"
    assert conditions["Provisioned"].status == "True"
    assert cluster.groups["workers"].target == 0


def test_a_repeated_fact_and_a_late_outcome_change_nothing() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("workers", maximum=20)
    shape = cluster.shape({"cpu": 3500})
    cluster.pod("p0", shape)
    cluster.settle()
    order = cluster.of(p.IncreaseNodeGroup)[0]
    said = len(cluster.said)
    cluster.tell(o.Applied(at=cluster.now, decision=order.id, found=True))
    cluster.tell(o.Rejected(at=cluster.now, decision=order.id, reason="OutOfCapacity"))
    cluster.pod("p0", shape)
    cluster.observe_group("workers")
    cluster.advance(60)
    plans = [d for d in cluster.said[said:] if isinstance(d, p.PlanScaleUp | p.BackOffGroup)]
    assert plans == []


def test_a_snapshot_in_the_middle_changes_no_decision() -> None:
    def run(cut: int | None) -> list[bytes]:
        cluster = Cluster(boots=False)
        cluster.add_group("workers", maximum=20)
        cluster.add_node("n0", "workers")
        cluster.template("worker", "3500m")
        shape = cluster.shape({"cpu": 3000})
        for step in range(12):
            if step == cut:
                body = msgspec.json.encode(cluster.fold.state)
                cluster.fold.state = msgspec.json.decode(body, type=State)
            if step % 3 == 0:
                cluster.request(f"r{step}", ATOMIC, [("worker", step % 4 + 1)])
            elif step % 3 == 1:
                cluster.pod(f"p{step}", shape)
            else:
                cluster.advance(40)
                cluster.boot("workers", 1)
        cluster.advance(1000)
        return [registry.encode(d) for d in cluster.said]

    whole = run(None)
    assert any(b"plan-scale-up" in body for body in whole)
    for cut in (1, 4, 7, 10):
        assert run(cut) == whole


def test_the_decider_names_one_partition_and_its_kinds() -> None:
    assert DECIDER.service == "provisioning"
    assert {"pod", "node", "nodegroup", "provisioningrequest", "podtemplate"} <= DECIDER.kinds


@pytest.mark.parametrize("finished", [True, False])
def test_a_node_that_its_last_pod_leaves_goes_without_any_other_event(finished: bool) -> None:
    cluster = Cluster({"scale-down-unneeded-time": "60s", "scale-down-delay-after-add": "0s"})
    cluster.add_group("workers")
    shape = cluster.shape({"cpu": 3000})
    cluster.pod("p", shape)
    cluster.settle()
    (node,) = cluster.state.nodes
    cluster.pod("p", shape, node=node)
    cluster.advance(300)
    assert cluster.groups["workers"].target == 1
    if finished:
        done = f.PodObserved(
            at=cluster.now, namespace="ns", name="p", uid="uid-p", shape=shape, phase="Succeeded", node=node
        )
        cluster.tell(done)
    else:
        cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="p"))
    cluster.advance(70)
    assert cluster.groups["workers"].target == 0


def test_an_order_that_could_not_be_taken_back_is_told() -> None:
    cluster = Cluster({"max-node-provision-time": "1m"}, boots=False)
    cluster.add_group("g")
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.settle()
    cluster.silent = True
    cluster.advance(120)
    [decrease] = cluster.of(p.DecreaseNodeGroup)
    cluster.tell(o.Failed(at=cluster.now, decision=decrease.id, reason="Unavailable", message="no answer"))
    [told] = cluster.object_events("FailedToRevertScaleUp")
    assert told.message == "Failed to decrease target size for group g after scale-up timeout: no answer"


def test_a_consumer_of_a_request_without_a_name_causes_no_increase() -> None:
    cluster = Cluster()
    cluster.add_group("g")
    cluster.pod("p", cluster.shape({"cpu": 3000}), annotations={CONSUME: ""})
    cluster.settle()
    assert not cluster.of(p.IncreaseNodeGroup)
    assert len(cluster.object_events("NotTriggerScaleUp")) == 1
