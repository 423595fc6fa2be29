"""Scale-down, whatever happens: places that are there, budgets that hold, and the same decisions with and without a restart."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.provisioning.watched import Watched
from tidewright.events.base import Event
from tidewright.events.facts import NodeObserved
from tidewright.events.provisioning import IncreaseNodeGroup, RemoveNode, UndoRemoval
from tidewright.kube.keys import PodKey
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.index.resolving import shape_of
from tidewright.provisioning.scaledown.cards import Cards
from tidewright.provisioning.state import State
from tidewright.provisioning.tell.what_if_scaledown import preview

NODES = 6
STEPS = st.lists(st.integers(0, 7), min_size=5, max_size=25)


def happens(cluster: Watched, rng: Random, choice: int, *, restarts: bool) -> None:
    """One thing that may happen in a cluster of a few nodes."""
    name, node = f"p{rng.randrange(20)}", f"g{rng.randrange(NODES)}"
    there = next((key for key in cluster.state.pods if key.endswith(f"/{name}")), None)
    match choice:
        case 0 | 1 | 2 if there is None:
            cluster.placed(name, node)
        case 3 if there is not None:
            cluster.gone(name)
        case 4:
            cluster.budget(rng.randrange(4))
        case 5:
            cluster.advance(rng.choice((11, 60, 320)))
        case 6:
            ready = rng.random() < 0.7
            cluster.again(node, cluster.groups["g"].template.allocatable, ready=ready)
        case 7 if restarts:
            cluster.state.beside.index = None


def played(seed: int, choices: list[int], *, restarts: bool, last_s: float = 700) -> Watched:
    rng = Random(seed)
    cluster = Watched({"max-scale-down-parallelism": 3, "ok-total-unready-count": NODES})
    cluster.silent = True
    cluster.nodes(NODES)
    for choice in choices:
        happens(cluster, rng, choice, restarts=restarts)
    cluster.advance(last_s)
    return cluster


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), STEPS)
def test_what_is_recorded_as_unneeded_has_room_elsewhere_within_the_budgets(
    seed: int, choices: list[int]
) -> None:
    cluster = played(seed, choices, restarts=False, last_s=15)
    state, index = cluster.state, index_of(cluster.state)
    free = {
        name: {resource: int(index.grid.free[resource][row]) for resource in ("cpu", "memory", "pods")}
        for name, row in index.grid.rows.items()
    }
    covered = 0
    for name, unneeded in state.unneeded.items():
        assert name not in state.removals
        for pod, place in unneeded.moves.items():
            assert place not in state.unneeded, f"{pod} would go to {place}, which goes itself"
            assert state.nodes[place].ready
            for resource, amount in shape_of(state, index, state.pods[pod].shape).requests.items():
                free[place][resource] -= amount
        covered += len(unneeded.moves) if not unneeded.risky else 0
    assert all(amount >= 0 for amounts in free.values() for amount in amounts.values())
    for budget in state.budgets.values():
        assert covered <= budget.allowed, "nodes that are not risky go beyond what a budget allows"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), STEPS)
def test_a_restart_at_any_time_changes_no_decision(seed: int, choices: list[int]) -> None:
    lived = played(seed, choices, restarts=False)
    assert played(seed, choices, restarts=True).said == lived.said


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), STEPS)
def test_what_is_kept_of_nodes_is_what_is_read_anew(seed: int, choices: list[int]) -> None:
    cluster = played(seed, choices, restarts=False)
    state, index = cluster.state, index_of(cluster.state)
    kept, anew = index.cards, Cards()
    if kept is None:
        return
    kept.bring_up(state, index, state.now)
    anew.bring_up(state, index, state.now)
    assert kept.eligible.keys() == anew.eligible.keys()
    for name, card in kept.cards.items():
        assert (card.node, card.reason, card.use) == (
            anew.cards[name].node,
            anew.cards[name].reason,
            anew.cards[name].use,
        )
        keys: list[PodKey] = [pod.key for pod in kept.pods(state, index, name)]
        assert keys == [pod.key for pod in anew.pods(state, index, name)]
        assert kept.kind(state, index, name, state.now) == anew.kind(state, index, name, state.now)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), STEPS)
def test_what_the_plan_says_of_now_is_what_the_next_pass_does(seed: int, choices: list[int]) -> None:
    cluster = played(seed, choices, restarts=False, last_s=0)
    for _ in range(4):
        due = cluster.state.scan.due
        if due is None or cluster.state.scan.before is not None:
            return
        cluster.advance(max(0.0, due - cluster.now - 0.0005))
        state = msgspec.json.decode(msgspec.json.encode(cluster.state), type=State)
        said = [(one.node, one.kind, one.pods) for one in preview(state, due).going]
        before = len(cluster.of(RemoveNode))
        cluster.advance(0.001)
        done = [one for one in cluster.of(RemoveNode)[before:] if one.at == due]
        assert [(one.node, one.kind, len(one.pods)) for one in done] == said
        happens(cluster, Random(seed), choices[0], restarts=False)


class Growing(Watched):
    """Whose new nodes are told of like the others."""

    def node_fact(self, group: str, machine: str) -> Event:
        fact = super().node_fact(group, machine)
        assert isinstance(fact, NodeObserved)
        return msgspec.structs.replace(fact, delays=(), uid=f"uid-{machine}")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 12), st.integers(0, 900), st.integers(1, 3))
def test_a_load_that_comes_and_goes_brings_nodes_once_and_takes_them_once(
    pods: int, stays_s: int, rounds: int
) -> None:
    cluster = Growing()
    cluster.add_group("g", maximum=20)
    shape = cluster.shape({"cpu": 1500, "memory": 2**30})
    for _ in range(rounds):
        for i in range(pods):
            cluster.pod(f"p{i}", shape)
        cluster.settle()
        nodes = sorted(cluster.state.nodes)
        for i in range(pods):
            cluster.placed(f"p{i}", nodes[i // 2], shape=shape)
        cluster.advance(stays_s)
        for i in range(pods):
            cluster.gone(f"p{i}")
        cluster.advance(60)
    ordered = cluster.of(IncreaseNodeGroup)
    needed = -(-pods // 2)
    assert sum(order.size - order.from_size for order in ordered) == needed, (
        "nodes of a round before serve the next"
    )
    emptied = cluster.now - 60
    cluster.advance(1500)
    removed = cluster.of(RemoveNode)
    # Nobody marks a node here: what begins is undone, and may begin once more.
    begun, undone = Counter(one.node for one in removed), Counter(one.node for one in cluster.of(UndoRemoval))
    assert all(one.reason == "MarkNotSeen" for one in cluster.of(UndoRemoval))
    assert all(count <= undone[node] + 1 for node, count in begun.items())
    assert all(one.at >= emptied + 600 for one in removed if one.kind == "empty" and stays_s < 500)
    assert cluster.of(IncreaseNodeGroup) == ordered
    if needed <= 10:
        assert {one.node for one in removed} >= set(nodes[:needed])
