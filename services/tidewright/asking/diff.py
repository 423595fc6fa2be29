"""Which decisions of two logs differ, or of a log and its replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidewright.asking.answers.diff import DifferingDecision, LogDifferences
from tidewright.asking.answers.form import stamp
from tidewright.asking.lines import title
from tidewright.asking.lookups import decoded, reference_of, service_of
from tidewright.asking.progress import progress
from tidewright.asking.replaying import Redecided
from tidewright.asking.service_state import bare, inputs_of
from tidewright.asking.services import Service, load
from tidewright.asking.source import Source
from tidewright.asking.told_time import told
from tidewright.events.base import Decision, target_of
from tidewright.events.decisions import CancelTimer, SetStatus, SetTimer
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.order import Decided

EVERY_N = 2000
SHOWN = 100
"""Differences that are kept and shown; all are counted."""
BOOKKEEPING = (SetTimer, CancelTimer, SetStatus)
"""Decisions that follow from others, and are listed only when asked for."""


@dataclass(frozen=True)
class Change:
    """One decision that differs: None where one side has none."""

    at: float
    service: str
    about: str
    seq: int
    before: Decision | None
    after: Decision | None

    @property
    def kind(self) -> str:
        """`changed`, `gone`, `new`."""
        return "changed" if self.before and self.after else "gone" if self.before else "new"

    @property
    def kept_books(self) -> bool:
        """It only follows from other decisions."""
        return isinstance(self.after or self.before, BOOKKEEPING)


@dataclass
class Differences:
    """What was compared, and what differs.

    Attributes:
        kinds: `changed ScaleWorkload` and the like, to how many.
        first: the first of them, in the order of the log.
    """

    before: str
    after: str
    decisions: int = 0
    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    first: list[Change] = field(default_factory=list)
    books: bool = False

    def add(self, change: Change) -> None:
        """Note one difference."""
        self.count += 1
        self.kinds[f"{change.kind} {title(change.after or change.before)}"] += 1  # type: ignore[arg-type]  # one is there
        if len(self.first) < SHOWN and (self.books or not change.kept_books):
            self.first.append(change)


def about(decision: Decision) -> str:
    """What a decision is about, for people and for matching."""
    if (target := target_of(decision)) is not None:
        reference = reference_of(target)
        return "/".join(part for part in (reference.kind, reference.namespace, reference.name) if part)
    return f"timer/{getattr(decision, 'key', '')}"


def matched(
    service: str, seq: int, before: Sequence[Decision], after: Sequence[Decision], differences: Differences
) -> None:
    """Match the decisions about one event by type and object, in their order."""
    differences.decisions += max(len(before), len(after))
    if [bare(decision) for decision in before] == [bare(decision) for decision in after]:
        return
    unmatched: dict[tuple[type, str], list[Decision]] = {}
    for decision in before:
        unmatched.setdefault((type(decision), about(decision)), []).append(decision)
    for decision in after:
        others = unmatched.get((type(decision), about(decision)))
        was = others.pop(0) if others else None
        if was is None or bare(was) != bare(decision):
            differences.add(Change(told(decision), service, about(decision), seq, was, decision))
    for others in unmatched.values():
        for decision in others:
            differences.add(Change(told(decision), service, about(decision), seq, decision, None))


async def replayed(
    source: Source,
    services: Sequence[Service],
    config: Mapping[str, dict[str, Any]],
    differences: Differences,
) -> None:
    """Compare a log with what this version decides about it now, under another configuration or its own."""
    takers = []
    for service in services:
        decider: Decider[Any, Any] = load(service)
        inputs = inputs_of(service, decider, source)
        snapshots = await source.start(decider.service, inputs.every, decider.readable)

        def heard(
            seq: int, recomputed: Sequence[Decision], recorded: Sequence[Decided], name: str = decider.service
        ) -> None:
            matched(name, seq, [decided.decision for decided in recorded], recomputed, differences)

        takers.append(Redecided(decider, inputs, heard, snapshots, config).take)
    first, last = await source.bounds()
    with progress("deciding again", last - first + 1) as advance:
        count = 0
        async for record in source.records():
            for take in takers:
                take(record)
            count += 1
            if count % EVERY_N == 0:
                advance(EVERY_N)


async def decisions_of(
    source: Source, services: Sequence[Service]
) -> dict[tuple[float, str, str], list[Any]]:
    """All decisions by log time, service and object."""
    names = {service.name for service in services}
    decisions: dict[tuple[float, str, str], list[Any]] = {}
    first, last = await source.bounds()
    with progress(f"reading {source.name}", last - first + 1) as advance:
        count = 0
        async for record in source.records(f"{source.subjects.root}.decision.>"):
            entry = decoded(record)
            count += 1
            if count % EVERY_N == 0:
                advance(EVERY_N)
            if entry is None or not isinstance(entry.event, Decision):
                continue
            service = service_of(source.subjects, record)
            if service in names:
                key = (entry.event.at, service, about(entry.event))
                decisions.setdefault(key, []).append((record.seq, entry.event))
    return decisions


async def compared(
    before: Source, after: Source, services: Sequence[Service], differences: Differences
) -> None:
    """Compare the decisions of two logs: those of the same log time, service and object belong together."""
    old, new = await decisions_of(before, services), await decisions_of(after, services)
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key, []), new.get(key, [])
        seq = (now or was)[0][0]
        matched(
            key[1], seq, [decision for _, decision in was], [decision for _, decision in now], differences
        )


def answer(differences: Differences) -> LogDifferences:
    """For programs."""
    return LogDifferences(
        before=differences.before,
        after=differences.after,
        decisions=differences.decisions,
        differences=differences.count,
        kinds=dict(sorted(differences.kinds.items())),
        first=tuple(
            DifferingDecision(
                change=change.kind, at=stamp(change.at), service=change.service, object=change.about,
                sequence=change.seq, before=_bare(change.before), after=_bare(change.after),
            )
            for change in differences.first
        ),
    )  # fmt: skip


def _bare(decision: Decision | None) -> Any:
    return None if decision is None else msgspec.to_builtins(bare(decision))
