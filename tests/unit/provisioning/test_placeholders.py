"""[B2] in the profile `hold`: room that other pods cannot take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision
from tidewright.events.decisions import CreateObject, DeleteObject
from tidewright.kube.keys import PodKey, name_of
from tidewright.kube.podspecs import of_template
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.requests.booking import room_kept
from tidewright.provisioning.requests.spec import CONSUME
from tidewright.provisioning.requests.work import RequestWork
from tidewright.provisioning.state import RESERVED
from tidewright.provisioning.unanswered import HoldOrder

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


def hold(nodes: int = 2, **more: Any) -> Cluster:
    cluster = Cluster({"profile": "hold", "namespace": "system", **more})
    for i in range(nodes):
        cluster.add_node(f"n{i}", cpu=4000)
    cluster.template("three", "3")
    return cluster


def holding(cluster: Cluster) -> list[str]:
    """Nodes on which placeholders are."""
    return sorted(pod.node for key, pod in cluster.state.pods.items() if key.startswith("system/"))


def consumer(cluster: Cluster, name: str, node: str = "") -> None:
    shape = cluster.shape({"cpu": 3000})
    cluster.pod(name, shape, node=node, annotations={CONSUME: "r"})


def test_room_is_held_where_it_was_found_and_freed_pod_by_pod_as_consumers_come() -> None:
    cluster = hold()
    cluster.request("r", CHECK, [("three", 2)])
    cluster.settle()
    assert holding(cluster) == ["n0", "n1"]
    (made, _) = cluster.of(CreateObject)
    pod = of_template({"metadata": {}, "spec": made.manifest["spec"]}, "system")
    assert pod.requests["cpu"] == 3000
    consumer(cluster, "p0")
    cluster.settle()
    assert len(holding(cluster)) == 1
    free = ({"n0", "n1"} - set(holding(cluster))).pop()
    consumer(cluster, "p0", free)
    cluster.settle()
    assert len(holding(cluster)) == 1
    consumer(cluster, "p1")
    cluster.settle()
    assert holding(cluster) == []
    consumer(cluster, "p1", ({"n0", "n1"} - {free}).pop())
    cluster.settle()
    assert cluster.conditions("r")["BookingExpired"].reason == "CapacityBookingConsumed"
    assert "CapacityRevoked" not in cluster.conditions("r")
    assert cluster.state.held == {}


@pytest.mark.parametrize("end", ["expiry", "deletion"])
def test_the_end_of_a_booking_frees_all_of_it(end: str) -> None:
    cluster = hold()
    cluster.request("r", CHECK, [("three", 2)])
    cluster.settle()
    if end == "deletion":
        cluster.delete_request("r")
    cluster.advance(5 if end == "deletion" else 610)
    assert holding(cluster) == []
    assert cluster.state.held == {}
    cluster.request("s", CHECK, [("three", 2)])
    cluster.settle()
    assert cluster.conditions("s")["Provisioned"].status == "True"


def test_other_requests_see_the_room_taken_once_and_an_evaluation_again_changes_nothing() -> None:
    cluster = hold(3)
    cluster.request("r", CHECK, [("three", 2)])
    cluster.settle()
    cluster.request("s", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("s")["Provisioned"].status == "True"
    assert len(cluster.of(CreateObject)) == 3
    cluster.advance(300)
    assert len(cluster.of(CreateObject)) == 3
    assert not cluster.of(DeleteObject)


def test_ordered_nodes_are_held_when_they_come() -> None:
    cluster = hold(0)
    cluster.boots = False
    cluster.add_group("g", cpu=4000, maximum=5)
    cluster.request("r", ATOMIC, [("three", 2)])
    cluster.settle()
    assert holding(cluster) == []
    cluster.boot("g")
    cluster.advance(15)
    assert holding(cluster) == ["g-new-1", "g-new-2"]


def test_a_placeholder_that_vanishes_or_cannot_be_made_is_made_again() -> None:
    cluster = hold(1)
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    (name,) = cluster.state.held
    cluster.tell(f.PodGone(at=cluster.now, namespace="system", name=name_of(name)))
    cluster.settle()
    assert holding(cluster) == ["n0"]
    (name,) = cluster.state.held
    cluster.state.orders["x"] = HoldOrder(name)
    cluster.silent = True
    cluster.tell(o.Rejected(at=cluster.now, decision="x", reason="Forbidden"))
    cluster.tell(f.PodGone(at=cluster.now, namespace="system", name=name_of(name)))
    before = len(cluster.of(CreateObject))
    cluster.settle()
    assert len(cluster.of(CreateObject)) == before + 1


def test_what_the_actuator_does_not_allow_is_not_asked_for_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each refusal would cause the next one: as fast as the log is."""
    act = Cluster._act

    def refusing(cluster: Cluster, decision: Decision) -> None:
        if isinstance(decision, CreateObject):
            assert len(cluster.of(CreateObject)) < 50, "asked for again and again"
            cluster._inbox.append(o.Rejected(at=cluster.now, decision=decision.id, reason="NotAllowed"))
        else:
            act(cluster, decision)

    monkeypatch.setattr(Cluster, "_act", refusing)
    cluster = hold(1)
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    assert len(cluster.of(CreateObject)) == 1
    cluster.advance(300.0)
    assert 1 < len(cluster.of(CreateObject)) <= 6  # once a minute: somebody may have changed what is allowed


def test_a_node_that_vanishes_takes_its_placeholder_along() -> None:
    cluster = hold(1)
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    cluster.tell(f.NodeGone(at=cluster.now, name="n0"))
    cluster.add_node("n9", cpu=4000)
    cluster.settle()
    assert holding(cluster) == ["n9"]


@pytest.mark.parametrize("setting", [{"profile": "compat"}, {"placeholders": False}, {"dry-run": True}])
def test_nothing_is_made_where_it_is_not_wanted(setting: dict[str, Any]) -> None:
    cluster = hold(**setting)
    cluster.request("r", CHECK, [("three", 2)])
    cluster.advance(60)
    assert not cluster.of(CreateObject)
    assert cluster.conditions("r")["Provisioned"].status == "True"
    assert not cluster.of(p.PlanScaleUp)


def test_a_placeholder_waits_until_the_pods_that_its_consumer_would_preempt_are_gone() -> None:
    cluster = hold(1)
    low = cluster.shape({"cpu": 2000}, priority=-20)
    cluster.pod("low", low, node="n0")
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    assert cluster.conditions("r")["Provisioned"].status == "True"  # expendable pods hold no room
    cluster.advance(60)
    assert holding(cluster) == []
    assert "ns/r until" in cluster.state.nodes["n0"].annotations[RESERVED]
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="low"))
    cluster.advance(15)
    assert holding(cluster) == ["n0"]
    assert "ns/r until" in cluster.state.nodes["n0"].annotations[RESERVED]


def test_a_placeholder_waits_until_the_one_before_it_is_gone() -> None:
    cluster = hold(1)
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    (name,) = cluster.state.held
    cluster.silent = True  # from now on placeholders go when the test says so
    cluster.delete_request("r")
    cluster.request("s", CHECK, [("three", 1)])
    cluster.advance(5)
    assert len(cluster.of(DeleteObject)) == 1
    assert len(cluster.of(CreateObject)) == 1
    cluster.tell(f.PodGone(at=cluster.now, namespace="system", name=name_of(name)))
    cluster.advance(15)
    assert len(cluster.of(CreateObject)) == 2


def test_a_placeholder_that_its_node_refuses_is_made_again_after_a_while() -> None:
    cluster = hold(1)
    cluster.request("r", CHECK, [("three", 1)])
    cluster.settle()
    ((name, held),) = cluster.state.held.items()
    refused = f.PodObserved(
        at=cluster.now, namespace="system", name=name_of(name), shape=cluster.state.pods[name].shape,
        phase="Failed", reason="OutOfcpu", node=held.node,
    )  # fmt: skip
    cluster.tell(refused)
    cluster.advance(30)
    assert len(cluster.of(CreateObject)) == 1
    index = index_of(cluster.state)
    later = RequestWork(cluster.state, index, cluster.now + 60, index.settings)
    room_kept(later)
    assert later.standing.surplus == (name,), "as of then, whatever the time of the state"
    cluster.advance(60)
    assert [d.target.name for d in cluster.of(DeleteObject)] == [refused.name]
    assert holding(cluster) == ["n0"]
    assert name not in cluster.state.held


def starts(cluster: Cluster, name: str) -> None:
    """A node registers, and is not ready yet."""
    group = cluster.groups["workers"]
    group.instances = [
        msgspec.structs.replace(i, state="running") if i.id == f"sim://{name}" else i for i in group.instances
    ]
    fact = cluster.node_fact("workers", name)
    cluster.tell(msgspec.structs.replace(fact, ready=False, created_at=cluster.now))
    cluster.observe_group("workers")


def test_room_on_nodes_that_come_is_held_before_they_are_ready() -> None:
    cluster = Cluster({"profile": "hold"}, boots=False)
    cluster.add_group("workers", cpu=4000, maximum=9)
    cluster.template("three", "3")
    cluster.request("r", ATOMIC, [("three", 2)])
    cluster.settle()
    for name in ("workers-new-1", "workers-new-2"):
        starts(cluster, name)
    cluster.settle()
    made = [d.manifest["spec"]["nodeName"] for d in cluster.of(CreateObject)]
    assert sorted(made) == ["workers-new-1", "workers-new-2"]
    assert cluster.conditions("r")["Provisioned"].reason == "NodesNotReady"
    # What is held is nobody else's room: a pod that waits gets a node of its own.
    cluster.pod("p", cluster.shape({"cpu": 2000}))
    cluster.settle()
    assert [(d.from_size, d.size) for d in cluster.of(p.IncreaseNodeGroup)] == [(0, 2), (2, 3)]
    for name in ("workers-new-1", "workers-new-2"):
        cluster.tell(cluster.node_fact("workers", name))
    cluster.boot("workers")
    cluster.advance(60)
    assert cluster.conditions("r")["CapacityReady"].status == "True"
    assert cluster.conditions("r")["Provisioned"].status == "True"
    assert len(cluster.of(CreateObject)) == 2
    assert len(cluster.of(p.IncreaseNodeGroup)) == 2


def test_what_was_held_is_let_go_when_the_rest_of_the_nodes_does_not_come() -> None:
    cluster = Cluster({"profile": "hold", "max-node-provision-time": "2m"}, boots=False)
    cluster.add_group("workers", cpu=4000, maximum=2)
    cluster.template("three", "3")
    cluster.request("r", ATOMIC, [("three", 2)], {"noRetry": "true"})
    cluster.settle()
    starts(cluster, "workers-new-1")
    cluster.tell(cluster.node_fact("workers", "workers-new-1"))
    cluster.advance(200)
    assert cluster.conditions("r")["Failed"].status == "True"
    assert len(cluster.of(CreateObject)) == 1
    assert cluster.state.held == {}


class Walked(dict[PodKey, None]):
    """Counts how often somebody goes through all of it."""

    walks = 0

    def __iter__(self) -> Iterator[PodKey]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("bookings", [1, 4])
def test_pods_are_gone_through_once_however_many_bookings_there_are(bookings: int) -> None:
    cluster = hold(nodes=4)
    for number in range(bookings):
        cluster.request(f"r{number}", CHECK, [("three", 1)])
        cluster.settle()
    assert len(holding(cluster)) == bookings
    index = index_of(cluster.state)
    nominated, waiting = Walked(index.nominated), Walked(index.waiting)
    index.nominated, index.waiting = nominated, waiting
    work = RequestWork(cluster.state, index, cluster.now, index.settings)
    room_kept(work)
    assert len(work.kept) == bookings
    assert (nominated.walks, waiting.walks) == (1, 1)
