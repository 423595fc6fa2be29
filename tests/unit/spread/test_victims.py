"""Who leaves when a workload shrinks: as the controllers of ReplicaSets, Jobs and StatefulSets pick them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.spread.cluster import NAMESPACE, SPREAD, deployment, spec, spread_fact
from tests.unit.spread.test_decide import START, Fold, placed
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import ScaleWorkload, SetStatus
from tidewright.events.facts import WorkloadObserved
from tidewright.events.spread import ForeseeScaleIn
from tidewright.kube.times import rfc3339
from tidewright.kube.workloadspreads.spec import DELETION_COST_ANNOTATION
from tidewright.sim.controllers.objects import Condition, ContainerStatus, Pod
from tidewright.sim.controllers.replicasets import victims
from tidewright.spread.control.victims import cost_of, leaving
from tidewright.spread.state import READY, Row, SpreadState, State
from tidewright.spread.tell import sentences

KEY = f"{NAMESPACE}/{SPREAD}"
NOW = START + 10_000


def state_of(*rows: Row) -> tuple[State, SpreadState]:
    spread = SpreadState(NAMESPACE, SPREAD, pods={row.name: row for row in rows})
    return State(now=NOW, spreads={KEY: spread}), spread


def row(name: str, **fields: Any) -> Row:
    usual: dict[str, Any] = {
        "node": "n1",
        "phase": 2,
        "flags": READY,
        "ready_at": START,
        "created_at": START,
        "uid": name.encode(),
    }
    return Row(name=name, **{**usual, **fields})


def test_each_step_decides_before_the_next() -> None:
    rows = [
        row("a-unbound", node="", phase=0, flags=0, cost="900"),
        row("b-pending", phase=0, flags=0, cost="800"),
        row("c-unready", flags=0, cost="700"),
        row("d-cheap", cost="-100"),
        row("e-crowded", node="n2"),
        row("f-crowded-too", node="n2", ready_at=NOW - 9000),
        row("g-young", node="n3", ready_at=NOW - 4),
        row("h-restarted", node="n4", restarts=2),
        row("i-sidecar", node="n5", sidecar_restarts=1),
        row("j-newer", node="n6", created_at=NOW - 5),
        row("k-old", node="n7"),
    ]
    for shuffled in (rows, rows[::-1]):
        order = leaving(*state_of(*shuffled))
        assert [r.name for r in order.rows][:7] == [
            "a-unbound", "b-pending", "c-unready", "d-cheap", "e-crowded", "f-crowded-too", "g-young",
        ]  # fmt: skip
        assert [r.name for r in order.rows][7:] == ["h-restarted", "i-sidecar", "j-newer", "k-old"]


def test_pods_ready_about_equally_long_are_told_apart_by_their_uid() -> None:
    rows = [row("a", uid=b"2", ready_at=NOW - 5000), row("b", uid=b"1", ready_at=NOW - 5001)]
    assert [r.name for r in leaving(*state_of(*rows)).rows] == ["b", "a"]


def test_pods_that_nothing_tells_apart_are_counted() -> None:
    order = leaving(*state_of(*(row(name) for name in "dcba")), 2)
    assert ([r.name for r in order.rows], order.alike) == (["a", "b"], 2)
    assert leaving(*state_of(*(row(name) for name in "dcba"))).alike == 0
    assert leaving(*state_of(*(row(name) for name in "ab")), 0) == ([], 0)


pods = st.lists(
    st.tuples(
        st.sampled_from(["", "n1", "n2"]),
        st.sampled_from(["Pending", "Running"]),
        st.booleans(),
        st.sampled_from(["", "100", "-100", "+5", "007"]),
        st.integers(1, 4000),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=7,
)


@given(pods, st.integers(1, 7))
@settings(max_examples=150, deadline=None)
def test_it_is_the_order_of_the_simulated_replica_set_controller(
    given_pods: list[tuple[str, str, bool, str, int, int]], count: int
) -> None:
    """Held against it as the simulated cluster has it, which is held against the real one."""
    rows: list[Row] = []
    objects: list[Pod] = []
    for n, (node, phase, ready, cost, age, restarts) in enumerate(given_pods):
        since = NOW - age * (n + 1)  # distinct times: equal ones make the original's order no order
        name = f"web-{n}"
        rows.append(
            row(
                name, node=node, phase=("Pending", "Unknown", "Running").index(phase), flags=READY if ready else 0,
                ready_at=since if ready else None, created_at=since, cost=cost, restarts=restarts,
            )
        )  # fmt: skip
        pod = Pod()
        pod.metadata.name = pod.metadata.uid = name
        pod.metadata.annotations = {DELETION_COST_ANNOTATION: cost} if cost else {}
        pod.spec.node_name = node
        pod.status.phase = phase
        objects.append(pod)
        pod.status.container_statuses = [ContainerStatus(restart_count=restarts)]
        pod.metadata.creation_timestamp = rfc3339(since)
        if ready:
            pod.status.conditions = [
                Condition(type="Ready", status="True", last_transition_time=rfc3339(since))
            ]
    count = min(count, len(rows))
    mine = [r.name for r in leaving(*state_of(*rows), count).rows]
    its = [p.metadata.name for p in victims(objects, count, objects, NOW)]
    assert set(mine) == set(its)


@pytest.mark.parametrize(
    ("text", "cost"),
    [("", 0), ("5", 5), ("-5", -5), ("0", 0), ("-0", 0), ("+5", 0), ("05", 0), ("x", 0), ("2147483648", 0)],
)
def test_a_cost_that_controllers_do_not_read_is_none(text: str, cost: int) -> None:
    assert cost_of(row("a", cost=text)) == cost


def test_a_stateful_set_shrinks_from_the_top() -> None:
    given_spec = spec(2, None)
    given_spec["targetRef"] = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
    target = WorkloadObserved(
        at=0,
        namespace=NAMESPACE,
        name="web",
        uid="sts",
        api_version="apps/v1",
        kind="StatefulSet",
        replicas=12,
    )
    fold = Fold(spread_fact(given_spec), target)
    reference = msgspec.structs.replace(deployment(1)[1].owners[0], kind="StatefulSet", name="web", uid="sts")
    for n in range(12):
        fold.see(msgspec.structs.replace(placed("a", n, phase="Running"), owners=(reference,)))
    (foreseen,) = [
        d for d in fold.see(msgspec.structs.replace(target, replicas=9)) if isinstance(d, ForeseeScaleIn)
    ]
    assert [p.pod for p in foreseen.pods] == ["web-11", "web-10", "web-9"]


def test_a_scale_in_says_how_many_others_may_go_in_stead() -> None:
    same = {"created_at": START - 500}
    pods = [msgspec.structs.replace(placed("a", n), **same) for n in range(3)]
    fold = Fold(spread_fact(spec(5, None)), *deployment(3), *pods)
    target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NAMESPACE, name="web")
    (foreseen,) = fold.see(ScaleWorkload(at=0, target=target, replicas=2, from_replicas=3))
    assert isinstance(foreseen, ForeseeScaleIn)
    assert ([p.pod for p in foreseen.pods], foreseen.alike) == (["web-0"], 2)
    assert sentences.foreseen(foreseen).endswith(
        "2 that stay are like the last of them in all that its controller compares, and may go in its stead."
    )


def test_the_order_of_arrival_does_not_matter() -> None:
    rows = [row("a", restarts=1), row("b"), row("c", cost="3")]
    found = {tuple(r.name for r in leaving(*state_of(*some), 2).rows) for some in permutations(rows)}
    assert found == {("a", "b")}


def test_a_scale_in_that_is_decided_once_more_is_said_once() -> None:
    fold = Fold(spread_fact(spec(5, None)), *deployment(3), *(placed("a", n) for n in range(3)))
    target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NAMESPACE, name="web")

    def said(at: float, replicas: int) -> list[int]:
        scale = ScaleWorkload(at=0, target=target, replicas=replicas, from_replicas=3)
        return [d.replicas for d in fold.see(scale, at) if isinstance(d, ForeseeScaleIn)]

    assert said(START, 2) == [2]
    assert said(START + 1, 2) == []
    assert said(START + 2, 1) == [1]
    assert said(START + 40, 1) == [1]  # the former one came to nothing


def test_what_else_the_autoscaler_decides_is_answered_by_nothing() -> None:
    """Its decisions are read for the scales among them; an autoscaler has the spread's name more often than not."""
    fold = Fold(spread_fact(spec(5, None)), *deployment(3), *(placed("a", n) for n in range(3)))
    target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NAMESPACE, name="web")
    assert fold.see(ScaleWorkload(at=0, target=target, replicas=2, from_replicas=3))
    known = fold.state.spreads[KEY].status
    wpa = ObjectRef(
        api_version="datadoghq.com/v1alpha1", kind="WatermarkPodAutoscaler", namespace=NAMESPACE, name=SPREAD
    )
    assert fold.see(SetStatus(at=0, target=wpa, status={"desiredReplicas": 2})) == []
    assert fold.state.spreads[KEY].status == known


@pytest.mark.parametrize(
    "cost", ["9" * 5000, "-" + "9" * 5000, "\N{SUPERSCRIPT TWO}", "2147483648", "-", "01"]
)
def test_a_cost_that_no_controller_reads_is_none(cost: str) -> None:
    """Whoever may annotate a pod may write it."""
    assert cost_of(row("a", cost=cost)) == 0
    assert cost_of(row("a", cost="-2147483648")) == -(2**31)
