"""Pods for which the scheduler makes room count as being where they will be. Spec 3.2, step 5."""

from __future__ import annotations

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.kube import kinds
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.requests.spec import CONSUME

CHECK = "check-capacity.autoscaling.x-k8s.io"


def full(cluster: Cluster) -> None:
    """A node whose pods leave room for nothing, and a group that could grow."""
    cluster.add_group("workers", target=1)
    cluster.add_node("n", "workers")
    victim = cluster.shape({"cpu": 4000}, priority=0)
    cluster.pod("victim", victim, node="n")


def test_a_pod_that_preempts_orders_nothing() -> None:
    cluster = Cluster()
    full(cluster)
    shape = cluster.shape({"cpu": 3000}, priority=100)
    cluster.pod("urgent", shape, nominated="n")
    cluster.settle()
    assert cluster.of(p.PlanScaleUp) == []


def test_its_room_is_nobody_elses() -> None:
    cluster = Cluster({"scale-down-enabled": False})
    full(cluster)
    cluster.pod("urgent", cluster.shape({"cpu": 3000}, priority=100), nominated="n")
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="victim"))
    cluster.template("two", "2")
    cluster.request("r", CHECK, [("two", 1)])
    cluster.settle()
    assert not cond.is_true(cluster.conditions("r").values(), cond.PROVISIONED)
    cluster.pod("small", cluster.shape({"cpu": 2000}))
    cluster.settle()
    assert len(cluster.of(p.PlanScaleUp)) == 1


def test_one_whose_node_is_gone_waits_like_any_other() -> None:
    cluster = Cluster()
    full(cluster)
    cluster.pod("urgent", cluster.shape({"cpu": 3000}, priority=100), nominated="elsewhere")
    cluster.settle()
    assert len(cluster.of(p.PlanScaleUp)) == 1


def test_a_pod_that_is_nominated_no_more_is_looked_at_again() -> None:
    cluster = Cluster()
    full(cluster)
    shape = cluster.shape({"cpu": 3000}, priority=100)
    cluster.pod("urgent", shape, nominated="n")
    cluster.settle()
    cluster.pod("urgent", shape)
    cluster.settle()
    assert len(cluster.of(p.PlanScaleUp)) == 1


def test_a_nominated_node_is_not_idle() -> None:
    cluster = Cluster()
    cluster.add_group("workers", target=1)
    cluster.add_node("n", "workers")
    cluster.pod("urgent", cluster.shape({"cpu": 3000}, priority=100), nominated="n")
    cluster.advance(3000)
    assert cluster.of(p.DeleteInstances) == []


def test_a_nominated_consumer_uses_its_booking() -> None:
    cluster = Cluster()
    cluster.add_node("n")
    cluster.template("worker", "1")
    cluster.request("r", CHECK, [("worker", 1)])
    cluster.settle()
    shape = cluster.shape({"cpu": 1000, "memory": 2**20})
    cluster.pod("c", shape, nominated="n", annotations={CONSUME: "r"})
    cluster.settle()
    assert cluster.conditions("r")["BookingExpired"].reason == "CapacityBookingConsumed"


def test_the_watcher_tells_of_a_nomination_until_the_pod_is_bound() -> None:
    def projected(**spec: str) -> str:
        raw = {
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"containers": [], **spec},
            "status": {"phase": "Pending", "nominatedNodeName": "n"},
        }
        fact = kinds.BY_NAME["pod"].project(msgspec.json.encode(raw)).fact
        assert isinstance(fact, f.PodObserved)
        return fact.nominated

    assert projected() == "n"
    assert projected(nodeName="n") == ""
