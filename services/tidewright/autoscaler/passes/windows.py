"""Forbidden windows and delays: may the count change now, and if not, from when on (section 2.11)."""

from __future__ import annotations

import math
from enum import Enum

import msgspec

from tidewright.autoscaler.api.spec import Rules


class Hold(Enum):
    """Why a wanted change waits."""

    NONE = ""
    NO_CHANGE = "NoChange"
    UP_WINDOW = "UpscaleForbiddenWindow"
    DOWN_WINDOW = "DownscaleForbiddenWindow"
    UP_DELAY = "UpscaleDelay"
    DOWN_DELAY = "DownscaleDelay"


# Of a pass that wants no change, as nearly all do; a look-up in the enumeration takes eight times as long.
_NONE, _NO_CHANGE = Hold.NONE, Hold.NO_CHANGE


class Verdict(msgspec.Struct, frozen=True):
    """May it scale now?

    Attributes:
        scale: yes.
        hold: what forbids it otherwise.
        free_at: when window and delay will both be over, if nothing changes; None when it may
            scale now, or when waiting alone does not help.
        up_closed_until: end of the window that forbids upscales; None when it is over, or unknown
            because nothing was scaled yet. `down_closed_until` likewise.
        looked: there was a last scale to count from.
    """

    scale: bool
    hold: Hold = Hold.NONE
    free_at: float | None = None
    up_closed_until: float | None = None
    down_closed_until: float | None = None
    looked: bool = True


def verdict(
    rules: Rules,
    *,
    now: float,
    current: int,
    desired: int,
    last_scale_at: float | None,
    above_since: float | None,
    below_since: float | None,
    stable: bool,
    strict: bool = False,
) -> Verdict:
    """Whether windows and delays allow the change.

    Args:
        rules: windows and delays.
        now: instant of the pass, seconds.
        current: requested replicas.
        desired: wanted replicas, after the limits.
        last_scale_at: when the count was changed last, in either direction; None when never.
        above_since: since when the condition `AboveHighWatermark` is true; None when it is not.
        below_since: likewise `BelowLowWatermark`.
        stable: no metric is outside its marks; a change is then convergence, and needs no delay.
        strict: the first pass of an object always scales, and looks at no delay (D10).
    """
    if last_scale_at is None:
        if strict:
            return Verdict(True, looked=False)
        up_until = down_until = None
    else:
        up_until = _closed_until(last_scale_at, rules.up_window_s, now)
        down_until = _closed_until(last_scale_at, rules.down_window_s, now)
    looked = last_scale_at is not None
    if desired == current:
        return Verdict(False, _NO_CHANGE, None, up_until, down_until, looked)
    if desired > current:
        closed_until, delay_s, since = up_until, rules.up_delay_s, above_since
        window, delay = Hold.UP_WINDOW, Hold.UP_DELAY
    else:
        closed_until, delay_s, since = down_until, rules.down_delay_s, below_since
        window, delay = Hold.DOWN_WINDOW, Hold.DOWN_DELAY
    if delay_s and not stable:
        if since is None:
            return Verdict(False, delay, None, up_until, down_until, looked)
        if delay_s > math.trunc(now - since):
            over_at = since + delay_s
            free_at = over_at if closed_until is None else max(over_at, closed_until)
            return Verdict(False, delay, free_at, up_until, down_until, looked)
    if closed_until is not None:
        return Verdict(False, window, closed_until, up_until, down_until, looked)
    return Verdict(True, _NONE, None, up_until, down_until, looked)


def _closed_until(last_scale_at: float, window_s: int, now: float) -> float | None:
    end = last_scale_at + window_s
    return end if end - now > 0 else None
