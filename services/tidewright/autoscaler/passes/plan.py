"""What a look at an object asks for, before it is said as decisions."""

from __future__ import annotations

import msgspec

from tidewright.autoscaler.api.conditions import Setting
from tidewright.autoscaler.passes.evaluate import Pass
from tidewright.autoscaler.state import Autoscaler
from tidewright.autoscaler.tell.messages import Message
from tidewright.events.base import Because


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """What is to be said about one object.

    Attributes:
        scaler: the object.
        settings: its conditions, in the reference's order.
        made: the pass that was made; None when the object did not get that far.
        why: why it did not get that far, as rules.
        hold: reason for doing nothing; empty when the scale is written, or nothing is to be recorded.
        scale: the scale is to be written.
        messages: object events.
        due: when the object wants to be woken; None for never.
        keep_timer: leave the timer as it is.
        quiet: write no status now: the outcome of the scale will.
        refuses: the spec of the object has rules, and they are refused: nothing says so yet.
        observed: how many replicas the target has, where no pass says so, as after a scale that failed.
        unblocked: lifecycle control is off, and a condition of it says nothing any more (D11).
    """

    namespace: str
    scaler: Autoscaler
    settings: list[Setting]
    made: Pass | None = None
    why: tuple[Because, ...] = ()
    hold: str = ""
    scale: bool = False
    messages: tuple[Message, ...] = ()
    due: float | None = None
    keep_timer: bool = False
    quiet: bool = False
    observed: int | None = None
    unblocked: bool = False
    refuses: bool = False
