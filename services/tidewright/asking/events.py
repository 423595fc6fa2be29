"""What happened, in order: the events that are asked for, found by the narrowest filters."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from tidewright.asking.errors import BadInput
from tidewright.asking.explain import speakers
from tidewright.asking.lines import subject_object
from tidewright.asking.lookups import FIRST_STEP, decided_about, ledger_of
from tidewright.asking.namespaces import meant
from tidewright.asking.objects import named
from tidewright.asking.ordered import BEHIND, Ordering, Shown
from tidewright.asking.point_in_time import INTERLEAVED, Moment, is_past, moment_of
from tidewright.asking.progress import progress
from tidewright.asking.service_state import Asked, glimpsed
from tidewright.asking.source import Source, matches, slot_in
from tidewright.asking.told_time import told
from tidewright.events import registry
from tidewright.events.base import Decision, Event, Outcome
from tidewright.host.fold.explainer import Explainer, Reference
from tidewright.kube.times import readable
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Slot, escape

Class = Literal["fact", "decision", "outcome", "timer", "config", "ledger", "halt"]
CLASSES: tuple[Class, ...] = ("fact", "decision", "outcome", "timer", "config", "ledger", "halt")
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
        if self.since is not None and told(event) < self.since.at:
            return False
        if self.until is not None and told(event) > self.until.at:
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
    source: Source, selection: Wanted, *, follow: bool, tail: int | None = None
) -> AsyncGenerator[Shown, None]:
    """Records and their events, as they stand on the log; undecodable ones only when they are asked for, and then only these.

    With `tail`, no more than the last so many of what is there, by the times that are shown of them (`ordered`).
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
    if not count:
        return []
    entries: list[Shown] = []
    end = selection.until.seq + BEHIND if selection.until is not None and not selection.until.end else last
    high, step = min(end, last) + 1, FIRST_STEP
    # What stands a little before the last of them may be shown behind these.
    while high > first and (len(entries) < count or high > entries[-count][0].seq - BEHIND):
        low = max(first, high - step)
        part: list[Shown] = []
        async with aclosing(_from(source, selection, low - 1, follow=False, up_to=high - 1)) as those:
            async for one in those:
                part.append(one)
        entries = part + entries
        high, step = low, step * 4
    ordering = Ordering()
    for one in entries:
        ordering.put(one)
    return list(ordering.rest())[-count:]


async def _from(
    source: Source, selection: Wanted, after: int, *, follow: bool, up_to: int | None = None
) -> AsyncGenerator[Shown, None]:
    """What is wanted behind a sequence, up to another one or the end, or on and on."""
    patterns = selection.patterns(source)
    first, last = await source.bounds()
    end = selection.until.seq + BEHIND if selection.until is not None and not selection.until.end else None
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


async def wanted(
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
