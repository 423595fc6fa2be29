"""Packing: how fast, beside a pod-by-pod first-fit decreasing in the same run.

    python -m tests.bench.packing [--quick]

Prints one line per figure: what, measured, bound, verdict. The exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.events.timers import TimerFired
from tidewright.host.fold import Fold
from tidewright.kube.predicates import NodeView, PodShape, digest_of, of_fields
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.pack.classes import Item, items
from tidewright.provisioning.pack.estimate import Template, estimate
from tidewright.provisioning.state import State

MIB = 2**20
NOW = 1_790_000_000.0


class Report:
    """Lines of figures, and whether all bounds held."""

    def __init__(self) -> None:
        self.good = True

    def line(self, what: str, value: float, unit: str, bound: float | None = None) -> None:
        verdict = ""
        if bound is not None:
            held = value <= bound
            self.good &= held
            verdict = f"  bound {bound:g} {unit}: {'ok' if held else 'MISSED'}"
        print(f"{what:<72} {value:12.3f} {unit}{verdict}")


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


def first_fit_decreasing(pods: Sequence[tuple[int, int]], node: tuple[int, int, int], limit: int) -> int:
    """The baseline: every pod on its own, largest first, onto the first node with room."""
    nodes: list[list[int]] = []
    for cpu, memory in sorted(pods, key=lambda r: -(r[0] / node[0] + r[1] / node[1])):
        for free in nodes:
            if free[0] >= cpu and free[1] >= memory and free[2] > 0:
                break
        else:
            if len(nodes) == limit:
                continue
            free = list(node)
            nodes.append(free)
        free[0] -= cpu
        free[1] -= memory
        free[2] -= 1
    return len(nodes)


def shape(cpu: int, memory_mib: int, **more: int) -> PodShape:
    return of_fields(requests={"cpu": cpu, "memory": memory_mib * MIB, **more}, scheduling={}, namespace="ns")


def template(cpu: int, memory_mib: int, pods: int) -> Template:
    return Template(
        view=NodeView(name="t", allocatable={"cpu": cpu, "memory": memory_mib * MIB, "pods": pods})
    )


def two_shapes(report: Report, quick: bool) -> None:
    small, large = shape(50, 100), shape(95, 190)
    node = template(1000, 5000, 100)
    wanted = [Item(small, 50_000), Item(large, 1_000)]
    found = estimate(wanted, node, 3000)
    report.line("50,000 + 1,000 pods, two shapes: nodes", found.nodes, "", 2595)
    report.line("  pods left out", 51_000 - found.pods, "", 0)
    report.line("  from shapes", timed(lambda: estimate(wanted, node, 3000), 50), "ms", 1.0)
    facts = [
        f.PodObserved(at=NOW, namespace="ns", name=f"p{i}", shape=(small if i % 51 else large).digest)
        for i in range(51_000)
    ]
    shapes = {small.digest: small, large.digest: large}

    def from_pods() -> int:
        counted = items((shapes[pod.shape], 1) for pod in facts)
        return estimate(counted, node, 3000).nodes

    report.line("  from 51,000 decoded pods", timed(from_pods), "ms", 200.0)
    pods = [(50, 100)] * 50_000 + [(95, 190)] * 1_000
    if quick:
        pods = pods[:5000]
    start = time.perf_counter()
    nodes = first_fit_decreasing(pods, (1000, 5000, 100), 3000)
    taken = (time.perf_counter() - start) * 1000
    report.line(f"  baseline: pod by pod, {len(pods)} pods onto {nodes} nodes", taken, "ms")


def many_shapes(report: Report) -> None:
    rng = random.Random(7)
    wanted = [Item(shape(rng.randint(50, 8000), rng.randint(50, 20_000)), 16_384) for _ in range(32)]
    nodes = [template(8000 + g * 1000, 32_000 + g * 500, 110) for g in range(50)]
    gc.collect()
    before = peak_mib()
    taken = timed(lambda: [estimate(wanted, node) for node in nodes], 3)
    report.line("32 shapes x 16,384 pods over 50 groups", taken, "ms", 1000.0)
    report.line("  memory above what was there", peak_mib() - before, "MiB", 200.0)


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


def big_state(report: Report, nodes: int, pods: int) -> None:
    gc.collect()
    before = peak_mib()
    events = cluster_events(nodes, pods, 200)
    bodies = [registry.encode(event) for event in events]
    del events
    played = Played()
    start = time.perf_counter()
    for body in bodies:
        event = registry.decode(body)
        played.seq += 1
        played.fold.step(played.seq, body, event)
    report.line(f"{nodes} nodes, {pods} pods: folded from bodies", time.perf_counter() - start, "s", 30.0)
    del bodies
    gc.collect()
    report.line("  memory above what was there, bodies included", peak_mib() - before, "MiB", 600.0)
    import msgspec

    body = msgspec.json.encode(played.fold.state)
    start = time.perf_counter()
    restored = msgspec.json.decode(body, type=State)
    from tidewright.provisioning.state import index_of

    index_of(restored)
    report.line(f"  from a snapshot of {len(body) / MIB:.0f} MiB", time.perf_counter() - start, "s", 5.0)
    del body, restored
    played.now = NOW + 1000
    played.fire()
    pending(report, played)


def pending(report: Report, played: Played) -> None:
    """From a pod that nothing can hold to the order, the quiet window included."""
    waits: list[float] = []
    busy: list[float] = []
    big = {"cpu": 15_900, "memory": 1024 * MIB}
    digest = digest_of(big, {}, "ns", {}, 0)
    played.tell(f.ShapeObserved(at=played.now, digest=digest, requests=big, namespace="ns"))
    for i in range(40):
        played.now += 20
        while played.fold.timers.get("evaluate", played.now + 1) <= played.now:
            played.fire()
        at = played.now
        fact = f.PodObserved(
            at=at,
            namespace="ns",
            name=f"new{i}",
            shape=digest,
            phase="Pending",
            created_at=at,
            unschedulable_since=at,
        )
        gc.collect()
        start = time.perf_counter()
        played.tell(fact)
        due = played.fold.timers["evaluate"]
        decisions = played.fire()
        taken = time.perf_counter() - start
        ordered = any(isinstance(d, p.IncreaseNodeGroup) for d in decisions)
        if not ordered:
            raise SystemExit("a pod that fits nowhere caused no order")
        busy.append(taken * 1000)
        waits.append((due - at + taken) * 1000)
    waits.sort()
    report.line("  pending pod to order, p50", waits[len(waits) // 2], "ms", 150.0)
    report.line("  pending pod to order, p99", waits[-1], "ms", 500.0)
    report.line("    of which computing, median", statistics.median(busy), "ms")


def many_requests(report: Report, count: int) -> None:
    played = Played()
    for event in cluster_events(200, 2000, 20):
        played.tell(event)
    played.tell(
        p.PodTemplateObserved(
            at=NOW,
            namespace="ns",
            name="t",
            template={"spec": {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}},
        )
    )
    start = time.perf_counter()
    for i in range(count):
        played.tell(
            p.ProvisioningRequestObserved(
                at=NOW,
                namespace="ns",
                name=f"r{i}",
                uid=f"u{i}",
                generation=1,
                created_at=NOW,
                spec={
                    "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
                    "podSets": [{"count": 2, "podTemplateRef": {"name": "t"}}],
                },
            )
        )
    answered = 0
    for _ in range(50):
        answered += sum(isinstance(d, p.AttemptRequest) for d in played.fire())
        if answered >= count:
            break
    report.line(f"{count} small requests at once: answered", answered, "")
    report.line("  all answered after", time.perf_counter() - start, "s", 20.0)
    report.good &= answered >= count


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes, for a smoke test")
    options = parser.parse_args(arguments)
    report = Report()
    scale = 10 if options.quick else 1
    two_shapes(report, options.quick)
    many_shapes(report)
    many_requests(report, 1000 // scale)
    big_state(report, 5000 // scale, 150_000 // scale)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
