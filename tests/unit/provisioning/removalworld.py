"""A played cluster in which nodes go: an API server with budgets, kubelets that end pods, a cloud.

What is asked of it is refused as a real one would, so that tests can say what never happens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tests.vectors.provisioning_life import Cluster
from tidewright.actuator import marks
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events.base import Decision, Event, JsonObject
from tidewright.events.decisions import EvictPod, SetTimer
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.fold.touched import Touched
from tidewright.provisioning.scaledown.removal.saga import REMOVALS
from tidewright.provisioning.state import State

OWNER = f.Owner(kind="ReplicaSet", name="web", uid="r", api_version="apps/v1", controller=True)
DAEMON = f.Owner(kind="DaemonSet", name="log", uid="d", api_version="apps/v1", controller=True)
NO_PASS = {"scale-down-unneeded-time": "10h", "max-bulk-soft-taint-count": 0}


def replica_set(at: float) -> f.WorkloadObserved:
    """The owner of the pods, which rules look up."""
    return f.WorkloadObserved(
        at=at, namespace="ns", name="web", api_version="apps/v1", kind="ReplicaSet", replicas=6
    )


class Budget(msgspec.Struct):
    """A PodDisruptionBudget over pods with a label `app`."""

    app: str
    allowed: int


class Removing(Cluster):
    """A group `g` of nodes of which some are removed.

    Attributes:
        refuse_evictions: reason with which evictions are rejected; empty for none.
        delete_fails: reason with which the next deletions fail; empty for none.
        deletion_refused: node to the reason with which any deletion of it is rejected.
        mark_fails: reason with which marks are rejected; empty for none.
        hides_nodes: nodes that change are not told of.
        ends: evicted pods end at once; else they go on ending.
        reopens: budgets have room again before it is heard that an eviction was admitted.
    """

    def __init__(self, config: JsonObject | None = None) -> None:
        super().__init__(config)
        self.objects: dict[str, JsonObject] = {}
        self.placed: dict[str, f.PodObserved] = {}
        self.budgets: dict[str, Budget] = {}
        self.deleted: list[str] = []
        self.evicted: list[str] = []
        self.refuse_evictions = ""
        self.delete_fails = ""
        self.deletion_refused: dict[str, str] = {}
        self.mark_fails = ""
        self.hides_nodes = False
        self.ends = True
        self.reopens = False
        self.tell(replica_set(self.now))

    # --- What is there ---

    def grown(self, count: int, **group: Any) -> None:
        """Group `g` with so many nodes `n0`, `n1`, ..."""
        self.add_group("g", target=count, **group)
        found = self.groups["g"]
        found.instances = [p.Instance(id=f"sim://n{i}", state="running") for i in range(count)]
        self.observe_group("g")
        for i in range(count):
            self.object(f"n{i}")

    def object(self, name: str, taints: Iterable[JsonObject] = (), **spec: Any) -> None:
        """A node as the API server has it."""
        self.objects[name] = {
            "metadata": {"name": name, "uid": f"uid-{name}", "annotations": {}},
            "spec": {**({"taints": list(taints)} if taints else {}), **spec},
        }
        self.tell(self.fact_of(name))

    def fact_of(self, name: str, delays: tuple[str, ...] = ()) -> f.NodeObserved:
        node = self.objects[name]
        return f.NodeObserved(
            at=self.now,
            name=name,
            uid=node["metadata"]["uid"],
            annotations=node["metadata"]["annotations"],
            taints=tuple(node["spec"].get("taints", ())),
            unschedulable=node["spec"].get("unschedulable", False),
            allocatable={"cpu": 4000, "memory": 16 * 2**30, "pods": 110},
            ready=True,
            ready_changed_at=self.now - 120,
            created_at=self.now - 180,
            provider_id=f"sim://{name}",
            delays=delays,
        )

    def run_pod(self, name: str, node: str, *, app: str = "web", priority: int = 0, **more: Any) -> None:
        shape = self.shape({"cpu": 100}, labels={"app": app}, priority=priority)
        fact = f.PodObserved(
            **{
                "at": self.now,
                "namespace": "ns",
                "name": name,
                "uid": f"uid-{name}",
                "shape": shape,
                "phase": "Running",
                "node": node,
                "created_at": self.now,
                "labels": {"app": app},
                "owners": (OWNER,),
                "removal": f.Removal(),
                **more,
            }
        )
        self.placed[name] = fact
        self.tell(fact)

    def end_pod(self, name: str) -> None:
        """A pod has ended, and is gone."""
        fact = self.placed.pop(name)
        self.tell(f.PodGone(at=self.now, namespace="ns", name=name, uid=fact.uid))

    def budget(self, name: str, allowed: int, app: str = "web") -> None:
        self.budgets[name] = Budget(app, allowed)
        self.tell(self.budget_fact(name))

    def budget_fact(self, name: str) -> p.PodDisruptionBudgetObserved:
        budget = self.budgets[name]
        selector = {"matchLabels": {"app": budget.app}}
        return p.PodDisruptionBudgetObserved(
            at=self.now, namespace="ns", name=name, selector=selector, allowed=budget.allowed
        )

    def remove(self, name: str, *, drain: bool = True, **more: Any) -> None:
        """A decision to remove a node is on the log, as a pass of scale-down takes it."""
        self.decided(self.removal(name, drain=drain, **more))

    def removal(self, name: str, *, drain: bool = True, **more: Any) -> p.RemoveNode:
        return p.RemoveNode(
            at=self.now,
            node=name,
            uid=f"uid-{name}",
            provider_id=f"sim://{name}",
            group="g",
            kind="drain" if drain else "empty",
            size=self.groups["g"].target,
            **more,
        )

    def decided(self, *decisions: Decision) -> None:
        """Have the decider say these, as if its policy had concluded them from an event."""
        due = SetTimer(at=self.now, key=REMOVALS, due=self.now)
        nobody = f.PodGone(at=self.now, namespace="ns", name="nobody")

        def decide(state: State, event: Event, touched: Touched) -> Sequence[Decision]:
            return [*decisions, due] if event is nobody else DECIDER.decide(state, event, touched)

        self.fold.decider = dataclasses.replace(DECIDER, decide=decide)
        try:
            self.tell(nobody)
        finally:
            self.fold.decider = DECIDER
        self.advance(0.0)

    # --- API server, kubelets, cloud ---

    def _act(self, decision: Decision) -> None:
        if self.silent or decision.shadow:
            return
        match decision:
            case p.MarkNode():
                self._mark(decision)
            case EvictPod():
                self._evict(decision)
            case p.DeleteInstances() if decision.uids:
                self._delete(decision)
            case _:
                super()._act(decision)

    def _mark(self, decision: p.MarkNode) -> None:
        name = decision.target.name
        if self.mark_fails:
            self._answer(o.Rejected, decision, self.mark_fails)
            return
        node = self.objects.get(name)
        made = None if node is None else marks.marked(node, decision)
        self._inbox.append(o.Applied(at=self.now, decision=decision.id, found=made is None))
        if made is not None:
            self.objects[name] = made
            if not self.hides_nodes:
                self._inbox.append(self.fact_of(name))

    def _evict(self, decision: EvictPod) -> None:
        name = decision.target.name
        pod = self.placed.get(name)
        if pod is None or pod.uid != decision.target.uid:
            self._inbox.append(o.Applied(at=self.now, decision=decision.id, found=True))
            return
        if self.refuse_evictions:
            self._answer(o.Rejected, decision, self.refuse_evictions)
            return
        app = pod.labels["app"]
        covering = [key for key, budget in self.budgets.items() if budget.app == app]
        for key in covering:
            if self.budgets[key].allowed < 1:
                self._answer(o.Failed, decision, "DisruptionBudget")
                return
            self.budgets[key].allowed -= 1
            self._inbox.append(self.budget_fact(key))
            if self.reopens:
                self.budgets[key].allowed += 1
                self._inbox.append(self.budget_fact(key))
        self.evicted.append(name)
        self._inbox.append(o.Applied(at=self.now, decision=decision.id))
        if self.ends:
            del self.placed[name]
            self._inbox.append(f.PodGone(at=self.now, namespace="ns", name=name, uid=pod.uid))
        else:
            ending = msgspec.structs.replace(pod, at=self.now, deleting_at=self.now + 30)
            self.placed[name] = ending
            self._inbox.append(ending)

    def _delete(self, decision: p.DeleteInstances) -> None:
        if self.delete_fails:
            self._answer(o.Failed, decision, self.delete_fails)
            return
        refused = next((name for name in decision.nodes if name in self.deletion_refused), None)
        if refused is not None:
            self._answer(o.Rejected, decision, self.deletion_refused[refused])
            return
        kept: dict[str, str] = {}
        for name, uid in zip(decision.nodes, decision.uids, strict=True):
            if marks.not_drained(self.objects[name], uid):
                kept[name] = "Conflict"
            elif any(pod.node == name and _would_move(pod) for pod in self.placed.values()):
                kept[name] = "NodeNotEmpty"
        if kept:
            reason = next(iter(kept.values()))
            self._inbox.append(
                o.Rejected(
                    at=self.now, decision=decision.id, reason=reason,
                    message=f"{reason} here", result={"nodes": [*kept]},
                )
            )  # fmt: skip
            return
        self.deleted += decision.nodes
        for name in decision.nodes:
            del self.objects[name]
        self._inbox.append(o.Applied(at=self.now, decision=decision.id))
        self._inbox.extend(self._shrink(decision))

    def _answer(self, kind: type[o.Rejected] | type[o.Failed], decision: Decision, reason: str) -> None:
        self._inbox.append(kind(at=self.now, decision=decision.id, reason=reason, message=f"{reason} here"))

    # --- What became of it ---

    def marked(self) -> set[str]:
        """Nodes that carry a mark, a taint or a cordon."""
        return {
            name
            for name, node in self.objects.items()
            if node["metadata"]["annotations"]
            or node["spec"].get("taints")
            or node["spec"].get("unschedulable")
        }

    def undone(self) -> list[str]:
        return [decision.reason for decision in self.of(p.UndoRemoval)]


def _would_move(pod: f.PodObserved) -> bool:
    of_daemon_set = any(owner.kind == "DaemonSet" for owner in pod.owners)
    return pod.deleting_at is None and not of_daemon_set


def world(nodes: int = 3, config: dict[str, Any] | None = None, **group: int) -> Removing:
    cluster = Removing({**NO_PASS, **(config or {})})
    cluster.grown(nodes, **group)
    return cluster
