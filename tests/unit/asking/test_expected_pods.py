"""An explanation goes from a pod to the decision to scale by which its node was ordered before it was there, and to what led to that."""

from __future__ import annotations

import pytest

from tests.unit.provisioning.workloads import Workloads, replica_set
from tidewright.asking.objects import speaks_of
from tidewright.asking.services import SERVICES
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.tell.explaining import EXPLAINER
from tidewright.provisioning.tell.lines import line

POD = Reference("pod", "ns", "web-1-a")


def scaled() -> Workloads:
    cluster = Workloads({"foresight": "decisions"}, boots=False)
    cluster.add_group("g", maximum=50)
    cluster.deployment("web", 4, status_replicas=4, template=cluster.form())
    cluster.settle()
    cluster.scaled("web", 20)
    cluster.advance(5)
    cluster.replicas_of("web", "web-1", 20, template=cluster.told["Deployment/web"].template)
    cluster.made("web-1-a", cluster.shape({"cpu": 3000}), replica_set("web-1"))
    return cluster


def test_a_plan_for_pods_of_a_workload_is_about_each_that_came_after_it() -> None:
    cluster = scaled()
    (plan,) = cluster.of(p.PlanScaleUp)
    told = EXPLAINER.told(cluster.state, POD)
    assert told.before_it == (Reference("deployment", "ns", "web"),)
    assert plan.at <= told.came_at < cluster.now + 2
    assert EXPLAINER.concerns(plan, told.before_it[0])
    assert not EXPLAINER.concerns(plan, Reference("deployment", "ns", "other"))


def test_a_pod_of_nobody_has_no_plan_from_before_it() -> None:
    cluster = scaled()
    cluster.tell(f.PodObserved(at=cluster.now, namespace="ns", name="bare", shape="s"))
    assert EXPLAINER.told(cluster.state, Reference("pod", "ns", "bare")).before_it == ()


def test_the_reasons_of_a_plan_name_workload_count_and_decision() -> None:
    cluster = scaled()
    (plan,) = cluster.of(p.PlanScaleUp)
    (share,) = plan.expected
    assert (
        f"16 pods of Deployment ns/web are about to come, by decision {share.decision}."
        in EXPLAINER.sentences(plan)
    )
    assert "16 pods that are about to come of Deployment ns/web" in (line(plan) or "")


def test_a_workload_is_told_of_the_pods_that_are_awaited() -> None:
    cluster = Workloads({"foresight": "decisions"}, boots=False)
    cluster.add_group("g", maximum=50)
    cluster.deployment("web", 4, status_replicas=4, template=cluster.form())
    cluster.settle()
    asked = Reference("deployment", "ns", "web")
    assert EXPLAINER.standing(cluster.state, asked, cluster.now) == []
    decision = cluster.scaled("web", 20)
    coming, ordered = EXPLAINER.standing(cluster.state, asked, cluster.now)
    assert coming.startswith(
        f"16 pods of it are about to come by decision {decision}: they are waited for until "
    )
    assert ordered.startswith("Nodes were ordered for 16 of its pods before they were there, by plan ")
    held = EXPLAINER.aggregate(cluster.state, asked)
    assert held is not None
    assert set(held) == {"workload", "scaling", "foreseen"}
    cluster.advance(120)
    (late,) = EXPLAINER.standing(cluster.state, asked, cluster.now)
    assert late == "It lacks 16 pods, and they are waited for no longer: none has come in 60 s."


def test_a_workload_whose_pods_nobody_knows_the_shape_of_is_told_so() -> None:
    cluster = Workloads({"foresight": "decisions"}, boots=False)
    cluster.deployment("web", 4, template="never told")
    (why,) = EXPLAINER.standing(cluster.state, Reference("deployment", "ns", "web"), cluster.now)
    assert why.startswith("It lacks 4 pods that are not expected")


def test_without_foresight_nothing_is_told_of_workloads() -> None:
    cluster = Workloads({"foresight": "off"}, boots=False)
    cluster.deployment("web", 4, template=cluster.form())
    asked = Reference("deployment", "ns", "web")
    assert not EXPLAINER.standing(cluster.state, asked, cluster.now)
    assert EXPLAINER.told(cluster.state, asked).decisions == ()
    assert EXPLAINER.aggregate(cluster.state, Reference("job", "ns", "none")) is None


def test_a_workload_of_a_kind_that_nobody_built_in_is_told_of_as_others_are() -> None:
    cluster = Workloads({"foresight": "decisions"}, boots=False)
    cluster.add_group("g", maximum=50)
    cluster.workload("Fleet", "arena", 4, api_version="e.io/v1", status_replicas=4, template=cluster.form())
    cluster.settle()
    decided = cluster.scaled("arena", 20, kind="Fleet")
    cluster.settle()
    asked = Reference("fleet", "ns", "arena")
    (plan,) = cluster.of(p.PlanScaleUp)
    assert EXPLAINER.concerns(plan, asked)
    assert not EXPLAINER.concerns(plan, Reference("fleet", "ns", "other"))
    assert f"16 pods of it are about to come by decision {decided}" in " ".join(
        EXPLAINER.standing(cluster.state, asked, cluster.now)
    )
    aggregate = EXPLAINER.aggregate(cluster.state, asked)
    assert aggregate is not None
    assert aggregate["workload"] is cluster.state.workloads["Fleet/ns/arena"]
    assert EXPLAINER.aggregate(cluster.state, Reference("stage", "ns", "arena")) is None


@pytest.mark.parametrize(
    ("kind", "speaking"),
    [
        ("fleet", ["provisioning"]),
        ("metric", []),
        ("shape", []),
        ("job", ["provisioning", "spread"]),
    ],
)
def test_who_speaks_about_a_kind(kind: str, speaking: list[str]) -> None:
    assert [service.name for service in SERVICES if speaks_of(service, kind)] == speaking
