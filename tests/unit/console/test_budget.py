"""The processor time of children: a tenth of a core on average, whatever is asked and when."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.console.conftest import Browser
from tidewright.asking.errors import Unavailable
from tidewright.console.apart import Apart, Spent, Turns
from tidewright.console.budget import SAVED_S, SHARE, Budget
from tidewright.console.verifying import LEAST_PAUSE_S, _pause_after

SCALED = "/what-if?namespace=team-0&name=app-0&window=6h"


class Clock:
    """Monotonic seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def burnt(at_least_s: float) -> int:
    """Take processor time; in the child."""
    until = time.process_time() + at_least_s
    while time.process_time() < until:
        pass
    return os.getpid()


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0, 60)), max_size=40))
def test_no_more_than_its_share_is_taken_whoever_asks_when(asked: list[tuple[float, float]]) -> None:
    """Each asks some seconds after the one before, and would take some processor time; who is told to wait does, every other time."""
    clock = Clock()
    budget, begun = Budget(monotonic=clock), clock.now
    for n, (later_s, takes_s) in enumerate(asked):
        clock.now += later_s
        if wait_s := budget.wait_s:
            if n % 2:
                continue
            clock.now += wait_s * 1.000001
            assert budget.wait_s == 0.0
        budget.spend(takes_s)
        clock.now += takes_s
        # One that has begun comes to its end, and no second one begins on its account.
        assert budget.spent_s <= SAVED_S + SHARE * (clock.now - begun) + takes_s + 1e-6


def test_a_while_of_tries_is_free_and_then_each_waits_for_ten_times_what_it_takes() -> None:
    clock = Clock()
    budget = Budget(monotonic=clock)
    for _ in range(50):
        assert budget.wait_s == 0.0
        budget.spend(0.61)
    assert budget.wait_s == pytest.approx(0.5 / SHARE)
    clock.now += 3600
    assert budget.wait_s == 0.0
    budget.spend(SAVED_S + 0.5)
    assert budget.wait_s == pytest.approx(0.5 / SHARE), "no more than that is ever saved up"


async def test_all_that_a_child_takes_is_counted_from_its_start_on_and_nothing_twice() -> None:
    budget = Budget(monotonic=Clock())
    apart = Apart(turns=Turns(budget))
    try:
        await apart.run(burnt, 0.3)
        first = budget.spent_s
        assert first >= 0.3
        child = await apart.run(burnt, 0.1)
        assert budget.spent_s - first >= 0.1
        total, again = await apart.run(_process_time), budget.spent_s
        assert again == pytest.approx(total, abs=0.05)
        with pytest.raises(Unavailable):
            await apart.run(os._exit, 3)
        assert await apart.run(burnt, 0.0) != child
        assert budget.spent_s >= again, "of one that ended it is counted how long it was waited for"
    finally:
        apart.close()


def _process_time() -> float:
    return time.process_time()


async def test_who_asks_for_more_is_told_how_long_to_wait_and_no_child_works() -> None:
    clock = Clock()
    turns = Turns(Budget(monotonic=clock))
    apart = Apart(turns=turns)
    turns.budget.spend(SAVED_S + 2.0)
    try:
        with pytest.raises(Spent, match="ask again in 20 s") as spent:
            await apart.run(os.getpid)
        assert spent.value.wait_s == pytest.approx(20.0)
        await asyncio.wait_for(turns.free(), 60)
        clock.now += 20.1
        assert await apart.run(os.getpid) != os.getpid()
    finally:
        apart.close()


async def test_what_if_says_that_it_has_to_wait_and_shows_what_it_has(browser: Browser) -> None:
    budget = browser.console.apart._turns.budget
    tried = f"{SCALED}&high0=20"
    before = await browser.get(tried, follow=True)
    assert 'data-figure="Replica-hours"' in before.text
    assert "data-waits" not in before.text
    assert budget.spent_s > 0.0
    budget.spend(10_000.0)
    again = await browser.get(tried, follow=True)
    assert again.text.count("data-figure") == before.text.count("data-figure"), "it was made before"
    other = await browser.get(f"{SCALED}&high0=21", follow=True)
    assert other.status == 200
    assert "What if has used up its processor time" in other.words
    assert "Press Run then." in other.words
    assert 'data-figure="Replica-hours"' not in other.text
    assert "highWatermark: '21'" in other.text.replace("&#39;", "'"), (
        "what is tried and how to have it so stays"
    )


def test_verification_rests_for_what_others_took_as_well() -> None:
    assert _pause_after(1.0) == LEAST_PAUSE_S
    took_s, others_s = 600.0, 12.0
    pause_s = _pause_after(took_s, others_s)
    assert (took_s + others_s) / (took_s + pause_s) == pytest.approx(SHARE)
