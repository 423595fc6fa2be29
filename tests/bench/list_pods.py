"""A list of 20,000 pods from the embedded cluster into facts, and what the watcher weighs then.

Three processes, as in production: the embedded API server, nats-server, and the watcher, which is
started with an empty log when all pods are there.
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
import psutil
import uvloop

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.watch_to_log import pod
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log
from tidewright.sim.api.server import ApiServer

SECONDS_TARGET, MEMORY_TARGET_MIB = 10.0, 300.0
WRITERS = 32


def serve(folder: Path) -> None:
    """The child: an embedded API server. Its kubeconfig's appearance says that it serves."""

    async def main() -> None:
        server = ApiServer()
        await server.start()
        server.write_kubeconfig(folder / "kubeconfig")
        print(server.url, flush=True)
        await asyncio.Event().wait()

    uvloop.run(main())


def watch(nats_url: str, kubeconfig: Path) -> None:
    """The child that is measured: the watcher as it is."""
    from tidewright.watcher.service import Options, run

    configure_logs("warning", "console")
    uvloop.run(run(Options(nats_url=nats_url, cluster="bench", kubeconfig=kubeconfig)))


async def fill(kube: Kube, count: int) -> None:
    """Make the namespaces and pods."""
    for n in range(20):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{n}"}}
        await kube.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(body))
    left = iter(range(count))

    async def write() -> None:
        for n in left:
            made = pod(n, 0, "Running")
            for field in ("uid", "resourceVersion", "managedFields", "creationTimestamp"):
                del made["metadata"][field]
            path = f"/api/v1/namespaces/{made['metadata']['namespace']}/pods"
            await kube.request("POST", path, body=msgspec.json.encode(made))

    await asyncio.gather(*(write() for _ in range(WRITERS)))


async def spawn(*arguments: str, **options: Any) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.list_pods", *arguments, **options
    )


async def listed(log: Log, watcher: asyncio.subprocess.Process, count: int) -> tuple[float, float]:
    """Seconds from the watcher's start until all pods are facts, and its greatest weight, in MiB."""
    begun, weight = time.perf_counter(), 0.0
    process = psutil.Process(watcher.pid)
    subject = f"{log.subjects.root}.fact.*.pod.>"
    while True:
        weight = max(weight, process.memory_info().rss / 2**20)
        info = await log.api(f"STREAM.INFO.{log.stream}", {"subjects_filter": subject})
        if len(info["state"].get("subjects") or {}) >= count:
            return time.perf_counter() - begun, weight
        if watcher.returncode is not None:
            raise RuntimeError(f"the watcher ended with {watcher.returncode}")
        await asyncio.sleep(0.1)


async def measure(count: int = 20_000) -> list[Figure]:
    """Time and memory."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as name:
        folder = Path(name)
        nats = EmbeddedServer(folder / "nats")
        await nats.start()
        api = await spawn("--serve", str(folder), stdout=asyncio.subprocess.PIPE)
        assert api.stdout is not None
        children = [api]
        try:
            url = (await api.stdout.readline()).decode().strip()
            async with Kube.at(url) as kube:
                await fill(kube, count)
            async with await Log.connect(nats.url, "bench", timeout_s=10.0) as log:
                await install_log(log, Plan(slots=32, deciders=DECIDERS))
                watcher = await spawn("--watch", nats.url, "--kubeconfig", str(folder / "kubeconfig"))
                children.append(watcher)
                seconds, weight = await listed(log, watcher, count)
        finally:
            for child in children:
                if child.returncode is None:
                    child.terminate()
                    await child.wait()
            await nats.stop()
    return [
        figure(f"list_pods/{count}_to_facts", seconds, "s", "lower", SECONDS_TARGET),
        figure(f"list_pods/{count}_watcher_memory", weight, "MiB", "lower", MEMORY_TARGET_MIB),
    ]


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(measure(20_000 if size == "full" else 1_000))


BENCHES = (Bench("list_pods", run),)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--watch", help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    else:
        watch(arguments.watch, arguments.kubeconfig)
