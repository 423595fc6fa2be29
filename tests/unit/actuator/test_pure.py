from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.actuator.effects import deployment, patch, said, scale
from tidewright.actuator import correlate, requests, verdict
from tidewright.actuator.correlate import COMBINED, Correlator, Count, Drop, Write
from tidewright.actuator.identity import unique
from tidewright.actuator.ledger import Ledger
from tidewright.actuator.requests import LeaseHeld, Mismatch
from tidewright.actuator.verdict import Again, Done, Refused
from tidewright.events.base import ObjectRef
from tidewright.events.decisions import CreateObject, DeleteObject, EvictPod, HoldLease, ScaleWorkload
from tidewright.events.outcomes import Applied, Failed, Rejected
from tidewright.kube.errors import KubeError
from tidewright.kube.mergepatch import merged

# -- requests ------------------------------------------------------------------------------------


def test_a_merge_patch_follows_the_rfc() -> None:
    target = {"a": {"b": 1, "c": 2}, "d": [1]}
    assert merged(target, {"a": {"b": None, "e": {"f": None, "g": 1}}, "d": [2]}) == {
        "a": {"c": 2, "e": {"g": 1}},
        "d": [2],
    }
    assert target == {"a": {"b": 1, "c": 2}, "d": [1]}


def test_a_patch_holds_when_it_would_change_nothing() -> None:
    obj = {"metadata": {"labels": {"a": "1"}}}
    assert requests.holds(obj, {"metadata": {"labels": {"a": "1", "b": None}}})
    assert not requests.holds(obj, {"metadata": {"labels": {"a": "2"}}})


def hold(stopped: str = "", at: float = 2.5) -> HoldLease:
    lease = ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace="ns", name="lock")
    return HoldLease(at=at, id="d.1", target=lease, holder="us", duration_s=15, stopped=stopped)


def lease(holder: str | None, renewed: str = "then", **spec: object) -> dict[str, object]:
    return {
        "metadata": {"resourceVersion": "7"},
        "spec": {"holderIdentity": holder, "renewTime": renewed, **spec},
    }


def test_a_lease_of_another_is_left_alone_and_its_record_is_told() -> None:
    with pytest.raises(LeaseHeld, match="them holds lease ns/lock, not us") as held:
        requests.lease_patch(hold(), lease("them", leaseDurationSeconds=30))
    assert held.value.record == {"record": "them then", "holder": "them", "duration_s": 30}
    with pytest.raises(LeaseHeld):  # it was renewed since it was seen to stand still
        requests.lease_patch(hold(stopped="them then"), lease("them", "later"))


@pytest.mark.parametrize(("holder", "stopped"), [("them", "them then"), ("", ""), (None, "")])
def test_a_lease_is_taken_under_the_version_that_was_seen(holder: str | None, stopped: str) -> None:
    body = requests.lease_patch(hold(stopped), lease(holder, leaseTransitions=4))
    assert body is not None
    wanted = msgspec.json.decode(body)
    assert wanted["metadata"]["resourceVersion"] == "7"
    stamp = "1970-01-01T00:00:02.500000Z"
    assert wanted["spec"] == {
        "holderIdentity": "us", "leaseDurationSeconds": 15, "leaseTransitions": 5,
        "acquireTime": stamp, "renewTime": stamp,
    }  # fmt: skip


def test_a_lease_of_ours_is_renewed_once_and_stays_acquired_when_it_was() -> None:
    made = msgspec.json.decode(requests.lease_body(hold()))
    assert requests.lease_patch(hold(), made) is None, "a repeat of an attempt whose answer was lost"
    body = requests.lease_patch(hold(at=7.5), made)
    assert body is not None
    renewed = merged(made, msgspec.json.decode(body))["spec"]
    assert renewed == {**made["spec"], "renewTime": "1970-01-01T00:00:07.500000Z"}


def test_a_precondition_names_the_place_and_both_values() -> None:
    obj = {"metadata": {"annotations": {"a/b": "x"}}, "spec": {"list": [1, 2]}}
    requests.check_expected(obj, {"/metadata/annotations/a~1b": "x", "/spec/list/1": 2, "/spec/none": None})
    with pytest.raises(Mismatch, match='/spec/list/0 is 1, not "y"'):
        requests.check_expected(obj, {"/spec/list/0": "y"})


def test_another_object_of_the_same_name_is_a_mismatch() -> None:
    requests.check_uid({"metadata": {"uid": "a"}}, deployment(uid="a"))
    requests.check_uid({"metadata": {"uid": "a"}}, deployment())
    with pytest.raises(Mismatch, match="uid is a, not b"):
        requests.check_uid({"metadata": {"uid": "a"}}, deployment(uid="b"))


def test_a_patch_carries_its_decision_and_the_version_that_was_checked() -> None:
    body = msgspec.json.decode(requests.patch_body(patch({"metadata": {"finalizers": None}}), "7"))
    assert body == {
        "metadata": {
            "finalizers": None,
            "annotations": {requests.DECISION: "web.patch"},
            "resourceVersion": "7",
        }
    }


def test_a_manifest_takes_name_and_decision_from_the_effect() -> None:
    effect = CreateObject(at=1.0, id="d", target=deployment(), manifest={"spec": {"x": 1}})
    assert msgspec.json.decode(requests.create_body(effect)) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {requests.DECISION: "d"}},
        "spec": {"x": 1},
    }


def test_deletion_and_eviction_carry_the_uid() -> None:
    body = msgspec.json.decode(requests.delete_body(DeleteObject(at=1.0, target=deployment()), "u"))
    assert body["preconditions"] == {"uid": "u"}
    pod = ObjectRef(api_version="v1", kind="Pod", namespace="shop", name="p")
    body = msgspec.json.decode(requests.eviction_body(EvictPod(at=1.0, target=pod), "u"))
    assert body["deleteOptions"]["preconditions"] == {"uid": "u"}


# -- verdict -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "wanted"),
    [(403, "Forbidden"), (404, "Gone"), (410, "Gone"), (409, "Conflict"), (422, "Invalid")],
)
def test_refusals_are_final(code: int, wanted: str) -> None:
    result = verdict.of_error(KubeError(code, "X", "why"))
    assert isinstance(result, Refused)
    assert result.reason == wanted
    outcome = verdict.outcome(scale(2, 1), result, 5.0, 3)
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.attempts, outcome.decision) == (wanted, 3, "web.1.2")


@pytest.mark.parametrize(("code", "wanted"), [(429, "Throttled"), (503, "Unavailable"), (0, "Unavailable")])
def test_what_may_pass_is_tried_again_and_fails_in_the_end(code: int, wanted: str) -> None:
    result = verdict.of_error(KubeError(code, "X", "why", retry_after_s=3.0))
    assert isinstance(result, Again)
    assert result.wait_s == 3.0
    outcome = verdict.outcome(scale(2, 1), result, 5.0, 3)
    assert isinstance(outcome, Failed)
    assert outcome.reason == wanted


def test_what_holds_is_applied() -> None:
    outcome = verdict.outcome(scale(2, 1), Done(found=True, result={"uid": "u"}), 5.0, 1)
    assert outcome == Applied(at=5.0, decision="web.1.2", attempts=1, found=True, result={"uid": "u"})


def test_delays_grow_up_to_a_bound_and_heed_the_server() -> None:
    again = Again("Unavailable", "why")
    delays = [verdict.delay_s(attempt, again, 0.0) for attempt in range(1, 40)]
    assert delays == sorted(delays)
    assert delays[0] == verdict.FIRST_DELAY_S
    assert delays[-1] == verdict.MAX_DELAY_S
    assert verdict.delay_s(1, Again("Throttled", "why", 9.0), 1.0) == 9.0


def test_a_long_message_is_cut() -> None:
    outcome = verdict.outcome(scale(2, 1), Refused("Invalid", "x" * 5000), 5.0, 1)
    assert len(outcome.message) == verdict.MAX_MESSAGE


# -- ledger --------------------------------------------------------------------------------------


def test_the_position_stops_before_the_first_open_decision() -> None:
    ledger = Ledger()
    for seq in (3, 5, 9):
        assert ledger.take(seq)
    ledger.passed(11)
    assert ledger.position == 2
    ledger.finish(5)
    assert (ledger.position, ledger.done) == (2, (5,))
    ledger.finish(3)
    assert (ledger.position, ledger.done) == (8, ())
    ledger.finish(9)
    assert (ledger.position, ledger.open) == (11, 0)


def test_a_restart_takes_only_what_has_no_outcome() -> None:
    ledger = Ledger(2, (5,))
    assert [seq for seq in (3, 5, 9) if ledger.take(seq)] == [3, 9]


def test_a_decision_is_finished_once() -> None:
    ledger = Ledger()
    ledger.take(1)
    ledger.finish(1)
    with pytest.raises(ValueError, match="not open"):
        ledger.finish(1)


@given(st.permutations(range(1, 12)), st.integers(0, 11))
def test_whenever_it_stops_each_decision_is_either_done_or_taken_again(order: list[int], stop: int) -> None:
    ledger = Ledger()
    for seq in range(1, 12):
        ledger.take(seq)
    for seq in order[:stop]:
        ledger.finish(seq)
    again = Ledger(ledger.position, ledger.done)
    taken = {seq for seq in range(ledger.position + 1, 12) if again.take(seq)}
    assert taken == set(order[stop:])


# -- object events -------------------------------------------------------------------------------


def test_an_event_is_written_once_and_then_counted() -> None:
    correlator = Correlator()
    first = correlator.correlate(said("up", id="d1"), 1000.0)
    second = correlator.correlate(said("up", id="d2"), 1060.0)
    assert isinstance(first, Write)
    assert isinstance(second, Count)
    assert second.name == first.name
    assert second.patch["count"] == 2
    assert second.patch["lastTimestamp"] == "1970-01-01T00:17:40Z"
    assert first.body["count"] == 1
    assert first.body["involvedObject"]["name"] == "web"


def test_an_old_event_is_not_counted_up() -> None:
    correlator = Correlator()
    correlator.correlate(said("up", id="d1"), 1000.0)
    assert isinstance(correlator.correlate(said("up", id="d2"), 1000.0 + correlate.WINDOW_S + 1), Write)


def test_the_name_is_the_decisions() -> None:
    assert correlate.event_name(said("a", id="d")) == correlate.event_name(said("b", id="d"))
    assert correlate.event_name(said("a", id="d")) != correlate.event_name(said("a", id="e"))
    assert len(correlate.event_name(said("a", "x" * 253))) <= 253


@given(st.lists(st.sampled_from("abcdefghijklm"), min_size=1, max_size=40))
def test_messages_of_one_decision_are_what_a_decision_for_each_would_be(messages: list[str]) -> None:
    """But for the names, of which none is another's."""
    first, *others = messages
    together, each = said(first, id="d", also=tuple(others)), [said(one, id="d") for one in messages]
    at_once, one_by_one = Correlator(), Correlator()
    found = [at_once.correlate(together, 1000.0, nth) for nth in range(len(messages))]
    names = [todo.name for todo in found if isinstance(todo, Write)]
    assert len(set(names)) == len(names)
    alone = [one_by_one.correlate(one, 1000.0) for one in each]
    assert [type(todo) for todo in found] == [type(todo) for todo in alone]
    for todo, other in zip(found, alone, strict=True):
        if isinstance(todo, Write) and isinstance(other, Write):
            assert todo.body["message"] == other.body["message"]
        if isinstance(todo, Count) and isinstance(other, Count):
            assert todo.patch == other.patch


def test_many_that_differ_in_their_message_are_combined() -> None:
    correlator = Correlator()
    results = [correlator.correlate(said(f"to {n}"), 1000.0) for n in range(12)]
    assert all(isinstance(result, Write) for result in results[:11])
    last = results[-1]
    assert isinstance(last, Count)
    assert last.patch["message"] == f"{COMBINED}to 11"


def test_an_object_gets_no_more_than_a_burst_and_a_trickle() -> None:
    correlator = Correlator()
    results = [correlator.correlate(said(f"to {n}"), 1000.0) for n in range(correlate.BURST + 1)]
    assert isinstance(results[-1], Drop)
    assert not isinstance(correlator.correlate(said("x", "other"), 1000.0), Drop)
    assert not isinstance(correlator.correlate(said("y"), 1000.0 + correlate.REFILL_S), Drop)


def test_a_decision_of_another_log_is_another_though_its_id_is_the_same() -> None:
    one = ScaleWorkload(
        at=1.0,
        id="autoscaler.0.7.0",
        prev="ab",
        target=ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name="web"),
        replicas=2,
        from_replicas=1,
    )
    assert unique(one) == unique(msgspec.structs.replace(one))
    later, after_other = msgspec.structs.replace(one, at=2.0), msgspec.structs.replace(one, prev="cd")
    assert len({unique(one), unique(later), unique(after_other)}) == 3
