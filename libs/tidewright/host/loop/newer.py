"""Facts of types that only a newer version knows: a slot waits before one, rather than decide on what it saw before.

The newer version goes on from there once it is started. Nothing has to be done where the fact is said again in a type
that this version knows, as a watcher does that was put back: the word that was not understood is then not the last one.
"""

from __future__ import annotations

import re
from typing import TypeGuard

from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot

_FACT = re.compile(r"fact\.[a-z0-9-]{1,80}\.v[0-9]{1,4}")


def is_newer(event: Event | registry.Unknown) -> TypeGuard[registry.Unknown]:
    """Whether an event is a fact of a type that a newer version has; what is of no such form is none, and read past."""
    return isinstance(event, registry.Unknown) and _FACT.fullmatch(event.type) is not None


class Newer:
    """What the slots of one process wait before."""

    def __init__(self) -> None:
        self._awaited: dict[Slot, dict[str, int]] = {}
        """By slot and subject, the sequence of the word that was not understood."""
        self._first: dict[Slot, tuple[Record, str]] = {}
        """By slot, before what it stopped, and why."""
        self._superseded: dict[Slot, set[int]] = {}

    def waits(self, slot: Slot) -> bool:
        """Whether a slot waits, and takes nothing meanwhile."""
        return slot in self._awaited

    def meet(self, slot: Slot, record: Record, event: Event | registry.Unknown) -> bool:
        """Whether a slot has to wait before this record."""
        if not is_newer(event) or record.seq in self._superseded.get(slot, ()):
            return False
        self._awaited[slot] = {record.subject: record.seq}
        self._first[slot] = (
            record,
            (
                f"event {record.seq} is a {event.type} of a newer version: it waits until this service is upgraded, or an older "
                f"watcher has said {record.subject} again"
            ),
        )
        return True

    def before(self, slot: Slot) -> tuple[Record, str]:
        """Before which record a slot waits, and why."""
        return self._first[slot]

    def hear(self, slot: Slot, record: Record, event: Event | registry.Unknown) -> None:
        """What comes by for a slot that waits, in the order of the log."""
        awaited = self._awaited[slot]
        before = awaited.get(record.subject)
        if before is not None and record.seq > before:
            self._superseded.setdefault(slot, set()).add(before)
            del awaited[record.subject]
        if is_newer(event) and record.seq not in self._superseded.get(slot, ()):
            awaited[record.subject] = record.seq

    def over(self) -> list[Slot]:
        """Slots of which every word was said again since: they wait no longer, and read past those."""
        return [slot for slot, awaited in self._awaited.items() if not awaited]

    def released(self, slot: Slot) -> None:
        """The slot is given up, and meets what it waits for again when it is claimed; what was said again stays known."""
        self._awaited.pop(slot, None)
        self._first.pop(slot, None)
