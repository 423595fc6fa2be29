"""Nodes for pods that are about to be: how many there will be, for whom, and until when they are waited for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.provisioning.workloads import ON, Workloads, replica_set
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.config import ConfigSet
from tidewright.events.placement import PlacementObjectObserved
from tidewright.host.fold.order import Decided, Fold, cause_of
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.foresight.kept import Workload
from tidewright.provisioning.foresight.shares import MOST_S
from tidewright.provisioning.foresight.wanted import WorkloadPods, lacking
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State


def orders(cluster: Workloads) -> list[tuple[str, int]]:
    return [(order.target.name, order.size) for order in cluster.of(p.IncreaseNodeGroup)]


def grown(config: Any = None, **how: Any) -> Workloads:
    """A Deployment that goes from none to eight pods, each as large as a node."""
    cluster = Workloads(config, **how)
    cluster.add_group("g", maximum=20)
    template = cluster.form()
    cluster.deployment("web", 0, template=template, max_surge="25%")
    cluster.settle()
    cluster.deployment("web", 8)
    return cluster


def test_nodes_are_ordered_at_once_before_the_first_pod_is_there() -> None:
    cluster = grown(boots=False)
    cluster.advance(0.02)
    assert orders(cluster) == [("g", 8)]
    (plan,) = cluster.of(p.PlanScaleUp)
    assert [(share.workload, share.uid, share.pods) for share in plan.expected] == [
        ("Deployment/ns/web", "uid-web", 8)
    ]
    (why,) = [reason for reason in plan.because if reason.rule == "PodsExpected"]
    assert why.values == {"pods": 8, "workload": "Deployment ns/web"}
    assert plan.pods == ()
    assert plan.placed == 8


@pytest.mark.parametrize(
    "config", [{}, {"foresight": "off", "profile": "hold"}, {"foresight": False, "profile": "hold"}]
)
def test_without_foresight_nothing_is_ordered(config: Any) -> None:
    cluster = grown(config)  # as YAML has it: a bare `off` is false there
    cluster.settle()
    assert orders(cluster) == []
    assert cluster.object_events("ConfigurationIgnored") == []


def test_a_template_that_was_said_before_anybody_read_it_is_known_once_it_is_said_again() -> None:
    """As after an upgrade from a version that read none: a workload without pods has nothing else to be like."""
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    template = cluster.form()
    (said,) = [
        event for _, body in cluster.log if isinstance(event := registry.read(body), f.TemplateObserved)
    ]
    cluster.state.forms.clear()
    cluster.deployment("web", 0, template=template, max_surge="25%")
    cluster.tell(msgspec.structs.replace(said, at=cluster.now, refresh=True))
    cluster.deployment("web", 8)
    cluster.settle()
    assert orders(cluster) == [("g", 8)]


def test_profile_hold_foresees_unless_it_is_told_otherwise() -> None:
    cluster = grown({"profile": "hold"})
    cluster.settle()
    assert orders(cluster) == [("g", 8)]


def test_pods_that_come_cause_no_further_order() -> None:
    """Through all their stages: not looked at, unschedulable, on their nodes; in whatever order owners are told of."""
    cluster = grown(boots=False)
    cluster.settle()
    (load,) = cluster.of(p.PlanScaleUp)[0].loads
    ((shape, _),) = load.pods.items()
    cluster.tell(f.ShapeObserved(at=cluster.now, digest=shape, requests={"cpu": 3000}, namespace="ns"))
    owner = replica_set("web-5d4f")
    for number in range(4):  # before anybody has told of their ReplicaSet
        cluster.made(f"web-5d4f-{number}", shape, owner)
        cluster.advance(0.1)
    cluster.replicas_of("web", "web-5d4f", 8, template=cluster.told["Deployment/web"].template)
    for number in range(4, 8):
        cluster.made(f"web-5d4f-{number}", shape, owner)
        cluster.advance(0.1)
    for number in range(8):
        cluster.made(f"web-5d4f-{number}", shape, owner, unschedulable_since=cluster.now)
        cluster.advance(0.1)
    cluster.deployment("web", 8, status_replicas=8)
    cluster.settle()
    assert orders(cluster) == [("g", 8)]
    assert cluster.state.foreseen == {}


def test_eight_hundred_pods_of_a_new_deployment_are_one_increase_before_the_first_of_them() -> None:
    """Within 500 ms of its creation, of which the rest is the way to the log and to the cloud; batch by batch they change nothing."""
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=1000)
    template = cluster.form("500m")
    cluster.deployment("many", 800, template=template)
    cluster.advance(0.02)
    first = orders(cluster)
    (load,) = {tuple(load.pods) for load in cluster.of(p.PlanScaleUp)[0].loads}
    cluster.tell(f.ShapeObserved(at=cluster.now, digest=load[0], requests={"cpu": 500}, namespace="ns"))
    cluster.replicas_of("many", "many-1", 800, template=template)
    for begin in range(0, 800, 100):
        for more in ({}, {"unschedulable_since": cluster.now}):
            for number in range(begin, begin + 100):
                cluster.made(f"many-1-{number}", load[0], replica_set("many-1"), **more)
            cluster.advance(0.3)
        cluster.deployment("many", 800, status_replicas=begin + 100)
    cluster.settle()
    assert len(first) == 1
    assert sum(plan.pods for plan in cluster.of(p.PlanScaleUp)[0].expected) == 800
    assert orders(cluster) == first


def test_pods_that_are_recreated_have_the_room_of_those_before_them() -> None:
    """Strategy Recreate: while the last ones leave, which takes their grace, none is made, and none needs another node."""
    cluster = Workloads()
    cluster.add_group("g", maximum=20)
    for number in range(2):
        cluster.pod(f"before-{number}", cluster.shape({"cpu": 3000}))
    cluster.settle()
    for number in range(2):
        cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name=f"before-{number}"))
    ordered = orders(cluster)
    shape = cluster.shape({"cpu": 3000})
    cluster.deployment("web", 2, status_replicas=2, template=cluster.form())
    cluster.replicas_of(
        "web", "web-1", 2, status_replicas=2, template=cluster.told["Deployment/web"].template
    )
    names = sorted(cluster.state.nodes)
    for node in names:
        cluster.made(f"web-1-{node}", shape, replica_set("web-1"), node=node)
    cluster.settle()
    cluster.deployment("web", 2, template=cluster.form("3", priority=0, priorityClassName="p"), generation=2)
    cluster.replicas_of("web", "web-1", 0, status_replicas=0)
    for node in names:
        cluster.made(f"web-1-{node}", shape, replica_set("web-1"), node=node, deleting_at=cluster.now)
    cluster.deployment("web", 2, status_replicas=0)
    cluster.advance(5)
    assert orders(cluster) == ordered


def test_pods_of_another_size_than_their_template_are_believed() -> None:
    """A webhook made them larger: from the first one that is there on, the others are expected to be so."""
    cluster = grown(boots=False)
    cluster.settle()
    large = cluster.shape({"cpu": 4000})
    cluster.replicas_of("web", "web-1", 8, template=cluster.told["Deployment/web"].template)
    cluster.made("web-1-0", large, replica_set("web-1"))
    cluster.deployment("web", 12, generation=2)
    cluster.settle()
    loads = [pods for load in cluster.of(p.PlanScaleUp)[-1].loads for pods in load.pods]
    assert set(loads) == {large}


def test_pods_that_wait_and_pods_that_are_to_come_are_one_plan() -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    cluster.deployment("web", 0, template=cluster.form())
    cluster.pod("alone", cluster.shape({"cpu": 3000}))
    cluster.deployment("web", 3)
    cluster.settle()
    (plan,) = cluster.of(p.PlanScaleUp)
    assert plan.pods == ("ns/alone",)
    assert [share.pods for share in plan.expected] == [3]
    assert orders(cluster) == [("g", 4)]


def test_pods_that_wait_come_first_where_limits_leave_no_room_for_all() -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=2)
    cluster.deployment("web", 0, template=cluster.form("4", priority=100))
    cluster.pod("alone", cluster.shape({"cpu": 3000}))
    cluster.deployment("web", 3)
    cluster.settle()
    plans = cluster.of(p.PlanScaleUp)
    assert plans[0].pods == ("ns/alone",)
    assert [share.pods for plan in plans for share in plan.expected] == [1]
    assert cluster.of(p.DeclineScaleUp) == []


def test_pods_that_do_not_come_in_time_are_told_of_and_expected_no_longer() -> None:
    cluster = grown(boots=False)
    cluster.advance(59)
    assert cluster.object_events("ExpectedPodsDidNotCome") == []
    cluster.advance(2)
    (told,) = cluster.object_events("ExpectedPodsDidNotCome")
    assert (told.target.kind, told.target.namespace, told.target.name) == ("Deployment", "ns", "web")
    assert "8 pods" in told.message
    assert cluster.state.foreseen == {}
    cluster.add_group("h")
    cluster.advance(100)
    assert len(cluster.object_events("ExpectedPodsDidNotCome")) == 1
    assert orders(cluster) == [("g", 8)]


def test_pods_that_their_controller_cannot_make_are_not_expected() -> None:
    cluster = grown(boots=False)
    cluster.settle()
    cluster.deployment("web", 8, refused='pods "web-1-" is forbidden: exceeded quota: q')
    cluster.deployment("web", 16)
    cluster.settle()
    (told,) = cluster.object_events("ExpectedPodsDidNotCome")
    assert "exceeded quota" in told.message
    assert orders(cluster) == [("g", 8)]


def test_pods_of_a_namespace_that_goes_are_not_expected() -> None:
    """Its pods go first, and nobody may make others; its Deployments stay until then, and say nothing of that."""
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    cluster.deployment("web", 8, status_replicas=8, template=cluster.form())
    cluster.settle()
    cluster.tell(
        PlacementObjectObserved(at=cluster.now, kind="Namespace", name="ns", fields={"deleting": True})
    )
    cluster.deployment("web", 8, status_replicas=0)
    cluster.settle()
    assert orders(cluster) == []


def test_pods_are_waited_for_as_long_as_those_of_their_kind_take() -> None:
    cluster = grown(boots=False)
    cluster.advance(30)
    shape = cluster.shape({"cpu": 3000})
    cluster.replicas_of("web", "web-1", 8, template=cluster.told["Deployment/web"].template)
    for number in range(8):
        cluster.made(f"web-1-{number}", shape, replica_set("web-1"), unschedulable_since=cluster.now)
    cluster.deployment("web", 8, status_replicas=8)
    cluster.deployment("web", 16)
    cluster.advance(100)
    assert cluster.object_events("ExpectedPodsDidNotCome") == []
    cluster.advance(30)
    assert len(cluster.object_events("ExpectedPodsDidNotCome")) == 1


def test_pods_that_come_with_the_wish_for_them_say_nothing_of_how_long_they_take() -> None:
    """The watcher may see both in one: the workload had lacked nothing for a day before."""
    cluster = Workloads()
    cluster.add_group("g")
    cluster.deployment("web", 3, status_replicas=3, template=cluster.form())
    cluster.advance(86_400)
    cluster.deployment("web", 5, status_replicas=5)
    assert cluster.state.came_s == {}


def test_turned_off_mid_way_nothing_is_left() -> None:
    cluster = grown(boots=False)
    cluster.settle()
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data={"foresight": "off"}))
    cluster.deployment("web", 16)
    cluster.advance(100)
    assert cluster.state.foreseen == {}
    assert orders(cluster) == [("g", 8)]
    assert cluster.object_events("ExpectedPodsDidNotCome") == []


def test_no_more_than_the_limit_are_expected_and_that_is_said() -> None:
    cluster = Workloads({**ON, "pod-injection-limit": 5}, boots=False)
    cluster.add_group("g", maximum=100)
    cluster.deployment("web", 1_000_000, template=cluster.form())
    cluster.settle()
    assert orders(cluster) == [("g", 5)]
    (said,) = cluster.object_events("ExpectedPodsLimited")
    assert (said.target.kind, said.target.name) == ("Deployment", "web")
    assert "pod-injection-limit allows no more than 5 at a time" in said.message
    for there in range(1, 4):  # its numbers change all the time
        cluster.deployment("web", 1_000_000, status_replicas=there)
        cluster.settle()
    assert len(cluster.object_events("ExpectedPodsLimited")) == 1
    cluster.deployment("web", 2_000_000)
    cluster.settle()
    assert len(cluster.object_events("ExpectedPodsLimited")) == 2


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "none"},
        {"containers": [{"resources": {"requests": {"cpu": "much"}}}]},
        {"containers": [], "affinity": 7},
        {"containers": [], "tolerations": [None]},
        {
            "containers": [],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 7}},
        },
        {
            "containers": [],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [7]}},
        },
        {"containers": [], "topologySpreadConstraints": [{"maxSkew": "one", "topologyKey": "zone"}]},
        {
            "containers": [],
            "topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {"matchLabels": [1]}}],
        },
        {"containers": [], "nodeSelector": [1]},
        {"containers": [{"resources": {"requests": {"cpu": "1" * 5000 + "x"}}}]},
    ],
)
def test_a_template_that_cannot_be_read_is_told_of_once_and_nobody_else_waits_for_it(spec: Any) -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    cluster.tell(f.TemplateObserved(at=cluster.now, digest="bad", namespace="ns", spec=spec))
    cluster.deployment("odd", 3, template="bad")
    cluster.deployment("web", 2, template=cluster.form())
    cluster.settle()
    cluster.pod("alone", cluster.shape({"cpu": 3000}))
    cluster.settle()
    (told,) = cluster.object_events("PodTemplateUnreadable")
    assert (told.target.kind, told.target.name) == ("Deployment", "odd")
    assert orders(cluster) == [("g", 2), ("g", 3)]


def test_what_the_watcher_could_not_read_of_a_template_is_told_on_its_workload() -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    cluster.tell(f.TemplateObserved(at=cluster.now, digest="bad", namespace="ns", error="at `$.containers`"))
    cluster.workload("Stage", "odd", 3, template="bad")
    cluster.settle()
    (told,) = cluster.object_events("PodTemplateUnreadable")
    assert (told.target.kind, told.target.name) == ("Stage", "odd")
    assert "cannot be read: at `$.containers`" in told.message
    assert orders(cluster) == []


@pytest.mark.parametrize(
    ("lie", "ordered"),
    [
        ({"status_replicas": 1_000_000}, []),  # nodes are ordered for its pods when the scheduler fails them
        ({"status_replicas": -5}, [("g", 3)]),
        ({"replicas": -7}, []),
        ({"replicas": 10**30}, [("g", 20)]),
        ({"succeeded": -9, "completions": -1}, [("g", 3)]),
        ({"max_surge": "a lot"}, [("g", 3)]),
    ],
)
def test_a_controller_that_lies_about_its_counts_stops_nobody(lie: Any, ordered: Any) -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    cluster.deployment("web", **{"replicas": 3, "template": cluster.form(), **lie})
    cluster.settle()
    assert orders(cluster) == ordered
    cluster.pod("alone", cluster.shape({"cpu": 3000}))
    cluster.settle()
    assert orders(cluster)[-1:] == [("g", min(20, (ordered[-1][1] if ordered else 0) + 1))]


def test_counts_below_0_are_told_on_the_workload_once() -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    cluster.deployment("web", replicas=3, template=cluster.form(), status_replicas=-5)
    cluster.settle()
    cluster.pod("alone", cluster.shape({"cpu": 3000}))
    cluster.settle()
    cluster.deployment("web", replicas=3, template=cluster.form(), status_replicas=-6)
    cluster.settle()
    (told,) = cluster.object_events("PodCountsImpossible")
    assert (told.target.kind, told.target.name) == ("Deployment", "web")
    assert "status.replicas" in told.message


def overcounting(kind: str = "Deployment", *, there: int, said: int, wait_s: float = MOST_S) -> list[str]:
    """What is told, after a while, of a workload whose controller says that it has so many pods."""
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=20)
    cluster.add_node("large", cpu=1_000_000, pods=1000)
    cluster.workload(kind, "web", replicas=3, template=cluster.form(), status_replicas=said)
    shape = cluster.shape({"cpu": 3000})
    owner = replica_set("web-1") if kind == "Deployment" else replica_set("web", kind=kind)
    for number in range(there):
        cluster.made(f"web-1-{number}", shape, owner, node="large")
    cluster.advance(wait_s)
    for name in ("alone", "another"):  # evaluations that find the same
        cluster.pod(name, cluster.shape({"cpu": 3000}), removal=f.Removal())
        cluster.settle()
    return [told.message for told in cluster.object_events("PodCountsImpossible")]


def test_nothing_is_told_of_counts_while_somebody_may_have_told_less_of_its_pods() -> None:
    """A watcher of before, which says nothing of owners' uids."""
    cluster = Workloads(boots=False)
    cluster.deployment("web", replicas=3, template=cluster.form(), status_replicas=3)
    shape = cluster.shape({"cpu": 3000})
    for number in range(3):
        cluster.tell(
            f.PodObserved(
                at=cluster.now, namespace="ns", name=f"web-1-{number}", shape=shape, phase="Pending"
            )
        )
    cluster.advance(MOST_S)
    cluster.pod("alone", shape)
    cluster.settle()
    assert cluster.object_events("PodCountsImpossible") == []


def test_a_count_of_pods_that_are_not_there_is_told_on_the_workload_once() -> None:
    (told,) = overcounting(there=2, said=1_000_000)
    assert "status.replicas: 1000000, and there are 2 pods" in told


@pytest.mark.parametrize(
    ("kind", "there", "said", "wait_s"),
    [
        ("Deployment", 3, 3, MOST_S),
        ("Deployment", 4, 3, MOST_S),
        ("Deployment", 2, 3, MOST_S / 2),  # its pods may come yet, or may have just ended
        ("LeaderWorkerSet", 2, 3, MOST_S),  # which counts what it likes
    ],
)
def test_of_other_counts_nothing_is_told(kind: str, there: int, said: int, wait_s: float) -> None:
    assert overcounting(kind, there=there, said=said, wait_s=wait_s) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingGates": [{"name": "hold"}]},
        {"containers": "none"},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    ],
)
def test_templates_whose_pods_wait_for_something_else_count_none(spec: Any) -> None:
    cluster = Workloads()
    cluster.add_group("g")
    digest = "bad"
    cluster.tell(
        f.TemplateObserved(at=cluster.now, digest=digest, namespace="ns", spec={"containers": [], **spec})
    )
    cluster.deployment("web", 3, template=digest)
    cluster.settle()
    assert orders(cluster) == []


def test_a_node_that_pods_on_their_way_need_is_needed() -> None:
    cluster = Workloads({**ON, "scale-down-unneeded-time": "1s", "scale-down-delay-after-add": "1s"})
    cluster.add_group("g", target=1)
    cluster.add_node("n", "g")
    cluster.deployment("web", 1, template=cluster.form())
    cluster.advance(40)
    assert cluster.of(p.DeleteInstances) == []
    cluster.advance(60)
    assert [d.nodes for d in cluster.of(p.DeleteInstances)] == [("n",)]


def rolled_out(cluster: Workloads, **more: Any) -> str:
    """A Deployment of four pods that fill four nodes; the template that it has."""
    cluster.add_group("g", maximum=20)
    for number in range(4):
        cluster.pod(f"before-{number}", cluster.shape({"cpu": 3000}))
    cluster.settle()
    for number in range(4):
        cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name=f"before-{number}"))
    template = cluster.form()
    cluster.deployment("web", 4, status_replicas=4, template=template, max_surge="50%", **more)
    cluster.replicas_of("web", "web-1", 4, status_replicas=4, template=template, revision="1")
    for node in sorted(cluster.state.nodes):
        cluster.made(f"web-1-{node}", cluster.shape({"cpu": 3000}), replica_set("web-1"), node=node)
    cluster.settle()
    return template


def test_the_surge_of_a_rollout_is_expected_before_its_replica_set_is_there() -> None:
    cluster = Workloads()
    rolled_out(cluster)
    before = orders(cluster)
    cluster.deployment("web", 4, template=cluster.form("2", priority=0), generation=2)
    cluster.advance(1)
    assert orders(cluster)[len(before) :] == [("g", 5)]  # one node for two pods of two cores


def test_a_replica_set_of_which_an_earlier_watcher_told_no_template_is_not_taken_for_an_old_one() -> None:
    cluster = Workloads()
    rolled_out(cluster)
    before = orders(cluster)
    cluster.replicas_of("web", "web-1", 4, status_replicas=4, template="")
    cluster.deployment("web", 4, template=cluster.form("2", priority=0), generation=2)
    cluster.advance(1)
    assert orders(cluster) == before


def test_a_paused_deployment_that_grows_has_pods_like_those_that_it_has() -> None:
    cluster = Workloads()
    rolled_out(cluster)
    before = orders(cluster)
    cluster.deployment("web", 4, template=cluster.form("1", priority=0), generation=2, paused=True)
    cluster.advance(1)
    assert orders(cluster) == before
    cluster.deployment("web", 6, generation=3)
    cluster.advance(1)
    assert orders(cluster)[len(before) :] == [("g", 6)]  # of three cores each, not of one


SURGE: dict[str, Any] = {"max_surge": "25%"}


@pytest.mark.parametrize(
    ("kind", "fields", "standing", "many"),
    [
        ("Deployment", {"replicas": 10}, WorkloadPods(active=4, current=4), 6),
        ("Deployment", {"replicas": 10, "observed": 7}, WorkloadPods(active=4, current=4), 3),
        ("Deployment", {"replicas": 10, **SURGE}, WorkloadPods(active=10, current=0), 3),
        ("Deployment", {"replicas": 10, **SURGE}, WorkloadPods(active=12, current=4), 1),
        ("Deployment", {"replicas": 10, **SURGE, "paused": True}, WorkloadPods(active=10, current=4), 0),
        ("Deployment", {"replicas": 4, **SURGE}, WorkloadPods(active=10, current=10), 0),
        ("Deployment", {"replicas": 10}, WorkloadPods(leaving=10, former=10), 0),
        ("Deployment", {"replicas": 10}, WorkloadPods(active=7, current=7, leaving=3), 3),
        ("Deployment", {"replicas": 10, **SURGE}, WorkloadPods(leaving=10, former=10), 10),
        ("ReplicaSet", {"replicas": 3}, WorkloadPods(active=1, current=1, leaving=5), 2),
        ("StatefulSet", {"replicas": 5}, WorkloadPods(active=1, leaving=1), 3),
        ("StatefulSet", {"replicas": 5, "ordered": True}, WorkloadPods(active=1), 1),
        ("Job", {"replicas": 4, "completions": 10}, WorkloadPods(active=1), 3),
        ("Job", {"replicas": 4, "completions": 10, "succeeded": 8}, WorkloadPods(active=1), 1),
        ("Job", {"replicas": 4, "completions": 10, "succeeded": 9, "observed": 1}, WorkloadPods(active=0), 0),
        ("Job", {"replicas": 4, "completions": 10, "succeeded": 5, "failed": 3}, WorkloadPods(active=1), 1),
        ("Job", {"replicas": 4, "completions": 10, "succeeded": 5, "failed": 5}, WorkloadPods(), 0),
        ("Job", {"replicas": 4}, WorkloadPods(active=1), 3),
        ("Job", {"replicas": 4, "completions": 10}, WorkloadPods(active=1, leaving=3), 3),
        ("Job", {"replicas": 4, "completions": 10, "after_end": True}, WorkloadPods(active=1, leaving=2), 1),
        ("Job", {"replicas": 4, "succeeded": 1}, WorkloadPods(active=1), 0),
        ("Job", {"replicas": 4, "suspended": True}, WorkloadPods(), 0),
        ("Job", {"replicas": 4, "ended": True}, WorkloadPods(), 0),
        ("CloneSet", {"replicas": 4}, WorkloadPods(active=1), 3),
        ("Rollout", {"replicas": -1}, WorkloadPods(), 0),
        ("Deployment", {"replicas": 4, "deleting": True}, WorkloadPods(), 0),
        (
            "Job",
            {"replicas": 4, "annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}},
            WorkloadPods(),
            0,
        ),
    ],
)
def test_how_many_pods_a_workload_lacks(
    kind: str, fields: dict[str, Any], standing: WorkloadPods, many: int
) -> None:
    assert lacking(kind, Workload(uid="u", api_version="v", **fields), standing) == many


def taken_back(cluster: Workloads) -> list[tuple[str, int, int]]:
    return [(d.target.name, d.from_size, d.size) for d in cluster.of(p.DecreaseNodeGroup)]


def deleted(cluster: Workloads) -> int:
    """Machines that never were nodes."""
    return sum(len(d.instances) for d in cluster.of(p.DeleteInstances) if not any(d.nodes))


def without_machines(cluster: Workloads, left: int = 0) -> None:
    """The cloud has made so many of what was ordered, and no more."""
    del cluster.groups["g"].instances[left:]
    cluster.observe_group("g")


def test_orders_for_pods_that_do_not_come_are_taken_back_where_there_are_no_machines() -> None:
    cluster = grown(boots=False)
    cluster.settle()
    without_machines(cluster)
    cluster.advance(50)
    assert taken_back(cluster) == []
    cluster.advance(10)
    assert taken_back(cluster) == [("g", 8, 0)]
    assert cluster.state.open == {}
    cluster.deployment("web", 9, generation=2)  # somebody has changed it: they are waited for once more
    cluster.settle()
    assert orders(cluster) == [("g", 8), ("g", 9)]


def test_machines_that_boot_stay_for_a_minute_however_quickly_pods_have_come_before() -> None:
    """Whoever makes the pods may be about to elect another, or a watch stands still."""
    cluster = grown(boots=False)
    cluster.advance(2)
    shape = cluster.shape({"cpu": 3000})
    cluster.replicas_of("web", "web-1", 8, template=cluster.told["Deployment/web"].template)
    for number in range(8):
        cluster.made(f"web-1-{number}", shape, replica_set("web-1"), unschedulable_since=cluster.now)
    cluster.deployment("web", 8, status_replicas=8)
    cluster.settle()
    assert 0 < cluster.state.came_s["Deployment"] < 4
    cluster.deployment("web", 12)
    cluster.settle()
    assert orders(cluster)[-1] == ("g", 12)
    cluster.advance(50)
    assert (deleted(cluster), cluster.object_events("ExpectedPodsDidNotCome")) == (0, [])
    cluster.advance(11)
    assert (deleted(cluster), len(cluster.object_events("ExpectedPodsDidNotCome"))) == (4, 1)


def test_nothing_is_taken_back_while_the_cluster_is_unhealthy() -> None:
    cluster = Workloads({**ON, "ok-total-unready-count": 0, "max-total-unready-percentage": 10}, boots=False)
    cluster.add_group("g", target=1, maximum=50)
    cluster.add_node("n", "g")
    cluster.deployment("web", 0, template=cluster.form())
    cluster.deployment("web", 6)
    cluster.settle()
    assert orders(cluster) == [("g", 6)]
    node = f.NodeObserved(at=cluster.now, name="n", provider_id="sim://n", created_at=1.0)
    cluster.tell(node)
    cluster.advance(120)
    assert (deleted(cluster), cluster.object_events("ExpectedPodsDidNotCome")) == (0, [])
    cluster.tell(msgspec.structs.replace(node, at=cluster.now, ready=True, ready_changed_at=cluster.now))
    cluster.advance(1)
    assert (deleted(cluster), len(cluster.object_events("ExpectedPodsDidNotCome"))) == (5, 1)


def test_orders_for_pods_that_their_controller_cannot_make_are_taken_back_at_once() -> None:
    cluster = grown(boots=False)
    cluster.settle()
    without_machines(cluster)
    cluster.deployment("web", 8, refused='pods "web-1-" is forbidden: exceeded quota: q')
    cluster.settle()
    assert taken_back(cluster) == [("g", 8, 0)]


def test_orders_for_pods_that_are_wanted_no_longer_are_taken_back_and_that_is_told() -> None:
    cluster = grown(boots=False)
    cluster.advance(0.5)
    (ordered,) = orders(cluster)
    without_machines(cluster)
    cluster.deployment("web", 0, generation=2)
    cluster.advance(1)
    (told,) = cluster.object_events("ExpectedPodsDidNotCome")
    assert told.message.endswith("and they have not come: it wants 0 pods by now")
    assert taken_back(cluster) == [("g", ordered[1], 0)]
    assert cluster.state.foreseen == {}


def all_there_though_nobody_says_so() -> Workloads:
    cluster = grown()
    cluster.settle()
    shape, sets = cluster.shape({"cpu": 3000}), replica_set("web-1")
    for number in range(7):
        cluster.made(f"web-1-{number}", shape, sets, node=f"g-{number}")
    cluster.pod("alone", shape)
    cluster.settle()
    assert [*cluster.state.foreseen] == ["Deployment/ns/web"]  # one is still to come
    cluster.made("web-1-7", shape, sets, node="g-7")
    cluster.pod("another", shape)
    cluster.settle()
    return cluster


def test_what_was_ordered_for_pods_that_are_there_is_forgotten_though_their_workload_never_says_so() -> None:
    assert all_there_though_nobody_says_so().state.foreseen == {}


def test_it_is_forgotten_as_well_by_who_folds_the_log_where_nothing_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """State is a function of the log, and of no setting: a plan of other settings would go on from another one."""
    cluster = all_there_though_nobody_says_so()
    recorded: dict[int, list[Decided]] = {}
    for decision in cluster.said:
        recorded.setdefault(cause_of(decision.id)[0], []).append(Decided(decision, registry.encode(decision)))
    monkeypatch.setattr("tidewright.provisioning.flags.read", lambda _: (Settings(foresight="off"), ()))
    fold: Fold[State] = Fold(DECIDER, ALL)
    for seq, body in cluster.log:
        fold.replay(seq, body, registry.read(body), recorded.get(seq, []))
    assert msgspec.json.encode(fold.state) == msgspec.json.encode(cluster.state)


def test_pods_that_have_come_and_go_again_are_nothing_to_tell() -> None:
    cluster = grown(boots=False)
    cluster.advance(0.5)
    cluster.deployment("web", 8, status_replicas=8)
    cluster.deployment("web", 0, generation=2)
    cluster.advance(1)
    assert cluster.object_events("ExpectedPodsDidNotCome") == []
    assert taken_back(cluster) == []


def test_pods_that_are_wanted_again_before_their_orders_are_taken_back_keep_them() -> None:
    cluster = grown(boots=False)
    cluster.advance(0.5)
    before = orders(cluster)
    cluster.deployment("web", 0, generation=2)
    cluster.deployment("web", 8, generation=3)
    cluster.advance(1)
    assert cluster.object_events("ExpectedPodsDidNotCome") == []
    assert orders(cluster) == before
    assert taken_back(cluster) == []


def test_machines_that_are_no_nodes_yet_are_deleted_and_nodes_go_by_scale_down() -> None:
    cluster = grown(boots=False)
    cluster.settle()
    cluster.boot("g", 3)
    cluster.advance(61)
    assert taken_back(cluster) == []
    assert deleted(cluster) == 5
    assert cluster.groups["g"].target == 3


def test_of_some_machines_and_some_orders_the_orders_are_taken_back() -> None:
    cluster = grown(boots=False)
    cluster.settle()
    without_machines(cluster, left=3)
    cluster.advance(61)
    assert taken_back(cluster) == [("g", 8, 3)]
    assert deleted(cluster) == 0


def test_nodes_on_their_way_that_others_need_are_not_taken_back() -> None:
    cluster = grown(boots=False)
    cluster.settle()
    shape = cluster.shape({"cpu": 3000})
    for number in range(2):
        cluster.pod(f"alone-{number}", shape)
    cluster.settle()
    assert orders(cluster) == [("g", 8), ("g", 10)]  # those that wait have come first
    without_machines(cluster)
    cluster.advance(61)
    assert taken_back(cluster) == [("g", 10, 2)]


def test_the_minimum_of_a_group_is_not_taken_back() -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", minimum=2, target=2, maximum=20)
    for number in range(2):
        cluster.add_node(f"n{number}", "g")
    cluster.deployment("web", 0, template=cluster.form())
    cluster.deployment("web", 6)
    cluster.settle()
    assert orders(cluster) == [("g", 6)]
    without_machines(cluster, left=2)
    cluster.advance(61)
    assert taken_back(cluster) == [("g", 6, 2)]


def test_orders_of_a_group_that_comes_whole_or_not_at_all_stay() -> None:
    cluster = Workloads(boots=False)
    cluster.add_group("g", maximum=8, zero_or_max=True)
    cluster.deployment("web", 0, template=cluster.form())
    cluster.deployment("web", 5)
    cluster.settle()
    assert orders(cluster) == [("g", 8)]
    without_machines(cluster)
    cluster.advance(61)
    assert len(cluster.object_events("ExpectedPodsDidNotCome")) == 1
    assert taken_back(cluster) == []
