"""The comparisons find what is lost and what is doubled: a run that compares nothing would pass, too."""

from __future__ import annotations

import msgspec
import pytest

from tests.chaos.effects import OURS, effects
from tests.chaos.findings import Ledger, differences
from tests.chaos.verdict import Verdict
from tidewright.events import registry
from tidewright.events.base import Decision, ObjectRef, Outcome
from tidewright.events.decisions import CreateObject, DeleteObject, Effect, ScaleWorkload, SetStatus
from tidewright.events.outcomes import Applied, Superseded
from tidewright.events.provisioning import (
    ExpectedPods,
    IncreaseNodeGroup,
    Instance,
    NodeGroupObserved,
    PlanScaleUp,
)
from tidewright.log.reader import Record
from tidewright.sim.api.http.request_log import Entry

DEPLOYMENT = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="team-0", name="app-0")
POD = ObjectRef(api_version="v1", kind="Pod", namespace="team-0", name="shards-0")
SCALE = "/apis/apps/v1/namespaces/team-0/deployments/app-0/scale"
PODS = "/api/v1/namespaces/team-0/pods"


def scale(id_: str, replicas: int) -> ScaleWorkload:
    return ScaleWorkload(at=1.0, id=id_, target=DEPLOYMENT, replicas=replicas, from_replicas=1)


def ledger_of(*pairs: tuple[Effect, Outcome | None]) -> Ledger:
    ledger = Ledger()
    for effect, outcome in pairs:
        ledger.decisions[effect.id] = effect
        if outcome is not None:
            ledger.outcomes[outcome.decision].append(outcome)
    return ledger


def applied(id_: str, *, found: bool = False) -> Applied:
    return Applied(at=2.0, decision=id_, found=found)


def request(method: str, path: str, rv: int, code: int = 200, agent: str = "tidewright") -> Entry:
    return Entry(at=2.0, method=method, path=path, user_agent=agent, code=code, rv=rv)


def test_each_applied_effect_has_its_write() -> None:
    ledger = ledger_of(
        (scale("a", 2), applied("a")),
        (SetStatus(at=1.0, id="b", target=DEPLOYMENT, status={}), applied("b")),
        (CreateObject(at=1.0, id="c", target=POD, manifest={}), applied("c")),
        (DeleteObject(at=1.0, id="d", target=POD), applied("d")),
    )
    entries = [
        request("PUT", SCALE, 5),
        request("PUT", SCALE.replace("/scale", "/status"), 6),
        request("POST", PODS, 7, 201),
        request("DELETE", f"{PODS}/shards-0", 8),
    ]
    found = effects(ledger, entries)
    assert (found.lost, found.doubled) == ([], [])
    assert found.writes == found.applied == dict.fromkeys(("scale", "status", "create", "delete"), 1)


def test_an_effect_without_a_write_is_lost() -> None:
    ledger = ledger_of((scale("a", 2), applied("a")), (scale("b", 3), applied("b")))
    refused = request("PUT", SCALE, 0, 409)
    of_another = request("PUT", SCALE, 6, agent="kubectl")
    ours = request("PUT", f"{SCALE}?{OURS}", 7)
    found = effects(ledger, [request("PUT", SCALE, 5), refused, of_another, ours])
    assert found.lost == ["scale deployments team-0/app-0"]


@pytest.mark.parametrize(("pods", "doubled"), [((7,), 0), ((4, 3), 0), ((7, 7), 1)])
def test_nodes_that_are_planned_twice_for_one_decision_are_doubled(
    pods: tuple[int, ...], doubled: int
) -> None:
    ledger = ledger_of((scale("a", 8), applied("a", found=True)))
    for number, many in enumerate(pods):
        share = ExpectedPods(workload="Deployment/team-0/app-0", uid="u", pods=many, decision="a")
        ledger.decisions[f"p{number}"] = PlanScaleUp(
            at=1.0, id=f"p{number}", plan=f"p{number}", expected=(share,)
        )
    found = effects(ledger, [])
    assert (len(found.doubled), found.foreseen) == (doubled, sum(pods))


@pytest.mark.parametrize("verb", ["scale", "create"])
def test_a_second_write_for_one_decision_is_doubled(verb: str) -> None:
    create = CreateObject(at=1.0, id="a", target=POD, manifest={})
    effect: Effect = scale("a", 2) if verb == "scale" else create
    method, path = ("PUT", SCALE) if verb == "scale" else ("POST", PODS)
    ledger = ledger_of((effect, applied("a")))
    found = effects(ledger, [request(method, path, rv) for rv in (5, 6)])
    assert len(found.doubled) == 1
    again = effects(ledger, [request(method, path, 5), request(method, path, 5)])
    assert again.doubled == []  # the same version: the second one changed nothing


def test_a_write_without_a_decision_is_doubled() -> None:
    assert effects(Ledger(), [request("PUT", SCALE, 5)]).doubled == ["scale deployments team-0/app-0"]


def test_an_effect_that_was_found_or_overtaken_may_have_been_written_or_not() -> None:
    ledger = ledger_of(
        (scale("a", 2), applied("a", found=True)),
        (scale("b", 3), Superseded(at=2.0, decision="b", by="c")),
    )
    for writes in range(3):
        found = effects(ledger, [request("PUT", SCALE, 5 + n) for n in range(writes)])
        assert (found.lost, found.doubled) == ([], [])
        assert found.unsure.total() == writes
    found = effects(ledger, [request("PUT", SCALE, 5 + n) for n in range(3)])
    assert (len(found.doubled), found.unsure) == (1, {"scale": 2})
    verdict = Verdict()
    verdict.written(found)
    assert (
        "2 of the writes (2 scale) are those of attempts whose answer was lost, perhaps" in verdict.lines[0]
    )


def test_more_machines_than_were_ordered_are_doubled() -> None:
    group = ObjectRef(api_version="cloud/v1", kind="NodeGroup", namespace="", name="asked")
    order = IncreaseNodeGroup(at=1.0, id="a", target=group, size=2, from_size=0)
    ledger = ledger_of((order, applied("a")))
    seen = [
        NodeGroupObserved(at=at, namespace="", name="asked", instances=tuple(Instance(id=i) for i in ids))
        for at, ids in ((2.0, "xy"), (3.0, "yz"))
    ]
    assert effects(ledger, [], seen[:1]).doubled == []
    found = effects(ledger, [], seen)
    assert (found.ordered, found.machines, len(found.doubled)) == (2, 3, 1)


def test_a_ledger_names_what_is_unanswered_answered_twice_stray_and_twice() -> None:
    ledger, root = Ledger(), "tw.chaos"

    def take(cls: str, event: Decision | Outcome) -> None:
        subject = f"{root}.{cls}.3.autoscaler.deployment.team-0.app-0"
        ledger.take(Record(seq=1, subject=subject, headers={}, body=registry.encode(event)))

    for id_ in ("a", "b", "b"):
        take("decision", scale(id_, 2))
    for id_ in ("b", "b", "c"):
        take("outcome", applied(id_))
    assert ledger.unanswered == ["a"]
    assert ledger.answered_twice == ["b"]
    assert ledger.stray == ["c"]
    assert ledger.twice == ["b"]


def test_two_states_part_where_a_value_is_another_or_missing() -> None:
    one = {"workloads": {"a": 1, "b": 2}}
    other = msgspec.json.decode(msgspec.json.encode({"workloads": {"a": 1, "b": 3, "c": 4}}))
    assert differences("", one, one) == []
    assert differences("", other, one) == [".workloads.b: 3, undisturbed 2", ".workloads.c: 4, undisturbed None"]  # fmt: skip
