"""`tidewright diff`: which decisions of two logs differ, or of a log and its replay."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from tidewright.asking.errors import BadInput
from tidewright.asking.lines import line, title
from tidewright.asking.lookups import decoded, reference_of, service_of
from tidewright.asking.manifests import one_document
from tidewright.asking.options import AskedLogOptions, Output, emit
from tidewright.asking.progress import progress
from tidewright.asking.replaying import Redecided
from tidewright.asking.service_state import bare, deciders, inputs_of
from tidewright.asking.services import Service, load
from tidewright.asking.source import Source, opened
from tidewright.events.base import Decision, target_of
from tidewright.events.decisions import CancelTimer, SetStatus, SetTimer
from tidewright.host.fold.decider import Decider
from tidewright.host.fold.order import Decided
from tidewright.kube.times import readable

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
            differences.add(Change(decision.at, service, about(decision), seq, was, decision))
    for others in unmatched.values():
        for decision in others:
            differences.add(Change(decision.at, service, about(decision), seq, decision, None))


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


def configuration(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`NAME=FILE` each: configurations that take the place of recorded ones.

    Raises:
        BadInput: not of that form, or the file holds no mapping.
    """
    overrides: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not name or not equals or not path:
            raise BadInput(f"--config {text}: write NAME=FILE, for example autoscaler=strict.yaml")
        names = [service.name for service in deciders(())]
        if name not in names:
            raise BadInput(f"--config {text}: {name!r} configures nobody; one of {', '.join(names)}")
        data = one_document(Path(path), f"--config {text}", f"a mapping, the configuration of {name}")
        if not isinstance(data, dict):
            raise BadInput(f"--config {text}: {path} holds {type(data).__name__}, a mapping is expected")
        overrides[name] = data
    return overrides


def diff(
    before: Annotated[Path | None, Parameter(help="An exported log; a running one by default.")] = None,
    after: Annotated[Path | None, Parameter(help="Another one; the replay of the first by default.")] = None,
    /,
    *,
    config: Annotated[tuple[str, ...], Parameter(help="NAME=FILE: replay under this configuration.")] = (),
    service: Annotated[tuple[str, ...], Parameter(help="Only these services; all deciders by default.")] = (),
    everything: Annotated[
        bool, Parameter(name="--all", help="List timers and statuses, too.", negative="")
    ] = False,
    log: AskedLogOptions | None = None,
    output: Output = "table",
) -> int:
    """Which decisions of two logs differ, or of a log and its replay; exit code 1 when some do."""
    chosen = deciders(service)
    if after is not None and config:
        raise BadInput("--config: two logs are compared as they are; give one log to replay it")
    overrides = configuration(config)

    async def run() -> Differences:
        async with opened(log, before) as first:
            if after is not None:
                async with opened(log, after) as second:
                    collected = Differences(first.name, second.name, books=everything)
                    await compared(first, second, chosen, collected)
                    return collected
            under = f" under {', '.join(config)}" if config else ""
            collected = Differences(first.name, f"its replay by this version{under}", books=everything)
            await replayed(first, chosen, overrides, collected)
            return collected

    differences = asyncio.run(run())
    emit(_as_json(differences), output, lambda: _as_text(differences))
    return 1 if differences.count else 0


def _as_json(differences: Differences) -> dict[str, Any]:
    return {
        "before": differences.before,
        "after": differences.after,
        "decisions": differences.decisions,
        "differences": differences.count,
        "kinds": dict(sorted(differences.kinds.items())),
        "first": [
            {
                "kind": change.kind,
                "at": change.at,
                "service": change.service,
                "object": change.about,
                "sequence": change.seq,
                "before": None if change.before is None else msgspec.to_builtins(bare(change.before)),
                "after": None if change.after is None else msgspec.to_builtins(bare(change.after)),
            }
            for change in differences.first
        ],
    }


def _as_text(differences: Differences) -> str:
    lines = [f"{differences.before}, and {differences.after}: {differences.decisions} decisions compared."]
    if not differences.count:
        return "\n".join([*lines, "They are the same."])
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(differences.kinds.items()))
    lines.append(f"{differences.count} differ: {counts}.")
    for change in differences.first:
        lines.append(f"{readable(change.at)}  {change.seq:>9}  {change.service}  {change.about}")
        lines += [f"  - {_told(change.before)}"] if change.before is not None else []
        lines += [f"  + {_told(change.after)}"] if change.after is not None else []
        lines += _reasons(change)
    listed = sum(
        count for kind, count in differences.kinds.items() if differences.books or not _is_book(kind)
    )
    if listed > len(differences.first):
        lines.append(f"and {listed - len(differences.first)} more")
    return "\n".join(lines)


def _is_book(kind: str) -> bool:
    return kind.split(" ", 1)[1] in {book.__name__ for book in BOOKKEEPING}


def _told(decision: Decision) -> str:
    return f"{title(decision)} {line(decision)}"


def _reasons(change: Change) -> list[str]:
    """Where both sides say the same, the reasons that differ."""
    if change.before is None or change.after is None or _told(change.before) != _told(change.after):
        return []
    was, now = change.before.because, change.after.because
    lines = [f"    - {reason.rule} {reason.values}" for reason in was if reason not in now]
    lines += [f"    + {reason.rule} {reason.values}" for reason in now if reason not in was]
    return lines or ["    (fields that the line does not show; -o json has them)"]
