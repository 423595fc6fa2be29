"""The decider, given facts: what it decides about limits, overflow, closures and removals."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

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
from tidewright.events.base import Decision, Event, ObjectRef
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import (
    DeleteObject,
    PatchObject,
    RecordObjectEvent,
    ScaleWorkload,
    SetStatus,
    SetTimer,
)
from tidewright.events.facts import NodeObserved, PodGone, PodObserved, ShapeGone, ShapeObserved
from tidewright.events.outcomes import Rejected
from tidewright.events.spread import (
    ChangeLedger,
    ForeseeScaleIn,
    KindRefused,
    PodLeaving,
    PodPlaced,
    RecordSpread,
    WorkloadSpreadGone,
)
from tidewright.events.timers import TimerFired
from tidewright.kube.customworkloads import WHITELIST_CONFIG_MAP, WHITELIST_KEY
from tidewright.spread.decide import DECIDER
from tidewright.spread.state import State, pack_uid, unpack_uid
from tidewright.spread.tell import sentences

START = 1_800_000_000.0
KEY = f"{NAMESPACE}/{SPREAD}"


class Fold:
    """A decider's fold, driven by hand."""

    def __init__(self, *facts: Event) -> None:
        self.state = State()
        self.now = START
        self.timers: dict[str, float] = {}
        for fact in facts:
            self.see(fact)

    def see(self, event: Event, at: float | None = None) -> list[Decision]:
        self.now = max(self.now, at or self.now)
        msgspec.structs.force_setattr(event, "at", self.now)
        touched = DECIDER.evolve(self.state, event)
        decisions = list(DECIDER.decide(self.state, event, touched))
        for n, decision in enumerate(decisions):
            msgspec.structs.force_setattr(decision, "id", f"spread.0.{self.now}.{n}")
            DECIDER.evolve(self.state, decision)
            if isinstance(decision, SetTimer):
                self.timers[decision.key] = decision.due
        return decisions

    def pass_time(self, until: float) -> list[Decision]:
        """Fire the timers that are due up to then, in order; gives all that was decided."""
        decisions: list[Decision] = []
        while self.timers and (due := min(self.timers.values())) <= until:
            key = next(k for k, d in self.timers.items() if d == due)
            del self.timers[key]
            decisions += self.see(TimerFired(at=due, key=key), due)
        self.now = max(self.now, until)
        return decisions


def placed(subset: str, n: int, **fields: Any) -> PodObserved:
    pod = new_pod(n)
    text = msgspec.json.encode({"name": SPREAD, "subset": subset}).decode()
    pod["metadata"]["annotations"] = {"apps.kruise.io/matched-workloadspread": text}
    return msgspec.structs.replace(observed(pod, f"web-{n}"), created_at=START - 1000 + n, **fields)


def costs(decisions: list[Decision]) -> dict[str, str]:
    return {
        d.target.name: d.patch["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"]
        for d in decisions
        if isinstance(d, PatchObject)
    }


def test_a_percentage_follows_the_replicas_at_once() -> None:
    fold = Fold(spread_fact(spec("50%", None)), *deployment(10))
    (change,) = [d for d in fold.see(deployment(20)[0]) if isinstance(d, ChangeLedger)]
    assert change.rules is not None
    assert [r.limit for r in change.rules.subsets] == [10, None]


def test_a_lowered_limit_makes_the_cheapest_pods_surplus_and_writes_only_what_changes() -> None:
    fold = Fold(spread_fact(spec(3, None)), *deployment(3))
    assert [costs(fold.see(placed("a", n))) for n in range(3)] == [{f"web-{n}": "200"} for n in range(3)]
    lowered = fold.see(spread_fact(spec(2, None), 2))
    assert costs(lowered) == {"web-2": "-100"}  # the youngest
    assert costs(fold.see(spread_fact(spec(3, None), 3))) == {"web-2": "200"}


def test_pods_older_than_the_spread_count_once_it_appears() -> None:
    fold = Fold(*deployment(2), placed("a", 0), placed("a", 1))
    decisions = fold.see(spread_fact(spec(5, None)))
    assert fold.state.spreads[KEY].ledger.counts == {HASH: {"a": 2}}
    assert costs(decisions) == {"web-0": "200", "web-1": "200"}


def test_an_unschedulable_pod_closes_its_subset_on_time_and_it_reopens() -> None:
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    fold = Fold(spread_fact(spec(5, None, scheduleStrategy=adaptive)), *deployment(2))
    fact = placed("a", 0, phase="Pending", unschedulable_since=START)
    fold.see(msgspec.structs.replace(fact, created_at=START))
    fold.pass_time(START + 29.9)
    assert fold.state.spreads[KEY].conditions["a"].open
    decisions = fold.pass_time(START + 30)
    assert [d.target.name for d in decisions if isinstance(d, DeleteObject)] == ["web-0"]
    ledger = fold.state.spreads[KEY].ledger
    assert ledger.rules is not None
    assert [r.closed for r in ledger.rules.subsets] == [True, False]
    fold.see(PodGone(at=0, namespace=NAMESPACE, name="web-0", uid="uid-web-0"))
    decisions = fold.pass_time(START + 331)
    assert "RecoverSchedulable" in [d.reason for d in decisions if isinstance(d, RecordObjectEvent)]
    rules = fold.state.spreads[KEY].ledger.rules
    assert rules is not None
    assert [r.closed for r in rules.subsets] == [False, False]


def test_no_wake_up_is_set_for_a_pod_that_waits_in_a_subset_of_another_spread() -> None:
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    pod = placed("a", 0, phase="Pending", unschedulable_since=START)
    pod = msgspec.structs.replace(pod, created_at=START)
    other = {key: text.replace(SPREAD, "other") for key, text in pod.annotations.items()}
    timers = []
    for fact in (pod, msgspec.structs.replace(pod, annotations=other)):
        fold = Fold(spread_fact(spec(5, None, scheduleStrategy=adaptive)), *deployment(2))
        fold.see(fact)
        fold.pass_time(START + 2)  # its status is written
        timers.append(list(fold.timers.values()))
    assert timers == [[START + 30], []]


def test_a_placement_whose_pod_never_comes_is_released_after_the_bound() -> None:
    fold = Fold(spread_fact(spec(1, None)), *deployment(1))
    entry = PodPlaced(at=0, namespace=NAMESPACE, name=SPREAD, key="r1", version=HASH, subset="a", pod="web-")
    fold.see(entry)
    fold.pass_time(START + 9)
    assert fold.state.spreads[KEY].ledger.held(HASH, "a") == 1
    decisions = fold.pass_time(START + 10)
    assert fold.state.spreads[KEY].ledger.held(HASH, "a") == 0
    (change,) = [d for d in decisions if isinstance(d, ChangeLedger)]
    assert sentences.sentences(change.because) == [
        "No pod appeared within 10.0 s for a place in a: it is free again."
    ]


def test_a_place_that_was_set_aside_is_told_by_the_name_of_its_pod() -> None:
    fold = Fold(spread_fact(spec(1, None)), *deployment(1))
    place: dict[str, Any] = {"namespace": NAMESPACE, "name": SPREAD, "key": "web-0", "version": HASH, "subset": "a", "pod": "web-0"}  # fmt: skip
    fold.see(PodPlaced(at=0, request="r1", **place))
    fold.see(PodLeaving(at=0, request="d1", evicted=True, **place))
    told = [d.status for d in fold.pass_time(START + 5) if isinstance(d, SetStatus)]
    entries = [e for status in told for found in status["versionedSubsetStatuses"].values() for e in found]
    assert {name for e in entries for name in e.get("creatingPods", ())} == {"web-0"}


def test_a_decided_scale_in_names_the_pods_before_they_go() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(4), *(placed("a", n) for n in range(2)))
    for n in (2, 3):
        fold.see(placed("b", n))
    target = ObjectRef(api_version="apps/v1", kind="Deployment", namespace=NAMESPACE, name="web")
    scale = ScaleWorkload(at=0, target=target, replicas=2, from_replicas=4)
    (foreseen,) = fold.see(scale)
    assert isinstance(foreseen, ForeseeScaleIn)
    assert [p.pod for p in foreseen.pods] == ["web-2", "web-3"]  # about as old, so by uid
    assert "web-3 (b, cost 100)" in sentences.foreseen(foreseen)


def test_a_refused_cost_write_is_said_and_tried_again() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(1))
    (patch,) = [d for d in fold.see(placed("a", 0)) if isinstance(d, PatchObject)]
    decisions = fold.see(Rejected(at=0, decision=patch.id, reason="Conflict"))
    assert [d.reason for d in decisions if isinstance(d, RecordObjectEvent)] == ["PatchPodDeletionCostFailed"]
    assert costs(fold.see(TimerFired(at=0, key=f"spread/{KEY}"), START + 30)) == {"web-0": "200"}


def test_a_stored_limit_that_is_no_number_offers_nothing_and_says_so() -> None:
    fold = Fold(*deployment(1))
    fold.see(spread_fact(spec("40", None)))
    status = fold.state.spreads[KEY].status
    assert status is not None
    entry = status["subsetStatuses"][0]
    assert entry["missingReplicas"] == 0
    assert [c["type"] for c in entry["conditions"]] == ["LimitValid"]


def test_a_spread_that_cannot_be_read_is_recorded_once() -> None:
    fold = Fold(*deployment(1))
    decisions = fold.see(spread_fact({"subsets": "none"}))
    assert [d.reason for d in decisions if isinstance(d, RecordSpread)] == ["Invalid"]
    assert not [d for d in fold.see(TimerFired(at=0, key=f"spread/{KEY}")) if isinstance(d, RecordSpread)]


def test_a_deleted_spread_gives_up_its_ledger_and_leaves_its_pods() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(1), placed("a", 0))
    (change,) = fold.see(WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=SPREAD, uid="ws"))
    assert isinstance(change, ChangeLedger)
    assert change.rules is not None
    assert change.rules.gone
    assert KEY not in fold.state.spreads
    assert fold.see(placed("a", 0, restarts=1)) == []


def test_uids_are_packed_reversibly() -> None:
    for uid in ("", "uid-1", "6f1f7c1e-5d5e-4a58-9f1b-0a8d3c9e2b11", "x" * 15, "3d" * 18):
        assert unpack_uid(pack_uid(uid)) == uid


def test_every_rule_has_a_sentence() -> None:
    folder = Path(__file__).parents[3] / "services" / "tidewright" / "spread"
    deciding = ("adopting.py", "costing.py", "places.py", "rescheduling.py")
    text = "".join((folder / "control" / name).read_text() for name in deciding)
    text += (folder / "decide.py").read_text()
    used = set(re.findall(r'rule="(\w+)"', text)) | set(re.findall(r'_cost\([^"]*\), "(\w+)"', text))
    used |= {"Surplus", "WithinLimit"}
    assert used == set(sentences.TELLERS)


@pytest.mark.parametrize(
    "uid",
    [
        "3d2e829e-8b9e-4eb6-aeda-e6a7c49aa850",  # its first byte is an equals sign
        "00000000-0000-0000-0000-000000000000",
        "d9f1c0de-0000-4000-8000-0123456789ab",
        "rs",
        "fifteen-letters",
        "sixteen-letters!",
        "",
    ],
)
def test_a_uid_survives_packing(uid: str) -> None:
    assert unpack_uid(pack_uid(uid)) == uid


def test_of_two_spreads_of_one_workload_the_first_has_it_until_it_goes() -> None:
    fold = Fold(spread_fact(spec(2, None)), *deployment(3))
    second = msgspec.structs.replace(spread_fact(spec(1, None)), name="later", uid="ws-2")
    decisions = fold.see(second)
    (change,) = [d for d in decisions if isinstance(d, ChangeLedger)]
    assert change.rules is not None
    assert change.rules.gone  # admission leaves it alone
    (told,) = [d for d in decisions if isinstance(d, RecordObjectEvent)]
    assert told.message.startswith(f"spec.targetRef: the target is taken by WorkloadSpread {SPREAD}: ")
    freed = fold.see(WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=SPREAD, uid="ws"))
    rules = {d.target.name: d.rules for d in freed if isinstance(d, ChangeLedger) and d.rules is not None}
    assert rules[SPREAD].gone
    assert [r.limit for r in rules["later"].subsets] == [1, None]
    assert not rules["later"].gone


def test_a_spread_that_fails_open_says_in_its_status_that_it_is_not_exact() -> None:
    annotations = {"tidewright.dev/spread-fail-open": "true"}
    fold = Fold(spread_fact(spec(1, None), annotations=annotations), *deployment(2))
    status = fold.state.spreads[KEY].status
    assert status is not None
    assert [c["reason"] for c in status["subsetStatuses"][0]["conditions"]] == ["FailOpen"]
    entry = PodPlaced(
        at=0, namespace=NAMESPACE, name=SPREAD, key="web-1", request="r", version=HASH, subset="a", pod="web-1",
        unfenced=True,
    )  # fmt: skip
    fold.see(entry, START + 60)
    status = fold.state.spreads[KEY].status
    assert status is not None
    assert [c["reason"] for c in status["subsetStatuses"][0]["conditions"]] == ["AdmittedUnfenced"]


def test_a_ledger_is_said_again_with_each_refresh_of_its_spread() -> None:
    fold = Fold(spread_fact(spec(3, None)), *deployment(3), placed("a", 0), placed("a", 1))
    fold.see(
        PodPlaced(at=0, namespace=NAMESPACE, name=SPREAD, key="r9", request="r9", version=HASH, subset="a")
    )
    before = fold.state.spreads[KEY].ledger.rules
    (said,) = fold.see(spread_fact(spec(3, None), refresh=True))
    assert isinstance(said, ChangeLedger)
    assert said.rules == before
    assert said.counts == {HASH: {"a": 3}}
    assert said.through == "r9"


def test_a_delete_of_a_pod_without_a_place_frees_none() -> None:
    fold = Fold(spread_fact(spec(3, None)), *deployment(3), placed("a", 0))
    leaving: dict[str, Any] = {
        "namespace": NAMESPACE,
        "name": SPREAD,
        "key": "web-0",
        "version": HASH,
        "subset": "a",
        "pod": "web-0",
    }
    fold.see(PodLeaving(at=0, request="d1", **leaving))
    assert fold.state.spreads[KEY].ledger.counts == {}
    fold.see(PodGone(at=0, namespace=NAMESPACE, name="web-0", uid="uid-web-0"))
    late = fold.see(PodLeaving(at=0, request="d2", **leaving))
    assert [c.kind for d in late if isinstance(d, ChangeLedger) for c in d.changes] == ["Uncounted"]
    assert fold.state.spreads[KEY].ledger.counts == {}
    assert not fold.state.spreads[KEY].ledger.leaving


def test_a_workload_that_may_not_be_read_is_said_once_on_the_spreads_that_depend_on_it() -> None:
    entry = {
        "Group": "games.example.com",
        "Kind": "GameSet",
        "subResources": [{"Group": "games.example.com", "Kind": "Game"}],
    }
    whitelist = {WHITELIST_KEY: msgspec.json.encode({"workloads": [entry]}).decode()}
    given = spec(1, None)
    given["targetRef"] = {"apiVersion": "games.example.com/v1", "kind": "GameSet", "name": "arena"}
    fold = Fold(ConfigSet(at=0, name=WHITELIST_CONFIG_MAP, data=whitelist), spread_fact(given))
    refused: dict[str, Any] = {"name": "Game.games.example.com", "group": "games.example.com", "kind": "Game"}

    def said(error: str) -> list[str]:
        decisions = fold.see(KindRefused(at=0, error=error, **refused))
        return [
            d.message
            for d in decisions
            if isinstance(d, RecordObjectEvent) and d.reason == "WorkloadUnreadable"
        ]

    (message,) = said("games is forbidden")
    assert message.startswith("Game.games.example.com may not be read (games is forbidden)")
    assert said("games is forbidden") == []
    assert said("") == []
    assert len(said("games is forbidden")) == 1


def test_a_pod_that_cannot_be_annotated_is_in_no_subset_and_tried_again() -> None:
    node = NodeObserved(at=0, name="n1", labels={"zone": "a"})
    pod = msgspec.structs.replace(placed("", 0, node="n1"), annotations={})
    fold = Fold(node, spread_fact(spec(3, None)), *deployment(1), pod)
    spread = fold.state.spreads[KEY]
    assert (spread.pods["web-0"].subset, spread.ledger.counts) == ("a", {HASH: {"a": 1}})
    (adoption,) = spread.adopting
    decisions = fold.see(Rejected(at=0, decision=adoption, reason="Forbidden"))
    assert "AdoptPodFailed" in [d.reason for d in decisions if isinstance(d, RecordObjectEvent)]
    assert (spread.pods["web-0"].subset, spread.ledger.counts) == ("", {})
    fold.pass_time(fold.now + 31)
    assert (spread.pods["web-0"].subset, spread.ledger.counts) == ("a", {HASH: {"a": 1}})


def test_a_pod_whose_annotation_was_taken_off_is_adopted_anew_where_it_runs() -> None:
    node = NodeObserved(at=0, name="n1", labels={"zone": "b"})
    pod = placed("a", 0, node="n1")
    fold = Fold(node, spread_fact(spec(3, None)), *deployment(1), pod)
    fold.see(msgspec.structs.replace(pod, annotations={}))
    spread = fold.state.spreads[KEY]
    assert spread.pods["web-0"].subset == "b"
    assert spread.ledger.counts == {HASH: {"b": 1}}


def test_a_pod_that_names_another_spread_gives_its_place_back_before_it_is_adopted_anew() -> None:
    """In a subset that is called the same: it had two places from then on."""
    pod = placed("a", 0, node="n1")
    fold = Fold(
        NodeObserved(at=0, name="n1", labels={"zone": "a"}), spread_fact(spec(3, None)), *deployment(1), pod
    )
    elsewhere = {name: text.replace(f'"{SPREAD}"', '"other"') for name, text in pod.annotations.items()}
    assert elsewhere != pod.annotations
    fold.see(msgspec.structs.replace(pod, annotations=elsewhere))
    spread = fold.state.spreads[KEY]
    assert spread.ledger.counts == {HASH: {"a": 1}}
    fold.see(PodGone(at=fold.now, namespace=NAMESPACE, name=pod.name, uid=pod.uid))
    assert spread.ledger.counts == {}


def test_pods_adopted_in_one_look_share_the_room_that_is_left() -> None:
    """Those of a spread that is made anew: one has its place still, and is listed last."""
    given = spec(2, 9)
    for subset in given["subsets"]:
        del subset["requiredNodeSelectorTerm"]
    strays = [msgspec.structs.replace(placed("", n, node="n1"), annotations={}) for n in range(3)]
    fold = Fold(NodeObserved(at=0, name="n1"), *deployment(4), *strays, placed("a", 3, node="n1"))
    fold.see(spread_fact(given))
    spread = fold.state.spreads[KEY]
    assert [spread.pods[f"web-{n}"].subset for n in range(4)] == ["a", "b", "b", "a"]
    assert spread.ledger.counts == {HASH: {"a": 2, "b": 2}}


def calls_of_adopting(number: int) -> int:
    """Functions that are called until all pods of a workload are in a spread that is new."""
    given = spec(2, 9)
    for subset in given["subsets"]:
        del subset["requiredNodeSelectorTerm"]
    strays = [msgspec.structs.replace(placed("", n, node="n1"), annotations={}) for n in range(number)]
    fold = Fold(NodeObserved(at=0, name="n1"), *deployment(number), *strays)
    calls = 0

    def called(_frame: Any, what: str, _arg: Any) -> None:
        nonlocal calls
        calls += what == "call"

    sys.setprofile(called)
    try:
        fold.see(spread_fact(given))
    finally:
        sys.setprofile(None)
    assert all(pod.subset for pod in fold.state.spreads[KEY].pods.values())
    return calls


def test_adopting_twice_as_many_pods_takes_twice_as_much() -> None:
    assert calls_of_adopting(400) < 2.2 * calls_of_adopting(200)


def test_shapes_are_kept_for_as_long_as_pods_have_them() -> None:
    fold = Fold(ShapeObserved(at=0, digest="s", scheduling={"nodeSelector": {"zone": "b"}, "volumes": []}))
    assert fold.state.shapes == {"s": {"nodeSelector": {"zone": "b"}}}
    fold.see(ShapeGone(at=0, digest="s"))
    assert fold.state.shapes == {}


@pytest.mark.parametrize("clean_up", [False, True])
def test_pods_of_a_deleted_spread_are_cleaned_only_when_asked_to(clean_up: bool) -> None:
    setting = ConfigSet(at=0, name="spread", data={"cleanUpDeleted": clean_up})
    fold = Fold(setting, spread_fact(spec(3, None)), *deployment(1), placed("a", 0))
    decisions = fold.see(WorkloadSpreadGone(at=0, namespace=NAMESPACE, name=SPREAD, uid="ws"))
    patches = [d.patch["metadata"]["annotations"] for d in decisions if isinstance(d, PatchObject)]
    nothing = {
        "apps.kruise.io/matched-workloadspread": None,
        "controller.kubernetes.io/pod-deletion-cost": None,
    }
    assert patches == ([nothing] if clean_up else [])
    (gone,) = [d for d in decisions if isinstance(d, ChangeLedger)]
    assert gone.rules is not None
    assert gone.rules.gone


def test_a_pod_that_is_found_in_the_look_that_gives_its_place_up_holds_one() -> None:
    """Its owners were told late, later than a placement waits for its pod."""
    fold = Fold(spread_fact(spec(2, None)), deployment(3)[0])
    entry = PodPlaced(
        at=0, namespace=NAMESPACE, name=SPREAD, key="web-0", request="r0", version=HASH, spread="ws", subset="a", pod="web-0"
    )  # fmt: skip
    fold.see(entry)
    fold.see(placed("a", 0))
    assert fold.state.spreads[KEY].pods == {}
    fold.see(deployment(3)[1], START + 60)
    spread = fold.state.spreads[KEY]
    assert (list(spread.pods), spread.ledger.placed, spread.ledger.counts) == (
        ["web-0"],
        {},
        {HASH: {"a": 1}},
    )
