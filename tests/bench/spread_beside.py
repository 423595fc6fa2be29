"""Admission with everything beside it: 300 limited pods a second that come to exist, are watched, and are decided about.

As `spread_admission`, but nothing is prepared on the log. A child process stands for the API server's storage: it
lists the spread, its Deployment and its ReplicaSet, and tells the watcher of each pod that was admitted, first as it
was made and then as it runs. The watcher writes facts, the decider folds them, turns them into ledger entries,
costs and status, and the replica folds what the decider writes. Four services' processes, a nats-server, the
child and the caller share the machine; the API server of a cluster would not be on it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import psutil
from aiohttp import web

from tests.bench.figures import Bench, Better, Figure, Size, figure
from tests.bench.spread_admission import (
    CONNECTIONS,
    HASH,
    NAME,
    NAMESPACE,
    RATE,
    Caller,
    at,
    cpu_s,
    process,
    review,
    serve_admission,
    serve_echo,
    spec,
)
from tests.e2e.conftest import tidewright
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.events import registry
from tidewright.events.base import Event, JsonObject
from tidewright.events.spread import ChangeLedger
from tidewright.log.connection import Log
from tidewright.log.errors import WrongStream
from tidewright.log.install import Plan, install_log
from tidewright.spread.ledger.following import Followed

CLUSTER = "bench"
STAMP = "2026-11-21T12:00:00Z"
CAUGHT_UP_WITHIN_S = 60.0


def objects() -> dict[str, JsonObject]:
    """What is there from the beginning, by plural."""

    def meta(name: str, uid: str, **more: Any) -> JsonObject:
        return {
            "name": name, "namespace": NAMESPACE, "uid": uid, "generation": 1, "resourceVersion": "1",
            "creationTimestamp": STAMP, **more,
        }  # fmt: skip

    template = {
        "metadata": {"labels": {"app": NAME}},
        "spec": {"containers": [{"name": "main", "image": "web"}]},
    }
    selector = {"matchLabels": {"app": NAME}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "uid": "d", "controller": True}
    labels = {"app": NAME, "pod-template-hash": HASH}
    workload = {"replicas": 100_000, "selector": selector, "template": template}
    return {
        "workloadspreads": {"metadata": meta(NAME, "ws"), "spec": spec()},
        "deployments": {"metadata": meta(NAME, "d"), "spec": workload},
        "replicasets": {
            "metadata": meta(f"{NAME}-{HASH}", "rs", labels=labels, ownerReferences=[owner]),
            "spec": workload,
        },
    }


def serve_objects() -> None:
    """The child: lists, and a watch of pods that says what comes in on standard input, a line each. Prints its port."""
    import uvloop

    async def main() -> None:
        there = objects()
        lines: list[bytes] = []
        arrived = asyncio.Condition()

        async def handle(request: web.Request) -> web.StreamResponse:
            plural = request.path.rpartition("/")[2]
            if request.path == "/api/v1/namespaces/kube-system":
                return web.json_response({"metadata": {"name": "kube-system", "uid": "bench"}})
            if request.query.get("watch") != "true":
                items = [there[plural]] if plural in there else []
                return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
            response = web.StreamResponse()
            await response.prepare(request)
            told = 0 if plural == "pods" else None
            while told is not None:
                async with arrived:
                    while len(lines) == told:
                        await arrived.wait()
                news, told = lines[told:], len(lines)
                await response.write(b"".join(news))
            await asyncio.Event().wait()
            return response

        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        reader = asyncio.StreamReader(limit=1 << 24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        print(runner.addresses[0][1], flush=True)
        while line := await reader.readline():
            async with arrived:
                lines.append(line)
                arrived.notify_all()

    uvloop.run(main())


class Storage:
    """The child that stands for the API server's storage."""

    def __init__(self, child: asyncio.subprocess.Process, url: str) -> None:
        self._child = child
        self.url = url
        self.pods = 0

    def create(self, body: bytes, answered: bytes) -> None:
        """The pod of a review came to exist as it was admitted, and runs a moment later."""
        pod: JsonObject = msgspec.json.decode(body)["request"]["object"]
        patch = msgspec.json.decode(answered)["response"].get("patch")
        if patch:
            pod = jsonpatch.apply_patch(pod, msgspec.json.decode(base64.b64decode(patch)), in_place=True)
        n = self.pods = self.pods + 1
        pod["metadata"] |= {
            "name": f"{NAME}-{HASH}-{n}", "uid": f"1b4e28ba-2fa1-11d2-883f-{n:012d}", "creationTimestamp": STAMP,
        }  # fmt: skip
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": STAMP}
        for turn, (kind, status) in enumerate(
            (("ADDED", {"phase": "Pending"}), ("MODIFIED", {"phase": "Running", "conditions": [ready]}))
        ):
            pod["metadata"]["resourceVersion"] = str(2 * n + turn)
            pod["status"] = status
            self._write(msgspec.json.encode({"type": kind, "object": pod}) + b"\n")

    def _write(self, line: bytes) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line)

    def kubeconfig(self, folder: Path) -> Path:
        """How to reach it."""
        path = folder / "kubeconfig"
        content = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_bytes(msgspec.json.encode(content))
        return path


@contextlib.asynccontextmanager
async def storage() -> AsyncIterator[Storage]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.spread_beside", "--serve",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    try:
        yield Storage(child, f"http://127.0.0.1:{int(await child.stdout.readline())}")
    finally:
        child.terminate()
        await child.wait()


class Creator(Caller):
    """The API server's part: what is admitted comes to exist."""

    def __init__(self, port: int, ca: str, there: Storage) -> None:
        super().__init__(port, ca)
        self._there = there

    async def once(self, body: bytes) -> None:
        """One request, and its pod."""
        answered = await self.asked(body)
        self._there.create(body, answered)


async def settled(log: Log, pods: int) -> float:
    """Wall seconds until the ledger says that each of so many pods was seen, and holds its place."""
    began = time.perf_counter()
    followed = Followed()
    async with log.reader([log.subjects.ledgers("*", "spread")]) as reader:
        async with asyncio.timeout(CAUGHT_UP_WITHIN_S):
            while True:
                for record in await reader.fetch(500, timeout_s=0.1):
                    event = registry.decode(record.body)
                    if isinstance(event, Event):
                        followed.fold(event)
                held = sum(followed.ledger.counts.get(HASH, {}).values())
                if held == pods and not followed.ledger.placed:
                    return time.perf_counter() - began


async def adopted(log: Log) -> None:
    """Wait until the watcher has made the stream."""
    async with asyncio.timeout(60):
        while True:
            try:
                await log.adopt_slots()
                return
            except WrongStream:
                await asyncio.sleep(0.1)


async def in_force(log: Log) -> None:
    """Wait for the spread's rules."""
    async with log.reader([log.subjects.ledgers("*", "spread")]) as reader, asyncio.timeout(60):
        while True:
            for record in await reader.fetch(10, timeout_s=0.5):
                event = registry.decode(record.body)
                if isinstance(event, ChangeLedger) and event.rules is not None and event.rules.subsets:
                    return


def run(size: Size) -> list[Figure]:
    """A steady rate, a second here and a second there."""
    import uvloop

    return uvloop.run(_run(size))


async def _run(size: Size) -> list[Figure]:
    seconds = 3 if size == "small" else 20
    bodies = (review(n) for n in count(0))
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder) / "nats")
        await server.start()
        try:
            async with storage() as there:
                on = ("--nats", server.url, "--cluster", CLUSTER)
                config = str(there.kubeconfig(Path(folder)))
                async with await Log.connect(server.url, CLUSTER) as log:
                    await install_log(log, Plan(deciders=DECIDERS))
                async with (
                    service("watcher", *on, "--kubeconfig", config) as watcher,
                    service("spread", *on) as decider,
                    await Log.connect(server.url, CLUSTER, patience_s=CAUGHT_UP_WITHIN_S) as log,
                ):
                    await adopted(log)
                    await in_force(log)
                    return await _measured(log, server.url, there, (watcher, decider), bodies, seconds)
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def service(name: str, *arguments: str) -> AsyncIterator[psutil.Process]:
    """A service as it is deployed, until the end of the block."""
    child = await asyncio.create_subprocess_exec(
        *tidewright("run", name, *arguments, "--log-format", "json"), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield psutil.Process(child.pid)
    finally:
        child.terminate()
        await child.wait()


async def _measured(
    log: Log, url: str, there: Storage, beside: Sequence[psutil.Process], bodies: Any, seconds: int
) -> list[Figure]:
    async with process(serve_admission, url) as (port, ca, child), Creator(port, ca, there) as ours:
        await ours.warm(list(islice(bodies, CONNECTIONS)))
        assert b'"patch"' in ours.sample
        async with (
            process(serve_echo, ours.sample) as (echo_port, echo_ca, _),
            Caller(echo_port, echo_ca) as echo,
        ):
            await echo.warm(list(islice(bodies, CONNECTIONS)))
            before, beside_before = cpu_s(child), sum(map(cpu_s, beside))
            for _ in range(seconds):
                for one in (ours, echo):
                    await one.paced(list(islice(bodies, RATE)), RATE)
        late_s = await settled(log, there.pods)
        cpu, beside_cpu = cpu_s(child) - before, sum(map(cpu_s, beside)) - beside_before
    pods = RATE * seconds
    return _figures(ours.taken_s, echo.taken_s, cpu / pods, beside_cpu / pods, late_s)


def _figures(
    taken_s: Sequence[float], echo_s: Sequence[float], cpu: float, beside_cpu: float, late_s: float
) -> list[Figure]:
    # Without targets: those are of an endpoint by itself, here everything else has its turns on the same cores.
    better: Better = "lower"
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
    return [
        *(
            figure(
                f"spread_beside/{name} at {RATE} pods/s", at(taken_s, share), "ms", better,
                baseline="bare aiohttp over TLS, same payload", baseline_value=at(echo_s, share),
            )
            for name, share in shares.items()
        ),
        figure("spread_beside/processor time of a pod, admission", cpu * 1e3, "ms", better),
        figure("spread_beside/processor time of a pod, watcher and decider", beside_cpu * 1e3, "ms", better),
        figure("spread_beside/all pods seen on the ledger after the last", late_s, "s", better),
    ]  # fmt: skip


BENCHES = (Bench("spread_beside", run),)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", action="store_true", required=True)
    parser.parse_args()
    serve_objects()
