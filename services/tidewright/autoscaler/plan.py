"""What an event asks for, between the fold (which evaluates) and `decide` (which says it)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tidewright.autoscaler.evaluate import Pass
from tidewright.autoscaler.messages import Message
from tidewright.events.base import Because, JsonObject

if TYPE_CHECKING:
    from tidewright.autoscaler.state import Autoscaler


class Plan(msgspec.Struct, kw_only=True):
    """What is to be said about one object.

    Attributes:
        found: the object.
        made: the pass that was made; None when the object did not get that far.
        why: why it did not get that far, as rules.
        hold: reason for doing nothing; empty when the scale is written, or nothing is to be recorded.
        scale: the scale is to be written.
        messages: object events.
        due: when the object wants to be woken; None for never.
        keep_timer: leave the timer as it is.
        patch: a merge patch of the object itself.
        quiet: write no status now.
        gone: the object is no longer there; only its timer is left.
    """

    namespace: str
    found: Autoscaler
    made: Pass | None = None
    why: tuple[Because, ...] = ()
    hold: str = ""
    scale: bool = False
    messages: tuple[Message, ...] = ()
    due: float | None = None
    keep_timer: bool = False
    patch: JsonObject = {}
    quiet: bool = False
    gone: bool = False
