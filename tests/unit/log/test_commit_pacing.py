"""How often a writer of batches commits."""

from __future__ import annotations

import pytest

from tidewright.log.commit_pacing import AHEAD_S, LONGEST_S, MOST_S, SHARE, URGENT_S, Pace


class Now:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def commits(pace: Pace, now: Now, took_s: float, until_s: float) -> list[float]:
    """When a writer begins to commit that always has something to commit, seconds from the beginning."""
    began, found = now.at, []
    while now.at - began < until_s:
        now.at += pace.left_s
        found.append(now.at - began)
        now.at += took_s
        pace.took(took_s)
    return found


@pytest.mark.parametrize("took_s", [0.002, 0.005, 0.015])
def test_who_never_rests_commits_a_small_part_of_the_time(took_s: float) -> None:
    now = Now()
    found = commits(Pace(now), now, took_s, 60.0)
    assert len(found) * took_s / 60.0 == pytest.approx(1 / SHARE, rel=0.05)


def test_what_comes_after_a_rest_is_committed_at_once() -> None:
    now = Now()
    pace = Pace(now)
    assert pace.left_s == 0.0
    commits(pace, now, 0.005, 10.0)
    assert pace.left_s > 0.0
    now.at += AHEAD_S + MOST_S
    for _ in range(int(AHEAD_S / (0.005 * SHARE))):
        assert pace.left_s == 0.0
        now.at += 0.005
        pace.took(0.005)


def test_a_slow_disk_delays_what_waits_by_no_more_than_the_longest_pause() -> None:
    now = Now()
    pace = Pace(now)
    for _ in range(100):
        now.at += pace.left_s
        now.at += 2.0
        pace.took(2.0)
        assert pace.left_s <= MOST_S


def test_what_somebody_waits_for_is_committed_ahead_and_paid_back() -> None:
    now = Now()
    pace = Pace(now)
    commits(pace, now, 0.02, 10.0)
    assert pace.left_s > 0.0
    ahead = 0
    while not pace.left(urgent=True):
        pace.took(0.02)
        ahead += 1
    assert ahead == pytest.approx((URGENT_S - AHEAD_S) / MOST_S, abs=1)
    assert pace.left_s == LONGEST_S, "the others wait longer, and not for all of it"
    began = now.at
    for _ in range(1000):
        now.at += pace.left(urgent=True)
        pace.took(0.01)
    assert 1000 * 0.01 / (now.at - began) == pytest.approx(1 / SHARE, rel=0.05)
