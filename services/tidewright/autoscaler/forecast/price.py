"""What a confidence costs, and what it saves: the count by the rules alone, and those with forecasts of several confidences, on the same samples. Pure.

The counts are those of a stand-in for the rules, which is told by a recorded decision what to go by (`Band`): marks with their tolerance, least and
most, velocity, windows. It knows nothing of delays, of other metrics, of how many pods are ready. Which confidence is worth its price is
judged by what these counts came to in about a week, and by where that is going (`worth`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

CONFIDENCES = (0.01, 0.1, 0.25, 0.4, 0.6, 0.75, 0.85, 0.91, 0.945, 0.97)
"""Those that are counted: nearer to one another where a bound rises fastest."""
ONE = 10
"""What counts once of forecasts that were judged; counts fade, and are integers."""
MORE_REPLICAS, MOST_REPLICAS = 0.04, 0.05
"""A confidence is worth its price if it has had at most this part more of replica-time, and is not on its way to more than the second; where it has come to more than that, it is followed no longer."""
LESS_ABOVE = 0.75
"""And if it leaves at most this part of the time above the high watermark."""
LEAST_S = 86400 * 7 // 8
"""Before so much was counted nothing is known: a day has all its hours, and has faded once."""
LONGEST_S = 7200
"""Of a time without samples that is longer nothing is counted."""
NONE_AGED = (0,) * (len(CONFIDENCES) + 2)
"""What has aged of what begins to be counted."""
_REPEATED = 8
_MOST = 2**53


class Band(msgspec.Struct, frozen=True, array_like=True):
    """What the stand-in goes by: loads of one replica in milli, factors in milli per cent, windows in seconds.

    Attributes:
        converge: replicas that are added while a load is within the marks, or taken away where it is below 0; 0 without convergence.
    """

    low: int
    high: int
    low_adjusted: int
    high_adjusted: int
    least: int
    most: int
    up_factor: int
    down_factor: int
    up_window_s: int
    down_window_s: int
    modulo: int = 1
    converge: int = 0


class Run(msgspec.Struct, array_like=True):
    """A count, and what it came to.

    Attributes:
        waited_s: since it was changed last, at most as long as the longer window; below 0 where that is to come before the next sample.
        above_s: seconds above the high watermark.
        replica_s: replicas times seconds; of a count with forecasts how many more than by the rules alone.
    """

    count: int = 0
    waited_s: int = 0
    above_s: int = 0
    replica_s: int = 0


class Price(msgspec.Struct, array_like=True):
    """What is counted of a metric.

    Attributes:
        band: by which.
        runs: of the rules alone, and with forecasts of `CONFIDENCES`.
        seconds: that were counted.
        judged: forecasts whose moment has come; `covered` those whose bound held, by confidence.
        followed: the confidence that is followed, as it was recorded; 0 for none, below 0 while too little is known.
        aged: of each run, its replica-time times the days since; and last, of the rules alone, times their square: for a straight line
            through the days (`coming`). Empty where that is not counted: it begins with a record.
    """

    band: Band
    runs: list[Run] = []
    seconds: int = 0
    judged: int = 0
    covered: list[int] = []
    followed: float = -1.0
    aged: list[int] = []


def begun(band: Band, followed: float = -1.0) -> Price:
    """Nothing is counted yet."""
    return Price(band, followed=followed, aged=list(NONE_AGED))


def add(price: Price, passed_s: int, load: int, bounds: Sequence[int]) -> None:
    """Fold a sample: account for the time before it, and have each count follow.

    Args:
        price: what it is folded into.
        passed_s: seconds since the sample before.
        load: milli.
        bounds: the load's upper bound until a lead from now, by confidence.
    """
    band = price.band
    if not price.runs:
        count = _limited(band, 0, _needed(band, load))
        price.runs = [Run(count) for _ in range(len(CONFIDENCES) + 1)]
    elif passed_s <= LONGEST_S:
        price.seconds += passed_s
        less = 0
        for run in price.runs:
            run.replica_s += (run.count - less) * passed_s
            less = price.runs[0].count
            if load > run.count * band.high:
                run.above_s += passed_s
    for run, bound in zip(price.runs, (0, *bounds), strict=True):
        low, high = run.count * band.low_adjusted, run.count * band.high_adjusted
        if low <= load <= high and bound <= high and not band.converge:  # as mostly: nothing changes
            run.waited_s = min(run.waited_s + passed_s, max(band.up_window_s, band.down_window_s))
        else:
            _follow(run, band, passed_s, load, bound)


def _follow(run: Run, band: Band, passed_s: int, load: int, bound: int) -> None:
    """What the rules would do now, and at the ends of windows until the next sample, were it as far away as the last."""
    now, changed = 0, -run.waited_s - passed_s
    for _ in range(_REPEATED):
        wanted = _limited(band, run.count, _wanted(band, run.count, load, bound))
        if wanted == run.count:
            break
        due = max(now, changed + (band.up_window_s if wanted > run.count else band.down_window_s))
        if due > 0 and due >= passed_s:
            break
        run.count, now, changed = wanted, due, due
    run.waited_s = min(-changed, max(band.up_window_s, band.down_window_s))


def _wanted(band: Band, count: int, load: int, bound: int) -> int:
    if load > count * band.high_adjusted:
        wanted = max(count, _needed(band, load))
    elif load < count * band.low_adjusted:
        wanted = min(count, _round_up(max(1, load // band.low), band.modulo))
    elif band.converge < 0:
        fewer = max(1, count + band.converge)
        wanted = fewer if fewer >= _needed(band, load) else count
    elif band.converge > 0 and band.low:
        more = count + band.converge
        wanted = more if more <= load // band.low else count
    else:
        wanted = count
    if not bound:
        return wanted
    needed = _needed(band, bound)
    return max(wanted, needed if bound > count * band.high_adjusted else min(needed, count))


def _needed(band: Band, load: int) -> int:
    return _round_up(-(-load // band.high), band.modulo)


def _round_up(count: int, modulo: int) -> int:
    return -(-count // modulo) * modulo


def _limited(band: Band, count: int, wanted: int) -> int:
    if count and wanted > count:
        wanted = min(wanted, count + _step(band.up_factor, count))
    elif wanted < count:
        wanted = max(wanted, count - _step(band.down_factor, count))
    return max(1, band.least, min(wanted, band.most))


def _step(factor: int, count: int) -> int:
    return max(1, factor * count // 100_000) if factor else 0


def fade(price: Price) -> None:
    """A day is over: what was counted counts an eighth less, so that about a week is looked at, and is a day older."""
    if price.runs and price.aged:
        *aged, squared = price.aged
        alone_s = price.runs[0].replica_s
        older = [known + run.replica_s for known, run in zip(aged, price.runs, strict=True)]
        price.aged = [known * 7 // 8 for known in (*older, squared + 2 * aged[0] + alone_s)]
    price.seconds = price.seconds * 7 // 8
    price.judged = price.judged * 7 // 8
    price.covered = [count * 7 // 8 for count in price.covered]
    for run in price.runs:
        run.above_s, run.replica_s = run.above_s * 7 // 8, run.replica_s * 7 // 8


def is_alike(band: Band, other: Band) -> bool:
    """Whether two have the same marks; least and most are changed by the hour in places, and the rest is not."""
    return msgspec.structs.replace(band, least=other.least, most=other.most) == other


def is_known(price: Price) -> bool:
    """Whether so much was counted that something follows from it."""
    return bool(price.runs) and price.seconds >= LEAST_S


def to_follow(price: Price) -> float:
    """What to follow from now on: none for a day where what was followed has become too dear, for a load that is no longer as it was."""
    return 0.0 if is_dear(price) else worth(price)


def worth(price: Price) -> float:
    """The confidence that saves most of the time above the high watermark, of those that are worth their price; 0 for none.

    It is the greatest that is not too dear: the one that is counted and, where the next is too dear, what lies between them.
    """
    alone, *others = price.runs
    limits: list[tuple[Sequence[float], float]] = [
        ([run.replica_s for run in others], MORE_REPLICAS * alone.replica_s)
    ]
    if price.aged:
        limits.append((coming(price), MOST_REPLICAS))
    best, least_s = 0.0, LESS_ABOVE * alone.above_s
    for n, confidence in enumerate(CONFIDENCES):
        if any(costs[n] > most for costs, most in limits):
            continue
        parts = [
            (most - costs[n]) / (costs[n + 1] - costs[n])
            for costs, most in limits
            if n + 1 < len(others) and costs[n + 1] > most
        ]
        if parts:
            confidence = int(100 * (confidence + min(parts) * (CONFIDENCES[n + 1] - confidence))) / 100
        above_s = _between([other.above_s for other in others], confidence)
        if above_s < alone.above_s and (above_s < least_s or (above_s == least_s and not best)):
            best, least_s = confidence, above_s
    return best


def coming(price: Price) -> list[float]:
    """What part more of replica-time each confidence would come to on the day that has begun: where a straight line through the days that were counted is then.

    A week's mean is some days behind a price that rises, as that of a model does that sharpens. How steep the line is counts for v / (v + 1), where the days are
    spread by v days squared: nothing of one day, half of four, four fifths of a week. No confidence comes to less than a lesser one.
    """
    alone, *others = price.runs
    alone_s, (alone_aged, *aged, squared) = max(1, alone.replica_s), price.aged
    spread = alone_s * (squared + alone_s) - alone_aged * alone_aged
    found: list[float] = []
    for run, known in zip(others, aged, strict=True):
        steep = (alone_s * known - alone_aged * run.replica_s) / spread if spread > 0 else 0.0
        part = (run.replica_s - steep * alone_aged) / alone_s
        found.append(max(part, found[-1]) if found else part)
    return found


def is_dear(price: Price) -> bool:
    """Whether what is followed has become too dear: its price is looked at with every sample, and not once a day alone."""
    return is_known(price) and came_to(price, price.followed)[1] > MOST_REPLICAS


def came_to(price: Price, confidence: float) -> tuple[float, float]:
    """What part of the time above the high watermark a confidence would have left, and what part more of replica-time it would have cost."""
    alone, *others = price.runs
    above_s = _between([run.above_s for run in others], confidence)
    more_s = _between([run.replica_s for run in others], confidence)
    return above_s / max(1, alone.above_s), more_s / max(1, alone.replica_s)


def comes_to(price: Price, confidence: float) -> float:
    """What part more of replica-time a confidence would come to on the day that has begun, as it has gone so far (`coming`)."""
    return _between(coming(price), confidence)


def held(price: Price, confidence: float) -> float:
    """For how many of the forecasts that were judged a bound of this confidence held."""
    return _between(price.covered, confidence) if price.covered else 0.0


def _between(values: Sequence[float], confidence: float) -> float:
    """What belongs to a confidence where this belongs to `CONFIDENCES`: between two of them in a straight line."""
    if confidence <= CONFIDENCES[0]:
        return float(values[0])
    for n in range(1, len(CONFIDENCES)):
        if confidence <= CONFIDENCES[n]:
            part = (confidence - CONFIDENCES[n - 1]) / (CONFIDENCES[n] - CONFIDENCES[n - 1])
            return values[n - 1] + part * (values[n] - values[n - 1])
    return float(values[-1])


def problem(price: Price) -> str:
    """What is wrong with what was counted elsewhere; empty where nothing is."""
    for name, count, needed in (
        ("runs", len(price.runs), len(CONFIDENCES) + 1),
        ("covered", len(price.covered), len(CONFIDENCES)),
        ("aged", len(price.aged), len(NONE_AGED)),
    ):
        if count not in (0, needed):
            return f"{name}: {count} values, {needed} are needed"
    numbers = [price.seconds, price.judged, *price.covered, *price.aged]
    numbers += [n for run in price.runs for n in (run.count, run.waited_s, run.above_s, run.replica_s)]
    for number in numbers:
        if not -_MOST <= number <= _MOST:
            return f"{number}: from {-_MOST} to {_MOST} is possible"
    if price.followed > 0 and not price.runs:
        return f"followed={price.followed}: nothing is counted that it would follow from"
    if price.seconds and not price.runs:
        return f"seconds={price.seconds}: no runs were counted in them"
    band = price.band
    if band.high <= 0 or band.modulo <= 0 or band.low < 0 or (not band.low and band.low_adjusted > 0):
        return f"band: a high mark of {band.high}, a low one of {band.low} with {band.low_adjusted}, modulo {band.modulo}: marks and modulo above 0 are needed"
    return "" if price.followed < 1 else f"followed={price.followed}: below 1 is possible"
