"""Nodes that are lost, come back, or are another kind of node now: what becomes of places, costs and adoption."""

from __future__ import annotations

from collections.abc import ValuesView
from typing import Any

import msgspec

from tests.unit.spread.cluster import HASH, NAMESPACE, SPREAD, deployment, spec, spread_fact
from tests.unit.spread.test_decide import START, Fold, costs, placed
from tidewright.events.decisions import PatchObject
from tidewright.events.facts import NodeGone, NodeObserved, PodGone, PodObserved
from tidewright.events.spread import ChangeLedger
from tidewright.spread.fold.evolve import evolve
from tidewright.spread.ledger import ledger
from tidewright.spread.state import Row

KEY = f"{NAMESPACE}/{SPREAD}"


class Walked(dict[str, Row]):
    """Counts how often somebody goes through all of it."""

    walks = 0

    def values(self) -> ValuesView[Row]:  # type: ignore[override]  # its own view cannot be named
        self.walks += 1
        return super().values()


def node(name: str, zone: str, **fields: Any) -> NodeObserved:
    return NodeObserved(at=0, name=name, labels={"zone": zone}, **fields)


def on(name: str, subset: str, n: int, **fields: Any) -> PodObserved:
    ready: dict[str, Any] = {"phase": "Running", "ready": True, "ready_changed_at": START - 500 + n, **fields}
    return placed(subset, n, node=name, **ready)


def outside(name: str, n: int) -> PodObserved:
    """A pod without a place, on this node."""
    return msgspec.structs.replace(on(name, "", n), annotations={})


def next_place(fold: Fold) -> str:
    return ledger.place(fold.state.spreads[KEY].ledger, HASH, "new", "").subset


def test_places_of_a_lost_nodes_pods_are_free_as_each_of_them_goes() -> None:
    pods = [on("n1", "a", 0), on("n1", "a", 1), on("n2", "a", 2), on("n3", "b", 3)]
    fold = Fold(
        node("n1", "a"),
        node("n2", "a"),
        node("n3", "b"),
        spread_fact(spec(3, None)),
        *deployment(4),
        *pods,
    )
    assert next_place(fold) == "b"
    # The machine is gone before its pods are: they hold their places for as long as they are there.
    fold.see(NodeGone(at=0, name="n1"))
    assert fold.state.spreads[KEY].ledger.held(HASH, "a") == 3
    assert next_place(fold) == "b"
    for n in range(2):
        decisions = fold.see(PodGone(at=0, namespace=NAMESPACE, name=f"web-{n}", uid=f"uid-web-{n}"))
        (change,) = [d for d in decisions if isinstance(d, ChangeLedger)]
        assert [(c.kind, c.pod, c.subset) for c in change.changes] == [("Released", f"web-{n}", "a")]
        assert next_place(fold) == "a"
    fold.pass_time(START + 5)
    status = fold.state.spreads[KEY].status
    assert status is not None
    assert [(s["replicas"], s["missingReplicas"]) for s in status["subsetStatuses"]] == [(1, 2), (1, -1)]


def test_pods_that_a_lost_node_leaves_unready_are_the_surplus() -> None:
    pods = [on("n1", "a", n) for n in range(2)] + [on("n2", "a", n) for n in range(2, 4)]
    fold = Fold(
        node("n1", "a"), node("n2", "a"), spread_fact(spec(2, None)), *deployment(4), *pods
    )  # fmt: skip
    rows = fold.state.spreads[KEY].pods
    assert {name for name, row in rows.items() if row.asked == "-100"} == {"web-2", "web-3"}  # ready last
    decided: dict[str, str] = {}
    for n in range(2):
        decided |= costs(fold.see(on("n1", "a", n, ready=False, ready_changed_at=START)))
    assert decided == {"web-0": "-100", "web-1": "-100", "web-2": "200", "web-3": "200"}


def test_a_pod_on_a_node_that_is_gone_is_adopted_by_no_subset() -> None:
    fold = Fold(node("n1", "a"), spread_fact(spec(3, None)), *deployment(1))
    fold.see(NodeGone(at=0, name="n1"))
    fold.see(outside("n1", 0))
    assert fold.state.spreads[KEY].pods["web-0"].subset == ""
    # It is there again: the pod's place is known at once.
    decisions = fold.see(node("n1", "a"))
    assert [d.target.name for d in decisions if isinstance(d, PatchObject)] == ["web-0", "web-0"]
    assert fold.state.spreads[KEY].pods["web-0"].subset == "a"


def test_a_node_that_fits_a_subset_from_now_on_brings_its_pods_into_it() -> None:
    fold = Fold(node("n1", "z"), spread_fact(spec(3, 1)), *deployment(1), outside("n1", 0))
    assert fold.state.spreads[KEY].pods["web-0"].subset == ""
    fold.see(node("n1", "b", taints=({"key": "k", "value": "", "effect": "PreferNoSchedule"},)))
    assert fold.state.spreads[KEY].pods["web-0"].subset == ""
    fold.see(node("n1", "b"))
    assert fold.state.spreads[KEY].pods["web-0"].subset == "b"
    assert fold.state.spreads[KEY].ledger.counts == {HASH: {"b": 1}}


def test_a_node_that_is_another_one_now_has_pods_gone_through_where_one_lacks_a_place() -> None:
    fold = Fold(node("n1", "a"), spread_fact(spec(3, None)), *deployment(2), on("n1", "a", 0))
    spread = fold.state.spreads[KEY]
    spread.pods = walked = Walked(spread.pods)
    touched = evolve(fold.state, node("n1", "b"))
    assert (walked.walks, touched.spreads) == (0, [])
    fold.see(NodeGone(at=0, name="n1"))
    fold.see(outside("n1", 1))
    touched = evolve(fold.state, node("n1", "a"))
    assert touched.spreads == [KEY]
