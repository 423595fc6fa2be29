"""When a client leaves a server that answers nothing."""

from __future__ import annotations

from itertools import pairwise

from tidewright.log.elsewhere import AGAIN_S, FORGOTTEN_S, PATIENCE_S, Elsewhere


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_another_server_is_tried_when_nothing_is_answered_for_a_while_and_then_now_and_then() -> None:
    clock = Clock()
    elsewhere = Elsewhere(clock)
    tried = []
    while clock.now < 100.0 + PATIENCE_S + 2.5 * AGAIN_S:
        if elsewhere.missed("asking"):
            tried.append(clock.now)
        clock.now += 0.25
    assert tried[0] == 100.0 + PATIENCE_S
    assert all(b - a >= AGAIN_S for a, b in pairwise(tried))
    assert len(tried) == 3


def test_an_answer_of_one_kind_says_nothing_of_another() -> None:
    # A leader without the others answers what is asked, and takes nothing.
    clock = Clock()
    elsewhere = Elsewhere(clock)
    found = []
    for _ in range(4):
        elsewhere.answered("asking")
        found.append(elsewhere.missed("appending"))
        clock.now += 1.0
    assert found == [False, False, False, True]


def test_a_question_that_fails_now_and_then_moves_nobody() -> None:
    clock = Clock()
    elsewhere = Elsewhere(clock)
    for _ in range(10):
        assert not elsewhere.missed("appending")
        clock.now += FORGOTTEN_S + 1.0
    for _ in range(10):
        assert not elsewhere.missed("asking")
        elsewhere.answered("asking")
        clock.now += 1.0


def test_what_was_missed_before_counts() -> None:
    assert Elsewhere(Clock()).missed("who is there", PATIENCE_S)


def test_a_server_that_was_just_come_to_is_given_time() -> None:
    # What was not heard before it, for long, is not held against it at once.
    clock = Clock()
    elsewhere = Elsewhere(clock)
    assert elsewhere.missed("who is there", PATIENCE_S)
    came_at = clock.now
    while not elsewhere.missed("who is there", PATIENCE_S + clock.now - came_at):
        clock.now += 0.25
    assert clock.now - came_at == AGAIN_S
