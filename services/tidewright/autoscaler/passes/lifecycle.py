"""Lifecycle control: a DatadogMonitor of the object's own name as a gate (section 2.2, steps 8 and 9)."""

from __future__ import annotations

import msgspec

from tidewright.autoscaler.api.conditions import Setting
from tidewright.autoscaler.passes.conditions import SCALING_BLOCKED
from tidewright.autoscaler.state import Monitor

RETRY_MISSING_S = 120
RETRY_NOT_OK_S = 60

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class Gate(msgspec.Struct, frozen=True):
    """Whether a pass may go on.

    Attributes:
        setting: of the condition `ScalingBlocked`; None when the control is off.
        event: text of a Warning about the monitor; empty for none.
        retry_s: when blocked, after how long the reference looks again.
    """

    blocked: bool = False
    setting: Setting | None = None
    event: str = ""
    retry_s: int = 0


OPEN = Gate()


def gate(annotation: str | None, monitor: Monitor | None, *, namespace: str, name: str) -> Gate:
    """Judge the annotation's text and the monitor; no monitor means that none is there."""
    if annotation is None or annotation == "" or annotation in _FALSE:
        return OPEN
    if annotation not in _TRUE:
        message = (
            "Lifecycle Control is not correctly enabled: strconv.ParseBool: "
            f'parsing "{annotation}": invalid syntax'
        )
        return Gate(setting=Setting(SCALING_BLOCKED, False, "FailedGetDatadogMonitor", message))
    what = f"monitor {namespace}/{name}"
    if monitor is None or monitor.error:
        error = monitor.error if monitor is not None else f'datadogmonitors.datadoghq.com "{name}" not found'
        return Gate(
            True,
            Setting(
                SCALING_BLOCKED,
                True,
                "FailedGetDatadogMonitor",
                f"{what} not found, blocking the WPA from proceeding",
            ),
            error,
            RETRY_MISSING_S,
        )
    if monitor.state is None:
        message = f"{what} state not found, blocking the WPA from proceeding"
    elif monitor.state != "OK":
        message = f"{what} is in {monitor.state} state, blocking the WPA from proceeding"
    else:
        allowed = f"{what} is in a OK state, allowing the WPA from proceeding"
        return Gate(setting=Setting(SCALING_BLOCKED, False, "DatadogMonitorOK", allowed))
    return Gate(True, Setting(SCALING_BLOCKED, True, "DatadogMonitorNotOK", message), retry_s=RETRY_NOT_OK_S)
