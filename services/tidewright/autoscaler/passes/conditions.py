"""The conditions of an object, and how a pass sets them (section 3).

A pass yields a sequence of settings in the reference's order. Strictly they are applied one after
the other, so that `ScalingActive` flips at every pass and moves its transition time (D9). Otherwise
only the last setting of each type counts, and a condition whose status did not change keeps its time.

A `Setting` is what a pass says; a `Condition` (`api.conditions`) is what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tidewright.autoscaler.api.conditions import Change, Condition, Setting
from tidewright.autoscaler.passes.formula import Converge
from tidewright.autoscaler.passes.windows import Verdict
from tidewright.kube.conditions import find

_NONE, _TEXT, _REASON, _STATUS = Change  # asked for with every setting; a name is found faster than a member

SCALING_ACTIVE = "ScalingActive"
ABLE_TO_SCALE = "AbleToScale"
SCALING_LIMITED = "ScalingLimited"
DRY_RUN = "DryRun"
ABOVE_HIGH = "AboveHighWatermark"
BELOW_LOW = "BelowLowWatermark"
CONVERGE = "ConvergeToWatermark"
SCALING_BLOCKED = "ScalingBlocked"
METRICS_FRESH = "MetricsFresh"
"""Ours: set once a metric was too old to scale down on."""


PROCESSING = Setting(SCALING_ACTIVE, False, "FailedProcessWPA", "Error happened while processing the WPA")
PROCESS_FAILED = Setting(ABLE_TO_SCALE, False, "FailedProcessWPA", "Error happened while processing the WPA")
GOT_SCALE = Setting(
    ABLE_TO_SCALE,
    True,
    "SucceededGetScale",
    "the WPA controller was able to get the target's current scale",
)
DRY_RUN_ON = Setting(DRY_RUN, True, "DryRun mode enabled", "Scaling changes won't be applied")
DRY_RUN_OFF = Setting(DRY_RUN, False, "DryRun mode disabled", "Scaling changes can be applied")
READY_FOR_SCALE = Setting(
    ABLE_TO_SCALE,
    True,
    "ReadyForScale",
    "the last scaling time was sufficiently old as to warrant a new scale",
)
DISABLED = Setting(
    SCALING_ACTIVE,
    False,
    "ScalingDisabled",
    "scaling is disabled since the replica count of the target is zero",
)
_WINDOW = "the time since the previous scale is still within {} forbidden window{}"
BACKOFF_DOWN = Setting(ABLE_TO_SCALE, False, "BackoffDownscale", _WINDOW.format("the downscale", ""))
BACKOFF_UP = Setting(ABLE_TO_SCALE, False, "BackoffUpscale", _WINDOW.format("the upscale", ""))
BACKOFF_BOTH = Setting(
    ABLE_TO_SCALE, False, "BackoffBoth", _WINDOW.format("both the downscale and upscale", "s")
)
ABOVE = {
    flag: Setting(
        ABOVE_HIGH,
        flag,
        "Value above High Watermark",
        "Allow upscaling if the value stays over the Watermark",
    )
    for flag in (False, True)
}
BELOW = {
    flag: Setting(
        BELOW_LOW,
        flag,
        "Value above Low Watermark",  # sic: users match it (D16)
        "Allow downscaling if the value stays under the Watermark",
    )
    for flag in (False, True)
}
_DOWN = "Allow downscaling to converge to the High Watermark"
_UP = "Allow upscaling to converge to the Low Watermark"
_BETWEEN = "Value between Watermarks"
_UNSTABLE = "Proposal could lead to an unstable regime"
_STABLE_ONLY = "Converging to Watermark only allowed in stable regime"
CONVERGENCE = {
    Converge.OFF: Setting(CONVERGE, False, "Feature not enabled", _BETWEEN),
    Converge.DOWN: Setting(CONVERGE, True, _DOWN, _BETWEEN),
    Converge.DOWN_REFUSED: Setting(CONVERGE, False, _DOWN, _UNSTABLE),
    Converge.UP: Setting(CONVERGE, True, _UP, _BETWEEN),
    Converge.UP_REFUSED: Setting(CONVERGE, False, _UP, _UNSTABLE),
    Converge.ABOVE: Setting(CONVERGE, False, _DOWN, _STABLE_ONLY),
    Converge.BELOW: Setting(CONVERGE, False, _STABLE_ONLY, _STABLE_ONLY),
}


def invalid_spec(text: str) -> Setting:
    return Setting(ABLE_TO_SCALE, False, "FailedSpecCheck", f"Invalid WPA specification: {text}")


def target_taken(target: str, owner: str) -> Setting:
    """Another object scales the target already (ours: the reference lets both fight)."""
    return Setting(
        ABLE_TO_SCALE,
        False,
        "TargetTaken",
        f"{target} is already scaled by WatermarkPodAutoscaler {owner}, which is older",
    )


@lru_cache(maxsize=65536)
def metric_found(display: str, details: str) -> Setting:
    because = f" because: {details}" if details else ""
    return Setting(
        SCALING_ACTIVE,
        True,
        "ValidMetricFound",
        f"the WPA was able to successfully calculate a replica count from {display}{because}",
    )


def metric_failed(reason: str, error: str) -> Setting:
    return Setting(SCALING_ACTIVE, False, reason, f"the WPA was unable to compute the replica count: {error}")


def not_scaling(text: str) -> Setting:
    """The skip flag is on: a condition says what the object event would have said."""
    return Setting(SCALING_ACTIVE, True, "NotScaling", text)


@lru_cache(maxsize=64)
def limited(flag: bool, reason: str, message: str) -> Setting:
    return Setting(SCALING_LIMITED, flag, reason, message)


def scaled(replicas: int) -> Setting:
    return Setting(
        ABLE_TO_SCALE,
        True,
        "SuccessfulScale",
        f"the WPA controller was able to update the target scale to {replicas}",
    )


def scale_failed(error: str) -> Setting:
    return Setting(
        ABLE_TO_SCALE,
        False,
        "FailedScale",
        f"the WPA controller was unable to update the target scale: {error}",
    )


def freshness(stale: Sequence[str], limit_s: float) -> Setting:
    if stale:
        what = ", ".join(stale)
        return Setting(
            METRICS_FRESH,
            False,
            "StaleMetric",
            f"the value of {what} is older than {limit_s:g} s: no downscale until a new one arrives",
        )
    return Setting(METRICS_FRESH, True, "FreshMetrics", "every metric's value is recent")


def backoff(verdict: Verdict) -> tuple[Setting, ...]:
    """The settings of `AbleToScale` while a window is open, in the order of the reference."""
    settings: tuple[Setting, ...] = ()
    if verdict.down_closed_until is not None:
        settings = (BACKOFF_DOWN,)
    if verdict.up_closed_until is not None:
        settings += (BACKOFF_BOTH if settings else BACKOFF_UP,)
    return settings


def by_type(conditions: Sequence[Condition]) -> dict[str, Condition]:
    """Conditions by type: as `find` has it, the first of each."""
    return {condition.type: condition for condition in reversed(conditions)}


def agrees(condition: Condition | None, setting: Setting) -> bool:
    """Whether a condition is as a setting wants it."""
    return (
        condition is not None
        and condition.status is setting.status
        and condition.reason == setting.reason
        and condition.message == setting.message
    )


def difference(condition: Condition | None, setting: Setting) -> Change:
    """By how much a condition is another than a setting wants it; None for one that is not there."""
    if condition is None or condition.status is not setting.status:
        return _STATUS
    if condition.reason != setting.reason:
        return _REASON
    if condition.message != setting.message:
        # Only this one's text can change from pass to pass while all is well; any other is news.
        return _TEXT if setting.type == SCALING_ACTIVE and setting.status else _REASON
    return _NONE


def set_condition(conditions: list[Condition], setting: Setting, now: float) -> Change:
    """Set one condition in place: the time moves exactly when the status does, newest first."""
    condition = find(conditions, setting.type)
    change = difference(condition, setting)
    if condition is None:
        conditions.append(Condition(setting.type, setting.status, now, setting.reason, setting.message))
    elif change is not _NONE:
        condition.status, condition.reason, condition.message = setting[1:]
        if change is _STATUS:
            condition.since = now
    if change is _STATUS:
        conditions.sort(key=_newest_first)
    return change


def _newest_first(condition: Condition) -> float:
    return -condition.since


def final(settings: Sequence[Setting]) -> list[Setting]:
    """The last setting of each type, in the order in which they were last set."""
    last: dict[str, Setting] = {}
    for setting in reversed(settings):
        if setting.type not in last:
            last[setting.type] = setting
    return list(reversed(last.values()))


def apply(conditions: list[Condition], settings: Sequence[Setting], now: float, *, strict: bool) -> Change:
    """Apply a pass's settings in place, and say what was changed at most.

    Strictly they are sorted with each, also where none has changed: whoever wrote them may have had another order.
    """
    change = _NONE
    known = by_type(conditions)
    before = [condition.type for condition in conditions]
    for setting in settings if strict else final(settings):
        if not agrees(known.get(setting.type), setting):  # as most do
            change = max(change, set_condition(conditions, setting, now))
        if strict:
            conditions.sort(key=_newest_first)
    if change is _NONE and before != [condition.type for condition in conditions]:
        change = _TEXT
    return change
