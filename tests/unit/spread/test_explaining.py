"""What spread says about itself, and what it foresees: placements, turns to go, changed spreads."""

from __future__ import annotations

import time

import msgspec
import pytest

from tests.unit.spread.cluster import (
    HASH,
    NAMESPACE,
    SPREAD,
    deployment,
    new_pod,
    observed,
    spec,
    spread_fact,
)
from tests.unit.spread.test_decide import Fold, placed
from tidewright.events.base import Because, ObjectRef, Scalar
from tidewright.events.decisions import DeleteObject, ScaleWorkload
from tidewright.events.spread import ChangeLedger, ForeseeScaleIn, PassedOver, PodPlaced
from tidewright.host.fold.explainer import Explainer, Reference
from tidewright.kube.workloadspreads.spec import Spread, parse_spec
from tidewright.spread.state import State
from tidewright.spread.tell import planning
from tidewright.spread.tell.explaining import EXPLAINER

explainer: Explainer[State] = EXPLAINER
ASKED = Reference("workloadspread", NAMESPACE, SPREAD)
FULL = PassedOver("a", "Full", 2, 2)


def spread_of(*limits: int | str | None) -> Spread:
    return parse_spec(spec(*limits), namespace=NAMESPACE, name=SPREAD, generation=1)


def test_a_pods_placement_names_what_was_passed_over_and_what_would_have_turned_it() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(3))
    entry = PodPlaced(
        at=0, namespace=NAMESPACE, name=SPREAD, key="request-1", request="request-1", version=HASH, subset="b",
        pod=f"web-{HASH}-", passed=(FULL,),
    )  # fmt: skip
    fold.see(entry)
    pod = new_pod(7)
    text = msgspec.json.encode({"name": SPREAD, "subset": "b", "uid": "request-1"}).decode()
    pod["metadata"]["annotations"] = {"apps.kruise.io/matched-workloadspread": text}
    (seen, *_) = fold.see(observed(pod, "web-7"))
    assert isinstance(seen, ChangeLedger)
    asked = Reference("pod", NAMESPACE, "web-7")
    assert explainer.concerns(seen, asked)
    assert not explainer.concerns(seen, Reference("pod", NAMESPACE, "web-8"))
    assert explainer.sentences(seen) == [
        "web-7 went to b: the first subset with room, after a was full (2 of 2)."
    ]
    assert explainer.opposite(fold.state, seen) == ["With maxReplicas 3 instead of 2, a would have taken it."]
    assert explainer.told(fold.state, asked).ledgers == (Reference("", NAMESPACE, SPREAD),)
    assert explainer.standing(fold.state, asked, time.time()) == [
        f"It is in subset b of spread {SPREAD}, with deletion cost 100.",
        "On scale-in it goes as number 1 of 1.",
    ]
    assert explainer.facts(fold.state, seen) == [ASKED, Reference("deployment", NAMESPACE, "web")]


@pytest.mark.parametrize(
    ("rule", "values", "told"),
    [
        ("NeverSeen", {"subset": "a", "bound_s": 30.0}, "Had its pod appeared within 30 s"),
        ("SubsetClosed", {"subset": "a", "pods": 1, "after_s": 60.0}, "With rescheduleCriticalSeconds greater than 60"),
        ("Rescheduled", {"pod": "web-1", "after_s": 60.0}, "Scheduled within 60 s of its creation, web-1 would"),
    ],
)  # fmt: skip
def test_what_came_too_late_is_turned_by_its_time(rule: str, values: dict[str, Scalar], told: str) -> None:
    target = ObjectRef(api_version="v1", kind="Pod", namespace=NAMESPACE, name="web-1")
    event = DeleteObject(at=0, target=target, because=(Because(rule=rule, values=values),))
    (text,) = explainer.opposite(Fold(spread_fact(spec(2, None))).state, event)
    assert told in text
    assert (
        explainer.opposite(Fold(spread_fact(spec(2, None))).state, msgspec.structs.replace(event, because=()))
        == []
    )


def test_a_scale_in_names_the_pods_once_before_they_go() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(4))
    for n in range(4):
        fold.see(placed("a" if n < 2 else "b", n))
    decided = ScaleWorkload(
        at=0, target=ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NAMESPACE, name="web"),
        replicas=2, from_replicas=4,
    )  # fmt: skip
    (foreseen,) = [d for d in fold.see(decided) if isinstance(d, ForeseeScaleIn)]
    assert [p.pod for p in foreseen.pods] == ["web-2", "web-3"]
    assert explainer.concerns(foreseen, ASKED)
    assert "web-2 (b, cost 100), web-3 (b, cost 100)" in explainer.sentences(foreseen)[-1]
    # The workload then shrinks: that was foreseen already.
    assert not [d for d in fold.see(deployment(2)[0]) if isinstance(d, ForeseeScaleIn)]
    standing = explainer.standing(fold.state, ASKED, time.time())
    assert standing[0] == "a: 2 pods, 2 places held of 2 places."
    assert standing[-1].startswith("On scale-in these go next, first one first: web-2 (b)")


def test_nothing_is_said_about_what_is_not_known() -> None:
    state = State()
    assert explainer.standing(state, ASKED, 0.0) == ()
    assert explainer.aggregate(state, ASKED) is None
    assert explainer.aggregate(state, Reference("pod", NAMESPACE, "x")) is None
    assert explainer.told(state, Reference("pod", NAMESPACE, "x")).ledgers == ()


def test_a_plan_from_nothing_fills_the_subsets_in_order() -> None:
    plan = planning.landing(spread_of("30%", "30%", "40%"), 11)
    assert [(r.subset, r.limit, r.then) for r in plan.rows] == [("a", 4, 4), ("b", 4, 4), ("c", 5, 3)]
    plan = planning.landing(spread_of(3, 2), 8)
    assert [(r.subset, r.then) for r in plan.rows] == [("a", 3), ("b", 2), ("", 3)]


def test_a_plan_over_pods_says_what_is_surplus_and_who_leaves() -> None:
    fold = Fold(spread_fact(spec(3, None)), *deployment(5))
    for n in range(5):
        fold.see(placed("a" if n < 3 else "b", n))
    copy = msgspec.json.encode(fold.state)
    lowered = planning.change(msgspec.json.decode(copy, type=State), spread_of(1, None), spec(1, None), 5)
    assert [(r.subset, r.now, r.then) for r in lowered.rows] == [("a", 3, 3), ("b", 2, 2)]
    assert lowered.surplus == {"a": 2}
    assert lowered.costs == 2
    shrunk = planning.change(msgspec.json.decode(copy, type=State), spread_of(1, None), spec(1, None), 3)
    assert shrunk.leaving == ("web-1 (a)", "web-2 (a)")
    assert [(r.subset, r.then) for r in shrunk.rows] == [("a", 1), ("b", 2)]
    grown = planning.change(msgspec.json.decode(copy, type=State), spread_of(4, None), spec(4, None), 8)
    assert [(r.subset, r.then) for r in grown.rows] == [("a", 4), ("b", 4)]


def test_a_workload_is_told_which_spread_it_is_the_target_of_and_how_that_stands() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(3))
    web = Reference("deployment", NAMESPACE, "web")
    standing = explainer.standing(fold.state, web, fold.state.now)
    assert standing[0] == f"It is the target of WorkloadSpread {SPREAD}."
    assert list(standing[1:]) == list(explainer.standing(fold.state, ASKED, fold.state.now))
    assert explainer.aggregate(fold.state, web) == {"spreads": [SPREAD]}
    assert explainer.told(fold.state, web).decisions == (ASKED,)
    other = Reference("statefulset", NAMESPACE, "web")
    assert list(explainer.standing(fold.state, other, fold.state.now)) == []
