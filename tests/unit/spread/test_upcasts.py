"""A state that an earlier version stored is gone on from as if this one had folded its log."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidewright.events.base import Decision, Event
from tidewright.events.decisions import PatchObject, RecordObjectEvent
from tidewright.events.outcomes import Failed
from tidewright.events.timers import TimerFired
from tidewright.spread.decide import DECIDER
from tidewright.spread.state import State

STORED = Path(__file__).parents[2] / "golden" / "states" / "spread.v2.json"


def restored() -> State:
    return DECIDER.restored(STORED.read_bytes(), 2)


def test_a_state_of_version_2_keeps_all_but_what_its_last_event_touched() -> None:
    stored = msgspec.json.decode(STORED.read_bytes())
    assert stored.pop("touched")["foresee"] == ["shop/web", 2]
    assert msgspec.json.decode(msgspec.json.encode(restored())) == stored


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
