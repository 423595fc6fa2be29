"""Which answers about spreads pass though a case expects another: those that an intended difference explains, and no others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.vectors import spread as adapter
from tests.vectors.reference.spread import ways as w
from tests.vectors.reference.spread.intended import answered, intended
from tests.vectors.spread import run
from tests.vectors.spread_compare import compare
from tests.vectors.suite import Case, Verdict
from tidewright.kube.podapi import rules
from tidewright.kube.podapi.fielderrors import invalid
from tidewright.kube.workloadspreads.choose import Choice
from tidewright.spread.api import validation
from tidewright.spread.ledger import ledger

_SETS = "apps.kruise.io/v1alpha1"
_OWNER = {"apiVersion": _SETS, "kind": "CloneSet", "name": "web", "uid": "uid-w", "controller": True}
_A, _B = {"name": "a", "maxReplicas": 1}, {"name": "b"}
_ADAPTIVE = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 60}}
_NO_PATCH = {"spec": {"containers": "none"}}


def case(kind: str, expected: dict[str, Any], **given: Any) -> Case:
    """A CloneSet `web` with two wanted pods, and a spread of it over `a`, which takes one, and `b`."""
    spec = {
        "targetRef": {"apiVersion": _SETS, "kind": "CloneSet", "name": "web"},
        "subsets": given.pop("subsets", [_A, _B]),
        **given.pop("spec", {}),
    }
    workload = {
        "apiVersion": _SETS, "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-w"},
        "spec": {"replicas": given.pop("replicas", 2)},
    }  # fmt: skip
    return {
        "id": "any", "spread": {"metadata": {"name": "ws", "namespace": "default"}, "spec": spec},
        "workload": workload, "pods": [pod("p0")], "status": {}, "expected": expected,
        "event": {"type": kind, **given.pop("event", {})}, **given,
    }  # fmt: skip


def pod(name: str, subset: str = "", **status: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "ownerReferences": [_OWNER], "creationTimestamp": -500}
    if subset:
        text = msgspec.json.encode({"name": "ws", "subset": subset}).decode()
        metadata["annotations"] = {"apps.kruise.io/matched-workloadspread": text}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "main:1"}]}
    if node := status.pop("node", ""):
        spec["nodeName"] = node
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}}


def late(name: str, subset: str) -> dict[str, Any]:
    """A pod that has waited for a node for too long."""
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": -400,
    }
    return pod(name, subset, phase="Pending", conditions=[refused])


def entry(name: str, missing: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "missingReplicas": missing, **more}


def closed(at: int) -> list[dict[str, Any]]:
    return [
        {"type": "Schedulable", "status": "False", "reason": "PodUnschedulable", "lastTransitionTime": at}
    ]


def versions(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"versionedSubsetStatuses": {"versionIgnored": list(entries)}}


def overall(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"subsetStatuses": list(entries)}


_NODES = [{"metadata": {"name": "node-1"}}]
_OTHER = {
    "metadata": {"name": "other", "namespace": "default"},
    "spec": {
        "targetRef": {"apiVersion": _SETS, "kind": "CloneSet", "name": "web"}, "subsets": [_B],
        "targetFilter": {"selector": {"matchLabels": {"role": "second"}}},
    },
}  # fmt: skip
_STANDALONE = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "uid": "uid-w"},
    "spec": {"replicas": 2},
}  # fmt: skip

_WITH_TEMPLATE = {
    "apiVersion": _SETS, "kind": "CloneSet", "metadata": {"name": "web", "uid": "uid-w"},
    "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "main:1"}]}}},
}  # fmt: skip
_GAME = {
    "apiVersion": "games.example.com/v1", "kind": "Game", "metadata": {"name": "web", "uid": "uid-w"},
    "spec": {"replicas": 2},
}  # fmt: skip

SHOWN: dict[str, Case] = {
    w.LIMIT_NO_NUMBER: case(
        "admission.workloadSpread", {"allowed": True}, subsets=[{"name": "a", "maxReplicas": "40"}, _B]
    ),
    w.EVICTION_LATER: case(
        "admission.podEviction",
        {"allowed": True, "status": versions(entry("a", 1, deletingPods={"p0": 0}), entry("b", -1))},
        pods=[pod("p0", "a")], status=versions(entry("a", 0), entry("b", -1)),
    ),
    w.LIST_ORDER: case(
        "reconcile",
        {"status": overall(entry("a", 1, replicas=2, deletingPods={"p1": -3}), entry("b", -1))},
        pods=[pod("p0", "a"), pod("p1", "a")], status=overall(entry("a", 0, deletingPods={"p1": -3})),
    ),
    w.EVERY_FACT_WAKES: case(
        "trigger", {"enqueue": None},
        event={"object": {"kind": "Pod", "annotation": {"name": "test-workloadSpread", "subset": "a"}},
               "action": "update", "old": {"active": True}, "new": {"active": True}},
    ),
    w.STANDALONE_LATEST: case(
        "reconcile", {"deletionCosts": {"p0": "100", "p1": "200"}},
        spec={"targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}},
        workload=_STANDALONE,
        pods=[
            {**p, "metadata": {**p["metadata"], "ownerReferences": [{**_OWNER, "apiVersion": "apps/v1", "kind": "ReplicaSet"}]}}
            for p in (pod("p0", "a"), pod("p1", "b"))
        ],
    ),
    w.CLOSURE_SHARED: case(
        "admission.podCreate", {"subset": "a"},
        spec={"scheduleStrategy": _ADAPTIVE}, status=overall(entry("a", 1, conditions=closed(-10)), entry("b", -1)),
        subsets=[_A, {"name": "b", "maxReplicas": 1}, {"name": "c"}],
    ),
    w.FILTER_WITHOUT_SELECTOR: case(
        "lookup.podSelected", {"selected": False}, spec={"targetFilter": {"replicasPathList": ["spec.replicas"]}}
    ),
    w.UNRELATED_OWNER: case(
        "admission.podCreate", {"allowed": False, "error": "NotFound"},
        pods=[{"metadata": {"name": "p0", "ownerReferences": [{**_OWNER, "name": "another"}]}, "spec": {"containers": []}}],
    ),
    w.CURRENT_SPEC: case(
        "admission.podCreate", {"subset": "b"},
        subsets=[_A, {"name": "b", "maxReplicas": 1}], status=versions(entry("b", 1), entry("a", 1)),
    ),
    w.UNLIMITED_RECORDED: case(
        "admission.podCreate", {"subset": "b", "status": versions(entry("a", 0), entry("b", -1))},
        status=versions(entry("a", 0), entry("b", -1)),
    ),
    w.REFUSED_TAKES_NOTHING: case(
        "admission.podCreate",
        {"allowed": False, "error": "InvalidPatch",
         "status": versions(entry("a", 0, creatingPods={"p0": 0}), entry("b", -1))},
        subsets=[{**_A, "patch": _NO_PATCH}, _B], status=versions(entry("a", 1), entry("b", -1)),
    ),
    w.ONE_PLACE: case(
        "admission.podCreate",
        {"subset": "a", "status": versions(entry("a", 1, deletingPods={"p0": -3}), entry("b", -1))},
        status=versions(entry("a", 1, deletingPods={"p0": -3}), entry("b", -1)),
    ),
    w.AT_THE_SECOND: case(
        "reconcile", {"conditions": {"a": "False", "b": "True"}, "events": []},
        spec={"scheduleStrategy": _ADAPTIVE}, pods=[], status=overall(entry("a", 1, conditions=closed(-300)), entry("b", -1)),
    ),
    w.SEEN_ELSEWHERE: case(
        "reconcile",
        {"status": overall(entry("a", 0, replicas=0, creatingPods={"p0": -3}), entry("b", -1, replicas=1))},
        pods=[pod("p0", "b")], status=overall(entry("a", 1, creatingPods={"p0": -3}), entry("b", -1)),
    ),
    w.ENDED_POD: case(
        "reconcile", {"adoptions": {"p0": "a"}}, nodes=_NODES, pods=[pod("p0", phase="Failed", node="node-1")]
    ),
    w.EMPTY_VERSION: case("reconcile", {"status": versions(entry("a", 1), entry("b", -1))}),
    w.ROOM_BY_LEDGER: case(
        "reconcile", {"adoptions": {"p0": "a"}},
        nodes=_NODES, pods=[pod("p0", node="node-1")], status=overall(entry("a", 0, creatingPods={"p9": -3})),
    ),
    w.TARGET_AT_ZERO: case(
        "reconcile", {"status": overall(entry("a", 1), entry("b", -1))}, replicas=0, pods=[pod("p0", "a")]
    ),
    w.LAST_KNOWN: case(
        "lookup.workloadVersion", {"version": "", "error": "NotFound"}, versionedKinds=["cloneset"],
        workload={"apiVersion": _SETS, "kind": "CloneSet", "metadata": {"name": "web", "generation": 2},
                  "status": {"observedGeneration": 1, "updateRevision": "web-abc"}},
    ),
    w.WAKES_TO_OPEN: case(
        "reconcile", {"conditions": {"a": "False", "b": "True"}, "requeueAfterSeconds": 0},
        spec={"scheduleStrategy": _ADAPTIVE}, pods=[late("p0", "a")],
        status=overall(entry("a", 1, conditions=closed(-200)), entry("b", -1)),
    ),
    w.PATCH_SHAPE: case(
        "admission.workloadSpread", {"allowed": True}, workload=None, subsets=[{**_A, "patch": _NO_PATCH}, _B]
    ),
    w.REMOVED_SUBSET: case(
        "reconcile", {"events": [], "requeueAfterSeconds": 0},
        pods=[], status=overall(entry("a", 1), entry("gone", 0, creatingPods={"p9": -40})),
    ),
    w.PATCH_ONCE: case(
        "admission.workloadSpread",
        {"errorFields": ["spec.subsets[0].patch", "spec.subsets[0].patch.containers"], "errorCount": 2},
        subsets=[{**_A, "patch": _NO_PATCH}, _B],
    ),
    w.IMAGE_TRIMMED: case(
        "admission.workloadSpread", {"allowed": True},
        workload=_WITH_TEMPLATE,
        subsets=[{**_A, "patch": {"spec": {"containers": [{"name": "main", "image": " x "}]}}}, _B],
    ),
    w.NO_PATH: case(
        "reconcile", {"status": overall(entry("a", 0, replicas=1), entry("b", -1))},
        whiteList=[{"Group": "games.example.com", "Version": "v1", "Kind": "Game"}],
        spec={"targetRef": {"apiVersion": "games.example.com/v1", "kind": "Game", "name": "web"}},
        workload=_GAME, subsets=[{"name": "a", "maxReplicas": "100%"}, _B],
        pods=[
            {**p, "metadata": {**p["metadata"], "ownerReferences": [{**_OWNER, "apiVersion": "games.example.com/v1", "kind": "Game"}]}}
            for p in (pod("p0", "a"),)
        ],
    ),
    w.TARGET_SHARED: case(
        "admission.workloadSpread", {"allowed": False, "errorCount": 1, "errorFields": ["spec.targetRef"]},
        workload=None, event={"others": [_OTHER]}, spec={"targetFilter": {"selector": {"matchLabels": {"role": "first"}}}},
    ),
}  # fmt: skip
"""A case of the original's for each difference, which it alone explains."""


@pytest.mark.parametrize("tag", sorted(w.TAGS))
def test_a_case_passes_by_the_one_difference_that_it_shows(tag: str) -> None:
    result = run(SHOWN[tag])
    assert (result.verdict, result.intended) == (Verdict.PASSED, (tag,)), result.differences


@pytest.mark.parametrize("tag", sorted(w.TAGS))
def test_the_model_is_the_original_without_it_and_ours_with_it(tag: str) -> None:
    shown = SHOWN[tag]
    assert answered(shown) != answered(shown, frozenset({tag}))
    assert not compare(shown["expected"], answered(shown, w.OURS - {tag}))


@pytest.mark.parametrize("tag", sorted(w.TAGS))
def test_what_is_not_the_originals_is_no_intention(tag: str) -> None:
    """A case that neither expects what the original does nor is answered as it expects."""
    shown = SHOWN[tag]
    for member, value in shown["expected"].items():
        assert (
            run({**shown, "expected": {**shown["expected"], member: _other(value)}}).verdict is Verdict.FAILED
        )


def _other(value: Any) -> Any:
    """What neither the original nor ours answers there."""
    match value:
        case bool():
            return "neither"
        case int():
            return value + 77
        case dict() if value.keys() & {"subsetStatuses", "versionedSubsetStatuses"}:
            return versions(entry("nowhere", 0))
        case dict():
            return {"nobody": "nowhere"}
        case list():
            return [*value, "another"]
    return "something else"


def test_another_answer_than_ours_is_no_intention() -> None:
    """The same cases answered wrongly: in a subset that nobody meant, with a place too many, with an event that is not."""
    mutants: list[tuple[str, dict[str, Any]]] = [
        (w.CLOSURE_SHARED, {"subset": "c"}),
        (w.CURRENT_SPEC, {"subset": None}),
        (w.UNRELATED_OWNER, {"allowed": True, "error": "InvalidPatch"}),
        (w.ROOM_BY_LEDGER, {"adoptions": {}}),
        (w.WAKES_TO_OPEN, {"conditions": {"a": "False", "b": "True"}, "requeueAfterSeconds": 40}),
        (w.AT_THE_SECOND, {"conditions": {"a": "True", "b": "True"}, "events": []}),
        (w.ONE_PLACE, {"subset": "a", "status": versions(entry("a", 1, creatingPods={"p0": 0}), entry("b", -1))}),
    ]  # fmt: skip
    for tag, answer in mutants:
        assert not intended(SHOWN[tag], answer), tag


def test_a_ledger_that_chooses_wrongly_is_not_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases that pass by a difference fail when ours does something else than the difference, too."""
    shown = SHOWN[w.UNLIMITED_RECORDED]
    monkeypatch.setattr(ledger, "by_slots", lambda slots: Choice(next(iter(slots)).name))
    assert run(shown).verdict is Verdict.FAILED


def test_a_validation_that_refuses_what_is_good_is_not_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A good image, and a patch that applies to a pod, refused for the reasons for which bad ones are by intention."""
    good = {"spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    image = case(
        "admission.workloadSpread",
        {"allowed": True},
        workload=_WITH_TEMPLATE,
        subsets=[{**_A, "patch": good}, _B],
    )
    patch = case(
        "admission.workloadSpread", {"allowed": True}, workload=None, subsets=[{**_A, "patch": good}, _B]
    )
    assert [run(one).verdict for one in (image, patch)] == [Verdict.PASSED] * 2

    def refuses(container: Any, path: str, *_: Any) -> Any:
        yield invalid(f"{path}.image", container["image"], "must not have leading or trailing whitespace")

    monkeypatch.setattr(rules, "container_errors", refuses)
    monkeypatch.setattr(
        validation, "_shape_errors", lambda patch, path: [invalid(path, patch, "applies to no pod")]
    )
    assert [run(one).verdict for one in (image, patch)] == [Verdict.FAILED] * 2


def test_an_answer_that_is_as_expected_needs_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the model is asked nothing: it excuses, and never refuses."""
    monkeypatch.setattr(adapter, "intended", lambda *_: pytest.fail("asked"))
    full = case("admission.podCreate", {"subset": "a"}, status=versions(entry("a", 1), entry("b", -1)))
    assert (run(full).verdict, run(full).intended) == (Verdict.PASSED, ())
