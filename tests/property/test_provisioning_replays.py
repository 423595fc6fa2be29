"""Provisioning's state is a function of the log alone: no setting of its policy, and no decision that was not recorded, is in it.

Logs of random clusters, requests and failures are recorded with what was decided; they are folded again with
nobody deciding, and by code whose settings and rules are other ones and whose decisions are dropped. After every
event the states are the same byte for byte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any
from unittest import mock

import msgspec
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from tests.property.test_provisioning import Wild, happenings, world
from tidewright.events import facts as f
from tidewright.events import registry
from tidewright.events.base import Event, JsonObject
from tidewright.events.config import ModesSet
from tidewright.host.fold.order import Decided, Fold
from tidewright.log.subjects import ALL
from tidewright.provisioning import decide, flags
from tidewright.provisioning.cluster import backoff, view
from tidewright.provisioning.decide import DECIDER
from tidewright.provisioning.requests import lifecycle
from tidewright.provisioning.settings import Settings
from tidewright.provisioning.state import State


class Recorded(msgspec.Struct):
    """An event, what was decided about it, and the state after both."""

    event: Event
    body: bytes
    decisions: list[Decided]
    state: bytes


class Recording(Wild):
    """Records its log as a host does."""

    def __init__(self, chance: Random, config: JsonObject) -> None:
        self.steps: list[Recorded] = []
        super().__init__(chance, config)

    def tell(self, event: Event) -> None:
        if isinstance(event, f.ObjectFact):
            self.told[type(event).__name__.removesuffix("Gone").removesuffix("Observed"), event.name] = event
        self.seq += 1
        body = registry.encode(event)
        before = self.snapshot()
        decided = self.fold.step(self.seq, body, read(body))
        self.steps.append(Recorded(event, body, decided, msgspec.json.encode(self.state)))
        for known in decided:
            self.said.append(known.decision)
            self.look(known.decision, before)


def read(body: bytes) -> Event:
    """An event as it is read back."""
    event = registry.decode(body)
    assert isinstance(event, Event)
    return event


def more(recording: Recording) -> dict[str, Callable[[], None]]:
    """What else may happen: bursts of pods of which the scheduler has not tried all, and other modes."""
    chance = recording.chance

    def burst() -> None:
        shape = recording.shape({"cpu": chance.choice((500, 1000, 3000))})
        names = [f"b{recording.seq}-{n}" for n in range(chance.randint(1, 4))]
        for name in names:
            recording.tell(
                f.PodObserved(
                    at=recording.now, namespace="ns", name=name, uid=name, shape=shape, phase="Pending"
                )
            )
        for name in names:
            recording.advance(chance.choice((0.0, 0.01, 0.04, 0.06, 0.5)))
            if chance.random() < 0.7:
                recording.pod(name, shape)

    def modes() -> None:
        recording.tell(ModesSet(at=recording.now, mode=chance.choice(("enforce", "shadow"))))

    return {"burst": burst, "burst2": burst, "modes": modes}


def recorded(seed: int, choices: Sequence[int]) -> list[Recorded]:
    recording = world(Random(seed), Recording)
    happens = {**happenings(recording), **more(recording)}
    del happens["again"]  # it sets timers by hand
    names = sorted(happens)
    for choice in choices:
        happens[names[choice % len(names)]]()
    return recording.steps


def replayed(steps: Sequence[Recorded], *, deciding: bool) -> Iterator[bytes]:
    """The states of a replay; with `deciding`, what is decided now is dropped for what was recorded."""
    fold: Fold[State] = Fold(DECIDER, ALL)
    for seq, step in enumerate(steps, start=1):
        if deciding:
            fold.answer(seq, step.body, read(step.body))
            for decision in step.decisions:
                fold.replay_decision(Decided(read(decision.body), decision.body))  # type: ignore[arg-type]
        else:
            fold.replay(
                seq,
                step.body,
                read(step.body),
                [
                    Decided(read(decision.body), decision.body)  # type: ignore[arg-type]
                    for decision in step.decisions
                ],
            )
        yield msgspec.json.encode(fold.state)


@contextlib.contextmanager
def another_policy() -> Iterator[None]:
    """Other settings, whatever is configured, and other ideas of what is over, due, or good enough."""
    other = Settings(
        profile="hold",
        batch_timebox_s=0.001,
        expander=("most-pods",),
        max_nodes_total=3,
        max_node_provision_s=20.0,
        initial_group_backoff_s=1.0,
        group_backoff_reset_s=2.0,
        learnt_half_life_s=1.0,
        expendable_cutoff=1,
        unneeded_s=1.0,
        booking_s=3.0,
        initial_backoff_s=1.0,
        quiet_s=0.3,
        burst_s=0.1,
        write_status=False,
    )
    with contextlib.ExitStack() as stack:
        for module, name, value in (
            (flags, "read", lambda _: (other, ("another policy",))),
            (view, "READY_LONG_ENOUGH_S", 1e9),
            (lifecycle, "MOST_CONFLICTS", 0),
            (backoff, "stale", lambda *_: True),
            (decide, "goes_on_until", lambda *_: None),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


@hypothesis(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 200), min_size=10, max_size=60))
def test_states_are_the_same_whoever_decides(seed: int, choices: list[int]) -> None:
    steps = recorded(seed, choices)
    states = [step.state for step in steps]
    assert list(replayed(steps, deciding=False)) == states
    with another_policy():
        assert list(replayed(steps, deciding=True)) == states


def test_the_other_policy_is_another_one() -> None:
    """Else the property would hold for nothing."""
    steps = recorded(7, [*range(19)] * 3)

    def decided() -> list[Any]:
        fold: Fold[State] = Fold(DECIDER, ALL)
        bodies = []
        for seq, step in enumerate(steps, start=1):
            bodies.append([type(d).__name__ for d in fold.answer(seq, step.body, read(step.body))])
            for decision in step.decisions:
                fold.replay_decision(Decided(read(decision.body), decision.body))  # type: ignore[arg-type]
        return bodies

    mine = decided()
    with another_policy():
        assert decided() != mine
