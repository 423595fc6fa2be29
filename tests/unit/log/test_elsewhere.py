"""When a client leaves a server that answers nothing."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast

import pytest

from tidewright.log.connection import Log
from tidewright.log.elsewhere import (
    ELECTION_S,
    FORGOTTEN_S,
    PATIENCE_S,
    SETTLE_S,
    Course,
    Elsewhere,
    alone,
)
from tidewright.log.identity import BusClient


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_server_without_a_sign_of_life_is_left_soon_and_the_next_ones_later() -> None:
    clock = Clock()
    elsewhere = Elsewhere(clock)
    left = []
    while clock.now < 100.0 + PATIENCE_S + 2.5 * SETTLE_S:
        if elsewhere.missed("asking") is not Course.STAY:
            elsewhere.left()
            left.append(clock.now)
        clock.now += 0.25
    assert left[0] == 100.0 + PATIENCE_S
    assert all(b - a >= SETTLE_S for a, b in pairwise(left))
    assert len(left) == 3


def test_one_that_is_alive_and_answers_nothing_is_left_when_no_leader_is_found_for_long() -> None:
    # None of the servers answers while they look for a leader.
    clock = Clock()
    elsewhere = Elsewhere(clock)
    seen = []
    while clock.now <= 100.0 + ELECTION_S:
        seen.append(elsewhere.missed("asking"))
        elsewhere.missed("who is there")
        clock.now += 0.25
    assert set(seen[:-1]) == {Course.STAY, Course.LEAVE_UNLESS_ALIVE}
    assert seen[-1] is Course.LEAVE


def test_an_answer_of_one_kind_says_nothing_of_another() -> None:
    # A leader without the others answers what is asked, and takes nothing.
    clock = Clock()
    elsewhere = Elsewhere(clock)
    found = []
    for _ in range(4):
        elsewhere.answered("asking")
        found.append(elsewhere.missed("appending"))
        clock.now += 1.0
    assert found == [Course.STAY, Course.STAY, Course.STAY, Course.LEAVE_UNLESS_ALIVE]


def test_a_question_that_fails_now_and_then_moves_nobody() -> None:
    clock = Clock()
    elsewhere = Elsewhere(clock)
    for _ in range(10):
        assert elsewhere.missed("appending") is Course.STAY
        clock.now += FORGOTTEN_S + 1.0
    for _ in range(10):
        assert elsewhere.missed("asking") is Course.STAY
        elsewhere.answered("asking")
        clock.now += 1.0


def test_what_was_missed_before_counts() -> None:
    assert Elsewhere(Clock()).missed("who is there", PATIENCE_S) is Course.LEAVE_UNLESS_ALIVE
    assert Elsewhere(Clock()).missed("who is there", ELECTION_S) is Course.LEAVE


def test_a_server_that_was_just_come_to_is_given_time() -> None:
    # What was not heard before it, for long, is not held against it.
    clock = Clock()
    elsewhere = Elsewhere(clock)
    assert elsewhere.missed("who is there", 60.0) is Course.LEAVE
    elsewhere.left()
    came_at = clock.now
    seen: dict[Course, float] = {}
    while clock.now <= came_at + ELECTION_S:
        seen.setdefault(elsewhere.missed("who is there", 60.0 + clock.now - came_at), clock.now - came_at)
        clock.now += 0.25
    assert seen == {Course.STAY: 0.0, Course.LEAVE_UNLESS_ALIVE: SETTLE_S, Course.LEAVE: ELECTION_S}


def heard(*seconds_ago: float) -> dict[str, object]:
    """What a leader says of the others."""
    return {"replicas": [{"name": "other", "active": int(s * 1e9), "current": s < 1.0} for s in seconds_ago]}


@pytest.mark.parametrize(
    ("cluster", "found"),
    [
        (heard(0.3, 0.4), False),
        (heard(0.3, 60.0), False),
        (heard(2.6, 2.9), True),
        (heard(0.3, 0.4, 60.0, 60.0), False),
        (heard(0.3, 60.0, 60.0, 60.0), True),
        ({"replicas": [{"active": 0, "offline": True}, {"active": 0, "offline": True}]}, True),
        ({"leader": "alone"}, True),
        ({}, True),
    ],
)
def test_a_leader_says_whether_it_has_lost_the_others(cluster: dict[str, object], found: bool) -> None:
    assert alone(cluster) is found


class Told(Log):
    """A log of whose stream this is told."""

    def __init__(self, cluster: dict[str, object], replicas: int, kept_by: int) -> None:
        super().__init__(cast("BusClient", None), "c", "nats://n", 1.0)
        self.replicas, self._kept_by, self._cluster = replicas, kept_by, cluster

    async def api(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        assert verb == "STREAM.INFO.TW_c"
        return {"config": {"num_replicas": self._kept_by}, "cluster": self._cluster}


@pytest.mark.parametrize(
    ("log", "led"),
    [
        (Told(heard(0.3, 60.0), 3, 3), True),
        (Told(heard(2.6, 2.9), 3, 3), False),
        (Told({}, 1, 1), True),
        (Told({"leader": "alone"}, 3, 1), True),  # kept by fewer since it was connected to
    ],
)
async def test_a_leader_that_has_lost_the_others_leads_no_more(log: Log, led: bool) -> None:
    assert await log.is_led() is led
