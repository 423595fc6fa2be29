"""The exactly-once commit: one process that reads, folds, decides and commits, grouped per fetch.

The decider is as small as can be, so what is measured is the host: reading, decoding, digests, the
atomic batches under expected sequences. Beside it, in the same run on the same log: a bare nats-py
pull consumer that only receives.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop
from nats.js.api import AckPolicy, ConsumerConfig

from tests.alone import Alone
from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tidewright.events import registry
from tidewright.events.autoscaler import HoldReplicas
from tidewright.events.base import Because, Decision, Event, ObjectRef
from tidewright.events.facts import PodObserved
from tidewright.host.fold.decider import Decider
from tidewright.host.loop.host import Host
from tidewright.host.process.health import Health
from tidewright.host.process.process import configure_logs
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import MAX_BATCH, Writer
from tidewright.log.install import Plan, install_log

NAMESPACES, SLOTS = 50, 32
COMMIT_TARGET, FOLD_TARGET = 8_000.0, 15_000.0
ONE_IN = 20
FOLDING, DECIDING = DECIDERS = ("folding", "deciding")
"""Services: one that only counts, and one that decides, too. Each has its bucket of snapshots."""


class State(msgspec.Struct):
    pods: dict[str, int] = {}
    holds: int = 0


def evolve(state: State, event: Event) -> None:
    """Count the pods of each namespace."""
    if isinstance(event, PodObserved):
        state.pods[event.namespace] = state.pods.get(event.namespace, 0) + 1
    elif isinstance(event, HoldReplicas):
        state.holds += 1


def counting(service: str, one_in: int) -> Decider[State, None]:
    """Counts pods per namespace; decides on each `one_in`-th of a namespace (0: never)."""

    def decide(state: State, event: Event, _: None) -> Sequence[Decision]:
        if not isinstance(event, PodObserved) or not one_in:
            return ()
        count = state.pods[event.namespace]
        if count % one_in:
            return ()
        target = ObjectRef(api_version="v1", kind="Namespace", namespace=event.namespace, name="all")
        because = (Because(rule="Nth", values={"pods": count}),)
        return [HoldReplicas(at=event.at, because=because, target=target, replicas=count, reason="nth")]

    return Decider(
        service=service,
        state_version=1,
        state_type=State,
        kinds=frozenset({"pod"}),
        evolve=evolve,
        decide=decide,
    )


def pods(log: Log, start: int, count: int) -> list[Message]:
    """Facts about as many pods, of the size that a fact about a pod has."""
    made = []
    for n in range(start, start + count):
        namespace = f"team-{n % NAMESPACES}"
        fact = PodObserved(
            at=1_770_000_000.0 + n / 1000, namespace=namespace, name=f"web-5d8f6c7b9-{n:07d}", phase="Running",
            node=f"node-{n % 100}", labels={"app": "web", "pod-template-hash": "5d8f6c7b9"},
        )  # fmt: skip
        made.append(
            Message(
                log.subjects.fact(log.slot_of(namespace), "pod", namespace, fact.name), registry.encode(fact)
            )
        )
    return made


async def fill(log: Log, count: int) -> None:
    """Facts about `count` pods on the log."""
    for start in range(0, count, MAX_BATCH):
        await log.commit(pods(log, start, min(MAX_BATCH, count - start)))


async def folded(log: Log, count: int, service: str, one_in: int) -> tuple[float, int]:
    """Input events per second of one process, from its start to its last commit; and its decisions."""
    writer, stop = Writer(service), asyncio.Event()
    health = Health(service)
    host = Host(counting(service, one_in), log, Alone(writer.incarnation), health, writer=writer)
    begun = time.perf_counter()
    running = asyncio.create_task(host.run(stop))
    while sum(o.fold.folded for o in host.owned.values()) < count:
        if running.done():
            running.result()
        await asyncio.sleep(0.005)
    stop.set()
    await running
    took = time.perf_counter() - begun
    return count / took, sum(o.fold.state.holds for o in host.owned.values())


async def received(log: Log, count: int) -> float:
    """Messages per second that a bare nats-py pull consumer receives."""
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    subscription = await log.jetstream.pull_subscribe(
        log.subjects.facts("*", "pod"), stream=log.stream, config=config
    )
    begun, seen = time.perf_counter(), 0
    while seen < count:
        seen += len(await subscription.fetch(500))
    return count / (time.perf_counter() - begun)


async def measure(count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        await server.start()
        try:
            async with await Log.connect(server.url, "bench", timeout_s=5.0) as log:
                await install_log(log, Plan(slots=SLOTS, deciders=DECIDERS))
                await fill(log, count)
                bare = await received(log, count)
                fold, _ = await folded(log, count, FOLDING, 0)
                commit, decided = await folded(log, count, DECIDING, ONE_IN)
        finally:
            await server.stop()
    beside = "bare nats-py pull consumer"
    return [
        figure("log_commit/commit", commit, "1/s", "higher", COMMIT_TARGET, baseline=beside, baseline_value=bare),
        figure("log_commit/fold", fold, "1/s", "higher", FOLD_TARGET, baseline=beside, baseline_value=bare),
        figure("log_commit/decisions", decided, "decisions", "higher", count // ONE_IN),
    ]  # fmt: skip


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(measure(200_000 if size == "full" else 20_000))


BENCHES = (Bench("log_commit", run),)
