"""What is told beside a decision that an object's explanation tells: what concerns that object, and how much else there was."""

from __future__ import annotations

from tests.unit.asking.test_aftermath import Told
from tests.unit.asking.test_departures import GROUP
from tidewright.asking.explain import Why, of_another
from tidewright.asking.rendering import _why
from tidewright.events import provisioning as p
from tidewright.events.base import Decision, ObjectRef
from tidewright.events.decisions import RecordObjectEvent, SetTimer
from tidewright.host.fold.explainer import Reference
from tidewright.provisioning.tell.explaining import EXPLAINER

MINE = Reference("provisioningrequest", "shop", "mine")


def said_of(kind: str, name: str) -> tuple[str, str, str, Decision]:
    target = ObjectRef(api_version="v1", kind=kind, namespace="shop", name=name)
    event = RecordObjectEvent(
        at=1.0, target=target, event_type="Normal", reason="R", message="m", component="c"
    )
    return kind.lower(), "shop", name, event


def attempt(name: str) -> tuple[str, str, str, Decision]:
    return (
        "none",
        "",
        "",
        p.AttemptRequest(
            at=1.0, namespace="shop", name=name, uid="u", attempt=1, result="NoOptionsAvailable"
        ),
    )


def test_what_is_about_other_requests_and_pods_is_theirs_to_tell() -> None:
    log = Told()
    decided = log.decide("provisioning", *attempt("mine"))
    order = p.IncreaseNodeGroup(at=1.0, target=GROUP, size=2, from_size=1, plan="1", request="shop/mine")
    plans = [p.PlanScaleUp(at=1.0, plan=n, request=f"shop/{n}") for n in ("mine", "other")]
    kept = [
        said_of("ProvisioningRequest", "mine"),
        ("nodegroup", "", "g", order),
        ("none", "", "", plans[0]),
        ("timer", "", "evaluate", SetTimer(at=1.0, key="evaluate", due=2.0)),
    ]
    of_others = [
        attempt("other"),
        said_of("ProvisioningRequest", "other"),
        said_of("Pod", "mine"),
        ("none", "", "", plans[1]),
        ("none", "", "", p.DeclineScaleUp(at=1.0, shape="s", count=1)),
    ]
    for entries, other in ((kept, False), (of_others, True)):
        for entry in entries:
            found = log.decide("provisioning", *entry)
            assert of_another(found, decided, MINE, EXPLAINER) is other, entry


def test_of_a_group_that_is_asked_for_the_orders_to_others_of_the_same_plan_are_told_and_no_pods() -> None:
    log = Told()
    group = Reference("nodegroup", "", "g")
    decided = log.decide("provisioning", "none", "", "", p.PlanScaleUp(at=1.0, plan="1"))
    other = ObjectRef(api_version="cloud/v1", kind="NodeGroup", name="h")
    order = p.IncreaseNodeGroup(at=1.0, target=other, size=2, from_size=1, plan="1")
    assert not of_another(log.decide("provisioning", "nodegroup", "", "h", order), decided, group, EXPLAINER)
    assert of_another(log.decide("provisioning", *said_of("Pod", "p")), decided, group, EXPLAINER)


def test_what_is_left_out_is_counted_and_what_is_repeated_said_once() -> None:
    log = Told()
    decided = log.decide("provisioning", *attempt("mine"))
    beside = tuple(log.decide("provisioning", *said_of("ProvisioningRequest", "mine")) for _ in range(3))
    why = Why("provisioning", decided, (), (), (decided,), beside=beside, others=1)
    lines = _why(why, {found.seq: 1.0 for found in (decided, *beside)})
    at = lines.index("  With it:")
    assert lines[at + 1 :] == [
        "    provisioningrequest/shop/mine: say Normal R: m (3 times)",
        "    and 1 decision about others",
    ]
