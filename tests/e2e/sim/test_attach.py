"""Nodes, kubelets and metrics beside an API server that somebody else runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.sim.world import APPS, NODES, PODS, ready_pods, send, small, until, workload
from tidewright.kube.client import Kube
from tidewright.sim.cluster import SimCluster
from tidewright.sim.options import MetricOptions, NodePool, SimOptions


@pytest.fixture
async def foreign(tmp_path: Path) -> AsyncIterator[tuple[SimCluster, Path]]:
    """A control plane without nodes of ours: controllers and scheduler, one node that is not sim's."""
    kubeconfig = tmp_path / "kubeconfig"
    options = SimOptions(kubelets=None, write_kubeconfig=kubeconfig)
    async with SimCluster(options) as cluster:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "theirs"},
            "spec": {"unschedulable": True},
        }
        await send(cluster.kube, "POST", NODES, node)
        yield cluster, kubeconfig


def attached(kubeconfig: Path) -> SimOptions:
    metrics = (MetricOptions(name="requests", value=7.5, labels={"app": "web"}),)
    return replace(
        small(0), kubeconfig=kubeconfig, pools=(NodePool(count=2, prefix="ours"),), metrics=metrics
    )


async def test_pods_run_on_attached_nodes_and_nothing_else_is_touched(
    foreign: tuple[SimCluster, Path],
) -> None:
    control, kubeconfig = foreign
    # The node lifecycle controller taints it for its cordon; from then on nobody has a reason to write.
    before = await until(control.kube, NODES, lambda nodes: "taints" in nodes["theirs"]["spec"])
    async with SimCluster(attached(kubeconfig)) as beside:
        await send(control.kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=4))
        pods = await until(control.kube, PODS, lambda pods: len(ready_pods(pods)) == 4)
        assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"ours-0000", "ours-0001"}
        assert all(pod["status"]["podIP"] for pod in pods.values())
        leases = await until(
            control.kube,
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            lambda found: len(found) == 2,
        )
        assert sorted(leases) == ["ours-0000", "ours-0001"]
        async with Kube.at(beside.side_url) as metrics:
            answer = await metrics.request(
                "GET",
                "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/requests",
                query={"labelSelector": "app=web"},
            )
            assert [one["value"] for one in json.loads(answer.body)["items"]] == ["7500m"]
        await send(control.kube, "DELETE", f"{APPS}/deployments/web")
        await until(control.kube, PODS, lambda pods: not pods)
    nodes = await until(control.kube, NODES, lambda nodes: True)
    assert sorted(nodes) == ["theirs"]
    for part in ("metadata", "spec", "status"):  # what is listed does not say its kind
        assert nodes["theirs"].get(part) == before["theirs"].get(part)
    leases = await until(
        control.kube, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lambda found: True
    )
    assert leases == {}


async def test_a_pool_that_would_take_over_a_foreign_node_is_refused(
    foreign: tuple[SimCluster, Path],
) -> None:
    control, kubeconfig = foreign
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ours-0001"}}
    await send(control.kube, "POST", NODES, node)
    with pytest.raises(ValueError, match="node ours-0001 exists and is not sim's"):
        await SimCluster(attached(kubeconfig)).start()
    nodes = await until(control.kube, NODES, lambda nodes: True)
    assert sorted(nodes) == ["ours-0001", "theirs"]


async def test_a_second_start_takes_up_the_pods_of_the_first(foreign: tuple[SimCluster, Path]) -> None:
    control, kubeconfig = foreign
    await send(control.kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=2))
    async with SimCluster(attached(kubeconfig)):
        await until(control.kube, PODS, lambda pods: len(ready_pods(pods)) == 2)
    async with SimCluster(attached(kubeconfig)):
        await until(
            control.kube,
            PODS,
            lambda pods: len(pods) == len(ready_pods(pods)) == 2,
        )


async def test_pods_that_terminate_on_attached_nodes_are_removed(foreign: tuple[SimCluster, Path]) -> None:
    control, kubeconfig = foreign
    async with SimCluster(attached(kubeconfig)):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "alone"},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]},
        }
        await send(control.kube, "POST", PODS, pod)
        await until(control.kube, PODS, lambda pods: ready_pods(pods) == ["alone"])
        await send(control.kube, "DELETE", f"{PODS}/alone")
        await until(control.kube, PODS, lambda pods: not pods)
