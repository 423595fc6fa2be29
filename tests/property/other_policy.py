"""State is a function of the log alone: one log folded under another policy leaves the same bytes.

The other policy answers every question of the shard manager's rules otherwise, wherever it is asked. What it
would decide is thrown away: what stands on the log was decided by the policy in force.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from typing import Any
from unittest.mock import patch

import msgspec

from tidewright.events.base import Decision, Event, JsonObject
from tidewright.shardmanager import own_services
from tidewright.shardmanager.decide import DECIDER
from tidewright.shardmanager.propeller import (
    config_hash,
    config_read,
    fleet,
    fleet_verdict,
    passes,
    resize,
    scan,
)
from tidewright.shardmanager.propeller.manager_lock import Lock
from tidewright.shardmanager.shardset import spec
from tidewright.shardmanager.shardset import state as state_of_set
from tidewright.shardmanager.shardset.assignment import assign, autosize
from tidewright.shardmanager.shardset.pods import rollbacks, rollout, workers
from tidewright.shardmanager.shardset.spec_reader import Problem
from tidewright.shardmanager.shardset.state import ShardSetState
from tidewright.shardmanager.state import State

REFUSED = spec.spec_problems
JUDGED = fleet_verdict.verdict


def _refused(wanted: spec.SetSpec) -> bool:
    """Whether the policy in force refuses a spec: the other one accepts just these."""
    return bool(REFUSED(wanted))


def _verdict(entry: JsonObject) -> fleet.Verdict:
    """The contrary, and another warning."""
    return fleet.Verdict(refused="" if JUDGED(entry).refused else "is another", warnings=("another",))


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    fleet_verdict.verdict: _verdict,
    config_hash.accepted_hashes: lambda *_: ("another",),
    resize.warning: lambda *_: "another",
    scan.is_stale: lambda *_: True,
    scan.other_generation: lambda *_: True,
    scan.survey: lambda *_: scan.Survey(running=7),
    assign.assign: lambda slots, _previous, weights, _pins: assign.Assignment(
        quota={}, table=(max(weights, default=None),) * slots, moved=(), filled=()
    ),
    autosize.recommend: lambda *_: 1,
    rollbacks.wanted_template: lambda _state, shard_set: shard_set.rollout.good,
    rollbacks.rejected: lambda *_: "another",
    rollout.next_step: lambda *_: rollout.RolloutStep(action="wait", reason="another"),
    own_services.read: lambda *_: own_services.Sizing(refused="another"),
    spec.spec_problems: lambda wanted: [] if _refused(wanted) else [Problem("spec", "is another")],
    state_of_set.doubly_claimed: lambda *_: [0],
    state_of_set.keyspace_problems: lambda *_: [Problem("spec.keyspace", "is another")],
    workers.tables: lambda shard_set: [[] for _index in range(shard_set.size)],
}
"""Rules, and what the other policy says instead."""
METHODS: dict[tuple[type, str], Callable[..., Any]] = {
    (Lock, "leads"): lambda *_: False,
    (Lock, "why_not"): lambda *_: "another",
    (ShardSetState, "held"): lambda *_: True,
    (autosize.Follower, "follow"): lambda _self, _at, current, _desired, **_: current + 1,
}


@contextmanager
def other_policy() -> Iterator[None]:
    """The other policy is in force."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if not name.startswith("tidewright.shardmanager"):
                continue
            for attribute, value in list(vars(module).items()):
                if callable(value) and (other := _other(value)) is not None:
                    stack.enter_context(patch.object(module, attribute, other))
        for (owner, method), answer in METHODS.items():
            stack.enter_context(patch.object(owner, method, answer))
        stack.enter_context(patch.object(passes, "RIVAL_QUIET_INTERVALS", 0))
        stack.enter_context(patch.object(config_read, "MIN_INTERVAL_S", 1e9))
        for period in ("GROWTH_PERIOD_S", "SHRINK_PERIOD_S", "SHRINK_WINDOW_S"):
            stack.enter_context(patch.object(autosize, period, 1.0))
        yield


def _other(value: Any) -> Callable[..., Any] | None:
    return next((other for rule, other in RULES.items() if rule is value), None)


def assert_state_of_the_log_alone(log: Sequence[tuple[Event, Sequence[Decision]]]) -> None:
    """Fold events with the decisions that were recorded for each, under both policies, and compare at each."""
    state, mine = State(), []
    for event, decided in log:
        DECIDER.evolve(state, event)
        for decision in decided:
            DECIDER.evolve(state, decision)
        mine.append(_digest(state))
    state = State()
    with other_policy():
        for (event, decided), digest in zip(log, mine, strict=True):
            DECIDER.decide(state, event, DECIDER.evolve(state, event))
            for decision in decided:
                DECIDER.evolve(state, decision)
            assert _digest(state) == digest, f"after {event}"


def _digest(state: State) -> bytes:
    return blake2b(msgspec.json.encode(state)).digest()
