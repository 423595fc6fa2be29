"""The verdict on drains finds what may not be, in a request log that is doctored for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.drains import drains, strays
from tests.chaos.effects import effects
from tests.chaos.findings import Ledger
from tests.chaos.moving import NAMESPACE
from tests.chaos.verdict import Verdict
from tidewright.events.base import Because, Decision, ObjectRef
from tidewright.events.decisions import EvictPod
from tidewright.events.outcomes import Applied
from tidewright.events.provisioning import DeleteInstances, MarkNode, RemoveNode, UndoRemoval
from tidewright.kube.taints import DRAIN
from tidewright.sim.api.http.request_log import Entry

POD = f"/api/v1/namespaces/{NAMESPACE}/pods/kept-0-a"
REMOVAL = RemoveNode(
    at=1.0, id="r", node="n1", uid="u", provider_id="i1", group="g", kind="drain", because=(Because(rule="Unneeded"),)
)  # fmt: skip
DELETION = DeleteInstances(
    at=2.0, id="d", target=ObjectRef(api_version="cloud/v1", kind="NodeGroup", namespace="", name="g"),
    instances=("i1",), nodes=("n1",),
)  # fmt: skip


def ledger_of(*decisions: Decision) -> Ledger:
    ledger = Ledger()
    ledger.decisions.update((decision.id, decision) for decision in decisions)
    return ledger


def eviction(healthy: int, *, serves: bool = True, ending: bool = False, code: int = 201) -> Entry:
    budgets = [{"name": "kept-0", "healthy": healthy, "desired": 3}]
    noted: dict[str, Any] = {"node": "n1", "serves": serves, "ending": ending, "budgets": budgets}
    return Entry(
        at=1.0, method="POST", path=f"{POD}/eviction", user_agent="tidewright", code=code, noted=noted
    )


def deletion(**pod: Any) -> Entry:
    there = {
        "pod": "moving/kept-0-a",
        "node": "n1",
        "phase": "Running",
        "ending": False,
        "owner": "ReplicaSet",
    }
    noted = {"nodes": ["n1"], "pods": [{**there, **pod}]}
    path = "/cloud/v1/groups/g/delete-nodes"
    return Entry(at=1.0, method="POST", path=path, user_agent="", code=200, noted=noted)


def test_a_drain_as_it_shall_be_is_counted_and_nothing_is_wrong() -> None:
    entries = [eviction(4), eviction(3, code=429), eviction(3, ending=True), deletion(ending=True)]
    found = drains(ledger_of(REMOVAL, DELETION), entries)
    assert (found.evictions, found.charged, found.deleted, found.wrong) == (1, 1, {"n1"}, [])


@pytest.mark.parametrize(("healthy", "serves"), [(3, True), (2, True), (2, False)])
def test_an_admitted_eviction_beyond_its_budget_is_found(healthy: int, serves: bool) -> None:
    found = drains(Ledger(), [eviction(4), eviction(healthy, serves=serves)])
    assert len(found.broken) == 1
    assert f"wants 3 and had {healthy}" in found.broken[0]
    verdict = Verdict()
    verdict.drained(found, 1, 0)
    assert verdict.lost == 1


@pytest.mark.parametrize(("kills", "amid", "lost"), [(10, 0, 1), (10, 1, 0), (6, 0, 0)])
def test_a_run_of_many_kills_of_which_none_met_a_drain_is_found(kills: int, amid: int, lost: int) -> None:
    verdict = Verdict()
    verdict.drained(drains(Ledger(), []), kills, amid)
    assert verdict.lost == lost


def test_a_failing_pod_may_go_where_the_others_suffice() -> None:
    assert drains(Ledger(), [eviction(3, serves=False)]).broken == []


def test_a_pod_that_is_deleted_and_not_evicted_is_found() -> None:
    entry = Entry(at=1.0, method="DELETE", path=f"{POD}?x=y", user_agent="tidewright", code=200)
    assert drains(Ledger(), [entry]).past == [POD]
    by_kubelet = Entry(at=1.0, method="DELETE", path=POD, user_agent="tidewright-sim", code=200)
    assert drains(Ledger(), [by_kubelet]).past == []


@pytest.mark.parametrize("pod", [{}, {"phase": "Pending"}])
def test_a_pod_that_went_with_its_machine_is_found(pod: dict[str, Any]) -> None:
    assert drains(ledger_of(DELETION), [deletion(**pod)]).lost == ["moving/kept-0-a on n1"]


@pytest.mark.parametrize("pod", [{"ending": True}, {"phase": "Succeeded"}, {"owner": "DaemonSet"}])
def test_pods_that_end_or_belong_to_the_node_may_go_with_it(pod: dict[str, Any]) -> None:
    assert drains(ledger_of(DELETION), [deletion(**pod)]).lost == []


def test_a_machine_that_no_decision_named_is_found() -> None:
    assert drains(ledger_of(REMOVAL), [deletion(ending=True)]).unnamed == ["n1"]


def test_a_mark_is_left_when_its_removal_was_undone_or_never_begun() -> None:
    node = {"metadata": {"name": "n1", "annotations": {DRAIN: "r cordoned"}}}
    undone = UndoRemoval(at=3.0, id="x", node="n1", uid="u", group="g", removal="r", reason="PodCame")
    assert strays(ledger_of(REMOVAL), [node]) == []
    assert strays(ledger_of(REMOVAL, undone), [node]) == strays(Ledger(), [node]) == ["n1: r"]
    assert strays(Ledger(), [{"metadata": {"name": "n1"}}]) == []


def test_evictions_and_marks_are_counted_among_the_effects() -> None:
    pod = ObjectRef(api_version="v1", kind="Pod", namespace=NAMESPACE, name="kept-0-a")
    node = ObjectRef(api_version="v1", kind="Node", namespace="", name="n1")
    ledger = ledger_of(
        EvictPod(at=1.0, id="e", target=pod, node="n1"),
        MarkNode(at=1.0, id="m", target=node, key="k", present=True),
    )
    for id_ in ("e", "m"):
        ledger.outcomes[id_].append(Applied(at=2.0, decision=id_))
    put = Entry(at=1.0, method="PUT", path="/api/v1/nodes/n1", user_agent="tidewright", code=200, rv=7)
    found = effects(ledger, [eviction(4), put, eviction(4, ending=True)])
    assert (found.lost, found.doubled, found.writes) == ([], [], {"evict": 1, "mark": 1})
    assert effects(ledger, [eviction(4)]).lost == ["mark nodes /n1"]
    assert effects(ledger, [eviction(4), eviction(4), put]).doubled == [f"evict pods {NAMESPACE}/kept-0-a"]
