"""`tidewright events`: what happened, in order, a readable line each."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from tidewright.asking.answers import builtins, stamp
from tidewright.asking.errors import BadInput
from tidewright.asking.explain import speakers
from tidewright.asking.lines import answer, decision_of, line, object_of, subject_object, title
from tidewright.asking.lookups import FIRST_STEP, decided_about, ledger_of
from tidewright.asking.namespaces import meant
from tidewright.asking.objects import named
from tidewright.asking.options import NOT_NEGATIVE, AskedLogOptions, Output
from tidewright.asking.point_in_time import INTERLEAVED, Moment, is_past, moment_of
from tidewright.asking.progress import progress
from tidewright.asking.service_state import Asked, glimpsed
from tidewright.asking.source import FromFile, Source, matches, opened, slot_in
from tidewright.asking.tables import cell, plain
from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome
from tidewright.events.outcomes import Applied, Superseded
from tidewright.host.fold.explainer import Explainer, Reference
from tidewright.kube.times import readable
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot, escape

Class = Literal["fact", "decision", "outcome", "timer", "config", "ledger"]
CLASSES: tuple[Class, ...] = ("fact", "decision", "outcome", "timer", "config", "ledger")
EVERY_N = 2000


@dataclass
class Wanted:
    """Which events are asked for.

    Attributes:
        since, until: what lies behind the one and up to the other; None without a bound.
        elsewhere: other objects whose decisions may be about the one asked for, by service.
        ids: decisions about it that came by, whose outcomes are wanted.
    """

    classes: tuple[Class, ...]
    namespace: str = ""
    about: Reference | None = None
    since: Moment | None = None
    until: Moment | None = None
    parked: bool = False
    elsewhere: list[tuple[Explainer[Any], str, Reference]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def patterns(self, source: Source) -> list[str]:
        """The narrowest filters that hold everything wanted and do not overlap: the server's index does the rest."""
        root = source.subjects.root
        if self.about is not None:
            return self._about(source, self.about)
        if self.namespace:
            space, slot = escape(self.namespace), slot_in(source, self.namespace)
            filters = {
                "fact": f"fact.{slot}.*.{space}.*", "decision": f"decision.*.*.*.{space}.*",
                "outcome": f"outcome.*.*.{space}.*", "ledger": f"ledger.*.*.{space}.*",
            }  # fmt: skip
            return [f"{root}.{filters[c]}" for c in self.classes if c in filters]
        if self.parked or set(self.classes) == set(CLASSES):
            return [source.subjects.everything]
        return [f"{root}.{c}.>" for c in self.classes]

    def _about(self, source: Source, about: Reference) -> list[str]:
        root, slot = source.subjects.root, Slot("*")
        name = f"{about.kind}.{escape(about.namespace)}.{escape(about.name)}"
        if about.namespace:
            slot = slot_in(source, about.namespace)
        decisions = [decided_about(source, "*", about)]
        outcomes = [f"{root}.outcome.*.{name}"]
        for _, service, other in self.elsewhere:
            if other.kind:
                decisions.append(decided_about(source, service, other))
                outcomes.append(
                    f"{root}.outcome.*.{other.kind}.{escape(other.namespace)}.{escape(other.name)}"
                )
        filters = {
            "fact": [f"{root}.fact.{slot if about.namespace else ALL}.{name}"],
            "decision": decisions,
            "outcome": outcomes,
            "ledger": [ledger_of(source, s, other) for _, s, other in self.elsewhere if not other.kind],
        }
        # Decisions are read for their outcomes' sake, too.
        classes = [*self.classes, *(["decision"] if self._by_ids and "decision" not in self.classes else [])]
        return list(dict.fromkeys(pattern for c in classes for pattern in filters.get(c, ())))

    @property
    def _by_ids(self) -> bool:
        return bool(self.elsewhere) and "outcome" in self.classes

    def takes(self, record: Record, event: Event | registry.Unknown) -> bool:
        """Whether an event that the filters found is wanted."""
        cls, kind, namespace, name = subject_object(record.subject)
        if self.since is not None and event.at < self.since.at:
            return False
        if self.until is not None and event.at > self.until.at:
            return False
        if self.about is not None and (kind, namespace, name) != (
            self.about.kind,
            self.about.namespace,
            self.about.name,
        ):
            if isinstance(event, Decision):
                if not any(explainer.concerns(event, self.about) for explainer, _, _ in self.elsewhere):
                    return False
                self.ids.add(event.id)
            elif isinstance(event, Outcome):
                if event.decision not in self.ids:
                    return False
            elif (
                cls != "ledger"
                or not isinstance(event, Event)
                or not any(explainer.concerns(event, self.about) for explainer, _, _ in self.elsewhere)
            ):
                return False
        elif self.about is None and self.namespace and namespace != self.namespace:
            return False
        return cls in self.classes


Shown: TypeAlias = "tuple[Record, Event | registry.Unknown | registry.NotAnEvent]"


async def found(
    source: Source, selection: Wanted, *, follow: bool, tail: int | None = None
) -> AsyncGenerator[Shown, None]:
    """Records and their events; undecodable ones only when they are asked for, and then only these.

    With `tail`, no more than the last so many of what is there.
    """
    first, last = await source.bounds()
    after = max(0, selection.since.seq - INTERLEAVED) if selection.since is not None else 0
    if tail is not None:
        for one in await _last_of(source, selection, tail, max(first, after + 1), last):
            yield one
        if not follow:
            return
        after = last
    async with aclosing(_from(source, selection, after, follow=follow)) as those:
        async for one in those:
            yield one


async def _last_of(source: Source, selection: Wanted, count: int, first: int, last: int) -> list[Shown]:
    """The last `count` that are wanted from a sequence on, looked for from the end: the log is not read through."""
    entries: list[Shown] = []
    end = (
        selection.until.seq + INTERLEAVED if selection.until is not None and not selection.until.end else last
    )
    high, step = min(end, last) + 1, FIRST_STEP
    while len(entries) < count and high > first:
        low = max(first, high - step)
        part: list[Shown] = []
        async with aclosing(_from(source, selection, low - 1, follow=False, up_to=high - 1)) as those:
            async for one in those:
                part.append(one)
        entries = part + entries
        high, step = low, step * 4
    return entries[-count:] if count else []


async def _from(
    source: Source, selection: Wanted, after: int, *, follow: bool, up_to: int | None = None
) -> AsyncGenerator[Shown, None]:
    """What is wanted behind a sequence, up to another one or the end, or on and on."""
    patterns = selection.patterns(source)
    first, last = await source.bounds()
    end = (
        selection.until.seq + INTERLEAVED if selection.until is not None and not selection.until.end else None
    )
    if up_to is not None:
        end = up_to if end is None else min(end, up_to)
    if follow:
        records = _on_and_on(source, patterns, after, last)
    else:
        if selection.about is not None:
            patterns = list(await source.narrowed(patterns, after))
        records = source.merged(patterns, after)
    with progress("looking", last - max(first, after)) as advance:
        count = 0
        async with aclosing(records):
            async for record in records:
                count += 1
                if selection.parked and count % EVERY_N == 0:
                    advance(EVERY_N)
                if end is not None and record.seq > end:
                    return
                if not is_past(source, record):
                    continue
                try:
                    event = registry.decode(record.body)
                except registry.NotAnEvent as error:
                    if selection.parked:
                        yield record, error
                    continue
                if not selection.parked and selection.takes(record, event):
                    yield record, event


async def _on_and_on(
    source: Source, patterns: list[str], after: int, last: int
) -> AsyncGenerator[Record, None]:
    """What is there, found by the index; then what comes, by one filter."""
    async with aclosing(source.merged(patterns, after)) as there:
        async for record in there:
            if record.seq > last:
                break
            yield record
    covering = patterns[0] if len(patterns) == 1 else source.subjects.everything
    async with aclosing(source.follow(covering, max(after, last))) as coming:
        async for record in coming:
            if len(patterns) == 1 or any(matches(pattern, record.subject) for pattern in patterns):
                yield record


def events(
    *,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Only of this namespace.")] = "",
    about: Annotated[str, Parameter(name="--for", help="Only of this object, as KIND/NAME.")] = "",
    classes: Annotated[tuple[Class, ...], Parameter(name="--class", help="Only of these classes.")] = CLASSES,
    since: Annotated[str, Parameter(help="From this log time on, so long ago (15m), or seq:N.")] = "",
    until: Annotated[str, Parameter(help="Up to this log time, so long ago, or seq:N.")] = "",
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], help="Go on with what comes.", negative="")
    ] = False,
    parked: Annotated[
        bool, Parameter(help="Only messages that do not decode, which are set aside.", negative="")
    ] = False,
    tail: Annotated[
        int | None, Parameter(help="Only the last so many, before what comes.", validator=NOT_NEGATIVE)
    ] = None,
    log: AskedLogOptions | None = None,
    file: FromFile = None,
    output: Output = "table",
) -> int:
    """What happened, in order, a readable line each."""
    if follow and until:
        raise BadInput("--follow and --until: what comes has no end, give one of them")
    if follow and file is not None:
        raise BadInput(f"--follow and --log {file}: nothing is added to a file")
    if parked and (about or classes != CLASSES):
        raise BadInput(
            "--parked: a message that does not decode is of no known class or object; -n narrows it"
        )

    async def run() -> int:
        async with opened(log, file) as source:
            selection = await _wanted(
                source, classes, namespace, about=about, since=since, until=until, parked=parked
            )
            count, shown = 0, _Shown(output)
            async with aclosing(found(source, selection, follow=follow, tail=tail)) as those:
                async for record, event in those:
                    shown.print(record, event)
                    count += 1
            if not count and selection.about is not None and not (since or until or tail == 0):
                from tidewright.asking.suggestions import unknown

                raise await unknown(source, selection.about, await moment_of(source, ""))
            return count

    if not asyncio.run(run()):
        what = "messages that do not decode" if parked else "events"
        print(f"no {what}{f' for {about}' if about else ''} in this range", file=sys.stderr)
    return 0


async def _wanted(
    source: Source,
    classes: tuple[Class, ...],
    namespace: str,
    *,
    about: str,
    since: str,
    until: str,
    parked: bool,
) -> Wanted:
    """What the options ask for.

    Raises:
        BadInput: a time outside of what is retained, no KIND/NAME.
    """
    selection = Wanted(classes, namespace, parked=parked)
    if since:
        selection.since = await moment_of(source, since, "--since")
    if until:
        selection.until = await moment_of(source, until, "--until")
    if (
        selection.since is not None
        and selection.until is not None
        and selection.since.at > selection.until.at
    ):
        raise BadInput(
            f"--since {readable(selection.since.at)} is later than --until {readable(selection.until.at)}"
        )
    if about:
        selection.about = named(about, meant(namespace))
        await _look_elsewhere(source, selection, selection.about)
    return selection


async def _look_elsewhere(source: Source, selection: Wanted, about: Reference) -> None:
    """Where else decisions about an object are: an autoscaler's are on its target."""
    _, last = await source.bounds()
    for service, explainer in speakers(about.kind):
        seen = await glimpsed(source, Asked.about(source, service, about.namespace), last)
        if seen is None:
            continue
        whereabouts = explainer.told(seen.fold.state, about)
        places = [place for place in (*whereabouts.decisions, *whereabouts.ledgers) if place != about]
        selection.elsewhere += [(explainer, service.name, place) for place in places]


COLUMNS = ("TIME", "SEQUENCE", "CLASS", "EVENT", "OBJECT", "WHAT IT SAYS")
_WIDTHS = (23, 9, 8, 24)
_ID_WIDTH = 28
_COLOURS = {"decision": 36, "outcome": 32, "config": 35, "timer": 2, "ledger": 2}
"""SGR codes of classes; facts are as the terminal has them."""
_FAILED = 31


class _Shown:
    """Events as they are printed, one by one: a table whose width nobody knows before its end has columns of fixed width."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.begun = False
        self.coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def print(self, record: Record, event: Event | registry.Unknown | registry.NotAnEvent) -> None:
        """One event; the header before the first."""
        match self.output:
            case "json":
                print(json.dumps(builtins(answer(record, event))), flush=True)
            case "yaml":
                import yaml

                item = builtins(answer(record, event))
                print("---\n" + yaml.safe_dump(item, sort_keys=False, allow_unicode=True), end="", flush=True)
            case "name":
                print(
                    plain("/".join(part for part in subject_object(record.subject)[1::2] if part)), flush=True
                )
            case _:
                self._row(record, event)

    def _row(self, record: Record, event: Event | registry.Unknown | registry.NotAnEvent) -> None:
        if not self.begun:
            self.begun = True
            print(self._painted(self._line(*COLUMNS, decision="DECISION"), 1), flush=True)
        cls, where = subject_object(record.subject)[0], object_of(record.subject)
        if isinstance(event, registry.NotAnEvent):
            row, colour = ("", str(record.seq), cls, "", where, f"does not decode: {event}"), _FAILED
            decision = ""
        else:
            at = stamp(event.at).replace("T", " ").removesuffix("Z")
            row = (at, str(record.seq), cls, title(event), where, line(event))
            failed = isinstance(event, Outcome) and not isinstance(event, Applied | Superseded)
            colour, decision = _FAILED if failed else _COLOURS.get(cls, 0), decision_of(event)
        print(self._painted(self._line(*map(cell, row), decision=cell(decision)), colour), flush=True)

    def _line(self, *row: str, decision: str) -> str:
        at, seq, cls, kind, where, what = row
        time, number, name, event = _WIDTHS
        line = f"{at:<{time}}  {seq:>{number}}  {cls:<{name}}  {kind:<{event}} "
        if self.output == "wide":
            line += f"{decision:<{_ID_WIDTH}} "
        return f"{line}{where}  {what}"

    def _painted(self, line: str, colour: int) -> str:
        return f"\x1b[{colour}m{line}\x1b[0m" if self.coloured and colour else line
