"""Normalization: velocity, ready guard, minimum and maximum (section 2.10).

A limit is a constant and its line in `LIMITS`, applied in `normalize`. What it writes of a decision is in `tell/reasons.py`
and `tell/sentences.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from tidewright.autoscaler.api.spec import Rules
from tidewright.autoscaler.passes.formula import round_up

WITHIN_RANGE = "DesiredWithinRange"
SCALE_DOWN_LIMIT = "ScaleDownLimit"
SCALE_UP_LIMIT = "ScaleUpLimit"
TOO_FEW = "TooFewReplicas"
TOO_MANY = "TooManyReplicas"


class Words(NamedTuple):
    """What is said of a limit.

    Attributes:
        condition: message of the condition `ScalingLimited`, as the original has it.
        field: of the spec, or the setting of the policy, which bounds.
        holds: why nothing happens when it keeps the count as it is.
    """

    condition: str
    field: str
    holds: str


LIMITS: dict[str, Words] = {
    SCALE_DOWN_LIMIT: Words(
        "the desired replica count is decreasing faster than the maximum scale rate",
        "scaleDownLimitFactor",
        "scaleDownLimitFactor allows no downscale",
    ),
    SCALE_UP_LIMIT: Words(
        "the desired replica count is increasing faster than the maximum scale rate",
        "scaleUpLimitFactor",
        "scaleUpLimitFactor allows no upscale",
    ),
    TOO_FEW: Words(
        "the desired replica count is below the minimum replica count",
        "minReplicas",
        "minReplicas is reached",
    ),
    TOO_MANY: Words(
        "the desired replica count is above the maximum replica count",
        "maxReplicas",
        "maxReplicas is reached",
    ),
}
"""Every limit, by the reason of the condition."""
_MESSAGES = {"": "", WITHIN_RANGE: "the desired count is within the acceptable range"} | {
    reason: words.condition for reason, words in LIMITS.items()
}


class Limited(msgspec.Struct, frozen=True):
    """A count inside the limits, and what limited it.

    Attributes:
        reason: of the condition `ScalingLimited`.
        guarded: the ready guard gave the downscale up.
        down_capped: the velocity limit applied on the way down; `up_capped` on the way up.
    """

    replicas: int
    wanted: int
    reason: str
    up_limit: int
    down_limit: int
    guarded: bool = False
    down_capped: bool = False
    up_capped: bool = False

    @property
    def limited(self) -> bool:
        return self.replicas != self.wanted

    @property
    def message(self) -> str:
        return _MESSAGES[self.reason]


def _step(factor_milli: int, current: int) -> int:
    """Replicas that one decision may move: the percentage rounded down, but always one."""
    return max(1, math.floor(factor_milli / 1000 * current / 100))


def up_limit(rules: Rules, current: int) -> int:
    """The most replicas that one decision may set; a factor of 0 allows no upscale."""
    return current + _step(rules.up_factor, current) if rules.up_factor else current


def down_limit(rules: Rules, current: int) -> int:
    """The fewest replicas that one decision may set; a factor of 0 allows no downscale."""
    return current - _step(rules.down_factor, current) if rules.down_factor else current


def normalize(rules: Rules, *, current: int, proposed: int, ready: int) -> Limited:
    """Bring a proposal inside velocity, minimum and maximum.

    On the way down the minimum beats the velocity limit; on the way up the maximum beats it. A
    downscale that would leave more replicas than are ready is given up.
    """
    up, down = up_limit(rules, current), down_limit(rules, current)
    guarded = down_capped = up_capped = False
    if rules.min_replicas == 0:
        floor, reason = 1, ""
    elif proposed < down:
        floor, reason, down_capped = max(down, rules.min_replicas), SCALE_DOWN_LIMIT, True
        if 0 < ready < floor:
            floor, guarded = current, True
    else:
        floor, reason = rules.min_replicas, TOO_FEW
    if proposed < floor:
        return Limited(floor, proposed, reason, up, down, guarded, down_capped)
    if proposed > up:
        ceiling, reason, up_capped = min(up, rules.max_replicas), SCALE_UP_LIMIT, True
    else:
        ceiling, reason = rules.max_replicas, TOO_MANY
    if proposed > ceiling:
        return Limited(ceiling, proposed, reason, up, down, guarded, down_capped, up_capped)
    return Limited(proposed, proposed, WITHIN_RANGE, up, down, guarded, down_capped, up_capped)


def aligned(rules: Rules, *, current: int, replicas: int) -> int:
    """A limited count as a multiple of the modulo again (D19): upward, as proposals are rounded.

    The bounds go before it: the greatest multiple below the maximum is taken where the next one lies
    above it, and a count that no multiple can replace stays as it is.
    """
    if replicas == current:
        return current
    multiple = round_up(replicas, rules.modulo)
    if multiple > rules.max_replicas:
        multiple = rules.max_replicas - rules.max_replicas % rules.modulo
    if multiple < rules.min_replicas:
        return replicas
    return max(multiple, current) if replicas > current else min(multiple, current)
