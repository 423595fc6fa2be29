"""What is wrong with requests, groups, limits and clouds: a clear word, and nothing left behind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.watched import OWNER, Watched
from tests.vectors.capacity_buffers import Buffers, pod_spec
from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import SetStatus
from tidewright.events.facts import NodeObserved
from tidewright.kube.podspecs import of_template
from tidewright.kube.times import rfc3339
from tidewright.provisioning.cluster.cluster_state import Counts, upcoming
from tidewright.provisioning.flags import problems

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


@pytest.mark.parametrize("profile", ["compat", "hold"])
@pytest.mark.parametrize("key", ["BookingSeconds", "ValidUntilSeconds"])
@pytest.mark.parametrize("seconds", ["99999999999999", "9" * 255])
def test_a_time_that_no_calendar_has_is_ignored_and_said(profile: str, key: str, seconds: str) -> None:
    """Whoever may make a request would else have ended the decider for everybody."""
    cluster = Cluster({"profile": profile})
    cluster.add_group("g")
    cluster.template("t", "500m")
    for name, class_name in (("a", ATOMIC), ("c", CHECK)):
        cluster.request(name, class_name, [("t", 1)], {key: seconds})
        cluster.settle()
        cluster.advance(30)
        assert cluster.conditions(name)["Provisioned"].status == "True"
    assert any(
        f"{key}='{seconds[:9]}" in event.message for event in cluster.object_events("ParameterIgnored")
    )


@pytest.mark.parametrize("profile", ["compat", "hold"])
@pytest.mark.parametrize("amount", [2**63 - 1, 2**63, 10**22])
def test_a_pod_that_asks_for_more_than_numbers_hold_goes_nowhere_and_ends_nothing(
    profile: str, amount: int
) -> None:
    """As a fact of before said it; a template is read here."""
    cluster = Cluster({"profile": profile})
    cluster.add_group("g")
    cluster.add_node("n1", "g")
    huge, small = cluster.shape({"cpu": amount, "memory": amount}), cluster.shape({"cpu": 3000})
    for number in range(3):
        cluster.pod(f"huge-{number}", huge)
        cluster.pod(f"there-{number}", huge, node="n1")
        cluster.pod(f"small-{number}", small)
    cluster.template("t", "10P", "10E")
    cluster.request("r", ATOMIC, [("t", 2)])
    cluster.settle()
    assert cluster.conditions("r")["Provisioned"].reason == "CapacityIsNotFound"
    assert cluster.of(p.IncreaseNodeGroup)[-1].size == 4, "one more for each small pod"


def test_volumes_that_cannot_be_read_block_who_has_them_and_nobody_else() -> None:
    cluster = Cluster()
    cluster.add_group("g")
    cluster.template("odd", "500m", volumes=[{"name": "v", "ephemeral": 5}])
    cluster.template("other", "500m")
    for name in ("odd", "other"):
        cluster.request(name, ATOMIC, [(name, 1)])
    cluster.settle()
    assert cluster.conditions("odd")["Provisioned"].status == "False"
    assert cluster.conditions("other")["Provisioned"].status == "True"


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


def test_the_nearest_group_is_one_that_the_pod_may_run_on_at_all() -> None:
    cluster = Cluster()
    cluster.add_group("huge", cpu=15_000, labels={"pool": "other"})
    cluster.add_group("mine", cpu=8000, labels={"pool": "mine"})
    cluster.template("t", "16", nodeSelector={"pool": "mine"})
    cluster.request("r", ATOMIC, [("t", 1)])
    cluster.template("lost", "1", nodeSelector={"pool": "none"})
    cluster.request("s", CHECK, [("lost", 1)])
    cluster.settle()
    events = {event.target.name: event.message for event in cluster.object_events("CapacityNotFound")}
    assert events == {
        "r": "group mine is nearest and lacks cpu: a pod asks for 16 cores, an empty node has 8 cores",
        "s": "no group has nodes that its pods may run on: 2 node selector or affinity does not match",
    }


def test_what_a_node_that_exists_could_hold_is_not_said_to_be_impossible() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000)
    cluster.add_node("n1", cpu=32_000)
    cluster.pod("p", cluster.shape({"cpu": 20_000}), node="n1")
    cluster.template("t", "16")
    cluster.request("r", CHECK, [("t", 1)])
    cluster.settle()
    (event,) = cluster.object_events("CapacityNotFound")
    assert event.message == "there is no room for 1 pod on nodes that exist or are on their way"


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
    (event,) = cluster.object_events("Failed")
    assert event.message == (
        f"{failed.message}; there are such in namespace other,"
        " but a request finds only those of its own namespace, ns"
    )


def stored(*conditions: tuple[str, str]) -> list[dict[str, object]]:
    """Conditions as another service left them."""
    return [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind, reason in conditions
    ]


def test_what_another_service_saw_through_is_left_as_it_is_though_its_templates_are_gone() -> None:
    cluster = Cluster({"request-ttl": "100000h"})
    provisioned = (("Accepted", "Accepted"), ("Provisioned", "CapacityIsFound"))
    ended = stored(*provisioned, ("BookingExpired", "CapacityBookingConsumed"))
    cluster.request("ended", ATOMIC, [("gone", 1)], status={"conditions": ended})
    now = {"lastTransitionTime": rfc3339(cluster.now)}
    booked = {"conditions": [{**c, **now} for c in stored(*provisioned)]}
    cluster.request("booked", ATOMIC, [("gone", 1)], status=booked)
    cluster.advance(30)
    assert [d.target.name for d in cluster.of(SetStatus)] == ["booked"]
    failed = cluster.conditions("booked")["Failed"]
    assert failed.reason == "FailedToBookCapacity"
    assert failed.message.startswith("Couldn't create pods, err: missing pod templates, 1 pod templates")


def test_room_that_another_service_booked_is_kept_for_the_rest_of_its_time() -> None:
    cluster = Cluster()
    cluster.add_node("n1", cpu=4000)
    cluster.template("t", "3")
    found = stored(("Accepted", "Accepted"), ("Provisioned", "CapacityIsFound"))
    since = {"lastTransitionTime": rfc3339(cluster.now - 300)}
    cluster.request("theirs", CHECK, [("t", 1)], status={"conditions": [{**c, **since} for c in found]})
    cluster.request("mine", CHECK, [("t", 1)])
    cluster.advance(290)
    assert cluster.conditions("mine")["Provisioned"].status == "False"
    assert "BookingExpired" not in cluster.conditions("theirs")
    cluster.advance(30)
    assert cluster.conditions("theirs")["BookingExpired"].reason == "CapacityReservationTimeExpired"


def test_requests_expire_in_an_unhealthy_cluster_too() -> None:
    cluster = Cluster({"ok-total-unready-count": 0, "max-node-startup-time": "1s"})
    cluster.tell(NodeObserved(at=cluster.now, name="loose", ready=False, created_at=1.0))
    cluster.advance(10)
    cluster.template("t", "1")
    cluster.request("r", ATOMIC, [("t", 1)], {"ValidUntilSeconds": "60"})
    cluster.advance(90)
    assert cluster.conditions("r")["Failed"].reason == "Expired"
    assert cluster.of(p.AttemptRequest) == []


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
    (event,) = cluster.object_events("CapacityNotReady")
    assert (
        ready.message == event.message == "Nodes that were ordered did not come: group a is no longer there"
    )
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
    assert ready.message == "Nodes that were ordered did not come: group a failed: StockOut"
    assert len(cluster.object_events("CapacityNotReady")) == 1


def warned(cluster: Cluster, reason: str) -> list[str]:
    """Messages of warnings of one reason."""
    return [event.message for event in cluster.object_events(reason)]


def test_a_group_below_its_minimum_is_said_with_what_would_be_valid_and_the_others_go_on() -> None:
    cluster = Cluster()
    cluster.add_group("small", minimum=3, target=1, maximum=5)
    cluster.add_group("fine", target=0, maximum=5)
    cluster.pod("p", cluster.shape({"cpu": 100}))
    cluster.advance(600)
    said = warned(cluster, "NodeGroupBelowMinimum")
    assert said[0].startswith("group small: target_size 1 is below its min_size 3: valid is min_size or more")
    assert len(set(said)) == len(said), "once for each size"
    assert cluster.of(p.PlanScaleUp)
    cluster = Cluster({"enforce-node-group-min-size": True})
    cluster.add_group("small", minimum=3, target=1, maximum=5)
    cluster.pod("p", cluster.shape({"cpu": 100}))
    cluster.advance(60)
    assert warned(cluster, "NodeGroupBelowMinimum") == []


def test_a_node_without_provider_id_is_named_when_it_had_time_to_get_one() -> None:
    cluster = Watched()
    cluster.nodes(2)
    cluster.again("bare", {"cpu": 4000}, provider_id="", created_at=cluster.now - 60)
    cluster.placed("p", "")
    cluster.advance(60)
    assert warned(cluster, "NodeWithoutProviderID") == []
    cluster.advance(900)
    cluster.placed("q", "")
    cluster.advance(60)
    (said,) = warned(cluster, "NodeWithoutProviderID")
    assert said.startswith("node bare: spec.providerID is empty: valid is the id of its machine at the cloud")


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        (None, "is absent and selects nothing: it protects no pod; valid is a label selector"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]},
            "it is taken to cover all pods of its namespace, and none of them is moved; valid is a label selector",
        ),
        ({}, ""),
    ],
)
def test_a_budget_whose_selector_selects_nothing_or_cannot_be_read_is_named(
    selector: dict[str, Any] | None, says: str
) -> None:
    cluster = Watched()
    cluster.nodes(1)
    cluster.tell(
        p.PodDisruptionBudgetObserved(
            at=cluster.now, namespace="ns", name="odd", selector=selector, allowed=1
        )
    )
    cluster.placed("p", "")
    cluster.advance(60)
    said = " ".join(warned(cluster, "DisruptionBudgetSelector"))
    assert says in said
    assert said.startswith("PodDisruptionBudget ns/odd: spec.selector ") is bool(says)


def test_a_budget_that_covers_no_pod_is_named_once_its_pods_had_time_to_come() -> None:
    cluster = Watched()
    cluster.nodes(1)
    for name, app in (("right", "web"), ("typo", "wbe")):
        cluster.tell(
            p.PodDisruptionBudgetObserved(
                at=cluster.now, namespace="ns", name=name, selector={"matchLabels": {"app": app}}, allowed=1
            )
        )
    cluster.placed("p", "g0")
    cluster.placed("q", "")
    cluster.advance(10)
    assert warned(cluster, "DisruptionBudgetCoversNoPod") == []
    cluster.advance(300)
    cluster.placed("r", "")
    cluster.advance(10)
    (said,) = warned(cluster, "DisruptionBudgetCoversNoPod")
    assert said == (
        'PodDisruptionBudget ns/typo ({"matchLabels":{"app":"wbe"}}): spec.selector matches no pod that is there: '
        "valid are labels that pods have; it protects nothing until some have them"
    )
    cluster.gone("p")
    cluster.gone("q")
    cluster.gone("r")
    other = cluster.shape({"cpu": 100}, labels={"app": "other"})
    cluster.placed("s", "", shape=other)
    cluster.advance(10)
    assert "ns/right" in warned(cluster, "DisruptionBudgetCoversNoPod")[-1]


def test_a_pod_whose_owner_is_gone_is_named_with_its_node_and_the_others_go_on() -> None:
    cluster = Watched()
    cluster.nodes(3)
    owner = msgspec.structs.replace(OWNER, name="left")
    cluster.placed("orphan", "g0", owners=(owner,))
    cluster.placed("fine", "g1")
    cluster.advance(15)
    assert "g1" in cluster.unneeded
    cluster.placed("q", "")
    cluster.advance(10)
    (said,) = warned(cluster, "PodOwnerGone")
    assert said == (
        "pod ns/orphan of ReplicaSet left on node g0: the controller in metadata.ownerReferences is not there, and the node "
        "stays for the pod: valid is one that is there; where nothing needs the pod, delete it"
    )
    cluster.gone("orphan")
    cluster.advance(400)
    cluster.placed("r", "")
    cluster.advance(10)
    assert len(warned(cluster, "PodOwnerGone")) == 1


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"scan-interval": "-1s"}, "scan-interval='-1s': expected 0 or more; the default stays"),
        (
            {"scan-interval": "soon"},
            "scan-interval='soon': expected a duration, as 90s or 10m; the default stays",
        ),
        ({"max-nodes-total": "many"}, "max-nodes-total='many': expected a whole number; the default stays"),
        (
            {"max-node-provision-time": "0s"},
            "max-node-provision-time='0s': expected more than 0: every node would be given up before it is there; the default stays",
        ),
        ({"max-node-provision-time": -5}, "max-node-provision-time=-5: expected 0 or more"),
        ({"scale-down-unneeded-time": "inf"}, "scale-down-unneeded-time='inf': expected 292 years at most"),
        ({"scan-interval": "1e999"}, "scan-interval='1e999': expected 292 years at most"),
        (
            {"drain-priority-config": "0:30,10:-5"},
            "drain-priority-config='0:30,10:-5': expected seconds of 0",
        ),
        ({"booking-duration": 1e15}, "booking-duration=1000000000000000.0: expected 292 years at most"),
        ({"drain-priority-config": "0:inf"}, "drain-priority-config='0:inf': expected seconds of 0 or more"),
        ({"drain-priority-config": "0:nan"}, "drain-priority-config='0:nan': expected seconds of 0 or more"),
        ({"max-drain-parallelism": 1.5}, "max-drain-parallelism=1.5: expected a whole number"),
        ({"max-nodes-total": True}, "max-nodes-total=True: expected a whole number; the default stays"),
        (
            {"max-drain-parallelism": 20},
            "max-drain-parallelism=20: expected max-scale-down-parallelism (10) or less; max-scale-down-parallelism holds",
        ),
        (
            {"initial-node-group-backoff-duration": "2h"},
            "expected max-node-group-backoff-duration (1800) or less; max-node-group-backoff-duration holds",
        ),
        ({"ok-total-unready-count": -1}, "ok-total-unready-count=-1: expected 0 or more; the default stays"),
        ({"max-total-unready-percentage": -1}, "max-total-unready-percentage=-1: expected 0 or more"),
        ({"scale-down-unneded-time": "1m"}, "scale-down-unneeded-time"),
        ({"scale-down-utilization-threshold": 2}, "from 0 to 1"),
        ({"cores-total": "5:2"}, "expected MIN:MAX with 0 <= MIN <= MAX"),
    ],
)
def test_settings_that_are_negative_contradictory_or_unknown_are_named_with_what_is_valid(
    config: dict[str, Any], says: str
) -> None:
    assert any(says in problem for problem in problems(config)), problems(config)


@pytest.mark.parametrize("profile", ["compat", "hold"])
@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"]
)
def test_a_time_beyond_the_calendar_ends_nothing(profile: str, time: str) -> None:
    """An API server takes each of them in a status that others may write."""
    cluster = Buffers({"profile": profile}, room=8)
    cluster.pod_template("t", pod_spec({"cpu": "1"}))
    condition = {"type": "ReadyForProvisioning", "status": "True", "lastTransitionTime": time}
    spec = {"podTemplateRef": {"name": "t"}, "replicas": 4}
    cluster.buffer("b", spec, status={"conditions": [condition]})
    cluster.settle()
    conditions = (cluster.status("b") or {})["conditions"]
    assert conditions[0]["lastTransitionTime"][:4] in ("9999", "0001")


@pytest.mark.parametrize("amount", ["-1E", "-1", "-9223372036854775808"])
def test_a_template_that_asks_for_less_than_nothing_asks_for_nothing(amount: str) -> None:
    """A custom workload's is checked by nobody."""
    asks = {"containers": [{"resources": {"requests": {"cpu": amount, "memory": "1Gi"}}}]}
    assert of_template({"spec": asks}, "ns").requests == {"memory": 2**30, "pods": 1}


def test_a_group_that_says_that_two_thousand_million_nodes_are_on_their_way_ends_nothing() -> None:
    counts = Counts(target=2**31 - 1, increase=1)
    assert upcoming(counts) == 100_000


def test_more_than_a_thousand_pods_that_ask_for_too_much_leave_no_room_on_their_node() -> None:
    """What they ask for together is still counted with: it turned over, and their node had room for everybody."""
    cluster = Cluster()
    cluster.add_group("g")
    cluster.add_node("n1", "g")
    huge, small = cluster.shape({"cpu": 2**53}), cluster.shape({"cpu": 3000})
    for number in range(1100):
        cluster.pod(f"huge-{number}", huge, node="n1")
    cluster.pod("small", small)
    cluster.settle()
    assert cluster.of(p.IncreaseNodeGroup) != []
