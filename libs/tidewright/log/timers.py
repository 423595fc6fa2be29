"""Wake-ups as scheduled messages of the server: durable, replaced and cancelled by subject.

A schedule message lies on `schedule.<slot>.<service>.<key>` and, when due, is published by the
server on `timer.<slot>.<service>.<key>`. Publishing on the same schedule subject replaces it.
"""

from __future__ import annotations

from tidewright.events import registry
from tidewright.events.base import Timer
from tidewright.events.times import rfc3339_micro
from tidewright.log.connection import Message
from tidewright.log.subjects import Slot, Subjects

SCHEDULE = "Nats-Schedule"
TARGET = "Nats-Schedule-Target"
SCHEDULER = "Nats-Scheduler"
NEXT = "Nats-Schedule-Next"
PURGE = "purge"


LATEST = 7_258_118_400.0
"""The year 2200: a schedule for later is set for then, and never fires while anybody waits. One for
before 1970 is overdue as well in 1970."""


def due(wall: float) -> str:
    """When a schedule fires, as its header says it."""
    return f"@at {rfc3339_micro(max(0.0, min(wall, LATEST)))}"


def set_message(
    subjects: Subjects, slot: Slot, service: str, *, timer: Timer, wall: float, headers: dict[str, str]
) -> Message:
    """The message that has `timer` published at wall time `wall` (seconds)."""
    return Message(
        subjects.schedule(slot, service, timer.key),
        registry.encode(timer),
        headers | {SCHEDULE: due(wall), TARGET: subjects.timer(slot, service, timer.key)},
    )


def cancel_message(
    subjects: Subjects, slot: Slot, service: str, key: str, headers: dict[str, str]
) -> Message:
    """The message that takes a schedule back, and does nothing when there is none.

    It must lie on another subject than the schedule itself; the slot's checkpoint subject would do,
    but a subject of its own keeps every checkpoint subject free of anything but checkpoints.
    """
    schedule = subjects.schedule(slot, service, key)
    return Message(f"{schedule}.cancelled", b"", headers | {SCHEDULER: schedule, NEXT: PURGE})
