"""What the reference does not do: order and fairness, gangs that grow, room that is held to account. Spec 8."""

from __future__ import annotations

import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.actuator.requests import stamped
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.decisions import SetStatus
from tidewright.kube.times import rfc3339
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.lifecycle import Candidate, in_order
from tidewright.provisioning.requests.spec import CONSUME

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ZONE = "topology.kubernetes.io/zone"
DAY = 86_400.0


def room(config: dict[str, object], nodes: int = 1) -> Cluster:
    """A cluster of so many nodes of four cores without a group."""
    cluster = Cluster(config)
    for i in range(nodes):
        cluster.add_node(f"n{i}", cpu=4000)
    cluster.template("one", "1")
    cluster.template("three", "3")
    return cluster


def provisioned(cluster: Cluster, name: str) -> bool:
    return cond.is_true(cluster.conditions(name).values(), cond.PROVISIONED)


# --- B6 ---


def test_priority_comes_before_age_and_starvation_before_priority() -> None:
    old = Candidate(name="old", created_at=0.0)
    starving = Candidate(name="starving", created_at=10.0, starving=True)
    urgent = Candidate(name="urgent", created_at=20.0, priority=1000)
    assert [c.name for c in in_order([old, urgent, starving])] == ["starving", "urgent", "old"]


def test_without_starvation_the_higher_priority_wins() -> None:
    cluster = room({"starvation-age": "0s"}, nodes=0)
    cluster.request("a-low", CHECK, [("three", 1)])
    cluster.request("b-high", CHECK, [("three", 1)], {"Priority": "5"})
    cluster.settle()
    cluster.add_node("late", cpu=4000)
    cluster.advance(700)
    assert provisioned(cluster, "b-high")
    assert not provisioned(cluster, "a-low")


def test_namespaces_take_turns_when_they_share_fairly() -> None:
    cluster = room({"fair-share": True}, nodes=0)
    for i in range(4):
        cluster.request(f"r{i}", CHECK, [("one", 2)])
    cluster.tell(p.PodTemplateObserved(at=cluster.now, namespace="other", name="one", template=_pod("1")))
    cluster.tell(
        p.ProvisioningRequestObserved(
            at=cluster.now, namespace="other", name="late", uid="uid-late", generation=1,
            created_at=cluster.now + 1,
            spec={"provisioningClassName": CHECK, "podSets": [{"podTemplateRef": {"name": "one"}, "count": 2}]},
        )
    )  # fmt: skip
    cluster.settle()
    cluster.add_node("late", cpu=4000)
    cluster.advance(700)
    done = [k for k, r in cluster.state.requests.items() if cond.is_true(r.conditions, cond.PROVISIONED)]
    assert done == ["ns/r0", "other/late"]


def _pod(cpu: str) -> dict[str, object]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


@pytest.mark.parametrize(("deadline", "passes"), [("0s", True), ("10m", False)])
def test_a_big_request_at_the_head_may_keep_smaller_ones_from_passing(deadline: str, passes: bool) -> None:
    cluster = room({"head-deadline": deadline})
    cluster.request("big", CHECK, [("three", 4)])
    cluster.settle()
    cluster.advance(1)
    cluster.request("small", CHECK, [("one", 1)])
    cluster.settle()
    assert provisioned(cluster, "small") is passes
    cluster.advance(700)
    assert provisioned(cluster, "small")


# --- B8 ---


def test_an_elastic_gang_goes_on_growing_after_its_minimum() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=2)
    cluster.template("three", "3")
    cluster.request("gang", ATOMIC, [("three", 5)], {"MinCount": "2"})
    cluster.settle()
    assert provisioned(cluster, "gang")
    assert cluster.conditions("gang")["FullyProvisioned"].status == "False"
    cluster.groups[NodeGroupId("workers")].maximum = 4
    cluster.observe_group("workers")
    cluster.advance(120)
    assert cluster.groups[NodeGroupId("workers")].target == 4
    assert cluster.conditions("gang")["FullyProvisioned"].status == "False"
    cluster.groups[NodeGroupId("workers")].maximum = 9
    cluster.observe_group("workers")
    cluster.advance(300)
    assert cluster.groups[NodeGroupId("workers")].target == 5
    assert cluster.conditions("gang")["FullyProvisioned"].status == "True"
    assert provisioned(cluster, "gang")


def test_growth_that_the_cloud_refuses_leaves_what_there_is() -> None:
    cluster = Cluster()
    cluster.add_group("workers", cpu=4000, maximum=2)
    cluster.template("three", "3")
    cluster.request("gang", ATOMIC, [("three", 5)], {"MinCount": "2"})
    cluster.settle()
    cluster.groups[NodeGroupId("workers")].maximum = 9
    cluster.observe_group("workers")
    cluster.refuse["workers"] = "OutOfCapacity"
    cluster.advance(200)
    assert provisioned(cluster, "gang")
    assert cluster.groups[NodeGroupId("workers")].target == 2


@pytest.mark.parametrize(("scope", "sizes"), [("Request", {"a": 0, "b": 0}), ("PodSet", {"a": 2, "b": 2})])
def test_a_topology_may_hold_for_each_pod_set(scope: str, sizes: dict[str, int]) -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.add_group(name, cpu=4000, maximum=2, labels={ZONE: name})
    cluster.template("three", "3")
    parameters = {"Topology": ZONE, "TopologyScope": scope, "AcrossGroups": "true"}
    cluster.request("gang", ATOMIC, [("three", 2), ("three", 2)], parameters)
    cluster.settle()
    assert {name: group.target for name, group in cluster.groups.items()} == sizes
    assert provisioned(cluster, "gang") is (scope == "PodSet")


# --- B10 ---


@pytest.mark.parametrize("cls", [CHECK, ATOMIC])
def test_requests_of_one_moment_share_the_quota_of_their_namespace(cls: str) -> None:
    cluster = room({}, nodes=10)
    cluster.add_group("workers", cpu=4000, maximum=9)
    cluster.tell(
        p.ResourceQuotaObserved(
            at=cluster.now, namespace="ns", name="team", hard={"requests.cpu": 5000}, used={"requests.cpu": 1000}
        )
    )  # fmt: skip
    cluster.request("a", cls, [("three", 1)])
    cluster.request("b", cls, [("three", 1)])
    cluster.settle()
    assert provisioned(cluster, "a")
    assert not provisioned(cluster, "b")
    (event,) = cluster.object_events("CapacityNotFound")
    assert event.message == 'exceeded quota: "team", resources: requests.cpu'
    # Its pod is created: now the quota counts it itself, and what is kept for it is not counted twice.
    shape = cluster.shape({"cpu": 3000})
    cluster.pod("p", shape, node="n0", annotations={CONSUME: "a"})
    cluster.tell(
        p.ResourceQuotaObserved(
            at=cluster.now, namespace="ns", name="team", hard={"requests.cpu": 7000}, used={"requests.cpu": 4000}
        )
    )  # fmt: skip
    cluster.advance(200)
    assert provisioned(cluster, "b")


# --- B12 ---


def test_the_eta_is_when_the_group_comes_back_with_the_time_that_it_took_last() -> None:
    cluster = Cluster({"profile": "hold"})
    cluster.add_group("workers", cpu=4000, maximum=9)
    cluster.template("three", "3")
    cluster.request("first", ATOMIC, [("three", 1)])
    cluster.advance(20)
    boot_s = cluster.state.groups[NodeGroupId("workers")].boot_s
    cluster.refuse["workers"] = "OutOfCapacity"
    cluster.request("second", ATOMIC, [("three", 2)])
    cluster.advance(70)
    back = cluster.state.backoff[NodeGroupId("workers")].until
    message = cluster.conditions("second")["Provisioned"].message
    assert message.endswith(f"ETA: {rfc3339(back + boot_s)}")


# --- B13 ---


def test_room_that_vanishes_is_said_and_revoked_when_it_stays_away() -> None:
    cluster = room({"profile": "hold", "max-node-provision-time": "2m", "booking-duration": "1h"}, nodes=2)
    cluster.request("r", CHECK, [("three", 2)])
    cluster.settle()
    cluster.tell(f.NodeGone(at=cluster.now, name="n1"))
    cluster.settle()
    lost = cluster.conditions("r")["CapacityReady"]
    assert (lost.status, lost.reason, lost.message) == (
        "False",
        "CapacityLost",
        "Room for 1 of its pods is gone",
    )
    assert provisioned(cluster, "r")
    cluster.advance(130)
    revoked = cluster.conditions("r")["CapacityRevoked"]
    assert revoked.status == "True"
    assert revoked.message == "Room for 1 of its pods is gone and was not replaced within 2m0s"
    cluster.request("s", CHECK, [("three", 1)])
    cluster.settle()
    assert provisioned(cluster, "s")


def test_room_that_comes_back_in_time_is_not_revoked() -> None:
    cluster = room({"profile": "hold", "max-node-provision-time": "2m", "booking-duration": "1h"}, nodes=2)
    cluster.request("r", CHECK, [("three", 2)])
    cluster.settle()
    cluster.tell(f.NodeGone(at=cluster.now, name="n1"))
    cluster.advance(60)
    cluster.add_node("n3", cpu=4000)
    cluster.advance(600)
    assert cluster.conditions("r")["CapacityReady"].status == "True"
    assert "CapacityRevoked" not in cluster.conditions("r")


def test_compat_says_nothing_of_room_that_vanished() -> None:
    cluster = room({"max-node-provision-time": "2m"}, nodes=2)
    cluster.request("r", CHECK, [("three", 2)])
    cluster.settle()
    cluster.tell(f.NodeGone(at=cluster.now, name="n1"))
    cluster.advance(300)
    conditions = cluster.conditions("r")
    assert {kind: c.status for kind, c in conditions.items()} == {
        "Accepted": "True",
        "Provisioned": "True",
        "CapacityReady": "True",
    }


# --- B1 ---


def test_every_status_names_the_decision_that_wrote_it() -> None:
    cluster = room({})
    cluster.request("r", CHECK, [("one", 1)])
    cluster.settle()
    for decision in cluster.of(SetStatus):
        assert stamped(decision)["provisioningClassDetails"]["decision"] == decision.id
        assert "decision" not in decision.status.get("provisioningClassDetails", {})
