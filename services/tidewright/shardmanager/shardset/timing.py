"""How long hand-overs take and slots are without an owner: histograms that are part of a set's fold (3.12).

    prepare   offered -> drained from its owner       drain     drained -> released
    grant     released or forced -> granted           activate  granted -> its owner reports to act

A gap begins when the last owner has stopped (a crash: when it was last heard of) and ends when the next
one reports to act; workers that report nothing act as soon as the slot is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from tidewright.events.shards import AssignmentEntry
from tidewright.sharding.document import Document, SlotState
from tidewright.sharding.histogram import Histogram

Phase = Literal["prepare", "drain", "grant", "activate"]


class Opened(msgspec.Struct, frozen=True):
    """A slot that was granted and whose owner has not reported to act: since when, and since when nobody acts."""

    granted_at: float
    free_since: float
    cause: str


class Timing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Of one set.

    Attributes:
        phases: by phase; gaps: by cause.
        free: log time since which nobody acts on a slot, seconds.
        opened: slots that wait for the report of their new owner.
    """

    phases: dict[str, Histogram] = {}
    gaps: dict[str, Histogram] = {}
    free: dict[int, float] = {}
    opened: dict[int, Opened] = {}

    def fold(
        self,
        entry: AssignmentEntry,
        before: Mapping[int, tuple[SlotState, float]],
        heard_at: float,
        *,
        reports: bool,
    ) -> None:
        """Take in an entry that was applied.

        `before` is the state of its slots until then and since when; `heard_at` when a member that is lost
        was last heard of; `reports` says whether workers tell when they act.
        """
        for slot, (state, since) in before.items():
            match entry.kind:
                case "drain":
                    self._phase("prepare", entry.at - since)
                case "release":
                    self._phase("drain", entry.at - since)
                    self.free[slot] = entry.at
                case "force":
                    self.free[slot] = heard_at if entry.cause == "crash" else entry.at
                    self.opened.pop(slot, None)
                case "grant" if state is SlotState.FREE:
                    self._granted(slot, entry, since, reports=reports)

    def _granted(self, slot: int, entry: AssignmentEntry, since: float, *, reports: bool) -> None:
        free_since = self.free.pop(slot, since)
        self._phase("grant", entry.at - since)
        if reports:
            self.opened[slot] = Opened(entry.at, free_since, entry.cause)
        else:
            self._gap(entry.cause, entry.at - free_since)

    def acting(self, document: Document, member: str, slots: Iterable[int], at: float) -> None:
        """A member reports to act."""
        if not self.opened:
            return
        for slot in slots:
            if slot in self.opened and slot < len(document.slots) and document.slots[slot].owner == member:
                opened = self.opened.pop(slot)
                self._phase("activate", at - opened.granted_at)
                self._gap(opened.cause, at - opened.free_since)

    def _phase(self, phase: Phase, seconds: float) -> None:
        self.phases.setdefault(phase, Histogram()).observe(seconds)

    def _gap(self, cause: str, seconds: float) -> None:
        self.gaps.setdefault(cause, Histogram()).observe(seconds)
