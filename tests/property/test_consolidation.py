"""What consolidation never does, over random pools of nodes with prices, pods, budgets and bookings, in hours of log time."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.replaceworld import Pools
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import EvictPod
from tidewright.host.fold.order import Fold
from tidewright.kube.keys import ObjectKey, RequestKey
from tidewright.log.subjects import ALL
from tidewright.provisioning.consolidation.kept import MOVED_REST_S
from tidewright.provisioning.consolidation.protection import DO_NOT_DISRUPT
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
