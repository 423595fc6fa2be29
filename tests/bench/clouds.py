"""Clouds: what a refresh of 500 groups with 5,000 machines costs, and an order.

Cluster API: an embedded API server in a process of its own, and the provider as watcher and actuator have it. The
baseline of a refresh is what it takes to list the same objects.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from tests.bench.figures import Bench, Figure, Size, figure
from tests.unit.cloud.contract.moon import API, MAX, MERGE, Moon, made
from tests.waiting import until
from tidewright.cloud.calls import Calls
from tidewright.cloud.clusterapi.client import ClusterApiProvider
from tidewright.cloud.clusterapi.config import ClusterApiConfig
from tidewright.cloud.clusterapi.template import PREFIX
from tidewright.cloud.kubernetes import Cluster
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.sim.api.server import ApiServer
from tidewright.watcher.clouds import INTERVAL_S

REFRESH_TARGET_MS = 50.0
ORDER_TARGET_MS = 50.0
MACHINES = 10
"""Of each group."""
ROUNDS = 20
ORDERS = 100
WRITERS = 32
ROOM = {MAX: "50", f"{PREFIX}cpu": "4", f"{PREFIX}memory": "16Gi"}


class Filled(Moon):
    """Groups of machines that run, written as they are at rest."""

    def __init__(self, kube: Kube) -> None:
        super().__init__()
        self._kube = kube

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        answer = await self._kube.request(method, path, body=content, content_type=content_type)
        return msgspec.json.decode(answer.body)

    async def fill(self, groups: int) -> None:
        await self.install()
        numbers = iter(range(groups))

        async def write() -> None:
            for number in numbers:
                await self._group(f"md-{number}")

        await asyncio.gather(*(write() for _ in range(WRITERS)))

    async def _group(self, name: str) -> None:
        resource = made("MachineDeployment", name)
        resource["metadata"]["annotations"] = ROOM
        resource["spec"] = {"replicas": MACHINES}
        owner = await self.send("POST", self.path("MachineDeployment"), resource)
        owner = await self.send("POST", self.path("MachineSet"), made("MachineSet", f"{name}-1", owner=owner))
        for number in range(MACHINES):
            machine = made("Machine", f"{name}-{number}", owner=owner)
            machine["metadata"]["labels"] = {f"{API}/deployment-name": name}
            machine["spec"] = {"providerID": f"moon:///{name}-{number}"}
            await self.send("POST", self.path("Machine"), machine)


async def refreshed_ms(provider: ClusterApiProvider) -> float:
    begun = time.perf_counter()
    await provider.refresh()
    return (time.perf_counter() - begun) * 1e3


async def listed_ms(cluster: Cluster) -> float:
    """What a refresh takes that asks for everything."""
    begun = time.perf_counter()
    for plural in ("machinedeployments", "machinesets", "machinepools", "machines"):
        await cluster.items(f"/apis/{API}/v1beta1/{plural}")
    return (time.perf_counter() - begun) * 1e3


async def heard_ms(moon: Filled, provider: ClusterApiProvider, size: int) -> float:
    """From a change that was written to a refresh that shows it."""
    await moon.send("PATCH", moon.path("MachineDeployment", "md-0"), {"spec": {"replicas": size}}, MERGE)
    begun = time.perf_counter()

    async def shown() -> bool:
        await provider.refresh()
        group = await provider.node_group_for_node("moon:///md-0-0", {})
        return group is not None and await group.target_size() == size

    await until(shown, every_s=0.001)
    return (time.perf_counter() - begun) * 1e3


async def ordered_ms(provider: ClusterApiProvider, number: int) -> float:
    """One read and one write."""
    begun = time.perf_counter()
    group = await provider.group(f"MachineDeployment/default/md-{number}")
    await group.increase_size(1, key="k", expect=await group.target_size())
    return (time.perf_counter() - begun) * 1e3


async def measure(groups: int) -> list[Figure]:
    """Refreshes, a change, orders, and calls at rest."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.clouds", "--serve", folder, stdout=asyncio.subprocess.PIPE
        )
        assert server.stdout is not None
        try:
            url = (await server.stdout.readline()).decode().strip()
            async with Kube.at(url) as kube:
                moon = Filled(kube)
                await moon.fill(groups)
                calls = Calls("moon", per_s=1e6)
                cluster = Cluster(calls, url=url)
                provider = ClusterApiProvider(ClusterApiConfig(), cluster)
                cold = await refreshed_ms(provider)
                before = calls.made.total()
                warm = sorted([await refreshed_ms(provider) for _ in range(ROUNDS)])
                at_rest = (calls.made.total() - before) / ROUNDS * 60.0 / INTERVAL_S
                lists = sorted([await listed_ms(cluster) for _ in range(3)])
                heard = sorted([await heard_ms(moon, provider, MACHINES + 1 + n) for n in range(ROUNDS)])
                orders = sorted([await ordered_ms(provider, n) for n in range(1, min(ORDERS, groups - 1))])
                await provider.cleanup()
        finally:
            server.terminate()
            await server.wait()
    name = f"clouds/clusterapi_{groups}_groups"
    return [
        figure(
            f"{name}_refresh_p95", warm[-2], "ms", "lower", REFRESH_TARGET_MS,
            baseline="listing the same objects", baseline_value=lists[1],
        ),
        figure(f"{name}_first_refresh", cold, "ms", "lower"),
        figure(f"{name}_change_to_refresh_p95", heard[-2], "ms", "lower", REFRESH_TARGET_MS),
        figure(f"{name}_calls_per_minute_at_rest", at_rest, "calls", "lower"),
        figure(f"{name}_order_p99", orders[-1 - len(orders) // 100], "ms", "lower", ORDER_TARGET_MS),
    ]  # fmt: skip


def serve(folder: Path) -> None:
    """The child: an embedded API server, which says its URL."""

    async def main() -> None:
        server = ApiServer()
        await server.start()
        server.write_kubeconfig(folder / "kubeconfig")
        print(server.url, flush=True)
        await asyncio.Event().wait()

    uvloop.run(main())


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(measure(500 if size == "full" else 20))


BENCHES = (Bench("clouds", run),)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path, required=True, help=argparse.SUPPRESS)
    serve(parser.parse_args().serve)
