"""What is remembered of a load: one `Season` per metric, and whether one from elsewhere can be gone on with. Pure.

Times are seconds of log time, days and weeks those of UTC, or of the local time that a season names. Loads are in milli; within, they are counted in steps of `unit`,
chosen so that the greatest has four digits: so two seasons stay below 8 KiB as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewright.autoscaler.forecast import price, ripple
from tidewright.autoscaler.forecast.price import Price
from tidewright.autoscaler.forecast.ripple import Ripple
from tidewright.autoscaler.forecast.zone import BUCKET_S, BadZone, shift

DAY, WEEK = 96, 168
"""Buckets of a day, hours of a week."""
DAY_S = 86400
STEPS = 4096
"""A load that sets `unit` has so many steps, and none ever has more than twice as many."""
SPANS_S = (300.0, 3600.0, 21600.0)
"""Over which deviations from the profile are averaged."""
TERMS = 2 + len(SPANS_S)
BINS, FIRST_BIN, PER_ERROR = 48, -16, 4
"""Errors are counted in so many bins, the first of them at -4 times the usual error, each a quarter of it wide."""
ONE = 1000
"""What counts once; counts fade, and are integers."""


class Issued(msgspec.Struct, array_like=True):
    """A forecast that waits for what comes; all but `due` in steps.

    Attributes:
        due: the moment that it is for.
        terms: those of the forecast.
        point: what is forecast; `bound` its upper bound.
        then: the load when it was made, `recent` that of the hour before, `level` of days: what one would expect
            without a rhythm.
    """

    due: int
    terms: list[int]
    point: int
    bound: int
    then: int
    recent: int
    level: int


class Judged(msgspec.Struct, array_like=True):
    """A forecast and what came, in milli."""

    at: int
    point: int
    bound: int
    came: int


class Season(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is folded of one metric's load; in steps, where nothing else is said.

    Attributes:
        zone: the local time of the profile, a rule (`zone`); empty for UTC.
        unit: milli per step; 0 before the first sample.
        began: the first bucket, counted from 1970.
        at: time of the last sample, `load` what it was.
        bucket: the open one, with `total` and `count` of its samples.
        closed: the last bucket that went into the profile, `closed_load` its mean.
        level: mean of some days; `recent` of an hour.
        day: mean per bucket of the day; -1 where nothing was seen.
        week: how far each hour of the week is off that.
        off: how far the load is off the profile, averaged over `SPANS_S`.
        issued: forecasts that are not due yet, the first to be due first.
        moments: sums of products of the terms, the upper triangle row by row; `with_load` those with the load.
        weights: of the terms, as these sums have them.
        usual: the usual error per hour of the day.
        bins: how often an error was how many times the usual one, see `BINS`.
        judged: forecasts whose moment has come; `covered` those whose bound held.
        missed: sums of errors: of forecasts, and of what one would expect without a rhythm (`Issued`).
        came: the last that was judged.
        ripple: what comes and goes within minutes; None where samples are too seldom for that.
        price: what several confidences cost and save; None where one is asked for, or that cannot be counted.
    """

    zone: str = ""
    unit: int = 0
    began: int = 0
    at: float = 0.0
    load: int = 0
    bucket: int = -1
    total: int = 0
    count: int = 0
    closed: int = -1
    closed_load: int = 0
    level: float = 0.0
    recent: float = 0.0
    day: list[int] = []
    week: list[int] = []
    off: list[float] = []
    issued: list[Issued] = []
    moments: list[int] = []
    with_load: list[int] = []
    weights: list[float] = []
    usual: list[int] = []
    bins: list[int] = []
    judged: int = 0
    covered: int = 0
    missed: list[int] = []
    came: Judged | None = None
    ripple: Ripple | None = None
    price: Price | None = None


def days(season: Season) -> float:
    """How much of a load has been seen, from its first sample to its last."""
    return (season.bucket - season.began) / DAY if season.unit else 0.0


def moved(season: Season, until: float) -> Season:
    """A copy that was learnt up to within a week before a moment: the same hour of the same day of the week, so many weeks later.

    Forecasts that wait for what comes are left out, for what came then is not what comes now.
    """
    copy = msgspec.convert(msgspec.to_builtins(season), Season)
    weeks = (until - copy.at) // (7 * DAY_S)
    copy.at += weeks * 7 * DAY_S
    shift = int(weeks) * 7 * DAY
    copy.began, copy.bucket = copy.began + shift, copy.bucket + shift
    copy.closed = copy.closed + shift if copy.closed >= 0 else -1
    copy.issued, copy.came = [], None
    if copy.ripple is not None:
        copy.ripple = copy.ripple.learnt()
    return copy


def zoned(season: Season, zone: str) -> Season:
    """The same by another local time, as the two are when the last sample came."""
    if season.zone == zone:
        return season
    copy = msgspec.convert(msgspec.to_builtins(season), Season)
    copy.zone = zone
    if season.unit:
        bucket = int(season.at // BUCKET_S)
        later = shift(zone, bucket) - shift(season.zone, bucket)
        copy.day = [season.day[(place - later) % DAY] for place in range(DAY)]
        copy.week = [season.week[(hour - later // 4) % WEEK] for hour in range(WEEK)]
    return copy


_MOST, _MOST_STEPS, _MOST_UNIT, _MOST_WEIGHT = 2**53, 8 * STEPS, 2**44, 1_000_000
"""With these whatever is worked out of a season fits into the 64 bits that a log has for an integer."""
_LATEST = 253_402_300_800  # the year 10000


def problem(season: Season) -> str:
    """What is wrong with a season that was not folded here; empty where nothing is."""
    if not 0 < season.unit <= _MOST_UNIT:
        return f"unit={season.unit}: from 1 to {_MOST_UNIT} is possible"
    try:
        shift(season.zone, 0)
    except BadZone as error:
        return str(error)
    if season.issued or season.came is not None:
        return "issued, came: what waits or was judged elsewhere says nothing here, leave both out"
    if not 0 <= season.at < _LATEST:
        return f"at={season.at}: seconds since 1970 are needed"
    if (
        not 0 <= season.began <= season.bucket == int(season.at // BUCKET_S)
        or not -1 <= season.closed <= season.bucket
    ):
        return (
            f"at={season.at}, began={season.began}, closed={season.closed}, bucket={season.bucket}: the bucket is that of `at` "
            f"({season.at // BUCKET_S:.0f}), and none of the others is later"
        )
    terms = TERMS + 1 if len(season.weights) > TERMS else TERMS
    lists: tuple[tuple[str, Sequence[float], int, int, int], ...] = (
        ("count", (season.count,), 1, 1, _MOST),
        ("day", season.day, DAY, -1, _MOST_STEPS),
        ("week", season.week, WEEK, -_MOST_STEPS, _MOST_STEPS),
        ("off", season.off, len(SPANS_S), -_MOST_STEPS, _MOST_STEPS),
        ("moments", season.moments, terms * (terms + 1) // 2, -_MOST, _MOST),
        ("with_load", season.with_load, terms, -_MOST, _MOST),
        ("weights", season.weights, terms, -_MOST_WEIGHT, _MOST_WEIGHT),
        ("usual", season.usual, 24, 0, _MOST_STEPS),
        ("bins", season.bins, BINS, 0, _MOST),
        ("missed", season.missed, 4, 0, _MOST),
        ("judged, covered", (season.judged, season.covered), 2, 0, _MOST),
        ("total", (season.total,), 1, 0, _MOST),
        ("load, closed_load", (season.load, season.closed_load), 2, 0, _MOST_STEPS),
        ("level, recent", (season.level, season.recent), 2, 0, _MOST_STEPS),
    )
    if season.ripple is not None and (text := ripple.problem(season.ripple)):
        return f"ripple: {text}"
    if season.price is not None and (text := price.problem(season.price)):
        return f"price: {text}"
    for name, values, count, least, most in lists:
        if len(values) != count:
            return f"{name}: {len(values)} values, {count} are needed"
        for value in values:
            if not least <= value <= most:
                return f"{name}: {value}, from {least} to {most} is possible"
    return ""
