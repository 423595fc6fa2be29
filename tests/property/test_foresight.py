"""Nodes ordered before pods are there: never more of them than otherwise, and nothing is expected for ever."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.workloads import Workloads, replica_set
from tidewright.events import provisioning as p
from tidewright.events import registry
from tidewright.events.config import ConfigSet
from tidewright.events.facts import PodGone
from tidewright.events.outcomes import Rejected
from tidewright.host.fold.order import Fold
from tidewright.log.subjects import ALL
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.fold.common import forget_index
from tidewright.provisioning.foresight.shares import FIRST_S, MOST_S, expected
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.settings import DECISIONS, OFF, WORKLOADS

NODE = 4000
QUIET: dict[str, Any] = {"scale-down-enabled": False}
GOING: dict[str, Any] = {
    "scale-down-unneeded-time": "1s",
    "scale-down-delay-after-add": "1s",
    "scale-down-utilization-threshold": 0.0,
}
"""Nodes without pods go, and no others."""


class Played(Workloads):
    """With controllers that make pods, some at a time, and a scheduler that binds those that fit."""

    def __init__(self, foresight: str, cpu: int, config: dict[str, Any] = QUIET) -> None:
        super().__init__({**config, "foresight": foresight})
        self.decided: list[str] = []
        self.add_group("g", cpu=NODE, maximum=100)
        self.cpu = cpu
        self.template_digest = self.form(f"{cpu}m")
        self.small = ""
        self.wants: dict[str, int] = {}
        self.pods: dict[str, dict[int, str]] = {}

    def scale(self, name: str, replicas: int) -> None:
        self.wants[name] = replicas
        self.pods.setdefault(name, {})
        self.deployment(name, replicas, template=self.template_digest, generation=len(self.log))

    def control(self, most: int, *, heard: bool = True) -> None:
        """Each controller makes or takes away so many pods at most; that it says so may not have been heard yet."""
        self.small = self.small or self.shape({"cpu": self.cpu})
        for name, wanted in sorted(self.wants.items()):
            pods = self.pods[name]
            self.replicas_of(name, f"{name}-1", wanted, template=self.template_digest)
            for _ in range(most):
                if len(pods) < wanted:
                    number = next(n for n in range(wanted) if n not in pods)
                    pods[number] = ""
                    self._tell_pod(name, number)
                elif len(pods) > wanted:
                    number, _node = max(pods.items())
                    del pods[number]
                    self._gone(name, number)
            if heard:
                self.deployment(name, wanted, status_replicas=len(pods))

    def schedule(self) -> None:
        """Bind what fits; say of the rest that it does not."""
        taken = Counter(node for pods in self.pods.values() for node in pods.values() if node)
        for name, pods in sorted(self.pods.items()):
            for number, node in sorted(pods.items()):
                if node:
                    continue
                free = [n for n in sorted(self.state.nodes) if (taken[n] + 1) * self.cpu <= NODE]
                if free:
                    pods[number] = free[0]
                    taken[free[0]] += 1
                    self._tell_pod(name, number, node=free[0])
                else:
                    self._tell_pod(name, number, unschedulable_since=self.now)

    def _tell_pod(self, name: str, number: int, **more: Any) -> None:
        self.made(f"{name}-1-{number}", self.small, replica_set(f"{name}-1"), **more)

    def _gone(self, name: str, number: int) -> None:
        self.tell(PodGone(at=self.now, namespace="ns", name=f"{name}-1-{number}", uid="u"))

    def stand_still(self) -> None:
        for _ in range(12):
            self.control(1000)
            self.schedule()
            self.advance(3)

    def left_alone(self) -> None:
        """Long enough for whatever is not needed to go."""
        for _ in range(20):
            self.stir()
            self.advance(5)

    def stir(self) -> None:
        """Something that has nodes looked at, and changes nothing else."""
        self.observe_group("g")

    def used(self) -> set[str]:
        return {node for pods in self.pods.values() for node in pods.values()}

    def play(self, steps: list[tuple[str, str, int]]) -> None:
        for what, name, many in steps:
            match what:
                case "decide" if name in self.wants:
                    self.decided.append(self.scaled(name, many))
                case "refuse" if self.decided:
                    self.tell(Rejected(at=self.now, decision=self.decided.pop(), reason="Conflict"))
                case "scale":
                    self.scale(name, many)
                case "control":
                    self.control(many)
                case "unheard":
                    self.control(many, heard=False)
                case "schedule":
                    self.schedule()
                case "wait":
                    self.advance(many / 10)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), st.sampled_from(("a", "b")), st.integers(0, 12)),
        st.tuples(st.just("decide"), st.sampled_from(("a", "b")), st.integers(0, 12)),
        st.tuples(st.just("refuse"), st.just(""), st.just(0)),
        st.tuples(st.just("control"), st.just(""), st.integers(1, 6)),
        st.tuples(st.just("unheard"), st.just(""), st.integers(1, 6)),
        st.tuples(st.just("schedule"), st.just(""), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(0, 40)),
    ),
    max_size=14,
)
GROWING = st.lists(st.tuples(st.sampled_from(("a", "b")), st.integers(0, 6), st.integers(0, 30)), max_size=6)


@settings(max_examples=40, deadline=None)
@example(growing=[("a", 0, 11), ("b", 1, 30), ("a", 4, 30)], cpu=2000, most=3)  # one has another's place
@given(growing=GROWING, cpu=st.sampled_from((1000, 2000, 4000)), most=st.integers(1, 5))
def test_every_pod_gets_its_place_on_no_more_nodes_than_without(
    growing: list[tuple[str, int, int]], cpu: int, most: int
) -> None:
    sizes = {}
    for foresight in (OFF, WORKLOADS):
        cluster = Played(foresight, cpu)
        for name, more, wait in growing:
            cluster.scale(name, cluster.wants.get(name, 0) + more)
            cluster.control(most)
            cluster.schedule()
            cluster.advance(wait / 10)
        cluster.stand_still()
        assert all(node for pods in cluster.pods.values() for node in pods.values())
        sizes[foresight] = cluster.groups["g"].target
    assert sizes[WORKLOADS] <= sizes[OFF]


@settings(max_examples=40, deadline=None)
@example(steps=[("scale", "a", 0), ("decide", "a", 1), ("decide", "a", 0)], cpu=1000)
@example(steps=[("scale", "b", 2), ("wait", "", 1), ("decide", "b", 1), ("control", "", 2)], cpu=1000)
@example(steps=[("scale", "b", 2), ("control", "", 1), ("scale", "a", 1), ("decide", "b", 0)], cpu=1000)
@given(steps=STEPS, cpu=st.sampled_from((1000, 3000)))
def test_what_is_expected_never_outlives_its_reason(steps: list[tuple[str, str, int]], cpu: int) -> None:
    cluster = Played(DECISIONS, cpu)
    cluster.play(steps)
    cluster.play([("refuse", "", 0)] * len(cluster.decided))  # each decision has its outcome in the end,
    cluster.control(0)  # and what controllers say is heard
    cluster.advance(2 * MOST_S)
    assert expected(cluster.state, index_of(cluster.state), cluster.now).shares == []
    assert cluster.state.foreseen == {}


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, cpu=st.sampled_from((1000, 3000)))
def test_an_index_that_is_built_anew_expects_the_same_and_a_replay_decides_the_same(
    steps: list[tuple[str, str, int]], cpu: int
) -> None:
    cluster = Played(DECISIONS, cpu)
    for step in steps:
        cluster.play([step])
        state = cluster.state
        lived = expected(state, index_of(state), cluster.now)
        forget_index(state)
        assert expected(state, index_of(state), cluster.now) == lived
    again = Fold(DECIDER, ALL)
    decided = []
    for seq, body in cluster.log:
        decided += [one.decision for one in again.step(seq, body, registry.decode(body))]
    assert decided == cluster.said
    assert again.state == cluster.state


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, cpu=st.sampled_from((1000, 3000)))
def test_once_the_load_stands_still_every_pod_is_placed_and_no_node_is_left_without_one(
    steps: list[tuple[str, str, int]], cpu: int
) -> None:
    cluster = Played(DECISIONS, cpu, GOING)
    cluster.play(steps)
    cluster.stand_still()
    cluster.left_alone()
    assert all(node for pods in cluster.pods.values() for node in pods.values())
    assert set(cluster.state.nodes) == cluster.used()
    assert cluster.groups["g"].target == len(cluster.used())


@settings(max_examples=25, deadline=None)
@given(wanted=st.integers(1, 12), boots=st.booleans(), decided=st.booleans())
def test_nodes_for_pods_that_never_come_are_gone_after_a_while(
    wanted: int, boots: bool, decided: bool
) -> None:
    cluster = Played(DECISIONS, 3000, GOING)
    cluster.boots = boots
    cluster.scale("a", 0 if decided else wanted)
    if decided:
        cluster.scaled("a", wanted)
    cluster.advance(1)
    assert cluster.groups["g"].target == wanted
    cluster.advance(FIRST_S)
    cluster.left_alone()
    assert cluster.groups["g"].target == 0
    assert cluster.state.open == {}


@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
def test_turned_off_mid_way_none_is_left_and_nodes_for_them_go(steps: list[tuple[str, str, int]]) -> None:
    cluster = Played(DECISIONS, 3000, GOING)
    cluster.play(steps)
    cluster.tell(ConfigSet(at=cluster.now, name="provisioning", data={**GOING, "foresight": OFF}))
    ordered = len(cluster.of(p.PlanScaleUp))
    cluster.schedule()
    cluster.advance(10)
    assert cluster.state.foreseen == {}
    assert all(not plan.expected for plan in cluster.of(p.PlanScaleUp)[ordered:])
    cluster.schedule()  # what waits has its node by now
    cluster.left_alone()
    assert set(cluster.state.nodes) == cluster.used() - {""}
