"""What is known of pods, nodes, budgets and owners for when a node is to go."""

from __future__ import annotations

from tidewright.events import facts as f
from tidewright.events import provisioning as p
from tidewright.events.base import Event
from tidewright.kube.keys import key_of, pod_key
from tidewright.provisioning.fold.evolve import evolve
from tidewright.provisioning.state import Budget, Controller, State, owner_key

WEB = f.Owner(kind="ReplicaSet", name="web", uid="r", api_version="apps/v1", controller=True)


def folded(*events: Event) -> State:
    state = State()
    for event in events:
        evolve(state, event)
    return state


def pod(name: str, removal: f.Removal | None = None) -> f.PodObserved:
    return f.PodObserved(
        at=1.0,
        namespace="shop",
        name=name,
        uid=name,
        owners=(WEB,),
        deleting_at=5.0,
        annotations={"karpenter.sh/do-not-disrupt": "true"},
        removal=removal,
    )


def test_of_a_pod_is_known_what_rules_ask_for() -> None:
    known = folded(pod("a", f.Removal(grace_s=5))).pods[pod_key("shop", "a")]
    assert known.removal == f.Removal(grace_s=5)
    assert known.controller == Controller("ReplicaSet", "web", "apps/v1", WEB.uid)
    assert known.deleting_at == 5.0
    assert known.annotations == {"karpenter.sh/do-not-disrupt": "true"}


def test_of_a_pod_of_a_watcher_of_before_nothing_is_known() -> None:
    known = folded(pod("a")).pods[pod_key("shop", "a")]
    assert (known.removal, known.controller, known.deleting_at, known.annotations) == (None, None, None, None)


def test_pods_of_one_workload_share_what_is_known_of_it() -> None:
    pods = folded(pod("a", f.Removal(grace_s=6)), pod("b", f.Removal(grace_s=6))).pods
    a, b = pods[pod_key("shop", "a")], pods[pod_key("shop", "b")]
    assert a.removal is b.removal
    assert a.controller is b.controller


def test_the_uid_of_a_node_is_known_with_what_delays_its_deletion() -> None:
    state = folded(
        f.NodeObserved(at=1.0, name="old", uid="u1"), f.NodeObserved(at=1.0, name="new", uid="u2", delays=())
    )
    assert (state.nodes["old"].uid, state.nodes["old"].delays) == ("", None)
    assert (state.nodes["new"].uid, state.nodes["new"].delays) == ("u2", ())


def test_budgets_and_owners_are_known_while_they_are_there() -> None:
    budget = p.PodDisruptionBudgetObserved(at=1.0, namespace="shop", name="web", selector={}, allowed=2)
    owner = f.WorkloadObserved(
        at=1.0, namespace="shop", name="web", api_version="apps/v1", kind="ReplicaSet", replicas=3
    )
    state = folded(budget, owner)
    assert state.budgets == {key_of("shop", "web"): Budget({}, 2, at=1.0)}
    assert state.replicas == {owner_key("ReplicaSet", "shop", "web"): 3}
    evolve(state, p.PodDisruptionBudgetGone(at=2.0, namespace="shop", name="web"))
    evolve(
        state,
        f.WorkloadGone(at=2.0, namespace="shop", name="web", api_version="apps/v1", kind="ReplicaSet"),
    )
    assert (state.budgets, state.replicas) == ({}, {})
