"""What comes and goes within minutes: found where samples come often enough, forgotten over a gap, and never more than what was seen."""

from __future__ import annotations

import math
import random

import pytest

from tidewright.autoscaler.forecast import bounds, memory
from tidewright.autoscaler.forecast import ripple as r
from tidewright.autoscaler.forecast import season as s
from tidewright.autoscaler.forecast.bounds import NO_RHYTHM
from tidewright.autoscaler.forecast.memory import Season
from tidewright.autoscaler.forecast.ripple import ORDER, STEP_S, Ripple

LEAD_S, PERIOD_S = 600.0, 780.0
CONFIDENCE = 0.5


def wave(at: float) -> int:
    """Comes and goes every thirteen minutes; milli."""
    return int(500_000 + 200_000 * math.sin(at / PERIOD_S * 2 * math.pi))


def folded(days: float, every_s: float, noise: float = 0.0) -> Season:
    known, chance = Season(), random.Random(1)
    for n in range(int(days * 86400 / every_s)):
        load = int(wave(n * every_s) + noise * chance.gauss(0, 1))
        s.add(known, n * every_s, load, lead_s=LEAD_S, confidence=CONFIDENCE)
    return known


def rippled(steps: int) -> Ripple:
    known = Ripple()
    for n in range(steps):
        r.add(known, n * STEP_S, int(1000 * math.sin(n * STEP_S / PERIOD_S * 2 * math.pi)))
    return known


@pytest.mark.parametrize(("every_s", "noise"), [(60, 0), (300, 0), (300, 40_000)])
def test_a_load_that_comes_and_goes_within_minutes_is_foreseen(every_s: float, noise: float) -> None:
    known = folded(4, every_s, noise)
    found = s.ahead(known, lead_s=LEAD_S, confidence=CONFIDENCE)
    assert found is not None
    assert not found.mute
    assert known.missed[0] < 0.7 * min(known.missed[1:])


def test_it_is_not_looked_for_where_samples_are_too_seldom() -> None:
    known = folded(4, 600)
    assert known.ripple is None
    assert len(known.weights) == memory.TERMS


def test_noise_stays_muted() -> None:
    known, chance = Season(), random.Random(2)
    for n in range(14 * 288):
        s.add(known, n * 300.0, chance.randrange(300_000, 700_000), lead_s=LEAD_S, confidence=CONFIDENCE)
        if n > 3 * 288:
            assert bounds.mute(known, CONFIDENCE) == NO_RHYTHM


def test_the_next_steps_are_those_that_come() -> None:
    steps = 288 * 2
    expected = r.ahead(rippled(steps), 3)
    came = [1000 * math.sin(n * STEP_S / PERIOD_S * 2 * math.pi) for n in range(steps, steps + 3)]
    assert expected == pytest.approx(came, abs=100)


def test_after_a_gap_nothing_is_said_until_as_much_was_seen_again_and_nothing_is_forgotten() -> None:
    known = rippled(288)
    learnt = known.coefficients
    assert len(r.ahead(known, 2)) == 2
    for n in range(290, 290 + ORDER):
        r.add(known, n * STEP_S, 0)
        assert r.ahead(known, 2) == []
    r.add(known, (290 + ORDER) * STEP_S, 0)
    assert len(r.ahead(known, 2)) == 2
    assert known.coefficients == learnt


def test_what_is_foreseen_stays_within_twice_what_was_seen() -> None:
    known = rippled(288)
    known.coefficients = [r.ONE * 1000] * ORDER
    most = max(map(abs, known.past))
    assert max(map(abs, r.ahead(known, r.FURTHEST))) <= 2 * most


def test_a_constant_load_has_none() -> None:
    known = Ripple()
    for n in range(288):
        r.add(known, n * STEP_S, 0)
    assert r.ahead(known, 2) == []


def test_a_season_of_before_goes_on_with_what_it_knows() -> None:
    known = folded(4, 600)
    weights = known.weights
    s._widen(known)
    assert s._weights(known) == pytest.approx([*weights, 0.0])


def test_a_ripple_learnt_elsewhere_is_looked_at() -> None:
    known = folded(4, 300)
    assert known.ripple is not None
    learnt = known.ripple.learnt()
    assert r.problem(learnt) == ""
    learnt.products = learnt.products[1:]
    assert r.problem(learnt) == "products: 24 values, 25 are needed"
    learnt.products = []
    learnt.coefficients = [2**60]
    assert "is possible" in r.problem(learnt)
