"""What is said again so that it does not age out: nobody decides about it, and no state changes by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.askedlog import SLOTS, MadeUp
from tidewright.asking.service_state import bare
from tidewright.asking.services import BY_NAME, SERVICES, Role, Service, load
from tidewright.autoscaler.decide import DECIDER
from tidewright.events import registry
from tidewright.events.base import Event, Fact
from tidewright.events.facts import MetricSampled, ObjectFact
from tidewright.events.spread import ChangeLedger, WorkloadSpreadObserved
from tidewright.host.fold.order import Fold
from tidewright.log.subjects import ALL, Slot, slot_of

GOLDEN = Path(__file__).parents[2] / "golden" / "events"
AT = 1_770_000_000.0
DECIDERS = [service for service in SERVICES if service.role is Role.DECIDER]


def samples() -> list[Fact]:
    """One fact of every type that says that something is there."""
    found = [registry.decode(path.read_bytes()) for path in sorted(GOLDEN.glob("fact.*.json"))]
    facts = [f for f in found if isinstance(f, Fact) and not type(f).__name__.endswith("Gone")]
    return [msgspec.structs.replace(fact, at=AT, refresh=False) for fact in facts]


def again(fact: Fact) -> Fact:
    return msgspec.structs.replace(fact, refresh=True)


def step(fold: Fold[Any], seq: int, event: Event) -> int:
    return len(fold.step(seq, registry.encode(event), event))


def kept(fold: Fold[Any]) -> dict[str, Any]:
    """A state without what it says of the last event, and without the mark on facts that it keeps whole."""
    text = msgspec.json.encode(fold.state).replace(b'"refresh":true,', b"")
    state: dict[str, Any] = msgspec.json.decode(text)
    state.pop("touched", None)
    return state


@pytest.mark.parametrize("service", DECIDERS, ids=lambda service: service.name)
def test_what_is_said_again_changes_no_state(service: Service) -> None:
    fold = Fold(load(service), ALL if service.partition == "cluster" else Slot("0"))
    facts = samples()
    for seq, fact in enumerate([*facts, *facts], 1):  # twice: what came first may wait for what comes later
        step(fold, seq, fact)
    before = kept(fold)
    assert before
    for seq, fact in enumerate(facts, 1000):
        decided = step(fold, seq, again(fact))
        assert decided == 0 or type(fact) in getattr(fold.decider, "renews", ())
    assert kept(fold) == before


def test_a_ledger_is_said_again_with_each_refresh_of_its_spread() -> None:
    fold = Fold(load(BY_NAME["spread"]), Slot("0"))
    subsets = [{"name": "a", "maxReplicas": 3}, {"name": "b"}]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    fact = WorkloadSpreadObserved(
        at=AT, namespace="shop", name="web", uid="u", generation=1, spec={"targetRef": target, "subsets": subsets}
    )  # fmt: skip
    for seq, event in enumerate((fact, again(fact)), 1):
        decided = [one.decision for one in fold.step(seq, registry.encode(event), event)]
        assert [d.rules is not None for d in decided if isinstance(d, ChangeLedger)] == [True], seq


def test_a_state_that_was_lost_with_the_log_is_rebuilt_from_what_is_said_again() -> None:
    """Of a service that was away for longer than anything is retained, and whose snapshots are gone."""
    made = MadeUp(400, 0.0)
    facts = [event for record in made if isinstance(event := registry.decode(record.body), ObjectFact)]
    slot = slot_of("team-7", SLOTS)
    mine = [fact for fact in facts if slot_of(fact.namespace, SLOTS) == slot]
    last = {(type(fact), fact.namespace, fact.name): fact for fact in mine}
    assert {fact.namespace for fact in mine} >= {"team-7"}
    old, new = Fold(DECIDER, slot), Fold(DECIDER, slot)
    for seq, fact in enumerate(mine, 1):
        step(old, seq, fact)
    now = max(fact.at for fact in mine)
    for seq, fact in enumerate(last.values(), 1):
        assert step(new, seq, again(msgspec.structs.replace(fact, at=now))) == 0
    sample = MetricSampled(
        at=now + 60, namespace="team-7", name="external/rps/app=app-1", series_milli=(118_000,), sampled_at=now + 60,
    )  # fmt: skip
    decided = [
        [bare(one.decision) for one in fold.step(9999, registry.encode(sample), sample)]
        for fold in (old, new)
    ]
    assert decided[0]
    assert decided[1] == decided[0]
