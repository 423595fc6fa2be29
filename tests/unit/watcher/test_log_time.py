from __future__ import annotations

from tidewright.events.facts import ClockJumped
from tidewright.watcher.log_time import Stamp


class Hands:
    def __init__(self, wall: float = 1000.0, ticks: float = 0.0, speed: float = 1.0) -> None:
        self.wall, self.ticks, self.speed = wall, ticks, speed

    def stamp(self) -> Stamp:
        return Stamp(lambda: self.wall, lambda: self.ticks, lambda: self.speed)

    def pass_(self, seconds: float) -> None:
        self.ticks += seconds
        self.wall += seconds * self.speed


def test_log_time_never_goes_back() -> None:
    hands = Hands()
    stamp = hands.stamp()
    assert stamp.now() == 1000.0
    hands.wall = 990.0
    assert stamp.now() == 1000.0
    stamp.raise_to(2000.0)
    assert stamp.now() == 2000.0


def test_time_that_passes_is_no_jump() -> None:
    hands = Hands(speed=60.0)
    stamp = hands.stamp()
    for _ in range(5):
        assert stamp.jump() is None
        hands.pass_(10.0)


def test_a_jump_forwards_is_a_fact() -> None:
    hands = Hands()
    stamp = hands.stamp()
    stamp.jump()
    hands.pass_(1.0)
    hands.wall += 100.0
    assert stamp.jump() == ClockJumped(at=1101.0, from_at=1001.0, to_at=1101.0)
    hands.pass_(1.0)
    assert stamp.jump() is None


def test_a_jump_backwards_is_a_fact_and_log_time_stands_still() -> None:
    hands = Hands()
    stamp = hands.stamp()
    stamp.now()
    stamp.jump()
    hands.wall -= 100.0
    assert stamp.jump() == ClockJumped(at=1000.0, from_at=1000.0, to_at=900.0)


def test_a_clock_behind_the_log_at_the_start_is_a_fact() -> None:
    stamp = Hands().stamp()
    stamp.raise_to(5000.0)
    assert stamp.jump() == ClockJumped(at=5000.0, from_at=5000.0, to_at=1000.0)


def test_a_change_of_the_mapping_on_purpose_is_no_jump() -> None:
    hands = Hands()
    stamp = hands.stamp()
    stamp.jump()
    hands.wall = 1_000_000.0
    stamp.rebase()
    assert stamp.jump() is None
