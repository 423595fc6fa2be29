"""Nodes come for recorded pods and go again, under budgets, while servers refuse and the cloud stumbles."""

from __future__ import annotations

import asyncio
import contextlib
import csv
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.chaos.drains import drains, strays, untold
from tests.chaos.effects import requests
from tests.chaos.findings import Ledger
from tests.e2e.provisioning.stumbling import Stumbling, stumbling
from tests.e2e.provisioning.test_removals import QUICK, budgets, our_marks, running
from tests.e2e.provisioning.world import GROUP_LABEL, LOOK_EVERY_S, World
from tests.e2e.sim.world import NODES, send, until
from tidewright.asking.running_log import RunningLog
from tidewright.events.facts import NodeGone, NodeObserved

RECORDED = Path(__file__).parents[3].parent / "shared" / "data" / "cluster" / "openb_pod_list_default.csv"
CORES = 32
APPS = 4
LEAST = 2
"""Nodes at the end: the group's minimum."""
SETTINGS = QUICK | {
    "max-drain-parallelism": 10,
    "max-scale-down-parallelism": 20,
    "initial-node-group-backoff-duration": "1s",
    "max-node-group-backoff-duration": "2s",
    "scale-down-delay-after-delete": "0s",
}


def filling(nodes: int) -> list[dict[str, str]]:
    """What recorded pods ask for, of so many that they do not fit on fewer nodes."""
    found: list[dict[str, str]] = []
    cores = 0.0
    for cpu, memory in recorded():
        if cores > (nodes - 1) * CORES:
            break
        cores += cpu / 1000
        found.append({"cpu": f"{cpu}m", "memory": f"{memory}Mi"})
    return found


def recorded() -> list[tuple[int, int]]:
    """Millicores and MiB of pods, in the order in which they came; made up where there is no recording."""
    if not RECORDED.exists():
        return [(1000 * (3 + 5 * n % 13), 4096) for n in range(1000)]
    with RECORDED.open(encoding="utf-8") as lines:
        rows = sorted(csv.DictReader(lines), key=lambda row: float(row["creation_time"]))
    return [
        (c, m)
        for row in rows
        if (c := int(row["cpu_milli"])) <= CORES * 500 and (m := int(row["memory_mib"]))
    ]


async def fill(world: World, nodes: int) -> list[str]:
    """Pods that take up so many nodes; their paths."""
    made = []
    for number, asked in enumerate(filling(nodes)):
        pod = {"apiVersion": "v1", "kind": "Pod", **world.template()}
        pod["metadata"] = {"name": f"filler-{number}"}
        pod["spec"]["containers"][0]["resources"]["requests"] = asked
        await send(world.kube, "POST", world.pods, pod)
        made.append(f"{world.pods}/filler-{number}")
    return made


async def keep(world: World, replicas: int) -> None:
    """Pods that stay: some apps, of each of which one at a time may be disrupted."""
    for number in range(APPS):
        name = f"kept-{number}"
        labels = {"app": name}
        template = world.template("250m")
        template["metadata"] = {"labels": labels}
        # On several nodes, of which all but a few go; as few as that are enough for them, too.
        template["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ]  # fmt: skip
        await send(
            world.kube, "POST", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets",
            {
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
                "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
            },
        )  # fmt: skip
        await send(
            world.kube, "POST", budgets(world),
            {
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
                "spec": {"minAvailable": replicas - 1, "selector": {"matchLabels": labels}},
            },
        )  # fmt: skip


@contextlib.asynccontextmanager
async def faulty(world: World, before: Stumbling | None) -> AsyncIterator[None]:
    """The server, or the proxy before it, refuses some of what a drain asks, and ends watches, until the end of the block."""
    if before is not None:
        before.on = True
        yield
        before.on = False
        assert before.refused
        assert before.ended
        return
    evictions = f"{world.namespace}/pods/.*/eviction"
    rules = [
        {"match": {"verbs": [verb], "path": path}, "action": action, "probability": 0.15, "seed": number}
        for number, (verb, path, action) in enumerate([
            ("PUT", "/api/v1/nodes/", {"status": 409}),
            ("POST", evictions, {"status": 500}),
            ("POST", evictions, {"status": 429, "retry_after_s": 1}),
            ("POST", evictions, {"drop": True}),
        ])
    ]  # fmt: skip
    watches = {"match": {"path": "/(pods|nodes|poddisruptionbudgets)"}, "action": {"drop_watches": True}}
    named = [{"id": f"{world.mark}-{n}", **rule} for n, rule in enumerate(rules)]
    for rule in named:
        await send(world.kube, "POST", "/sim/faults", rule)

    async def drop() -> None:
        while True:
            await send(
                world.kube, "POST", "/sim/faults", {"id": f"{world.mark}-watches", "count": 0, **watches}
            )
            await asyncio.sleep(2.0)

    dropping = asyncio.create_task(drop())
    try:
        yield
    finally:
        dropping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await dropping
        in_force = await send(world.kube, "GET", "/sim/faults")
        for rule in in_force:
            if rule["id"].startswith(world.mark):
                await world.kube.request("DELETE", f"/sim/faults/{rule['id']}")


def ours(world: World, nodes: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [n for n in nodes.values() if n["metadata"].get("labels", {}).get(GROUP_LABEL) == world.mark]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("nodes", [10, pytest.param(60, marks=pytest.mark.full_size)])
async def test_nodes_come_and_go_and_the_log_tells_every_life(
    world: World, nodes: int, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        proxy = None
        if not world.cluster.embedded:
            proxy, path = await stack.enter_async_context(stumbling(world.cluster.kubeconfig, tmp_path))
            world.services.kubeconfigs.update(watcher=path, actuator=path)
        await come_and_go(world, nodes, proxy)


async def come_and_go(world: World, nodes: int, proxy: Stumbling | None) -> None:
    group = await world.group("wave", cpu=str(CORES), capacity={"memory": "512Gi"}, min=LEAST, max=2 * nodes)
    await world.configure(**SETTINGS)
    await world.start()
    await world.cloud("PATCH", f"/groups/{group}/faults", {"call_failure": 0.1})
    kept = APPS * max(3, nodes // 6)
    fillers = await fill(world, nodes)
    await until(world.kube, world.pods, lambda found: len(running(found)) == len(fillers), timeout_s=240)
    await keep(world, kept // APPS)
    placed = await until(
        world.kube, world.pods, lambda found: len(running(found)) == len(fillers) + kept, timeout_s=120
    )
    hosts = {pod["spec"]["nodeName"] for name, pod in placed.items() if name.startswith("kept-")}
    assert len(hosts) > LEAST, "some of them have to leave their nodes"
    most = len(ours(world, await until(world.kube, NODES, lambda found: len(ours(world, found)) >= nodes)))
    async with faulty(world, proxy):
        for path in fillers:
            await world.kube.request("DELETE", path)
        await until(world.kube, NODES, lambda found: len(ours(world, found)) == LEAST, timeout_s=300)
    await world.cloud("PATCH", f"/groups/{group}/faults", {"call_failure": 0.0})  # the test asks, too
    await waiting.until(lambda: world.target(group), lambda target: target == LEAST)
    await until(world.kube, world.pods, lambda found: len(running(found)) == kept, timeout_s=60)
    left = await until(world.kube, NODES, lambda found: our_marks(world, found) == [], timeout_s=60)

    ledger = Ledger()
    facts: list[object] = []
    log = await world.services.log()
    async with log:

        async def told() -> bool:
            """Whether the log says of every node that it has gone."""
            facts[:] = await world.observed(NodeObserved, NodeGone)
            gone = {fact.name for fact in facts if isinstance(fact, NodeGone)}
            seen = {
                f.name
                for f in facts
                if isinstance(f, NodeObserved) and f.labels.get(GROUP_LABEL) == world.mark
            }
            return len(seen & gone) >= most - LEAST

        await waiting.until(told, every_s=LOOK_EVERY_S)
        async with log.reader([log.subjects.everything]) as reader:
            async for record in reader.until_current():
                ledger.take(record)
        assert await untold(RunningLog(log), ledger, facts, GROUP_LABEL, most=nodes) == []
    assert strays(ledger, ours(world, left)) == []
    if world.cluster.request_log is not None:
        of_this = (f"/namespaces/{world.namespace}/", f"/groups/{group}/")
        entries = [
            entry
            for entry in requests(world.cluster.request_log)
            if any(part in entry.path for part in of_this)
            and not (entry.method == "DELETE" and entry.path in fillers)  # the test's own
        ]
        found = drains(ledger, entries, world.namespace)
        print(
            f"{len(fillers)} + {kept} pods, {most} nodes, {found.evictions} evictions, {len(found.deleted)} deleted"
        )
        assert found.wrong == []
        assert found.charged == found.evictions
        assert found.evictions > 0
        assert len(found.deleted) >= most - LEAST
