"""How sure a bound is: what is added to a forecast so that it is enough as often as is asked, how often that held, and when nothing follows from it. Pure.

How far a forecast was off is counted in multiples of the error that is usual at that hour; the upper bound
is what so many of the forecasts before stayed under.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidewright.autoscaler.forecast import price
from tidewright.autoscaler.forecast.asked import DEFAULT_CONFIDENCE
from tidewright.autoscaler.forecast.memory import BINS, DAY, FIRST_BIN, ONE, PER_ERROR, Season
from tidewright.autoscaler.forecast.price import CONFIDENCES, Price

LEAST_JUDGED = 20
LEAST_DAYS = 2
LESS_JUDGED = 10
"""Where prices have been counted for a shorter part of what was judged than one of so many, they say nothing yet of how often bounds hold: about until the first day is counted."""
SKILL = 0.9
"""A rhythm is one if the error with it is less than this part of the error without."""
SIGMAS = 3.0
"""A bound held too seldom if chance, by so many standard deviations, does not explain it."""

LEARNING = "Learning"
OFTEN_WRONG = "OftenWrong"
NO_RHYTHM = "NoRhythm"
UNPAID = "Unpaid"


def compare_each(season: Season, counted: Price, error: int, usual: int) -> None:
    """Which of the bounds would have held, as they are worked out when the moment comes."""
    if not counted.covered:
        counted.covered = [0] * len(CONFIDENCES)
    for n, multiple in enumerate(multiples(season, counted)):
        if error <= margin(usual, multiple):
            counted.covered[n] += price.ONE
    counted.judged += price.ONE


def margin(usual: int, multiple: float) -> int:
    """What is added to a forecast so that it is enough: so many quarters of the usual error of the hour."""
    return int(multiple * max(1, usual) / PER_ERROR)


def multiple_of(season: Season, confidence: float) -> float:
    """How many quarters of the usual error are enough as often as is asked; before errors are known, twice the usual."""
    return _multiples_of(season.bins, [_aim(confidence, *_held(season, confidence))])[0]


def multiples(season: Season, counted: Price) -> list[float]:
    """Likewise of each confidence that is counted."""
    aims: list[float] = []
    least = 0.0
    for asked, held in zip(CONFIDENCES, counted.covered or CONFIDENCES, strict=True):
        least = max(least, _aim(asked, held, counted.judged))
        aims.append(least)
    return _multiples_of(season.bins, aims)


def _multiples_of(bins: Sequence[int], aims: Sequence[float]) -> list[float]:
    """Of parts of the errors so far, the multiple that each stayed under; the parts grow."""
    total = sum(bins)
    if not total:
        return [2.0 * PER_ERROR] * len(aims)
    wanted = [total * aim for aim in aims]
    found: list[float] = []
    below, next_one = 0, wanted[0]
    for n, count in enumerate(bins):
        if not count:
            continue
        while below + count >= next_one:
            found.append(FIRST_BIN + n + (next_one - below) / count)
            if len(found) == len(wanted):
                return found
            next_one = wanted[len(found)]
        below += count
    return found + [float(FIRST_BIN + BINS)] * (len(wanted) - len(found))


def _held(season: Season, confidence: float) -> tuple[float, int]:
    """Forecasts whose bound held, and of how many: as they were issued, as long as too few were compared with each confidence."""
    of, times = season.price, ONE // price.ONE
    if of is None or LESS_JUDGED * of.judged * times < season.judged:
        return season.covered, season.judged
    return price.held(of, confidence) * times, of.judged * times


def _aim(confidence: float, covered: float, judged: int) -> float:
    """How many of the errors so far a bound is to cover: some more than asked, while bounds have held less often than that."""
    if not judged:
        return confidence
    return min(0.995, confidence + 2 * max(0.0, confidence - covered / judged))


def sure(season: Season, asked: float) -> float:
    """How often a bound is to hold: as is asked, or as is worth its price."""
    counted = season.price
    return asked or (counted.followed if counted is not None and counted.followed > 0 else DEFAULT_CONFIDENCE)


def has_learnt(season: Season) -> bool:
    return season.judged >= LEAST_JUDGED * ONE and season.bucket - season.began >= LEAST_DAYS * DAY


def mute(season: Season, confidence: float) -> str:
    """Why nothing follows from what a season says; empty when something does.

    A coverage of exactly what was asked is below it half of the time, by chance: it counts as too low when chance
    does not explain it.
    """
    if not has_learnt(season):
        return LEARNING
    covered, judged = _held(season, confidence)
    if judged:
        chance = SIGMAS * math.sqrt(confidence * (1 - confidence) / (judged / ONE))
        if covered / judged < confidence - chance:
            return OFTEN_WRONG
    if season.missed[0] >= SKILL * min(season.missed[1:]):
        return NO_RHYTHM
    if season.price is None:
        return ""
    if season.price.followed < 0:
        return LEARNING
    return UNPAID if season.price.followed == 0 or price.is_dear(season.price) else ""


def coverage(season: Season, confidence: float) -> float | None:
    """The part of the forecasts whose bound held; None before any was judged."""
    covered, judged = _held(season, confidence)
    return covered / judged if judged else None


def mean_error(season: Season) -> float | None:
    """By how much forecasts were off on average, milli; None before any was judged."""
    return season.missed[0] * ONE * season.unit / season.judged if season.judged else None
