"""One metric's proposal (section 2.8), and the recommender's (2.7).

All arithmetic is binary64 in the reference's order of operations, because the last bit decides
whether `ceil` adds a replica (section 8): `ready * usage / mark` multiplies first, convergence's
`ready / mark * usage` divides first.
"""

from __future__ import annotations

import math
from enum import Enum

import msgspec

from tidewright.autoscaler.api.spec import Marks, Rules

MIN_INT32 = -(2**31)
MAX_INT32 = 2**31 - 1
MIN_INT64 = -(2**63)


class Position(Enum):
    """Where a value lies, the tolerance counted in."""

    WITHIN = "within"
    ABOVE = "above"
    BELOW = "below"


class Converge(Enum):
    """What became of the wish to creep towards a watermark."""

    UNTOUCHED = ""
    OFF = "off"
    DOWN = "down"
    DOWN_REFUSED = "down-refused"
    UP = "up"
    UP_REFUSED = "up-refused"
    ABOVE = "above"
    BELOW = "below"


class Proposal(msgspec.Struct, frozen=True):
    """The replica count that one metric asks for."""

    replicas: int
    above: bool
    below: bool
    converge: Converge

    @property
    def position(self) -> Position:
        """Above wins when a recommender's bounds contradict one another."""
        return Position.ABOVE if self.above else Position.BELOW if self.below else Position.WITHIN


def int32(value: float) -> int:
    """A float as the reference's platform converts it: what does not fit becomes the smallest."""
    if not MIN_INT32 <= value <= MAX_INT32:  # also false for NaN
        return MIN_INT32
    return int(value)


def int64(value: float) -> int:
    """Truncated toward zero; what does not fit becomes the smallest."""
    if not -9.223372036854775e18 <= value < 9.223372036854775e18:
        return MIN_INT64
    return int(value)


def quotient(dividend: float, divisor: float) -> float:
    """Division that yields infinity or NaN where the divisor is 0."""
    if divisor:
        return dividend / divisor
    if dividend == 0 or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend)


def _ceil(value: float, *, strict: bool) -> int:
    """Rounded up. Strictly, what no count can hold wraps to the smallest and so asks for no change;
    otherwise it is the greatest count, so that more load never asks for less.
    """
    if not math.isfinite(value):
        return MIN_INT32
    return int32(math.ceil(value)) if strict else min(math.ceil(value), MAX_INT32)


def _floor(value: float) -> int:
    return int32(math.floor(value)) if math.isfinite(value) else MIN_INT32


def round_up(replicas: int, modulo: int) -> int:
    """Up to the next multiple; a negative count is left alone (its remainder is negative)."""
    rest = replicas % modulo if replicas > 0 else 0
    return replicas + modulo - rest if rest else replicas


def propose(
    rules: Rules, marks: Marks, *, current: int, ready: int, usage: float, strict: bool = False
) -> Proposal:
    """The proposal for one metric's value.

    Args:
        rules: the object's.
        marks: the metric's.
        current: requested replicas, the floor of an upscale and the ceiling of a downscale.
        ready: ready pods, the multiplier.
        usage: the value in milli; already divided by `ready` when the algorithm is `average`.
        strict: let a proposal that no count can hold wrap, as the reference does.
    """
    if usage > marks.high_adjusted:
        replicas = round_up(_ceil(quotient(ready * usage, marks.high), strict=strict), rules.modulo)
        return Proposal(max(replicas, current), True, False, Converge.ABOVE)
    if usage < marks.low_adjusted:
        replicas = round_up(max(1, _floor(quotient(ready * usage, marks.low))), rules.modulo)
        return Proposal(min(replicas, current), False, True, Converge.BELOW)
    if rules.converge not in ("highwatermark", "lowwatermark"):
        return Proposal(current, False, False, Converge.OFF)
    lower = upper = current
    if marks.high:
        lower = _clamp(rules, _ceil(quotient(ready, marks.high) * usage, strict=strict))
    if marks.low:
        upper = _clamp(rules, _floor(quotient(ready, marks.low) * usage))
    return converge(rules, current=current, lower=lower, upper=upper)


def needed(rules: Rules, marks: Marks, *, ready: int, usage: float) -> int:
    """The fewest replicas that bring a value to its high watermark; 0 without one."""
    return round_up(_ceil(ready * usage / marks.high, strict=False), rules.modulo) if marks.high > 0 else 0


def _clamp(rules: Rules, replicas: int) -> int:
    return max(rules.min_replicas, 1, min(replicas, rules.max_replicas))


def converge(rules: Rules, *, current: int, lower: int, upper: int) -> Proposal:
    """One step towards the wanted watermark, unless it would leave `lower`..`upper` (2.8b)."""
    match rules.converge:
        case "highwatermark":
            candidate = max(current - rules.modulo, 1)
            if candidate < lower:
                return Proposal(current, False, False, Converge.DOWN_REFUSED)
            return Proposal(candidate, False, False, Converge.DOWN)
        case "lowwatermark":
            candidate = current + rules.modulo
            if candidate > upper:
                return Proposal(current, False, False, Converge.UP_REFUSED)
            return Proposal(candidate, False, False, Converge.UP)
    return Proposal(current, False, False, Converge.OFF)


def recommended(
    rules: Rules, *, current: int, target: int, lower: int | None, upper: int | None, strict: bool
) -> Proposal:
    """The proposal for a recommender's answer (2.7.5).

    A bound that the recommender did not give does not bound: no change counts as above or below
    for its sake, and no convergence is tried against it. Strictly it reads as 0 (D24).
    """
    if strict:
        lower, upper = lower or 0, upper or 0
    below = upper is not None and current > upper
    above = lower is not None and current < lower
    if target > current:
        replicas = max(round_up(target, rules.modulo), current)
        return Proposal(replicas, above, below, Converge.ABOVE)
    if target < current:
        replicas = min(round_up(target, rules.modulo), current)
        return Proposal(replicas, above, below, Converge.BELOW)
    return converge(
        rules,
        current=current,
        lower=current if lower is None else lower,
        upper=current if upper is None else upper,
    )
