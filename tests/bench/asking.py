"""Asking a long log: verify, replay, explain, events, on one core and beside a bare reading of it.

One log is made up (`askedlog`): facts of fifty namespaces, decided by the autoscaler itself. It is
written to a file and, with a million events at full size, into a real nats-server. The commands are
run as processes, as a person would; the bare start of the interpreter is taken off. As on every
machine that was not told otherwise, Python keeps what it compiled at the first call; what that first
call takes is a figure of its own.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.bench.askedlog import CLUSTER, SLOTS, MadeUp
from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import MAX_BATCH
from tidewright.log.export import ExportWriter, Manifest
from tidewright.log.install import Plan, install_log
from tidewright.log.snapshots import Snapshots, encode
from tidewright.log.subjects import SLOT_HASH

VERIFY_TARGET, REPLAY_TARGET, MEMORY_TARGET, ANSWER_TARGET_MS = 40_000.0, 80_000.0, 400.0, 300.0
ONE_IN_TWENTY, ONE_IN_TWO = 0.05, 0.5
RUNS = 7
ROUNDS = 3

_CHILD = """
import asyncio, resource, sys, time
from pathlib import Path
from tests.bench import asking
print(asking.measured_in_child(sys.argv[1], Path(sys.argv[2])))
"""


def manifest(last: int) -> Manifest:
    """Of a made-up log."""
    return Manifest(
        cluster=CLUSTER, stream=f"TW_{CLUSTER}", slots=SLOTS, slot_hash=SLOT_HASH, first_seq=1, last_seq=last
    )


def write(path: Path, made: MadeUp, last: int) -> None:
    """A made-up log as a file."""
    with ExportWriter(path, manifest(last)) as writer:
        for record in made:
            writer.record(record)


def measured_in_child(what: str, path: Path) -> str:
    """One figure from a process of its own: events, processor seconds, wall seconds, peak memory in MiB."""
    from tidewright.asking.exported import ExportedLog
    from tidewright.asking.services import BY_NAME, load
    from tidewright.asking.verify import seldom_collecting, verified
    from tidewright.host.fold.inputs import Inputs
    from tidewright.host.fold.order import Fold
    from tidewright.host.fold.restoring import SlotRestorer
    from tidewright.log.export import ExportFile

    file = ExportFile(path)
    source = ExportedLog(file)
    service = BY_NAME["autoscaler"]
    decider = load(service)
    begun, wall = time.process_time(), time.perf_counter()
    events = 0
    match what:
        case "verify":
            found = asyncio.run(verified(source, (service,)))
            if found.report.count:
                raise AssertionError(found.report.differences[0])
            events = found.report.events
        case "replay":
            inputs = Inputs(decider.service, decider.kinds, source.subjects, source.slots)
            restorer = SlotRestorer(inputs, {slot: Fold(decider, slot) for slot in inputs.every})
            with seldom_collecting():
                for record in file.bodies():
                    restorer.take(record)
            events = sum(fold.folded for fold in restorer.folds.values())
        case "read":
            events = sum(1 for _ in file.records())
    used = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return msgspec.json.encode([events, used, time.perf_counter() - wall, peak]).decode()


def in_child(what: str, path: Path) -> tuple[float, float]:
    """Events per second of one core, and peak memory in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, what, str(path)], stdout=subprocess.PIPE, check=True, timeout=280
    )
    events, used, _, peak = msgspec.json.decode(done.stdout, type=tuple[int, float, float, float])
    return events / used, peak


def least_disturbed(*jobs: tuple[str, Path]) -> list[tuple[float, float]]:
    """As `in_child`, for each job the best of some rounds: others on the machine only ever make it slower."""
    rounds = [[in_child(what, path) for what, path in jobs] for _ in range(ROUNDS)]
    return [
        (max(rate for rate, _ in runs), max(peak for _, peak in runs)) for runs in zip(*rounds, strict=True)
    ]


def from_a_file(size: Size) -> list[Figure]:
    """Verify and replay from an export."""
    count = 500_000 if size == "full" else 60_000
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        path, busy = Path(folder) / "calm.twlog", Path(folder) / "busy.twlog"
        write(path, MadeUp(count, ONE_IN_TWENTY), count)
        write(busy, MadeUp(count // 5, ONE_IN_TWO), count // 5)
        (read, _), (calm, calm_peak), (replay, replay_peak), (decided, _) = least_disturbed(
            ("read", path), ("verify", path), ("replay", path), ("verify", busy)
        )
    beside = "reading the file alone"
    return [
        figure(
            "verify, one event in twenty evaluated", calm, "events/s of a core", "higher", VERIFY_TARGET,
            baseline=beside, baseline_value=read,
        ),
        figure(
            "verify, one event in two evaluated", decided, "events/s of a core", "higher",
            baseline=beside, baseline_value=read,
        ),
        figure(
            "state replay", replay, "events/s of a core", "higher", REPLAY_TARGET, baseline=beside, baseline_value=read
        ),
        figure("peak memory of verify", calm_peak, "MiB", "lower", MEMORY_TARGET),
        figure("peak memory of replay", replay_peak, "MiB", "lower", MEMORY_TARGET),
    ]  # fmt: skip


async def into_a_server(url: str, made: MadeUp, count: int) -> None:
    """The same log on a server: big batches, and the snapshots that a host would have made on the way."""
    async with await Log.connect(url, CLUSTER, timeout_s=30.0) as log:
        await install_log(log, Plan(slots=SLOTS, deciders=DECIDERS))
        batch = list[Message]()
        snapshots = None
        for record in made:
            batch.append(Message(record.subject, record.body, record.headers))
            if len(batch) == MAX_BATCH:
                await log.commit(batch)
                batch.clear()
            if snapshots is None and made.settled and record.seq > count - 10_000:
                snapshots = made.snapshots()  # at most 20,000 sequences back, on average half of that
        if batch:
            await log.commit(batch)
        store = Snapshots(log)
        for snapshot in snapshots or []:
            await store.put(snapshot, encode(snapshot))


def taken(command: Iterable[str], env: dict[str, str], runs: int = RUNS) -> tuple[float, float]:
    """Wall and processor milliseconds of a command, the least of several runs: the machine is shared."""
    walls, used = [], []
    for _ in range(runs):
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        # Through a pipe: without one, a time limit is waited for in steps of up to 50 ms.
        subprocess.run(list(command), env=env, check=True, stdout=subprocess.PIPE, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append((time.perf_counter() - begun) * 1e3)
        used.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3)
    return min(walls), min(used)


async def on_a_server(size: Size) -> list[Figure]:
    """Explain and events for one object of a long log."""
    count = 1_000_000 if size == "full" else 30_000
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "nats")
        url = await server.start()
        try:
            await into_a_server(url, MadeUp(count, ONE_IN_TWENTY), count)
            env = os.environ | {
                "TIDEWRIGHT_NATS": url, "TIDEWRIGHT_CLUSTER": CLUSTER,
                "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled"), "PYTHONDONTWRITEBYTECODE": "",
            }  # fmt: skip
            ask = [sys.executable, "-m", "tidewright.cli.main"]
            questions = {
                "explain an object": ["explain", "wpa/app-1", "-n", "team-7"],
                "events of an object, the last hour": [
                    "events",
                    "--for",
                    "wpa/app-1",
                    "-n",
                    "team-7",
                    "--since",
                    "1h",
                ],
            }
            nothing = [sys.executable, "-c", "pass"]
            await asyncio.to_thread(taken, nothing, env, 1)
            first, _ = await asyncio.to_thread(taken, [*ask, *questions["explain an object"]], env, 1)
            bare, bare_used = await asyncio.to_thread(taken, nothing, env)
            figures = [
                figure("explain an object, the first call, which compiles", first - bare, "ms", "lower")
            ]
            for name, words in questions.items():
                wall, used = await asyncio.to_thread(taken, [*ask, *words], env)
                figures += [
                    figure(
                        f"{name}, after the interpreter's start", wall - bare, "ms", "lower", ANSWER_TARGET_MS,
                        baseline="start of the interpreter", baseline_value=bare,
                    ),
                    figure(
                        f"{name}, processor time of it", used - bare_used, "ms", "lower",
                        baseline="start of the interpreter", baseline_value=bare_used,
                    ),
                ]  # fmt: skip
            return figures
        finally:
            await server.stop()


def asked(size: Size) -> list[Figure]:
    """Answers from a running log."""
    return asyncio.run(on_a_server(size))


BENCHES = (Bench("asking/file", from_a_file, within_s=600), Bench("asking/server", asked, within_s=600))
