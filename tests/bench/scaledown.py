"""Passes of scale-down over a large cluster: cold, and after one changed pod, in what parts they come, and what that weighs.

The baseline is an evaluation of the same cluster with nothing to do, in the same run. Steps are told in CPU time,
which a shared machine does not stretch.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

import msgspec

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.provisioning_world import MIB, NOW, Played, peak_mib, timed
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.timers import TimerFired
from tidewright.kube.keys import parts
from tidewright.kube.podspecs import digest_of
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.state import State

NODES, PODS, SHAPES = 5_000, 150_000, 200
LITTLE = 0.3
"""Of the nodes so many are used for less than half."""
SCAN = "scan"
ARRIVALS = 100


def little_used(nodes: int, pods: int, shapes: int) -> Iterator[Event]:
    """A cluster of which a part is used little: by 12 pods instead of 37."""
    digests: list[str] = []
    for i in range(shapes):
        requests = {"cpu": 250 + 2 * (i % 40), "memory": (600 + 8 * (i % 30)) * MIB}
        labels = {"app": f"app-{i}"}
        digest = digest_of(requests, {}, "ns", labels, 0)
        digests.append(digest)
        yield f.ShapeObserved(at=NOW, digest=digest, requests=requests, namespace="ns", labels=labels)
    for i in range(shapes):
        yield f.WorkloadObserved(
            at=NOW, namespace="ns", name=f"app-{i}", api_version="apps/v1", kind="ReplicaSet", replicas=9
        )
    allocatable = {"cpu": 16_000, "memory": 64 * 1024 * MIB, "pods": 110}
    groups = max(1, nodes // 100)
    for g in range(groups):
        instances = tuple(
            p.Instance(id=f"sim://n{i:05}", state="running") for i in range(nodes) if i % groups == g
        )
        yield p.NodeGroupObserved(
            at=NOW,
            name=f"group-{g:03}",
            max_size=len(instances) + 1000,
            target_size=len(instances),
            instances=instances,
            template=p.TemplateNode(labels={"pool": f"{g}"}, allocatable=allocatable),
            price_micro=700_000 + 1_000 * g,
        )
    for i in range(nodes):
        yield f.NodeObserved(
            at=NOW,
            name=f"n{i:05}",
            uid=f"u-n{i:05}",
            labels={"kubernetes.io/hostname": f"n{i:05}", "pool": f"{i % groups}"},
            allocatable=allocatable,
            ready=True,
            ready_changed_at=NOW - 3600,
            created_at=NOW - 7200,
            provider_id=f"sim://n{i:05}",
            delays=(),
        )
    few = int(nodes * LITTLE)
    many = (pods - 12 * few) // (nodes - few)
    number = 0
    for i in range(nodes):
        for _ in range(12 if i < few else many):
            yield pod(number, digests[(number * 7) % shapes], f"n{i:05}", number * 7 % shapes)
            number += 1


def pod(number: int, shape: str, node: str, app: int) -> f.PodObserved:
    owner = f.Owner(
        api_version="apps/v1", kind="ReplicaSet", name=f"app-{app}", uid=f"a{app}", controller=True
    )
    return f.PodObserved(
        at=NOW,
        namespace="ns",
        name=f"p{number:06}",
        uid=f"u{number}",
        shape=shape,
        phase="Running",
        node=node,
        created_at=NOW - 300,
        owners=(owner,),
        removal=f.Removal(),
    )


class Scanned(Played):
    """The decider, whose passes are made part by part.

    Attributes:
        ordered: what was taken last ordered nodes.
    """

    ordered = False

    def a_pass(self, between: Callable[[int], Event] | None = None) -> list[float]:
        """Milliseconds of each part of the next pass; `between` says what comes after each of them."""
        parts: list[float] = []
        begun = None
        while True:
            due = self.fold.timers.get(SCAN)
            if due is None or (begun is not None and due > begun + 1.0):
                return parts
            self.now = max(self.now, due)
            begun = begun if begun is not None else due
            start = time.process_time()
            self.tell(TimerFired(at=due, key=SCAN))
            parts.append((time.process_time() - start) * 1000)
            if between is not None:
                self.tell(between(len(parts)))


def told(nodes: int, pods: int, config: JsonObject) -> Scanned:
    """The cluster, read event by event from bodies as a log gives them."""
    cluster = Scanned()
    cluster.tell(ConfigSet(at=NOW, name="provisioning", data=config))
    for event in little_used(nodes, pods, SHAPES):
        body = registry.encode(event)
        cluster.seq += 1
        cluster.fold.step(cluster.seq, body, registry.decode(body))
    while "evaluate" in cluster.fold.timers and cluster.fold.timers["evaluate"] < NOW + 5:
        cluster.fire()
    return cluster


def _evaluated(state: State) -> None:
    Evaluation(state, "bench", binding=False).run()


def of_size(size: Size) -> tuple[int, int]:
    """Nodes and pods."""
    return (NODES, PODS) if size == "full" else (NODES // 10, PODS // 10)


def finding(nodes: int, pods: int, parallelism: int) -> Scanned:
    """The cluster, of which a pass may find twice so many nodes."""
    return told(nodes, pods, {"max-scale-down-parallelism": parallelism, "scale-down-unneeded-time": "1h"})


def passes(size: Size) -> list[Figure]:
    """A full pass from a cold state, and one after one changed pod; beside one evaluation of the same cluster."""
    nodes, pods = of_size(size)
    figures: list[Figure] = []
    for name, parallelism in (("default limits", 10), ("400 nodes found", 200), ("1,000 nodes found", 500)):
        cluster = finding(nodes, pods, parallelism)
        state = cluster.fold.state
        evaluation_ms = timed(partial(_evaluated, state), 3)
        gc.collect()
        gc.freeze()  # as a service does once it has read its state
        cold = cluster.a_pass()
        values: list[tuple[str, float, float | None]] = [
            ("full pass from cold", sum(cold), 1000.0),
            ("longest step", max(cold), 50.0),
        ]
        if parallelism == 10:  # with more, the next pass goes on finding as many
            values.append(("after one changed pod", statistics.median(_changed(cluster, nodes)), 20.0))
        figures += [
            figure(f"scale-down/{name}: {what}", value, "ms", "lower", target,
                   baseline="one evaluation of the same cluster", baseline_value=evaluation_ms)
            for what, value, target in values
        ]  # fmt: skip
    figures += _disturbed(nodes, pods, evaluation_ms)
    return figures


def _disturbed(nodes: int, pods: int, evaluation_ms: float) -> list[Figure]:
    """A full pass of which no part may go on from the one before: a pod has come in between each time."""
    cluster = finding(nodes, pods, 500)
    shape = next(iter(cluster.fold.state.shapes))
    gc.collect()
    gc.freeze()

    def comes(part: int) -> Event:
        return msgspec.structs.replace(pod(pods + part, shape, f"n{nodes - part:05}", 0), at=cluster.now)

    parts = cluster.a_pass(comes)
    named = (("full pass from cold", sum(parts), 1000.0), ("longest step", max(parts), 50.0))
    return [
        figure(f"scale-down/1,000 nodes found, a pod comes between parts: {what}", value, "ms", "lower", target,
               baseline="one evaluation of the same cluster", baseline_value=evaluation_ms)
        for what, value, target in named
    ]  # fmt: skip


def _changed(cluster: Scanned, nodes: int) -> list[float]:
    """Milliseconds of passes of which each comes after one pod has moved."""
    index = index_of(cluster.fold.state)
    key = next(iter(index.on_node[f"n{nodes - 1:05}"]))
    moved = cluster.fold.state.pods[key]
    namespace, name = parts(key)
    taken: list[float] = []
    for to in range(2, 11):
        cluster.now += 1
        fact = pod(0, moved.shape, f"n{nodes - to:05}", 0)
        cluster.tell(
            msgspec.structs.replace(fact, at=cluster.now, namespace=namespace, name=name, uid=moved.uid)
        )
        taken.append(sum(cluster.a_pass()))
    return taken


def weight(size: Size) -> list[Figure]:
    """What the process weighs at most that has read the cluster and made a full pass; beside it, before the pass."""
    nodes, pods = of_size(size)
    cluster = finding(nodes, pods, 10)
    gc.collect()
    before = peak_mib()
    cluster.a_pass()
    return [
        figure(f"scale-down/{nodes:,} nodes, {pods:,} pods: memory of the process", peak_mib(), "MiB", "lower",
               400.0, baseline="before the pass", baseline_value=before),
    ]  # fmt: skip


def beside(size: Size) -> list[Figure]:
    """From a pod that nothing can hold to its order, while passes of scale-down are made and all is planned at least cost.

    One thing after the other, as in the host: what comes during a part of a pass, or is due then, waits for its end. Waits are in
    time of the log, and what is computed takes as long in it as it took the processor. The commit of the log is not among it.
    """
    nodes, pods = of_size(size)
    config: JsonObject = {"profile": "hold", "scan-interval": "1s", "scale-down-unneeded-time": "1h"}
    cluster = told(nodes, pods, config)
    free = cluster.now
    free = _until(cluster, free, cluster.now + 30)
    gc.collect()
    gc.freeze()
    big = {"cpu": 15_900, "memory": 1024 * MIB}
    digest = digest_of(big, {}, "ns", {}, 0)
    cluster.tell(f.ShapeObserved(at=cluster.now, digest=digest, requests=big, namespace="ns"))
    rng, come, waits_ms, met = random.Random(5), cluster.now + 1.0, [], 0
    for i in range(ARRIVALS):
        come += 0.5 + rng.random()
        free = _until(cluster, free, come)
        if i % 2 and (due := cluster.fold.timers.get(SCAN)) is not None:  # as a part of a pass has just begun
            come = due + 0.0001
            free = _until(cluster, free, come)
        met += free > come
        fact = f.PodObserved(
            at=come, namespace="ns", name=f"new{i}", shape=digest, phase="Pending", created_at=come, unschedulable_since=come,
        )  # fmt: skip
        began = time.process_time()
        cluster.tell(fact)
        free = max(free, come) + time.process_time() - began
        while not cluster.ordered:
            free = _take(cluster, free, min(cluster.fold.timers.values()))
        cluster.ordered = False
        waits_ms.append((free - come) * 1000)
    waits_ms.sort()
    what = f"scale-down/{nodes:,} nodes, {pods:,} pods: pending pod to order beside passes, at least cost"
    return [
        figure(f"{what}, p50", waits_ms[len(waits_ms) // 2], "ms", "lower", 70.0,
               baseline="the quiet window alone", baseline_value=index_of(cluster.fold.state).settings.quiet_s * 1000),
        figure(f"{what}, p99", waits_ms[len(waits_ms) * 99 // 100], "ms", "lower", 110.0),
        figure(f"{what}: pods that waited for a step's end", met, "pods", "higher"),
    ]  # fmt: skip


def _until(cluster: Scanned, free: float, at: float) -> float:
    """Fire what is due up to a time; when the process is free again."""
    while (due := min(cluster.fold.timers.values(), default=inf)) <= at:
        free = _take(cluster, free, due)
    return free


def _take(cluster: Scanned, free: float, due: float) -> float:
    """Fire the timer that is due first; when the process is free again."""
    key = min(cluster.fold.timers, key=lambda key: (cluster.fold.timers[key], key))
    began = time.process_time()
    decisions = cluster.tell(TimerFired(at=due, key=key))
    cluster.now = max(cluster.now, due)
    cluster.ordered = any(isinstance(decision, p.IncreaseNodeGroup) for decision in decisions)
    return max(free, due) + time.process_time() - began


BENCHES = (
    Bench("scale-down-passes", passes),
    Bench("scale-down-memory", weight),
    Bench("scale-down-beside", beside),
)
