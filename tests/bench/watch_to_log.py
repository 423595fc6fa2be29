"""From the bytes of a watch to facts on the log: one watcher, a real nats-server.

A child process serves a recorded list and a recorded watch over HTTP, so the measured process does
all that a watcher does: reads the stream, decodes, compares, encodes, commits with its checkpoint.
Beside it, in the same run: a bare nats-py client that publishes the very same facts, acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from aiohttp import web

from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.host.loop.fenced import Fenced, InFlight
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.kube.kinds import BY_NAME
from tidewright.log.clock import Clock
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.log.install import Plan, install_log
from tidewright.watcher.appender import Appender
from tidewright.watcher.follow import Follower
from tidewright.watcher.log_time import Stamp

OBJECTS = 2_000
CHANGED_TARGET, UNCHANGED_TARGET, RATIO_TARGET = 8_000.0, 15_000.0, 0.4
IN_FLIGHT = 1_000


def pod(n: int, version: int, phase: str) -> dict[str, Any]:
    """A pod of about 3 kB, as a cluster has them."""
    name = f"web-5d8f6c7b9-{n:05d}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "web-5d8f6c7b9-",
            "namespace": f"team-{n % 20}",
            "uid": f"1b4e28ba-2fa1-11d2-883f-{n:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "5d8f6c7b9", "tier": "front"},
            "annotations": {"cni.example/podIP": "10.0.0.1/32", "prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-5d8f6c7b9",
                    "uid": "c0ffee00-2fa1-11d2-883f-0016d3cca427",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-11-21T11:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {f"f:field{i}": {".": {}, "f:name": {}} for i in range(12)}},
                }
            ],
        },
        "spec": {
            "nodeName": f"node-{n % 100}",
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example/web:1.2.3",
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "256Mi"},
                        "limits": {"cpu": "1", "memory": "512Mi"},
                    },
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": f"SETTING_{i}", "value": "some value"} for i in range(12)],
                    "volumeMounts": [{"name": f"kube-api-access-{n}", "mountPath": "/var/run/secrets"}],
                }
            ],
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [
                {"name": f"kube-api-access-{n}", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
            ],
            "priority": 0,
            "schedulerName": "default-scheduler",
        },
        "status": {
            "phase": phase,
            "hostIP": f"10.1.0.{version % 250}",
            "startTime": "2026-11-21T11:00:01Z",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T11:00:02Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [{"name": "web", "restartCount": 1, "ready": True, "image": "i"}],
        },
    }  # fmt: skip


def recorded(count: int, *, changed: bool) -> bytes:
    """A watch of `count` updates; each changes its projection, or none does."""
    lines = []
    for i in range(count):
        phase = ("Pending", "Running")[(i // OBJECTS) % 2] if changed else "Running"
        event = {"type": "MODIFIED", "object": pod(i % OBJECTS, OBJECTS + 1 + i, phase)}
        lines.append(msgspec.json.encode(event))
    return b"\n".join(lines) + b"\n"


def serve(changed: bool, count: int) -> None:
    """The child: a list, then the recorded watch, then silence. Prints its port."""

    async def main() -> None:
        items = [pod(n, n + 1, "Running") for n in range(OBJECTS)]
        listed = msgspec.json.encode({"metadata": {"resourceVersion": str(OBJECTS)}, "items": items})
        stream = recorded(count, changed=changed)

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch") != "true":
                return web.Response(body=listed)
            response = web.StreamResponse()
            await response.prepare(request)
            if request.query["resourceVersion"] == str(OBJECTS):
                for start in range(0, len(stream), 2**16):
                    await response.write(stream[start : start + 2**16])
            await asyncio.Event().wait()
            return response

        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    uvloop.run(main())


@asynccontextmanager
async def child(changed: bool, count: int) -> AsyncIterator[str]:
    """The URL of a serving child process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.watch_to_log", "--serve", "changed" if changed else "unchanged",
        "--count", str(count), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.terminate()
        await process.wait()


async def watched(log: Log, count: int, *, changed: bool) -> float:
    """Objects per second, from the end of the list to the last one being dealt with."""
    async with child(changed, count) as url, Kube.at(url) as kube:
        stamp = Stamp(Clock().now, time.monotonic, lambda: 1.0)
        appender = Appender(log, Writer("watcher"), "pod", InFlight())
        follower = Follower(BY_NAME["pod"], kube, log, appender, stamp)
        task = asyncio.create_task(follower.run())
        await follower.progress.synced.wait()
        progress = follower.progress
        before = progress.facts + progress.unchanged
        begun = time.perf_counter()
        while progress.facts + progress.unchanged - before < count:
            if task.done():
                task.result()
                raise Fenced("the follower ended")
            await asyncio.sleep(0.002)
        rate = count / (time.perf_counter() - begun)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return rate


async def published(log: Log, count: int) -> float:
    """Facts per second that a bare client publishes, each acknowledged."""
    bodies = [
        (record.subject.replace(".fact.", ".fact.bare."), record.body)
        async for record in log.last_per_subject([log.subjects.facts("*", "pod")])
    ]
    begun = time.perf_counter()
    pending: set[asyncio.Future[Any]] = set()
    for i in range(count):
        subject, body = bodies[i % len(bodies)]
        pending.add(await log.jetstream.publish_async(subject, body))
        if len(pending) >= IN_FLIGHT:
            await asyncio.gather(*pending)
            pending.clear()
    await asyncio.gather(*pending)
    return count / (time.perf_counter() - begun)


async def measure(count: int = 40_000) -> list[Figure]:
    """Changed and unchanged objects per second, and the share of a bare publisher's rate."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        await server.start()
        try:
            async with await Log.connect(server.url, "bench", timeout_s=5.0) as log:
                await install_log(log, Plan(slots=32, deciders=DECIDERS))
                changed = await watched(log, count, changed=True)
                bare = await published(log, count)
            async with await Log.connect(server.url, "still", timeout_s=5.0) as log:
                await install_log(log, Plan(slots=32, deciders=DECIDERS))
                unchanged = await watched(log, count, changed=False)
        finally:
            await server.stop()
    beside = "bare nats-py publisher"
    return [
        figure(
            "watch_to_log/changed",
            changed,
            "1/s",
            "higher",
            CHANGED_TARGET,
            baseline=beside,
            baseline_value=bare,
        ),
        figure("watch_to_log/share_of_bare_publisher", changed / bare, "ratio", "higher", RATIO_TARGET),
        figure(
            "watch_to_log/unchanged",
            unchanged,
            "1/s",
            "higher",
            UNCHANGED_TARGET,
            baseline=beside,
            baseline_value=bare,
        ),
    ]


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(measure(40_000 if size == "full" else 4_000))


BENCHES = (Bench("watch_to_log", run),)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40_000, help="watch events per run")
    parser.add_argument("--serve", choices=("changed", "unchanged"), required=True)
    arguments = parser.parse_args()
    serve(arguments.serve == "changed", arguments.count)
