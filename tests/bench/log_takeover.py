"""Slots that change hands: how long a killed replica's are without an owner, and a stopping one's.

Replicas are OS processes with a slow stream of facts to decide about. One is killed with -9, or
asked to stop; for each of its slots the clock runs from then (or from its last decision there, as a
stopping one decides on for a moment) to the first decision that another replica records there. All slots
of one replica count as one run; the slowest slot is the figure of a run.
Facts come every `FACT_EVERY_S`, which is the resolution, and part of what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import uvloop

from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tidewright.cli.process import tether
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.facts import PodObserved
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.inputs import Partition
from tidewright.host.loop.membership import rendezvous
from tidewright.host.loop.settings import Settings
from tidewright.host.process.process import Process, ProcessOptions, configure_logs
from tidewright.host.process.process import run as run_process
from tidewright.host.process.service import LogOptions, run_decider
from tidewright.log import envelope
from tidewright.log.connection import Log, Message
from tidewright.log.install import Plan, install_log
from tidewright.log.reader import Reader
from tidewright.log.subjects import Slot

SLOTS, REPLICAS = 16, 3
FACT_EVERY_S = 0.05
KILL_TARGET_S, STOP_TARGET_S = 5.0, 1.0
FEW = 10
QUIET_S = 1.0
"""Nothing has moved for so long before the next one is ended: a standby is warm by then."""
WITHIN_S = 60.0
"""A run that takes longer is no figure but a failure."""
SERVICE = "bench"


class State(msgspec.Struct):
    seen: int = 0


def evolve(state: State, event: Event) -> None:
    """Count the facts."""
    state.seen += isinstance(event, PodObserved)


def decide(state: State, event: Event, _: None) -> list[Decision]:
    """Decide about each fact."""
    if not isinstance(event, PodObserved):
        return []
    target = ObjectRef(api_version="v1", kind="Namespace", namespace=event.namespace, name="all")
    return [HoldReplicas(at=event.at, target=target, replicas=state.seen, reason="each")]


EACH = Decider(
    service=SERVICE,
    state_version=1,
    state_type=State,
    kinds=frozenset({"pod"}),
    evolve=evolve,
    decide=decide,
)


def serve(url: str, partition: Partition) -> int:
    """The child: one replica."""

    async def main(process: Process) -> None:
        options = LogOptions(url=url, cluster="bench")
        await run_decider(process, EACH, options, Settings(partition=partition))

    return run_process(ProcessOptions(SERVICE, log_level="error"), main)


class World:
    """Replicas, the facts that they decide about, and who decided last in which slot."""

    def __init__(self, log: Log, url: str, partition: Partition) -> None:
        self._log, self._url, self._partition = log, url, partition
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.replicas: list[asyncio.subprocess.Process] = []
        self.owner: dict[Slot, str] = {}
        """By slot, the incarnation that recorded the last decision there."""
        self.since: dict[Slot, float] = {}
        """When it recorded its first."""
        self._told_at: dict[Slot, float] = {}
        self._before: dict[Slot, float] = {}
        """When the last decision was recorded, and when the owner before recorded its last."""
        self._names: dict[int, str] = {}
        """By process id, the incarnation of those replicas that take part."""
        self._seen: frozenset[str] = frozenset()
        self._seen_at = 0.0
        """Who takes part, and since when nobody else."""
        self._ended: set[str] = set()
        """Incarnations that were ended; their entries may still be there."""
        namespaces: dict[Slot, str] = {}
        for n in range(100_000):
            namespaces.setdefault(log.slot_of(f"n{n}"), f"n{n}")
            if len(namespaces) == log.slots:
                break
        self._namespaces = namespaces

    @property
    def slots(self) -> int:
        """Slots that decisions come from."""
        return 1 if self._partition == "cluster" else len(self._namespaces)

    async def start(self, count: int) -> None:
        self._tasks = [asyncio.create_task(self._speak()), asyncio.create_task(self._listen())]
        for _ in range(count):
            await self.add()
            await self.settled()

    async def add(self) -> None:
        command = (sys.executable, "-m", "tests.bench.log_takeover", self._url, self._partition)
        self.replicas.append(await asyncio.create_subprocess_exec(*command, preexec_fn=tether()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for replica in self.replicas:
            with contextlib.suppress(ProcessLookupError):
                replica.kill()
            await replica.wait()

    async def settled(self) -> None:
        """Wait until every replica takes part, and each slot's decisions come from whose it is, for a while now."""
        async with asyncio.timeout(2 * WITHIN_S):
            while True:
                if ended := [r.returncode for r in self.replicas if r.returncode is not None]:
                    raise RuntimeError(f"replicas ended by themselves, with {ended}")
                if (members := await self._members()) != self._seen:
                    self._seen, self._seen_at = members, time.monotonic()
                everybody = len(members) == len(self.replicas) and members.isdisjoint(self._ended)
                told = len(self.owner) == self.slots and all(
                    rendezvous(slot, members) == owner for slot, owner in self.owner.items()
                )
                moved_at = max(self._seen_at, *self.since.values()) if told else time.monotonic()
                if everybody and time.monotonic() - moved_at > QUIET_S:
                    self._identify(members)
                    return
                await asyncio.sleep(0.05)

    async def _members(self) -> frozenset[str]:
        """Incarnations that take part. One may own nothing: a standby, or by the way the slots fall."""
        bucket = f"{self._log.stream}_members"
        root = f"$KV.{bucket}.{SERVICE}."
        async with Reader(self._log, (f"{root}>",), 0, last_only=True, stream=f"KV_{bucket}") as entries:
            return frozenset(
                [entry.subject[len(root) :] async for entry in entries.until_current() if entry.body]
            )

    async def gap_s(self, number: int) -> float | None:
        """End the oldest replica with a signal; seconds until the slowest of its slots has another's decision.

        None when it owned nothing.
        """
        replica = self.replicas.pop(0)
        name = self._names.pop(replica.pid)
        self._ended.add(name)
        mine = [slot for slot, owner in self.owner.items() if owner == name]
        if not mine:
            replica.kill()
            await replica.wait()
            return None
        begun = time.monotonic()
        replica.send_signal(number)
        await replica.wait()
        async with asyncio.timeout(WITHIN_S):
            while any(self.owner[slot] == name for slot in mine):  # noqa: ASYNC110  # the log tells who owns
                await asyncio.sleep(0.01)
        return max(self.since[slot] - max(begun, self._before[slot]) for slot in mine)

    def _identify(self, members: Iterable[str]) -> None:
        """The one replica without a name has the name that nobody had."""
        nameless = [replica.pid for replica in self.replicas if replica.pid not in self._names]
        new = set(members) - set(self._names.values())
        if len(nameless) == len(new) == 1:
            self._names[nameless[0]] = new.pop()

    async def _speak(self) -> None:
        n = 0
        while True:
            n += 1
            facts = [
                PodObserved(at=time.time(), namespace=name, name=f"p{n % 10}")
                for name in self._namespaces.values()
            ]
            await self._log.commit(
                [
                    Message(
                        self._log.subjects.fact(self._log.slot_of(f.namespace), "pod", f.namespace, f.name),
                        registry.encode(f),
                    )
                    for f in facts
                ]
            )
            await asyncio.sleep(FACT_EVERY_S)

    async def _listen(self) -> None:
        async with self._log.reader([self._log.subjects.decisions("*", SERVICE)]) as reader:
            while True:
                for record in await reader.fetch():
                    slot, writer = (
                        self._log.subjects.slot_token(record.subject),
                        record.headers[envelope.INCARNATION],
                    )
                    now = time.monotonic()
                    if self.owner.get(slot) != writer:
                        self.owner[slot], self.since[slot] = writer, now
                        self._before[slot] = self._told_at.get(slot, now)
                    self._told_at[slot] = now


async def gaps(number: int, runs: int, partition: Partition) -> list[float]:
    """Seconds without a decision, one per run."""
    replicas = 2 if partition == "cluster" else REPLICAS
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        await server.start()
        try:
            async with await Log.connect(server.url, "bench", timeout_s=5.0) as log:
                await install_log(log, Plan(slots=SLOTS, deciders=(SERVICE,)))
                world = World(log, server.url, partition)
                found: list[float] = []
                try:
                    await world.start(replicas)
                    while len(found) < runs:
                        await world.settled()
                        gap = await world.gap_s(number)
                        found += [] if gap is None else [gap]
                        await world.add()
                finally:
                    await world.stop()
        finally:
            await server.stop()
    return found


def figures(name: str, found: Sequence[float], target: float) -> list[Figure]:
    ordered = sorted(found)
    return [
        figure(f"log_takeover/{name}_p50", statistics.median(ordered), "s", "lower"),
        figure(f"log_takeover/{name}_p90", ordered[int(0.9 * (len(ordered) - 1))], "s", "lower"),
        figure(f"log_takeover/{name}_most", ordered[-1], "s", "lower", target),
        figure(f"log_takeover/{name}_runs", len(ordered), "runs", "higher"),
    ]


def growth(found: Sequence[float]) -> list[Figure]:
    """Whether a take-over takes longer, the longer the log is and the more often the slots have changed hands."""
    if len(found) < 2 * FEW:
        return []
    first, last = statistics.median(found[:FEW]), statistics.median(found[-FEW:])
    name = f"log_takeover/killed_p50_of_the_last_{FEW}"
    return [figure(name, last, "s", "lower", baseline=f"of the first {FEW}", baseline_value=first)]


async def measure(runs: int) -> list[Figure]:
    # What is killed is waited for most of the time, so the two kinds of it run beside one another.
    killed, standby = await asyncio.gather(
        gaps(signal.SIGKILL, runs, "slots"), gaps(signal.SIGKILL, max(3, runs // 5), "cluster")
    )
    stopped = await gaps(signal.SIGTERM, runs, "slots")
    return [
        *figures("killed", killed, KILL_TARGET_S),
        *growth(killed),
        *figures("stopping", stopped, STOP_TARGET_S),
        *figures("standby_of_a_killed_one", standby, KILL_TARGET_S),
        figure("log_takeover/load_of_the_machine", os.getloadavg()[0], "processes", "lower"),
    ]


def run(size: Size) -> list[Figure]:
    configure_logs("error", "console")
    return uvloop.run(measure(50 if size == "full" else 3))


BENCHES = (Bench("log_takeover", run, within_s=900.0),)

if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], "cluster" if sys.argv[2] == "cluster" else "slots"))
