"""What is said about requests, pods, groups and nodes, and what a request would come to."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.vectors.provisioning_life import Cluster
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Because, Decision
from tidewright.events.decisions import Effect
from tidewright.events.facts import NodeObserved
from tidewright.host.fold.explainer import Reference
from tidewright.host.process.exposition import text as text_of
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.state import State
from tidewright.provisioning.tell import exposition
from tidewright.provisioning.tell.explaining import EXPLAINER
from tidewright.provisioning.tell.sentences import because
from tidewright.provisioning.tell.what_if import NOT_OURS, Answer, preview

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
SAMPLES = Path(__file__).parents[2] / "golden" / "events"
UNTOLD = {
    p.DeclineScaleUp: "`standing` says of a pod why nothing is ordered for it",
    p.TrackIdleNodes: "`standing` says of a node since when it is empty",
    p.TrackUnneededNodes: "`standing` says of a node since when nobody needs it, and what keeps it",
}
"""Records that are told of no object when it is explained, and why. (Effects are told of their targets.)"""


def copied(cluster: Cluster) -> State:
    return msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("decision.*.json")), ids=lambda path: path.stem)
def test_every_record_of_provisioning_is_told_of_some_object(sample: Path) -> None:
    event = registry.decode(sample.read_bytes())
    if type(event).__module__ != p.__name__ or not isinstance(event, Decision) or isinstance(event, Effect):
        return
    texts = set(re.findall('"([^"]+)"', sample.read_text()))
    asked = (Reference(kind, *where) for kind in EXPLAINER.kinds for where in product({"", *texts}, texts))
    told = any(EXPLAINER.concerns(event, reference) for reference in asked)
    assert told != (type(event) in UNTOLD), (
        f"explain tells {type(event).__name__} of {'an' if told else 'no'} object: what has a `group` is told of that group; of anything "
        "else `concerns` in provisioning/tell/explaining.py says whom it is about, or UNTOLD here why nobody"
    )


def standing(cluster: Cluster, kind: str, name: str) -> str:
    space = "" if kind in ("node", "nodegroup") else "ns"
    return " ".join(EXPLAINER.standing(copied(cluster), Reference(kind, space, name), cluster.now))


def tried(cluster: Cluster, cpu: str, count: int, cls: str = ATOMIC, **spec: object) -> Answer:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    request = {
        "provisioningClassName": cls,
        "podSets": [{"podTemplateRef": {"name": "t"}, "count": count}],
        **spec,
    }
    return preview(copied(cluster), "ns", "try", request, templates={"t": template}, now=cluster.now)


def test_a_preview_says_the_order_and_each_groups_verdict_and_orders_nothing() -> None:
    cluster = Cluster()
    cluster.add_group("small", cpu=4000, maximum=100, price_micro=200_000)
    cluster.add_group("tiny", cpu=1000, maximum=100)
    before = msgspec.json.encode(cluster.state)
    answer = tried(cluster, "3500m", 20)
    assert answer.result == "Successful"
    assert [(i.group, i.from_size, i.size) for i in answer.increases] == [("small", 0, 20)]
    assert answer.cost_micro == 20 * 200_000
    verdicts = {v.group: v for v in answer.verdicts}
    assert verdicts["small"].chosen
    assert verdicts["tiny"].reason == "Insufficient cpu"
    assert msgspec.json.encode(cluster.state) == before


def test_a_preview_is_what_is_done_then() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.add_group("b", cpu=8000, maximum=30)
    answer = tried(cluster, "3500m", 20)
    cluster.template("t", "3500m")
    cluster.request("try", ATOMIC, [("t", 20)])
    cluster.settle()
    assert [(d.target.name, d.size) for d in cluster.of(p.IncreaseNodeGroup)] == [
        (i.group, i.size) for i in answer.increases
    ]


def test_a_preview_of_what_fits_of_what_never_will_and_of_foreign_classes() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.add_node("n1", cpu=4000)
    assert tried(cluster, "1", 3, CHECK).result == "Successful"
    never = tried(cluster, "64", 1)
    assert never.result == "NoOptionsAvailable"
    assert "group a is nearest and lacks cpu" in " ".join(never.messages)
    assert tried(cluster, "1", 3, "queued-provisioning.gke.io").result == NOT_OURS
    missing = preview(
        copied(cluster), "ns", "try",
        {"provisioningClassName": ATOMIC, "podSets": [{"podTemplateRef": {"name": "x"}, "count": 1}]},
        templates={}, now=cluster.now,
    )  # fmt: skip
    assert missing.result == "Failed"
    assert "1 templates were missing: x" in " ".join(missing.messages)


def test_a_waiting_request_says_when_it_is_tried_again_and_what_holds_it_back() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=2)
    cluster.template("t", "3500m")
    cluster.template("huge", "64")
    cluster.request("many", ATOMIC, [("t", 5)])
    cluster.request("huge", ATOMIC, [("huge", 1)])
    cluster.settle()
    many = standing(cluster, "provisioningrequest", "many")
    assert "Attempt 1 of" in many
    assert "the next one is at" in many
    assert "Group a can grow from 0 to 2 nodes." in many
    assert "No node of group a holds a pod of pod set 0: Insufficient cpu." in standing(
        cluster, "provisioningrequest", "huge"
    )


def test_a_request_under_way_says_when_its_nodes_are_expected() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.template("t", "3500m")
    cluster.request("first", ATOMIC, [("t", 2)])
    cluster.settle()
    assert "expected" not in standing(cluster, "provisioningrequest", "first")
    cluster.advance(40)
    cluster.boot("a")
    cluster.settle()
    cluster.request("second", ATOMIC, [("t", 2)])
    cluster.settle()
    assert "2 nodes are ready; the last ones are expected at" in standing(
        cluster, "provisioningrequest", "second"
    )


def test_pods_groups_and_nodes_say_how_they_stand() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("a", cpu=4000, maximum=1)
    cluster.add_node("n1", cpu=4000)
    big, huge = cluster.shape({"cpu": 3000}), cluster.shape({"cpu": 64_000})
    cluster.pod("p1", big, node="n1")
    cluster.pod("p2", big)
    cluster.pod("p3", huge)
    cluster.settle()
    assert standing(cluster, "pod", "p1") == "It runs on node n1."
    assert "on their way in group a" in standing(cluster, "pod", "p2")
    assert standing(cluster, "pod", "p3") == (
        "Nothing is ordered for it. Group a: max node group size reached. "
        "With cpu at 4 cores or less instead of 64 cores, a pod would fit on a new node of group a."
    )
    group = standing(cluster, "nodegroup", "a")
    assert "It has 1 node of 0 to 1." in group
    assert "Group a cannot grow: max node group size reached." in group
    assert "never removed" in standing(cluster, "node", "n1")


def test_every_decision_has_sentences_and_tells_whom_it_concerns() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=10)
    cluster.template("t", "3500m")
    cluster.request("r", ATOMIC, [("t", 2)])
    cluster.settle()
    asked = Reference("provisioningrequest", "ns", "r")
    mine = [d for d in cluster.said if EXPLAINER.concerns(d, asked)]
    assert {type(d) for d in mine} == {p.AcceptRequest, p.AttemptRequest, p.PlanScaleUp, p.BookCapacity}
    for decision in mine:
        told = EXPLAINER.sentences(decision)
        assert told
        assert all(text.endswith(".") for text in told)
    (plan,) = cluster.of(p.PlanScaleUp)
    assert "Group a was chosen: 2 nodes for 2 pods" in " ".join(EXPLAINER.sentences(plan))
    assert EXPLAINER.facts(cluster.state, plan)[0] == asked
    assert EXPLAINER.opposite(cluster.state, plan) == [
        "With 2 more nodes in group a beforehand, nothing would have been ordered."
    ]
    assert not any(
        EXPLAINER.concerns(d, Reference("provisioningrequest", "ns", "other")) for d in cluster.said
    )


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (because("Idle", node="n1", idle_s=640), "With a pod on node n1 in the last 600 s, or with"),
        (because("Idle", node="n1", idle_s=640), "at 641 s or more instead of 600 s, the node would have stayed."),
        (because("BelowMinimum", group="a", target=1, minimum=2), "With a minimum of 1 instead of 2, group a"),
        (because("TimedOut", missing=2, increase=3, group="a", limit_s=900), "Had the 2 nodes of group a come within 900 s"),
        (because("Expired", limit_s=60), "Provisioned within 60 s of its creation"),
    ],
)  # fmt: skip
def test_a_threshold_is_turned_by_one_input(reason: Because, told: str) -> None:
    (text,) = EXPLAINER.opposite(
        Cluster().state, p.CloseScaleUp(at=1.0, group="a", result="Failed", because=(reason,))
    )
    assert told in text


def test_what_is_of_another_version_is_turned_by_nothing() -> None:
    event = p.CloseScaleUp(
        at=1.0, group="a", result="Failed", because=(because("Idle", node="n1"), because("Later"))
    )
    assert EXPLAINER.opposite(Cluster().state, event) == []


def test_the_series_are_those_that_dashboards_use_and_follow_the_state() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=3)
    cluster.template("t", "3500m")
    cluster.request("r", ATOMIC, [("t", 2)])
    cluster.pod("p", cluster.shape({"cpu": 64_000}))
    cluster.settle()
    found = {(s.name, *s.labels.values()): s.value for s in exposition.series(cluster.state)}
    assert found["cluster_autoscaler_unschedulable_pods_count", "unschedulable"] == 1
    assert found["cluster_autoscaler_nodes_count", "ready"] == 2
    assert found["cluster_autoscaler_node_groups_count", "autoscaled"] == 1
    assert found["cluster_autoscaler_cluster_safe_to_autoscale",] == 1
    assert found["tidewright_provisioning_requests", ATOMIC, "provisioned"] == 1
    assert found["tidewright_provisioning_booked", "cpu"] == 7000
    assert found["cluster_autoscaler_scaled_up_nodes_total",] == 2
    assert found["cluster_autoscaler_node_group_backoff_status", "a", ""] == 0
    assert found["tidewright_provisioning_attempts_total", ATOMIC, "Successful"] == 1
    assert found["tidewright_provisioning_provisioned_seconds_count", ATOMIC] == 1
    assert found["tidewright_provisioning_provisioned_seconds_bucket", ATOMIC, "1"] == 1
    assert found["tidewright_provisioning_nodes_ready_seconds_bucket", ATOMIC, "+Inf"] == 1


def test_a_request_that_waits_says_why_and_when_it_is_tried_again() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000)
    cluster.refuse["a"] = "Forbidden"
    cluster.template("t", "3")
    cluster.request("r", ATOMIC, [("t", 1)])
    cluster.request("c", CHECK, [("t", 1)])
    cluster.settle()
    told = standing(cluster, "provisioningrequest", "r")
    assert "Attempt 1 of 2026-09-21 14:13:20 UTC came to nothing; the next one is at" in told
    assert "The order for group a failed: Forbidden here." in told
    told = standing(cluster, "provisioningrequest", "c")
    assert "came to nothing; the next one is at" in told
    assert "There is no room for 1 pod on nodes that exist or are on their way." in told
    assert told.endswith("Its class only checks: no nodes are ordered for it.")


def test_a_request_tells_where_its_room_is_expected_and_that_it_came() -> None:
    cluster = Cluster(boots=False)
    cluster.add_group("a", cpu=8000)
    cluster.template("t", "3")
    cluster.request("r", ATOMIC, [("t", 1)])
    cluster.settle()
    cluster.request("s", CHECK, [("t", 1)])
    cluster.settle()
    assert "It found room on nodes of group a that are on their way." in standing(
        cluster, "provisioningrequest", "s"
    )
    cluster.boot("a")
    cluster.advance(15)
    assert "All its pods fit on nodes that are ready." in standing(cluster, "provisioningrequest", "s")


def test_nodes_are_counted_with_why_they_stay() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, minimum=1)
    cluster.add_group("b", cpu=4000)
    for name, group in (("loose", ""), ("empty-a", "a"), ("kept", "b"), ("full", "b"), ("little", "b")):
        cluster.add_node(name, group)
    for name in ("a", "b"):
        cluster.groups[name].target = len(cluster.groups[name].instances)
        cluster.observe_group(name)
    kept = msgspec.structs.replace(
        cluster.node_fact("b", "kept"), annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    )  # fmt: skip
    cluster.tell(kept)
    cluster.pod("p1", cluster.shape({"cpu": 3000}), node="full")
    cluster.pod("p2", cluster.shape({"cpu": 1000}), node="little")
    cluster.settle()
    found = {(s.name, *s.labels.values()): s.value for s in exposition.series(cluster.state)}
    reasons = {
        key[1]: n for key, n in found.items() if key[0] == "cluster_autoscaler_unremovable_nodes_count"
    }
    assert {reason: n for reason, n in reasons.items() if n} == {
        "NotAutoscaled": 1,
        "NodeGroupMinSizeReached": 1,
        "ScaleDownDisabledAnnotation": 1,
        "NotUnderutilized": 1,
        "BlockedByPod": 1,
    }
    assert found["cluster_autoscaler_nodes_count", "ready"] == 5


def test_unready_nodes_of_no_group_make_the_cluster_unhealthy_too() -> None:
    cluster = Cluster({"ok-total-unready-count": 0, "max-node-startup-time": "1s"})
    cluster.add_node("loose")
    fact = NodeObserved(at=cluster.now, name="loose", allocatable={"cpu": 4000}, ready=False, created_at=1.0)
    cluster.tell(fact)
    cluster.advance(100)
    found = {(s.name, *s.labels.values()): s.value for s in exposition.series(cluster.state)}
    assert found["cluster_autoscaler_cluster_safe_to_autoscale",] == 0
    assert found["cluster_autoscaler_nodes_count", "unready"] == 1


async def test_histograms_are_told_as_prometheus_reads_them() -> None:
    cluster = Cluster()
    cluster.add_group("a", cpu=4000, maximum=3)
    cluster.template("t", "3500m")
    cluster.request("r", ATOMIC, [("t", 2)])
    cluster.settle()
    assert DECIDER.exposition is not None
    text = await text_of(DECIDER.exposition, lambda: [cluster.state])
    families = {f.name: f for f in text_string_to_metric_families(text)}
    assert families["tidewright_provisioning_provisioned_seconds"].type == "histogram"
    assert families["cluster_autoscaler_scaled_up_nodes"].type == "counter"
    helped = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert helped <= set(exposition.HELP)


def test_what_would_have_fitted_on_a_groups_node_is_said_one_amount_at_a_time() -> None:
    cluster = Cluster()
    cluster.add_group("small", cpu=4000, maximum=10)
    cluster.add_group("tiny", cpu=1000, maximum=10)
    cluster.template("huge", "9")
    cluster.request("huge", ATOMIC, [("huge", 3)])
    cluster.advance(30)
    attempt = next(d for d in cluster.said if isinstance(d, p.AttemptRequest))
    said = EXPLAINER.opposite(copied(cluster), attempt)
    assert list(said) == [
        "With cpu at 4 cores or less instead of 9 cores, a pod would fit on a new node of group small.",
        "With cpu at 1 cores or less instead of 9 cores, a pod would fit on a new node of group tiny.",
    ]
