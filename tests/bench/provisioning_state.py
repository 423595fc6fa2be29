"""A cluster of 5,000 nodes and 150,000 pods in one process: folded, restored, and deciding."""

from __future__ import annotations

import gc
import statistics
import time

import msgspec

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.provisioning_world import MIB, NOW, Played, cluster_events, peak_mib
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.kube.podspecs import digest_of
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.state import State


def big_state(size: Size) -> list[Figure]:
    """Fold from bodies, memory, snapshot, and from a pod that nothing can hold to its order."""
    scale = 10 if size == "small" else 1
    nodes, pods = 5000 // scale, 150_000 // scale
    # Bodies come as the log gives them, one after the other: only the state is kept.
    played = Played()
    seconds = baseline = 0.0
    for event in cluster_events(nodes, pods, 200):
        body = registry.encode(event)
        start = time.perf_counter()
        decoded = registry.decode(body)
        middle = time.perf_counter()
        played.seq += 1
        played.fold.step(played.seq, body, decoded)
        seconds += time.perf_counter() - start
        baseline += middle - start
    gc.collect()
    memory = peak_mib()
    body = msgspec.json.encode(played.fold.state)
    start = time.perf_counter()
    restored = msgspec.json.decode(body, type=State)
    index_of(restored)
    from_snapshot = time.perf_counter() - start
    del body, restored
    played.now = NOW + 1000
    played.fire()
    what = f"provisioning/{nodes:,} nodes, {pods:,} pods"
    return [
        figure(f"{what}: folded from the log's bodies", seconds, "s", "lower", 30.0,
               baseline="decoding alone", baseline_value=baseline),
        figure(f"{what}: memory of the process", memory, "MiB", "lower", 600.0),
        figure(f"{what}: from a snapshot", from_snapshot, "s", "lower", 5.0,
               baseline="folded", baseline_value=seconds),
        *reaction(what, played),
    ]  # fmt: skip


def reaction(what: str, played: Played) -> list[Figure]:
    """From a pod that nothing can hold to the order, the quiet window included."""
    waits_ms: list[float] = []
    busy_ms: list[float] = []
    big = {"cpu": 15_900, "memory": 1024 * MIB}
    digest = digest_of(big, {}, "ns", {}, 0)
    played.tell(f.ShapeObserved(at=played.now, digest=digest, requests=big, namespace="ns"))
    for i in range(40):
        played.now += 20
        while played.fold.timers.get("evaluate", played.now + 1) <= played.now:
            played.fire()
        at = played.now
        fact = f.PodObserved(
            at=at, namespace="ns", name=f"new{i}", shape=digest, phase="Pending",
            created_at=at, unschedulable_since=at,
        )  # fmt: skip
        start = time.perf_counter()
        played.tell(fact)
        due = played.fold.timers["evaluate"]
        decisions = played.fire()
        taken_s = time.perf_counter() - start
        if not any(isinstance(d, p.IncreaseNodeGroup) for d in decisions):
            raise RuntimeError("a pod that fits nowhere caused no order")
        busy_ms.append(taken_s * 1000)
        waits_ms.append((due - at + taken_s) * 1000)
    waits_ms.sort()
    window_ms = statistics.median(waits_ms) - statistics.median(busy_ms)
    return [
        figure(f"{what}: pending pod to order, p50", waits_ms[len(waits_ms) // 2], "ms", "lower", 150.0,
               baseline="the quiet window alone", baseline_value=window_ms),
        figure(f"{what}: pending pod to order, p99", waits_ms[-1], "ms", "lower", 500.0),
        figure(f"{what}: pending pod to order, computing", statistics.median(busy_ms), "ms", "lower"),
    ]  # fmt: skip


BENCHES = (Bench("provisioning-state", big_state),)
