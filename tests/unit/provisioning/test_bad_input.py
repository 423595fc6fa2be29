"""What is wrong with requests, groups, limits and clouds: a clear word, and nothing left behind."""

from __future__ import annotations

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.config import ConfigSet

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
MOST = 2**31 - 1


def test_a_count_beyond_everything_is_answered_at_once_and_orders_nothing() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=1000)
    cluster.add_node("n1", cpu=4000)
    cluster.template("t", "1", "1Gi")
    for cls in (ATOMIC, CHECK):
        cluster.request(cls[:5], cls, [("t", MOST)] * 32)
    cluster.settle()
    assert cluster.of(p.IncreaseNodeGroup) == []
    for name in (ATOMIC[:5], CHECK[:5]):
        assert cluster.conditions(name)["Provisioned"].reason == "CapacityIsNotFound"


def test_a_shape_that_no_group_ever_holds_says_the_nearest_group_and_what_is_short() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000)
    cluster.add_group("b", cpu=8000)
    cluster.template("t", "16")
    cluster.request("r", ATOMIC, [("t", 1)])
    cluster.settle()
    (event,) = cluster.object_events("CapacityNotFound")
    assert event.message == (
        "group b is nearest and lacks cpu: a pod asks for 16 cores, an empty node has 8 cores"
    )
    (attempt,) = cluster.of(p.AttemptRequest)
    assert {v.group: v.reason for v in attempt.verdicts} == {"a": "Insufficient cpu", "b": "Insufficient cpu"}


def test_a_template_of_another_namespace_is_missing() -> None:
    cluster = Cluster()
    cluster.add_group("a")
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    cluster.tell(p.PodTemplateObserved(at=cluster.now, namespace="other", name="t", template=template))
    cluster.request("r", ATOMIC, [("t", 1)])
    cluster.advance(5)
    failed = cluster.conditions("r")["Failed"]
    assert failed.reason == "FailedToCreatePods"
    assert failed.message.endswith("1 templates were missing: t")


def test_a_template_deleted_after_acceptance_changes_nothing() -> None:
    cluster = Cluster()
    cluster.add_group("a", maximum=0)
    cluster.template("t", "1")
    cluster.request("r", ATOMIC, [("t", 3)])
    cluster.settle()
    cluster.tell(p.PodTemplateGone(at=cluster.now, namespace="ns", name="t"))
    cluster.groups["a"].maximum = 10
    cluster.observe_group("a")
    cluster.advance(65)
    assert cluster.conditions("r")["Provisioned"].status == "True"


def test_a_spec_that_is_changed_later_is_told_once_and_ignored() -> None:
    cluster = Cluster()
    cluster.add_group("a", maximum=0)
    cluster.template("t", "1")
    cluster.request("r", ATOMIC, [("t", 3)])
    cluster.settle()
    for text in ("1", "2"):
        cluster.request("r", ATOMIC, [("t", 3)], {"ValidUntilSeconds": text})
    cluster.advance(30)
    assert len(cluster.object_events("SpecChangeIgnored")) == 1
    assert "Failed" not in cluster.conditions("r")


def test_a_group_that_vanishes_during_an_increase_is_told_and_the_rest_goes_on() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.template("t", "3500m")
    cluster.request("r", ATOMIC, [("t", 2)])
    cluster.settle()
    cluster.tell(p.NodeGroupGone(at=cluster.now, name="a"))
    cluster.settle()
    assert cluster.state.open == {}
    ready = cluster.conditions("r")["CapacityReady"]
    assert ready.status == "False"
    assert len(cluster.object_events("CapacityNotReady")) == 1
    cluster.advance(700)
    assert cluster.conditions("r")["BookingExpired"].status == "True"
    assert not any(request.booked for request in cluster.state.requests.values())


def test_contradictory_limits_of_a_group_and_of_the_configuration_are_named() -> None:
    cluster = Cluster({"cores-total": "100:8", "no-such-setting": 1})
    cluster.add_group("a", cpu=4000, minimum=5, maximum=3)
    cluster.pod("p", cluster.shape({"cpu": 1000}))
    cluster.advance(60)
    (told,) = cluster.object_events("ConfigurationIgnored")
    assert "cores-total='100:8': expected MIN:MAX" in told.message
    assert "no-such-setting: not a setting of provisioning" in told.message
    (declined,) = cluster.of(p.DeclineScaleUp)
    assert declined.verdicts[0].reason == "its minimum 5 is above its maximum 3"
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data={}))
    cluster.settle()
    assert len(cluster.object_events("ConfigurationIgnored")) == 1


def test_a_cloud_that_gives_fewer_nodes_than_it_says_is_taken_at_what_came() -> None:
    cluster = Cluster({"scale-down-enabled": False}, boots=False)
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.add_node("n1", "a")
    cluster.groups["a"].target = 4
    cluster.observe_group("a")
    cluster.advance(890)
    assert cluster.of(p.DecreaseNodeGroup) == []
    cluster.advance(20)
    assert [(d.from_size, d.size) for d in cluster.of(p.DecreaseNodeGroup)] == [(4, 1)]
    assert cluster.groups["a"].target == 1


def test_a_cloud_that_gives_more_nodes_than_asked_loses_them_when_they_stay_empty() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.template("t", "3500m")
    cluster.request("r", ATOMIC, [("t", 1)])
    cluster.settle()
    cluster.add_node("extra", "a")
    cluster.groups["a"].target = 2
    cluster.observe_group("a")
    cluster.advance(3000)
    assert cluster.groups["a"].target == 0
    gone = {name for d in cluster.of(p.DeleteInstances) for name in d.nodes}
    assert gone == {"extra", "a-new-1"}


def test_instances_of_a_request_that_cannot_be_created_are_said_and_not_forgotten() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.template("t", "3500m")
    cluster.request("r", ATOMIC, [("t", 3)])
    cluster.settle()
    group = cluster.groups["a"]
    first = group.instances[0]
    group.instances[0] = msgspec.structs.replace(first, error_class=1, error_code="StockOut")
    cluster.observe_group("a")
    cluster.settle()
    assert len(group.instances) == 2
    cluster.boot("a")
    cluster.advance(700)
    ready = cluster.conditions("r")["CapacityReady"]
    assert ready.status == "False"
    assert len(cluster.object_events("CapacityNotReady")) == 1
