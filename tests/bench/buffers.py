"""A thousand CapacityBuffers on a cluster of 5,000 nodes: what an event costs with them, and without, in the same process.

Each has a template of its own, made by seed, of which admission is asked; a fifth looks at a schedule, a fifth at pods that wait.
"""

from __future__ import annotations

import gc
import statistics
import time
from random import Random

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.provisioning_world import MIB, cluster_events, peak_mib
from tests.vectors.capacity_buffers import Buffers, pod_spec, priority_class
from tidewright.events import facts as f
from tidewright.kube.podspecs import digest_of
from tidewright.provisioning.buffers.extras import FOR, SCHEDULE

BASELINE = "without buffers"


def a_thousand(size: Size) -> list[Figure]:
    """Told all at once, then one event at a time; in both profiles."""
    return [figure_ for profile in ("compat", "hold") for figure_ in measured(size, profile)]


def measured(size: Size, profile: str) -> list[Figure]:
    scale = 20 if size == "small" else 1
    nodes, buffers = 5000 // scale, 1000 // scale
    cluster = Buffers({"profile": profile, "quiet-window": 0.1, "scale-down-enabled": False})
    cluster.tell(priority_class(cluster.now))
    for event in cluster_events(nodes, 20 * nodes, 200):
        cluster.tell(event)
    cluster.settle()
    without_ms = one_by_one(cluster, "before")
    gc.collect()
    before = peak_mib()
    start = time.perf_counter()
    add(cluster, buffers)
    cluster.settle()
    all_s = time.perf_counter() - start
    cluster.advance(30)
    ready = sum(buffer.ready for buffer in cluster.state.buffers.values())
    wanted = sum(buffer.wanted for buffer in cluster.state.buffers.values())
    with_ms = one_by_one(cluster, "after")
    gc.collect()
    what = f"buffers/{buffers:,} on {nodes:,} nodes, {profile}"
    return [
        figure(f"{what}: all told at once, to their room", all_s, "s", "lower", 30.0),
        figure(f"{what}: chunks that have room", ready, "chunks", "higher", wanted),
        figure(f"{what}: an evaluation for a pod, p50", statistics.median(with_ms), "ms", "lower", 250.0,
               baseline=BASELINE, baseline_value=statistics.median(without_ms)),
        figure(f"{what}: an evaluation for a pod, the longest", max(with_ms), "ms", "lower",
               baseline=BASELINE, baseline_value=max(without_ms)),
        figure(f"{what}: memory for them", peak_mib() - before, "MiB", "lower", 150.0,
               baseline="the process before", baseline_value=before),
    ]  # fmt: skip


def add(cluster: Buffers, buffers: int) -> None:
    """Buffers of one to ten chunks, each with its template."""
    chance = Random(3)
    for number in range(buffers):
        requests = {"cpu": f"{chance.randint(2, 40) * 50}m", "memory": f"{chance.randint(1, 64) * 64}Mi"}
        cluster.pod_template(f"t{number:04}", pod_spec(requests))
        notes = {0: {SCHEDULE: "0 0 * * * 24h"}, 1: {FOR: f"app=app-{number % 200}"}}.get(number % 5, {})
        spec = {"podTemplateRef": {"name": f"t{number:04}"}, "replicas": chance.randint(1, 10)}
        cluster.buffer(f"b{number:04}", spec, annotations=notes)


def one_by_one(cluster: Buffers, prefix: str) -> list[float]:
    """Pods that wait, get their node and go: milliseconds of the evaluation when one waits."""
    requests = {"cpu": 500, "memory": 512 * MIB}
    digest = digest_of(requests, {}, "ns", {"app": "app-1"}, 0)
    cluster.tell(
        f.ShapeObserved(
            at=cluster.now, digest=digest, requests=requests, namespace="ns", labels={"app": "app-1"}
        )
    )
    taken_ms: list[float] = []
    for number in range(9):
        name = f"{prefix}-{number}"
        start = time.perf_counter()
        cluster.pod(name, digest)
        cluster.advance(0.5)
        taken_ms.append((time.perf_counter() - start) * 1000)
        cluster.pod(name, digest, node=f"n{number:05}")
        cluster.advance(20.0)
        cluster.tell(f.PodGone(at=cluster.now, namespace="ns", name=name))
        cluster.advance(20.0)
    return taken_ms


BENCHES = (Bench("buffers", a_thousand),)
