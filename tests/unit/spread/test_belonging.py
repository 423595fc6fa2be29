"""Whose pods are they: owners, references without a controller, and the selector of a scale."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.unit.spread.cluster import HASH, NAMESPACE, SPREAD, deployment, spec, spread_fact
from tests.unit.spread.test_decide import Fold, placed
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import PatchObject
from tidewright.events.facts import NodeObserved, Owner, PodGone, PodObserved, WorkloadGone, WorkloadObserved
from tidewright.events.spread import ChangeLedger, PodLeaving
from tidewright.kube.customworkloads import WHITELIST_CONFIG_MAP, WHITELIST_KEY
from tidewright.spread.match.pods import VERSION_IGNORED

KEY = f"{NAMESPACE}/{SPREAD}"
GAMES = "games.example.com/v1"
WHITELIST = {"workloads": [{"Group": "games.example.com", "Kind": "GameSet"}]}


def game_set(replicas: int, selector: str, **fields: Any) -> WorkloadObserved:
    """A custom workload as the watcher tells of it: replicas and selector are those of its scale."""
    return WorkloadObserved(
        at=0, namespace=NAMESPACE, name="arena", uid="gs", api_version=GAMES, kind="GameSet",
        replicas=replicas, selector=selector, **fields,
    )  # fmt: skip


def game(n: int, owner: Owner | None = None, **fields: Any) -> PodObserved:
    """A pod of a game; its owner is of a kind that nobody knows, unless given."""
    stranger = Owner(kind="Room", name=f"room-{n}", uid=f"room-{n}", api_version=GAMES, controller=True)
    given: dict[str, Any] = {"labels": {"game": "arena"}, "node": "n1", "phase": "Running", **fields}
    return PodObserved(
        at=0, namespace=NAMESPACE, name=f"arena-{n}", uid=f"uid-{n}", owners=(owner or stranger,), **given
    )


def started(*facts: Any) -> Fold:
    given = spec("50%", None)
    given["targetRef"] = {"apiVersion": GAMES, "kind": "GameSet", "name": "arena"}
    whitelist = {WHITELIST_KEY: msgspec.json.encode(WHITELIST).decode()}
    node = NodeObserved(at=0, name="n1", labels={"zone": "a"})
    return Fold(ConfigSet(at=0, name=WHITELIST_CONFIG_MAP, data=whitelist), node, spread_fact(given), *facts)


def replicas(fold: Fold) -> list[int]:
    status = fold.state.spreads[KEY].status
    return [] if status is None else [entry["replicas"] for entry in status["subsetStatuses"]]


def test_pods_that_no_owner_ties_to_a_custom_workload_are_found_by_its_scales_selector() -> None:
    fold = started(game_set(4, "game=arena"), game(0), game(1), game(2, labels={"game": "other"}))
    spread = fold.state.spreads[KEY]
    assert sorted(spread.pods) == ["arena-0", "arena-1"]
    # They run on a node of the first subset, so that is theirs.
    assert spread.ledger.counts == {VERSION_IGNORED: {"a": 2}}
    fold.pass_time(fold.now + 5)
    assert replicas(fold) == [2, 0]


def test_pods_that_were_there_before_their_workload_are_found_when_it_comes() -> None:
    fold = started(game(0), game(1))
    assert fold.state.spreads[KEY].pods == {}
    decisions = fold.see(game_set(2, "game in (arena)"))
    adopted = [d.target.name for d in decisions if isinstance(d, PatchObject)]
    assert adopted == ["arena-0", "arena-1"]


def test_a_scale_that_selects_others_now_lets_the_former_ones_go() -> None:
    fold = started(game_set(2, "game=arena"), game(0), game(1, labels={"game": "duel"}))
    fold.see(game_set(2, "game=duel"))
    spread = fold.state.spreads[KEY]
    assert sorted(spread.pods) == ["arena-1"]
    assert spread.ledger.counts == {VERSION_IGNORED: {"a": 1}}
    fold.see(game_set(2, ""))
    assert spread.pods == {}
    assert spread.ledger.counts == {}
    fold.pass_time(fold.now + 5)
    assert replicas(fold) == [0, 0]


def test_the_selector_counts_only_while_the_workload_owns_no_pod_itself() -> None:
    own = Owner(kind="GameSet", name="arena", uid="gs", api_version=GAMES, controller=True)
    fold = started(game_set(2, "game=arena"), game(0), game(1))
    spread = fold.state.spreads[KEY]
    fold.see(game(2, own))
    assert sorted(spread.pods) == ["arena-2"]
    assert spread.ledger.counts == {VERSION_IGNORED: {"a": 1}}
    fold.see(game(3, own))
    fold.see(PodGone(at=0, namespace=NAMESPACE, name="arena-2", uid="uid-2"))
    assert sorted(spread.pods) == ["arena-3"]
    fold.see(PodGone(at=0, namespace=NAMESPACE, name="arena-3", uid="uid-3"))
    assert sorted(spread.pods) == ["arena-0", "arena-1"]
    assert spread.ledger.counts == {VERSION_IGNORED: {"a": 2}}


def test_a_pod_of_another_spreads_workload_is_not_selected() -> None:
    fold = started(*deployment(1))
    other = msgspec.structs.replace(spread_fact(spec(1, None)), name="later", uid="ws-2")
    fold.see(other)
    fold.see(placed("a", 0))
    fold.see(game_set(1, "app=web"))
    assert fold.state.spreads[KEY].pods == {}
    assert sorted(fold.state.spreads[f"{NAMESPACE}/later"].pods) == ["web-0"]


def test_an_owner_that_is_no_controller_owns_its_pods_all_the_same() -> None:
    own = Owner(kind="GameSet", name="arena", uid="gs", api_version=GAMES, controller=False)
    fold = started(game(0, own), game_set(1, ""))
    assert sorted(fold.state.spreads[KEY].pods) == ["arena-0"]


def test_a_selector_that_cannot_be_read_selects_nothing() -> None:
    fold = started(game_set(1, "game in"), game(0))
    assert fold.state.spreads[KEY].pods == {}


def test_pods_of_a_target_that_is_gone_hold_their_places_until_they_go_too() -> None:
    """A workload that is deleted and made again at once finds the places that its former pods still have."""
    fold = Fold(spread_fact(spec(2, None)), *deployment(2), placed("a", 0), placed("a", 1))
    spread = fold.state.spreads[KEY]
    gone = WorkloadGone(
        at=0, namespace=NAMESPACE, name="web", uid="d", api_version="apps/v1", kind="Deployment"
    )
    fold.see(gone)
    fold.see(msgspec.structs.replace(deployment(2)[0], uid="d2"))
    assert spread.ledger.held(HASH, "a") == 2
    leaving = PodLeaving(
        at=0, namespace=NAMESPACE, name=SPREAD, key="web-0", request="d0", version=HASH, subset="a", pod="web-0",
        uid="uid-web-0",
    )  # fmt: skip
    decisions = fold.see(leaving)
    assert not [c for d in decisions if isinstance(d, ChangeLedger) for c in d.changes]  # it held a place
    assert spread.ledger.held(HASH, "a") == 1
    for n in range(2):
        fold.see(PodGone(at=0, namespace=NAMESPACE, name=f"web-{n}", uid=f"uid-web-{n}"))
    assert spread.ledger.counts == {}
    fold.pass_time(fold.now + 5)
    assert replicas(fold) == [0, 0]


def test_pods_that_a_selector_found_are_considered_no_more_without_their_target() -> None:
    fold = started(game_set(2, "game=arena"), game(0), game(1))
    fold.see(
        WorkloadGone(at=0, namespace=NAMESPACE, name="arena", uid="gs", api_version=GAMES, kind="GameSet")
    )
    spread = fold.state.spreads[KEY]
    assert (spread.pods, spread.ledger.counts) == ({}, {})
    fold.see(msgspec.structs.replace(game_set(2, "game=arena"), uid="gs2"))
    assert sorted(spread.pods) == ["arena-0", "arena-1"]


def test_pods_of_a_replica_set_that_was_orphaned_are_considered_no_more() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(2), placed("a", 0))
    assert fold.state.spreads[KEY].latest == deployment(2)[1].labels["pod-template-hash"]
    fold.see(msgspec.structs.replace(deployment(2)[1], owners=()))
    spread = fold.state.spreads[KEY]
    assert (spread.pods, spread.latest, fold.state.children) == ({}, "versionIgnored", {})


def test_a_workload_of_the_same_name_elsewhere_is_another_one() -> None:
    """Namespaces share a slot, and with it a state."""
    elsewhere = [msgspec.structs.replace(w, namespace="other", uid=f"{w.uid}-other") for w in deployment(40)]
    fold = Fold(*elsewhere, *deployment(10), spread_fact(spec("50%", None)))
    rules = fold.state.spreads[KEY].ledger.rules
    assert rules is not None
    assert [r.limit for r in rules.subsets] == [5, None]
    fold.see(WorkloadGone(at=0, namespace="other", name="web", api_version="apps/v1", kind="Deployment"))
    assert fold.state.spreads[KEY].target_uid == "d"


def test_among_pods_that_are_alike_those_restarted_more_often_are_surplus() -> None:
    pods = [
        msgspec.structs.replace(placed("a", n), created_at=1000.0, restarts=r, sidecar_restarts=s)
        for n, (r, s) in enumerate([(1, 0), (2, 0), (1, 3)])
    ]
    fold = Fold(spread_fact(spec(3, None)), *deployment(3), *pods)
    order = sorted(fold.state.spreads[KEY].pods.values(), key=lambda row: row.leaving_order())
    assert [row.name for row in order] == ["web-1", "web-2", "web-0"]
