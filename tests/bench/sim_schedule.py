"""Pods per second through the scheduler: from a list of waiting pods to the last binding.

API server and scheduler share a process, as in the embedded cluster; it holds nodes and waiting pods of several
shapes when the scheduler starts. Beside it, in the same run: as many bindings sent by raw clients, without anybody choosing a node.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import aiohttp
import msgspec
import uvloop

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.sim_clients import Clients, request
from tests.bench.sim_size import nodes
from tests.bench.sim_writes import CLIENTS, NAMESPACES, namespaces, pod, rate
from tidewright.host.process.process import configure_logs
from tidewright.log.clock import Clock
from tidewright.sim.api.server import ApiServer
from tidewright.sim.controllers.cache import Cache
from tidewright.sim.controllers.recorder import Recorder
from tidewright.sim.controllers.writes import Writer
from tidewright.sim.direct import DirectKube
from tidewright.sim.scheduler.loop import Scheduler

RATE_TARGET = 1_000.0


def waiting(count: int) -> list[bytes]:
    """Creates of pods: most are plain, some are spread over hosts, some keep away from one another."""
    made = []
    for n in range(count):
        obj = msgspec.json.decode(pod(f"web-{n}"))
        app = f"app-{n % 40}"
        obj["metadata"]["labels"] = {"app": app}
        selector = {"matchLabels": {"app": app}}
        if n % 40 < 4:
            obj["spec"]["topologySpreadConstraints"] = [
                {"maxSkew": 5, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                 "labelSelector": selector}
            ]  # fmt: skip
        path = f"/api/v1/namespaces/team-{n % NAMESPACES}/pods"
        made.append(request("POST", path, msgspec.json.encode(obj)))
    return made


def bindings(first: int, count: int, machines: int) -> list[bytes]:
    return [
        request(
            "POST",
            f"/api/v1/namespaces/team-{n % NAMESPACES}/pods/web-{n}/binding",
            msgspec.json.encode({"metadata": {"name": f"web-{n}"}, "target": {"kind": "Node", "name": f"node-{n % machines}"}}),
        )
        for n in range(first, first + count)
    ]  # fmt: skip


async def scheduled(server: ApiServer, count: int) -> float:
    """Seconds until all pods are bound, from when they and the nodes are known."""
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), read_bufsize=2**20)
    async with DirectKube(session, server) as kube:
        cache, clock = Cache(), Clock()
        writer = Writer(kube, cache)
        recorder = Recorder(writer, clock)
        scheduler = Scheduler(cache, writer, clock, recorder)
        following = asyncio.create_task(cache.run(kube))
        await cache.synced()
        begun = time.perf_counter()
        work = [asyncio.create_task(scheduler.run()), asyncio.create_task(recorder.run())]
        while scheduler.bound < count:
            await asyncio.sleep(0.01)
            for task in work:
                if task.done():
                    task.result()
        seconds = time.perf_counter() - begun
        for task in (*work, following):
            task.cancel()
        await asyncio.gather(*work, following, return_exceptions=True)
        return seconds


async def serve() -> None:
    """The child: an API server; told a number of pods, it schedules them and says how long it took."""
    configure_logs("error", "console")
    async with ApiServer() as server:
        print(server.url, flush=True)
        count = int(await asyncio.to_thread(sys.stdin.readline))
        print(await scheduled(server, count), flush=True)


def run(size: Size) -> list[Figure]:
    count, machines = (10_000, 1_000) if size == "full" else (1_000, 50)
    command = [sys.executable, "-m", "tests.bench.sim_schedule"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        namespaces(url)
        Clients(url, [nodes(machines)]).run()
        made = waiting(2 * count)
        Clients(url, [made[part::CLIENTS] for part in range(CLIENTS)]).run()
        plain = rate(url, bindings(count, count, machines))
        process.stdin.write(b"%d\n" % count)
        process.stdin.flush()
        seconds = float(process.stdout.readline())
    return [
        figure(f"sim_schedule/{count}_pods_on_{machines}_nodes", count / seconds, "pods/s", "higher", RATE_TARGET,
               baseline="bindings by raw clients, nobody choosing", baseline_value=plain),
    ]  # fmt: skip


BENCHES = (Bench("sim_schedule", run),)

if __name__ == "__main__":
    uvloop.run(serve())
