"""A recorded GPU cluster (8,152 pods): all pods pending at once, and as they came and went.

Groups are the machines that the recorded cluster had, each up to as many as its pods could want. Waste is
the share of what was ordered that no pod asked for.
"""

from __future__ import annotations

import csv
import heapq
import statistics
import time
from collections import Counter
from pathlib import Path

import msgspec

from tests.bench.figures import Bench, Figure, Size, figure
from tests.bench.provisioning_world import MIB, NOW, Played
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.outcomes import Applied
from tidewright.events.timers import TimerFired
from tidewright.kube.podspecs import digest_of

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "cluster"
GPU, MODEL = "nvidia.com/gpu", "gpu-model"
RESOURCES = ("cpu", "memory", GPU)
BOOT_S = 90.0
BASELINE = "pod by pod, first fit decreasing, largest machine"


class Wanted:
    """One recorded pod."""

    def __init__(self, row: dict[str, str]) -> None:
        self.name = row["name"]
        self.requests = {
            "cpu": int(row["cpu_milli"]), "memory": int(row["memory_mib"]) * MIB, GPU: int(row["num_gpu"]),
        }  # fmt: skip
        self.models = tuple(m for m in row["gpu_spec"].split("|") if m)
        self.came = float(row["creation_time"])
        self.went = float(row["deletion_time"] or "inf")

    @property
    def scheduling(self) -> JsonObject:
        if not self.models:
            return {}
        term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": list(self.models)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        return {"affinity": {"nodeAffinity": required}}

    def shape(self) -> f.ShapeObserved:
        asked = {name: amount for name, amount in self.requests.items() if amount}
        digest = digest_of(asked, self.scheduling, "ns", {}, 0)
        return f.ShapeObserved(
            at=NOW, digest=digest, requests=asked, scheduling=self.scheduling, namespace="ns"
        )


def recorded(limit: int) -> list[Wanted]:
    with (DATA / "openb_pod_list_default.csv").open(encoding="utf-8") as lines:
        found = [Wanted(row) for row in csv.DictReader(lines)]
    return sorted(found, key=lambda pod: (pod.came, pod.name))[:limit]


def groups(maximum: int) -> list[p.NodeGroupObserved]:
    """One group per kind of machine."""
    with (DATA / "openb_node_list_gpu_node.csv").open(encoding="utf-8") as lines:
        kinds = Counter(
            (int(r["cpu_milli"]), int(r["memory_mib"]) * MIB, int(r["gpu"]), r["model"])
            for r in csv.DictReader(lines)
        )
    return [
        p.NodeGroupObserved(
            at=NOW,
            name=f"{(model or 'cpu').lower()}-{cpu // 1000}-{memory // MIB // 1024}-{gpu}",
            max_size=maximum,
            template=p.TemplateNode(
                labels={MODEL: model}, allocatable={"cpu": cpu, "memory": memory, GPU: gpu, "pods": 256}
            ),
        )
        for (cpu, memory, gpu, model), _ in sorted(kinds.items())
    ]


def waste(ordered: Counter[str], machines: dict[str, dict[str, int]], pods: list[Wanted]) -> dict[str, float]:
    """Share of the ordered capacity that no pod asks for, percent by resource."""
    found = {}
    for name in RESOURCES:
        capacity = sum(machines[group][name] * n for group, n in ordered.items())
        asked = sum(pod.requests[name] for pod in pods)
        found[name] = 100.0 * (1 - asked / capacity) if capacity else 0.0
    return found


def pod_by_pod(
    pods: list[Wanted], machines: dict[str, dict[str, int]], models: dict[str, str]
) -> Counter[str]:
    """The baseline: the largest pod first, onto the first node with room, else a new one of the largest machine."""
    nodes: list[tuple[str, dict[str, int]]] = []

    def size(pod: Wanted) -> float:
        return (
            pod.requests[GPU] / 8 + pod.requests["cpu"] / 96_000 + pod.requests["memory"] / (512 * 1024 * MIB)
        )

    def fits(pod: Wanted, group: str, free: dict[str, int]) -> bool:
        if pod.models and models[group] not in pod.models:
            return False
        return all(free[name] >= pod.requests[name] for name in RESOURCES)

    for pod in sorted(pods, key=lambda pod: (-size(pod), pod.name)):
        free = next((free for group, free in nodes if fits(pod, group, free)), None)
        if free is None:
            able = [group for group, whole in machines.items() if fits(pod, group, whole)]
            if not able:
                continue
            group = max(able, key=lambda g: (machines[g][GPU], machines[g]["cpu"], g))
            free = dict(machines[group])
            nodes.append((group, free))
        for name in RESOURCES:
            free[name] -= pod.requests[name]
    return Counter(group for group, _ in nodes)


def at_once(size: Size) -> list[Figure]:
    """All pods pending at the same moment: one decision."""
    pods = recorded(8152 if size == "full" else 500)
    played = Played()
    there = groups(5000)
    machines = {g.name: dict(g.template.allocatable) for g in there if g.template is not None}
    models = {g.name: g.template.labels[MODEL] for g in there if g.template is not None}
    for event in there:
        played.tell(event)
    played.tell(_limits())
    for pod in pods:
        shape = pod.shape()
        played.tell(shape)
        played.tell(pending(pod, shape.digest, NOW))
    start = time.perf_counter()
    decisions = played.fire()
    taken_s = time.perf_counter() - start
    ordered: Counter[str] = Counter()
    placed = 0
    for decision in decisions:
        if isinstance(decision, p.PlanScaleUp):
            placed += decision.placed
            for increase in decision.increases:
                ordered[increase.group] += increase.size - increase.from_size
    start = time.perf_counter()
    baseline = pod_by_pod(pods, machines, models)
    baseline_s = time.perf_counter() - start
    left, beside = waste(ordered, machines, pods), waste(baseline, machines, pods)
    return [
        figure("recorded/all pods at once: nodes", ordered.total(), "nodes", "lower",
               baseline=BASELINE, baseline_value=baseline.total()),
        figure("recorded/all pods at once: pods without a place", len(pods) - placed, "pods", "lower", 0),
        figure("recorded/all pods at once: decision", taken_s, "s", "lower",
               baseline=BASELINE, baseline_value=baseline_s),
        *(figure(f"recorded/all pods at once: {name} ordered and not asked for", percent, "%", "lower",
                  baseline=BASELINE, baseline_value=beside[name])
          for name, percent in left.items()),
    ]  # fmt: skip


def _limits() -> Event:
    return ConfigSet(at=NOW, name="provisioning", data={"max-nodes-per-scaleup": 10_000})


def pending(pod: Wanted, digest: str, at: float) -> f.PodObserved:
    return f.PodObserved(
        at=at, namespace="ns", name=pod.name, uid=pod.name, shape=digest, phase="Pending",
        created_at=at, unschedulable_since=at,
    )  # fmt: skip


class Replay:
    """The recorded cluster in log time: pods come and go, nodes boot, the first node with room takes a pod."""

    def __init__(self, pods: list[Wanted]) -> None:
        self.played = Played()
        self.groups = {g.name: g for g in groups(5000)}
        self.sizes: Counter[str] = Counter()
        self.free: dict[str, dict[str, int]] = {}
        self.waiting: dict[str, Wanted] = {}
        self.on: dict[str, tuple[Wanted, str]] = {}
        self.agenda: list[tuple[float, int, str, object]] = []
        self.number = 0
        self.decisions_ms: list[float] = []
        self.orders = 0
        self.peak = 0
        self.node_s: dict[str, float] = {}
        self.since: dict[str, float] = {}
        for event in self.groups.values():
            self.played.tell(event)
        for pod in pods:
            self.at(NOW + pod.came, "come", pod)
            if pod.went != float("inf"):
                self.at(NOW + pod.went, "go", pod)

    def at(self, when: float, what: str, about: object) -> None:
        self.number += 1
        heapq.heappush(self.agenda, (when, self.number, what, about))

    def run(self, until: float) -> None:
        """Play the agenda and the decider's timers in the order of their times."""
        fold = self.played.fold
        while self.agenda or fold.timers:
            due = min(fold.timers.values(), default=float("inf"))
            when = self.agenda[0][0] if self.agenda else float("inf")
            if min(due, when) > until or not self.agenda:
                return
            if due <= when:
                start = time.perf_counter()
                decisions = self.played.tell(TimerFired(at=due, key="evaluate"))
                self.decisions_ms.append((time.perf_counter() - start) * 1000)
                self.act(decisions, due)
                continue
            _, _, what, about = heapq.heappop(self.agenda)
            getattr(self, what)(about, when)

    def come(self, pod: Wanted, now: float) -> None:
        shape = pod.shape()
        self.played.tell(shape)
        self.waiting[pod.name] = pod
        if not self.bind(pod, now):
            self.act(self.played.tell(pending(pod, shape.digest, now)), now)

    def go(self, pod: Wanted, now: float) -> None:
        self.waiting.pop(pod.name, None)
        found = self.on.pop(pod.name, None)
        if found is not None:
            free = self.free.get(found[1])
            if free is not None:
                for name in RESOURCES:
                    free[name] += pod.requests[name]
        self.act(self.played.tell(f.PodGone(at=now, namespace="ns", name=pod.name)), now)
        for other in list(self.waiting.values()):
            self.bind(other, now)

    def bind(self, pod: Wanted, now: float) -> bool:
        for node, free in self.free.items():
            model = self.groups[node.rsplit("/", 1)[0]].template.labels[MODEL]  # type: ignore[union-attr]  # all have one
            if pod.models and model not in pod.models:
                continue
            if all(free[name] >= pod.requests[name] for name in RESOURCES):
                for name in RESOURCES:
                    free[name] -= pod.requests[name]
                self.on[pod.name] = (pod, node)
                self.waiting.pop(pod.name, None)
                bound = f.PodObserved(
                    at=now, namespace="ns", name=pod.name, uid=pod.name, shape=pod.shape().digest,
                    phase="Running", node=node, created_at=now,
                )  # fmt: skip
                self.act(self.played.tell(bound), now)
                return True
        return False

    def boot(self, node: object, now: float) -> None:
        name = str(node)
        group = name.rsplit("/", 1)[0]
        template = self.groups[group].template
        assert template is not None
        self.free[name] = dict(template.allocatable)
        self.since[name] = now
        self.peak = max(self.peak, len(self.free))
        self.observe(group, now)
        fact = f.NodeObserved(
            at=now, name=name, labels={**template.labels, "kubernetes.io/hostname": name},
            allocatable=template.allocatable, ready=True, ready_changed_at=now, created_at=now,
            provider_id=f"sim://{name}",
        )  # fmt: skip
        self.act(self.played.tell(fact), now)
        for pod in list(self.waiting.values()):
            self.bind(pod, now)

    def observe(self, group: str, now: float) -> None:
        there = tuple(
            p.Instance(id=f"sim://{name}", state="running")
            for name in sorted(self.free)
            if name.rsplit("/", 1)[0] == group
        )
        fact = msgspec.structs.replace(
            self.groups[group], at=now, target_size=self.sizes[group], instances=there
        )
        self.act(self.played.tell(fact), now)

    def act(self, decisions: list[Event], now: float) -> None:
        """The cloud and the actuator."""
        for decision in decisions:
            if isinstance(decision, p.IncreaseNodeGroup):
                self.orders += 1
                group = decision.target.name
                for _ in range(decision.size - self.sizes[group]):
                    self.number += 1
                    self.at(now + BOOT_S, "boot", f"{group}/{self.number:06}")
                self.sizes[group] = decision.size
                self.act(self.played.tell(Applied(at=now, decision=decision.id)), now)
            elif isinstance(decision, p.DeleteInstances):
                group = decision.target.name
                for name in decision.nodes:
                    if name in self.free and not any(node == name for _, node in self.on.values()):
                        del self.free[name]
                        self.sizes[group] -= 1
                        self.node_s[name] = now - self.since.pop(name)
                        self.act(self.played.tell(f.NodeGone(at=now, name=name)), now)
                self.act(self.played.tell(Applied(at=now, decision=decision.id)), now)
                self.observe(group, now)


def in_time(size: Size) -> list[Figure]:
    """The recorded pods as they came and went; nodes boot in 90 s."""
    pods = recorded(1500 if size == "full" else 150)
    replay = Replay(pods)
    end = NOW + max(pod.came for pod in pods) + 3600
    start = time.perf_counter()
    replay.run(end)
    taken_s = time.perf_counter() - start
    for name, since in replay.since.items():
        replay.node_s[name] = end - since
    machines = {n: dict(g.template.allocatable) for n, g in replay.groups.items() if g.template is not None}
    gpu_s = sum(machines[n.rsplit("/", 1)[0]][GPU] * s for n, s in replay.node_s.items())
    cpu_s = sum(machines[n.rsplit("/", 1)[0]]["cpu"] * s for n, s in replay.node_s.items())
    lived = [(pod, max(0.0, min(NOW + pod.went, end) - (NOW + pod.came))) for pod in pods]
    used_gpu = sum(pod.requests[GPU] * s for pod, s in lived)
    used_cpu = sum(pod.requests["cpu"] * s for pod, s in lived)
    decided = sorted(replay.decisions_ms)
    what = f"recorded/{len(pods):,} pods in time"
    return [
        figure(f"{what}: nodes at the peak", replay.peak, "nodes", "lower"),
        figure(f"{what}: increases ordered", replay.orders, "orders", "lower"),
        figure(f"{what}: pods without a place at the end", len(replay.waiting), "pods", "lower", 0),
        figure(f"{what}: GPU time paid for and not asked for", 100 * (1 - used_gpu / gpu_s), "%", "lower"),
        figure(f"{what}: CPU time paid for and not asked for", 100 * (1 - used_cpu / cpu_s), "%", "lower"),
        figure(f"{what}: decision, p50", statistics.median(decided), "ms", "lower", 150.0),
        figure(f"{what}: decision, p99", decided[int(len(decided) * 0.99)], "ms", "lower", 500.0),
        figure(f"{what}: the whole replay", taken_s, "s", "lower"),
    ]


BENCHES = (Bench("provisioning-recorded-at-once", at_once), Bench("provisioning-recorded-in-time", in_time))
