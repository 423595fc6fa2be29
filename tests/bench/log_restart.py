"""A restart with 1,000,000 events behind it: the time from the start of a service to its first new decision.

A service has folded the log and stopped; one more fact that is worth a decision is on the log. A new OS
process then starts, and the clock stops when its decision is on the log. Beside it, in the same run:
the same process without snapshots to start from, on a log of a twentieth, scaled up.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from tests.alone import Alone
from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.log_commit import ONE_IN, SLOTS, counting, fill, pods
from tests.nats_server import EmbeddedServer
from tidewright.host.loop.host import Host
from tidewright.host.process.health import Health
from tidewright.host.process.process import Process, ProcessOptions, configure_logs
from tidewright.host.process.process import run as run_process
from tidewright.host.process.service import LogOptions, run_decider
from tidewright.log.connection import Log
from tidewright.log.envelope import Writer
from tidewright.log.install import Plan, install_log
from tidewright.log.snapshots import bucket

TARGET_S = 3.0
SERVICE = "deciding"
SHARE = 20
"""The log that is folded without snapshots is shorter by this factor."""


def serve(url: str) -> int:
    """The child: the service as any decider runs, its membership and all."""
    options = LogOptions(url=url, cluster="bench")

    async def main(process: Process) -> None:
        await run_decider(process, counting(SERVICE, ONE_IN), options)

    return run_process(ProcessOptions(SERVICE, log_level="warning"), main)


async def decide_all(log: Log, count: int) -> None:
    """Fold and decide everything that is there, and stop in good order, which leaves snapshots."""
    writer, stop = Writer(SERVICE), asyncio.Event()
    host = Host(counting(SERVICE, ONE_IN), log, Alone(writer.incarnation), Health(SERVICE), writer=writer)
    running = asyncio.create_task(host.run(stop))
    while sum(o.fold.folded for o in host.owned.values()) < count:
        if running.done():
            running.result()
        await asyncio.sleep(0.01)
    while min(o.read for o in host.owned.values()) < (await log.bounds())[1] - SLOTS:  # noqa: ASYNC110  # what is awaited tells nobody
        await asyncio.sleep(0.05)  # its own decisions come by, too
    stop.set()
    await running


async def first_decision_s(log: Log, url: str, count: int) -> float:
    """Seconds from the start of a process to the first decision that it records."""
    _, before = await log.bounds()
    await log.commit(pods(log, count, ONE_IN * 50))  # every namespace gets enough for one decision
    begun = time.perf_counter()
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.bench.log_restart", url)
    try:
        async with log.reader([log.subjects.decisions("*", SERVICE)], after=before) as reader:
            while not await reader.fetch(timeout_s=1.0):
                if child.returncode is not None:
                    raise RuntimeError(f"the service ended with exit code {child.returncode}")
        return time.perf_counter() - begun
    finally:
        child.terminate()
        await child.wait()


async def measured(count: int, *, snapshots: bool) -> float:
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        await server.start()
        try:
            async with await Log.connect(server.url, "bench", timeout_s=5.0) as log:
                await install_log(log, Plan(slots=SLOTS, deciders=(SERVICE,)))
                await fill(log, count)
                await decide_all(log, count)
                if not snapshots:
                    await log.api(f"STREAM.DELETE.OBJ_{bucket(log.stream, SERVICE)}", {})
                return await first_decision_s(log, server.url, count)
        finally:
            await server.stop()


async def measure(count: int) -> list[Figure]:
    without = await measured(count // SHARE, snapshots=False)
    took = await measured(count, snapshots=True)
    return [
        figure(
            "log_restart/first_decision", took, "s", "lower", TARGET_S,
            baseline=f"without snapshots, a log of one in {SHARE}, scaled", baseline_value=without * SHARE,
        ),
        figure("log_restart/events_behind", count, "events", "higher", 1_000_000 if count >= 1_000_000 else None),
    ]  # fmt: skip


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(measure(1_000_000 if size == "full" else 50_000))


BENCHES = (Bench("log_restart", run, within_s=300.0),)

if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
