"""What the benchmarks of provisioning share: a decider under the fold, and a cluster as facts."""

from __future__ import annotations

import random
import resource
import statistics
import time
from collections.abc import Callable

from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.events.timers import TimerFired
from tidewright.host.fold.order import Fold
from tidewright.kube.podspecs import digest_of
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.state import State

MIB = 2**20
NOW = 1_790_000_000.0


def timed(work: Callable[[], object], repeat: int = 5) -> float:
    """The median of some runs, in milliseconds."""
    found = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Played:
    """The decider under the fold, with events as they come from the log."""

    def __init__(self) -> None:
        self.fold: Fold[State] = Fold(DECIDER, ALL)
        self.seq = 0
        self.now = NOW

    def tell(self, event: Event) -> list[Event]:
        self.seq += 1
        return [d.decision for d in self.fold.step(self.seq, b"", event)]

    def fire(self) -> list[Event]:
        due = self.fold.timers["evaluate"]
        self.now = max(self.now, due)
        return self.tell(TimerFired(at=due, key="evaluate"))


def cluster_events(nodes: int, pods: int, shapes: int) -> list[Event]:
    """A running cluster: groups of 100 nodes, pods of so many shapes."""
    rng = random.Random(11)
    found: list[Event] = []
    digests: list[str] = []
    for i in range(shapes):
        requests = {"cpu": 50 + 10 * (i % 40), "memory": (64 + 16 * (i % 30)) * MIB}
        labels = {"app": f"app-{i}"}
        digest = digest_of(requests, {}, "ns", labels, 0)
        digests.append(digest)
        found.append(f.ShapeObserved(at=NOW, digest=digest, requests=requests, namespace="ns", labels=labels))
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
                labels={"kubernetes.io/hostname": f"n{i:05}", "pool": f"{i % groups}"},
                allocatable=allocatable,
                ready=True,
                ready_changed_at=NOW - 600,
                created_at=NOW - 900,
                provider_id=f"sim://n{i:05}",
            )
        )
    for i in range(pods):
        found.append(
            f.PodObserved(
                at=NOW,
                namespace="ns",
                name=f"p{i:06}",
                uid=f"u{i}",
                shape=digests[rng.randrange(shapes)],
                phase="Running",
                node=f"n{i % nodes:05}",
                created_at=NOW - 300,
            )
        )
    return found
