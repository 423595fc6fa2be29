"""Facts of types that only a newer version knows: a slot waits before one, rather than decide on what it saw before.

The newer version goes on from there once it is started. Nothing has to be done where a watcher was put back. It says again
in a type that this version knows what it cannot read: the word that was not understood is then not the last one. And it says
in its checkpoint up to where it has done so, also for what it cannot say at all.

It waits only for kinds of which that is certain. Words of others are read past: a metric that nobody asks for any more is
not said again by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeGuard

import msgspec

from tidewright.events import registry
from tidewright.events.base import Event
from tidewright.kube.kinds import SAID_ANEW
from tidewright.log.diagnostics import get_logger
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot, Subjects

SAYS_FACTS = "watcher"
"""The service under whose checkpoints facts are said."""

_FACT = re.compile(r"fact\.[a-z0-9-]{1,80}\.v[0-9]{1,4}")

logger = get_logger(__name__)


def is_newer(event: Event | registry.Unknown) -> TypeGuard[registry.Unknown]:
    """Whether an event is a fact of a type that a newer version has; what is of no such form is none, and read past."""
    return isinstance(event, registry.Unknown) and _FACT.fullmatch(event.type) is not None


class _Answered(msgspec.Struct):
    """Of a checkpoint of the watcher, of any version."""

    answered: int = 0


class Newer:
    """What the slots of one process wait before."""

    def __init__(self, subjects: Subjects, on_read_past: Callable[[], None]) -> None:
        """`on_read_past` is called with each word that is not waited for."""
        self._subjects = subjects
        self._on_read_past = on_read_past
        self._answers = {kind: subjects.checkpoint(ALL, SAYS_FACTS, part) for kind, part in SAID_ANEW.items()}
        """By kind, the checkpoint that says what of it was answered."""
        self._awaited: dict[Slot, dict[str, int]] = {}
        """By slot and subject, the sequence of the word that was not understood."""
        self._first: dict[Slot, tuple[Record, str]] = {}
        """By slot, before what it stopped, and why."""
        self._superseded: dict[Slot, set[int]] = {}
        self._read_past: set[str] = set()
        """Kinds of which a word was read past, said once."""

    def waits(self, slot: Slot) -> bool:
        """Whether a slot waits, and takes nothing meanwhile."""
        return slot in self._awaited

    @property
    def any_waits(self) -> bool:
        """Whether some slot does."""
        return bool(self._awaited)

    def meet(self, slot: Slot, record: Record, event: Event | registry.Unknown) -> bool:
        """Whether a slot has to wait before this record."""
        if not is_newer(event) or record.seq in self._superseded.get(slot, ()):
            return False
        if (kind := self._kind(record)) not in self._answers:
            self._on_read_past()
            if kind not in self._read_past:
                self._read_past.add(kind)
                logger.warning(
                    "facts of a newer version are read past: what was said before of these objects stands",
                    kind=kind, event_type=event.type, seq=record.seq, subject=record.subject,
                    do="upgrade this service, or put the watcher back",
                )  # fmt: skip
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
        if record.seq > awaited.get(record.subject, record.seq):
            self._go_past(slot, record.subject)
        if (
            is_newer(event)
            and record.seq not in self._superseded.get(slot, ())
            and self._kind(record) in self._answers
        ):
            awaited[record.subject] = record.seq

    def hear_of(self, record: Record) -> None:
        """A message that is no input: a checkpoint of the watcher may say that words are not to be waited for."""
        if record.subject not in self._answers.values():
            return
        try:
            answered = msgspec.json.decode(record.body, type=_Answered).answered
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        for slot, awaited in self._awaited.items():
            for subject, seq in list(awaited.items()):
                kind, *_ = self._subjects.parse(subject).rest
                if seq <= answered and self._answers[kind] == record.subject:
                    self._go_past(slot, subject)

    def over(self) -> list[Slot]:
        """Slots of which every word was answered since: they wait no longer, and read past those."""
        return [slot for slot, awaited in self._awaited.items() if not awaited]

    def released(self, slot: Slot) -> None:
        """The slot is given up, and meets what it waits for again when it is claimed; what was answered stays known."""
        self._awaited.pop(slot, None)
        self._first.pop(slot, None)

    def _go_past(self, slot: Slot, subject: str) -> None:
        self._superseded.setdefault(slot, set()).add(self._awaited[slot].pop(subject))

    def _kind(self, record: Record) -> str:
        return self._subjects.parse(record.subject).rest[0]
