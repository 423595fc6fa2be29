"""A state that an earlier version stored is gone on from as if this one had folded its log."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.unit.spread.cluster import HASH
from tidewright.events.base import Decision, Event
from tidewright.events.config import ConfigSet
from tidewright.events.decisions import PatchObject, RecordObjectEvent
from tidewright.events.facts import PodGone
from tidewright.events.outcomes import Failed
from tidewright.events.spread import WorkloadSpreadGone, WorkloadSpreadObserved
from tidewright.events.timers import TimerFired
from tidewright.spread.control.versions import versions_by
from tidewright.spread.decide import DECIDER
from tidewright.spread.state import State
from tidewright.spread.upcasts import UPCASTS

STATES = Path(__file__).parents[2] / "golden" / "states"


def stored(version: int) -> bytes:
    return (STATES / f"spread.v{version}.json").read_bytes()


def restored(version: int = 2) -> State:
    return DECIDER.restored(stored(version), version)


def test_a_state_of_version_2_keeps_all_but_what_its_last_event_touched() -> None:
    version_3 = UPCASTS[2](msgspec.json.decode(stored(2)))
    assert msgspec.json.decode(stored(2))["touched"]["foresee"] == ["shop/web", 2]
    assert "touched" not in version_3
    assert DECIDER.restored(msgspec.json.encode(version_3), 3) == restored()


def test_a_state_of_version_3_has_its_targets_and_who_waits_for_them() -> None:
    state = restored(3)
    assert state.targets == {
        "shop|apps|Deployment|web": ["shop/web", "shop/later"],
        "shop|apps.kruise.io|CloneSet|db": ["shop/primary", "shop/replica"],
    }
    waiting = {key: spread.taken_by for key, spread in state.spreads.items() if spread.taken_by}
    assert waiting == {"shop/later": "web", "shop/replica": "primary"}
    assert {state.spreads[key].taken_since for key in waiting} == {state.now}


def test_who_waited_for_a_target_and_may_share_it_has_it_with_the_next_word_on_either() -> None:
    state = restored(3)
    primary = state.spreads["shop/primary"]
    feed(
        state,
        WorkloadSpreadObserved(
            at=state.now + 1,
            namespace="shop",
            name="primary",
            uid=primary.uid,
            generation=2,
            spec=primary.spec,
        ),
    )
    assert {key: list(spread.pods) for key, spread in state.spreads.items() if spread.pods} == {
        "shop/web": ["web-0", "web-1"],
        "shop/primary": ["db-0"],
        "shop/replica": ["db-1"],
    }
    feed(state, WorkloadSpreadGone(at=state.now + 2, namespace="shop", name="web", uid="ws"))
    assert list(state.spreads["shop/later"].pods) == ["web-0", "web-1"]


def test_a_state_of_version_4_has_what_its_versions_were_made_of() -> None:
    state = restored(4)
    active = {spread.name: spread.active for spread in state.spreads.values() if spread.pods}
    assert active == {
        "chiefs": {"replicaset": {HASH: {"a": 1}}},
        "workers": {"replicaset": {HASH: {"a": 1}}},
        # One of these pods is not controlled by its owner, so its revision is no version.
        "db": {"cloneset": {"r1": {"a": 1}, "r2": {"a": 1}}, "": {"r2": {"b": 1}}},
        "kv": {"statefulset": {"r1": {"a": 1}}},
    }
    assert {name: state.spreads[f"shop/{name}"].latest for name in ("chiefs", "db", "kv")} == {
        "chiefs": HASH, "db": "r2", "kv": "r2",
    }  # fmt: skip
    versions, before = versions_by(state.settings), msgspec.json.decode(stored(4))
    for key, spread in state.spreads.items():
        judged = {name: versions.of(row) for name, row in spread.pods.items()}
        assert judged == {name: row["version"] for name, row in before["spreads"][key]["pods"].items()}
        assert versions.latest(state, spread) == before["spreads"][key]["latest"]


def test_versions_that_settings_change_hold_at_once_and_places_are_counted_anew() -> None:
    state = restored(4)
    db = state.spreads["shop/db"]
    assert db.ledger.counts == {"r1": {"a": 1}, "r2": {"a": 1}, "versionIgnored": {"b": 1}}
    feed(state, ConfigSet(at=state.now + 1, name="spread", data={"whitelist": "no list at all"}))
    assert db.ledger.counts == {"versionIgnored": {"a": 2, "b": 1}}
    feed(state, PodGone(at=state.now + 2, namespace="shop", name="db-0", uid="uid-db-0"))
    assert db.ledger.counts == {"versionIgnored": {"a": 1, "b": 1}}


def test_the_decider_goes_on_from_it() -> None:
    """An outcome finds the decision that it answers, and the cost that was not written is asked for again."""
    state = restored()
    spread = state.spreads["shop/web"]
    assert spread.awaited["spread.0.13.1"] == "web-3"
    assert {name: c.open for name, c in spread.conditions.items()} == {"a": True, "b": False, "c": True}
    answered = feed(state, Failed(at=state.now + 1, decision="spread.0.13.1", reason="Unavailable"))
    assert [d.reason for d in answered if isinstance(d, RecordObjectEvent)] == ["PatchPodDeletionCostFailed"]
    again = feed(state, TimerFired(at=state.now + 30, key="spread/shop/web"))
    assert [d.target.name for d in again if isinstance(d, PatchObject)] == ["web-3"]


def feed(state: State, event: Event) -> list[Decision]:
    touched = DECIDER.evolve(state, event)
    decisions = list(DECIDER.decide(state, event, touched))
    for decision in decisions:
        DECIDER.evolve(state, decision)
    return decisions
