"""A state that an earlier version stored is gone on from as if this one had folded its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tidewright.events import provisioning as p
from tidewright.events.base import Decision, Event
from tidewright.events.decisions import SetTimer
from tidewright.events.timers import TimerFired
from tidewright.kube.keys import request_key
from tidewright.provisioning.cluster.view import look
from tidewright.provisioning.decide import DECIDER, STATE_VERSION
from tidewright.provisioning.group_ids import NodeGroupId
from tidewright.provisioning.index.indexing import index_of
from tidewright.provisioning.scaledown.lately import last_of
from tidewright.provisioning.state import GroupState, Lately, Pod, State

STORED = Path(__file__).parents[2] / "golden" / "states" / "provisioning.v4.json"
GONE = {"evaluating", "evaluated_at", "touched", "first_wake"}
UNKNOWN = {"removal", "controller", "deleting_at"}
"""Of pods, what facts of before do not say all of."""
NEW = {
    "consolidating",
    "buffers",
    "buffers_looked_at",
    "held_chunks",
    "template_meta",
    "burst_at",
    "woken_at",
    "budgets",
    "replicas",
    "clouds",
    "removals",
    "removals_due",
    "unmarking",
    "stuck",
    "softening",
    "left",
    "unneeded",
    "paused",
    "scan",
    "lately",
    "lately_of_gone",
    "workloads",
    "forms",
    "scalings",
    "came_s",
    "unread_scaled",
    "foreseen",
    "spreads",
    "subsets",
    "begun",
    "unread",
}


def stored() -> dict[str, Any]:
    return msgspec.json.decode(STORED.read_bytes(), type=dict[str, Any])


def restored() -> State:
    return DECIDER.restored(STORED.read_bytes(), 4)


def feed(state: State, event: Event) -> list[Decision]:
    decisions = list(DECIDER.decide(state, event, DECIDER.evolve(state, event)))
    for n, decision in enumerate(decisions):
        DECIDER.evolve(state, msgspec.structs.replace(decision, id=f"provisioning.all.9999.{n}"))
    return decisions


def test_a_state_of_version_4_keeps_all_that_is_no_judgement() -> None:
    before, after = stored(), msgspec.json.decode(msgspec.json.encode(restored()), type=dict[str, Any])
    assert before.keys() - after.keys() == GONE
    assert after.keys() - before.keys() == NEW, (
        "a new field with a default needs no new state_version: add it to NEW; any other change of the state does (docs/adding.md)"
    )
    assert all(value is None for pod in after["pods"].values() for value in map(pod.get, UNKNOWN))
    assert all((node.pop("delays"), node.pop("uid")) == (None, "") for node in after["nodes"].values())
    for state in (before, after):  # what is as by default is not stored
        state["pods"] = msgspec.convert(state["pods"], dict[str, Pod])
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert changed == {"groups", "requests", "backoff"}
    assert after["burst_at"] == before["first_wake"]


def test_the_pattern_of_a_node_that_is_good_no_more_is_the_template_of_its_group() -> None:
    remembered = stored()["groups"]["full"]["remembered"]
    state = restored()
    template = look(state, index_of(state), state.now).groups[NodeGroupId("full")].group.template
    assert template is not None
    assert template.view.allocatable["cpu"] == remembered["allocatable"]["cpu"]
    assert template.view.labels.items() >= {"cluster-autoscaler.kubernetes.io/template-node": "true"}.items()


def test_the_decider_goes_on_from_it() -> None:
    """A burst is waited for no longer than it would have been; whose sizes were seen late is tried at once."""
    state = restored()
    assert state.due is not None
    late = state.requests[request_key("ns", "conflict")]
    assert (late.seen_late, late.conflicts) == (True, 1)
    fired = state.due
    first = feed(state, TimerFired(at=fired, key="evaluate"))
    assert [type(d) for d in first] == [SetTimer]  # the pod came later than what set the timer
    again = feed(state, TimerFired(at=first[0].due, key="evaluate"))  # type: ignore[attr-defined]  # is a SetTimer
    assert [d.name for d in again if isinstance(d, p.AttemptRequest)] == ["conflict"]
    assert state.requests[request_key("ns", "conflict")].seen_late is False
    assert "ns/ordered" in state.requests
    assert state.requests[request_key("ns", "ordered")].ordered


def test_a_state_that_knew_nothing_of_groups_that_are_gone_keeps_the_delays_of_those_that_are_there() -> None:
    here, gone = NodeGroupId("here"), NodeGroupId("gone")
    state = State(
        now=100.0,
        groups={here: GroupState(), gone: GroupState()},
        lately={here: Lately(delete=10.0, failure=20.0), gone: Lately(delete=90.0, failure=95.0)},
    )
    DECIDER.evolve(state, p.NodeGroupGone(at=100.0, name="gone"))
    before = msgspec.json.decode(msgspec.json.encode(state), type=dict[str, Any])
    del before["lately_of_gone"]
    after = DECIDER.restored(msgspec.json.encode(before), STATE_VERSION)
    assert (last_of(after).delete, last_of(after).failure) == (10.0, 20.0)  # nothing else is known
    DECIDER.evolve(after, p.NodeGroupGone(at=101.0, name="here"))
    assert (last_of(after).delete, last_of(after).failure) == (10.0, 20.0)
