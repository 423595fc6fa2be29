"""Workload controllers, scheduler and kubelets together, over the API alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.e2e.sim.world import (
    APPS,
    NODES,
    PODS,
    merge,
    ready_pods,
    send,
    small,
    template,
    until,
    workload,
)
from tidewright.sim.cluster import SimCluster


@pytest.fixture
async def cluster() -> AsyncIterator[SimCluster]:
    async with SimCluster(small()) as running:
        yield running


async def test_a_deployment_becomes_available_and_is_spread_over_the_nodes(cluster: SimCluster) -> None:
    await send(cluster.kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=6))
    pods = await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 6)
    assert Counter(pod["spec"]["nodeName"] for pod in pods.values()) == {
        "sim-0000": 2,
        "sim-0001": 2,
        "sim-0002": 2,
    }
    await until(
        cluster.kube,
        f"{APPS}/deployments",
        lambda found: found["web"].get("status", {}).get("availableReplicas") == 6,
    )


async def test_what_is_refused_because_the_object_has_changed_is_written_again(cluster: SimCluster) -> None:
    """Each write of a pod's life once: that it is made, bound, runs and is gone."""
    agent = {"user_agent": "tidewright-sim"}
    for verb, path in (
        ("POST", "/pods$"),
        ("POST", "/binding$"),
        ("PATCH", "/pods/[^/]+/status$"),
        ("DELETE", "/pods/"),
    ):
        rule = {"match": {**agent, "verbs": [verb], "path": path}, "action": {"status": 409}, "count": 2}
        await send(cluster.kube, "POST", "/sim/faults", rule)
    await send(cluster.kube, "POST", f"{APPS}/replicasets", workload("ReplicaSet", "web", replicas=2))
    await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 2)
    await merge(cluster.kube, f"{APPS}/replicasets/web/scale", {"spec": {"replicas": 0}})
    await until(cluster.kube, PODS, lambda pods: not pods)
    left = await send(cluster.kube, "GET", "/sim/faults")
    assert [rule["struck"] for rule in left] == [2, 2, 2, 2], left


async def test_a_rollout_replaces_all_pods_and_keeps_the_old_replica_set(cluster: SimCluster) -> None:
    await send(cluster.kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=4))
    await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 4)
    await merge(
        cluster.kube, f"{APPS}/deployments/web", {"spec": {"template": template("web", image="app:2")}}
    )
    pods = await until(
        cluster.kube,
        PODS,
        lambda pods: (
            len(pods) == len(ready_pods(pods)) == 4
            and {pod["spec"]["containers"][0]["image"] for pod in pods.values()} == {"app:2"}
        ),
    )
    assert len({pod["metadata"]["labels"]["pod-template-hash"] for pod in pods.values()}) == 1
    sets = await until(
        cluster.kube,
        f"{APPS}/replicasets",
        lambda sets: sorted(one["spec"]["replicas"] for one in sets.values()) == [0, 4],
    )
    revisions = {
        one["spec"]["replicas"]: one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        for one in sets.values()
    }
    assert revisions == {0: "1", 4: "2"}


async def test_scale_in_deletes_the_pods_of_the_lowest_deletion_cost(cluster: SimCluster) -> None:
    await send(cluster.kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=5))
    pods = await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 5)
    cheap = sorted(pods)[1:3]
    for name in cheap:
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}}}
        await merge(cluster.kube, f"{PODS}/{name}", cost)
    await merge(cluster.kube, f"{APPS}/deployments/web/scale", {"spec": {"replicas": 3}})
    left = await until(cluster.kube, PODS, lambda pods: len(pods) == 3)
    assert sorted(left) == sorted(set(pods) - set(cheap))


async def test_pods_that_fit_nowhere_say_why_and_start_when_a_node_comes(cluster: SimCluster) -> None:
    from tidewright.sim.options import NodePool

    big = workload("Deployment", "big", replicas=1, template=template("big", cpu="12"))
    await send(cluster.kube, "POST", f"{APPS}/deployments", big)
    stuck = await until(
        cluster.kube,
        PODS,
        lambda pods: any(
            one.get("reason") == "Unschedulable"
            for pod in pods.values()
            for one in pod["status"].get("conditions", ())
        ),
    )
    condition = next(iter(stuck.values()))["status"]["conditions"][0]
    assert condition["message"] == (
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )
    await until(
        cluster.kube,
        "/api/v1/namespaces/default/events",
        lambda events: any(one["reason"] == "FailedScheduling" for one in events.values()),
    )
    await cluster.add_nodes(
        NodePool(count=1, prefix="large", capacity={"cpu": "16", "memory": "32Gi", "pods": "110"})
    )
    pods = await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 1)
    assert next(iter(pods.values()))["spec"]["nodeName"] == "large-0000"


async def test_a_stateful_set_starts_in_order_and_shrinks_from_the_top(cluster: SimCluster) -> None:
    await send(
        cluster.kube,
        "POST",
        f"{APPS}/statefulsets",
        workload("StatefulSet", "db", replicas=3, serviceName="db"),
    )
    pods = await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 3)
    assert sorted(pods) == ["db-0", "db-1", "db-2"]
    started = [int(pods[f"db-{ordinal}"]["metadata"]["resourceVersion"]) for ordinal in range(3)]
    assert started == sorted(started)
    await merge(
        cluster.kube, f"{APPS}/statefulsets/db", {"spec": {"template": template("db", image="app:2")}}
    )
    await until(
        cluster.kube,
        PODS,
        lambda pods: (
            len(ready_pods(pods)) == 3
            and {pod["spec"]["containers"][0]["image"] for pod in pods.values()} == {"app:2"}
        ),
    )
    await merge(cluster.kube, f"{APPS}/statefulsets/db/scale", {"spec": {"replicas": 1}})
    left = await until(cluster.kube, PODS, lambda pods: len(pods) == 1)
    assert sorted(left) == ["db-0"]
    await until(
        cluster.kube,
        f"{APPS}/statefulsets",
        lambda found: (
            found["db"]["status"].get("currentRevision") == found["db"]["status"].get("updateRevision")
            and found["db"]["status"].get("readyReplicas") == 1
        ),
    )


async def test_a_daemon_set_runs_on_every_node_and_on_new_ones(cluster: SimCluster) -> None:
    from tidewright.sim.options import NodePool

    await send(cluster.kube, "POST", f"{APPS}/daemonsets", workload("DaemonSet", "agent"))
    await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 3)
    await cluster.add_nodes(NodePool(count=2, prefix="more"))
    pods = await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 5)
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 5
    await merge(
        cluster.kube, f"{APPS}/daemonsets/agent", {"spec": {"template": template("agent", image="app:2")}}
    )
    await until(
        cluster.kube,
        PODS,
        lambda pods: (
            len(ready_pods(pods)) == 5
            and {pod["spec"]["containers"][0]["image"] for pod in pods.values()} == {"app:2"}
        ),
    )


async def test_a_job_runs_to_completion_and_a_suspended_one_waits(cluster: SimCluster) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    job = workload("Job", "sum", version="batch/v1", completions=4, parallelism=2, suspend=True)
    job["spec"].pop("selector")
    job["spec"]["template"] = template("sum", restartPolicy="Never")
    await send(cluster.kube, "POST", jobs, job)
    found = await until(
        cluster.kube,
        jobs,
        lambda found: any(
            one["type"] == "Suspended" for one in found["sum"].get("status", {}).get("conditions", ())
        ),
    )
    assert found["sum"]["status"].get("active", 0) == 0
    await merge(cluster.kube, f"{jobs}/sum", {"spec": {"suspend": False}})
    found = await until(
        cluster.kube,
        jobs,
        lambda found: any(
            one["type"] == "Complete" and one["status"] == "True"
            for one in found["sum"].get("status", {}).get("conditions", ())
        ),
    )
    assert found["sum"]["status"]["succeeded"] == 4
    assert "completionTime" in found["sum"]["status"]


async def test_a_job_whose_pods_fail_gives_up_at_its_backoff_limit(cluster: SimCluster) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    job = workload("Job", "bad", version="batch/v1", backoffLimit=0)
    job["spec"].pop("selector")
    job["spec"]["template"] = template(
        "bad", restartPolicy="Never", annotations={"sim.tidewright.dev/exit-code": "3"}
    )
    await send(cluster.kube, "POST", jobs, job)
    found = await until(
        cluster.kube,
        jobs,
        lambda found: any(
            one["type"] == "Failed" and one["reason"] == "BackoffLimitExceeded"
            for one in found["bad"].get("status", {}).get("conditions", ())
        ),
    )
    assert found["bad"]["status"]["failed"] == 1


async def test_a_disruption_budget_counts_what_may_be_disrupted(cluster: SimCluster) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await send(
        cluster.kube,
        "POST",
        budgets,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        },
    )
    await send(cluster.kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=4))
    found = await until(
        cluster.kube, budgets, lambda found: found["web"].get("status", {}).get("disruptionsAllowed") == 2
    )
    status = found["web"]["status"]
    assert (status["currentHealthy"], status["desiredHealthy"], status["expectedPods"]) == (4, 2, 4)


async def test_a_deleted_node_takes_its_pods_along_and_they_come_back_elsewhere(cluster: SimCluster) -> None:
    await send(cluster.kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=3))
    await until(cluster.kube, PODS, lambda pods: len(ready_pods(pods)) == 3)
    await send(cluster.kube, "DELETE", f"{NODES}/sim-0001")
    pods = await until(
        cluster.kube,
        PODS,
        lambda pods: (
            len(pods) == len(ready_pods(pods)) == 3
            and all(pod["spec"]["nodeName"] != "sim-0001" for pod in pods.values())
        ),
    )
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"sim-0000", "sim-0002"}
