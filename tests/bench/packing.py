"""Packing: from shapes and from pods, beside a pod-by-pod first-fit decreasing in the same run."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Sequence

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.provisioning_world import MIB, NOW, peak_mib, timed
from tidewright.events import facts as f
from tidewright.kube.podshape import NodeView, PodShape
from tidewright.kube.podspecs import of_fields
from tidewright.provisioning.pack.classes import Item, items
from tidewright.provisioning.pack.estimate import estimate
from tidewright.provisioning.pack.templates import Template

BASELINE = "pod by pod, first fit decreasing"


def first_fit_decreasing(pods: Sequence[tuple[int, int]], node: tuple[int, int, int], limit: int) -> int:
    """The baseline: every pod on its own, largest first, onto the first node with room."""
    nodes: list[list[int]] = []
    for cpu, memory in sorted(pods, key=lambda r: -(r[0] / node[0] + r[1] / node[1])):
        for free in nodes:
            if free[0] >= cpu and free[1] >= memory and free[2] > 0:
                break
        else:
            if 0 < limit == len(nodes):
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


def two_shapes(size: Size) -> list[Figure]:
    """50,000 + 1,000 pods of two shapes (spec 6.1)."""
    scale = 10 if size == "small" else 1
    small, large = shape(50, 100), shape(95, 190)
    node = template(1000, 5000, 100)
    wanted = [Item(small, 50_000 // scale), Item(large, 1_000 // scale)]
    found = estimate(wanted, node, 3000)
    facts = [
        f.PodObserved(at=NOW, namespace="ns", name=f"p{i}", shape=(small if i % 51 else large).digest)
        for i in range(51_000 // scale)
    ]
    shapes = {small.digest: small, large.digest: large}
    pods = [(50, 100 * MIB)] * (50_000 // scale) + [(95, 190 * MIB)] * (1_000 // scale)
    start = time.perf_counter()
    nodes = first_fit_decreasing(pods, (1000, 5000 * MIB, 100), 3000)
    taken_ms = (time.perf_counter() - start) * 1000

    def from_pods() -> int:
        counted = items((shapes[pod.shape], 1) for pod in facts)
        return estimate(counted, node, 3000).nodes

    return [
        figure("packing/two shapes: nodes", found.nodes, "nodes", "lower", 2595 if scale == 1 else None,
               baseline=BASELINE, baseline_value=nodes),
        figure("packing/two shapes: pods left out", 51_000 // scale - found.pods, "pods", "lower", 0),
        figure("packing/two shapes: from shapes", timed(lambda: estimate(wanted, node, 3000), 50), "ms", "lower", 1.0,
               baseline=BASELINE, baseline_value=taken_ms),
        figure("packing/two shapes: from decoded pods", timed(from_pods), "ms", "lower", 200.0,
               baseline=BASELINE, baseline_value=taken_ms),
    ]  # fmt: skip


def many_shapes(size: Size) -> list[Figure]:
    """32 shapes of 16,384 pods each, over 50 groups."""
    rng = random.Random(7)
    each = 16_384 if size == "full" else 1_638
    wanted = [Item(shape(rng.randint(50, 8000), rng.randint(50, 20_000)), each) for _ in range(32)]
    nodes = [template(8000 + g * 1000, 32_000 + g * 500, 110) for g in range(50 if size == "full" else 5)]
    gc.collect()
    before = peak_mib()
    taken_ms = timed(lambda: [estimate(wanted, node) for node in nodes], 3)
    memory = peak_mib() - before
    # The baseline takes one group of 50 and a hundredth of the pods: it would take minutes.
    some = [(i.shape.requests["cpu"], i.shape.requests["memory"]) for i in wanted for _ in range(each // 100)]
    start = time.perf_counter()
    first_fit_decreasing(some, (8000, 32_000 * MIB, 110), 0)
    one_ms = (time.perf_counter() - start) * 1000
    return [
        figure(
            "packing/32 shapes x 16,384 pods x 50 groups", taken_ms, "ms", "lower", 1000.0,
            baseline=f"{BASELINE}, one group, 1 % of the pods", baseline_value=one_ms,
        ),
        figure("packing/32 shapes x 16,384 pods x 50 groups: memory", memory, "MiB", "lower", 200.0),
    ]  # fmt: skip


BENCHES = (Bench("packing-two-shapes", two_shapes), Bench("packing-many-shapes", many_shapes))
