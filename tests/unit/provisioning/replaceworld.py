"""A played cluster of several groups with prices, whose scheduler finds a place for pods that were made anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.unit.provisioning.removalworld import OWNER, Removing
from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import Event, JsonObject
from tidewright.events.decisions import EvictPod
from tidewright.host.fold.explainer import Reference
from tidewright.kube.podspecs import digest_of
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.explaining import EXPLAINER

ON: JsonObject = {
    "consolidation": "replace",
    "consolidation-budgets": "100%",
    "scale-down-unneeded-time": "1m",
    "max-bulk-soft-taint-count": 0,
}


class Pools(Removing):
    """Groups of nodes with prices, and pods of one ReplicaSet each of some cpu.

    Attributes:
        cpu: pod to what it asks for.
        comes: nodes that are ordered come, and are ready, at once.
    """

    def __init__(self, config: JsonObject | None = None) -> None:
        self.cpu: dict[str, int] = {}
        self.group_of: dict[str, str] = {}
        self.born: dict[str, float] = {}
        self.comes = True
        self.named = 0
        super().__init__({**ON, **(config or {})})

    # --- What is there ---

    def pool(self, name: str, nodes: int, *, cpu: int, price: int | None, **more: Any) -> None:
        self.add_group(
            name, cpu=cpu, target=nodes, maximum=more.pop("maximum", 20), price_micro=price, **more
        )
        self.groups[name].instances = [
            p.Instance(id=f"sim://{name}{i}", state="running") for i in range(nodes)
        ]
        self.observe_group(name)
        for i in range(nodes):
            self.group_of[f"{name}{i}"], self.born[f"{name}{i}"] = name, self.now - 7200
            self.object(f"{name}{i}")

    def fact_of(self, name: str, delays: tuple[str, ...] = ()) -> f.NodeObserved:
        template = self.groups[self.group_of[name]].template
        return msgspec.structs.replace(
            super().fact_of(name, delays),
            labels={**template.labels, "kubernetes.io/hostname": name},
            allocatable=dict(template.allocatable),
            created_at=self.born[name],
            ready_changed_at=self.born[name],
        )

    def running(self, name: str, node: str, cpu: int, **more: Any) -> None:
        """A pod of so many milli-cores."""
        self.cpu[name] = cpu
        shape = self.shape({"cpu": cpu}, labels={"app": more.get("app", "web")})
        self.run_pod(name, node, shape=shape, **{"owners": (OWNER,), **more})

    def annotate(self, node: str, annotations: Mapping[str, str]) -> None:
        self.objects[node]["metadata"]["annotations"].update(annotations)
        self.tell(self.fact_of(node))

    def again(self, name: str, **changed: Any) -> None:
        """A pod is told of once more, with something changed."""
        self.placed[name] = msgspec.structs.replace(self.placed[name], at=self.now, **changed)
        self.tell(self.placed[name])

    # --- What becomes of decisions ---

    def _grow(self, name: str, size: int) -> list[Event]:
        group = self.groups[name]
        group.target = size
        events: list[Event] = []
        while self.comes and len(group.instances) < size:
            group.made += 1
            machine = f"{name}-new-{group.made}"
            group.instances.append(p.Instance(id=f"sim://{machine}", state="running"))
            self.group_of[machine], self.born[machine] = name, self.now
            self.objects[machine] = {
                "metadata": {"name": machine, "uid": f"uid-{machine}", "annotations": {}},
                "spec": {},
            }
            events.append(msgspec.structs.replace(self.fact_of(machine), at=self.now + 0.001))
        return [self._group_fact(name), *events]

    def _evict(self, decision: EvictPod) -> None:
        """As an API server does; and the pod's owner makes another one, for which the scheduler finds a place."""
        before, name = set(self.placed), decision.target.name
        super()._evict(decision)
        if name not in before - set(self.placed):
            return
        self.named += 1
        heir, cpu = f"heir-{self.named}", self.cpu.pop(name)
        self.cpu[heir] = cpu
        node = self._room_for(cpu)
        fact = f.PodObserved(
            at=self.now + 0.002,
            namespace="ns",
            name=heir,
            uid=f"uid-{heir}",
            shape=self.shape_of(cpu),
            phase="Running" if node else "Pending",
            node=node,
            created_at=self.now,
            labels={"app": "web"},
            owners=(OWNER,),
            removal=f.Removal(),
            unschedulable_since=None if node else self.now,
        )
        self.placed[heir] = fact
        self._inbox.append(fact)

    @staticmethod
    def shape_of(cpu: int) -> str:
        """Of a pod that asks for so much."""
        return digest_of({"cpu": cpu}, {}, "ns", {"app": "web"}, 0)

    def _room_for(self, cpu: int) -> str:
        return self.room_beside(cpu, {})

    def room_beside(self, cpu: int, kept: Mapping[str, int]) -> str:
        """The first node that takes pods and has so much left beside what is kept on it."""
        for name in sorted(self.objects):
            spec = self.objects[name]["spec"]
            used = kept.get(name, 0)
            used += sum(self.cpu[pod] for pod, fact in self.placed.items() if fact.node == name)
            there = self.groups[self.group_of[name]].template.allocatable["cpu"]
            if not spec.get("taints") and not spec.get("unschedulable") and used + cpu <= there:
                return name
        return ""

    # --- What became of it ---

    @property
    def price_micro(self) -> int:
        """What the nodes that are there, or ordered, cost an hour."""
        return sum(group.target * (group.extra["price_micro"] or 0) for group in self.groups.values())

    @property
    def without_place(self) -> list[str]:
        """Pods that no node has room for."""
        return [name for name, fact in self.placed.items() if not fact.node]

    def ended(self) -> list[tuple[str, str]]:
        """How each replacement ended."""
        return [(one.result, one.reason) for one in self.of(p.EndReplacement)]

    def most_at_once(self) -> int:
        """How many replacements were under way at a time."""
        under_way, most = 0, 0
        for decision in self.said:
            under_way += isinstance(decision, p.ReplaceNodes)
            under_way -= isinstance(decision, p.EndReplacement)
            most = max(most, under_way)
        return most

    def boots_s(self, group: str, seconds: float) -> None:
        """The last node of a group took so long to come."""
        self.state.groups[NodeGroupId(group)].boot_s = seconds

    def standing(self, node: str) -> str:
        """What `explain` says of a node as it is now."""
        copied = msgspec.json.decode(msgspec.json.encode(self.state), type=State)
        return " ".join(EXPLAINER.standing(copied, Reference("node", "", node), self.now))


def dear_and_cheap(config: JsonObject | None = None, **cheap: Any) -> Pools:
    """One dear node whose pods would do with half of it, and a group of cheap nodes without one."""
    cluster = Pools(config)
    cluster.pool("dear", 1, cpu=8000, price=1_000_000)
    cluster.pool("cheap", 0, cpu=4000, price=300_000, **cheap)
    for i in range(3):
        cluster.running(f"p{i}", "dear0", 1200)
    cluster.boots_s("cheap", 60)
    return cluster
