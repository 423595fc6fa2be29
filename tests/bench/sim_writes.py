"""Writes to the embedded API server: creates and merge patches per second, over loopback.

The server is a process of its own, and so is each of the clients. Beside it, in the same run and with the
same requests from the same clients: a bare aiohttp server that answers every body with itself.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import uvloop
from aiohttp import web

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.sim_clients import Clients, request
from tidewright.sim.api.server import ApiServer

CREATES_TARGET, PATCHES_TARGET = 3_000.0, 5_000.0
CLIENTS = 3
NAMESPACES = 8
MERGE = "application/merge-patch+json"


def pod(name: str) -> bytes:
    """A pod as people and controllers write it."""
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "web", "tier": "front"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example/web:1.2.3",
                        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
                    }
                ]
            },
        }
    )


def serve(what: str) -> None:
    """The child: prints its address and serves until it is ended."""

    async def api() -> None:
        server = ApiServer()
        await server.start()
        print(server.url, flush=True)
        await asyncio.Event().wait()

    async def echo() -> None:
        async def handle(http: web.BaseRequest) -> web.Response:
            return web.Response(body=await http.read(), content_type="application/json")

        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()

    uvloop.run(api() if what == "api" else echo())


@contextmanager
def serving(
    what: str, module: str = "tests.bench.sim_writes"
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a server in a process of its own, and the process."""
    process = subprocess.Popen([sys.executable, "-m", module, "--serve", what], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip(), process
    finally:
        process.terminate()
        process.wait()


def namespaces(url: str) -> None:
    """Make the namespaces that the requests name."""
    made = [
        request("POST", "/api/v1/namespaces", msgspec.json.encode({"metadata": {"name": f"team-{n}"}}))
        for n in range(NAMESPACES)
    ]
    Clients(url, [made], connections=1).run()


def rate(url: str, requests: list[bytes]) -> float:
    """Requests per second from all clients together."""
    return len(requests) / Clients(url, [requests[part::CLIENTS] for part in range(CLIENTS)]).run()


def creates(count: int) -> list[bytes]:
    return [
        request("POST", f"/api/v1/namespaces/team-{n % NAMESPACES}/pods", pod(f"web-{n}"))
        for n in range(count)
    ]


def patches(count: int, pods: int) -> list[bytes]:
    """Each changes one annotation of one pod."""
    return [
        request(
            "PATCH",
            f"/api/v1/namespaces/team-{n % pods % NAMESPACES}/pods/web-{n % pods}",
            msgspec.json.encode({"metadata": {"annotations": {"example.com/note": f"n-{n}"}}}),
            MERGE,
        )
        for n in range(count)
    ]


def run(size: Size) -> list[Figure]:
    count = 20_000 if size == "full" else 2_000
    made, changed = creates(count), patches(count, count // 4)
    with serving("echo") as (url, _):
        plain_creates, plain_patches = rate(url, made), rate(url, changed)
    with serving("api") as (url, _):
        namespaces(url)
        rate(url, [request("POST", "/api/v1/namespaces/team-0/pods", pod(f"warm-{n}")) for n in range(200)])
        created = rate(url, made)
        patched = rate(url, changed)
    baseline = "bare aiohttp echo of the same bodies"
    return [
        figure("sim_writes/creates", created, "pods/s", "higher", CREATES_TARGET,
               baseline=baseline, baseline_value=plain_creates),
        figure("sim_writes/merge_patches", patched, "patches/s", "higher", PATCHES_TARGET,
               baseline=baseline, baseline_value=plain_patches),
    ]  # fmt: skip


BENCHES = (Bench("sim_writes", run),)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=("api", "echo"), required=True)
    serve(parser.parse_args().serve)
