"""Slots in which a service has stopped, as the log tells of them. Pure."""

from __future__ import annotations

from tidewright.events import registry
from tidewright.events.halts import SlotHalted
from tidewright.kube.times import readable
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.reader import Record


def halt_in(record: Record | None) -> SlotHalted | None:
    """What a message on the subject of halts says; None without one, and for one that is not readable."""
    event = registry.read(record.body) if record is not None else None
    return event if isinstance(event, SlotHalted) else None


def why(halted: SlotHalted | None, checkpoint: Checkpoint) -> str:
    """Why a slot that stands at this checkpoint is not decided for; empty when it is.

    A halt is over once a checkpoint covers what the slot stopped before: that says who went on, and nobody else has to.
    """
    if halted is None or checkpoint.position >= halted.before:
        return ""
    return f"since {readable(halted.at)} it waits before event {halted.before}: {halted.message}"
