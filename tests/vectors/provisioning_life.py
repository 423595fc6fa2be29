"""A played cluster around the decider: its log, its timers, and a cloud that answers its orders.

Everything goes through the defined fold order, as in the host. Time is moved by the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tests.vectors import provisioning_world as w
from tests.vectors.suite import Case, differences
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Decision, Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import (
    CreateObject,
    DeleteObject,
    Effect,
    PatchObject,
    RecordObjectEvent,
    SetStatus,
)
from tidewright.events.timers import TimerFired
from tidewright.host.fold.order import Fold
from tidewright.kube.mergepatch import merged
from tidewright.kube.podspecs import digest_of, of_template
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.state import State

NOW = w.NOW


class CloudGroup(msgspec.Struct):
    """A group as the played cloud has it."""

    id: str
    minimum: int
    maximum: int
    target: int
    template: p.TemplateNode
    instances: list[p.Instance] = []
    made: int = 0
    extra: dict[str, Any] = {}
    from_zero: bool = True
    """Whether the cloud says its template."""


class Cluster:
    """Plays watcher, cloud and actuator for one decider.

    Attributes:
        refuse: group to the reason with which its next orders are rejected.
        boots: new instances become ready nodes at once; else they stay `creating`.
        said: every decision, in order.
    """

    def __init__(self, config: JsonObject | None = None, *, boots: bool = True) -> None:
        self.fold: Fold[State] = Fold(DECIDER, ALL)
        self.now = NOW
        self.seq = 0
        self.groups: dict[str, CloudGroup] = {}
        self.statuses: dict[str, JsonObject] = {}
        self.refuse: dict[str, str] = {}
        self.boots = boots
        self.silent = False
        self.makes_no_groups = False
        self.said: list[Decision] = []
        self.log: list[tuple[int, bytes]] = []
        self._inbox: list[Event] = []
        if config is not None:
            self.tell(ConfigSet(at=self.now, name="provisioning", data=config))

    @property
    def state(self) -> State:
        return self.fold.state

    # --- Telling the decider ---

    def tell(self, event: Event) -> None:
        """One event goes onto the log, and the world reacts to what is decided."""
        self._inbox.append(event)
        while self._inbox:
            following = self._inbox.pop(0)
            self.seq += 1
            body = registry.encode(following)
            self.log.append((self.seq, body))
            for decided in self.fold.step(self.seq, body, following):
                self.said.append(decided.decision)
                self._act(decided.decision)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire at their due times."""
        end = self.now + seconds
        while min(self.fold.timers.values(), default=end + 1) <= end:
            self.fire()
        self.now = end

    def fire(self) -> None:
        """The next timer fires."""
        due, key = min((at, key) for key, at in self.fold.timers.items())
        self.now = max(self.now, due)
        self.tell(TimerFired(at=due, key=key))

    def settle(self) -> None:
        """Give the quiet window time to pass."""
        self.advance(2.0)

    # --- The world ---

    def add_group(
        self,
        name: str,
        *,
        cpu: int = 4000,
        memory: int = 16 * 2**30,
        pods: int = 110,
        minimum: int = 0,
        maximum: int = 10,
        target: int = 0,
        labels: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **extra.pop("more", {})}
        template = p.TemplateNode(labels=dict(labels or {}), allocatable=allocatable)
        self.groups[name] = CloudGroup(name, minimum, maximum, target, template, extra=extra)
        self.observe_group(name)

    def observe_group(self, name: str) -> None:
        group = self.groups[name]
        self.tell(
            p.NodeGroupObserved(
                at=self.now,
                name=name,
                min_size=group.minimum,
                max_size=group.maximum,
                target_size=group.target,
                instances=tuple(group.instances),
                template=group.template if group.from_zero else None,
                **group.extra,
            )
        )

    def add_node(self, name: str, group: str = "", **resources: int) -> None:
        """A ready node; of a group it is one of its instances."""
        allocatable = {"cpu": 4000, "memory": 16 * 2**30, "pods": 110, **resources}
        labels = {"kubernetes.io/hostname": name}
        if group:
            template = self.groups[group].template
            allocatable = {**template.allocatable, **resources}
            labels = {**template.labels, **labels}
            self.groups[group].instances.append(p.Instance(id=f"sim://{name}", state="running"))
            self.observe_group(group)
        self.tell(
            f.NodeObserved(
                at=self.now,
                name=name,
                labels=labels,
                allocatable=allocatable,
                ready=True,
                ready_changed_at=self.now - 120,
                created_at=self.now - 180,
                provider_id=f"sim://{name}",
            )
        )

    def shape(self, requests: Mapping[str, int], scheduling: JsonObject | None = None, **more: Any) -> str:
        """Tell a shape; its digest."""
        labels, priority = more.get("labels", {}), more.get("priority", 0)
        wanted = {name: amount for name, amount in requests.items() if amount}
        digest = digest_of(wanted, scheduling or {}, "ns", labels, priority)
        self.tell(
            f.ShapeObserved(
                at=self.now,
                digest=digest,
                requests=wanted,
                scheduling=scheduling or {},
                namespace="ns",
                labels=labels,
                priority=priority,
            )
        )
        return digest

    def pod(self, name: str, shape: str, *, node: str = "", **more: Any) -> None:
        """A pod: on a node, or unschedulable."""
        self.tell(
            f.PodObserved(
                at=self.now,
                namespace="ns",
                name=name,
                uid=f"uid-{name}",
                shape=shape,
                phase="Running" if node else "Pending",
                node=node,
                created_at=self.now,
                unschedulable_since=None if node else self.now,
                **more,
            )
        )

    def template(self, name: str, cpu: str, memory: str = "1Mi", **spec: Any) -> None:
        resources = {"requests": {"cpu": cpu, "memory": memory}}
        self.tell(
            p.PodTemplateObserved(
                at=self.now,
                namespace="ns",
                name=name,
                template={"spec": {"containers": [{"name": "c", "resources": resources}], **spec}},
            )
        )

    def request(
        self,
        name: str,
        class_name: str,
        sets: Iterable[tuple[str, int]],
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        spec: JsonObject = {
            "provisioningClassName": class_name,
            "podSets": [{"podTemplateRef": {"name": t}, "count": n} for t, n in sets],
        }
        if parameters is not None:
            spec["parameters"] = dict(parameters)
        self.tell(
            p.ProvisioningRequestObserved(
                at=self.now,
                namespace="ns",
                name=name,
                uid=f"uid-{name}",
                generation=1,
                created_at=self.now,
                spec=spec,
                **more,
            )
        )

    def delete_request(self, name: str) -> None:
        self.tell(p.ProvisioningRequestGone(at=self.now, namespace="ns", name=name, uid=f"uid-{name}"))

    # --- What became of it ---

    def conditions(self, name: str) -> dict[str, cond.Condition]:
        status = self.statuses.get(f"ns/{name}", {})
        return {c.type: c for c in cond.parse(status.get("conditions"))}

    def of(self, kind: type[Any]) -> list[Any]:
        return [decision for decision in self.said if isinstance(decision, kind)]

    def object_events(self, reason: str) -> list[RecordObjectEvent]:
        """Each by itself, as the API server has them."""
        return [
            msgspec.structs.replace(event, message=message, also=())
            for event in self.of(RecordObjectEvent)
            for message in event.messages
            if event.reason == reason
        ]

    # --- Actuator and cloud ---

    def _act(self, decision: Decision) -> None:
        if not isinstance(decision, Effect) or self.silent:
            return
        outcome: Event = o.Applied(at=self.now, decision=decision.id)
        then: list[Event] = []
        match decision:
            case p.IncreaseNodeGroup() if decision.target.name not in self.groups:
                outcome = o.Rejected(at=self.now, decision=decision.id, reason="NotFound", message="no group")
            case p.IncreaseNodeGroup():
                reason = self.refuse.get(decision.target.name)
                if self.groups[decision.target.name].target not in (decision.from_size, decision.size):
                    reason = "Conflict"
                if reason:
                    outcome = o.Rejected(
                        at=self.now, decision=decision.id, reason=reason, message=f"{reason} here"
                    )
                else:
                    then = self._grow(decision.target.name, decision.size)
            case p.DecreaseNodeGroup():
                self.groups[decision.target.name].target = decision.size
                then = [self._group_fact(decision.target.name)]
            case p.DeleteInstances():
                then = self._shrink(decision)
            case p.CreateNodeGroup() if self.makes_no_groups:
                outcome = o.Rejected(
                    at=self.now, decision=decision.id, reason="NotFound", message="no such machine type"
                )
            case p.CreateNodeGroup():
                for name in (decision.target.name, *decision.also):
                    self.groups[name] = CloudGroup(
                        name, 0, decision.max_size, 0, decision.template, extra={"autoprovisioned": True}
                    )
            case CreateObject(manifest=manifest):
                then = self._made(manifest)
            case DeleteObject() if decision.target.kind == "Pod":
                target = decision.target
                then = [f.PodGone(at=self.now, namespace=target.namespace, name=target.name)]
            case PatchObject() if decision.target.kind == "Node":
                then = [self._patched(decision)]
            case SetStatus():
                self.statuses[f"{decision.target.namespace}/{decision.target.name}"] = decision.status
        self._inbox.append(outcome)
        self._inbox.extend(then)

    def _made(self, manifest: JsonObject) -> list[Event]:
        """A pod that is bound to its node from the start, and its shape."""
        metadata, spec = manifest["metadata"], manifest["spec"]
        shape = of_template({"metadata": metadata, "spec": spec}, metadata["namespace"])
        requests = {n: a for n, a in shape.requests.items() if n != "pods"}
        return [
            f.ShapeObserved(
                at=self.now, digest=shape.digest, requests=requests, namespace=metadata["namespace"]
            ),
            f.PodObserved(
                at=self.now,
                namespace=metadata["namespace"],
                name=metadata["name"],
                uid=f"uid-{metadata['name']}",
                shape=shape.digest,
                node=spec["nodeName"],
                annotations=metadata["annotations"],
            ),
        ]

    def _patched(self, decision: PatchObject) -> Event:
        """The node as it is seen with what was merged into its annotations."""
        name = decision.target.name
        node = self.state.nodes[name]
        patched = merged({"annotations": node.annotations}, decision.patch["metadata"])
        return f.NodeObserved(
            at=self.now,
            name=name,
            labels=node.labels,
            annotations=patched["annotations"],
            taints=node.taints,
            allocatable=node.allocatable,
            unschedulable=node.unschedulable,
            ready=node.ready,
            ready_changed_at=node.ready_changed_at,
            created_at=node.created_at,
            provider_id=node.provider_id,
        )

    def _group_fact(self, name: str) -> Event:
        group = self.groups[name]
        return p.NodeGroupObserved(
            at=self.now + 0.001,
            name=name,
            min_size=group.minimum,
            max_size=group.maximum,
            target_size=group.target,
            instances=tuple(group.instances),
            template=group.template if group.from_zero else None,
            **group.extra,
        )

    def _grow(self, name: str, size: int) -> list[Event]:
        group = self.groups[name]
        group.target = size
        nodes: list[Event] = []
        while len(group.instances) < size:
            group.made += 1
            machine = f"{name}-new-{group.made}"
            state = "running" if self.boots else "creating"
            group.instances.append(p.Instance(id=f"sim://{machine}", state=state))
            if self.boots:
                nodes.append(self.node_fact(name, machine))
        return [self._group_fact(name), *nodes]

    def node_fact(self, group: str, machine: str) -> Event:
        template = self.groups[group].template
        return f.NodeObserved(
            at=self.now + 0.001,
            name=machine,
            labels={**template.labels, "kubernetes.io/hostname": machine},
            taints=template.taints,
            allocatable=template.allocatable,
            ready=True,
            ready_changed_at=self.now,
            created_at=self.now,
            provider_id=f"sim://{machine}",
        )

    def boot(self, group: str, count: int | None = None) -> None:
        """Instances that are creating become ready nodes."""
        found = self.groups[group]
        creating = [i for i in found.instances if i.state == "creating"][:count]
        ids = {i.id for i in creating}
        found.instances = [
            p.Instance(id=i.id, state="running") if i.id in ids else i for i in found.instances
        ]
        self.observe_group(group)
        for instance in creating:
            self.tell(self.node_fact(group, instance.id.removeprefix("sim://")))

    def _shrink(self, decision: p.DeleteInstances) -> list[Event]:
        group = self.groups[decision.target.name]
        doomed = set(decision.instances)
        group.instances = [i for i in group.instances if i.id not in doomed]
        group.target = max(0, group.target - len(doomed))
        gone: list[Event] = [f.NodeGone(at=self.now + 0.001, name=name) for name in decision.nodes if name]
        return [self._group_fact(decision.target.name), *gone]


def run_life(case: Case) -> list[str]:
    """A lifecycle case: steps with a clock."""
    cluster = Cluster({})
    for group in case["node_groups"]:
        node = next(n for n in case["nodes"] if n["group"] == group["id"])
        cluster.add_group(
            group["id"],
            cpu=node["cpu"],
            memory=node["memory"],
            pods=node.get("pods", 100),
            minimum=group["min"],
            maximum=group["max"],
            target=group["target"],
        )
    for node in w.spread_out(case["nodes"]):
        cluster.add_node(node["name"], node.get("group") or "", cpu=node["cpu"], memory=node["memory"])
    for pod in w.spread_out(case["pods"]):
        digest = cluster.shape({"cpu": pod["cpu"], "memory": pod["memory"]})
        cluster.pod(pod["name"], digest, node=pod["node"])
    # The cases bring their nodes themselves: the cloud takes orders and lets nothing appear.
    cluster.boots = False
    found: list[str] = []
    for number, step in enumerate(case["steps"]):
        cluster.advance(step.get("after", 0))
        match step["do"]:
            case "create-request":
                request = step["request"]
                for i, pod_set in enumerate(request["podsets"]):
                    cluster.template(f"t{i}", f"{pod_set['cpu']}m", str(pod_set["memory"]))
                cluster.request(
                    request["name"],
                    request["class"],
                    [(f"t{i}", s["count"]) for i, s in enumerate(request["podsets"])],
                )
            case "add-node":
                node = step["node"]
                cluster.groups[node["group"]].instances = [
                    i for i in cluster.groups[node["group"]].instances if i.state != "creating"
                ]
                cluster.add_node(node["name"], node["group"], cpu=node["cpu"], memory=node["memory"])
            case "delete-request":
                cluster.delete_request(step["request_name"])
        sizes = {name: group.target for name, group in cluster.groups.items()}
        wanted = step.get("expected", {}).get("target_sizes")
        if wanted is not None:
            found += differences(wanted, sizes, f"$.steps[{number}].target_sizes")
    sizes = {name: group.target for name, group in cluster.groups.items()}
    return found + differences(case["expected"]["target_sizes"], sizes, "$.target_sizes")
