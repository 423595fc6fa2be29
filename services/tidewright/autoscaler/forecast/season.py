"""What the past says of a load: a seasonal profile, and what deviates from it now. Pure.

One `Season` is folded from the samples of one metric, one at a time (`add`), and says what the load will be a
lead later (`ahead`). It is a linear forecast of five terms: the profile of the time of day (15-minute buckets),
what the hour of the week adds to it, and how far the load is off both, over minutes, an hour and six hours; and of a sixth where
samples come every five minutes or oftener and the lead is half an hour at most: what comes and goes within minutes (`ripple`). Their
weights are those that would have been best so far: least squares, in which older samples count ever less. How far
that has been off makes the upper bound (`bounds`).

Everything is integers or + - x / and sqrt in plain Python, so that a fold is the same byte for byte anywhere.

Bounds: `add` and `ahead` take constant time for a given lead. A load below 0 counts as 0.
"""

from __future__ import annotations

import msgspec

from tidewright.autoscaler.forecast import price, ripple
from tidewright.autoscaler.forecast.bounds import (
    compare_each,
    has_learnt,
    margin,
    multiple_of,
    multiples,
    mute,
)
from tidewright.autoscaler.forecast.memory import (
    BINS,
    DAY,
    DAY_S,
    FIRST_BIN,
    ONE,
    PER_ERROR,
    SPANS_S,
    STEPS,
    TERMS,
    WEEK,
    Issued,
    Judged,
    Season,
)
from tidewright.autoscaler.forecast.price import Price
from tidewright.autoscaler.forecast.ripple import STEP_S, Ripple
from tidewright.autoscaler.forecast.zone import BUCKET_S, shift

BRIDGED = 8
"""Buckets without a sample that the profile bridges in a straight line; longer gaps stay unknown."""
PRIOR = (1.0, 1.0, 0.3, 0.2, 0.1, 0.0)
"""The weights of the terms while little is known, the last that of what a ripple says."""
ISSUED_PER_LEAD = 4
"""So many forecasts within a lead are judged at most: they are much alike, and all that wait are stored."""


class Expected(msgspec.Struct, frozen=True):
    """What a season says of the time until a lead from now; loads in milli.

    Attributes:
        until: the end of it.
        load: the greatest that is forecast on the way there; `bound` what it stays under as often as was asked.
        mute: why nothing follows from it; empty when something does.
    """

    until: float
    load: int
    bound: int
    mute: str = ""


def add(season: Season, at: float, load: int, *, lead_s: float, confidence: float) -> None:
    """Fold one sample: judge the forecasts that are due, learn, and issue the next one.

    Args:
        season: what it is folded into.
        at: its time; a sample that is no later than the last is left out.
        load: milli.
        lead_s: how far ahead to forecast.
        confidence: how often a bound is to hold, above 0 and below 1.
    """
    whole = load = max(0, load)
    if not season.unit:
        _begin(season, at, load)
    elif at <= season.at:
        return
    while load >= 2 * STEPS * season.unit:
        _coarser(season)
    steps = load // season.unit
    _judge(season, at, steps, lead_s)
    bucket = int(at // BUCKET_S)
    if bucket != season.bucket:
        _close(season)
        if bucket // DAY != season.bucket // DAY:
            _fade(season)
        season.bucket, season.total, season.count = bucket, 0, 0
    season.total += steps
    season.count += 1
    passed_s = at - season.at
    off = steps - _profile(season, bucket)
    if season.ripple is None and season.at < at and at // STEP_S - season.at // STEP_S <= 1:
        season.ripple = Ripple()
    if season.ripple is not None:
        ripple.add(season.ripple, at, int(off))
    season.off = [
        known + (off - known) * (passed_s / (passed_s + span_s))
        for known, span_s in zip(season.off, SPANS_S, strict=True)
    ]
    season.level += (steps - season.level) * (passed_s / (passed_s + 3 * DAY_S))
    season.recent += (steps - season.recent) * (passed_s / (passed_s + 3600))
    season.at, season.load = at, steps
    if not season.issued or at + lead_s - season.issued[-1].due >= lead_s / ISSUED_PER_LEAD:
        _issue(season, lead_s, confidence)
    if season.price is not None and has_learnt(season):
        price.add(season.price, int(passed_s), whole, _bounds(season, season.price, lead_s))


def _begin(season: Season, at: float, load: int) -> None:
    bucket = int(at // BUCKET_S)
    season.unit = max(1, load // STEPS)
    season.began, season.bucket, season.at = bucket, bucket, at
    season.level = season.recent = float(load // season.unit)
    season.day, season.week = [-1] * DAY, [0] * WEEK
    unlearn(season)


def unlearn(season: Season) -> None:
    """Forget how wrong forecasts were, and which weights were best: those of another lead say nothing of this one."""
    season.off = [0.0] * len(SPANS_S) if not season.off else season.off
    season.issued = []
    season.moments, season.with_load = [0] * (TERMS * (TERMS + 1) // 2), [0] * TERMS
    season.weights = list(PRIOR[:TERMS])
    season.usual, season.bins = [0] * 24, [0] * BINS
    season.judged = season.covered = 0
    season.missed, season.came = [0] * 4, None


def _coarser(season: Season) -> None:
    """Count in steps of twice the size: a load has come that has too many."""
    season.unit *= 2
    season.total //= 2
    season.closed_load //= 2
    season.load //= 2
    season.level /= 2
    season.recent /= 2
    season.day = [load if load < 0 else load // 2 for load in season.day]
    season.week = [off // 2 for off in season.week]
    season.usual = [error // 2 for error in season.usual]
    season.off = [off / 2 for off in season.off]
    season.moments = [moment // 4 for moment in season.moments]
    season.with_load = [moment // 4 for moment in season.with_load]
    season.missed = [error // 2 for error in season.missed]
    if season.ripple is not None:
        ripple.coarser(season.ripple)
    season.issued = [
        Issued(
            i.due,
            [term // 2 for term in i.terms],
            i.point // 2,
            i.bound // 2,
            i.then // 2,
            i.recent // 2,
            i.level // 2,
        )
        for i in season.issued
    ]


def _local(season: Season, bucket: int) -> int:
    """A bucket by local time."""
    return bucket + shift(season.zone, bucket) if season.zone else bucket


def _hour(local: int) -> int:
    """Of the week; which day the first is does not matter."""
    return local // 4 % WEEK


def _trust(season: Season, bucket: int) -> float:
    """How much hours of the week count beside times of the day: nothing in the first week, half in the second, then more."""
    weeks = (bucket - season.began) // (4 * WEEK)
    return weeks / (weeks + 1)


def _profile(season: Season, bucket: int) -> float:
    local = _local(season, bucket)
    known = season.day[local % DAY]
    return season.level if known < 0 else known + season.week[_hour(local)] * _trust(season, bucket)


def _close(season: Season) -> None:
    """The open bucket is over: into the profile with it, and with a straight line from the one before."""
    bucket, load = season.bucket, season.total // season.count
    gap = bucket - season.closed if season.closed >= 0 else 0
    if 1 < gap <= BRIDGED + 1:
        rise = load - season.closed_load
        for n in range(1, gap):
            _learn(season, season.closed + n, season.closed_load + rise * n // gap)
    _learn(season, bucket, load)
    season.closed, season.closed_load = bucket, load


def _learn(season: Season, bucket: int, load: int) -> None:
    """Move the profile towards what was seen: the first two and four weeks are averaged, then what is older fades."""
    days = (bucket - season.began) // DAY
    local = _local(season, bucket)
    place, hour = local % DAY, _hour(local)
    known = season.day[place]
    season.day[place] = load if known < 0 else known + _part(load - known, min(days + 1, 14))
    off = load - season.day[place] - season.week[hour]
    season.week[hour] += _part(off, 2 if days < 7 else 4 * min(days // 7 + 1, 4))


def _part(difference: int, parts: int) -> int:
    """A part of a difference, rounded to the nearest."""
    return (2 * difference + parts) // (2 * parts)


def _fade(season: Season) -> None:
    """A day is over: what was learnt of errors counts an eighth less, so that about a week is looked at."""
    season.moments = [moment * 7 // 8 for moment in season.moments]
    season.with_load = [moment * 7 // 8 for moment in season.with_load]
    season.missed = [error * 7 // 8 for error in season.missed]
    season.bins = [count * 7 // 8 for count in season.bins]
    season.judged, season.covered = season.judged * 7 // 8, season.covered * 7 // 8
    if season.ripple is not None:
        ripple.fade(season.ripple)
    if season.price is not None:
        price.fade(season.price)


def _judge(season: Season, at: float, steps: int, lead_s: float) -> None:
    """Compare the forecasts that are due with what came; where that is too long after, there is nothing to compare."""
    due = 0
    for issued in season.issued:
        if issued.due > at:
            break
        due += 1
        if at - issued.due <= lead_s / 2:
            _compare(season, issued, steps)
    if due:
        del season.issued[:due]
        season.weights = _weights(season)


def _compare(season: Season, issued: Issued, steps: int) -> None:
    error = steps - issued.point
    hour = issued.due // 3600 % 24
    usual = season.usual[hour]
    if season.price is not None:
        compare_each(season, season.price, error, usual)
    season.bins[max(0, min(BINS - 1, error * PER_ERROR // max(1, usual) - FIRST_BIN))] += ONE
    season.usual[hour] = usual + _part(abs(error) - usual, 16) if usual else abs(error)
    season.judged += ONE
    season.covered += ONE if steps <= issued.bound else 0
    for n, guess in enumerate((issued.point, issued.then, issued.recent, issued.level)):
        season.missed[n] += abs(steps - guess)
    terms, k = issued.terms + [0] * (len(season.with_load) - len(issued.terms)), 0
    wanted = steps - issued.level
    for row, term in enumerate(terms):
        season.with_load[row] += term * wanted
        for other in terms[row:]:
            season.moments[k] += term * other
            k += 1
    season.came = Judged(
        issued.due, issued.point * season.unit, issued.bound * season.unit, steps * season.unit
    )


def _weights(season: Season) -> list[float]:
    """Of the terms: those with the least squares of errors, and as long as few are known, near `PRIOR`."""
    doubt = 0.01 + 20.0 * ONE / (season.judged + ONE)
    count = len(season.with_load)
    rows = [[0.0] * (count + 1) for _ in range(count)]
    k = 0
    for n in range(count):
        for m in range(n, count):
            rows[n][m] = rows[m][n] = float(season.moments[k])
            k += 1
        extra = rows[n][n] * doubt + 1.0
        rows[n][n] += extra
        rows[n][count] = season.with_load[n] + extra * PRIOR[n]
    for pivot, top in enumerate(rows):  # positive definite, by `extra`: no rows need to be exchanged
        if (
            not top[pivot] > 0
        ):  # never of sums that were folded here; of those that somebody has edited, anything
            return list(PRIOR[:count])
        for row in rows[pivot + 1 :]:
            factor = row[pivot] / top[pivot]
            for column in range(pivot, count + 1):
                row[column] -= factor * top[column]
    found = [0.0] * count
    for n in range(count - 1, -1, -1):
        value = rows[n][count]
        for m in range(n + 1, count):
            value -= rows[n][m] * found[m]
        found[n] = value / rows[n][n]
    return found


def _seasonal(season: Season, bucket: int) -> tuple[int, int]:
    """The terms of the profile: how far it is off the level, and the hour of the week off it."""
    local = _local(season, bucket)
    known = season.day[local % DAY]
    if known < 0:
        return 0, 0
    return known - int(season.level), int(season.week[_hour(local)] * _trust(season, bucket))


def _issue(season: Season, lead_s: float, confidence: float) -> None:
    due = int(season.at + lead_s)
    terms = [*_seasonal(season, due // BUCKET_S), *[int(off) for off in season.off]]
    rippled = _rippled(season, due)
    if rippled and len(rippled) == due // STEP_S - int(season.at // STEP_S):
        if len(season.weights) == TERMS:
            _widen(season)
        terms.append(rippled[-1])
    point = season.level
    for weight, term in zip(season.weights, terms, strict=False):  # a ripple may say nothing just now
        point += weight * term
    steps = _bounded(point)
    bound = max(0, steps + margin(season.usual[due // 3600 % 24], multiple_of(season, confidence)))
    season.issued.append(Issued(due, terms, steps, bound, season.load, int(season.recent), int(season.level)))


def _rippled(season: Season, until: int) -> list[int]:
    """What comes and goes in each of the next steps, up to a moment, or as far as that is predicted."""
    if season.ripple is None:
        return []
    return ripple.ahead(season.ripple, until // STEP_S - int(season.at // STEP_S))


def _widen(season: Season) -> None:
    """Go by what the ripple says, too: so far it was nothing."""
    moments, k = [], 0
    for row in range(TERMS):
        moments += [*season.moments[k : k + TERMS - row], 0]
        k += TERMS - row
    season.moments = [*moments, 0]
    season.with_load = [*season.with_load, 0]
    season.weights = [*season.weights, PRIOR[TERMS]]


def _bounded(steps: float) -> int:
    """No forecast is below nothing, or above twice what was ever counted."""
    return int(max(0.0, min(4.0 * STEPS, steps)))


def ahead(season: Season, *, lead_s: float, confidence: float) -> Expected | None:
    """What is expected until a lead after the last sample; None before any."""
    if not season.unit:
        return None
    course = _course(season, lead_s)
    load = max(steps for steps, _ in course)
    bound = _bound(course, multiple_of(season, confidence))
    return Expected(season.at + lead_s, load * season.unit, bound * season.unit, mute(season, confidence))


def _course(season: Season, lead_s: float) -> list[tuple[int, int]]:
    """What is forecast until a lead from now, a moment after the other, and the usual error of its hour."""
    until = int(season.at + lead_s)
    of_day, of_week, *others = season.weights[:TERMS]
    still = season.level
    for weight, off in zip(others, season.off, strict=True):
        still += weight * int(off)
    last, first = until // BUCKET_S, int(season.at // BUCKET_S) + 1
    now, rippled = int(season.at // STEP_S), _rippled(season, until) if len(season.weights) > TERMS else []
    moments = [(step * STEP_S, season.weights[TERMS] * off) for step, off in enumerate(rippled, now + 1)]
    if rippled:  # and by buckets only beyond that
        first = (now + len(rippled)) * STEP_S // BUCKET_S + 1
    else:
        first = min(last, first)
    moments += [(bucket * BUCKET_S, 0.0) for bucket in range(first, last + 1)]
    course = []
    for at, off in moments:
        day, week = _seasonal(season, at // BUCKET_S)
        course.append((_bounded(still + of_day * day + of_week * week + off), season.usual[at // 3600 % 24]))
    return course


def _bound(course: list[tuple[int, int]], multiple: float) -> int:
    """What a course stays under."""
    return max(0, *[steps + margin(usual, multiple) for steps, usual in course])


def _bounds(season: Season, counted: Price, lead_s: float) -> list[int]:
    """What the load stays under until a lead from now, by the confidences that are counted; milli."""
    course = _course(season, lead_s)
    return [_bound(course, multiple) * season.unit for multiple in multiples(season, counted)]
