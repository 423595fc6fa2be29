"""`tidewright events`: what happened, in order, a readable line each."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from tidewright.cli.asking.lines import as_json, line, subject_object, title
from tidewright.cli.asking.objects import moment, named, shown
from tidewright.cli.asking.source import FromFile, Source, opened, slot_in
from tidewright.cli.errors import BadInput
from tidewright.cli.options import LogOptions, Output
from tidewright.events import registry
from tidewright.host.explainer import Reference
from tidewright.log.reader import Record
from tidewright.log.subjects import escape

Class = Literal["fact", "decision", "outcome", "timer", "config", "ledger"]
SHOWN: tuple[Class, ...] = ("fact", "decision", "outcome", "timer", "config", "ledger")


@dataclass(frozen=True)
class Wanted:
    """Which events are asked for; times are log times in seconds."""

    classes: tuple[Class, ...]
    namespace: str
    about: Reference | None
    since: float | None
    until: float | None
    parked: bool

    def patterns(self, source: Source) -> list[str]:
        """The narrowest single filters that hold everything wanted: the server's index does the rest."""
        root = source.subjects.root
        if self.about is not None:
            slot, name = "*", f"{self.about.kind}.{escape(self.about.namespace)}.{escape(self.about.name)}"
            if self.about.namespace:
                slot = slot_in(source, self.about.namespace)
            found = {
                "fact": f"fact.{slot}.{name}",
                "decision": f"decision.{slot}.*.{name}",
                "outcome": f"outcome.{slot}.{name}",
            }
            return [f"{root}.{found[c]}" for c in self.classes if c in found]
        if self.namespace:
            space = escape(self.namespace)
            slot = slot_in(source, self.namespace)
            found = {
                "fact": f"fact.{slot}.*.{space}.*", "decision": f"decision.{slot}.*.*.{space}.*",
                "outcome": f"outcome.{slot}.*.{space}.*", "ledger": f"ledger.{slot}.*.{space}.*",
            }  # fmt: skip
            return [f"{root}.{found[c]}" for c in self.classes if c in found]
        return [f"{root}.{self.classes[0]}.>"] if len(self.classes) == 1 else [f"{root}.>"]

    def takes(self, cls: str, at: float) -> bool:
        """Whether an event of this class and log time is wanted."""
        return (
            cls in self.classes
            and (self.since is None or at >= self.since)
            and (self.until is None or at <= self.until)
        )


async def found(
    source: Source, wanted: Wanted, *, follow: bool
) -> AsyncIterator[tuple[Record, registry.Unknown | object]]:
    """Records and their events; undecodable ones only when they are asked for."""
    patterns = wanted.patterns(source)
    if follow and len(patterns) > 1:
        patterns = [source.subjects.everything]
    records = source.follow(patterns[0]) if follow else source.merged(patterns)
    async for record in records:
        cls, kind, namespace, name = subject_object(record.subject)
        if cls not in wanted.classes or (wanted.namespace and namespace != wanted.namespace):
            continue
        if wanted.about is not None and (kind, namespace, name) != (
            wanted.about.kind,
            wanted.about.namespace,
            wanted.about.name,
        ):
            continue
        try:
            event = registry.decode(record.body)
        except registry.NotAnEvent as error:
            if wanted.parked:
                yield record, error
            continue
        if not wanted.parked and wanted.takes(cls, event.at):
            yield record, event


def events(
    *,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Only of this namespace.")] = "",
    about: Annotated[str, Parameter(name="--for", help="Only of this object, as KIND/NAME.")] = "",
    classes: Annotated[tuple[Class, ...], Parameter(name="--class", help="Only of these classes.")] = SHOWN,
    since: Annotated[str, Parameter(help="From this log time on; or so long ago, such as 15m.")] = "",
    until: Annotated[str, Parameter(help="Up to this log time.")] = "",
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], help="Go on with what comes.", negative="")
    ] = False,
    parked: Annotated[
        bool, Parameter(help="Only messages that do not decode, for which a slot has stopped.", negative="")
    ] = False,
    log: LogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """What happened, in order, a readable line each."""

    async def run() -> int:
        async with opened(log, file) as source:
            now = await latest_at(source) if since or until else 0.0
            wanted = Wanted(
                classes, namespace if not about else "", named(about, namespace or "default") if about else None,
                moment(since, now) if since else None, moment(until, now) if until else None, parked,
            )  # fmt: skip
            if wanted.since is not None:
                await _check_retained(source, wanted.since)
            count = 0
            async for record, event in found(source, wanted, follow=follow):
                _print(source, record, event, output)
                count += 1
            return count

    count = asyncio.run(run())
    if not count:
        print(f"no events{f' for {about}' if about else ''} in this range", file=sys.stderr)
    return 0


async def latest_at(source: Source) -> float:
    """The log time of the end of the log."""
    _, last = await source.bounds()
    for seq in range(last, max(last - 200, 0), -1):
        record = await source.at(seq)
        if record is not None:
            try:
                return registry.decode(record.body).at
            except registry.NotAnEvent:
                continue
    return 0.0


async def _check_retained(source: Source, since: float) -> None:
    first, last = await source.bounds()
    if first <= 1:
        return
    async for record in source.records(after=first - 1):
        try:
            oldest = registry.decode(record.body).at
        except registry.NotAnEvent:
            continue
        if since < oldest:
            raise BadInput(
                f"--since {shown(since)}: retained are {shown(oldest)} on (sequences {first} to {last})"
            )
        return


def _print(source: Source, record: Record, event: object, output: Output) -> None:
    cls, kind, namespace, name = subject_object(record.subject)
    if output != "table":
        item = as_json(record, event if not isinstance(event, Exception) else None)  # type: ignore[arg-type]  # an event, or None
        if output == "json":
            print(json.dumps(item), flush=True)
        else:
            import yaml

            print("---\n" + yaml.safe_dump(item, sort_keys=False, allow_unicode=True), end="", flush=True)
        return
    where = f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}" if kind else name
    if isinstance(event, Exception):
        print(f"{record.seq:>9}  {cls:<8}  {where}  does not decode: {event}", flush=True)
        return
    at = getattr(event, "at", 0.0)
    print(f"{shown(at)}  {record.seq:>9}  {cls:<8}  {title(event):<24} {where}  {line(event)}", flush=True)  # type: ignore[arg-type]  # decoded
