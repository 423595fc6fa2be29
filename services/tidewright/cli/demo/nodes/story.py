"""What happened to pods and nodes, folded from the log. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidewright.asking.told_time import told
from tidewright.events.base import Decision, Event, Outcome
from tidewright.events.decisions import EvictPod
from tidewright.events.facts import NodeGone, NodeObserved, PodGone, PodObserved
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import NodeGroupObserved, PlanScaleUp, RemoveNode, UndoRemoval
from tidewright.events.registry import wire_name

NAMESPACE = "demo"
POOL = "pool"
"""Label of a node: its group."""


@dataclass(frozen=True)
class Bill:
    """Node-hours and their price over some time.

    Attributes:
        hours: node-hours.
        price: of them, by the prices of their groups.
    """

    hours: float
    price: float


@dataclass
class NodesStory:
    """What is known so far.

    Attributes:
        now: the latest log time so far, seconds: as time is compressed here, events lie further back than they came.
        times: the time that is shown of each decision (`asking.told_time`), by its id.
        pods, waiting: pods of the demo that are there, and those of them without a node.
        nodes: nodes that are there, with their groups.
        prices: price of an hour by group.
        decisions: count by event type.
        plans: every plan that orders nodes, in order.
        removals: every removal that began, in order.
        undone: those that were undone, by the id of their decision.
        removed: when the node was gone, by the id of the removal.
        sizes, counts: `(log time, nodes)` and `(log time, pods)` at every change.
        by_group: `(log time, nodes by group)` at every change.
    """

    now: float = 0.0
    pods: int = 0
    waiting: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)
    decisions: dict[str, int] = field(default_factory=dict)
    plans: list[PlanScaleUp] = field(default_factory=list)
    removals: list[RemoveNode] = field(default_factory=list)
    undone: dict[str, UndoRemoval] = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    sizes: list[tuple[float, int]] = field(default_factory=list)
    counts: list[tuple[float, int]] = field(default_factory=list)
    by_group: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    _pods: dict[str, str] = field(default_factory=dict)
    _evictions: set[str] = field(default_factory=set)
    _evicted: set[str] = field(default_factory=set)

    def fold(self, event: Event) -> None:
        """Take one event, in the order of the log."""
        self.now = max(self.now, told(event))
        match event:
            case NodeObserved() if event.name not in self.nodes:
                self.nodes[event.name] = event.labels.get(POOL, "")
                self._sized(self.now)
            case NodeGone() if event.name in self.nodes:
                del self.nodes[event.name]
                for removal in self.under_way:
                    if removal.node == event.name:
                        self.removed[removal.id] = self.now
                self._sized(self.now)
            case PodObserved(namespace=ns) if ns == NAMESPACE:
                self._pods[event.name] = event.node
                self._counted(self.now)
            case PodGone(namespace=ns) if ns == NAMESPACE:
                self._pods.pop(event.name, None)
                self._counted(self.now)
            case NodeGroupObserved(price_micro=int(price)):
                self.prices[event.name] = price / 1e6
            case Decision():
                self._decided(event)
            case Outcome():
                if isinstance(event, Applied) and event.decision in self._evictions and not event.found:
                    self._evicted.add(event.decision)

    def _sized(self, at: float) -> None:
        self.sizes.append((at, len(self.nodes)))
        self.by_group.append((at, dict(Counter(self.nodes.values()))))

    def _counted(self, at: float) -> None:
        self.waiting = sum(not node for node in self._pods.values())
        if not self.counts or len(self._pods) != self.pods:
            self.counts.append((at, len(self._pods)))
        self.pods = len(self._pods)

    def _decided(self, decision: Decision) -> None:
        name = (wire_name(type(decision)) or "").removeprefix("decision.").rpartition(".")[0]
        self.decisions[name] = self.decisions.get(name, 0) + 1
        self.times[decision.id] = told(decision)
        match decision:
            case PlanScaleUp():
                self.plans.append(decision)
            case RemoveNode():
                self.removals.append(decision)
            case UndoRemoval():
                self.undone.setdefault(decision.removal, decision)
            case EvictPod():
                self._evictions.add(decision.id)

    @property
    def evicted(self) -> int:
        """Pods that were asked to leave a node, and left."""
        return len(self._evicted)

    @property
    def under_way(self) -> list[RemoveNode]:
        """Removals whose node is still there, and that were not undone."""
        return [r for r in self.removals if r.id not in self.removed and r.id not in self.undone]

    @property
    def settled(self) -> bool:
        """Whether no node is on its way out."""
        return not self.under_way

    @property
    def largest_plan(self) -> PlanScaleUp | None:
        """The plan for the most pods, the first of them."""
        return max(self.plans, key=lambda plan: plan.placed, default=None)

    @property
    def fullest_drain(self) -> RemoveNode | None:
        """The removal that was carried out and had the most pods leave, the first of them."""
        gone = [removal for removal in self.removals if removal.id in self.removed]
        return max(gone, key=lambda removal: len(removal.pods), default=None)

    def paid(self, start: float, end: float) -> Bill:
        """What the nodes that were there cost."""
        return self._bill(self.by_group, start, end)

    def standing(self, start: float, end: float) -> Bill:
        """What it had cost, had no node ever gone: each group stays at the most nodes that it had."""
        most: dict[str, int] = {}
        points = []
        for at, sizes in self.by_group:
            most = {group: max(most.get(group, 0), sizes.get(group, 0)) for group in most | sizes}
            points.append((at, most))
        return self._bill(points, start, end)

    def _bill(self, points: list[tuple[float, dict[str, int]]], start: float, end: float) -> Bill:
        hours = price = 0.0
        untils = [at for at, _ in points[1:]] + [end]
        for (at, sizes), until in zip(points, untils, strict=False):
            span = max(0.0, min(until, end) - max(at, start)) / 3600
            hours += span * sum(sizes.values())
            price += span * sum(self.prices.get(group, 0.0) * count for group, count in sizes.items())
        return Bill(hours, price)
