"""A ledger as whoever reads it in the order of the log has it: the admission endpoint. Pure.

The decider says now and then what is held, counted anew: as of the last entry of admission that it had
folded. Entries between that one and the recount are counted on top of it, so that a recount loses none
of them, whoever wrote them when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidewright.events.base import Event
from tidewright.events.spread import ChangeLedger, EntriesAppended, LedgerEntry, PodLeaving, PodPlaced
from tidewright.spread.ledger import ledger as ledgers
from tidewright.spread.ledger.ledger import InFlight, Ledger

KEPT = 50_000
"""Entries that the decider may be behind by; it says how far it is with whatever it writes."""


class Counted(NamedTuple):
    """What one entry of admission changed: places held in a subset of a version; and what waited for its pod before."""

    request: str
    version: str
    subset: str
    by: int
    placed: InFlight | None = None


@dataclass(eq=False)
class Followed:
    """One ledger, and the entries of admission that the decider is not known to have folded."""

    ledger: Ledger = field(default_factory=Ledger)
    since: deque[Counted] = field(default_factory=lambda: deque(maxlen=KEPT))

    def fold(self, event: Event) -> None:
        """Fold one entry, in the order of the log."""
        match event:
            case EntriesAppended():
                for entry in event.entries:
                    self.fold(entry)
            case PodPlaced() | PodLeaving():
                before = self.ledger.held(event.version, event.subset)
                placed = self.ledger.placed.get(event.key)
                ledgers.fold(self.ledger, event)
                by = self.ledger.held(event.version, event.subset) - before
                self.since.append(Counted(event.request, event.version, event.subset, by, placed))
            case ChangeLedger():
                ledgers.fold(self.ledger, event)
                self._up_to(event.through)
                if event.rules is not None and event.rules.gone:
                    self.since.clear()
                if event.counts is not None:
                    for counted in self.since:
                        ledgers.count(self.ledger, counted.version, counted.subset, counted.by)

    def take_back(self, entries: Sequence[LedgerEntry]) -> None:
        """Undo the last entries, which were not appended after all."""
        for entry in reversed(entries):
            counted = self.since.pop()
            ledgers.count(self.ledger, counted.version, counted.subset, -counted.by)
            if isinstance(entry, PodPlaced) and counted.by:
                self.ledger.placed.pop(entry.key, None)
            elif isinstance(entry, PodLeaving) and entry.evicted:
                self.ledger.evicting.pop(entry.pod, None)
            elif isinstance(entry, PodLeaving) and counted.by:
                ledgers.forget_leaving(self.ledger, entry.uid or entry.pod)
            if isinstance(entry, PodLeaving) and counted.placed is not None:
                self.ledger.placed.pop(f"{entry.key}#{counted.placed.request}", None)
                self.ledger.placed[entry.key] = counted.placed

    def _up_to(self, through: str) -> None:
        """Forget the entries up to that of a request; one that is not there is older than all of them."""
        if through and any(counted.request == through for counted in self.since):
            while self.since.popleft().request != through:
                pass
