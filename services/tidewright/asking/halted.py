"""Slots in which a service has stopped, as the log tells of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tidewright.events import registry
from tidewright.events.halts import SlotHalted
from tidewright.kube.times import readable
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.envelope import VERSION
from tidewright.log.reader import Record


@dataclass(frozen=True)
class Halt:
    """What a service said of a slot in which it has stopped.

    Attributes:
        sequence: at which it said so.
        software: of the process that did.
    """

    event: SlotHalted
    sequence: int
    software: str


def halt_in(record: Record | None) -> Halt | None:
    """What a message on the subject of halts says; None without one, and for one that is not readable."""
    if record is None:
        return None
    event = registry.read(record.body)
    return Halt(event, record.seq, record.headers.get(VERSION, "")) if isinstance(event, SlotHalted) else None


def why(halt: Halt | None, stands: Record, checkpoint: Checkpoint) -> str:
    """Why a slot that stands at this checkpoint, which is in that message, is not decided for; empty when it is.

    A halt is over once a checkpoint covers what the slot stopped before: that says who went on, and nobody else has to.
    Before a decision that was not readable there may be nothing to go on to. It is over there as well once other software has
    taken the slot: where that cannot read it either, it says so itself.
    """
    if halt is None or checkpoint.position >= halt.event.before:
        return ""
    taken_over = stands.seq > halt.sequence and stands.headers.get(VERSION, "") != halt.software
    if halt.event.reason == "DecisionUnreadable" and taken_over:
        return ""
    return f"since {readable(halt.event.at)} it waits before event {halt.event.before}: {halt.event.message}"
