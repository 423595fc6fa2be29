"""When the next nodes may go, and the next look at everything comes, while some go or after one went."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.provisioning.removalworld import Removing, world
from tests.unit.provisioning.test_placeholders import CHECK
from tests.unit.provisioning.workloads import ON, Workloads
from tests.unit.provisioning.workloads import replica_set as owned_by
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.config import ModesSet
from tidewright.events.decisions import SetTimer
from tidewright.provisioning.fold.common import EVALUATE, SCAN
from tidewright.provisioning.fold.evolve import evolve
from tidewright.provisioning.foresight.shares import MOST_S
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.pending.burst import CALM_S
from tidewright.provisioning.scaledown.lately import delayed, last_of
from tidewright.provisioning.scaledown.next_pass import FULL_S
from tidewright.provisioning.scaledown.removal.saga import Removal


class Expecting(Workloads, Removing):
    """A cluster in which nodes go, and workloads are about to make pods."""


@pytest.mark.parametrize("how", ["dry-run", "shadow"])
def test_no_timer_goes_on_while_nodes_only_would_go(how: str) -> None:
    quick = {"scale-down-unneeded-time": "1s", "scale-down-delay-after-add": "0s"}
    cluster = Removing({**quick, "dry-run": how == "dry-run"})
    if how == "shadow":
        cluster.tell(ModesSet(at=cluster.now, mode="shadow"))
    cluster.grown(3)
    cluster.advance(600.0)
    assert cluster.of(p.RemoveNode)
    before = len(cluster.said)
    cluster.advance(3600.0)
    assert [d for d in cluster.said[before:] if isinstance(d, SetTimer) and d.key == "scan"] == []


@pytest.mark.parametrize(("after_s", "wait_s"), [(40.0, 0.0), (3.0, 7.0)])
def test_a_deletion_that_was_made_has_the_next_pass_come_as_soon_as_it_may(
    after_s: float, wait_s: float
) -> None:
    cluster = world(3, {"node-delete-delay-after-taint": "0s", "scan-interval": "10s"})
    asked: list[p.DeleteInstances] = []
    cluster._delete = asked.append  # type: ignore[method-assign, assignment]  # the cloud takes its time
    cluster.advance(60.0)
    cluster.decided(cluster.removal("n0", drain=False))
    (deletion,) = asked
    cluster.advance(after_s)
    cluster.state.scan.at, cluster.state.scan.due = cluster.now - after_s, None
    before = len(cluster.said)
    cluster.tell(o.Applied(at=cluster.now, decision=deletion.id))
    (scan,) = [d for d in cluster.said[before:] if isinstance(d, SetTimer) and d.key == SCAN]
    assert scan.due == cluster.now + wait_s


@pytest.mark.parametrize(
    ("drains", "waits", "after_s"), [(True, False, CALM_S), (True, True, 0.05), (False, False, 0.05)]
)
def test_while_nodes_go_and_nothing_waits_the_next_evaluation_has_time(
    *, drains: bool, waits: bool, after_s: float
) -> None:
    cluster = world(3)
    cluster.run_pod("stays", "n0", removal=f.Removal(grace_s=600))
    cluster._evict = lambda decision: None  # type: ignore[method-assign]  # it is not answered yet
    if drains:
        cluster.decided(cluster.removal("n0"))
    if waits:
        cluster.run_pod("waits", "")
    cluster.advance(60.0)
    before = len(cluster.said)
    cluster.tell(cluster.fact_of("n1", ("delay-deletion.cluster-autoscaler.kubernetes.io/x",)))
    (evaluation,) = [d for d in cluster.said[before:] if isinstance(d, SetTimer) and d.key == EVALUATE]
    assert evaluation.due == pytest.approx(cluster.now + after_s)


@pytest.mark.parametrize(("most", "rest_s"), [(1, FULL_S), (2, 0.1)])
def test_while_as_many_nodes_are_drained_as_may_passes_rest_longer(most: int, rest_s: float) -> None:
    cluster = world(3, {"scan-interval": "100ms", "max-drain-parallelism": most})
    cluster.run_pod("stays", "n0", removal=f.Removal(grace_s=600))
    cluster.run_pod("ends", "n1")
    cluster._evict = lambda decision: None  # type: ignore[method-assign]  # it is not answered yet
    cluster.decided(cluster.removal("n0"))
    cluster.state.scan.at, cluster.state.scan.due = cluster.now, None
    before = len(cluster.said)
    cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name="ends", uid="ends"))
    (scan,) = [d for d in cluster.said[before:] if isinstance(d, SetTimer) and d.key == SCAN]
    assert scan.due == pytest.approx(cluster.now + rest_s)


@pytest.mark.parametrize(
    ("answer", "reason", "delete", "failure"),
    [
        (o.Applied, "", True, False),
        (o.Failed, "Unavailable", False, True),
        (o.Rejected, "Forbidden", False, True),
        (o.Rejected, "NodeNotEmpty", False, False),  # the actuator saw a pod, and asked the cloud for nothing
    ],
)
def test_a_groups_own_delays_count_from_what_its_cloud_has_answered(
    answer: type[o.Applied | o.Failed | o.Rejected], reason: str, *, delete: bool, failure: bool
) -> None:
    config = {"node-delete-delay-after-taint": "0s", "scale-down-delay-type-local": True}
    delays = {"scale-down-delay-after-delete": "10m", "scale-down-delay-after-failure": "20m"}
    cluster = world(3, {**config, **delays})
    asked: list[p.DeleteInstances] = []
    cluster._delete = asked.append  # type: ignore[method-assign, assignment]  # the cloud takes its time
    cluster.decided(cluster.removal("n0", drain=False))
    (deletion,) = asked
    cluster.advance(40.0)

    def waits() -> set[str]:
        return set(delayed(cluster.state, index_of(cluster.state).settings, cluster.now))

    assert waits() == set(), "what was decided and not done yet keeps no other one"
    cluster.tell(answer(at=cluster.now, decision=deletion.id, reason=reason))
    assert waits() == ({"g"} if delete or failure else set())
    cluster.now += 599.0
    assert waits() == ({"g"} if delete or failure else set())
    cluster.now += 2.0
    assert waits() == ({"g"} if failure else set())


def deleting(config: dict[str, Any] | None = None) -> tuple[Removing, p.DeleteInstances]:
    """A node whose instance is to be deleted, of which the cloud has not answered yet."""
    cluster = world(3, {"node-delete-delay-after-taint": "0s", **(config or {})})
    asked: list[p.DeleteInstances] = []
    cluster._delete = asked.append  # type: ignore[method-assign, assignment]  # the cloud takes its time
    cluster.decided(cluster.removal("n0", drain=False))
    (deletion,) = asked
    return cluster, deletion


@pytest.mark.parametrize("answer", [o.Applied, o.Failed])
def test_a_groups_own_delays_count_also_where_another_node_of_the_name_has_come(
    answer: type[o.Applied | o.Failed],
) -> None:
    cluster, deletion = deleting()
    cluster.objects["n0"]["metadata"]["uid"] = "another"
    cluster.tell(cluster.fact_of("n0"))
    assert "n0" not in cluster.state.removals
    cluster.tell(answer(at=cluster.now, decision=deletion.id))
    lately = cluster.state.lately[NodeGroupId("g")]
    assert (lately.deleted, lately.refused) == (
        (cluster.now, None) if answer is o.Applied else (None, cluster.now)
    )
    # A refusal says nothing of instances that never became a node, which are left alone after one of theirs.
    assert cluster.state.groups[NodeGroupId("g")].refused_until == 0


@pytest.mark.parametrize("answer", [o.Applied, o.Failed])
def test_nothing_is_kept_of_a_group_that_is_gone_before_its_cloud_has_answered(
    answer: type[o.Applied | o.Failed],
) -> None:
    cluster, deletion = deleting()
    cluster.tell(p.NodeGroupGone(at=cluster.now, name="g"))
    cluster.tell(answer(at=cluster.now, decision=deletion.id))
    undone = p.UndoRemoval(
        at=cluster.now, node="n1", uid="uid-n1", group="g", removal="r1", reason="Failed", failed=True
    )
    cluster.state.removals["n1"] = Removal(
        decision="r1", uid="uid-n1", provider_id="sim://n1", group=NodeGroupId("g"), begun_at=cluster.now
    )
    evolve(cluster.state, undone)
    assert cluster.state.lately == {}


@pytest.mark.parametrize("first", ["gone", "failed"])
def test_delays_that_count_for_all_groups_go_on_when_a_group_is_gone(first: str) -> None:
    cluster = world(3)
    cluster.remove("n0")
    began = cluster.now
    removal = cluster.state.removals["n0"]
    undone = p.UndoRemoval(
        at=began + 5,
        node="n0",
        uid="uid-n0",
        group="g",
        removal=removal.decision,
        reason="Failed",
        failed=True,
    )
    gone = p.NodeGroupGone(at=began + 5, name="g")
    for event in (gone, undone) if first == "gone" else (undone, gone):
        evolve(cluster.state, event)
    assert cluster.state.lately == {}
    last = last_of(cluster.state)
    assert (last.delete, last.failure) == (began, began + 5)


def test_nodes_of_a_group_begin_to_go_while_its_own_delays_have_not_begun() -> None:
    """All delays together count from the beginning of a removal; a group's own from the cloud's answer."""
    began = {}
    for local in (True, False):
        cluster = world(
            3,
            {
                "scale-down-delay-type-local": local, "scale-down-delay-after-delete": "10m",
                "scale-down-unneeded-time": "1m", "node-delete-delay-after-taint": "5m", "max-scale-down-parallelism": 2,
            },
        )  # fmt: skip
        cluster.decided(cluster.removal("n0", drain=False))
        cluster.advance(240.0)
        began[local] = sorted(cluster.state.removals)
    assert began == {True: ["n0", "n1"], False: ["n0"]}


def test_nodes_whose_room_was_kept_go_when_it_is_given_back_though_nothing_else_happens() -> None:
    quick = {"scale-down-unneeded-time": "60s", "scale-down-delay-after-add": "0s"}
    cluster = Removing(quick)
    cluster.template("whole", "3500m")
    cluster.grown(2)
    cluster.request("r", CHECK, [("whole", 2)], {"BookingSeconds": "1200"})
    cluster.advance(1100.0)
    assert cluster.deleted == []
    assert cluster.state.scan.due is None  # nothing that time alone changes is to be looked at
    cluster.advance(300.0)
    assert cluster.conditions("r")["BookingExpired"].status == "True"
    assert sorted(cluster.deleted) == ["n0", "n1"]


def test_nodes_that_were_kept_for_pods_which_do_not_come_go_though_nothing_else_happens() -> None:
    cluster = Expecting({**ON, "scale-down-unneeded-time": "60s", "scale-down-delay-after-add": "0s"})
    cluster.grown(2)
    cluster.state.came_s["Deployment"] = (
        MOST_S  # so long its pods have taken: the next ones are waited for as long as may be
    )
    cluster.deployment("web", 0, template=cluster.form("3500m"))
    cluster.advance(5.0)
    cluster.deployment("web", 2)
    cluster.advance(MOST_S - 1.0)
    assert cluster.state.unneeded == {}
    assert cluster.deleted == []
    cluster.advance(120.0)
    assert sorted(cluster.deleted) == ["n0", "n1"]


def test_a_node_that_was_kept_for_a_pod_which_somebody_holds_back_goes_though_nothing_else_happens() -> None:
    """Another scheduler's, it may be: after the window of a burst it is not counted on that it wants room."""
    cluster = Expecting(
        {**ON, "scale-down-unneeded-time": "60s", "scale-down-delay-after-add": "0s", "burst-window": "500s"}
    )
    cluster.grown(1)
    cluster.deployment("web", 1, template=cluster.form("3500m"))
    cluster.replicas_of("web", "web-1", 1, status_replicas=1)
    cluster.made("web-1-0", cluster.shape({"cpu": 3500}), owned_by("web-1"))
    cluster.deployment("web", 1, status_replicas=1)
    cluster.advance(499.0)
    assert cluster.deleted == []
    cluster.advance(120.0)
    assert cluster.deleted == ["n0"]
