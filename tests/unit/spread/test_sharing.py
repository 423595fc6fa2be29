"""Several spreads of one workload: which share it, whose a pod is, and who says what when they may not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.spread.cluster import HASH, NAMESPACE, deployment, spec, spread_fact
from tests.unit.spread.test_decide import START, Fold, placed
from tidewright.events.base import Decision, JsonObject, ObjectRef
from tidewright.events.decisions import RecordObjectEvent, ScaleWorkload
from tidewright.events.facts import PodGone, PodObserved
from tidewright.events.spread import (
    ChangeLedger,
    ForeseeScaleIn,
    RecordSpread,
    WorkloadSpreadGone,
    WorkloadSpreadObserved,
)
from tidewright.host.fold.explainer import Reference
from tidewright.kube.customworkloads import Whitelist
from tidewright.kube.workloadspreads.spec import TargetRef, parse
from tidewright.spread.api import validation
from tidewright.spread.match.matching import NotFound
from tidewright.spread.state import State
from tidewright.spread.tell import planning
from tidewright.spread.tell.explaining import EXPLAINER

CHIEF, WORKER = {"matchLabels": {"role": "chief"}}, {"matchLabels": {"role": "worker"}}
BOTH = {"matchExpressions": [{"key": "role", "operator": "In", "values": ["chief", "worker"]}]}


def of_role(selector: JsonObject | None, *limits: int | None) -> JsonObject:
    return spec(*limits, **({} if selector is None else {"targetFilter": {"selector": selector}}))


def spread(name: str, given: JsonObject, generation: int = 1, **more: Any) -> WorkloadSpreadObserved:
    """A spread of the one Deployment; the older ones come first in the alphabet."""
    made = START - 1000 + ord(name[0])
    fact = spread_fact(given, generation, created_at=made, **more)
    return msgspec.structs.replace(fact, name=name, uid=f"ws-{name}")


def pod(n: int, role: str, subset: str = "", by: str = "", **fields: Any) -> PodObserved:
    fact = placed(subset, n, **fields)
    annotations = {}
    if by:
        text = msgspec.json.encode({"name": by, "subset": subset}).decode()
        annotations = {"apps.kruise.io/matched-workloadspread": text}
    labels = {**fact.labels, **({"role": role} if role else {})}
    return msgspec.structs.replace(fact, labels=labels, annotations=annotations)


def sharing() -> Fold:
    """Two chiefs, three workers, and one pod that nobody selects."""
    return Fold(
        *deployment(6),
        spread("chiefs", of_role(CHIEF, 1, None)),
        spread("workers", of_role(WORKER, 2, None)),
        pod(0, "chief", "a", "chiefs"),
        pod(1, "chief", "b", "chiefs"),
        pod(2, "worker", "a", "workers"),
        pod(3, "worker", "a", "workers"),
        pod(4, "worker", "b", "workers"),
        pod(5, ""),
    )


def homes(fold: Fold) -> dict[str, list[str]]:
    """The pods of each spread, and under "" those of none."""
    found = {s.name: sorted(s.pods) for s in fold.state.spreads.values() if s.pods}
    strays = sorted(fold.state.strays.get(NAMESPACE, {}))
    return {**found, "": strays} if strays else found


def counts(fold: Fold, name: str) -> dict[str, int]:
    return fold.state.spreads[f"{NAMESPACE}/{name}"].ledger.counts.get(HASH, {})


def said(decisions: list[Decision]) -> dict[str, str]:
    return {d.target.name: d.message for d in decisions if isinstance(d, RecordSpread)}


def conditions(fold: Fold, name: str) -> list[tuple[str, str, str]]:
    status = fold.state.spreads[f"{NAMESPACE}/{name}"].status
    assert status is not None
    listed = status["subsetStatuses"][0].get("conditions", ())
    return [(c["type"], c["status"], c["reason"]) for c in listed]


def test_each_counts_the_pods_that_its_selector_takes() -> None:
    fold = sharing()
    assert homes(fold) == {
        "chiefs": ["web-0", "web-1"], "workers": ["web-2", "web-3", "web-4"], "": ["web-5"],
    }  # fmt: skip
    assert (counts(fold, "chiefs"), counts(fold, "workers")) == ({"a": 1, "b": 1}, {"a": 2, "b": 1})
    fold.pass_time(fold.now + 5)
    for name, numbers in (("chiefs", [1, 1]), ("workers", [2, 1])):
        status = fold.state.spreads[f"{NAMESPACE}/{name}"].status
        assert status is not None
        assert [entry["replicas"] for entry in status["subsetStatuses"]] == numbers
        assert conditions(fold, name) == []


def test_a_pod_that_is_relabelled_goes_over_and_is_counted_once() -> None:
    fold = sharing()
    fold.see(pod(3, "chief", "a", "workers"))
    assert homes(fold)["chiefs"] == ["web-0", "web-1", "web-3"]
    # The annotation of another spread puts it in no subset here; its place there is free.
    assert (counts(fold, "chiefs"), counts(fold, "workers")) == ({"a": 1, "b": 1}, {"a": 1, "b": 1})
    fold.see(pod(3, "chief", "b", "chiefs"))
    assert counts(fold, "chiefs") == {"a": 1, "b": 2}
    fold.see(PodGone(at=0, namespace=NAMESPACE, name="web-3", uid="uid-web-3"))
    assert (counts(fold, "chiefs"), counts(fold, "workers")) == ({"a": 1, "b": 1}, {"a": 1, "b": 1})


def test_a_pod_that_left_the_selector_and_came_back_holds_its_place_again() -> None:
    fold = sharing()
    fold.see(pod(3, "", "a", "workers"))
    assert counts(fold, "workers") == {"a": 1, "b": 1}
    fold.see(pod(3, "worker", "a", "workers"))
    assert counts(fold, "workers") == {"a": 2, "b": 1}
    fold.see(PodGone(at=0, namespace=NAMESPACE, name="web-3", uid="uid-web-3"))
    assert counts(fold, "workers") == {"a": 1, "b": 1}


@pytest.mark.parametrize("by_autoscaler", [False, True])
def test_who_leaves_is_foreseen_over_all_pods_of_the_workload(by_autoscaler: bool) -> None:
    """The workload's controller knows of no spread: each names those of its own pods that are among the first to go."""
    fold = sharing()
    if by_autoscaler:
        chiefs = fold.state.spreads[f"{NAMESPACE}/chiefs"].spread
        target = None if chiefs is None else chiefs.target
        scale = ScaleWorkload(at=0, target=reference(target), from_replicas=6, replicas=3)
        decisions = fold.see(scale)
    else:
        decisions = fold.see(deployment(3)[0])
    foreseen = {d.target.name: d for d in decisions if isinstance(d, ForeseeScaleIn)}
    # No cost at all goes first but for negative ones; then the cheaper ones: those of later subsets.
    assert {name: [p.pod for p in d.pods] for name, d in foreseen.items()} == {
        "chiefs": ["web-1"], "workers": ["web-4"],
    }  # fmt: skip
    assert {name: d.count for name, d in foreseen.items()} == {"chiefs": 1, "workers": 1}
    for decision in foreseen.values():
        assert decision.because[0].values == {"replicas": 3, "active": 6, "of_others": 2}
        assert "Of 6 pods 3 stay; 2 of those that leave are not this spread's." in EXPLAINER.sentences(
            decision
        )


def reference(target: TargetRef | None) -> ObjectRef:
    assert target is not None
    return ObjectRef(api_version=target.api_version, kind=target.kind, namespace=NAMESPACE, name=target.name)


def test_a_plan_looks_at_all_pods_of_the_workload_and_names_its_own() -> None:
    fold = sharing()
    copy = msgspec.json.encode(fold.state)
    given = of_role(WORKER, 2, None)
    obj = {"metadata": {"namespace": NAMESPACE, "name": "workers"}, "spec": given}
    plan = planning.change(msgspec.json.decode(copy, type=State), parse(obj), given, 3)
    assert plan.leaving == ("web-4 (b)",)
    assert [(row.subset, row.now, row.then) for row in plan.rows] == [("a", 2, 2), ("b", 1, 0)]
    # Where paths say how many it has, they are its own alone.
    given["targetFilter"]["replicasPathList"] = ["spec.worker.replicas"]
    plan = planning.change(msgspec.json.decode(copy, type=State), parse(obj), given, 2)
    assert plan.leaving == ("web-4 (b)",)


def test_it_is_explained_whose_a_pod_is() -> None:
    fold = sharing()
    workers = EXPLAINER.standing(fold.state, Reference("workloadspread", NAMESPACE, "workers"), fold.now)
    assert "3 pods of its workload are not this spread's." in workers
    assert any("first one first: web-4 (b)" in text for text in workers)
    web = EXPLAINER.standing(fold.state, Reference("deployment", NAMESPACE, "web"), fold.now)
    assert [text for text in web if "target" in text] == [
        "It is the target of WorkloadSpread chiefs.", "It is the target of WorkloadSpread workers.",
    ]  # fmt: skip
    stray = EXPLAINER.standing(fold.state, Reference("pod", NAMESPACE, "web-5"), fold.now)
    assert stray[0].startswith("No spread has it")
    one = EXPLAINER.standing(fold.state, Reference("pod", NAMESPACE, "web-2"), fold.now)
    assert one[0].startswith("It is in subset a of spread workers")


def test_an_update_that_overlaps_puts_out_the_younger_one_and_says_so_until_it_is_taken_back() -> None:
    fold = sharing()
    decisions = fold.see(spread("chiefs", of_role(BOTH, 1, None), 2))
    assert homes(fold) == {"chiefs": ["web-0", "web-1", "web-2", "web-3", "web-4"], "": ["web-5"]}
    rules = {d.target.name: d.rules for d in decisions if isinstance(d, ChangeLedger) and d.rules is not None}
    assert (rules["chiefs"].gone, rules["workers"].gone) == (False, True)
    message = said(decisions)["workers"]
    for part in (
        "WorkloadSpread chiefs",
        "role in (chief,worker)",
        "workers takes role=worker",
        "spec.targetFilter",
    ):
        assert part in message
    (told,) = [d for d in decisions if isinstance(d, RecordObjectEvent)]
    assert (told.target.name, told.reason, told.message) == ("workers", "Invalid", message)
    assert conditions(fold, "workers") == [("InForce", "False", "TargetTaken")]
    asked = Reference("workloadspread", NAMESPACE, "workers")
    assert EXPLAINER.standing(fold.state, asked, fold.now) == [f"It places nobody: {message}."]
    assert (counts(fold, "chiefs"), counts(fold, "workers")) == ({"a": 1, "b": 1}, {})

    decisions = fold.see(spread("chiefs", of_role(CHIEF, 1, None), 3))
    assert homes(fold)["workers"] == ["web-2", "web-3", "web-4"]
    assert said(decisions)["workers"] == ""
    assert conditions(fold, "workers") == []
    assert (counts(fold, "chiefs"), counts(fold, "workers")) == ({"a": 1, "b": 1}, {"a": 2, "b": 1})


def test_an_update_of_the_younger_one_puts_out_itself() -> None:
    fold = sharing()
    decisions = fold.see(spread("workers", of_role(None, 2, None), 2))
    assert "all pods" in said(decisions)["workers"]
    assert homes(fold) == {"chiefs": ["web-0", "web-1"], "": ["web-2", "web-3", "web-4", "web-5"]}


def test_the_older_one_has_its_target_whenever_it_is_seen() -> None:
    """A list has no order: the younger one may be told of first."""
    older, younger = spread("chiefs", of_role(CHIEF, 1, None)), spread("workers", of_role(None, 2, None))
    fold = Fold(*deployment(1), younger, pod(0, "chief"))
    assert homes(fold) == {"workers": ["web-0"]}
    decisions = fold.see(older)
    assert homes(fold) == {"chiefs": ["web-0"]}
    assert "WorkloadSpread chiefs" in said(decisions)["workers"]


@pytest.mark.parametrize("deleting", [False, True])
def test_who_waits_has_the_target_when_nobody_in_its_way_asks_for_it_any_more(deleting: bool) -> None:
    fold = sharing()
    fold.see(spread("young", of_role(BOTH, 3, None)))
    assert fold.state.spreads[f"{NAMESPACE}/young"].taken_by == "chiefs"
    for name in ("chiefs", "workers"):
        gone = WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=name, uid=f"ws-{name}")
        last = of_role(CHIEF if name == "chiefs" else WORKER, 1, None)
        decisions = fold.see(spread(name, last, 2, deleting_at=START) if deleting else gone)
        if name == "chiefs":
            assert "WorkloadSpread workers" in said(decisions)["young"]
    assert said(decisions)["young"] == ""
    assert homes(fold)["young"] == [f"web-{n}" for n in range(5)]


def unread(api_version: str, kind: str, name: str) -> Any:
    raise NotFound(name)


def refusals(given: JsonObject, *others: tuple[str, JsonObject], old: JsonObject | None = None) -> list[str]:
    def obj(name: str, stored: JsonObject) -> JsonObject:
        return {"metadata": {"namespace": NAMESPACE, "name": name, "resourceVersion": "1"}, "spec": stored}

    around = validation.Surroundings(Whitelist(), [parse(obj(*other)) for other in others], unread)
    before = None if old is None else obj("new", old)
    return [str(error) for error in validation.errors(obj("new", given), around, before)]


def test_the_webhook_lets_in_what_excludes_all_others_and_names_both_else() -> None:
    chiefs, workers = ("chiefs", of_role(CHIEF, 1, None)), ("workers", of_role(WORKER, 1, None))
    assert refusals(of_role(WORKER, 1, None), chiefs) == []
    assert refusals(of_role(CHIEF, 1, None), chiefs, workers) != []
    (text,) = refusals(of_role(BOTH, 1, None), workers, old=of_role(CHIEF, 1, None))
    assert text.startswith("spec.targetRef: Invalid value")
    for part in (
        "taken by WorkloadSpread workers: its spec.targetFilter.selector takes role=worker",
        "that of new takes role in (chief,worker)",
        "exclude each other by one label, as role=a and role=b do",
    ):
        assert part in text
    (text,) = refusals(of_role(None, 1, None), workers)
    assert "that of new takes all pods" in text


def test_of_a_selector_that_cannot_be_read_nothing_is_proven_and_a_long_one_is_cut() -> None:
    bad = {"matchExpressions": [{"key": "role", "operator": "Like", "values": ["x"]}]}
    (text,) = refusals(of_role(WORKER, 1, None), ("bad", of_role(bad, 1, None)))
    assert '"Like" is not a valid label selector operator' in text
    many = {"matchExpressions": [{"key": "role", "operator": "In", "values": [f"w{n}" for n in range(999)]}]}
    (text,) = refusals(of_role(many, 1, None), ("old", of_role(None, 1, None)))
    assert len(text) < 1000
