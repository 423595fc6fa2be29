"""What is told about a state that lasts, and about consumers whose request came to nothing."""

from __future__ import annotations

import msgspec
import pytest

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.events.config import ConfigSet
from tidewright.events.facts import NodeObserved
from tidewright.provisioning.requests.spec import CONSUME

CHECK = "check-capacity.autoscaling.x-k8s.io"


def test_priorities_choose_the_group_and_what_is_wrong_with_them_is_told_once() -> None:
    cluster = Cluster({"expander": "priority"})
    for name in ("a-spot", "b-big", "c-other"):
        cluster.add_group(name, cpu=4000, maximum=9)
    cluster.tell(
        ConfigSet(
            at=cluster.now,
            name="cluster-autoscaler-priority-expander",
            data={"priorities": {"10": [".*spot.*"], "50": ["big"]}},
        )
    )
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.settle()
    assert [d.target.name for d in cluster.of(p.IncreaseNodeGroup)] == ["b-big"]
    (event,) = cluster.object_events("PriorityConfigMapNotMatchedGroup")
    assert event.message == "no expression of the priorities matches group c-other: it is left out"
    cluster.tell(ConfigSet(at=cluster.now, name="cluster-autoscaler-priority-expander"))
    for i in range(3):
        cluster.pod(f"q{i}", cluster.shape({"cpu": 3500}))
        cluster.settle()
    assert len(cluster.object_events("PriorityConfigMapInvalid")) == 1


def test_the_limit_of_nodes_is_told_to_pods_and_once_to_everybody() -> None:
    cluster = Cluster({"max-nodes-total": 1})
    cluster.add_group("workers", cpu=4000, maximum=9)
    cluster.add_node("n1", cpu=1000)
    for i in range(3):
        cluster.pod(f"p{i}", cluster.shape({"cpu": 3000 + i}))
        cluster.advance(30)
    assert not cluster.of(p.IncreaseNodeGroup)
    assert len(cluster.object_events("MaxNodesTotalReached")) == 1
    messages = {event.message for event in cluster.object_events("NotTriggerScaleUp")}
    assert messages == {"pod didn't trigger scale-up: max total nodes in cluster reached"}


def test_an_unhealthy_cluster_orders_nothing_and_says_so() -> None:
    cluster = Cluster({"ok-total-unready-count": 0, "max-node-startup-time": "1s"})
    cluster.add_group("workers", cpu=4000, maximum=9, target=2)
    for name in ("n1", "n2"):
        cluster.add_node(name, "workers")
        cluster.tell(_unready(cluster, name))
    cluster.advance(100)
    cluster.pod("p", cluster.shape({"cpu": 3000}))
    cluster.settle()
    assert not cluster.of(p.IncreaseNodeGroup)
    (event,) = cluster.object_events("ClusterUnhealthy")
    assert event.message == "2 nodes are unready: nothing is ordered"


def _unready(cluster: Cluster, name: str) -> Event:
    fact = cluster.node_fact("workers", name)
    assert isinstance(fact, NodeObserved)
    return msgspec.structs.replace(fact, ready=False)


@pytest.mark.parametrize(
    ("profile", "reason", "event_type"),
    [("compat", "NotTriggerScaleUp", "Normal"), ("hold", "ProvisioningRequestMissing", "Warning")],
)
def test_a_consumer_of_nothing_is_told_once_and_becomes_an_ordinary_pod_in_time(
    profile: str, reason: str, event_type: str
) -> None:
    cluster = Cluster({"profile": profile, "consumer-orphan-timeout": "5m"})
    cluster.add_group("workers", cpu=4000, maximum=9)
    shape = cluster.shape({"cpu": 3000})
    cluster.pod("p", shape, annotations={CONSUME: "nowhere"})
    for i in range(3):
        cluster.pod(f"q{i}", shape)
        cluster.advance(20)
    events = [e for e in cluster.object_events(reason) if e.target.name == "p"]
    assert [e.event_type for e in events] == [event_type]
    assert "consuming ProvisioningRequest ns/nowhere" in events[0].message
    assert cluster.groups["workers"].target == 3
    cluster.advance(300)
    assert cluster.groups["workers"].target == 4


def test_a_consumer_of_a_failed_request_is_warned_in_hold() -> None:
    cluster = Cluster({"profile": "hold"})
    cluster.template("t", "3")
    cluster.request("r", CHECK, [("t", 1)], {"noRetry": "true"})
    cluster.settle()
    cluster.pod("p", cluster.shape({"cpu": 3000}), annotations={CONSUME: "r"})
    cluster.settle()
    (event,) = cluster.object_events("ProvisioningRequestMissing")
    assert event.message.endswith("consuming ProvisioningRequest ns/r, which has failed")
    cluster.advance(7200)
    assert not cluster.of(p.PlanScaleUp)
