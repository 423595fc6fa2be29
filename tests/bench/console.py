"""The console on a long log: the first page from a cold start, pages that are warm, a step of the slider, what comes.

The log is that of `asking`, with autoscalers of no load added until there are ten thousand objects. The console is a process of its
own, asked over HTTP as a browser asks it, one request after the other; beside it stands a request that finds nothing.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import ClientError, ClientSession, CookieJar

from tests.bench.askedlog import BEGIN, CLUSTER, SLOTS, STEP_S, MadeUp
from tests.bench.asking import ONE_IN_TWENTY, into_a_server
from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tidewright.asking.answers import stamp
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import MAX_BATCH
from tidewright.log.subjects import slot_of

FIRST_MS, WARM_MS, SCRUB_MS, LIVE_MS, MEMORY_MIB = 1_000.0, 200.0, 150.0, 1_000.0, 200.0
OBJECTS = {"small": 1_000, "full": 10_000}
ROUNDS = 20
WITHIN_S = 60.0
TOKEN = "a-token-of-the-benchmark"  # it lets in to nothing else
PAGES = {
    "overview": "/",
    "list": "/objects/watermarkpodautoscaler?text=app-1",
    "object": "/object/wpa/team-7/app-1?window=15m",
    "events": "/events?window=15m",
    "trust": "/trust",
}


async def filled(url: str, count: int, objects: int) -> None:
    """The log on a server, and further objects."""
    await into_a_server(url, MadeUp(count, ONE_IN_TWENTY), count)
    async with await Log.connect(url, CLUSTER, timeout_s=30.0) as log:
        await log.adopt_slots()
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "none"}, "minReplicas": 1, "maxReplicas": 3}
        at = BEGIN + count * STEP_S
        for start in range(0, objects, MAX_BATCH):
            await log.commit(
                [_further(log, n, spec, at) for n in range(start, min(objects, start + MAX_BATCH))]
            )


def _further(log: Log, n: int, spec: dict[str, object], at: float) -> Message:
    space = f"more-{n % 50}"
    fact = WatermarkPodAutoscalerObserved(at=at, namespace=space, name=f"app-{n}", spec=spec)
    subject = log.subjects.fact(slot_of(space, SLOTS), "watermarkpodautoscaler", space, fact.name)
    return Message(subject, registry.encode(fact))


def p95(values: list[float]) -> float:
    """All but one in twenty are not above it."""
    return sorted(values)[max(0, round(0.95 * len(values)) - 1)]


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds that something takes."""
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1e3


async def entered(session: ClientSession, root: str) -> None:
    """The first page, as soon as somebody answers.

    Raises:
        TimeoutError: nobody did.
    """
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                async with session.get(f"{root}/?token={TOKEN}") as answer:
                    await answer.read()
                    if answer.status == 200:
                        return
            except ClientError:
                await asyncio.sleep(0.01)


async def measured(url: str, port: int, pid: int, begun: float, span: tuple[float, float]) -> list[Figure]:
    """What a console takes that has just been started."""
    root = f"http://127.0.0.1:{port}"
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:

        async def got(path: str) -> None:
            async with session.get(root + path) as answer:
                await answer.read()
                assert answer.status == 200, (path, answer.status)

        await entered(session, root)
        first = (time.perf_counter() - begun) * 1e3

        async def nothing() -> None:
            async with session.get(f"{root}/nothing") as answer:
                await answer.read()

        bare = p95([await timed(nothing) for _ in range(ROUNDS)])
        figures = [figure("first page, from the start of the process", first, "ms", "lower", FIRST_MS)]
        for name, path in PAGES.items():
            await got(path)
            warm = p95([await timed(lambda path=path: got(path)) for _ in range(ROUNDS)])  # type: ignore[misc]
            figures.append(_beside(f"page {name}, warm, p95", warm, WARM_MS, bare))
        start, end = span
        moments = [stamp(start + (end - start) * (0.9 - n / (4 * ROUNDS))) for n in range(ROUNDS)]
        await got(f"/?at={moments[0]}")
        scrubbed = [await timed(lambda at=at: got(f"/?at={at}")) for at in moments]  # type: ignore[misc]
        figures.append(
            _beside("a step back of the slider on the overview, p95", p95(scrubbed), SCRUB_MS, bare)
        )
        figures.append(
            _beside("an update after the commit, p95", await updates(session, root, url, end), LIVE_MS, bare)
        )
    figures.append(figure("memory of the process", memory_mib(pid), "MiB", "lower", MEMORY_MIB))
    return figures


def _beside(name: str, value: float, target: float, bare: float) -> Figure:
    return figure(
        name, value, "ms", "lower", target, baseline="a page that is not there", baseline_value=bare
    )


async def updates(session: ClientSession, root: str, url: str, at: float) -> float:
    """From a commit until the stream has told of it."""
    found = []
    async with await Log.connect(url, CLUSTER, timeout_s=30.0) as log, session.get(f"{root}/live") as stream:
        await log.adopt_slots()
        for n in range(6):
            committed = await log.commit([_further(log, n, {}, at)])
            begun = time.perf_counter()
            async with asyncio.timeout(WITHIN_S):
                while (
                    line := await stream.content.readline()
                ).strip() != f"data: {committed.last_seq}".encode():
                    assert line, "the stream has ended"
            found.append((time.perf_counter() - begun) * 1e3)
    return p95(found)


def memory_mib(pid: int) -> float:
    """What a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def on_a_server(size: Size) -> list[Figure]:
    """A console beside a running log."""
    count = 1_000_000 if size == "full" else 30_000
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "nats")
        url = await server.start()
        try:
            await filled(url, count, OBJECTS[size])
            port = free_port()
            command = [
                sys.executable,
                "-m",
                "tidewright.cli.main",
                "console",
                "--cluster",
                CLUSTER,
                "--port",
                str(port),
                "--no-verify",
            ]
            env = os.environ | {"TIDEWRIGHT_NATS": url, "TIDEWRIGHT_CONSOLE_TOKEN": TOKEN}
            begun = time.perf_counter()
            with subprocess.Popen(  # noqa: ASYNC220  # it runs beside
                command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                try:
                    span = BEGIN, BEGIN + count * STEP_S
                    return await measured(url, port, process.pid, begun, span)
                finally:
                    process.terminate()
        finally:
            await server.stop()


def looked_at(size: Size) -> list[Figure]:
    """Pages of a running log."""
    return asyncio.run(on_a_server(size))


BENCHES = (Bench("console/server", looked_at, within_s=600),)
