"""What one steady autoscaler adds to the log with each sample of its metric: bytes and messages, by class and writer.

Real processes: nats-server, the embedded cluster, watcher, all deciders and the actuator. A sample comes every 15 s (in
the small size 5), which is long enough for all that follows from the one before. What is stored up to the next sample counts for a sample:

- on which nothing changes; or on which the value is another one and nothing is to be done;
- that is acted on: one pod more or less, or `MANY` of them. What a pod adds is the difference of the two, by the pod, and what a
  scale adds without its pods is what is left of one pod.

Bytes are those of nats-server's store, before it compresses: record, subject, headers and body; limits of stores count these. A schedule that
fired or was replaced counts as well, though the server gives its place back. Beside them, as baseline: the bodies of the facts, decisions
and outcomes alone. What is left of them on the archive's disk, which is compressed, is measured by the same messages once more, as often as fills a few blocks of a
store, each time with other ids, digests and times.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, TypeAlias

import msgspec

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.reaction import Embedded
from tests.e2e.conftest import tidewright
from tests.e2e.pipeline.test_pipeline import DEPLOYMENT, LABELS, autoscaler
from tests.nats_server import EmbeddedServer
from tidewright.asking.services import DECIDERS
from tidewright.cli.crds.installing import install
from tidewright.cli.supervisor import Program, Supervisor
from tidewright.events import registry
from tidewright.events.facts import MetricSampled
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.log.appending import BATCH_ID_BYTES
from tidewright.log.archive import COMPRESSION
from tidewright.log.connection import Log
from tidewright.log.envelope import BATCH_ID, writer_of
from tidewright.log.install import Plan, install_log
from tidewright.log.reader import Record

CLUSTER, NAMESPACE = "bench", "team"
SAMPLE_EVERY_S: dict[Size, float] = {"small": 5.0, "full": 15.0}
FEW, MANY = 1, 9
"""Pods that a sample adds or takes away."""
LOW, HIGH = 9.0, 10.0
"""The marks: a load of `HIGH` times so many pods is raised to these, one of `LOW` times so many lowered."""
TARGET_BYTES = 4000.0
SAME, OTHER, ONE, SEVERAL = "same value", "another value", f"{FEW} pod", f"{MANY} pods"
Sample: TypeAlias = Mapping[str, Any]
"""A value of an external metric, as the embedded cluster takes it."""
CARRIED = ("fact", "decision", "outcome", "config")


def stored(record: Record) -> int:
    """Bytes of a message in the store of nats-server, before compression."""
    headers = sum(len(f"{name}: {value}\r\n".encode()) for name, value in record.headers.items())
    framed = 4 + len(b"NATS/1.0\r\n\r\n") + headers if headers else 0
    return 22 + len(record.subject.encode()) + framed + len(record.body) + 8


@dataclass
class Told:
    """What was stored from one sample to the next."""

    of: str
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    bare: int = 0

    def add(self, record: Record) -> None:
        kind = record.subject.split(".")[2]
        key = (kind, writer_of(record.subject, record.headers) or "nobody")
        self.messages[key] += 1
        self.bytes[key] += stored(record)
        self.bare += len(record.body) if kind in CARRIED else 0


BLOCK_BYTES = 8 << 20
"""Of nats-server: a block that is full is compressed."""
IDS = re.compile(rb"[0-9a-f]{12,}|[0-9]{9,}")
"""What is another one each time: uids, digests, incarnations, and times."""
SHUFFLED = bytes.maketrans(b"0123456789abcdef", b"3fa91c07de5b8264")
SHIFTED = bytes.maketrans(b"0123456789", b"7204918365")


def renewed(text: bytes, times: int) -> bytes:
    """With other ids of the same length, the same ones for the same ones."""

    def other(found: re.Match[bytes]) -> bytes:
        said = found[0]
        for _ in range(times):
            said = said.translate(SHIFTED if said.isdigit() else SHUFFLED)
            said = said[-1:] + said[:-1]
        return said

    return IDS.sub(other, text)


async def left_of(records: Sequence[Record], nats_url: str, store: Path) -> float:
    """What part of these messages the archive has on its disk once blocks are full."""
    async with await Log.connect(nats_url, "copy", timeout_s=10.0) as log:
        config = log.desired(1, cluster_id="copy", replicas=1, max_age_s=0.0)
        await log.api(f"STREAM.CREATE.{log.stream}", config | {"compression": COMPRESSION})
        await install_log(log, Plan(slots=1, cluster_id="copy"))
        size = sum(map(stored, records))
        written = times = 0
        while written < 3 * BLOCK_BYTES:
            batches: defaultdict[str, str] = defaultdict(lambda: token_urlsafe(BATCH_ID_BYTES))
            for start in range(0, len(records), 500):
                for record in records[start : start + 500]:
                    # What the server acts upon is of the same length, and says nothing to it.
                    headers = {
                        name.replace("Nats-", "Tats-"): renewed(value.encode(), times).decode()
                        for name, value in record.headers.items()
                    }
                    if BATCH_ID in record.headers:
                        headers[BATCH_ID.replace("Nats-", "Tats-")] = batches[record.headers[BATCH_ID]]
                    subject = record.subject.replace(f"tw.{CLUSTER}.", "tw.copy.", 1)
                    await log.published(subject, renewed(record.body, times), headers)
                await log.bounds()
            written, times = written + size, times + 1
        await asyncio.sleep(2.0)  # compressed beside
        settings = await log.api(f"STREAM.INFO.{log.stream}", {})
        if settings["config"].get("compression") != COMPRESSION:
            raise RuntimeError("the log is not compressed")
    return await asyncio.to_thread(full_blocks, store, log.stream)


def full_blocks(store: Path, stream: str) -> float:
    """How large blocks of a store are that are full, in parts of what they hold."""
    blocks = [*next(store.rglob(stream)).rglob("*.blk")]
    full = sorted(blocks, key=lambda block: int(block.stem))[:-1]
    return sum(block.stat().st_size for block in full) / (len(full) * BLOCK_BYTES)


class Watched:
    """All that is stored on a log, cut at the samples."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.records: list[Record] = []
        self.sampled = asyncio.Event()
        self.following = "beginning"

    async def run(self, log: Log) -> None:
        async with log.reader([log.subjects.everything], believing=False) as reader:
            while True:
                for record in await reader.fetch(500, timeout_s=1.0):
                    if isinstance(registry.read(record.body), MetricSampled):
                        self.told.append(Told(self.following))
                        self.sampled.set()
                    if self.told:
                        self.told[-1].add(record)
                    self.records.append(record)

    async def next(self) -> None:
        self.sampled.clear()
        await self.sampled.wait()


def loads(rounds: int) -> list[tuple[str, float]]:
    """What each sample is to have, and the value that does it, from two pods on."""
    once = [
        (ONE, HIGH * 3), (SEVERAL, HIGH * (3 + MANY)), (SAME, HIGH * (3 + MANY)),
        (SEVERAL, LOW * 3), (OTHER, LOW * 3.1), (OTHER, LOW * 3.2), (ONE, LOW * 2), (SAME, LOW * 2),
    ]  # fmt: skip
    return once * rounds


@asynccontextmanager
async def running(
    embedded: Embedded,
    nats_url: str,
    every_s: float,
    first: Sequence[Sample],
    prepare: Callable[[Kube], Awaitable[None]],
) -> AsyncIterator[tuple[Log, Callable[[Sequence[Sample]], Awaitable[None]]]]:
    """All services at work on a cluster with something in it; the log, and what lets the metric have other values."""
    supervisor = Supervisor(lambda name, line: None)
    on = ("--nats", nats_url, "--cluster", CLUSTER)
    at = (*on, "--kubeconfig", str(embedded.kubeconfig))

    def program(service: str, *arguments: str) -> Program:
        return Program(service, tidewright("run", service, *arguments), env={"KUBECONFIG": None})

    async with contextlib.AsyncExitStack() as stack:
        kube = await stack.enter_async_context(Kube.at(embedded.url))
        side = await stack.enter_async_context(Kube.at(embedded.side_url))
        log = await stack.enter_async_context(await Log.connect(nats_url, CLUSTER))

        async def push(samples: Sequence[Sample]) -> None:
            await side.request("POST", "/sim/metrics", body=msgspec.json.encode(samples))

        await push(first)
        await install(kube)
        await install_log(log, Plan(deciders=DECIDERS))
        await prepare(kube)
        stack.push_async_callback(supervisor.stop)
        await supervisor.start(
            program("watcher", *at, "--metrics-interval", str(every_s)),
            *(program(decider, *on) for decider in DECIDERS),
            program("actuator", *at),
        )
        yield log, push


async def follow(embedded: Embedded, nats_url: str, rounds: int, every_s: float) -> Watched:
    def load(value: float) -> list[Sample]:
        return [{"name": "load", "value": value, "namespace": NAMESPACE, "labels": LABELS}]

    async with running(embedded, nats_url, every_s, load(LOW * 2), prepare) as (log, push):
        watched = Watched()
        reading = asyncio.create_task(watched.run(log))
        try:
            await asyncio.sleep(2 * every_s)
            await watched.next()
            for of, value in loads(rounds):
                watched.following = of
                await push(load(value))
                await watched.next()
            watched.following = "end"
            await watched.next()
        finally:
            reading.cancel()
    return watched


async def prepare(kube: Kube) -> None:
    await make(kube, NAMESPACE, {"web": LABELS})


async def make(kube: Kube, namespace: str, named: Mapping[str, Mapping[str, str]]) -> None:
    """Deployments of two pods with their labels, and an autoscaler for each."""
    spec: dict[str, Any] = {
        "minReplicas": 1, "maxReplicas": 100, "scaleUpLimitFactor": "1000", "scaleDownLimitFactor": "90", "tolerance": "0.01",
        "upscaleForbiddenWindowSeconds": 1, "downscaleForbiddenWindowSeconds": 1,
    }  # fmt: skip
    namespaced = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    manifests: list[tuple[str, dict[str, Any]]] = [("/api/v1/namespaces", namespaced)]
    for name, labels in named.items():
        wanted = autoscaler("load", target=name, **spec)
        wanted["metadata"]["name"] = name
        wanted["spec"]["metrics"][0]["external"] |= {
            "highWatermark": f"{HIGH:g}", "lowWatermark": f"{LOW:g}", "metricSelector": {"matchLabels": labels},
        }  # fmt: skip
        scaled: Any = copy.deepcopy(DEPLOYMENT)
        scaled["metadata"]["name"] = name
        scaled["spec"]["selector"]["matchLabels"] = scaled["spec"]["template"]["metadata"]["labels"] = labels
        manifests += [
            (f"/apis/apps/v1/namespaces/{namespace}/deployments", scaled),
            (f"/apis/datadoghq.com/v1alpha1/namespaces/{namespace}/watermarkpodautoscalers", wanted),
        ]
    for path, manifest in manifests:
        await kube.request("POST", path, body=msgspec.json.encode(manifest))


def means(told: Sequence[Told]) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float], float]:
    """Of some samples: messages and bytes by class and writer, and the bare bytes, on average."""
    if not told:
        raise RuntimeError("no sample of one kind was told of")
    messages: dict[tuple[str, str], float] = defaultdict(float)
    sizes: dict[tuple[str, str], float] = defaultdict(float)
    for one in told:
        for key, count in one.messages.items():
            messages[key] += count / len(told)
            sizes[key] += one.bytes[key] / len(told)
    return messages, sizes, sum(one.bare for one in told) / len(told)


def figures(told: Sequence[Told], left: float) -> list[Figure]:
    found: list[Figure] = []

    def row(name: str, value: float, bare: float | None = None, target: float | None = None) -> None:
        found.append(
            figure(
                f"log_bytes/{name}", value, "B", "lower", target,
                baseline="" if bare is None else "facts, decisions and outcomes as JSON", baseline_value=bare,
            )
        )  # fmt: skip

    by = {of: means([one for one in told if one.of == of]) for of in (SAME, OTHER, ONE, SEVERAL)}
    for of in (SAME, OTHER):
        row(
            f"a sample with the {of}" if of == SAME else f"a sample with {of}",
            sum(by[of][1].values()),
            by[of][2],
        )
    (one, size, bare), (more, larger, barer) = by[ONE], by[SEVERAL]
    apart = MANY - FEW
    pod = {key: (larger.get(key, 0.0) - size.get(key, 0.0)) / apart for key in {*size, *larger}}
    pods = {key: (more.get(key, 0.0) - one.get(key, 0.0)) / apart for key in {*one, *more}}
    each, bare_each = sum(pod.values()), (barer - bare) / apart
    alone = sum(size.values()) - FEW * each
    row("a sample acted on, without its pods", alone, bare - FEW * bare_each)
    row(
        "a sample acted on, without its pods, on the disk", alone * left, bare - FEW * bare_each, TARGET_BYTES
    )
    row("a sample acted on, with one pod", sum(size.values()), bare)
    row("a sample acted on, with one pod, on the disk", sum(size.values()) * left, bare, TARGET_BYTES)
    row("each pod of it", each, bare_each)
    row("each pod of it, on the disk", each * left, bare_each)
    for key in sorted(pod, key=lambda key: -size.get(key, 0.0)):
        of = f"acted on, without its pods: {key[0]} of {key[1]}"
        row(of, size.get(key, 0.0) - FEW * pod[key])
        found.append(figure(f"log_bytes/{of}", one.get(key, 0.0) - FEW * pods[key], "messages", "lower"))
    for key in sorted(pod, key=lambda key: -pod[key]):
        if pod[key] > 1:
            of = f"each pod: {key[0]} of {key[1]}"
            row(of, pod[key])
            found.append(figure(f"log_bytes/{of}", pods[key], "messages", "lower"))
    return found


@asynccontextmanager
async def servers() -> AsyncIterator[tuple[Embedded, str, Path]]:
    """An embedded cluster and a nats-server: its URL, and where both keep what they have."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as folder:
        embedded = Embedded(Path(folder))
        nats = EmbeddedServer(Path(folder) / "nats")
        await nats.start()
        try:
            async with embedded.running():
                yield embedded, nats.url, Path(folder)
        finally:
            await nats.stop()


async def measure(rounds: int, every_s: float) -> list[Figure]:
    async with servers() as (embedded, nats_url, folder):
        watched = await follow(embedded, nats_url, rounds, every_s)
        return figures(watched.told, await left_of(watched.records, nats_url, folder / "nats"))


def run(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return asyncio.run(measure(2 if size == "full" else 1, SAMPLE_EVERY_S[size]))


BENCHES = (Bench("log_bytes", run, within_s=600.0),)
