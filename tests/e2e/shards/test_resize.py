"""A sharded controller whose pods the manager starts: 4 -> 8 -> 5 shards under load, and what goes wrong meanwhile.

One worker is killed, one pod is stuck terminating, the template changes, and the manager is killed in
the middle of the rollout. Who worked on what is counted by the workers, in the objects.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from tests.e2e.conftest import Services
from tests.e2e.shards.world import (
    CRASH_GAP_S,
    PLANNED_GAP_S,
    PodProcesses,
    Seen,
    Workers,
    make_orders,
    owners,
    sets_path,
    shard_set,
)
from tests.e2e.sim.world import merge, send, until
from tidewright.kube.client import Kube

ORDERS = 16


def member_id(found: dict[str, Any], name: str) -> str:
    members = found["status"]["assignment"]["members"]
    return str(next(m["id"] for m in members if m["id"].startswith(f"{name}#")))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_four_to_eight_to_five_shards_under_load(
    kube: Kube, namespace: str, services: Services, workers: Workers
) -> None:
    sets, pods = sets_path(namespace), f"/api/v1/namespaces/{namespace}/pods"
    mine, nodes = f"{sets}/orders", PodProcesses(kube, workers)

    async def shared_by(count: int, *, without: str = "") -> dict[str, Any]:
        """Wait until so many pods of the set share the slots; the set is returned."""

        def even(found: dict[str, Any]) -> bool:
            shares = owners(found["orders"])
            return (
                len(shares) == count
                and max(shares.values()) - min(shares.values()) <= 1
                and without not in shares
            )

        return (await until(kube, sets, even, timeout_s=60))["orders"]

    def rolled_out(found: dict[str, Any]) -> bool:
        return len(found) == 8 and all(
            pod["metadata"].get("annotations", {}).get("release") == "2"
            and "deletionTimestamp" not in pod["metadata"]
            for pod in found.values()
        )

    await services.start("watcher", "shard-manager", "actuator")
    await send(kube, "POST", f"/api/v1/namespaces/{namespace}/podtemplates", nodes.template(release="1"))
    template = {"name": "orders-template", "container": "orders"}
    await send(
        kube, "POST", sets,
        shard_set(
            workers={"driver": "pods", "template": template, "replicas": 4},
            rollout={"minReady": "0.5s"},
            rebalance={"maxMoves": 0},  # by load: another test's matter, and here the shares are looked at
        ),
    )  # fmt: skip
    await make_orders(kube, namespace, ORDERS)
    seen = Seen(ORDERS)
    background = [
        asyncio.create_task(seen.follow(kube, namespace)),
        asyncio.create_task(nodes.run()),
    ]
    gaps: dict[str, float] = {}
    since = 0.0

    async def settled(phase: str) -> None:
        nonlocal since
        await seen.more(2)
        seen.assert_never_two_at_once()
        gaps[phase] = seen.longest_gap_s(since)
        since = seen.at()

    try:
        await shared_by(4)
        await settled("four")

        await merge(kube, mine, {"spec": {"workers": {"replicas": 8}}})
        await shared_by(8)
        await settled("four to eight")

        killed = member_id(await shared_by(8), "orders-2")
        await nodes.crash("orders-2")  # its pod fails and is made again; its slots wait for its lease
        await until(kube, sets, lambda found: killed not in str(found["orders"]["status"]), timeout_s=60)
        await shared_by(8)
        await settled("killed")

        nodes.stuck.add("orders-5")
        await send(kube, "DELETE", f"{pods}/orders-5")
        await shared_by(7, without="orders-5")  # handed over, though the pod does not go
        await settled("stuck terminating")
        assert "orders-5" in {p["metadata"]["name"] for p in (await send(kube, "GET", pods))["items"]}
        await nodes.let_go("orders-5")
        await shared_by(8)

        await merge(
            kube, f"/api/v1/namespaces/{namespace}/podtemplates/orders-template",
            {"template": nodes.template(release="2")["template"]},
        )  # fmt: skip
        await until(
            kube, pods, lambda found: "deletionTimestamp" in found["orders-1"]["metadata"], timeout_s=60
        )
        manager = next(c.pid for c in services.supervisor.children() if c.program.name == "shard-manager")
        assert manager is not None
        os.kill(manager, signal.SIGKILL)
        await until(kube, pods, rolled_out, timeout_s=120)
        await shared_by(8)
        await settled("template changed, manager killed")

        await merge(kube, mine, {"spec": {"workers": {"replicas": 5}}})
        await shared_by(5)
        await settled("eight to five")
        found = await until(kube, pods, lambda found: len(found) == 5)
        assert set(found) == {f"orders-{n}" for n in range(5)}
    finally:
        for task in background:
            task.cancel()
        nodes.stuck.clear()
        await workers.end()
        for pod in (await send(kube, "GET", pods))["items"]:
            await merge(kube, f"{pods}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
    print({phase: round(gap, 2) for phase, gap in gaps.items()})
    crashes = {"killed", "template changed, manager killed"}
    for phase, gap in gaps.items():
        assert gap < (CRASH_GAP_S if phase in crashes else PLANNED_GAP_S), f"{phase}: {gap:.2f} s"
