"""`tidewright events`: what happened, in order, a readable line each."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tidewright.asking.errors import BadInput
from tidewright.asking.explain import speakers
from tidewright.asking.lines import as_json, line, object_of, subject_object, title
from tidewright.asking.lookups import decided_about, ledger_of
from tidewright.asking.objects import named
from tidewright.asking.options import AskedLogOptions, Output
from tidewright.asking.point_in_time import INTERLEAVED, Moment, is_past, moment_of
from tidewright.asking.progress import progress
from tidewright.asking.service_state import Asked, glimpsed
from tidewright.asking.source import FromFile, Source, matches, opened, slot_in
from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome
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


async def found(
    source: Source, selection: Wanted, *, follow: bool
) -> AsyncGenerator[tuple[Record, Event | registry.Unknown | registry.NotAnEvent], None]:
    """Records and their events; undecodable ones only when they are asked for, and then only these."""
    patterns = selection.patterns(source)
    first, last = await source.bounds()
    after = max(0, selection.since.seq - INTERLEAVED) if selection.since is not None else 0
    end = (
        selection.until.seq + INTERLEAVED if selection.until is not None and not selection.until.end else None
    )
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
            count = 0
            async with aclosing(found(source, selection, follow=follow)) as those:
                async for record, event in those:
                    _print(record, event, output)
                    count += 1
            if not count and selection.about is not None and not (since or until):
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
        selection.about = named(about, namespace or "default")
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


def _print(record: Record, event: Event | registry.Unknown | registry.NotAnEvent, output: Output) -> None:
    if output != "table":
        problem = {"problem": str(event)} if isinstance(event, registry.NotAnEvent) else {}
        item = as_json(record, None if isinstance(event, registry.NotAnEvent) else event) | problem
        if output == "json":
            print(json.dumps(item), flush=True)
        else:
            import yaml

            print("---\n" + yaml.safe_dump(item, sort_keys=False, allow_unicode=True), end="", flush=True)
        return
    cls, where = subject_object(record.subject)[0], object_of(record.subject)
    if isinstance(event, registry.NotAnEvent):
        print(f"{record.seq:>9}  {cls:<8}  {where}  does not decode: {event}", flush=True)
        return
    print(
        f"{readable(event.at)}  {record.seq:>9}  {cls:<8}  {title(event):<24} {where}  {line(event)}",
        flush=True,
    )
