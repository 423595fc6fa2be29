"""A node's way out: marked, drained under budgets, deleted; or left as it was."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.provisioning.removalworld import DAEMON, NO_PASS, Removing, world
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision
from tidewright.events.config import ConfigSet, ModesSet
from tidewright.events.decisions import MOST_MESSAGES, EvictPod, RecordObjectEvent
from tidewright.host.fold.explainer import Reference
from tidewright.kube.taints import DRAIN, TO_BE_DELETED
from tidewright.provisioning.scaledown.removal import words
from tidewright.provisioning.scaleup.orders import STATUS_MAP, status_event
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import counts
from tidewright.provisioning.tell.explaining import EXPLAINER

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def evictions(cluster: Removing) -> dict[str, float]:
    """How many pods were evicted, by what came of it."""
    read = ((*counts.read(key), value) for key, value in cluster.state.counts.items())
    return {
        labels["eviction_result"]: value
        for name, labels, value in read
        if name == "cluster_autoscaler_evicted_pods_total"
    }


def test_a_node_is_marked_drained_and_deleted() -> None:
    cluster = world()
    for i in range(3):
        cluster.run_pod(f"p{i}", "n0")
    cluster.remove("n0")
    assert cluster.marked() == {"n0"}
    assert cluster.objects["n0"]["spec"]["unschedulable"] is True
    assert cluster.evicted == [], "not before the taint has been there for a while"
    cluster.advance(5.0)
    assert sorted(cluster.evicted) == ["p0", "p1", "p2"]
    assert cluster.deleted == ["n0"]
    (deletion,) = cluster.of(p.DeleteInstances)
    assert (deletion.uids, deletion.from_size, deletion.size) == (("uid-n0",), 3, 2)
    assert cluster.groups["g"].target == 2
    assert cluster.state.removals == {}
    assert cluster.undone() == []
    assert [event.message for event in cluster.object_events("ScaleDown") if event.target == STATUS_MAP] == [
        "Scale-down: removing node n0, utilization: cpu 0.07, pods to reschedule: ns/p0,ns/p1,ns/p2",
        "Scale-down: node n0 removed with drain",
    ]
    assert evictions(cluster) == {"succeeded": 3.0}


def test_an_empty_node_goes_without_evictions() -> None:
    cluster = world()
    cluster.remove("n1", drain=False)
    cluster.advance(4.9)
    assert cluster.deleted == []
    cluster.advance(0.2)
    assert (cluster.deleted, cluster.evicted) == (["n1"], [])
    assert [e.message for e in cluster.object_events("ScaleDownEmpty")] == [
        'Scale-down: removing empty node "n1"',
        "Scale-down: empty node n1 removed",
    ]


def test_what_is_said_of_nodes_that_go_at_once_is_one_decision() -> None:
    cluster = world()
    for node in ("n1", "n2"):
        cluster.remove(node, drain=False)
    cluster.advance(6.0)
    assert sorted(cluster.deleted) == ["n1", "n2"]
    assert [event.message for event in cluster.object_events("ScaleDownEmpty")] == [
        'Scale-down: removing empty node "n1"',
        'Scale-down: removing empty node "n2"',
        "Scale-down: empty node n1 removed",
        "Scale-down: empty node n2 removed",
    ]
    on_the_log = [event for event in cluster.of(RecordObjectEvent) if event.target == STATUS_MAP]
    assert [len(event.messages) for event in on_the_log] == [1, 1, 2], (
        "each began by itself, and both end with one call"
    )


@given(st.lists(st.sampled_from(("status", "node", "failed")), max_size=3 * MOST_MESSAGES))
def test_nothing_that_is_said_together_is_lost_or_moves_before_what_it_follows(kinds: list[str]) -> None:
    made: list[Decision] = []
    for n, kind in enumerate(kinds):
        name = f"n{n}"
        gone, empty = words.deleted(1.0, name, "u", drains=False)
        made.append({"status": empty, "node": gone, "failed": status_event(1.0, "ScaleUpFailed", name)}[kind])
    together = words.together(made)
    texts = [
        message
        for decision in together
        if isinstance(decision, RecordObjectEvent)
        for message in decision.messages
    ]
    assert sorted(texts) == sorted(event.message for event in made if isinstance(event, RecordObjectEvent))
    gathered = [event for event in together if isinstance(event, RecordObjectEvent) and event.also]
    assert all(event.target == STATUS_MAP and event.reason == "ScaleDownEmpty" for event in gathered)
    assert all(len(event.messages) <= MOST_MESSAGES for event in gathered)
    assert [event for event in together if event in made] == [event for event in made if event in together]


def test_an_empty_node_that_got_a_pod_stays_as_it_was() -> None:
    cluster = world()
    cluster.remove("n1", drain=False)
    cluster.run_pod("late", "n1")
    cluster.advance(10.0)
    assert (cluster.deleted, cluster.undone(), cluster.marked()) == ([], ["NotEmpty"], set())


def test_nothing_is_evicted_before_the_node_itself_shows_the_mark() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.hides_nodes = True
    cluster.remove("n0")
    cluster.advance(60.0)
    assert (cluster.marked(), cluster.evicted) == ({"n0"}, [])
    cluster.tell(cluster.fact_of("n0"))
    cluster.advance(4.0)
    assert cluster.evicted == []
    cluster.advance(1.0)
    assert cluster.evicted == ["p0"]


def test_a_budget_lets_one_pod_go_at_a_time() -> None:
    cluster = world()
    for i in range(3):
        cluster.run_pod(f"p{i}", "n0")
    cluster.budget("web", 1)
    cluster.remove("n0")
    cluster.advance(5.0)
    assert cluster.evicted == ["p0"]
    cluster.advance(60.0)
    assert cluster.evicted == ["p0"], "the budget's fact says that nobody else may go"
    cluster.budget("web", 1)
    assert cluster.evicted == ["p0", "p1"]
    cluster.advance(110.0)
    cluster.budget("web", 1)
    assert cluster.evicted == ["p0", "p1", "p2"], "a pod's time begins when the budget has moved on"
    assert cluster.deleted == ["n0"]


def test_a_budget_that_was_open_again_before_an_eviction_was_answered_is_asked_ten_seconds_later() -> None:
    # The answer was lost; when the actuator has found out, the budget has said all that it has to say.
    cluster = world()
    for i in range(3):
        cluster.run_pod(f"p{i}", "n0")
    cluster.budget("web", 1)
    cluster.reopens = True
    cluster.remove("n0")
    cluster.advance(5.0)
    cluster.advance(9.0)
    assert cluster.evicted == ["p0"]
    cluster.advance(2.0)
    assert cluster.evicted == ["p0", "p1"]
    cluster.advance(11.0)
    assert cluster.evicted == ["p0", "p1", "p2"]
    assert (cluster.deleted, cluster.undone()) == (["n0"], [])


def test_two_nodes_never_ask_for_more_than_the_budget_has() -> None:
    cluster = world()
    for i in range(4):
        cluster.run_pod(f"p{i}", f"n{i % 2}")
    cluster.budget("web", 1)
    cluster.remove("n0")
    cluster.remove("n1")
    cluster.advance(5.0)
    assert len(cluster.of(EvictPod)) == 1


def test_a_budget_that_stays_closed_undoes_the_drain() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    cluster.remove("n0")
    cluster.advance(124.0)
    assert cluster.undone() == []
    cluster.advance(2.0)
    assert (cluster.undone(), cluster.evicted, cluster.marked()) == (["DisruptionBudget"], [], set())
    (undone,) = cluster.of(p.UndoRemoval)
    assert (undone.failed, undone.pod) == (True, "ns/p0")
    assert evictions(cluster) == {"failed": 1.0}
    assert [e.message for e in cluster.object_events("ScaleDownFailed")] == [
        "failed to delete pod for ScaleDown",
        "failed to drain and delete node: pod ns/p0 may not be evicted: DisruptionBudget",
    ]


def test_a_refusal_is_asked_again_every_ten_seconds_until_the_time_is_over() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.refuse_evictions = "Forbidden"
    cluster.remove("n0")
    cluster.advance(100.0)
    asked = [decision.at for decision in cluster.of(EvictPod)]
    assert {round(b - a, 3) for a, b in pairwise(asked)} == {10.0}
    cluster.refuse_evictions = ""
    cluster.advance(20.0)
    assert cluster.deleted == ["n0"]


def test_a_refusal_that_stays_undoes_the_drain() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.refuse_evictions = "Forbidden"
    cluster.remove("n0")
    cluster.advance(130.0)
    assert (cluster.undone(), cluster.marked()) == (["Forbidden"], set())


def test_a_pod_that_does_not_end_undoes_the_drain() -> None:
    cluster = world()
    cluster.ends = False
    cluster.run_pod("p0", "n0", removal=f.Removal(grace_s=600))
    cluster.remove("n0")
    cluster.advance(600.0)
    assert (cluster.deleted, cluster.undone()) == ([], [])
    cluster.advance(40.0)
    assert (cluster.deleted, cluster.undone()) == ([], ["NotGone"])


def test_an_eviction_asks_for_no_more_time_than_is_waited_for() -> None:
    cluster = world()
    cluster.run_pod("long", "n0", removal=f.Removal(grace_s=3600))
    cluster.run_pod("short", "n0", removal=f.Removal(grace_s=20))
    cluster.remove("n0")
    cluster.advance(5.0)
    asked = {d.target.name: d.grace_period_s for d in cluster.of(EvictPod)}
    assert asked == {"long": 600, "short": None}


def test_pods_of_higher_priority_leave_when_the_others_have() -> None:
    cluster = world(config={"drain-priority-config": "0:60,1000:300"})
    cluster.ends = False
    cluster.run_pod("low", "n0")
    cluster.run_pod("high", "n0", priority=2000, removal=f.Removal(grace_s=900))
    cluster.remove("n0")
    cluster.advance(30.0)
    assert cluster.evicted == ["low"]
    cluster.end_pod("low")
    assert cluster.evicted == ["low", "high"]
    assert cluster.of(EvictPod)[-1].grace_period_s == 300
    cluster.end_pod("high")
    assert cluster.deleted == ["n0"]


def test_daemon_pods_go_along_and_are_not_waited_for() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.run_pod("log", "n0", owners=(DAEMON,), app="log")
    daemon = p.PodToEvict(namespace="ns", name="log", uid="uid-log")
    cluster.ends = False
    cluster.remove("n0", daemons=(daemon,))
    cluster.advance(5.0)
    assert sorted(cluster.evicted) == ["log", "p0"]
    cluster.end_pod("p0")
    assert cluster.deleted == ["n0"]


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        ({"owners": ()}, "NotReplicated"),
        (
            {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            "NotSafeToEvictAnnotation",
        ),
        ({"removal": None}, "UnexpectedError"),
    ],
)
def test_a_pod_that_may_not_go_undoes_the_drain(pod: dict[str, Any], why: str) -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.remove("n0")
    cluster.run_pod("came", "n0", **pod)
    cluster.advance(5.0)
    (undone,) = cluster.of(p.UndoRemoval)
    assert (undone.reason, undone.pod) == ("BlockedByPod", "ns/came")
    assert why in undone.message
    assert (cluster.evicted, cluster.marked()) == ([], set())


def test_a_node_leaves_its_marks_when_somebody_says_that_it_is_to_stay() -> None:
    cluster = world()
    cluster.budget("web", 0)
    cluster.run_pod("p0", "n0")
    cluster.remove("n0")
    cluster.objects["n0"]["metadata"]["annotations"][DISABLED] = "true"
    cluster.tell(cluster.fact_of("n0"))
    assert cluster.undone() == ["ScaleDownDisabledAnnotation"]
    assert cluster.objects["n0"]["metadata"]["annotations"] == {DISABLED: "true"}


def test_what_was_there_before_stays_when_a_drain_is_undone() -> None:
    cluster = world()
    gpu = {"key": "gpu", "value": "", "effect": "NoExecute"}
    cluster.object("n0", [gpu], unschedulable=True)
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    cluster.remove("n0")
    cluster.advance(200.0)
    assert cluster.undone()
    assert cluster.objects["n0"]["spec"] == {"taints": [gpu], "unschedulable": True}


def test_a_mark_that_somebody_takes_off_undoes_the_drain() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    cluster.remove("n0")
    cluster.object("n0")
    assert cluster.undone() == ["MarkRemoved"]


def test_a_node_that_cannot_be_marked_stays() -> None:
    cluster = world()
    cluster.mark_fails = "TaintOfAnother"
    cluster.remove("n0", drain=False)
    cluster.mark_fails = ""
    cluster.advance(60.0)
    assert (cluster.undone(), cluster.deleted) == (["Failed"], [])
    (event,) = cluster.object_events("ScaleDownFailed")
    assert event.message.startswith("failed to mark the node as toBeDeleted/unschedulable: ")


def test_annotations_that_delay_the_deletion_are_waited_for_but_not_for_ever() -> None:
    cluster = world()
    cluster.remove("n0", drain=False)
    cluster.tell(cluster.fact_of("n0", delays=("delay-deletion.cluster-autoscaler.kubernetes.io/csi",)))
    cluster.advance(60.0)
    assert cluster.deleted == []
    cluster.tell(cluster.fact_of("n0"))
    assert cluster.deleted == ["n0"]
    cluster.remove("n1", drain=False)
    cluster.tell(cluster.fact_of("n1", delays=("delay-deletion.cluster-autoscaler.kubernetes.io/csi",)))
    cluster.advance(126.0)
    assert cluster.deleted == ["n0", "n1"]


@pytest.mark.parametrize(
    "selector",
    [None, {"matchLabels": {"app": "nobody"}}, {"matchExpressions": [{"key": "app", "operator": "Like"}]}],
)
def test_a_budget_that_selects_nothing_or_cannot_be_read_keeps_nobody(
    selector: dict[str, Any] | None,
) -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.tell(
        p.PodDisruptionBudgetObserved(
            at=cluster.now, namespace="ns", name="odd", selector=selector, allowed=0
        )
    )
    cluster.remove("n0")
    cluster.advance(10.0)
    assert (cluster.evicted, cluster.deleted, cluster.undone()) == (["p0"], ["n0"], [])


def test_a_pod_whose_owner_is_gone_keeps_its_node_and_is_named() -> None:
    cluster = world(2, {"scale-down-unneeded-time": "0s", "scan-interval": "1s"}, minimum=1)
    cluster.run_pod("orphan", "n0")
    cluster.run_pod("kept", "n1", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    cluster.tell(
        f.WorkloadGone(at=cluster.now, namespace="ns", name="web", api_version="apps/v1", kind="ReplicaSet")
    )
    cluster.advance(60.0)
    assert (cluster.of(p.RemoveNode), cluster.evicted) == ([], [])
    said = told(cluster, "n0")
    assert "ns/orphan" in said
    assert "the controller that made it is not there: with it, or without the pod, the node could go" in said


def test_no_instance_is_deleted_that_two_nodes_say_they_are() -> None:
    cluster = world(3, {"scale-down-unneeded-time": "0s", "scan-interval": "1s"}, minimum=2)
    twin = msgspec.structs.replace(cluster.fact_of("n0"), name="twin", uid="uid-twin")
    cluster.tell(twin)
    cluster.run_pod("kept-1", "n1", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    cluster.run_pod("kept-2", "n2", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    cluster.advance(60.0)
    assert (cluster.of(p.RemoveNode), cluster.deleted) == ([], [])
    assert "Another node has its spec.providerID, too" in told(cluster, "n0")
    assert "Another node has its spec.providerID, too" in told(cluster, "twin")
    cluster.tell(f.NodeGone(at=cluster.now, name="twin"))
    cluster.advance(60.0)
    assert cluster.deleted == ["n0"]


def test_a_node_whose_provider_id_another_takes_on_the_way_stays() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    cluster.remove("n0")
    cluster.advance(10.0)
    cluster.tell(
        msgspec.structs.replace(cluster.fact_of("n0"), name="twin", uid="uid-twin", taints=(), annotations={})
    )
    cluster.budget("web", 1)
    cluster.advance(10.0)
    assert (cluster.undone(), cluster.deleted, cluster.evicted) == (["SharedProviderID"], [], [])


def test_marks_that_were_left_over_come_off() -> None:
    cluster = world()
    cluster.objects["n0"]["metadata"]["annotations"][DRAIN] = "provisioning.all.1.0 cordoned"
    cluster.objects["n0"]["spec"] = {"taints": [{"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"}]}
    cluster.mark_fails = "Unavailable"
    cluster.tell(cluster.fact_of("n0"))
    assert cluster.marked() == {"n0"}
    cluster.mark_fails = ""
    cluster.advance(11.0)
    assert cluster.marked() == set()


def test_a_mark_that_may_not_be_taken_off_is_tried_more_and_more_seldom_and_said_once() -> None:
    cluster = world()
    cluster.objects["n0"]["metadata"]["annotations"][DRAIN] = "provisioning.all.1.0 cordoned"
    cluster.objects["n0"]["spec"] = {"taints": [{"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"}]}
    cluster.mark_fails = "Forbidden"
    cluster.tell(cluster.fact_of("n0"))
    cluster.advance(3600.0)
    tried = len(cluster.of(p.MarkNode))
    assert tried <= 20
    (said,) = [d for d in cluster.of(RecordObjectEvent) if "take our taint" in d.message]
    assert (said.target.name, said.event_type) == ("n0", "Warning")
    assert "Forbidden here" in said.message
    cluster.mark_fails = ""
    cluster.advance(600.0)
    assert cluster.marked() == set()
    assert (cluster.state.left, cluster.state.stuck) == ({}, {})


def test_a_mark_that_is_said_to_be_off_and_still_seen_is_asked_for_again_a_while_later() -> None:
    """A watcher behind, or an actuator in shadow: as fast as it answered it was asked before."""
    cluster = world()
    cluster.hides_nodes = True
    marked = deepcopy(cluster.objects["n0"])
    marked["metadata"]["annotations"][DRAIN] = "provisioning.all.1.0 cordoned"
    marked["spec"] = {"taints": [{"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"}]}
    for _ in range(20):
        cluster.objects["n0"] = deepcopy(marked)
        cluster.tell(cluster.fact_of("n0"))
    assert len(cluster.of(p.MarkNode)) == 1
    cluster.advance(60.0)
    assert 2 <= len(cluster.of(p.MarkNode)) <= 7
    cluster.tell(cluster.fact_of("n0"))  # as it is by now
    assert cluster.state.left == {}


def test_the_mark_of_an_incumbent_stays() -> None:
    cluster = world()
    cluster.object("n0", [{"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"}])
    cluster.advance(60.0)
    assert cluster.of(p.MarkNode) == []


def test_a_node_that_is_gone_needs_no_removing() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.remove("n0")
    cluster.tell(f.NodeGone(at=cluster.now, name="n0"))
    cluster.advance(60.0)
    assert cluster.state.removals == {}
    assert cluster.evicted == []


def test_who_may_not_act_does_nothing_and_forgets_the_drain_when_it_may_again() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    cluster.remove("n0")
    cluster.tell(ModesSet(at=cluster.now, mode="shadow"))
    cluster.budget("web", 1)
    cluster.advance(60.0)
    assert cluster.evicted == []
    cluster.tell(ModesSet(at=cluster.now, mode="enforce"))
    cluster.advance(1.0)
    assert (cluster.state.removals, cluster.marked()) == ({}, set())


def test_the_state_follows_from_the_log_alone() -> None:
    cluster = world()
    for i in range(2):
        cluster.run_pod(f"p{i}", "n0")
    cluster.budget("web", 1)
    cluster.remove("n0")
    cluster.advance(20.0)
    stored = msgspec.json.encode(cluster.state)
    again = msgspec.json.decode(stored, type=State)
    assert msgspec.json.encode(again) == stored
    assert again.removals["n0"].pods


def test_a_node_that_a_waiting_pod_needs_is_given_back_instead_of_another_being_ordered() -> None:
    cluster = world(1, maximum=5)
    cluster.budget("web", 0)
    cluster.run_pod("p0", "n0")
    cluster.remove("n0")
    cluster.advance(10.0)
    shape = cluster.shape({"cpu": 1000})
    cluster.pod("waits", shape)
    cluster.settle()
    assert cluster.undone() == ["NodeNeeded"]
    assert cluster.marked() == set()
    assert cluster.of(p.IncreaseNodeGroup) == []


def test_a_node_whose_room_is_elsewhere_too_goes_on_its_way() -> None:
    cluster = world(2)
    cluster.budget("web", 0)
    cluster.run_pod("p0", "n0")
    cluster.remove("n0")
    cluster.advance(10.0)
    cluster.pod("waits", cluster.shape({"cpu": 1000}))
    cluster.settle()
    assert cluster.undone() == []
    cluster.pod("large", cluster.shape({"cpu": 64_000}))
    cluster.settle()
    assert cluster.undone() == [], "it would not help"


def told(cluster: Removing, name: str) -> str:
    node = Reference("node", "", name)
    return " ".join(EXPLAINER.standing(cluster.state, node, cluster.now))


def test_how_far_a_removal_has_come_is_told_at_every_step() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.budget("web", 0)
    assert "removed since" not in told(cluster, "n0")
    cluster.remove("n0")
    assert "it is left alone with its taint until" in told(cluster, "n0")
    cluster.advance(6.0)
    assert "1 pod must leave first" in told(cluster, "n0")
    assert "Pod ns/p0: not asked to leave yet" in told(cluster, "n0")
    cluster.ends = False
    cluster.budget("web", 1)
    assert "and is ending" in told(cluster, "n0")
    cluster.end_pod("p0")
    assert cluster.deleted == ["n0"]


def test_what_was_decided_about_a_node_is_found_when_it_is_gone() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    pod = p.PodToEvict(namespace="ns", name="p0", uid="uid-p0")
    cluster.remove("n0", pods=(pod,))
    cluster.advance(6.0)
    asked = Reference("node", "", "n0")
    concerning = [decision for decision in cluster.said if EXPLAINER.concerns(decision, asked)]
    assert [type(decision) for decision in concerning] == [p.RemoveNode, p.DeleteInstances]
    assert EXPLAINER.sentences(concerning[0]) == ["ns/p0 leaves it first."]


@pytest.mark.parametrize("dry", [True, False])
def test_a_configuration_that_says_dry_run_removes_nothing(dry: bool) -> None:
    quick = {"scale-down-unneeded-time": "1s", "scale-down-delay-after-add": "0s"}
    cluster = Removing({**quick, "dry-run": dry})
    cluster.grown(2)
    cluster.advance(60.0)
    assert cluster.of(p.RemoveNode), "it is said what would go"
    assert sorted(cluster.deleted) == ([] if dry else ["n0", "n1"])
    assert {mark.shadow for mark in cluster.of(p.MarkNode)} == {dry}
    assert cluster.marked() == set()


@pytest.mark.parametrize("marked", [True, False])
def test_a_drain_under_way_ends_when_the_configuration_says_dry_run(marked: bool) -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.silent = not marked
    cluster.remove("n0")
    cluster.silent = False
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data={**NO_PASS, "dry-run": True}))
    cluster.advance(10.0)
    assert (cluster.evicted, cluster.deleted) == ([], [])
    assert cluster.undone() == ["DryRun"]
    assert cluster.marked() == set()


def test_a_pod_that_somebody_else_deletes_and_that_never_ends_does_not_hold_a_drain_up_for_ever() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0", deleting_at=cluster.now + 30)
    cluster.remove("n0")
    cluster.advance(50.0)
    assert cluster.deleted == []
    cluster.advance(60.0)
    assert cluster.deleted == ["n0"]


def test_pods_that_keep_coming_are_not_evicted_for_ever() -> None:
    cluster = world()
    cluster.ends = False
    cluster.run_pod("p0", "n0")
    cluster.remove("n0")
    for i in range(1, 60):
        cluster.advance(5.0)
        cluster.run_pod(f"p{i}", "n0")  # its owner makes it anew, and it tolerates every taint
        cluster.end_pod(f"p{i - 1}")
    assert cluster.undone() == ["KeepsComing"]
    assert cluster.marked() == set()
    assert 20 < len(cluster.evicted) < 30, "for as long as evictions are asked for"


def test_a_mark_that_is_never_seen_ends_the_removal() -> None:
    cluster = world()
    cluster.hides_nodes = True
    cluster.remove("n0", drain=False)
    cluster.advance(600.0)
    (undone,) = cluster.of(p.UndoRemoval)
    assert (undone.reason, undone.failed) == ("MarkNotSeen", True)
    assert (cluster.state.removals, cluster.marked()) == ({}, set())


def test_a_node_with_pods_of_a_namespace_that_is_held_back_is_not_drained() -> None:
    quick = {"scale-down-unneeded-time": "1s", "scale-down-delay-after-add": "0s"}
    cluster = Removing(quick)
    cluster.tell(ModesSet(at=cluster.now, selector="a=b", namespaces=("other",)))
    cluster.grown(2, minimum=1)
    cluster.run_pod("p0", "n0")
    cluster.run_pod("p1", "n1")
    cluster.advance(60.0)
    assert cluster.of(p.RemoveNode) == []
    assert "is held back" in told(cluster, "n0")
    cluster.tell(ModesSet(at=cluster.now))
    cluster.advance(600.0)
    assert len(cluster.deleted) == 1


def test_a_drain_ends_where_the_namespace_of_a_pod_is_held_back_on_the_way() -> None:
    cluster = world()
    cluster.run_pod("p0", "n0")
    cluster.remove("n0")
    cluster.tell(ModesSet(at=cluster.now, selector="a=b", namespaces=("other",)))
    cluster.advance(600.0)
    assert (cluster.evicted, cluster.deleted) == ([], [])
    assert cluster.undone() == ["BlockedByPod"]
    assert cluster.marked() == set()


def test_a_node_with_only_expendable_pods_goes_when_they_have_left() -> None:
    quick = {"scale-down-unneeded-time": "1s", "scale-down-delay-after-add": "0s"}
    cluster = Removing(quick)
    cluster.grown(1)
    cluster.run_pod("p0", "n0", priority=-20)
    cluster.advance(60.0)
    assert (cluster.evicted, cluster.deleted, cluster.undone()) == (["p0"], ["n0"], [])


def test_nothing_is_remembered_of_a_node_that_went_before_its_mark_came_off() -> None:
    cluster = world()
    cluster.remove("n0", drain=False)
    cluster.silent = True
    cluster.objects["n0"]["metadata"]["annotations"][DISABLED] = "true"
    cluster.tell(cluster.fact_of("n0"))
    (off,) = [mark for mark in cluster.of(p.MarkNode) if not mark.present]
    cluster.tell(f.NodeGone(at=cluster.now, name="n0"))
    cluster.tell(o.Failed(at=cluster.now, decision=off.id, reason="Unavailable"))
    assert cluster.state.left == {}
