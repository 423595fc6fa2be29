"""Passes of scale-down over a large cluster: cold, after nothing and after one changed pod, in what parts they come.

The baseline is an evaluation of the same cluster with nothing to do, in the same run. Steps are told in CPU time,
which a shared machine does not stretch.
"""

from __future__ import annotations

import gc
import time
from functools import partial

import msgspec

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.provisioning_world import MIB, NOW, Played, timed
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.timers import TimerFired
from tidewright.kube.podspecs import digest_of
from tidewright.provisioning.evaluate import Evaluation
from tidewright.provisioning.state import State

NODES, PODS, SHAPES = 5_000, 150_000, 200
LITTLE = 0.3
"""Of the nodes so many are used for less than half."""
SCAN = "scan"


def little_used(nodes: int, pods: int, shapes: int) -> list[Event]:
    """A cluster of which a part is used little: by 12 pods instead of 37."""
    found: list[Event] = []
    digests: list[str] = []
    for i in range(shapes):
        requests = {"cpu": 250 + 2 * (i % 40), "memory": (600 + 8 * (i % 30)) * MIB}
        labels = {"app": f"app-{i}"}
        digest = digest_of(requests, {}, "ns", labels, 0)
        digests.append(digest)
        found.append(f.ShapeObserved(at=NOW, digest=digest, requests=requests, namespace="ns", labels=labels))
    found += [
        f.WorkloadObserved(
            at=NOW, namespace="ns", name=f"app-{i}", api_version="apps/v1", kind="ReplicaSet", replicas=9
        )
        for i in range(shapes)
    ]
    allocatable = {"cpu": 16_000, "memory": 64 * 1024 * MIB, "pods": 110}
    groups = max(1, nodes // 100)
    for g in range(groups):
        instances = tuple(
            p.Instance(id=f"sim://n{i:05}", state="running") for i in range(nodes) if i % groups == g
        )
        found.append(
            p.NodeGroupObserved(
                at=NOW,
                name=f"group-{g:03}",
                max_size=len(instances) + 1000,
                target_size=len(instances),
                instances=instances,
                template=p.TemplateNode(labels={"pool": f"{g}"}, allocatable=allocatable),
            )
        )
    for i in range(nodes):
        found.append(
            f.NodeObserved(
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
        )
    few = int(nodes * LITTLE)
    many = (pods - 12 * few) // (nodes - few)
    number = 0
    for i in range(nodes):
        for _ in range(12 if i < few else many):
            found.append(pod(number, digests[(number * 7) % shapes], f"n{i:05}", number * 7 % shapes))
            number += 1
    return found


def pod(number: int, shape: str, node: str, app: int) -> Event:
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
    """The decider, whose passes are made part by part."""

    def a_pass(self) -> list[float]:
        """Milliseconds of each part of the next pass."""
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


def told(events: list[Event], config: JsonObject) -> Scanned:
    cluster = Scanned()
    cluster.tell(ConfigSet(at=NOW, name="provisioning", data=config))
    for event in events:
        cluster.tell(event)
    while "evaluate" in cluster.fold.timers and cluster.fold.timers["evaluate"] < NOW + 5:
        cluster.fire()
    return cluster


def _evaluated(state: State) -> None:
    Evaluation(state, "bench", binding=False).run()


def passes(size: Size) -> list[Figure]:
    """A full pass from a cold state, and one after one changed pod; beside one evaluation of the same cluster."""
    nodes, pods = (NODES, PODS) if size == "full" else (NODES // 10, PODS // 10)
    figures: list[Figure] = []
    for name, parallelism in (("default limits", 10), ("400 nodes found", 200), ("1,000 nodes found", 500)):
        events = little_used(nodes, pods, SHAPES)
        cluster = told(events, {"max-scale-down-parallelism": parallelism, "scale-down-unneeded-time": "1h"})
        state = cluster.fold.state
        evaluation_ms = timed(partial(_evaluated, state), 3)
        gc.collect()
        gc.freeze()  # as a service does once it has read its state
        cold = cluster.a_pass()
        values: list[tuple[str, float, float | None]] = [
            ("full pass from cold", sum(cold), 1000.0 if parallelism <= 200 else None),
            ("longest step", max(cold), 50.0),
        ]
        if parallelism == 10:  # with more, the next pass goes on finding as many
            cluster.now += 1
            cluster.tell(msgspec.structs.replace(events[-1], at=cluster.now, node=f"n{nodes - 9:05}"))
            values.append(("after one changed pod", sum(cluster.a_pass()), 20.0))
        figures += [
            figure(f"scale-down/{name}: {what}", value, "ms", "lower", target,
                   baseline="one evaluation of the same cluster", baseline_value=evaluation_ms)
            for what, value, target in values
        ]  # fmt: skip
    return figures


BENCHES = (Bench("scale-down-passes", passes),)
