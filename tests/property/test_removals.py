"""What never happens to nodes that go, whatever comes in which order and dies when.

An API server holds the truth: nodes, pods, budgets. Facts of each kind come in their order, but later than those of
others; effects are carried out when it pleases, twice where the actuator died before it could say so, or not at all
for a while; the decider is made anew from its stored state again and again. Users cordon, taint, scale and delete.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.provisioning.removalworld import DAEMON, OWNER, replica_set
from tidewright.actuator import marks
from tidewright.events import facts as f
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Decision, Event, JsonObject
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import Effect, EvictPod, RecordObjectEvent, SetTimer
from tidewright.events.timers import TimerFired
from tidewright.host.fold.order import Fold
from tidewright.kube.podspecs import digest_of
from tidewright.kube.taints import DRAIN, TO_BE_DELETED
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.scaledown.removal.saga import REMOVALS
from tidewright.provisioning.state import State

NODES = 4
LABELS = {"app": "web"}
SHAPE = digest_of({"cpu": 100}, {}, "ns", LABELS, 0)
FOREIGN = {"key": "gpu", "value": "", "effect": "NoExecute"}
CONFIG = {
    "scale-down-unneeded-time": "1000h",
    "max-bulk-soft-taint-count": 0,
    "max-pod-eviction-time": "40s",
    "max-graceful-termination-sec": "60",
}
KINDS = ("node", "pod", "budget", "group")


class Wild:
    """The world, and what of it the decider has heard."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.fold: Fold[State] = Fold(DECIDER, ALL)
        self.now = 1_700_000_000.0
        self.seq = 0
        self.made = 0
        self.nodes: dict[str, JsonObject] = {}
        self.pods: dict[str, f.PodObserved] = {}
        self.allowed = 1
        self.target = NODES
        self.news: dict[str, list[Event]] = {kind: [] for kind in KINDS}
        self.effects: list[Effect] = []
        self.outcomes: list[Event] = []
        self.foreign: dict[str, tuple[list[JsonObject], bool]] = {}
        self.gone: set[str] = set()
        self.deletions: list[p.DeleteInstances] = []
        self.tell(ConfigSet(at=self.now, name="provisioning", data=CONFIG))
        self.tell(
            f.ShapeObserved(at=self.now, digest=SHAPE, requests={"cpu": 100}, namespace="ns", labels=LABELS)
        )
        self.tell(replica_set(self.now))
        for i in range(NODES):
            name = f"n{i}"
            self.nodes[name] = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}}
            self.foreign[name] = ([], False)
            self.said_of(name)
        self.group_fact()
        self.budget_fact()
        for i in range(6):
            self.add_pod(f"n{i % NODES}")
        self.heard()

    # --- The log ---

    def tell(self, event: Event, said: tuple[Decision, ...] = ()) -> None:
        """One event; `said` is what the decider's policy concludes from it."""
        self.seq += 1
        if said:
            self.fold.decider = dataclasses.replace(DECIDER, decide=lambda *_: said)
        decided = self.fold.step(self.seq, registry.encode(event), event)
        self.fold.decider = DECIDER
        for found in decided:
            self.look(found.decision)
            if isinstance(found.decision, Effect) and not isinstance(found.decision, RecordObjectEvent):
                self.effects.append(found.decision)

    def look(self, decision: Decision) -> None:
        """Hold what is decided to what is known."""
        if not isinstance(decision, p.DeleteInstances):
            return
        self.deletions.append(decision)
        state = self.fold.state
        for name, uid in zip(decision.nodes, decision.uids, strict=True):
            node = state.nodes[name]
            assert node.uid == uid
            assert any(taint["key"] == TO_BE_DELETED for taint in node.taints), "its own fact shows our taint"
            assert DRAIN in node.annotations
            there = [pod for pod in state.pods.values() if pod.node == name and not pod.daemon]
            assert all(pod.deleting_at is not None and pod.deleting_at + 35 < self.now for pod in there), (
                "but for those that should long have ended"
            )

    def restart(self) -> None:
        """The decider dies: its state is what its bytes say."""
        fresh: Fold[State] = Fold(DECIDER, ALL)
        fresh.state = msgspec.json.decode(msgspec.json.encode(self.fold.state), type=State)
        fresh.at, fresh.chain, fresh.timers = self.fold.at, self.fold.chain, dict(self.fold.timers)
        self.fold = fresh

    # --- Facts ---

    def said_of(self, name: str) -> None:
        node = self.nodes[name]
        annotations = node["metadata"].get("annotations", {})
        self.news["node"].append(
            f.NodeObserved(
                at=self.now,
                name=name,
                uid=node["metadata"]["uid"],
                annotations=annotations,
                taints=tuple(node["spec"].get("taints", ())),
                unschedulable=node["spec"].get("unschedulable", False),
                allocatable={"cpu": 4000, "pods": 110},
                ready=True,
                provider_id=f"sim://{name}",
                delays=(),
            )
        )

    def group_fact(self) -> None:
        self.news["group"].append(
            p.NodeGroupObserved(
                at=self.now,
                name="g",
                max_size=NODES,
                target_size=self.target,
                instances=tuple(
                    p.Instance(id=f"sim://{name}", state="running") for name in sorted(self.nodes)
                ),
            )
        )

    def budget_fact(self) -> None:
        self.news["budget"].append(
            p.PodDisruptionBudgetObserved(
                at=self.now,
                namespace="ns",
                name="web",
                selector={"matchLabels": LABELS},
                allowed=self.allowed,
            )
        )

    def heard(self, kind: str = "") -> None:
        """What watchers have to say of one kind, or of all, reaches the log."""
        for each in (kind,) if kind else KINDS:
            waiting, self.news[each] = self.news[each], []
            for fact in waiting:
                self.tell(msgspec.structs.replace(fact, at=self.now))

    # --- What users and controllers do ---

    def add_pod(self, node: str, *, daemon: bool = False, kept: bool = False) -> None:
        """A pod comes to a node; what the scheduler lets through is not asked: some tolerate everything."""
        self.made += 1
        name = f"p{self.made}"
        self.pods[name] = f.PodObserved(
            at=self.now,
            namespace="ns",
            name=name,
            uid=f"uid-{name}",
            shape=SHAPE,
            phase="Running",
            node=node,
            labels=LABELS,
            owners=(DAEMON,) if daemon else () if kept else (OWNER,),
            removal=f.Removal(grace_s=5),
        )
        self.news["pod"].append(self.pods[name])

    def end_pod(self, name: str) -> None:
        pod = self.pods.pop(name)
        self.news["pod"].append(f.PodGone(at=self.now, namespace="ns", name=name, uid=pod.uid))

    def some_node(self) -> str:
        return self.chance.choice(sorted(self.nodes)) if self.nodes else ""

    def comes(self) -> None:
        if name := self.some_node():
            self.add_pod(name, daemon=self.chance.random() < 0.2, kept=self.chance.random() < 0.2)

    def leaves(self) -> None:
        if self.pods:
            self.end_pod(self.chance.choice(sorted(self.pods)))

    def ends(self) -> None:
        for name in [name for name, pod in self.pods.items() if pod.deleting_at is not None]:
            self.end_pod(name)

    def opens(self) -> None:
        self.allowed = self.chance.choice((0, 1, 1, 2))
        self.budget_fact()

    def taints(self) -> None:
        """Somebody adds a taint of his own, while nobody drains."""
        name = self.some_node()
        if name and not self.nodes[name]["metadata"].get("annotations"):
            self.nodes[name]["spec"] = {
                **self.nodes[name]["spec"],
                "taints": [FOREIGN],
                "unschedulable": True,
            }
            self.foreign[name] = ([FOREIGN], True)
            self.said_of(name)

    def unmarks(self) -> None:
        """Somebody takes taint and mark off by hand."""
        name = self.some_node()
        if name:
            taints, cordoned = self.foreign[name]
            node = self.nodes[name]
            node["metadata"] = {"name": name, "uid": node["metadata"]["uid"]}
            node["spec"] = {
                **({"taints": taints} if taints else {}),
                **({"unschedulable": True} if cordoned else {}),
            }
            self.said_of(name)

    def vanishes(self) -> None:
        """A machine is lost, with all that ran there."""
        if len(self.nodes) > 2:
            self.lose(self.some_node())

    def lose(self, name: str) -> None:
        node = self.nodes.pop(name)
        self.gone.add(name)
        self.target -= 1
        self.news["node"].append(f.NodeGone(at=self.now, name=name, uid=node["metadata"]["uid"]))
        for pod in [pod.name for pod in self.pods.values() if pod.node == name]:
            self.end_pod(pod)
        self.group_fact()

    def removes(self) -> None:
        """Scale-down decides that a node goes."""
        state = self.fold.state
        known = sorted(
            name for name, node in state.nodes.items() if name not in state.removals and not node.doomed
        )
        if not known:
            return
        name = self.chance.choice(known)
        kind = self.chance.choice(("drain", "empty"))
        decision = p.RemoveNode(
            at=self.now,
            node=name,
            uid=state.nodes[name].uid,
            provider_id=f"sim://{name}",
            group="g",
            kind=kind,
        )
        nobody = f.PodGone(at=self.now, namespace="ns", name="nobody")
        self.tell(nobody, (decision, SetTimer(at=self.now, key=REMOVALS, due=self.now)))

    # --- The actuator ---

    def acts(self, index: int | None = None, *, dies: bool = False) -> None:
        """Carry one effect out; who dies before saying so does it again."""
        if not self.effects:
            return
        at = self.chance.randrange(len(self.effects)) if index is None else index
        effect = self.effects[at]
        # One after the other of one target, as in the actuator's lanes.
        at = next(i for i, other in enumerate(self.effects) if other.target == effect.target)
        effect = self.effects[at]
        outcome = self.carried_out(effect)
        if not dies:
            del self.effects[at]
            self.outcomes.append(outcome)

    def carried_out(self, effect: Effect) -> Event:
        if self.chance.random() < 0.1:
            return o.Failed(at=self.now, decision=effect.id, reason="Unavailable", message="no answer")
        match effect:
            case p.MarkNode():
                return self.mark(effect)
            case EvictPod():
                return self.evict(effect)
            case p.DeleteInstances():
                return self.delete(effect)
        return o.Applied(at=self.now, decision=effect.id)

    def mark(self, effect: p.MarkNode) -> Event:
        name = effect.target.name
        if name not in self.nodes:
            return (o.Rejected if effect.present else o.Applied)(at=self.now, decision=effect.id)
        try:
            made = marks.marked(self.nodes[name], effect)
        except ValueError as error:
            return o.Rejected(at=self.now, decision=effect.id, reason="Conflict", message=str(error))
        if made is not None:
            self.nodes[name] = made
            self.said_of(name)
        return o.Applied(at=self.now, decision=effect.id, found=made is None)

    def evict(self, effect: EvictPod) -> Event:
        pod = self.pods.get(effect.target.name)
        if pod is None or pod.uid != effect.target.uid:
            return o.Applied(at=self.now, decision=effect.id, found=True)
        assert pod.node == effect.node
        if pod.deleting_at is None:
            if self.allowed < 1:
                return o.Failed(at=self.now, decision=effect.id, reason="DisruptionBudget")
            self.allowed -= 1
            self.budget_fact()
            self.pods[pod.name] = msgspec.structs.replace(pod, deleting_at=self.now + 5)
            self.news["pod"].append(self.pods[pod.name])
        return o.Applied(at=self.now, decision=effect.id)

    def delete(self, effect: p.DeleteInstances) -> Event:
        for name, uid in zip(effect.nodes, effect.uids, strict=True):
            if name in self.nodes and (wrong := marks.not_drained(self.nodes[name], uid)):
                return o.Rejected(at=self.now, decision=effect.id, reason="Conflict", message=wrong)
            if any(marks.would_move(_as_object(pod)) for pod in self.pods.values() if pod.node == name):
                return o.Rejected(at=self.now, decision=effect.id, reason="NodeNotEmpty", message=name)
        for name in effect.nodes:
            if name in self.nodes:
                self.lose(name)
        return o.Applied(at=self.now, decision=effect.id)

    def answers(self) -> None:
        waiting, self.outcomes = self.outcomes, []
        for outcome in waiting:
            self.tell(msgspec.structs.replace(outcome, at=self.now))

    def passes(self, seconds: float) -> None:
        """Time goes on; timers fire when they are due."""
        end = self.now + seconds
        while True:
            due = min(((at, key) for key, at in self.fold.timers.items()), default=None)
            if due is None or due[0] > end:
                break
            self.now = max(self.now, due[0])
            self.tell(TimerFired(at=due[0], key=due[1]))
        self.now = end

    def settles(self, seconds: float) -> None:
        """Everybody is back, and nobody does anything else, for so long."""
        end = self.now + seconds
        self.catches_up()
        while self.now < end:
            self.passes(1.0)
            self.catches_up()

    def catches_up(self) -> None:
        while self.effects or self.outcomes or any(self.news.values()):
            while self.effects:
                self.acts(0)
            self.answers()
            self.heard()
            self.ends()


def _as_object(pod: f.PodObserved) -> JsonObject:
    owners = [{"kind": owner.kind, "controller": owner.controller} for owner in pod.owners]
    metadata: JsonObject = {"ownerReferences": owners}
    if pod.deleting_at is not None:
        metadata["deletionTimestamp"] = "now"
    return {"metadata": metadata, "status": {"phase": pod.phase}}


def happenings(world: Wild) -> list[Callable[[], Any]]:
    return [
        world.comes,
        world.leaves,
        world.ends,
        world.opens,
        world.taints,
        world.unmarks,
        world.vanishes,
        world.removes,
        world.removes,
        world.restart,
        world.answers,
        world.acts,
        world.acts,
        lambda: world.acts(dies=True),
        lambda: world.passes(1.0),
        lambda: world.passes(6.0),
        lambda: world.passes(25.0),
        *(lambda kind=kind: world.heard(kind) for kind in KINDS),
    ]


def our_marks(world: Wild) -> Iterator[str]:
    for name, node in world.nodes.items():
        tainted = any(taint["key"] == TO_BE_DELETED for taint in node["spec"].get("taints", ()))
        if tainted or DRAIN in node["metadata"].get("annotations", {}):
            yield name


@given(st.integers(0, 2**32), st.lists(st.integers(0, 20), min_size=10, max_size=80))
def test_no_pod_is_lost_and_no_mark_stays(seed: int, choices: list[int]) -> None:
    world = Wild(Random(seed))
    happens = happenings(world)
    for choice in choices:
        happens[choice]()
    world.chance = _Calm()
    world.settles(30.0)
    state = world.fold.state
    assert set(our_marks(world)) <= set(state.removals), "within 30 s nothing is marked that does not go"
    world.allowed = 2
    world.budget_fact()
    world.settles(200.0)
    assert state_of(world).removals == {}
    for name, node in world.nodes.items():
        taints, cordoned = world.foreign[name]
        assert node["spec"].get("taints", []) == taints
        assert node["spec"].get("unschedulable", False) == cordoned


def state_of(world: Wild) -> State:
    return world.fold.state


class _Calm(Random):
    """Nothing fails any more."""

    def random(self) -> float:
        return 1.0


@given(st.integers(0, 2**32), st.lists(st.integers(0, 20), min_size=10, max_size=60))
def test_a_restart_changes_nothing(seed: int, choices: list[int]) -> None:
    """The decider made anew from its stored state decides as the one that lived on."""
    lived, restarted = Wild(Random(seed)), Wild(Random(seed))
    for choice in choices:
        happenings(lived)[choice]()
        restarted.restart()
        happenings(restarted)[choice]()
        assert restarted.fold.chain == lived.fold.chain
