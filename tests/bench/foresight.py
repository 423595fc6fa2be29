"""How long a decision to scale takes to become an order for nodes: from its commit on the log to the order's.

The provisioning service as a process of its own on a log of its own; this bench says what watcher and autoscaler would, and
sees when the order comes by. Beside it, in the same run: a message appended, read and answered by another, in one process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from tests.bench.figures import Bench, Figure, Size, figure
from tests.e2e.conftest import tidewright
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Event, ObjectRef
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import ScaleWorkload
from tidewright.host.process.process import configure_logs
from tidewright.kube.templates import Templates
from tidewright.log.connection import Log, Message
from tidewright.log.install import Plan, install_log
from tidewright.log.subjects import ALL

P50_TARGET_MS, P99_TARGET_MS = 50.0, 350.0
"""What is left of 100 and 400 ms from the sample to the cloud's yes by the decision before it and the call behind it."""
CLUSTER, NAMESPACE = "bench", "shop"
PAUSE_S = 1.1
"""Decisions that come sooner after an order than a second are gathered."""


def workload(name: str, template: str) -> f.WorkloadObserved:
    return f.WorkloadObserved(
        at=time.time(), namespace=NAMESPACE, name=name, uid=f"uid-{name}", api_version="apps/v1", kind="Deployment",
        replicas=4, status_replicas=4, template=template,
    )  # fmt: skip


def said(log: Log, names: Sequence[str]) -> list[Message]:
    """What the watcher says: a group without nodes, and Deployments of which all pods are there."""
    slot, now, subjects = log.slot_of(NAMESPACE), time.time(), log.subjects
    template = Templates().of(
        NAMESPACE, b'{"containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}]}', b"null"
    )
    group = p.NodeGroupObserved(
        at=now, name="g", max_size=100_000,
        template=p.TemplateNode(allocatable={"cpu": 8000, "memory": 2**35, "pods": 110}),
    )  # fmt: skip
    facts: list[tuple[str, Event]] = [
        (
            subjects.config("provisioning"),
            ConfigSet(at=now, name="provisioning", data={"foresight": "decisions"}),
        ),
        (subjects.fact(ALL, "nodegroup", "", "g"), group),
        (subjects.fact(slot, "template", NAMESPACE, template.digest), template),
        *((subjects.fact(slot, "deployment", NAMESPACE, n), workload(n, template.digest)) for n in names),
    ]
    return [Message(subject, registry.encode(event)) for subject, event in facts]


def scale(log: Log, name: str, number: int) -> Message:
    """What the autoscaler decides."""
    slot = log.slot_of(NAMESPACE)
    target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NAMESPACE, name=name)
    decision = ScaleWorkload(
        at=time.time(), id=f"autoscaler.{slot}.{number}.0", target=target, replicas=100, from_replicas=4
    )
    subject = log.subjects.decision(slot, "autoscaler", "deployment", NAMESPACE, name)
    return Message(subject, registry.encode(decision))


async def ordered(nats_url: str, count: int) -> list[float]:
    """Seconds from the begin of a decision's commit until the order that answers it is read."""
    names = [f"web-{number}" for number in range(count)]
    supervisor = Supervisor(lambda name, line: None)
    found = []
    async with await Log.connect(nats_url, CLUSTER) as log:
        await install_log(log, Plan(slots=4, deciders=DECIDERS))
        await log.commit(said(log, names))
        command = tidewright("run", "provisioning", "--nats", nats_url, "--cluster", CLUSTER)
        try:
            await supervisor.start(Program("provisioning", command))
            async with log.reader([log.subjects.everything]) as reader:
                for number, name in enumerate(names):
                    await asyncio.sleep(PAUSE_S)
                    begun = time.perf_counter()
                    await log.commit([scale(log, name, number)])
                    while not any(
                        isinstance(registry.read(record.body), p.IncreaseNodeGroup)
                        for record in await reader.fetch(500, timeout_s=30.0)
                    ):
                        pass
                    found.append(time.perf_counter() - begun)
        finally:
            await supervisor.stop()
    return found


async def least(nats_url: str, count: int) -> list[float]:
    """Seconds from an append's start until another that answers it is read, in one process."""
    found = []
    async with await Log.connect(nats_url, "least") as log:
        await install_log(log, Plan(slots=1, deciders=DECIDERS))
        async with log.reader([log.subjects.everything]) as reader:
            for number in range(count):
                begun = time.perf_counter()
                for step in ("asked", "answered"):
                    await log.commit([Message(log.subjects.config(f"{step}{number}"), b"{}")])
                    while not await reader.fetch():
                        pass
                found.append(time.perf_counter() - begun)
    return found


async def measure(count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        nats = EmbeddedServer(Path(folder) / "nats")
        await nats.start()
        try:
            times, bare = await ordered(nats.url, count), await least(nats.url, 100)
        finally:
            await nats.stop()
    spread, floor = quantiles(times, n=100), quantiles(bare, n=100)
    beside = "append, read, answer and read in one process"
    return [
        figure(
            f"foresight/decision committed to order committed, {name}", spread[at] * 1e3, "ms", "lower", target,
            baseline=beside, baseline_value=floor[at] * 1e3,
        )
        for name, at, target in (("p50", 49, P50_TARGET_MS), ("p99", 98, P99_TARGET_MS))
    ]  # fmt: skip


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return asyncio.run(measure(100 if size == "full" else 10))


BENCHES = (Bench("foresight", run),)
