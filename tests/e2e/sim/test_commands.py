"""`tidewright sim load` and `sim fault`, as people run them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import tidewright
from tests.e2e.sim.world import APPS, NODES, PODS, merge, ready_pods, send, small, until, workload
from tidewright.kube.errors import KubeError
from tidewright.sim.cluster import SimCluster

MAPS = "/api/v1/namespaces/default/configmaps"
PODS_CSV = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
a,1000,1024,1,500,,LS,Running,0,300,0
b,1000,1024,0,0,,BE,Failed,60,400,70
c,1000,1024,1,1000,V100,LS,Succeeded,120,500,130
"""
NODES_CSV = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,P100\nn-1,64000,262144,2,V100\n"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SimCluster]:
    async with SimCluster(small(2, write_kubeconfig=tmp_path / "kubeconfig")) as running:
        yield running


async def run(*arguments: str, code: int = 0) -> str:
    """What `tidewright sim` prints; fails unless it exits with `code`."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*tidewright("sim", *arguments), stdout=pipe, stderr=pipe)
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert process.returncode == code, f"{arguments}: {process.returncode}: {out.decode()}{err.decode()}"
    return out.decode() if code == 0 else err.decode()


async def test_a_rule_strikes_the_same_requests_for_the_same_seed(
    cluster: SimCluster, tmp_path: Path
) -> None:
    target = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    await send(cluster.kube, "POST", MAPS, {"metadata": {"name": "a"}})

    async def struck() -> list[bool]:
        """Which of twenty patches are refused."""
        found = []
        for number in range(20):
            try:
                await merge(cluster.kube, f"{MAPS}/a", {"data": {"n": str(number)}})
                found.append(False)
            except KubeError as error:
                found.append(error.status == 429)
        return found

    add = (
        "fault",
        "add",
        "--id",
        "half",
        "--verb",
        "PATCH",
        "--path",
        "configmaps/a$",
        "--probability",
        "0.5",
    )
    rule = json.loads(await run(*add, "--seed", "7", "--status", "429", *target, "-o", "json"))
    assert (rule["id"], rule["struck"]) == ("half", 0)
    first = await struck()
    assert True in first
    assert False in first
    [kept] = await send(cluster.kube, "GET", "/sim/faults")
    await send(
        cluster.kube, "POST", "/sim/faults", {**kept, "struck": 0}
    )  # the same again, from the beginning
    assert await struck() == first
    assert f"struck {first.count(True)}" in await run("fault", "list", *target)
    assert await run("fault", "remove", "half", *target) == "lifted; 0 left\n"
    await merge(cluster.kube, f"{MAPS}/a", {"data": {"n": "last"}})


async def test_a_restart_that_loses_its_memory_expires_old_versions(
    cluster: SimCluster, tmp_path: Path
) -> None:
    made = await send(cluster.kube, "POST", MAPS, {"metadata": {"name": "a"}})
    version = made["metadata"]["resourceVersion"]
    await merge(cluster.kube, f"{MAPS}/a", {"data": {"n": "1"}})
    await run("fault", "restart", "--memory", "lost", "--kubeconfig", str(tmp_path / "kubeconfig"))

    async def first_line() -> dict[str, Any]:
        query = {"watch": "true", "resourceVersion": version}
        async for line in cluster.kube.stream(MAPS, query=query):
            found: dict[str, Any] = json.loads(bytes(line))
            return found
        raise AssertionError("the watch ended without a word")

    event = await _answered(first_line)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    # A watch may be answered by what has forgotten already, and is about to end all connections.
    kept = await _answered(lambda: send(cluster.kube, "GET", f"{MAPS}/a"))
    assert kept["data"] == {"n": "1"}


async def _answered(ask: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """What a server that is just restarting answers once it does."""
    async with asyncio.timeout(90):
        while True:
            try:
                return await ask()
            except KubeError:
                await asyncio.sleep(0.05)


async def test_nodes_and_pods_fail_in_place(cluster: SimCluster) -> None:
    kube, target = cluster.kube, ("--server", cluster.side_url)
    await send(kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=1))
    found = await until(kube, PODS, lambda pods: len(ready_pods(pods)) == 1)
    name = ready_pods(found)[0]
    await run("fault", "pod", f"default/{name}", *target)
    await until(kube, PODS, lambda pods: pods[name]["status"]["containerStatuses"][0]["restartCount"] == 1)
    await run("fault", "node", "sim-0001", "fail", *target)

    def tainted(nodes: dict[str, dict[str, Any]]) -> bool:
        return "not-ready" in json.dumps(nodes["sim-0001"]["spec"].get("taints"))

    await until(kube, NODES, tainted)
    await run("fault", "node", "sim-0001", "recover", *target)
    await until(kube, NODES, lambda nodes: not tainted(nodes))


async def test_pods_are_ready_again_when_their_node_is(cluster: SimCluster) -> None:
    kube, target = cluster.kube, ("--server", cluster.side_url)
    await send(kube, "POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=1))
    found = await until(kube, PODS, lambda pods: len(ready_pods(pods)) == 1)
    [name] = ready_pods(found)
    node = found[name]["spec"]["nodeName"]
    await run("fault", "node", node, "fail", *target)
    await until(kube, PODS, lambda pods: not ready_pods(pods))
    await run("fault", "node", node, "recover", *target)
    again = await until(kube, PODS, lambda pods: name in ready_pods(pods))
    assert again[name]["metadata"]["uid"] == found[name]["metadata"]["uid"]


async def test_faults_that_cannot_be_are_refused(cluster: SimCluster, tmp_path: Path) -> None:
    target = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    assert "a fault does something" in await run("fault", "add", *target, code=2)
    assert "there is no fault nope" in await run("fault", "remove", "nope", *target, code=2)
    with pytest.raises(KubeError, match="unterminated"):
        await send(cluster.kube, "POST", "/sim/faults", {"match": {"path": "("}, "action": {"drop": True}})
    with pytest.raises(KubeError, match="sim-0000"):
        await send(cluster.kube, "POST", "/sim/nodes/nope", {"action": "lose"})
    assert "not an embedded cluster" in await run("fault", "list", "--server", cluster.side_url, code=2)


async def test_a_recording_is_replayed_in_a_cluster_of_its_own(tmp_path: Path) -> None:
    pods, nodes = tmp_path / "pods.csv", tmp_path / "nodes.csv"
    pods.write_text(PODS_CSV, encoding="utf-8")
    nodes.write_text(NODES_CSV, encoding="utf-8")
    report = json.loads(await run("load", str(pods), "--nodes", str(nodes), "--speed", "600", "-o", "json"))
    assert {key: report[key] for key in ("pods", "nodes", "created", "bound", "ended")} == {
        "pods": 3, "nodes": 2, "created": 3, "bound": 3, "ended": 3,
    }  # fmt: skip
    told = await run("load", str(nodes), code=2)
    assert "line 1: column 'name' is missing" in told


async def test_a_recording_is_replayed_into_a_running_cluster(cluster: SimCluster, tmp_path: Path) -> None:
    pods = tmp_path / "pods.csv"
    pods.write_text(PODS_CSV.replace(",1,500,", ",0,0,").replace(",1,1000,V100,", ",0,0,,"), encoding="utf-8")
    target = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    told = await run("load", str(pods), "--at-once", "--namespace", "recorded", "--limit", "2", *target)
    assert "2 of 2 pods created" in told
    made = await until(
        cluster.kube, "/api/v1/namespaces/recorded/pods", lambda found: len(ready_pods(found)) == 2
    )
    assert sorted(made) == ["a", "b"]
