"""Which mode holds: the most careful of service, namespace and object."""

from __future__ import annotations

import msgspec
import pytest

from tidewright.asking.services import SERVICES
from tidewright.events import acting
from tidewright.events.acting import ENFORCED, Acting
from tidewright.events.base import Because, Decision, ObjectRef
from tidewright.events.config import Mode, ModesSet
from tidewright.events.decisions import ScaleWorkload, SetStatus, SetTimer
from tidewright.events.incumbents import Evidence, IncumbentObserved
from tidewright.events.shards import AssignmentEntry, ChangeAssignment

WEB = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")


def after(**fields: object) -> Acting:
    found = Acting()
    found.heard(ModesSet(at=1.0, **fields))  # type: ignore[arg-type]  # the fields of the test
    return found


def scale(replicas: int, **fields: object) -> ScaleWorkload:
    return ScaleWorkload(at=2.0, target=WEB, replicas=replicas, from_replicas=2, **fields)  # type: ignore[arg-type]


def test_a_log_without_modes_is_enforced() -> None:
    found = Acting()
    assert found.held("autoscaler", "shop", {"app": "web"}) == ENFORCED
    assert not found.heard(ModesSet(at=1.0))  # and one that says so changes nothing
    assert found.held("autoscaler").acts


@pytest.mark.parametrize(
    ("service", "annotation", "mode", "reports"),
    [
        ("enforce", None, "enforce", True),
        ("enforce", "enforce", "enforce", True),
        ("enforce", "dry-run", "dry-run", True),
        ("enforce", "shadow", "shadow", False),
        ("enforce", "Shadow ", "shadow", False),  # what cannot be read holds back
        ("shadow", "enforce", "shadow", False),  # an object sets nothing loose
        ("shadow", "dry-run", "shadow", False),
        ("dry-run", "enforce", "dry-run", False),
        ("dry-run", "dry-run", "dry-run", False),
    ],
)
def test_an_object_may_be_more_careful_than_its_service_and_never_less(
    service: Mode, annotation: str | None, mode: Mode, reports: bool
) -> None:
    annotations = {} if annotation is None else {acting.MODE: annotation}
    held = after(services={"autoscaler": service}).held("autoscaler", "shop", annotations)
    assert (held.mode, held.reports, held.acts) == (mode, reports, mode == "enforce")
    assert bool(held.why) is not held.acts


def test_a_service_that_is_named_differs_from_the_others() -> None:
    found = after(mode="shadow", services={"spread": "enforce"})
    assert found.of_service("spread").acts
    assert found.of_service("autoscaler").why == "autoscaler is in shadow"


def test_other_namespaces_than_the_selected_ones_are_left_alone() -> None:
    found = after(selector="team=a", namespaces=("shop",))
    assert found.held("autoscaler", "shop").acts
    assert found.held("provisioning").acts  # what is in no namespace
    held = found.held("autoscaler", "bank")
    assert held.mode == "shadow"
    assert held.why == "namespace bank is not among those of team=a"


def test_only_a_change_is_heard() -> None:
    found = after(mode="shadow")
    assert not found.heard(ModesSet(at=9.0, mode="shadow"))
    assert not found.heard(ModesSet(at=9.0, mode="shadow", refresh=True))
    assert found.heard(ModesSet(at=9.0))
    assert found.of_service("spread").acts


def test_modes_that_are_only_said_again_hold_where_retention_took_the_first_word() -> None:
    found = Acting()
    assert found.heard(ModesSet(at=9.0, mode="shadow", refresh=True))
    assert not found.of_service("spread").acts


def test_what_would_be_done_is_marked_with_why_it_is_not() -> None:
    held = after(mode="shadow").held("autoscaler", "shop")
    found = acting.recorded(scale(5, because=(Because(rule="Above"),)), held)
    assert found is not None
    assert found.shadow
    assert [step.rule for step in found.because] == ["Above", acting.HELD_BACK]
    assert (
        acting.held_back(found.because[-1].values)
        == "Nothing of it is done (shadow): autoscaler is in shadow."
    )
    assert acting.recorded(scale(5), ENFORCED) == scale(5)


def test_what_only_tells_of_decisions_is_not_told_in_shadow_and_is_in_the_dry_run_of_an_object() -> None:
    status = SetStatus(at=2.0, target=WEB, status={})
    timer = SetTimer(at=2.0, key="k", due=3.0)
    shadow = after(mode="shadow").held("autoscaler", "shop")
    dry = Acting().held("autoscaler", "shop", {acting.MODE: "dry-run"})
    assert acting.recorded(status, shadow) is None
    assert acting.recorded(status, dry) == status
    assert acting.recorded(timer, shadow) == timer
    assert acting.recorded(scale(5), shadow, always=(ScaleWorkload,)) == scale(5)
    found = acting.recorded(scale(5), dry)
    assert isinstance(found, ScaleWorkload)
    assert (found.dry_run, found.shadow) == (True, True)


def test_two_decisions_say_the_same_whatever_led_to_them() -> None:
    first = scale(5, id="autoscaler.1.7.0", because=(Because(rule="Above", values={"value_milli": 7}),))
    assert acting.digest(first) == acting.digest(scale(5, id="autoscaler.1.9.0", prev="x"))
    assert acting.digest(first) != acting.digest(scale(6))
    assert acting.about(first) == "ScaleWorkload Deployment/shop/web"
    entry = AssignmentEntry(kind="join", revision=3, at=7.0, member="a")
    again = AssignmentEntry(kind="join", revision=4, at=9.0, member="a")
    one, other = (ChangeAssignment(at=1.0, target=WEB, entry=e) for e in (entry, again))
    assert acting.digest(one) == acting.digest(other)
    assert acting.digest(one, "before") != acting.digest(one)


RIVAL = IncumbentObserved(at=2.0, service="autoscaler", rival="the old one", present=True, everywhere=True)


def test_beside_an_incumbent_it_is_a_dry_run_that_writes_no_status_either() -> None:
    found = after()
    assert found.heard(RIVAL)
    held = found.held("autoscaler", "shop")
    assert (held.mode, held.reports) == ("dry-run", False)
    assert held.why == "the old one is at work on the same objects (stop it, or say --regardless autoscaler)"
    assert found.held("autoscaler", "shop", {acting.MODE: "dry-run"}).reports is False
    assert not found.of_service("autoscaler").acts
    assert found.held("spread", "shop").acts


def test_an_incumbent_makes_nothing_less_careful() -> None:
    found = after(mode="shadow")
    found.heard(RIVAL)
    assert found.held("autoscaler", "shop").mode == "shadow"


def test_only_where_the_incumbent_acts() -> None:
    found = after()
    found.heard(msgspec.structs.replace(RIVAL, everywhere=False, namespaces=("shop",)))
    assert not found.held("autoscaler", "shop").acts
    assert found.held("autoscaler", "games").acts
    assert found.of_service("autoscaler").acts


def test_when_it_is_gone_the_mode_that_is_set_holds_again() -> None:
    found = after()
    found.heard(RIVAL)
    assert found.heard(IncumbentObserved(at=3.0, service="autoscaler", rival="the old one", quiet_s=60.0))
    assert found.held("autoscaler", "shop") == ENFORCED
    assert found.incumbents == {}


def test_whoever_acts_regardless_does() -> None:
    found = after(regardless=("autoscaler",))
    found.heard(RIVAL)
    assert found.held("autoscaler", "shop") == ENFORCED
    found.heard(ModesSet(at=3.0))
    assert not found.held("autoscaler", "shop").acts


def test_other_evidence_and_a_refresh_change_no_answer() -> None:
    found = after()
    found.heard(RIVAL)
    shown = (Evidence(kind="Lease", namespace="n", name="l", shows="is held"),)
    assert not found.heard(msgspec.structs.replace(RIVAL, at=4.0, evidence=shown))
    assert found.incumbents["autoscaler"].evidence == shown
    assert not found.heard(msgspec.structs.replace(RIVAL, at=5.0, refresh=True))
    assert not found.heard(IncumbentObserved(at=5.0, service="spread", unseen=("list leases",)))
    assert found.heard(msgspec.structs.replace(RIVAL, at=6.0, everywhere=False, namespaces=("a",)))


def test_what_is_said_again_holds_when_the_log_has_forgotten_the_first() -> None:
    found = Acting()
    assert found.heard(ModesSet(at=9.0, mode="shadow", refresh=True))
    assert found.heard(msgspec.structs.replace(RIVAL, refresh=True))
    assert found.held("spread").mode == "shadow"
    assert found.beside("autoscaler") is not None
    assert not found.heard(ModesSet(at=10.0, mode="shadow"))


def test_the_webhook_of_an_endpoint_is_held_back_with_its_decider() -> None:
    found = after()
    found.heard(msgspec.structs.replace(RIVAL, service="spread"))
    assert found.held("spread-admission").mode == "dry-run"
    assert found.held("spread-admission").why.endswith("--regardless spread)")
    assert found.held("shard-labels").acts


def test_the_endpoints_are_those_of_the_table_of_services() -> None:
    assert {service.name: service.of for service in SERVICES if service.of} == acting.ENDPOINTS


@pytest.mark.parametrize(
    ("decision", "urgent"),
    [
        (scale(3), True),
        (scale(3, shadow=True), False),
        (SetTimer(at=2.0, key="removals", due=2.0), True),
        (SetTimer(at=1.0, key="removals", due=2.0), True),
        (SetTimer(at=2.0, key="scan", due=2.001), False),
    ],
)
def test_what_changes_something_is_urgent_and_so_is_what_is_due_as_it_is_said(
    decision: Decision, *, urgent: bool
) -> None:
    assert acting.is_urgent(decision, now=2.0) is urgent
