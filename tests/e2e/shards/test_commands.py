"""`tidewright shards` as its user runs it, on a set with two workers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.answers import fits
from tests.e2e.conftest import Cluster, Services
from tests.e2e.shards.world import Workers, make_orders, owners, sets_path, shard_set
from tests.e2e.sim.world import merge, send, until
from tidewright.cli.main import run
from tidewright.kube.client import Kube
from tidewright.sharding.keyspace import parse_runs
from tidewright.sharding.wire import document_of


class Command:
    """Runs one command line in this process; what it prints."""

    def __init__(self, kubeconfig: Path, namespace: str, services: Services) -> None:
        self.at = ("--kubeconfig", str(kubeconfig), "-n", namespace)
        self.log = ("--nats", services.nats_url, "--cluster", services.name)

    async def __call__(self, *arguments: str, log: bool = False, code: int = 0) -> str:
        line = ["shards", *arguments, *self.at, *(self.log if log else ())]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            got = await asyncio.wait_for(asyncio.to_thread(run, line), 90)
        text = out.getvalue()
        assert got == code, f"{arguments}: exit code {got}\n{text}"
        print(f"$ tidewright shards {' '.join(arguments)}\n{text}")
        return text


@pytest.mark.slow
async def test_an_operator_looks_plans_moves_pins_drains_and_freezes(
    kube: Kube, namespace: str, services: Services, workers: Workers
) -> None:
    sets = sets_path(namespace)
    shards = Command(workers.cluster.kubeconfig, namespace, services)

    async def until_set(holds: Any) -> None:
        await until(kube, sets, lambda found: holds(found["orders"]))

    def owner(found: dict[str, Any], slot: int) -> str:
        return document_of(found["status"]["assignment"]).slots[slot].owner.partition("#")[0]

    await services.start("watcher", "shard-manager", "actuator")
    await send(kube, "POST", sets, shard_set(rebalance={"maxMoves": 0}))
    await make_orders(kube, namespace, 4)
    await workers.start("a")
    await workers.start("b")
    await until_set(lambda found: owners(found) == {"a": 32, "b": 32})

    assert "orders" in await shards("get")
    assert "32" in await shards("get", "orders")
    got = json.loads(await shards("get", "orders", "-o", "json"))
    fits("shards.get", got)
    assert got["assignment"]["keyspace"] == 64
    fits("shards.list", json.loads(await shards("get", "-o", "json")))
    assert (await shards("get", "-o", "name")).split() == ["shardset/orders"]
    key = f"{namespace}/order-1"
    told = json.loads(await shards("explain", key, "-o", "json", log=True))
    fits("shards.explain", told)
    assert told["owner"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["since"])
    assert "became the owner" in await shards("explain", key, log=True)
    slot = int(told["slot"])
    here = told["owner"].partition("#")[0]
    there = "b" if here == "a" else "a"

    fits("shards.plan", json.loads(await shards("plan", "--move", f"{slot}={there}", "-o", "json")))
    planned = await shards("plan", "--move", f"{slot}={there}")
    assert f"{here} -> {there}: 1 ({slot})" in planned
    assert "moves     1 of 64" in planned
    assert "at most 2 s" in planned
    refused = await shards("move", str(slot), there, code=2)  # nobody can be asked
    assert "Plan for shardset" in refused
    assert "say --yes" in refused
    await shards("move", str(slot), there, "--yes")
    await until_set(lambda found: owner(found, slot) == there)
    await shards("pin", str(slot), here, "--yes")
    await until_set(lambda found: owner(found, slot) == here)
    assert "is pinned to" in await shards("move", str(slot), there, code=2)
    await shards("unpin", str(slot), "--yes")
    await shards("freeze")
    await until_set(lambda found: found["status"]["assignment"]["frozen"])
    assert "unfreeze it first" in await shards("move", str(slot), there, code=2)
    await shards("unfreeze", "--yes")
    await shards("drain", "a", "--yes")
    await until_set(lambda found: owners(found) == {"b": 64})
    assert "only member" in await shards("drain", "b", "--yes", code=2)
    assert "b -> a: 32" in await shards("drain", "a", "--undo", "--yes")
    await until_set(lambda found: owners(found) == {"a": 32, "b": 32})
    assert "no key changes its owner" in await shards("double", "--yes")
    await until_set(lambda found: owners(found) == {"a": 64, "b": 64})
    # Whose they are the set says at once, that they act on them the members, once they have heard of it.
    await until(
        kube, sets.replace("shardsets", "shardmembers"), lambda found: acting(found) == list(range(128))
    )

    assert "external workers" in await shards("resize", "4", "--yes", code=2)
    assert "no rollout" in await shards("rollout", "status", code=2)
    assert "'ghost' is no member" in await shards("pin", "1", "ghost", code=2)
    assert "slots 0 to 127" in await shards("move", "200", "a", code=2)
    assert "not found" in await shards("get", "nothing", code=2)

    verified = await shards("verify", log=True)
    assert "FAILED" not in verified
    assert "the ledger gives this assignment  ok" in verified

    fits("shards.verify", json.loads(await shards("verify", "-o", "json", log=True)))

    await services.start("autoscaler")
    fits("shards.services", json.loads(await shards("get", "services", "-o", "json", log=True)))
    on_a_service = ("plan", "--set", "service/autoscaler", "-o", "json")
    fits("shards.plan.service", json.loads(await shards(*on_a_service, log=True)))
    fits(
        "shards.explain.service",
        json.loads(await shards("explain", namespace, "--set", "service/autoscaler", "-o", "json", log=True)),
    )
    ours = await shards("get", "service/autoscaler", log=True)
    assert "1 replicas" in ours
    assert "cannot be moved" in await shards("move", "1", "a", "--set", "service/autoscaler", code=2)
    assert "facts/s" in await shards("plan", "--set", "service/autoscaler", log=True)
    assert "rendezvous" in await shards("explain", "shop", "--set", "service/autoscaler", log=True)


def acting(members: dict[str, dict[str, Any]]) -> list[int]:
    """The slots on which members say that they act."""
    told = ((member.get("status") or {}).get("acting") or "" for member in members.values())
    return sorted(slot for text in told for slot in parse_runs(text))


TOLD = {
    "keyspace": {"slots": 32, "hash": "fnv1a32", "slotLabel": "shard-key"},
    "workers": {
        "driver": "pods",
        "injector": "propeller",
        "replicas": 2,
        "template": {"name": "runs-template", "container": "runner"},
    },
    "assignment": {"strategy": "ranges"},
    "handover": {"mode": "restart"},
    "rollout": {"minReady": "0.2s", "canary": 1},
}


def template(image: str) -> dict[str, Any]:
    container = {"name": "runner", "image": image, "args": ["--x"]}
    return {"template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}}


@pytest.mark.slow
async def test_an_operator_resizes_rolls_out_holds_goes_on_and_goes_back(
    kube: Kube, namespace: str, cluster: Cluster, services: Services
) -> None:
    sets, templates = sets_path(namespace), f"/api/v1/namespaces/{namespace}/podtemplates"
    shards = Command(cluster.kubeconfig, namespace, services)

    async def rollout(**expected: Any) -> None:
        def holds(found: dict[str, Any]) -> bool:
            made = (found["runs"].get("status") or {}).get("rollout") or {}
            return all(made.get(key) == value for key, value in expected.items())

        await until(kube, sets, holds)

    async def images() -> list[str]:
        pods = await send(kube, "GET", f"/api/v1/namespaces/{namespace}/pods")
        return sorted(pod["spec"]["containers"][0]["image"] for pod in pods["items"])

    await services.start("watcher", "shard-manager", "actuator")
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "runs-template"}}
    await send(kube, "POST", templates, {**body, **template("one")})
    body = {"apiVersion": "shards.tidewright.dev/v1alpha1", "kind": "ShardSet", "metadata": {"name": "runs"}}
    await send(kube, "POST", sets, {**body, "spec": TOLD})
    await rollout(state="Complete", shards=2)

    refused = await shards("resize", "3", code=2)
    assert "starts    1: runs-2" in refused
    assert "restarts  2: runs-0, runs-1" in refused
    assert "say --yes" in refused
    await shards("resize", "3", "--yes")
    await rollout(state="Progressing", waitsFor="CanaryHold", shards=3)
    assert "canary is to be approved" in await shards("rollout", "status")
    fits("shards.rollout.status", json.loads(await shards("rollout", "status", "-o", "json")))
    await shards("rollout", "resume", "--yes")
    await rollout(state="Complete", shards=3)
    assert "arguments say what pods were told  ok" in await shards("verify", log=True)

    await merge(kube, f"{sets}/runs", {"spec": {"rollout": {"approved": None, "canary": None}}})
    await shards("rollout", "pause")
    await merge(kube, f"{templates}/runs-template", template("two"))
    await rollout(state="Paused", outdated=["runs-0", "runs-1", "runs-2"])
    assert "it is paused" in await shards("rollout", "status")
    await shards("rollout", "resume", "--yes")
    await rollout(state="Complete", outdated=[])
    assert await images() == ["two"] * 3

    # It does not come to its end, which would make it the last good one, before it is undone.
    await merge(kube, f"{sets}/runs", {"spec": {"rollout": {"minReady": "1h"}}})
    await merge(kube, f"{templates}/runs-template", template("three"))
    await rollout(state="Progressing")
    await shards("rollout", "undo", "--yes")
    await merge(kube, f"{sets}/runs", {"spec": {"rollout": {"minReady": "0.2s"}}})
    await rollout(state="Complete", outdated=[])
    assert await images() == ["two"] * 3
    assert "cannot move a slot" in await shards("move", "1", "runs-0", "--yes", code=2)
    assert "doubling would move keys" in await shards("double", "--yes", code=2)
