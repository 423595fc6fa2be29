"""At least cost pods that wait and chunks of buffers are planned as one, on what requests leave of their nodes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tests.unit.provisioning.test_buffers import kept
from tests.vectors.capacity_buffers import Buffers, pod_spec
from tidewright.events import provisioning as p
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.tell.explaining import EXPLAINER

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


def ordered(cluster: Buffers) -> dict[str, int]:
    return {name: group.target for name, group in cluster.groups.items() if group.target}


MACHINES = {"lean": (4000, 4, 60_000), "wide": (2000, 16, 70_000), "even": (4000, 16, 100_000)}


def grown(cluster: Buffers, maximum: int, *, chunks: str = "1", memory: int = 12, priority: int = 0) -> None:
    """Three chunks that no group has had room for, until now."""
    cluster.boots = False
    for name, (cpu, gib, price) in MACHINES.items():
        cluster.add_group(name, cpu=cpu, memory=gib * 2**30, maximum=0, price_micro=price)
    cluster.pod_template("t", pod_spec({"cpu": chunks, "memory": f"{memory}Gi"}, priority=priority))
    cluster.buffer("b", {"podTemplateRef": {"name": "t"}, "replicas": 3})
    cluster.settle()
    assert kept(cluster).missing == 3
    for group in cluster.groups.values():
        group.maximum = maximum
        cluster.observe_group(group.id)


def halves(cluster: Buffers) -> None:
    """Pods that ask for most of the cpu of a node, and chunks that ask for most of the memory."""
    grown(cluster, 10)
    shape = cluster.shape({"cpu": 3000, "memory": 2**30})
    for number in range(3):
        cluster.pod(f"p{number}", shape)
    cluster.settle()


def test_pods_and_chunks_that_go_well_together_share_nodes() -> None:
    cluster = Buffers({"profile": "hold"})
    halves(cluster)
    assert ordered(cluster) == {"even": 3}
    (plan,) = cluster.of(p.PlanScaleUp)
    assert (plan.placed, plan.buffers, len(plan.pods)) == (6, (("ns/b", 3),), 3)
    assert [reason.rule for reason in plan.because[:3]] == ["PodsPending", "ChunksLacking", "PlannedAsOne"]
    assert len(cluster.object_events("TriggeredScaleUp")) == 4  # three pods, one buffer
    cluster.boot("even")
    cluster.advance(60)
    assert kept(cluster).ready == 3
    assert ordered(cluster) == {"even": 3}


def test_where_limits_leave_something_over_pods_come_first() -> None:
    cluster = Buffers({"profile": "hold", "max-nodes-total": 2})
    grown(cluster, 10, chunks="4", priority=1000)
    cluster.pod("p", cluster.shape({"cpu": 4000, "memory": 2**30}))
    cluster.settle()
    first, second = cluster.of(p.PlanScaleUp)
    assert (list(first.pods), first.buffers) == (["ns/p"], ())
    assert (list(second.pods), second.buffers) == ([], (("ns/b", 1),))
    assert (kept(cluster).upcoming, kept(cluster).missing) == (1, 2)


def test_a_pod_that_no_group_helps_keeps_nothing_from_being_planned_as_one() -> None:
    cluster = Buffers({"profile": "hold"})
    cluster.pod("giant", cluster.shape({"cpu": 64_000}))
    halves(cluster)
    assert ordered(cluster) == {"even": 3}
    assert [(plan.placed, plan.buffers) for plan in cluster.of(p.PlanScaleUp)] == [(6, (("ns/b", 3),))]
    assert all(declined.count == 1 for declined in cluster.of(p.DeclineScaleUp))


def test_chunks_like_the_pods_that_wait_are_counted_beside_them() -> None:
    cluster = Buffers({"profile": "hold"})
    grown(cluster, 10, memory=1)
    chunk = cluster.state.shapes[kept(cluster).shape]
    for number in range(5):
        cluster.pod(f"p{number}", kept(cluster).shape)
    assert chunk.requests["cpu"] == 1000
    cluster.settle()
    assert ordered(cluster) == {"lean": 2}
    (plan,) = cluster.of(p.PlanScaleUp)
    assert (plan.placed, plan.buffers, len(plan.pods)) == (8, (("ns/b", 3),), 5)


def test_pods_go_where_a_request_leaves_room_on_its_nodes() -> None:
    cluster = Buffers({"profile": "hold"})
    cluster.boots = False
    cluster.add_group("g", cpu=8000, price_micro=100_000)
    cluster.template("worker", "3")
    cluster.request("r", ATOMIC, [("worker", 2)])
    shape = cluster.shape({"cpu": 1000})
    for number in range(2):
        cluster.pod(f"p{number}", shape)
    cluster.settle()
    assert ordered(cluster) == {"g": 1}
    cluster.boot("g")
    cluster.advance(60)
    assert ordered(cluster) == {"g": 1}


def test_in_compat_pods_and_buffers_are_planned_one_after_the_other() -> None:
    cluster = Buffers({})
    halves(cluster)
    assert [(len(plan.pods), len(plan.buffers)) for plan in cluster.of(p.PlanScaleUp)] == [(3, 0), (0, 1)]
    assert "even" not in ordered(cluster)


def test_a_request_over_all_groups_costs_least_though_one_group_would_do() -> None:
    cluster = Buffers({"profile": "hold"})
    for name, (cpu, gib, price) in MACHINES.items():
        cluster.add_group(name, cpu=cpu, memory=gib * 2**30, price_micro=price)
    cluster.template("busy", "3", memory="1Gi")
    cluster.template("wide", "1", memory="14Gi")
    cluster.request("r", ATOMIC, [("busy", 3), ("wide", 1)], {"AcrossGroups": "true"})
    cluster.settle()
    assert ordered(cluster) == {"lean": 2, "even": 1}


def test_of_a_plan_for_many_a_pod_a_buffer_and_a_group_are_told_what_concerns_them() -> None:
    cluster = Buffers({"profile": "hold"})
    grown(cluster, 10, chunks="2", memory=15)  # chunks that only one machine is right for
    cluster.pod("p", cluster.shape({"cpu": 4000, "memory": 2**30}))
    before = msgspec.json.decode(msgspec.json.encode(cluster.state), type=type(cluster.state))
    cluster.settle()
    assert ordered(cluster) == {"lean": 1, "wide": 3}
    (plan,) = cluster.of(p.PlanScaleUp)
    assert {"lean", "wide"} <= groups_of(EXPLAINER.sentences(plan))
    for kind, name, group in (
        ("pod", "p", "lean"),
        ("capacitybuffer", "b", "wide"),
        ("nodegroup", "wide", "wide"),
    ):
        space = "" if kind == "nodegroup" else "ns"
        part = EXPLAINER.part(before, plan, Reference(kind, space, name))
        assert groups_of(EXPLAINER.sentences(part)) - {"even"} == {group}
        assert any("planned as one" in text for text in EXPLAINER.sentences(part))


def groups_of(sentences: Iterable[str]) -> set[str]:
    return {name for name in MACHINES for text in sentences if f"roup {name}" in text}
