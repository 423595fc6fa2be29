"""A spread over 20,000 pods: folding one event, ranking everybody for a scale-in, and what a pod costs.

The baseline of folding is decoding the same facts and keeping the last one per pod in a dict: what any
consumer of the log has to do at least. Nothing is waited for here, so times are of the processor: on a shared
machine the others would be measured, too.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

from tests.bench.figures import Bench, Figure, Size, figure
from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.events.facts import Owner, PodObserved, WorkloadObserved
from tidewright.events.spread import WorkloadSpreadObserved
from tidewright.spread.decide import DECIDER
from tidewright.spread.state import State

NAMESPACE, NAME, HASH = "shop", "web", "5d9c7b8f6d"
NOW = 1_780_000_000.0
SUBSETS = ("a", "b", "c", "d")


def spec(limit: int) -> dict[str, Any]:
    subsets = [{"name": name, "maxReplicas": limit} for name in SUBSETS[:-1]] + [{"name": SUBSETS[-1]}]
    return {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}, "subsets": subsets}


def spread(limit: int, generation: int) -> WorkloadSpreadObserved:
    return WorkloadSpreadObserved(
        at=NOW, namespace=NAMESPACE, name=NAME, uid="ws", generation=generation, spec=spec(limit)
    )


def workloads(replicas: int) -> Iterator[WorkloadObserved]:
    owner = Owner(kind="Deployment", name=NAME, uid="d", api_version="apps/v1", controller=True)
    common: dict[str, Any] = {
        "at": NOW, "namespace": NAMESPACE, "api_version": "apps/v1", "replicas": replicas, "revision": "1",
    }  # fmt: skip
    yield WorkloadObserved(kind="Deployment", name=NAME, uid="d", **common)
    yield WorkloadObserved(
        kind="ReplicaSet", name=f"{NAME}-{HASH}", uid="rs", owners=(owner,), labels={"pod-template-hash": HASH}, **common
    )  # fmt: skip


def pod(n: int, subset: str, cost: str, **more: Any) -> PodObserved:
    owner = Owner(kind="ReplicaSet", name=f"{NAME}-{HASH}", uid="rs", api_version="apps/v1", controller=True)
    return PodObserved(
        at=NOW,
        namespace=NAMESPACE,
        name=f"{NAME}-{HASH}-{n:05x}",
        uid=f"{n:08x}-0000-4000-8000-{n:012x}",
        shape="0123456789abcdef",
        phase="Running",
        node=f"node-{n % 500}",
        ready=True,
        ready_changed_at=NOW - n % 977,
        created_at=NOW - 1000 - n,
        labels={"app": NAME, "pod-template-hash": HASH},
        annotations={
            "apps.kruise.io/matched-workloadspread": f'{{"name":"{NAME}","subset":"{subset}"}}',
            "controller.kubernetes.io/pod-deletion-cost": cost,
        },
        owners=(owner,),
        **more,
    )


def feed(state: State, event: Event) -> int:
    """Fold one event as the host does; how many decisions it gave."""
    touched = DECIDER.evolve(state, event)
    decisions = list(DECIDER.decide(state, event, touched))
    for decision in decisions:
        DECIDER.evolve(state, decision)
    return len(decisions)


def run(size: Size) -> list[Figure]:
    """Twenty thousand pods in four subsets, all within their limits."""
    count = 2_000 if size == "small" else 20_000
    share = count // len(SUBSETS)
    subset_of = [SUBSETS[min(n // share, len(SUBSETS) - 1)] for n in range(count)]
    cost_of = {name: str(100 * (len(SUBSETS) - i)) for i, name in enumerate(SUBSETS)}

    def bodies(**more: Any) -> list[bytes]:
        return [registry.encode(pod(n, s, cost_of[s], **more)) for n, s in enumerate(subset_of)]

    first, again = bodies(), bodies(restarts=1)

    def begun() -> State:
        state = State()
        for event in (spread(share, 1), *workloads(count)):
            feed(state, event)
        return state

    warm = begun()  # tables of the interpreter grow in steps, and belong to no pod
    for body in first:
        feed(warm, _decoded(body))
    del warm
    state = begun()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for body in first:
        feed(state, _decoded(body))
    gc.collect()
    per_pod = (tracemalloc.get_traced_memory()[0] - before) / count
    tracemalloc.stop()
    assert len(state.spreads[f"{NAMESPACE}/{NAME}"].pods) == count

    began = time.process_time()
    kept: dict[str, Event] = {}
    for body in again:
        event = _decoded(body)
        kept[event.name] = event
    baseline_us = (time.process_time() - began) / count * 1e6
    began = time.process_time()
    for body in again:
        feed(state, _decoded(body))
    fold_us = (time.process_time() - began) / count * 1e6

    ranked_ms = []
    for generation in range(2, 7):
        # Limits halve and come back: everybody is ranked, half of three subsets is written.
        changed = spread(share // 2 if generation % 2 == 0 else share, generation)
        touched = DECIDER.evolve(state, changed)
        began = time.process_time()
        decisions = list(DECIDER.decide(state, changed, touched))
        ranked_ms.append((time.process_time() - began) * 1e3)
        for decision in decisions:
            DECIDER.evolve(state, decision)
    sort_ms = _sorted_ms(state)
    scaled = next(workloads(0))
    touched = DECIDER.evolve(state, scaled)
    began = time.process_time()
    list(DECIDER.decide(state, scaled, touched))
    foreseen_ms = (time.process_time() - began) * 1e3
    return [
        figure(
            "spread_fold/one pod event", fold_us, "us", "lower", 50.0,
            baseline="decode and keep the last fact", baseline_value=baseline_us,
        ),
        figure(
            "spread_fold/costs when every limit is halved", sorted(ranked_ms)[len(ranked_ms) // 2], "ms", "lower", 100.0,
            baseline="sorting the pods by the same key", baseline_value=sort_ms,
        ),
        figure(
            "spread_fold/who leaves at a full scale-in", foreseen_ms, "ms", "lower", 100.0,
            baseline="sorting the pods by the same key", baseline_value=sort_ms,
        ),
        figure("spread_fold/memory per pod", per_pod, "bytes", "lower", 400.0),
    ]  # fmt: skip


def _decoded(body: bytes) -> PodObserved:
    event = registry.decode(body)
    assert isinstance(event, PodObserved)
    return event


def _sorted_ms(state: State) -> float:
    rows = list(state.spreads[f"{NAMESPACE}/{NAME}"].pods.values())
    began = time.process_time()
    sorted(rows, key=lambda row: row.leaving_order())
    return (time.process_time() - began) * 1e3


BENCHES = (Bench("spread_fold", run),)
