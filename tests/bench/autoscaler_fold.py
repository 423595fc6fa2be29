"""One autoscaler process on a log that is full: facts folded, and autoscalers evaluated, per second.

The decider runs in its host, as in production: read from the server, decode, fold, decide, commit.
First what a cluster's life says of pods and workloads, then samples, each of which has one
WatermarkPodAutoscaler evaluated with its metric, its pods and its target as they are then.

Beside the first, in the same run: a bare nats-py consumer that reads the same messages and drops them.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop
from nats.js.api import AckPolicy, ConsumerConfig

from tests.alone import Alone
from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.state import State
from tidewright.events import registry
from tidewright.events.autoscaler import WatermarkPodAutoscalerObserved
from tidewright.events.facts import MetricSampled, ObjectFact, Owner, PodObserved, WorkloadObserved
from tidewright.host.loop.host import Host
from tidewright.host.process.health import Health
from tidewright.host.process.process import configure_logs
from tidewright.log.connection import Log, Message
from tidewright.log.envelope import MAX_BATCH, Writer
from tidewright.log.install import Plan, install_log

FOLD_TARGET, EVALUATE_TARGET = 15_000.0, 5_000.0
BEGIN = 1_790_000_000.0
"""Log time of the first fact, seconds."""
NAMESPACES, PODS_EACH = 50, 20
FETCH = 500


def objects(autoscalers: int) -> Iterator[tuple[str, ObjectFact]]:
    """The kinds and facts of autoscalers, their Deployments and pods."""
    for n in range(autoscalers):
        namespace, app = f"team-{n % NAMESPACES}", f"app-{n}"
        external = {
            "metricName": "rps", "metricSelector": {"matchLabels": {"app": app}}, "lowWatermark": "5", "highWatermark": "10",
        }  # fmt: skip
        yield "watermarkpodautoscaler", WatermarkPodAutoscalerObserved(
            at=BEGIN, namespace=namespace, name=app, uid=f"wpa-{n}", generation=1, created_at=BEGIN - 1000,
            spec={
                "scaleTargetRef": {"kind": "Deployment", "name": app, "apiVersion": "apps/v1"},
                "metrics": [{"type": "External", "external": external}],
                "algorithm": "average", "minReplicas": 1, "maxReplicas": 100, "tolerance": "10m",
            },
        )  # fmt: skip
        yield "deployment", WorkloadObserved(
            at=BEGIN, namespace=namespace, name=app, uid=f"deployment-{n}", api_version="apps/v1", kind="Deployment",
            replicas=PODS_EACH, status_replicas=PODS_EACH, selector=f"app={app}",
        )  # fmt: skip
        for p in range(PODS_EACH):
            yield "pod", pod(n, p, BEGIN, "Running")


def pod(n: int, p: int, at: float, phase: str, restarts: int = 0) -> PodObserved:
    app = f"app-{n}"
    return PodObserved(
        at=at, namespace=f"team-{n % NAMESPACES}", name=f"{app}-5d8f6c7b9-{p:05d}", uid=f"1b4e28ba-{n:06d}-{p:06d}",
        shape="f3a9c0", phase=phase, node=f"node-{p}", ready=phase == "Running", ready_changed_at=BEGIN - 600,
        created_at=BEGIN - 700, started_at=BEGIN - 650, restarts=restarts,
        labels={"app": app, "pod-template-hash": "5d8f6c7b9", "tier": "front"},
        owners=(Owner(kind="ReplicaSet", name=f"{app}-5d8f6c7b9", uid=f"rs-{n}", controller=True),),
    )  # fmt: skip


def life(autoscalers: int) -> Iterator[tuple[str, ObjectFact]]:
    """What goes on: containers restart, pods leave readiness and return."""
    for step in itertools.count(1):
        for n in range(autoscalers):
            p = step % PODS_EACH
            ready = (step // PODS_EACH) % 2 == 1
            yield "pod", pod(n, p, BEGIN + step, "Running" if ready else "Pending", restarts=step)


def samples(autoscalers: int) -> Iterator[tuple[str, ObjectFact]]:
    """A sample for each autoscaler every 15 s, within its watermarks."""
    for step in itertools.count(1):
        for n in range(autoscalers):
            yield "metric", MetricSampled(
                at=BEGIN + 10_000 + 15 * step, namespace=f"team-{n % NAMESPACES}", name=f"external/rps/app=app-{n}",
                series_milli=(PODS_EACH * (6_000 + (step * 37 + n) % 3_000),),
            )  # fmt: skip


async def append(log: Log, facts: Iterator[tuple[str, ObjectFact]], count: int) -> None:
    """Facts onto the log, as the watcher has them there."""
    writer = Writer("watcher")
    messages = (
        Message(
            log.subjects.fact(log.slot_of(f.namespace), kind, f.namespace, f.name),
            registry.encode(f),
            writer.headers(f"watcher.{kind}.{writer.incarnation}.{n}"),
        )
        for n, (kind, f) in enumerate(itertools.islice(facts, count))
    )
    while batch := list(itertools.islice(messages, MAX_BATCH)):
        await log.commit(batch)


async def bare(log: Log, count: int) -> float:
    """Messages a second of a consumer that does nothing with them."""
    subscription = await log.jetstream.pull_subscribe(
        log.subjects.everything, stream=log.stream, config=ConsumerConfig(ack_policy=AckPolicy.NONE)
    )
    begun, read = time.perf_counter(), 0
    while read < count:
        read += len(await subscription.fetch(FETCH))
    return read / (time.perf_counter() - begun)


def folded(host: Host[State]) -> int:
    return sum(owned.fold.folded for owned in host.owned.values())


async def hosted(log: Log, count: int) -> float:
    """Facts a second of the autoscaler in its host, started on what lies there; then it is stopped."""
    writer = Writer(DECIDER.service)
    host = Host(DECIDER, log, Alone(writer.incarnation), Health(DECIDER.service), writer=writer)
    stop = asyncio.Event()
    running = asyncio.create_task(host.run(stop))
    while len(host.owned) < log.slots:  # noqa: ASYNC110  # restored: not measured, and nothing says it
        await asyncio.sleep(0)
    begun, before = time.perf_counter(), folded(host)
    while (done := folded(host) - before) < count and not running.done():  # noqa: ASYNC110  # likewise
        await asyncio.sleep(0.005)
    seconds = time.perf_counter() - begun
    stop.set()
    await running
    if done < count:
        raise RuntimeError(f"folded {done} of {count} facts")
    return done / seconds


async def measure(autoscalers: int, facts: int, sampled: int) -> list[Figure]:
    """Both rates."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as name:
        nats = EmbeddedServer(Path(name))
        await nats.start()
        try:
            async with await Log.connect(nats.url, "bench", timeout_s=10.0) as log:
                await install_log(log, Plan(slots=32, deciders=DECIDERS))
                await append(log, samples(autoscalers), autoscalers)  # all are known before the first object
                there = list(objects(autoscalers))
                await append(log, iter(there), len(there))
                await append(log, life(autoscalers), facts - len(there) - autoscalers)
                least = await bare(log, facts)
                fold = await hosted(log, facts)
                await append(log, samples(autoscalers), sampled)
                evaluated = await hosted(log, sampled)
        finally:
            await nats.stop()
    return [
        figure(
            "autoscaler_fold/facts", fold, "facts/s", "higher", FOLD_TARGET,
            baseline="bare nats-py consumer", baseline_value=least,
        ),
        figure("autoscaler_fold/evaluations", evaluated, "autoscalers/s", "higher", EVALUATE_TARGET),
    ]  # fmt: skip


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(measure(500, 60_000, 30_000) if size == "full" else measure(50, 3_000, 1_000))


BENCHES = (Bench("autoscaler_fold", run),)
