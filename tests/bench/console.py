"""The console on a long log: the first page from a cold start, pages that are warm, a step of the slider, what comes.

The log is that of `asking`, with autoscalers of no target before it, so that there are ten thousand objects at each moment. The console is a
process of its own, asked over HTTP as a browser asks it, one request after the other; beside it stands a request that finds nothing. Then
what works for it in children: how many at once, and how much of a core verification takes from the beginning of one run to that of the next.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
from aiohttp import ClientError, ClientSession, CookieJar

from tests.bench.askedlog import BEGIN, CLUSTER, SLOTS, MadeUp
from tests.bench.asking import ONE_IN_TWENTY, into_a_server
from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tidewright.asking.answers.form import stamp
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.log.connection import Log, Message
from tidewright.log.subjects import slot_of

FIRST_MS, WARM_MS, SCRUB_MS, LIVE_MS, MEMORY_MIB = 1_000.0, 200.0, 150.0, 1_000.0, 200.0
CORE_SHARE, AT_ONCE = 0.1, 1.0
OBJECTS = {"small": 1_000, "full": 10_000}
ROUNDS = 20
WITHIN_S = 60.0
WINDOW_S = 900.0
EVERY_S = 0.02
TOKEN = "a-token-of-the-benchmark"  # it lets in to nothing else
PAGES = {
    "overview": "/",
    "list": "/objects/watermarkpodautoscaler?text=app-1",
    "object": "/object/wpa/team-7/app-1?window=15m",
    "events": "/events?window=15m",
    "trust": "/trust",
}
APP = "kind=wpa&namespace=team-7&name=app-1"
WHAT_IF = "/what-if?namespace=team-7&name=app-1&window=15m&high0="


async def filled(url: str, count: int, objects: int) -> float:
    """The log on a server, and the log time of its end."""
    made = MadeUp(count, ONE_IN_TWENTY, objects)
    await into_a_server(url, made, count)
    return made.end


def _further(log: Log, n: int, at: float) -> Message:
    space = f"more-{n % 50}"
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "none"}, "minReplicas": 1, "maxReplicas": 3}
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


async def measured(url: str, port: int, pid: int, begun: float, end: float) -> list[Figure]:
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
        moments = [stamp(BEGIN + (end - BEGIN) * (0.9 - n / (4 * ROUNDS))) for n in range(ROUNDS)]
        await got(f"/?at={moments[0]}")
        scrubbed = [await timed(lambda at=at: got(f"/?at={at}")) for at in moments]  # type: ignore[misc]
        figures.append(
            _beside("a step back of the slider on the overview, p95", p95(scrubbed), SCRUB_MS, bare)
        )
        stretch = min(WINDOW_S, (end - BEGIN) / 2)
        within = [stamp(end - stretch * (0.5 + n / (2 * ROUNDS))) for n in range(ROUNDS)]
        await got(f"{PAGES['object']}&at={within[0]}")
        for question in ("explain", "state"):
            paths = [f"/api/v1/{question}?{APP}&at={at}" for at in within]
            asked = [await timed(lambda path=path: got(path)) for path in paths]  # type: ignore[misc]
            figures.append(_beside(f"{question} at a moment of the window, p95", p95(asked), SCRUB_MS, bare))
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
            committed = await log.commit([_further(log, n, at)])
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


@asynccontextmanager
async def console_on(url: str, *options: str) -> AsyncIterator[tuple[psutil.Popen, int]]:
    """A console that has just been started, and its port."""
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
    ]
    env = os.environ | {"TIDEWRIGHT_NATS": url, "TIDEWRIGHT_CONSOLE_TOKEN": TOKEN}
    process = psutil.Popen(
        [*command, *options], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def long_log(count: int, objects: int) -> AsyncIterator[tuple[str, float]]:
    """A server with the log, and the log time of its end."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "nats")
        url = await server.start()
        try:
            yield url, await filled(url, count, objects)
        finally:
            await server.stop()


async def on_a_server(size: Size) -> list[Figure]:
    """A console beside a running log."""
    count = 1_000_000 if size == "full" else 30_000
    async with long_log(count, OBJECTS[size]) as (url, end):
        begun = time.perf_counter()
        async with console_on(url, "--no-verify") as (process, port):
            return await measured(url, port, process.pid, begun, end)


def looked_at(size: Size) -> list[Figure]:
    """Pages of a running log."""
    return asyncio.run(on_a_server(size))


class Children:
    """What the children of a process take, looked at again and again."""

    def __init__(self, process: psutil.Popen) -> None:
        self._process = process
        self._used: dict[int, float] = {}
        self._worked = set[int]()
        self.at_once = 0

    def look(self) -> set[int]:
        """Those that have worked since the last look."""
        working = set()
        for child in self._process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                times = child.cpu_times()
                used = times.user + times.system
                if used > self._used.get(child.pid, 0.0):
                    working.add(child.pid)
                self._used[child.pid] = used
        # Two looks: between one and the next a child may have given way to another.
        self.at_once = max(self.at_once, len(working & self._worked))
        self._worked = working
        return working

    async def until(self, *, verifying: bool) -> None:
        """Wait until one of them verifies the log, or none does.

        Raises:
            TimeoutError: that takes too long.
        """
        async with asyncio.timeout(10 * WITHIN_S):
            while self._verifies() is not verifying:
                self.look()
                await asyncio.sleep(EVERY_S)

    def _verifies(self) -> bool:
        for child in self._process.children():
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if "verify" in child.cmdline():
                    return True
        return False

    @property
    def used_s(self) -> float:
        """Processor seconds of all of them."""
        return sum(self._used.values())


async def beside_pages(size: Size) -> list[Figure]:
    """Verification goes on beside a log that grows; somebody tries what would have been meanwhile."""
    count = 200_000 if size == "full" else 30_000
    async with long_log(count, OBJECTS["small"]) as (url, end), console_on(url) as (process, port):
        children = Children(process)
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
            await entered(session, f"http://127.0.0.1:{port}")
            await children.until(verifying=True)
            tried = asyncio.create_task(tries(session, f"http://127.0.0.1:{port}"))
            while not (await asyncio.wait([tried], timeout=EVERY_S))[0]:
                children.look()
            await tried
        at_once = children.at_once
        share = await share_of_a_core(url, end, children)
    return [
        figure("children that work at once", at_once, "processes", "lower", AT_ONCE),
        figure("verification beside a log that grows", share, "of a core", "lower", CORE_SHARE),
    ]


async def tries(session: ClientSession, root: str) -> None:
    """Ask what other marks would have done, several times."""
    for mark in (12, 13, 14, 15):
        async with session.get(f"{root}{WHAT_IF}{mark}") as answer:
            await answer.read()
            assert answer.status == 200, answer.status


async def share_of_a_core(url: str, end: float, children: Children) -> float:
    """Processor time of verification over the time from the beginning of a run to that of the next."""
    async with await Log.connect(url, CLUSTER, timeout_s=30.0) as log:
        await log.adopt_slots()
        await children.until(verifying=False)  # it has made room, and goes on after a pause
        await log.commit([_further(log, 2, end)])
        await children.until(verifying=True)
        begun, used = time.monotonic(), children.used_s
        await children.until(verifying=False)
        await log.commit([_further(log, 1, end)])
        await children.until(verifying=True)
        return (children.used_s - used) / (time.monotonic() - begun)


def in_children(size: Size) -> list[Figure]:
    """What works beside the pages."""
    return asyncio.run(beside_pages(size))


BENCHES = (
    Bench("console/server", looked_at, within_s=600),
    Bench("console/children", in_children, within_s=1_200),
)
