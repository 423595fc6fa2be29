"""Restore many slots of one service from one run over the log. Pure.

What replay (`state`, exports that start in the middle) needs: recorded decisions are folded, not
taken anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from tidewright.events import registry
from tidewright.events.base import Decision
from tidewright.host.decider import State
from tidewright.host.fold import Fold
from tidewright.host.inputs import Inputs, Role, routes
from tidewright.host.restore import Restore
from tidewright.log import checkpoint as checkpoints
from tidewright.log.checkpoint import Checkpoint
from tidewright.log.reader import Record
from tidewright.log.subjects import Slot

_INPUT = Role.INPUT
_NONE: Sequence[tuple[Slot, Checkpoint]] = ()


class SlotRestorer(Generic[State]):
    """Feed it every record of the log, in order."""

    def __init__(self, inputs: Inputs, folds: Mapping[Slot, Fold[State]]) -> None:
        self.inputs = inputs
        self.restores = {slot: Restore(fold) for slot, fold in folds.items()}
        for fold in folds.values():
            fold.digesting = False  # each checkpoint brings it, and nothing is compared here
        self._routes = routes(inputs, self.restores)

    @property
    def folds(self) -> dict[Slot, Fold[State]]:
        """The folds as they stand."""
        return {slot: restore.fold for slot, restore in self.restores.items()}

    def take(self, record: Record) -> Sequence[tuple[Slot, Checkpoint]]:
        """One record; returns the slots that a checkpoint has just brought up to its position.

        Raises:
            registry.NotAnEvent: an input of ours that does not decode.
        """
        route = self._routes[record.subject]
        if route is None:
            return _NONE
        role, slot = route
        if role is _INPUT and slot is not None:  # nearly all that there is
            event = registry.decode(record.body)
            if self.inputs.concerns(event):
                self.restores[slot].event(record.seq, record.body, event)
            return _NONE
        slots = list(self.restores) if slot is None else [slot]
        if role is Role.CHECKPOINT:
            found = checkpoints.decode(record.body)
            for name in slots:
                self.restores[name].checkpoint(found)
            return [(name, found) for name in slots]
        event = registry.decode(record.body)
        for name in slots:
            if role is Role.DECISION and isinstance(event, Decision):
                self.restores[name].decision(record.body, event)
            elif role is Role.INPUT and self.inputs.concerns(event):
                self.restores[name].event(record.seq, record.body, event)
        return []
