"""Whom a pod displaces that finds no room."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sim.test_placement import node, pod
from tidewright.sim.controllers.objects import Pod, PodDisruptionBudget
from tidewright.sim.scheduler.placement import Placer, shape_of
from tidewright.sim.scheduler.preemption import NEVER, Preemption


class World:
    """Nodes with pods on them."""

    def __init__(self, *names: str, cpu: str = "4") -> None:
        self.placer = Placer()
        for name in names:
            self.placer.table.put(node(name, cpu=cpu))
        self.preemption = Preemption(self.placer)
        self.budgets: list[PodDisruptionBudget] = []

    def runs(self, name: str, on: str, *, priority: int = 0, cpu: str = "1", **more: Any) -> Pod:
        made = pod(name, cpu=cpu, priority=priority, **more)
        self.placer.place(made, shape_of(made), self.placer.table.row_of[on])
        self.preemption.placed(made, shape_of(made), on)
        return made

    def budget(self, app: str, allowed: int) -> None:
        manifest = {
            "metadata": {"name": app, "namespace": "default", "uid": app},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.budgets.append(msgspec.convert(manifest, PodDisruptionBudget))

    def displaces(self, wanted: Pod) -> tuple[str, set[str]] | None:
        used = self.placer.table.used.copy()
        found = self.preemption.victims(wanted, shape_of(wanted), self.budgets)
        assert (self.placer.table.used == used).all(), "nothing has changed by asking"
        if found is None:
            return None
        there = self.placer.table.nodes[found.row]
        assert there is not None
        return there.metadata.name, {victim.metadata.name for victim in found.pods}


def test_no_more_pods_go_than_have_to_the_least_important_ones_first() -> None:
    world = World("n1")
    for number in range(4):
        world.runs(f"p{number}", "n1", priority=number)
    assert world.displaces(pod("new", cpu="2", priority=10)) == ("n1", {"p0", "p1"})
    assert world.displaces(pod("new", cpu="2", priority=1)) is None  # one of a lower priority is not enough


def test_pods_of_equal_priority_and_whoever_never_displaces_wait() -> None:
    world = World("n1", cpu="1")
    world.runs("p", "n1")
    assert world.displaces(pod("new")) is None
    assert world.displaces(pod("new", priority=1, preemptionPolicy=NEVER)) is None
    assert world.displaces(pod("new", priority=1)) == ("n1", {"p"})


def test_a_node_is_taken_on_which_less_important_and_fewer_pods_go_and_no_budget_is_broken() -> None:
    world = World("n1", "n2", cpu="2")
    world.runs("a", "n1", priority=5, cpu="2")
    world.runs("b", "n2", priority=1, cpu="1")
    world.runs("c", "n2", priority=1, cpu="1")
    assert world.displaces(pod("new", cpu="2", priority=10)) == ("n2", {"b", "c"})
    world = World("n1", "n2", cpu="2")
    world.runs("a", "n1", priority=1, cpu="2", labels={"app": "kept"})
    world.runs("b", "n2", priority=5, cpu="2")
    world.budget("kept", 0)
    assert world.displaces(pod("new", cpu="2", priority=10)) == ("n2", {"b"})


def test_nobody_goes_where_the_pod_could_not_run_anyway() -> None:
    world = World("n1", cpu="1")
    world.runs("p", "n1")
    assert world.displaces(pod("new", priority=1, nodeSelector={"zone": "b"})) is None
    assert world.displaces(pod("new", cpu="2", priority=1)) is None


def test_a_pod_that_is_kept_apart_from_others_displaces_them() -> None:
    world = World("n1")
    world.runs("p", "n1", labels={"app": "other"})
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
            ]
        }
    }
    assert world.displaces(pod("new", priority=1, affinity=apart)) == ("n1", {"p"})


@given(
    st.lists(
        st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.integers(-2, 3), st.integers(1, 3)), max_size=8
    ),
    st.integers(1, 4),
    st.integers(-1, 3),
)
def test_with_the_victims_gone_the_pod_fits_and_with_any_of_them_back_it_does_not(
    there: list[tuple[str, int, int]], cpu: int, priority: int
) -> None:
    world = World("n1", "n2", "n3")
    free = {"n1": 4, "n2": 4, "n3": 4}
    placed: dict[str, tuple[str, int, int]] = {}
    for number, (on, important, size) in enumerate(there):
        if free[on] >= size:
            free[on] -= size
            world.runs(f"p{number}", on, priority=important, cpu=str(size))
            placed[f"p{number}"] = (on, important, size)
    if max(free.values()) >= cpu:
        return
    found = world.displaces(pod("new", cpu=str(cpu), priority=priority))
    could = {
        on
        for on in free
        if free[on] + sum(size for at, low, size in placed.values() if at == on and low < priority) >= cpu
    }
    assert (found is None) == (not could)
    if found is not None:
        on, gone = found
        freed = [placed[name] for name in gone]
        assert all(at == on and low < priority for at, low, _ in freed)
        room = free[on] + sum(size for _, _, size in freed)
        assert room >= cpu
        assert all(room - size < cpu for _, _, size in freed)
