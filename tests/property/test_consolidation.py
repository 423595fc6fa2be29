"""What consolidation never does, over random pools of nodes with prices, pods, budgets and bookings, in hours of log time."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.replaceworld import Pools
from tidewright.events import outcomes as o
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import EvictPod
from tidewright.host.fold.order import Fold
from tidewright.kube.keys import ObjectKey, RequestKey
from tidewright.log.subjects import ALL
from tidewright.provisioning.consolidation.arrivals import came
from tidewright.provisioning.consolidation.kept import MOVED_REST_S
from tidewright.provisioning.consolidation.protection import DO_NOT_DISRUPT, YOUNG_S
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.state import State

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
HOUR_S = 3600.0
PLAIN = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Told(Pools):
    """Remembers what nodes cost when each decision was made, and which pods were made in place of others and when."""

    def __init__(self, config: dict[str, object]) -> None:
        self.prices: list[tuple[Decision, int]] = []
        self.born_at: dict[str, float] = {}
        self.moved_early: list[str] = []
        self.placed = {}
        super().__init__(config)

    def _act(self, decision: Decision) -> None:
        self.prices.append((decision, self.price_micro))
        if isinstance(decision, EvictPod) and self._by_consolidation(decision.node):
            name = decision.target.name
            if self.now - self.born_at.get(name, 0.0) < MOVED_REST_S:
                self.moved_early.append(name)
        before = set(self.placed)
        super()._act(decision)
        self.born_at.update(dict.fromkeys(set(self.placed) - before, self.now))

    def _by_consolidation(self, node: str) -> bool:
        removal = self.state.removals.get(node)
        return removal is not None and bool(removal.rule)

    def _room_for(self, cpu: int) -> str:
        """As a scheduler that leaves what is booked to those for whom it is."""
        booked: dict[str, int] = {}
        for request in self.state.requests.values():
            for places in request.places.values():
                for node, pods in places.items():
                    booked[node] = booked.get(node, 0) + 500 * pods
        return self.room_beside(cpu, booked)


def world(seed: int) -> Told:
    chance = Random(seed)
    cluster = Told(
        {
            "profile": "hold",
            "placeholders": False,
            "max-node-provision-time": "1m",
            "booking-duration": "100h",
            "consolidation-budgets": chance.choice(("10%", "50%", "100%")),
            "max-drain-parallelism": chance.choice((1, 3)),
            "scale-down-unneeded-time": chance.choice(("0s", "1m")),
            "consolidate-after": chance.choice(("0s", "5m")),
        }
    )
    if chance.random() < 0.5:
        cluster.budget("web", chance.choice((1, 3)))
        cluster.budgets["web"].allowed = 100
    left: dict[str, int] = {}
    for number in range(chance.randint(2, 3)):
        cpu = chance.choice((2000, 4000, 8000))
        nodes = chance.randint(0, 3)
        cluster.pool(f"pool{number}", nodes, cpu=cpu, price=chance.randint(100, 1500) * 1000)
        left.update((f"pool{number}{i}", cpu) for i in range(nodes))
    # All of one size: else it would depend on the order in which pods are made anew whether all find room.
    cpu = chance.choice((500, 1200, 1900))
    for number in range(chance.randint(0, 12)):
        fitting = [name for name, free in sorted(left.items()) if free >= cpu]
        if fitting:
            node = chance.choice(fitting)
            left[node] -= cpu
            protected = {DO_NOT_DISRUPT: "true"} if chance.random() < 0.05 else {}
            cluster.running(f"p{number}", node, cpu, annotations=protected)
    if chance.random() < 0.5:
        cluster.template("t", "500m")
        cluster.request("booked", ATOMIC, [("t", chance.randint(1, 3))])
    cluster.settle()
    cluster.advance(1200)
    return cluster


def booked(cluster: Told) -> dict[str, int]:
    request = cluster.state.requests.get(RequestKey(ObjectKey("ns/booked")))
    if request is None or not request.booked:
        return {}
    return {node: pods for places in request.places.values() for node, pods in places.items()}


@PLAIN
@given(seed=st.integers(0, 2**32))
def test_price_falls_pods_and_bookings_have_room_and_nothing_goes_round(seed: int) -> None:
    cluster = world(seed)
    kept = {name: fact.node for name, fact in cluster.placed.items() if fact.annotations}
    cluster.advance(1.5 * HOUR_S)
    # What was replaced costs less than it did.
    began, results = 0, list[str]()
    under_way = 0
    for decision, price in cluster.prices:
        if isinstance(decision, p.ReplaceNodes):
            if not under_way:
                began, results = price, []
            under_way += 1
            assert decision.after_micro < decision.before_micro
        elif isinstance(decision, p.EndReplacement):
            under_way -= 1
            results.append(decision.result)
            if not under_way and set(results) == {"Done"}:
                assert price < began
    assert cluster.without_place == []
    for name in cluster.objects:
        used = sum(cluster.cpu[pod] for pod, fact in cluster.placed.items() if fact.node == name)
        room = 500 * booked(cluster).get(name, 0)
        assert used + room <= cluster.groups[cluster.group_of[name]].template.allocatable["cpu"]
    assert all(node in cluster.objects for node in booked(cluster))
    assert {name: cluster.placed[name].node for name in kept} == kept
    assert cluster.moved_early == []
    # Nothing goes round: the load is the same, so that it only ever becomes cheaper, and pods that were moved rest for an hour.
    before, nodes = cluster.price_micro, len(cluster.objects)
    decided = len(cluster.of(p.ReplaceNodes))
    cluster.advance(1.5 * HOUR_S)
    assert cluster.price_micro <= before
    assert len(cluster.of(p.ReplaceNodes)) - decided <= 2 * nodes
    assert not cluster.state.consolidating.replacements
    assert cluster.marked() == set()


class Held(Told):
    """A cluster of several replacements at once, whose decider dies now and then, and that holds each step to what is.

    Attributes:
        dies: when the decider does.
        drains: how many nodes may be drained at a time.
        refused: what was asked for and not admitted.
        evicting: nodes of which pods were evicted, and that are still there.
    """

    def __init__(self, chance: Random) -> None:
        self.dies = chance
        self.drains = chance.choice((2, 3, 4))
        self.refused: list[str] = []
        self.evicting: set[str] = set()
        super().__init__(
            {
                "max-drain-parallelism": self.drains,
                "max-node-provision-time": "30m",
                "scale-down-unneeded-time": chance.choice(("0s", "1m")),
            }
        )

    def tell(self, event: Event) -> None:
        if self.dies.random() < 0.02:
            self.fold.state = msgspec.json.decode(msgspec.json.encode(self.state), type=State)
        super().tell(event)

    def _answer(self, kind: type[o.Rejected] | type[o.Failed], decision: Decision, reason: str) -> None:
        self.refused.append(reason)
        super()._answer(kind, decision, reason)

    def _evict(self, decision: EvictPod) -> None:
        """The owner's next pod is ready at once: the budget has as much left as before, a moment later."""
        assert decision.node in self.state.removals
        for one in self.state.consolidating.replacements:
            assert decision.node not in one.nodes or came(self.state)[one.decision], "what replaces it stands"
        self.evicting.add(decision.node)
        assert len(self.evicting) <= self.drains
        here = len(self.evicted)
        super()._evict(decision)
        for budget in self.budgets if len(self.evicted) > here else ():
            self.budgets[budget].allowed += 1
            fact = msgspec.structs.replace(self.budget_fact(budget), at=self.now + 0.003)
            self._inbox.append(fact)

    def _delete(self, decision: p.DeleteInstances) -> None:
        named = {one.node: one for one in self.of(p.RemoveNode)}
        for node, uid in zip(decision.nodes, decision.uids, strict=True):
            assert named[node].uid == uid
        assert decision.from_size is not None
        assert decision.size == decision.from_size - len(decision.nodes)
        assert not [name for name, fact in self.placed.items() if fact.node in decision.nodes]
        self.evicting -= set(decision.nodes)
        super()._delete(decision)


def several(seed: int) -> Held:
    """Dear nodes that become old enough to be replaced one after the other, while nodes for those before are on their way."""
    chance = Random(seed)
    cluster = Held(chance)
    pools = chance.randint(2, 3)
    for pool in range(pools):
        cluster.pool(f"dear{pool}-", 1, cpu=4000, price=chance.randint(800, 1200) * 1000)
        for i in range(3):
            cluster.running(f"p{pool}-{i}", f"dear{pool}-0", 1200)
        cluster.born[f"dear{pool}-0"] = cluster.now - YOUNG_S + 120 * pool - 60
        cluster.tell(cluster.fact_of(f"dear{pool}-0"))
    cluster.pool("cheap", 0, cpu=4000, price=300_000)
    cluster.boots_s("cheap", 60)
    cluster.budget("web", 3 * pools + chance.randint(0, 2))
    cluster.comes = False
    for _ in range(400):
        if len(cluster.state.consolidating.replacements) > 1 and chance.random() < 0.1:
            break
        cluster.advance(5)
    group = cluster.groups["cheap"]
    while (ordered := group.target) > len(group.instances):
        cluster.advance(chance.choice((1, 30, 90)))
        cluster.comes = True
        _, *nodes = cluster._grow("cheap", len(group.instances) + 1)
        cluster.comes, group.target = False, ordered
        cluster.observe_group("cheap")
        for node in nodes:
            cluster.tell(node)
    cluster.comes = True
    while not cluster.state.removals and cluster.state.consolidating.replacements:
        cluster.advance(1)
    cluster.budgets["web"].allowed = chance.choice((0, 1, 2, 3 * pools))
    cluster.tell(cluster.budget_fact("web"))
    cluster.advance(chance.choice((10, 100)))
    cluster.budgets["web"].allowed = chance.choice((1, 2))
    cluster.tell(cluster.budget_fact("web"))
    return cluster


@PLAIN
@given(seed=st.integers(0, 2**32))
def test_of_several_replacements_at_once_each_drains_within_budgets_and_deletes_what_is_empty(
    seed: int,
) -> None:
    cluster = several(seed)
    assert cluster.most_at_once() > 1
    cluster.advance(3 * HOUR_S)
    assert cluster.refused == [], "nothing was asked for that would not be admitted"
    assert cluster.without_place == []
    assert not cluster.state.consolidating.replacements
    assert cluster.marked() == set()
    for replacement in cluster.of(p.ReplaceNodes):
        assert replacement.after_micro < replacement.before_micro
    done = [one for one in cluster.of(p.EndReplacement) if one.result == "Done"]
    assert {node for one in done for node in one.nodes} <= set(cluster.deleted)


def test_several_replacements_at_once_come_to_their_end_and_are_given_up() -> None:
    """What the property above holds is reached: both ends, and drains that wait for a budget."""
    ends: Counter[str] = Counter()
    for seed in range(6):
        cluster = several(seed)
        cluster.advance(3 * HOUR_S)
        ends.update(result for result, _ in cluster.ended())
    assert ends["Done"] > 1
    assert ends["GivenUp"] > 0


@PLAIN
@given(seed=st.integers(0, 2**32))
def test_a_replay_says_and_comes_to_the_same(seed: int) -> None:
    cluster = world(seed)
    cluster.advance(0.7 * HOUR_S)
    again: Fold[State] = Fold(DECIDER, ALL)
    said: list[bytes] = []
    for seq, body in cluster.log:
        event = registry.decode(body)
        assert isinstance(event, Event)
        said += [decided.body for decided in again.step(seq, body, event)]
        if seq % 7 == 0:  # from a state as it is stored
            again.state = msgspec.json.decode(msgspec.json.encode(again.state), type=State)
    assert said == [registry.encode(decision) for decision in cluster.said]
    assert msgspec.json.encode(again.state, order="deterministic") == msgspec.json.encode(
        cluster.state, order="deterministic"
    )
