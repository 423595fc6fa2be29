"""The autoscaler: evaluations a second, memory per object, 10,000 objects on their interval, a year's backtest.

decide    samples folded and decided about, in one process without a log: what the decider itself costs
memory    resident memory that an object adds to the fold, with its target and its last sample
interval  the autoscaler as a process on a real log: its share of one core with a sample for every object
          each 15 s, paced over the interval as polls are
sampling  the watcher's sampler: 10,000 distinct queries, one request each, from a metrics API of its own process
backtest  the very same decider over a series, all of it: facts made, pods that become ready, chart
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import uvloop
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from tests.bench.autoscaler_fold import BEGIN, append, bare, objects, samples
from tests.bench.figures import Bench, Figure, Size, figure
from tests.nats_server import EmbeddedServer
from tests.ports import free_port
from tidewright.asking.services import DECIDERS
from tidewright.autoscaler.backtest import LoadModel, Row, backtest
from tidewright.autoscaler.decide import DECIDER
from tidewright.autoscaler.state import State
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.host.process.process import configure_logs
from tidewright.kube.client import Kube
from tidewright.kube.discovery import Discovery
from tidewright.log.clock import Clock
from tidewright.log.connection import Log
from tidewright.log.install import Plan, install_log
from tidewright.log.subjects import Slot, Subjects, slot_of
from tidewright.watcher.appender import WatchPosition
from tidewright.watcher.log_time import Stamp
from tidewright.watcher.sampler import Sampler, Sources

INTERVAL_S = 15.0
DECIDE_TARGET, MEMORY_TARGET_BYTES, CORE_TARGET, BACKTEST_TARGET_S = 25_000.0, 5_000.0, 0.5, 90.0
YEAR = 2_102_400
"""Samples of 15 s."""


def feed(state: State, event: Event) -> State:
    """Fold an event and what is decided about it, in the order of a host."""
    touched = DECIDER.evolve(state, event)
    for decision in list(DECIDER.decide(state, event, touched)):
        DECIDER.evolve(state, decision)
    return state


def filled(autoscalers: int, *, pods: bool) -> State:
    """A fold that holds so many objects, decoded as a host does."""
    state: State = DECIDER.initial()
    for kind, fact in objects(autoscalers):
        if pods or kind != "pod":
            state = feed(state, _decoded(fact))
    return state


def _decoded(event: Event) -> Event:
    found = registry.decode(registry.encode(event))
    assert isinstance(found, Event)
    return found


def decide(size: Size) -> list[Figure]:
    """Evaluations a second of objects with one metric, on one core (processor time)."""
    count, autoscalers = (200_000, 500) if size == "full" else (5_000, 50)
    state = filled(autoscalers, pods=True)
    bodies = [registry.encode(fact) for _, fact in itertools.islice(samples(autoscalers), count)]
    begun = time.process_time()
    facts = [registry.decode(body) for body in bodies]
    decoding = time.process_time() - begun
    for fact in facts[:autoscalers]:
        assert isinstance(fact, Event)
        state = feed(state, fact)  # the first one of each has news to write
    timed = facts[autoscalers:]
    begun = time.process_time()
    for fact in timed:
        assert isinstance(fact, Event)
        state = feed(state, fact)
    rate = len(timed) / (time.process_time() - begun)
    return [
        figure(
            "autoscaler/decide", rate, "evaluations/s", "higher", DECIDE_TARGET,
            baseline="decoding the same facts", baseline_value=count / decoding,
        )
    ]  # fmt: skip


def memory(size: Size) -> list[Figure]:
    """Bytes of resident memory per object; beside it, the object's fact as JSON."""
    autoscalers = 10_000 if size == "full" else 2_000
    facts = [
        registry.encode(fact)
        for kind, fact in itertools.chain(
            objects(autoscalers), itertools.islice(samples(autoscalers), autoscalers)
        )
        if kind != "pod"
    ]
    said = sum(map(len, facts)) / autoscalers
    filled(10, pods=False)  # imports and caches
    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    state: State = DECIDER.initial()
    for body in facts:
        fact = registry.decode(body)
        assert isinstance(fact, Event)
        state = feed(state, fact)
    gc.collect()
    used = (process.memory_info().rss - before) / autoscalers
    assert sum(len(found.objects) for found in state.namespaces.values()) == autoscalers
    return [
        figure(
            "autoscaler/memory per object", used, "bytes", "lower", MEMORY_TARGET_BYTES,
            baseline="its three facts as JSON", baseline_value=said,
        )
    ]  # fmt: skip


def series(count: int) -> Iterator[Row]:
    """Days of load with noise, and a burst now and then."""
    for n in range(count):
        at = BEGIN + INTERVAL_S * n
        day = 150 + 120 * math.sin(at / 86_400 * 2 * math.pi)
        yield at, (day + 20 * math.sin(n * 0.7) + (200 if n % 5_000 < 40 else 0),)


def year(size: Size) -> list[Figure]:
    """Seconds of one core for a year's samples; beside it, the formula alone in a loop over the same series.

    Processor time: nothing is waited for, and whatever else this machine does is not what is measured.
    """
    count = YEAR if size == "full" else YEAR // 100
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "algorithm": "average", "minReplicas": 2, "maxReplicas": 60,
        "metrics": [
            {"type": "External", "external": {
                "metricName": "rps", "metricSelector": {"matchLabels": {"app": "web"}},
                "lowWatermark": "5", "highWatermark": "10",
            }},
        ],
    }  # fmt: skip
    begun = time.process_time()
    _formula_alone(series(count))
    least = time.process_time() - begun
    begun = time.process_time()
    report = backtest(
        spec, series(count), LoadModel(ready_delay_s=30.0), span=(BEGIN, BEGIN + INTERVAL_S * count)
    )
    seconds = time.process_time() - begun
    assert report.samples == count
    assert report.steps
    share = count / YEAR
    return [
        figure(
            "autoscaler/backtest of a year", seconds / share, "s", "lower", BACKTEST_TARGET_S,
            baseline="the formula alone in a loop", baseline_value=least / share,
        )
    ]  # fmt: skip


def _formula_alone(rows: Iterator[Row]) -> int:
    """Marks, ratio, bounds and windows with nothing kept and nothing said: no pods, reasons or conditions."""
    replicas, scaled_at, total = 2, 0.0, 0
    for at, (load,) in rows:
        usage = load / replicas
        wanted = replicas
        if usage > 11:
            wanted = min(
                60, max(replicas, min(math.ceil(replicas * usage / 10), replicas + max(1, replicas // 2)))
            )
        elif usage < 4.5:
            wanted = max(2, min(replicas, max(int(replicas * usage / 5), replicas - max(1, replicas // 5))))
        if wanted != replicas and at - scaled_at >= (60 if wanted > replicas else 300):
            replicas, scaled_at = wanted, at
        total += replicas
    return total


async def interval(autoscalers: int, rounds: int) -> list[Figure]:
    """The process's share of a core while every object is sampled once per interval."""
    with tempfile.TemporaryDirectory(prefix="tidewright-bench-") as name:
        nats = EmbeddedServer(Path(name))
        await nats.start()
        try:
            async with await Log.connect(nats.url, "bench", timeout_s=10.0) as log:
                await install_log(log, Plan(slots=32, deciders=DECIDERS))
                there = [(kind, fact) for kind, fact in objects(autoscalers) if _first_pods(kind, fact.name)]
                await append(log, samples(autoscalers), autoscalers)
                await append(log, iter(there), len(there))
                least = await bare(log, len(there))
                share = await _share(log, nats.url, autoscalers, rounds, len(there) + autoscalers)
        finally:
            await nats.stop()
    return [
        figure(
            f"autoscaler/{autoscalers} objects each {INTERVAL_S:g} s", share, "cores", "lower", CORE_TARGET,
            baseline="bare nats-py consumer of as many messages", baseline_value=autoscalers / least / INTERVAL_S,
        )
    ]  # fmt: skip


def _first_pods(kind: str, name: str) -> bool:
    """Two pods of each object do: more would measure the log's filling."""
    return kind != "pod" or int(name.rpartition("-")[2]) < 2


async def _share(log: Log, nats_url: str, autoscalers: int, rounds: int, before: int) -> float:
    port = free_port()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidewright.cli.main", "run", "autoscaler", "--nats", nats_url, "--cluster", "bench",
        "--health-port", str(port), "--log-level", "warning", env=dict(os.environ),
    )  # fmt: skip
    try:
        process = psutil.Process(child.pid)
        await _until_folded(port, before)
        feeding = samples(autoscalers)
        for _ in range(autoscalers):
            next(feeding)  # what lay there before
        await _round(log, feeding, autoscalers)  # the first answers have news to write
        used, begun = _cpu_s(process), time.perf_counter()
        for _ in range(rounds):
            await _round(log, feeding, autoscalers)
        return (_cpu_s(process) - used) / (time.perf_counter() - begun)
    finally:
        child.terminate()
        await child.wait()


async def _round(log: Log, feeding: Iterator[tuple[str, Event]], autoscalers: int) -> None:
    """One sample for each object, spread over the interval."""
    begun, step = time.perf_counter(), max(1, autoscalers // 100)
    for n in range(0, autoscalers, step):
        await append(log, feeding, step)  # type: ignore[arg-type]  # facts about objects
        wait_s = begun + INTERVAL_S * (n + step) / autoscalers - time.perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _until_folded(port: int, count: int) -> None:
    def folded() -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = [s for f in text_string_to_metric_families(text) for s in f.samples]
        return float(next((s.value for s in found if s.name == "tidewright_events_folded_total"), 0.0))

    async with asyncio.timeout(120):
        while True:
            try:
                if await asyncio.to_thread(folded) >= count:
                    return
            except OSError:
                pass  # it is only starting
            await asyncio.sleep(1.0)


ANSWER = b'{"items":[{"metricName":"rps","value":"7500m","timestamp":"2026-11-21T12:00:00Z"}]}'


def answer() -> None:
    """The child: a metrics API that says one thing. Its first line is its URL."""

    async def say(_: web.BaseRequest) -> web.Response:
        return web.Response(body=ANSWER, content_type="application/json")

    async def main() -> None:
        runner = web.ServerRunner(web.Server(say, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()

    uvloop.run(main())


class _Log:
    """Takes facts and forgets them: what is measured is asking."""

    subjects = Subjects("bench")
    said = 0

    def slot_of(self, namespace: str) -> Slot:
        return slot_of(namespace, 32)

    async def claim(self) -> WatchPosition:
        return WatchPosition(at=0.0)

    async def say(self, facts: Sequence[tuple[str, bytes]], *, resource_version: str, at: float) -> None:
        del resource_version, at
        self.said += len(facts)

    async def stand_by(self) -> None:
        await asyncio.Event().wait()


async def sampling(autoscalers: int) -> list[Figure]:
    """The sampler's share of a core; beside it, the same requests with nothing done about the answers."""
    command = "from tests.bench.autoscaler import answer; answer()"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", command, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    url = (await child.stdout.readline()).decode().strip()
    try:
        async with Kube.at(url) as kube:
            log, clock = _Log(), Clock()
            port: Any = log
            stamp = Stamp(clock.now, time.monotonic, lambda: 1.0)
            sources = Sources(kube=kube, external=kube, resource=kube)
            sampler = Sampler(
                sources, Discovery(kube), port, appender=port, stamp=stamp, clock=clock, interval_s=1e9
            )
            for kind, fact in objects(autoscalers):
                if kind == "watermarkpodautoscaler":
                    sampler.observe(fact)
            begun = time.process_time()
            running = asyncio.create_task(sampler.run())
            while log.said < autoscalers:  # noqa: ASYNC110  # nothing says it
                await asyncio.sleep(0.01)
            used = time.process_time() - begun
            running.cancel()
            begun = time.process_time()
            await asyncio.gather(*(_asked(kube, autoscalers // 32) for _ in range(32)))
            least = time.process_time() - begun
    finally:
        child.terminate()
        await child.wait()
    return [
        figure(
            f"autoscaler/{autoscalers} queries each {INTERVAL_S:g} s", used / INTERVAL_S, "cores", "lower", CORE_TARGET,
            baseline="the requests alone", baseline_value=least / INTERVAL_S,
        )
    ]  # fmt: skip


async def _asked(kube: Kube, count: int) -> None:
    for _ in range(count):
        await kube.request("GET", "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/rps")


def held(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(interval(10_000, 2) if size == "full" else interval(500, 1))


def sampled(size: Size) -> list[Figure]:
    configure_logs("warning", "console")
    return uvloop.run(sampling(10_000 if size == "full" else 500))


BENCHES = (
    Bench("autoscaler_decide", decide),
    Bench("autoscaler_memory", memory),
    Bench("autoscaler_backtest", year, within_s=900.0),
    Bench("autoscaler_interval", held, within_s=600.0),
    Bench("autoscaler_sampling", sampled),
)
