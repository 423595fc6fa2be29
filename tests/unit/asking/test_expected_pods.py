"""An explanation goes from a pod to the decision to scale by which its node was ordered before it was there, and to what led to that."""

from __future__ import annotations

from tests.unit.provisioning.workloads import Workloads, replica_set
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
