"""Restore many slots of one service from one run over the log. Pure.

What replay (`state`, exports that start in the middle) needs: recorded decisions are folded, not
taken anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.host.fold.decider import State
from tidewright.host.fold.inbox import Word
from tidewright.host.fold.inputs import CHECKPOINT, INPUT, BySubject, Inputs, Role
from tidewright.host.fold.order import Fold
from tidewright.host.fold.restore import Restore
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.errors import Unsound
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot

_NONE: Sequence[tuple[Slot, Checkpoint]] = ()


class SlotRestorer(Generic[State]):
    """Feed it every record of the log, in order."""

    def __init__(self, inputs: Inputs, folds: Mapping[Slot, Fold[State]]) -> None:
        self.inputs = inputs
        self.restores = {slot: Restore(fold, inputs) for slot, fold in folds.items()}
        for fold in folds.values():
            fold.digesting = False  # each checkpoint brings it, and nothing is compared here
        self._routes = BySubject(self._route)

    def _route(self, subject: str) -> tuple[Role, tuple[Restore[State], ...], str] | None:
        """What the messages of a subject are to the service, whose, and their token; None when they are nothing to it."""
        if not self.inputs.reads(subject, self.restores, recorded=True):
            return None
        slot = self.inputs.slot(subject)
        whose = self.restores.values() if slot is None else (self.restores[slot],)
        return self.inputs.role(subject), tuple(whose), self.inputs.token(subject)

    @property
    def folds(self) -> dict[Slot, Fold[State]]:
        """The folds as they stand."""
        return {slot: restore.fold for slot, restore in self.restores.items()}

    def take(self, record: Record) -> Sequence[tuple[Slot, Checkpoint]]:
        """One record; returns the slots that a checkpoint has just brought up to its position."""
        route = self._routes[record.subject]
        if route is None:
            return _NONE
        role, restores, token = route
        if role is CHECKPOINT:
            try:
                checkpoint = checkpoints.usable(record)
            except Unsound:  # nobody goes on from it
                return _NONE
            for restore in restores:
                restore.checkpoint(checkpoint)
            return [(restore.fold.slot, checkpoint) for restore in restores]
        event = registry.read(record.body)
        if role is INPUT:
            if self.inputs.concerns(event):
                for restore in restores:
                    if token:
                        restore.word(Word(token, record.subject, record.seq, record.body, event))
                    else:
                        restore.event(record.seq, record.body, event)
        elif isinstance(event, Decision):
            for restore in restores:
                restore.decision(record.body, event)
        return _NONE
