"""Passes of scale-down in the decider: what is recorded, when it is looked again, and what keeps nodes."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.provisioning.watched import Watched, three_nodes
from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import JsonObject, ObjectRef
from tidewright.events.decisions import EvictPod, SetTimer
from tidewright.events.outcomes import Applied
from tidewright.events.placement import PlacementObjectObserved
from tidewright.kube.keys import pod_key
from tidewright.provisioning.fold.removals import LATENCY, deletion_answered
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown.candidates import eligible
from tidewright.provisioning.scaledown.going import timers, whole
from tidewright.provisioning.scaledown.removal import on_their_way
from tidewright.provisioning.scaledown.unneeded import unremovable
from tidewright.provisioning.state import Lately, State
from tidewright.provisioning.tell import counts, exposition
from tidewright.provisioning.tell.what_if_scaledown import as_text, in_words, preview
from tidewright.provisioning.unanswered import DeleteOrder

GIB = 2**30


def copied(cluster: Cluster) -> State:
    return msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)


def test_a_node_is_unneeded_when_its_pods_fit_elsewhere_and_it_is_recorded_where() -> None:
    cluster = three_nodes()
    cluster.advance(15)
    assert cluster.unneeded == {"g0", "g1"}
    assert cluster.state.unneeded["g1"].moves == {pod_key("ns", "one"): "g2"}
    (tracked,) = cluster.of(p.TrackUnneededNodes)
    assert [node.node for node in tracked.unneeded] == ["g0", "g1"]
    assert "Nobody needs it since" in cluster.standing("g1")
    assert "its pods would go to g2 (1)" in cluster.standing("g1")
    assert "75 % of its cpu is asked for" in cluster.standing("g2")


def test_nothing_is_recorded_nor_timed_while_nothing_changes() -> None:
    cluster = three_nodes({"scale-down-unneeded-time": "1h"})
    cluster.advance(60)
    before = len(cluster.said)
    cluster.advance(1800)
    looked = [d for d in cluster.said[before:] if isinstance(d, p.TrackUnneededNodes | SetTimer)]
    assert [d for d in looked if isinstance(d, p.TrackUnneededNodes) or d.key == "scan"] == []


def test_a_pod_that_comes_makes_its_node_needed_again() -> None:
    cluster = three_nodes()
    cluster.advance(15)
    for i in range(6):
        cluster.placed(f"new{i}", "g0")
    cluster.advance(15)
    assert cluster.unneeded == {"g1"}
    assert cluster.of(p.TrackUnneededNodes)[-1].needed == ("g0",)


def test_a_pod_without_a_place_keeps_its_node_and_it_is_said_which() -> None:
    cluster = Watched()
    cluster.nodes(2, cpu=1000)
    cluster.placed("one", "g0")
    cluster.placed("two", "g1")
    cluster.placed("three", "g1")
    cluster.advance(15)
    assert cluster.unneeded == set()
    assert cluster.state.paused["g0"].reason == "NoPlaceToMovePods"
    says = "Its pods do not all fit on other nodes: its only pod finds no room: ns/one (asks for 0.5 cores and 1 GiB of memory); "
    assert f"{says}g1, which is the nearest to it, has 0 cores free." in cluster.standing("g0")
    cluster.again("g1", cluster.groups["g"].template.allocatable, unschedulable=True)
    assert "it may be on none of the other nodes that take pods" in cluster.standing("g0")
    cluster.again("g1", cluster.groups["g"].template.allocatable)
    cluster.gone("three")
    cluster.advance(400)
    assert len(cluster.unneeded) == 1


def test_of_pods_of_which_one_finds_no_room_that_one_is_told_of() -> None:
    cluster = Watched()
    cluster.nodes(2, cpu=1000)
    for name, node, cpu in (("one", "g0", 250), ("two", "g0", 250), ("three", "g1", 700)):
        cluster.placed(name, node, shape=cluster.shape({"cpu": cpu}))
    cluster.advance(15)
    assert "1 of its 2 pods finds no room: ns/two (asks" in cluster.standing("g0")


def a_node_that_stays() -> Watched:
    """One node with a pod, and one that is full."""
    cluster = Watched()
    cluster.nodes(2, cpu=2000)
    cluster.placed("one", "g0")
    for i in range(4):
        cluster.placed(f"full{i}", "g1")
    cluster.advance(60)
    (tracked,) = cluster.of(p.TrackUnneededNodes)
    assert {paused.node for paused in tracked.paused} == {"g0"}
    return cluster


def test_a_node_that_stays_is_tried_again_when_something_changes_and_else_costs_nothing() -> None:
    cluster = a_node_that_stays()
    before = len(cluster.said)
    cluster.advance(7200)
    assert cluster.said[before:] == []
    assert "It is looked at again when something changes." in cluster.standing("g0")
    assert cluster.of(p.TrackUnneededNodes)[0].paused[0].until < cluster.now - 3600
    assert unremovable(cluster.state, index_of(cluster.state))["NoPlaceToMovePods"] == 1
    cluster.gone("full0")
    cluster.advance(30)
    assert cluster.unneeded == {"g0"}


def test_a_change_while_a_node_rests_has_it_tried_again_after_that() -> None:
    cluster = a_node_that_stays()
    cluster.gone("full0")
    cluster.advance(60)
    assert "It is looked at again at" in cluster.standing("g0")
    cluster.advance(300)
    assert cluster.unneeded == {"g0"}


def test_what_no_pass_follows_at_once_has_a_node_that_stays_tried_again_all_the_same() -> None:
    """Objects that placement looks at, of which nothing waits: a volume that may be had elsewhere, now."""
    cluster = a_node_that_stays()
    cluster.advance(7200)
    before = len(cluster.said)
    cluster.tell(PlacementObjectObserved(at=cluster.now, kind="PersistentVolume", name="v", fields={}))
    cluster.advance(60)
    assert len([d for d in cluster.said[before:] if isinstance(d, p.TrackUnneededNodes)]) == 1
    cluster.advance(7200)
    assert len([d for d in cluster.said[before:] if isinstance(d, p.TrackUnneededNodes)]) == 1


@pytest.mark.parametrize("rests", [True, False])
def test_a_pass_that_is_far_off_does_not_keep_a_node_that_stays_from_being_tried_again(rests: bool) -> None:
    """One node is unneeded, and goes hours later; what changes is nothing that a pass follows at once."""
    cluster = Watched({"scale-down-unneeded-time": "5h"})
    cluster.nodes(2)
    cluster.placed("one", "g1", owners=())
    cluster.advance(60 if rests else 400)
    assert cluster.unneeded == {"g0"}
    assert (cluster.state.paused["g1"].until > cluster.now) == rests
    assert cluster.state.scan.due is not None
    assert cluster.state.scan.due > cluster.now + 4 * 3600
    before = len(cluster.said)
    for name in ("v", "w"):  # the second changes nothing of when
        cluster.tell(PlacementObjectObserved(at=cluster.now, kind="PersistentVolume", name=name, fields={}))
    assert [type(d) for d in cluster.said[before:]] == [SetTimer]
    cluster.advance(310 if rests else 30)
    tracked = [d for d in cluster.said[before:] if isinstance(d, p.TrackUnneededNodes)]
    assert [[paused.node for paused in one.paused] for one in tracked] == [["g1"]]
    before = len(cluster.said)
    cluster.advance(7200)
    assert [d for d in cluster.said[before:] if isinstance(d, p.TrackUnneededNodes | SetTimer)] == []


def test_a_pod_that_may_not_move_keeps_its_node_with_what_would_let_it_go() -> None:
    cluster = three_nodes()
    cluster.placed("one", "g1", owners=())
    cluster.advance(15)
    assert cluster.unneeded == {"g0"}
    assert "Pod ns/one keeps it (NotReplicated): no controller would make it anew" in cluster.standing("g1")
    assert "that pod is gone" not in cluster.standing("g1")
    uid = cluster.state.pods[pod_key("ns", "one")].uid
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="one", uid=uid))
    assert "; that pod is gone. It is looked at again" in cluster.standing("g1")


def test_what_the_watcher_has_not_told_of_a_pod_keeps_its_node() -> None:
    cluster = three_nodes()
    cluster.placed("one", "g1", removal=None)
    cluster.advance(15)
    assert cluster.unneeded == {"g0"}
    assert cluster.state.paused["g1"].pod_reason == "UnexpectedError"


def test_a_budget_is_charged_by_every_node_that_goes() -> None:
    cluster = Watched()
    cluster.nodes(4)
    for i in range(3):
        cluster.placed(f"p{i}", f"g{i}")
    cluster.budget(1)
    cluster.advance(15)
    assert len(cluster.unneeded - {"g3"}) == 1
    blocked = [paused.pod_reason for paused in cluster.state.paused.values()]
    assert blocked == ["NotEnoughPdb"] * 2


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({"matchLabels": {}}, True),
        ({"matchExpressions": []}, True),
        ({}, True),
        (None, False),
        ({"matchLabels": {"app": "other"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, True),
        ({"matchLabels": {"pod-template-hash": "7d4"}}, True),
        ({"matchLabels": {"app": "other", "pod-template-hash": "7d4"}}, False),
    ],
)
def test_a_budget_covers_whom_its_selector_means(selector: JsonObject | None, covered: bool) -> None:
    """An empty one everybody, none nobody; one that cannot be read, or asks for what is not known, rather too many."""
    cluster = Watched()
    cluster.nodes(3)
    for i in range(2):
        cluster.placed(f"p{i}", f"g{i}")
    cluster.tell(
        p.PodDisruptionBudgetObserved(at=cluster.now, namespace="ns", name="b", selector=selector, allowed=0)
    )
    cluster.advance(15)
    reasons = {paused.pod_reason for paused in cluster.state.paused.values()}
    assert ("NotEnoughPdb" in reasons) is covered


def test_a_pod_that_waits_keeps_the_node_on_which_it_fits() -> None:
    cluster = three_nodes()
    big = cluster.shape({"cpu": 3800, "memory": GIB})
    cluster.pod("waits", big)
    cluster.advance(15)
    assert "g0" not in cluster.unneeded
    assert cluster.unneeded == {"g1"}


def test_no_pass_is_made_while_every_group_is_at_its_minimum() -> None:
    cluster = Watched()
    cluster.nodes(3, minimum=3)
    cluster.advance(600)
    assert [timer for timer in cluster.of(SetTimer) if timer.key == "scan"] == []


def test_an_unhealthy_cluster_forgets_who_is_unneeded() -> None:
    cluster = three_nodes({"ok-total-unready-count": 0, "max-total-unready-percentage": 10})
    cluster.advance(15)
    assert cluster.unneeded
    cluster.again("g2", cluster.groups["g"].template.allocatable, ready=False)
    cluster.advance(15)
    assert cluster.unneeded == set()


def test_the_index_built_anew_finds_what_the_old_one_did() -> None:
    cluster = three_nodes()
    cluster.advance(15)
    before = dict(cluster.state.unneeded)
    cluster.state.beside.index = None
    cluster.budget(5)
    cluster.advance(30)
    assert cluster.state.unneeded == before


def test_as_the_reference_does_it_the_same_nodes_are_found() -> None:
    cluster = three_nodes({"as-reference": True})
    cluster.advance(15)
    assert cluster.unneeded == {"g0", "g1"}


def removed(cluster: Watched) -> list[p.RemoveNode]:
    found: list[p.RemoveNode] = cluster.of(p.RemoveNode)
    return found


def test_an_empty_node_and_one_with_a_pod_go_after_their_time_with_who_leaves_and_why() -> None:
    cluster = three_nodes()
    cluster.advance(600)
    assert removed(cluster) == []
    cluster.advance(30)
    empty, drained = removed(cluster)
    assert (empty.node, empty.kind, empty.pods) == ("g0", "empty", ())
    assert (drained.node, drained.kind, drained.group, drained.size) == ("g1", "drain", "g", 3)
    assert [(pod.namespace, pod.name, pod.uid) for pod in drained.pods] == [("ns", "one", "uid-one")]
    assert [reason.rule for reason in drained.because] == ["Unneeded", "PodsFitElsewhere"]
    assert cluster.of(p.TrackIdleNodes) == []


def test_no_group_goes_below_its_minimum() -> None:
    cluster = Watched()
    cluster.nodes(3, minimum=2)
    cluster.advance(700)
    assert len(removed(cluster)) == 1


def test_nothing_goes_while_nodes_were_ordered_just_now() -> None:
    cluster = three_nodes({"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "30m"})
    cluster.add_group("h")
    cluster.pod("big", cluster.shape({"cpu": 3900, "memory": GIB}, {"nodeSelector": {"pool": "none"}}))
    cluster.state.last_scale_up = cluster.now
    cluster.advance(1200)
    assert removed(cluster) == []
    cluster.advance(700)
    assert removed(cluster) != []


def test_one_node_with_pods_goes_at_a_time() -> None:
    cluster = Watched({"scale-down-unneeded-time": "1m"})
    cluster.nodes(4)
    for i in range(4):
        cluster.placed(f"p{i}", f"g{i}")
    cluster.silent = True
    cluster.advance(300)
    assert len(removed(cluster)) == 1


def half_full(config: JsonObject | None = None) -> Watched:
    """Three nodes, each half full with one pod: one of them may go, and then there is no room."""
    cluster = Watched({"scale-down-unneeded-time": "1m", "max-drain-parallelism": 3, **(config or {})})
    cluster.nodes(3, cpu=2000)
    half = cluster.shape({"cpu": 1000}, labels={"app": "web"})
    for i in range(3):
        cluster.placed(f"p{i}", f"g{i}", shape=half)
    cluster.silent = True
    cluster.advance(120)
    assert len(removed(cluster)) == 1
    return cluster


def stirred(cluster: Watched, times: int) -> None:
    """Something changes that is no matter, again and again, for longer than nodes rest that stay."""
    for i in range(times):
        cluster.budget(i)
        cluster.advance(400)


def test_what_keeps_nodes_is_said_in_words_and_of_a_node_on_its_way_that_it_goes() -> None:
    cluster = half_full()
    (gone,) = removed(cluster)
    answer = preview(copied(cluster), cluster.now)
    assert answer.staying["CurrentlyBeingDeleted"] == (gone.node,)
    assert "  - CurrentlyBeingDeleted: g0. It is being deleted, or has not started yet." in as_text(answer)
    assert "  - NoPlaceToMovePods: g2. Its pods do not all fit on other nodes." in as_text(answer)


OF_THE_REFERENCE_ALONE = {eligible.RECENTLY_UNREMOVABLE}
"""What no pass of ours says."""


def test_every_reason_for_which_a_node_stays_or_waits_is_said_in_words() -> None:
    said = {
        value
        for module in (eligible, timers, whole)
        for value in vars(module).values()
        if isinstance(value, str) and value.isalpha() and value[0].isupper()
    }
    assert {eligible.NOT_UNDERUTILIZED, timers.NOT_UNNEEDED, whole.ATOMIC_FAILED} < said
    for reason in sorted(said - OF_THE_REFERENCE_ALONE):
        assert in_words(reason).endswith("."), reason


def test_nodes_that_are_used_wait_or_are_of_a_group_at_its_minimum_are_said_so_in_the_plan() -> None:
    cluster = three_nodes()
    cluster.add_group("least", minimum=2, target=2)
    for name in ("least0", "least1"):
        cluster.known(name, "least")
    cluster.advance(15)
    answer = preview(copied(cluster), cluster.now)
    assert answer.staying == {"NodeGroupMinSizeReached": ("least0", "least1"), "NotUnderutilized": ("g2",)}
    text = as_text(answer)
    assert "  - NodeGroupMinSizeReached: least0, least1. Its group is at its minimum" in text
    assert "  - NotUnderutilized: g2. More of it is asked for than its threshold" in text
    assert (
        "  - NotUnneededLongEnough: g0, g1. Nobody has needed it for less than scale-down-unneeded-time"
        in text
    )


def test_a_node_whose_pods_together_overdraw_a_budget_goes_last() -> None:
    cluster = Watched({"scale-down-unneeded-time": "1m", "max-drain-parallelism": 1})
    cluster.nodes(4)
    for i in range(3):
        cluster.placed(f"covered{i}", "g0")
    cluster.placed("free", "g1", shape=cluster.shape({"cpu": 500, "memory": GIB}, labels={"app": "free"}))
    for i in range(10):
        cluster.placed(f"many{i}", f"g{2 + i % 2}")
    cluster.budget(2)
    cluster.silent = True
    cluster.advance(30)
    assert {name: node.risky for name, node in cluster.state.unneeded.items()} == {"g0": True, "g1": False}
    cluster.advance(60)
    assert [removal.node for removal in cluster.of(p.RemoveNode)] == ["g1"]


def test_what_facts_of_before_do_not_say_of_a_node_keeps_it() -> None:
    """A node of an old log, beside one whose watcher tells: it goes when it is empty for as long as before, and not drained."""
    cluster = Watched({"scale-down-unneeded-time": "1m"})
    cluster.nodes(3)
    for name in ("g0", "g1"):
        cluster.placed(f"on-{name}", name)
    cluster.again("g0", cluster.groups["g"].template.allocatable, delays=None)
    cluster.advance(120)
    assert "g1" in {removal.node for removal in cluster.of(p.RemoveNode)}
    assert "g0" not in {removal.node for removal in cluster.of(p.RemoveNode)}
    answer = preview(copied(cluster), cluster.now)
    assert answer.staying["UnexpectedError"] == ("g0",)
    assert "UnexpectedError: g0. How much of it is used cannot be told" in as_text(answer)


def test_pods_that_still_have_to_leave_a_node_keep_the_room_that_they_will_take() -> None:
    cluster = half_full()
    stirred(cluster, 3)
    assert len(removed(cluster)) == 1
    assert cluster.unneeded == set()


def test_a_pod_that_was_evicted_keeps_its_room_until_another_has_come_or_for_two_minutes() -> None:
    for comes in (True, False):
        cluster = half_full({"unremovable-node-recheck-timeout": "10s"})
        (removal,) = cluster.of(p.RemoveNode)
        pod = removal.pods[0]
        eviction = EvictPod(
            at=cluster.now,
            id="provisioning.all.77.0",
            node=removal.node,
            target=ObjectRef(api_version="v1", kind="Pod", namespace="ns", name=pod.name, uid=pod.uid),
        )
        cluster.tell(eviction)
        cluster.tell(Applied(at=cluster.now, decision=eviction.id))
        cluster.gone(pod.name)
        held = on_their_way.hold(
            cluster.state, index_of(cluster.state), index_of(cluster.state).grid.fork(), cluster.now
        )
        assert held == set(cluster.state.removals[removal.node].places.values())
        if comes:
            cluster.placed("heir", next(iter(held)), shape=cluster.state.pods[pod_key("ns", "p2")].shape)
        else:
            cluster.advance(121)
        assert not on_their_way.hold(
            cluster.state, index_of(cluster.state), index_of(cluster.state).grid.fork(), cluster.now
        )


def test_an_annotation_keeps_a_node_and_it_is_said() -> None:
    cluster = three_nodes()
    cluster.again(
        "g0",
        cluster.groups["g"].template.allocatable,
        annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"},
    )
    cluster.advance(700)
    assert "g0" not in {removal.node for removal in removed(cluster)}
    assert "scale-down-disabled" in cluster.standing("g0")


def test_what_would_go_is_said_with_what_it_saves_and_what_keeps_the_rest() -> None:
    cluster = Watched({"scale-down-unneeded-time": "1m"})
    cluster.nodes(3, price_micro=250_000)
    cluster.placed("one", "g1")
    for i in range(6):
        cluster.placed(f"many{i}", "g2")
    cluster.silent = True
    cluster.advance(45)
    answer = preview(copied(cluster), cluster.now + 60)
    assert [(one.node, one.kind, one.places) for one in answer.going] == [
        ("g0", "empty", {}),
        ("g1", "drain", {"g2": 1}),
    ]
    assert answer.staying == {"NotUnderutilized": ("g2",)}
    assert answer.saves_micro == 500_000
    text = as_text(answer)
    assert "  - NotUnderutilized: g2" in text
    assert "2. g1 of group g (drain): 1 pod goes to g2 (1), saves 0.25 per hour" in text
    assert preview(copied(cluster), cluster.now).later == dict.fromkeys(("g0", "g1"), "NotUnneededLongEnough")


def test_delays_of_a_group_keep_its_own_nodes_alone() -> None:
    config = {"scale-down-delay-type-local": True, "scale-down-unneeded-time": "1m"}
    cluster = Watched({**config, "scale-down-delay-after-add": "30m"})
    cluster.nodes(2, "g", maximum=2)
    cluster.nodes(2, "h", labels={"pool": "h"})
    cluster.state.lately[NodeGroupId("h")] = Lately(add=cluster.now)
    cluster.advance(600)
    assert {removal.group for removal in removed(cluster)} == {"g"}
    assert "scale-down-delay-type-local" in cluster.standing("h0")
    cluster.advance(1800)
    assert {removal.group for removal in removed(cluster)} == {"g", "h"}


@pytest.mark.parametrize("local", [True, False])
def test_a_node_is_said_to_wait_for_other_groups_only_where_delays_are_of_all(local: bool) -> None:
    config = {
        "scale-down-delay-type-local": local,
        "scale-down-unneeded-time": "1m",
        "max-scale-down-parallelism": 1,
    }
    cluster = Watched(config)
    cluster.nodes(2)
    cluster.silent = True
    cluster.advance(120)
    assert [removal.node for removal in removed(cluster)] == ["g0"]
    cluster.state.last_scale_up = cluster.now  # of another group
    assert ("Nothing goes before" in cluster.standing("g1")) is not local
    assert ("when fewer nodes are being removed" in cluster.standing("g1")) is local


def test_after_a_removal_began_others_wait_for_the_delay() -> None:
    cluster = three_nodes({"scale-down-unneeded-time": "1m", "scale-down-delay-after-delete": "20m"})
    cluster.placed("other", "g0")
    cluster.advance(300)
    assert len(removed(cluster)) == 1


def test_series_count_who_is_unneeded_and_what_keeps_the_others() -> None:
    cluster = three_nodes()
    cluster.advance(15)
    found = {(one.name, *one.labels.values()): one.value for one in exposition.series(copied(cluster))}
    assert found[("cluster_autoscaler_unneeded_nodes_count",)] == 2
    assert found["cluster_autoscaler_unremovable_nodes_count", "NotUnderutilized"] == 1
    assert found["cluster_autoscaler_unremovable_nodes_count", "NotUnneededLongEnough"] == 2
    assert found[("cluster_autoscaler_scale_down_in_cooldown",)] == 0
    assert found[("cluster_autoscaler_pending_node_deletions",)] == 0


def test_a_group_that_came_back_has_its_nodes_looked_at() -> None:
    cluster = three_nodes()
    cluster.advance(15)
    cluster.tell(p.NodeGroupGone(at=cluster.now, name="g"))
    cluster.add_group("other", target=1)
    cluster.known("o0", "other")
    cluster.advance(15)
    assert cluster.unneeded == {"o0"}
    cluster.observe_group("g")
    cluster.advance(15)
    assert cluster.unneeded == {"g0", "g1", "o0"}


def test_how_long_a_node_stays_beyond_its_time_is_counted_by_what_kept_it_last() -> None:
    cluster = three_nodes(
        {
            "node-removal-latency-tracking-enabled": True,
            "scale-down-unneeded-time": "1m",
            "scan-interval": "10s",
        }
    )
    cluster.silent = True
    cluster.advance(15)
    began = {name: node.since for name, node in cluster.state.unneeded.items()}
    assert {name: node.due for name, node in cluster.state.unneeded.items()} == {
        name: since + 60 for name, since in began.items()
    }
    cluster.state.last_scale_up = cluster.now
    cluster.advance(120)
    cluster.budget(3)
    cluster.advance(30)
    assert {node.delayed for node in cluster.state.unneeded.values()} == {"InCooldown"}
    for i in range(8):
        cluster.placed(f"more{i}", "g0")
    cluster.advance(30)
    assert cluster.unneeded == {"g1"}
    series = {
        (one.name, tuple(sorted(one.labels.items()))): one.value for one in exposition.series(cluster.state)
    }
    labels = (("delay_reason", "InCooldown"), ("deleted", "false"))
    assert series["cluster_autoscaler_node_removal_latency_seconds_count", labels] == 1
    waited = series["cluster_autoscaler_node_removal_latency_seconds_sum", labels]
    assert 60 < waited <= cluster.now - began["g0"] - 60


def test_without_being_asked_for_nothing_more_is_recorded_of_nodes_that_wait() -> None:
    cluster = three_nodes()
    cluster.advance(15)
    assert {(node.due, node.delayed) for node in cluster.state.unneeded.values()} == {(None, "")}


SKIPPED_FOR = "cluster_autoscaler_max_node_skip_eval_duration_seconds"


def skipped_for(cluster: Watched) -> float | None:
    return {one.name: one.value for one in exposition.series(cluster.state)}.get(SKIPPED_FOR)


def test_how_long_nodes_are_not_looked_at_since_others_were_found_is_told_where_asked_for() -> None:
    """Each pass finds two more than were known."""
    cluster = Watched({"max-node-skip-eval-time-tracker-enabled": True, "max-scale-down-parallelism": 1})
    cluster.nodes(6)
    cluster.silent = True
    cluster.advance(15)
    assert sorted(cluster.state.scan.skipped) == ["g2", "g3", "g4", "g5"]
    since = min(cluster.state.scan.skipped.values())
    assert skipped_for(cluster) == cluster.state.now - since
    cluster.tell(f.NodeGone(at=cluster.now, name="g5", uid="uid-g5"))
    cluster.advance(12)
    assert cluster.state.scan.skipped == {"g4": since}
    assert skipped_for(cluster) == cluster.state.now - since > 5
    cluster.advance(30)
    assert cluster.state.scan.skipped == {}
    assert skipped_for(cluster) == 0.0


def test_which_nodes_are_not_looked_at_is_not_recorded_without_being_asked_for() -> None:
    cluster = Watched({"max-scale-down-parallelism": 1})
    cluster.nodes(6)
    cluster.silent = True
    cluster.advance(15)
    assert len(cluster.unneeded) == 2
    assert (cluster.state.scan.skipped, skipped_for(cluster)) == ({}, None)


def test_a_node_that_is_deleted_counts_from_the_end_of_its_time() -> None:
    cluster = three_nodes({"node-removal-latency-tracking-enabled": True, "scale-down-unneeded-time": "1m"})
    cluster.silent = True
    cluster.advance(90)
    removal = cluster.state.removals["g0"]
    assert removal.due is not None
    removal.deletion = "d1"
    answer = Applied(at=cluster.now, decision="d1", attempts=1)
    deletion_answered(cluster.state, answer, DeleteOrder(NodeGroupId("g")), Touched(), applied=True)
    found = {key: value[-1] for key, value in cluster.state.histograms.items() if "node_removal" in key}
    assert found == {
        counts.key(LATENCY, deleted="true", delay_reason="none"): cluster.state.now - removal.due
    }
