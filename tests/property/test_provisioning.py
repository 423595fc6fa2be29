"""The invariants of spec 8.1 over random clusters, requests, failures, crashes and repeated facts.

A played cloud stands around the real decider: orders are answered late, refused, or never; instances
come, fail, or stay away; nodes vanish. Beside the decider runs a second one that is made anew from the
first one's state as JSON again and again: whatever it decides must be the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vectors.provisioning_life import Cluster
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import CreateObject, DeleteObject, Effect, RecordObjectEvent, SetStatus
from tidewright.events.timers import TimerFired
from tidewright.host.fold.order import Fold
from tidewright.kube.keys import ObjectKey, RequestKey, name_of
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.fold.common import STANDING
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.requests import conditions as cond
from tidewright.provisioning.state import State

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
FOREIGN = "queued-provisioning.gke.io"
DAY = 86_400.0
MAX_NODES = 14
MAX_CORES = 80
REASONS = ("OutOfCapacity", "QuotaExceeded", "Conflict", "Unavailable")


class Wild(Cluster):
    """A cloud that answers when it likes."""

    def __init__(self, chance: Random, config: dict[str, Any]) -> None:
        self.chance = chance
        self.waiting: list[Effect] = []
        self.history: dict[str, list[cond.Condition]] = {}
        self.attempts: dict[str, list[p.AttemptRequest]] = {}
        self.told: dict[tuple[str, str], Event] = {}
        self.twin: Fold[State] = Fold(DECIDER, ALL)
        self.crash_each = chance.choice((1, 3, 7))
        super().__init__(config, boots=False)
        self.silent = True

    def tell(self, event: Event) -> None:
        """One event onto the log, and to the twin; the two must decide the same."""
        if isinstance(event, f.ObjectFact):
            self.told[type(event).__name__.removesuffix("Gone").removesuffix("Observed"), event.name] = event
        self.seq += 1
        body = registry.encode(event)
        before = self.snapshot()
        decided = self.fold.step(self.seq, body, event)
        if self.seq % self.crash_each == 0:
            self.restart_twin()
        twins = self.twin.step(self.seq, body, event)
        assert [d.body for d in twins] == [d.body for d in decided]
        for found in decided:
            self.said.append(found.decision)
            self.look(found.decision, before)

    def restart_twin(self) -> None:
        """As after a crash: the state is what its bytes say, and nothing else."""
        fresh: Fold[State] = Fold(DECIDER, ALL)
        fresh.state = msgspec.json.decode(msgspec.json.encode(self.twin.state), type=State)
        fresh.at, fresh.chain = self.twin.at, self.twin.chain
        fresh.timers = dict(self.twin.timers)
        self.twin = fresh

    # --- What must hold -----------------------------------------------------------------------

    def snapshot(self) -> dict[str, int]:
        return {name: group.target for name, group in self.state.groups.items()}

    def look(self, decision: Decision, before: dict[str, int]) -> None:
        """Hold one decision to the invariants."""
        match decision:
            case p.PlanScaleUp():
                self.look_at_plan(decision)
            case p.AttemptRequest():
                self.attempts.setdefault(decision.name, []).append(decision)
            case SetStatus():
                self.look_at_status(decision)
            case p.IncreaseNodeGroup() if decision.request:
                assert decision.request in self.state.requests  # none for one that was deleted
            case p.DeleteInstances():
                group = self.state.groups[NodeGroupId(decision.target.name)]
                assert (
                    decision.force or before[decision.target.name] - len(decision.instances) >= group.min_size
                )
        if isinstance(decision, Effect):
            assert not decision.target.name.startswith("foreign")
            if isinstance(decision, SetStatus):
                self.statuses[f"{decision.target.namespace}/{decision.target.name}"] = decision.status
            if isinstance(decision, RecordObjectEvent):
                return
            self.waiting.append(decision)

    def look_at_plan(self, plan: p.PlanScaleUp) -> None:
        for increase in plan.increases:
            group = self.state.groups[NodeGroupId(increase.group)]
            assert increase.from_size < increase.size <= group.max_size
        nodes = sum(max(g.target, 0) for g in self.state.groups.values()) + sum(
            not node.group for node in self.state.nodes.values()
        )
        assert nodes <= MAX_NODES
        cores = sum(
            g.target * -(-g.template.allocatable["cpu"] // 1000)
            for g in self.state.groups.values()
            if g.template is not None
        )
        assert cores <= MAX_CORES
        ordered = {i.group: i.size - i.from_size for i in plan.increases}
        loaded: dict[str, int] = {}
        for load in plan.loads:
            loaded[load.group] = loaded.get(load.group, 0) + load.nodes
            held = sum(self.state.shapes[d].requests.get("cpu", 0) * n for d, n in load.pods.items())
            group = self.state.groups[NodeGroupId(load.group)]
            assert group.template is not None
            assert held <= group.template.allocatable["cpu"]
        assert loaded == ordered
        placed = sum(load.nodes * sum(load.pods.values()) for load in plan.loads)
        assert placed <= plan.placed  # some found room that the new nodes leave to others
        if plan.request:
            self.look_at_gang(plan, placed)

    def look_at_gang(self, plan: p.PlanScaleUp, placed: int) -> None:
        """All or nothing: what the new nodes do not hold has room on those that are there or coming."""
        request = self.state.requests[RequestKey(ObjectKey(plan.request))]
        rest = sum(count for _, count in request.sets) - placed
        smallest = min(self.state.shapes[d].requests.get("cpu", 1) for d, _ in request.sets)
        room = sum(node.allocatable["cpu"] // smallest for node in self.state.nodes.values() if node.ready)
        coming = sum(
            opened.increase * self.cpu_of(name) // smallest for name, opened in self.state.open.items()
        )
        assert rest <= room + coming

    def look_at_status(self, decision: SetStatus) -> None:
        name = decision.target.name
        now = {c.type: c for c in cond.parse(decision.status.get("conditions"))}
        history = self.history.setdefault(name, [])
        was = {c.type: c for c in history}
        if "Failed" in was and was["Failed"].status == "True":
            turned = "Provisioned" in now and now["Provisioned"].status == "True"
            assert not turned or was.get("Provisioned", now["Provisioned"]).status == "True"
            assert now["Failed"].status == "True"
        if "BookingExpired" in now and now["BookingExpired"].status == "True":
            assert was["Provisioned"].status == "True"
        self.history[name] = list(now.values())

    def cpu_of(self, group: str) -> int:
        template = self.state.groups[NodeGroupId(group)].template
        return template.allocatable["cpu"] if template is not None else 0

    def booked_and_used(self) -> None:
        """What is booked and what runs is no more than there is, where nothing vanished."""
        cpu = sum(
            self.state.shapes[digest].requests.get("cpu", 0) * count
            for request in self.state.requests.values()
            if request.booked and request.class_name == CHECK
            for digest, count in request.sets
        )
        room = sum(node.allocatable["cpu"] for node in self.state.nodes.values())
        room += sum(opened.increase * self.cpu_of(name) for name, opened in self.state.open.items())
        assert cpu <= room

    # --- What happens -------------------------------------------------------------------------

    def answer(self) -> None:
        """The actuator answers its oldest order: done, refused, or answered twice."""
        if not self.waiting:
            return
        effect = self.waiting.pop(0)
        reason = self.chance.choice(REASONS) if self.chance.random() < 0.2 else ""
        if reason and isinstance(effect, p.IncreaseNodeGroup | SetStatus):
            kind = o.Failed if reason == "Unavailable" else o.Rejected
            self.tell(kind(at=self.now, decision=effect.id, reason=reason, message="no"))
            return
        match effect:
            case p.IncreaseNodeGroup(target=target):
                group = self.groups[target.name]
                if group.target not in (effect.from_size, effect.size):
                    self.tell(o.Rejected(at=self.now, decision=effect.id, reason="Conflict"))
                    return
                group.target = effect.size
                self.fill(target.name)
            case p.DecreaseNodeGroup(target=target):
                group = self.groups[target.name]
                running = sum(i.state == "running" for i in group.instances)
                group.target = max(effect.size, running)
                creating = [i for i in group.instances if i.state == "creating"]
                kept = creating[: group.target - running]
                group.instances = [i for i in group.instances if i.state == "running" or i in kept]
            case p.DeleteInstances(target=target):
                group = self.groups[target.name]
                there = {i.id for i in group.instances} & set(effect.instances)
                group.instances = [i for i in group.instances if i.id not in there]
                group.target -= len(there)
                for name in effect.nodes:
                    if name and f"sim://{name}" in there:
                        self.tell(f.NodeGone(at=self.now, name=name))
            case CreateObject(manifest=manifest):
                for event in self._made(manifest):
                    self.tell(event)
            case DeleteObject(target=target) if target.kind == "Pod":
                self.tell(f.PodGone(at=self.now, namespace=target.namespace, name=target.name))
        outcome = o.Applied(at=self.now, decision=effect.id, found=self.chance.random() < 0.2)
        for _ in range(self.chance.choice((1, 1, 2))):
            self.tell(outcome)

    def fill(self, name: str) -> None:
        group = self.groups[name]
        while len(group.instances) < group.target:
            group.made += 1
            broken = self.chance.random() < 0.1
            group.instances.append(
                p.Instance(
                    id=f"sim://{name}-n{group.made}",
                    state="creating",
                    error_class=1 if broken else 0,
                    error_code="StockOut" if broken else "",
                )
            )

    def come(self) -> None:
        """Some instances become nodes, and the cloud is seen."""
        name = self.chance.choice(sorted(self.groups))
        group = self.groups[name]
        creating = [i for i in group.instances if i.state == "creating" and not i.error_class]
        chosen = {i.id for i in creating[: self.chance.randint(0, len(creating))]}
        group.instances = [
            p.Instance(id=i.id, state="running") if i.id in chosen else i for i in group.instances
        ]
        self.observe_group(name)
        for machine in sorted(chosen):
            self.tell(self.node_fact(name, machine.removeprefix("sim://")))

    def schedule(self) -> None:
        """A pending pod is bound to some node with room, as a scheduler that knows no bookings would."""
        pending = [key for key in self.state.pods if not self.state.pods[key].node]
        nodes = [name for name, node in sorted(self.state.nodes.items()) if node.ready]
        if pending and nodes:
            key = self.chance.choice(pending)
            name = self.chance.choice(nodes)
            asked = self.state.shapes[self.state.pods[key].shape].requests["cpu"]
            used = sum(
                self.state.shapes[pod.shape].requests["cpu"]
                for pod in self.state.pods.values()
                if pod.node == name
            )
            if used + asked <= self.state.nodes[name].allocatable["cpu"]:
                self.pod(name_of(key), self.state.pods[key].shape, node=name)

    def lose(self) -> None:
        """A node vanishes with its pods and its machine."""
        if self.state.nodes:
            name = self.chance.choice(sorted(self.state.nodes))
            group = self.groups.get(self.state.nodes[name].group)
            for key in [k for k, pod in self.state.pods.items() if pod.node == name]:
                self.tell(f.PodGone(at=self.now, namespace="ns", name=name_of(key)))
            if group is not None:
                group.instances = [i for i in group.instances if i.id != f"sim://{name}"]
                group.target = max(0, group.target - 1)
                self.observe_group(group.id)
            self.tell(f.NodeGone(at=self.now, name=name))

    def repeat(self) -> None:
        """A last word is delivered again; nothing is ordered on its account."""
        if not self.told:
            return
        fact = self.told[self.chance.choice(sorted(self.told))]
        again: Any = msgspec.structs.replace(fact, at=self.now)
        plans, self.said = len(self.of(p.PlanScaleUp)), self.said
        self.tell(again)
        assert len(self.of(p.PlanScaleUp)) == plans

    def end_shapes(self) -> None:
        """As the watcher does once no pod has a shape."""
        there = {pod.shape for pod in self.state.pods.values()}
        for digest in sorted({d for d, fields in self.state.shapes.items() if fields.told} - there):
            self.tell(f.ShapeGone(at=self.now, digest=digest, namespace="ns"))

    def evaluate_again(self) -> None:
        """Evaluations on their own output, without a new fact, order nothing."""
        for fold in (self.fold, self.twin):
            fold.timers["evaluate"] = self.now
        plans = len(self.of(p.PlanScaleUp))
        self.tell(TimerFired(at=self.now, key="evaluate"))
        first = len(self.of(p.PlanScaleUp))
        for fold in (self.fold, self.twin):
            fold.timers["evaluate"] = self.now
        self.tell(TimerFired(at=self.now, key="evaluate"))
        assert len(self.of(p.PlanScaleUp)) == first
        assert first - plans <= 20


_Played = TypeVar("_Played", bound=Wild)


def world(chance: Random, kind: type[_Played]) -> _Played:
    found = kind(
        chance,
        {
            "profile": chance.choice(("compat", "hold")),
            "expander": chance.choice(("least-waste", "random", "most-pods", "least-nodes", "least-cost")),
            "balance-similar-node-groups": chance.choice((True, False)),
            "parallel-scale-up": chance.choice((True, False)),
            "max-nodes-total": MAX_NODES,
            "cores-total": f"0:{MAX_CORES}",
            "max-node-provision-time": "5m",
        },
    )
    for name in ("a", "b", "c")[: chance.randint(1, 3)]:
        found.add_group(name, cpu=chance.choice((4000, 8000)), maximum=chance.randint(1, 10))
    for name in ("n1", "n2")[: chance.randint(0, 2)]:
        found.add_node(name, cpu=4000)
    found.template("small", "1")
    found.template("large", "3500m")
    found.template("huge", "64")
    return found


def happenings(found: Wild) -> dict[str, Callable[[], None]]:
    """What may happen next, by name."""
    chance = found.chance
    counter = iter(range(10_000))

    def pods() -> None:
        shape = found.shape({"cpu": chance.choice((500, 1000, 3000))})
        for _ in range(chance.randint(1, 12)):
            found.pod(f"p{next(counter)}", shape)

    def request() -> None:
        number = next(counter)
        parameters = chance.choice(({}, {}, {"noRetry": "true"}, {"ValidUntilSeconds": "600"}))
        sets = [(chance.choice(("small", "large", "huge", "missing")), chance.randint(1, 8))]
        if chance.random() < 0.3:
            sets.append(("small", chance.randint(1, 8)))
        found.request(f"r{number}", chance.choice((ATOMIC, ATOMIC, CHECK)), sets, parameters)

    def foreign() -> None:
        found.request(f"foreign{next(counter)}", FOREIGN, [("small", 1)])

    def cancel() -> None:
        there = [k for k in sorted(found.state.requests) if not found.state.requests[k].deleting]
        if there:
            found.delete_request(chance.choice(there).split("/")[1])

    def delete_pod() -> None:
        if found.state.pods:
            key = chance.choice(sorted(found.state.pods))
            found.tell(f.PodGone(at=found.now, namespace="ns", name=name_of(key)))

    def later() -> None:
        found.advance(chance.choice((0.5, 5.0, 70.0, 400.0)))

    return {
        "pods": pods, "request": request, "foreign": foreign, "cancel": cancel, "delete": delete_pod,
        "later": later, "soon": lambda: found.advance(1.5), "answer": found.answer, "answer2": found.answer,
        "come": found.come, "come2": found.come, "schedule": found.schedule, "lose": found.lose,
        "repeat": found.repeat, "again": found.evaluate_again, "shapes": found.end_shapes,
    }  # fmt: skip


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 15), min_size=10, max_size=60))
def test_the_invariants_hold_whatever_happens(seed: int, choices: list[int]) -> None:
    found = world(Random(seed), Wild)
    happens = happenings(found)
    names = sorted(happens)
    for choice in choices:
        happens[names[choice]]()
    settled(found)
    restored = msgspec.json.decode(msgspec.json.encode(found.state), type=State)
    assert room(found.state) == room(restored)
    ends(found)
    nothing_is_left(found)


def settled(found: Wild) -> None:
    """The cloud does what it still owes, and all is quiet."""
    for _ in range(40):
        while found.waiting:
            found.answer()
        for name in sorted(found.groups):
            found.fill(name)
            found.groups[name].instances = [
                p.Instance(id=i.id, state="creating") if i.error_class else i
                for i in found.groups[name].instances
            ]
            found.boot(name)
        found.advance(20.0)
        if not found.waiting:
            break
    found.evaluate_again()


def ends(found: Wild) -> None:
    """Every request of ours comes to an end, and retries were never closer together than before."""
    for attempts in found.attempts.values():
        waits = [a.retry_at - a.at for a in attempts if a.retry_at]
        assert all(wait <= 600.0 + 1e-6 for wait in waits)
        assert all(b >= a - 1e-3 for a, b in pairwise(waits))
    # Pods that nothing holds are looked at every ten seconds; without them days pass quickly.
    for pod in sorted(found.state.pods):
        found.tell(f.PodGone(at=found.now, namespace="ns", name=name_of(pod)))
    for _ in range(10):
        found.advance(DAY)
        while found.waiting:
            found.answer()
    for key, request in found.state.requests.items():
        if request.class_name == FOREIGN or request.deleting:
            continue
        ended = {c.type for c in request.conditions if c.status == "True"}
        assert ended & {"Failed", "BookingExpired"}, f"{key}: {request.conditions}"


def nothing_is_left(found: Wild) -> None:
    """Once all is gone the state is as large as at the beginning, whatever has been: it is no history."""
    for key in sorted(found.state.requests):
        found.delete_request(name_of(key))
    found.advance(5.0)
    for name in sorted(found.state.nodes):
        found.tell(f.NodeGone(at=found.now, name=name))
    for name in sorted(found.state.groups):
        found.tell(p.NodeGroupGone(at=found.now, name=name))
    for template in sorted(found.state.templates):
        found.tell(p.PodTemplateGone(at=found.now, namespace="ns", name=name_of(template)))
    while found.waiting:
        found.answer()
    found.end_shapes()
    found.advance(DAY)
    for fold in (found.fold, found.twin):
        fold.timers["evaluate"] = found.now + 9 * DAY
    found.advance(9 * DAY)
    assert sizes(found.state) == sizes(State())
    assert derived_sizes(found.state) == derived_sizes(State())


def room(state: State) -> dict[str, Any]:
    """What the index has on every node, and who refers to what."""
    index = index_of(state)
    grid = index.grid
    return {
        "free": {
            f"{node}/{name}": int(column[row])
            for node, row in grid.rows.items()
            for name, column in grid.free.items()
            if column[row]
        },
        "held": {node: grid.held(row) for node, row in grid.rows.items()},
        "uses": index.uses,
        "busy": index.busy,
        "on_node": index.on_node,
        "consumers": index.consumers,
        "waiting": list(index.waiting),
        "kinds": {node: index.kinds[number] for node, number in index.kind.items()},
    }


STAYS = {"config", "counts", "histograms"}
"""What is configured, and counted since the beginning: of few kinds each."""


def sizes(state: State) -> dict[str, int]:
    """The size of every collection of the state."""
    found = {
        name: len(value)
        for name in state.__struct_fields__
        if name not in STAYS and isinstance(value := getattr(state, name), dict | list | tuple)
    }
    standing = sum(reason in STANDING for reason in state.said)  # a fixed number of reasons
    return found | {"said": found["said"] - standing, "said_at": 0}


def derived_sizes(state: State) -> dict[str, int]:
    """The size of every table of the index, and of what it consists of."""
    index = index_of(state)
    return {
        f"{type(part).__name__}.{name}": len(value)
        for part in (index, index.grid, index.claims)
        for name, value in vars(part).items()
        if isinstance(value, dict | list | set | tuple) and (part is not index.grid or name not in ROWS)
    }


ROWS = {"views", "_spare", "free"}
"""Rows of nodes that are gone, for those that come; columns of resources that were seen."""
