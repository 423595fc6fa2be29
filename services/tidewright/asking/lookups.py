"""Find what belongs to an object or a decision: its decisions, their causes, their outcomes.

Nothing here reads the log from end to end: every question names subjects, and the server has an
index of these. A file has none and is read through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from tidewright.asking.errors import BadInput
from tidewright.asking.objects import KNOWN
from tidewright.asking.running_log import SOON
from tidewright.asking.services import BY_NAME, Role
from tidewright.asking.source import Source
from tidewright.events import registry
from tidewright.events.base import Decision, Event, ObjectRef, Outcome
from tidewright.events.decisions import Effect
from tidewright.events.facts import WorkloadGone, WorkloadObserved
from tidewright.events.provisioning import PlanScaleUp
from tidewright.events.timers import TimerFired
from tidewright.host.fold.explainer import Reference
from tidewright.host.fold.order import cause_of, parts_of
from tidewright.log.batched_get import TooMany
from tidewright.log.reader import Record
from tidewright.log.subjects import ALL, Subjects, escape, slot_of

MOST_EXPECTED = 3
"""Decisions to scale that are told of a plan which expects pods by them."""
_SEQUENCE = re.compile(r"[0-9]{1,19}")
FIRST_STEP = 50_000
"""Sequences that are looked back at first, and more at each further try."""


class Found(msgspec.Struct, frozen=True):
    """A record and its event."""

    record: Record
    event: Event | registry.Unknown

    @property
    def seq(self) -> int:
        return self.record.seq


def decoded(record: Record) -> Found | None:
    """A record with its event; None when it does not decode."""
    try:
        return Found(record, registry.decode(record.body))
    except registry.NotAnEvent:
        return None


def fact_subject(source: Source, of: Reference) -> str:
    """Where the facts about an object are."""
    slot = slot_of(of.namespace, source.slots)
    return source.subjects.fact(slot, of.kind, of.namespace, of.name)


async def last_facts(
    source: Source, of: Sequence[Reference], up_to: int, known: Mapping[str, Record] | None = None
) -> list[Found]:
    """The last fact about each, as of a sequence, in stream order; `known` are those found already, by subject."""
    subjects = [fact_subject(source, reference) for reference in dict.fromkeys(of)]
    records = [known[subject] for subject in subjects if known and subject in known]
    if asked := [subject for subject in subjects if not known or subject not in known]:
        records += await source.last(asked, up_to)
    records.sort(key=lambda record: record.seq)
    return [entry for record in records if (entry := decoded(record)) is not None]


CUSTOM = ("customworkload", "scaledworkload")
"""Kinds in subjects of workloads that nobody built in: several kinds share them, and each is in the name, as `Kind.group/name`."""


async def last_words(source: Source, asked: Reference, up_to: int) -> list[Found]:
    """The last fact about an object, as of a sequence; of a kind that no service names it is that of a custom workload."""
    if asked.kind in KNOWN:
        return await last_facts(source, [asked], up_to)
    found = [
        entry
        for entry in await of_namespace(source, CUSTOM, asked.namespace, up_to)
        if isinstance(entry.event, WorkloadObserved | WorkloadGone)
        and (entry.event.kind.lower(), entry.event.name) == (asked.kind, asked.name)
    ]
    return found[-1:]


async def of_namespace(source: Source, kinds: Iterable[str], namespace: str, up_to: int) -> list[Found]:
    """The last facts about all objects of some kinds in a namespace, in stream order; none where they are too many to look at."""
    slot, space = slot_of(namespace, source.slots), escape(namespace)
    try:
        records = await source.last(
            [f"{source.subjects.root}.fact.{slot}.{kind}.{space}.*" for kind in kinds], up_to
        )
    except TooMany:
        return []
    records.sort(key=lambda record: record.seq)
    return [entry for record in records if (entry := decoded(record)) is not None]


def service_of(subjects: Subjects, record: Record) -> str:
    """The service that wrote a decision or a ledger entry, by its subject."""
    return subjects.parse(record.subject).rest[0]


async def decisions(
    source: Source,
    patterns: Sequence[str],
    up_to: int,
    accepts: Callable[[Found], bool],
    *,
    enough: int,
) -> list[Found]:
    """The latest decisions and ledger entries about what lies at or before a sequence, the last one first.

    A decision belongs to its cause: one that stands behind `up_to` and answers an event before it
    counts, one that answers a later event does not.

    Of what `patterns` (filters that do not overlap) find, those count that `accepts` takes, and no more
    than `enough`.
    """
    first, _ = await source.bounds()
    entries: list[Found] = []
    high, step = up_to + 1, FIRST_STEP
    while True:
        low = max(first, high - step)
        part: list[Found] = []
        if spoken := await source.narrowed(patterns, low - 1):
            async with aclosing(source.merged(spoken, after=low - 1)) as records:
                async for record in records:
                    if record.seq >= high and _is_behind(record, up_to, last_part=high > up_to):
                        break
                    if (entry := decoded(record)) is not None and accepts(entry):
                        part.append(entry)
        entries += reversed(part)
        if len(entries) >= enough or low <= first:
            return entries[:enough]
        high, step = low, step * 2


def _is_behind(record: Record, up_to: int, *, last_part: bool) -> bool:
    """Whether a record lies behind the part that is being read."""
    if not last_part:
        return True
    entry = decoded(record)
    if entry is None:
        return False
    if isinstance(entry.event, Decision) and entry.event.id:
        return cause_of(entry.event.id)[0] > up_to
    return True


async def by_id(source: Source, identity: str) -> Found:
    """The decision of an id.

    Raises:
        BadInput: it is no id of a decision, or no such decision is on the log.
    """
    try:
        service, slot, cause, _ = parts_of(identity)
    except ValueError:  # a wildcard in a filter would ask for something else
        raise BadInput(
            f"--decision {identity}: an id is <service>.<slot>.<sequence>.<n>, for example autoscaler.7.1234.0"
        ) from None
    first, last = await source.bounds()
    if not first <= cause <= last:
        raise BadInput(
            f"--decision {identity}: the event {cause} that it answers is not on {source.name}, which holds sequences "
            f"{first} to {last}"
        )
    pattern = source.subjects.decisions(slot, service)
    async with aclosing(source.records(pattern, after=cause, ahead=SOON)) as records:
        async for record in records:
            entry = decoded(record)
            if entry is None or not isinstance(entry.event, Decision):
                continue
            if entry.event.id == identity:
                return entry
            if cause_of(entry.event.id)[0] > cause:
                break
    raise BadInput(
        f"--decision {identity}: {service} decided nothing of that id about event {cause} in slot {slot}; "
        f"`tidewright events --class decision` shows what there is"
    )


def sequence_in(text: str) -> int | None:
    """The sequence that a text is; None of what cannot be one, however long it is."""
    return int(text) if _SEQUENCE.fullmatch(text) else None


def cause_in(identity: str) -> int | None:
    """The sequence of the cause that is part of a decision's id; None of what is no id."""
    try:
        return cause_of(identity)[0]
    except ValueError:
        return None


async def beside(source: Source, decided: Found) -> list[Found]:
    """What else the same event led the service to decide."""
    decision = decided.event
    if not isinstance(decision, Decision) or not decision.id:
        return []
    cause, _ = cause_of(decision.id)
    place = source.subjects.parse(decided.record.subject)
    others: list[Found] = []
    async with aclosing(
        source.records(source.subjects.decisions(place.slot, place.rest[0]), cause, SOON)
    ) as records:
        async for record in records:
            other = decoded(record)
            if other is None or not isinstance(other.event, Decision) or not other.event.id:
                continue
            if cause_of(other.event.id)[0] > cause:
                break
            if cause_of(other.event.id)[0] == cause and other.event.id != decision.id:
                others.append(other)
    return others


async def outcome_of(source: Source, decided: Found) -> Found | None:
    """What the actuator said about a decision; None when it has not, or has nothing to say about it."""
    decision = decided.event
    if not isinstance(decision, Effect):
        return None
    target, slot = decision.target, source.subjects.parse(decided.record.subject).slot
    subject = source.subjects.outcome(slot, target.kind.lower(), target.namespace, target.name)
    async with aclosing(source.records(subject, after=decided.seq, ahead=SOON)) as records:
        async for record in records:
            entry = decoded(record)
            if entry is not None and isinstance(entry.event, Outcome) and entry.event.decision == decision.id:
                return entry
    return None


async def causes(source: Source, decided: Found) -> list[Found]:
    """The event that a decision answers, and what stands behind it: who set a timer, what an outcome is of; decisions to
    scale that pods were expected by, each with what it answers.

    The event itself first. Empty when retention has removed it.
    """
    decision = decided.event
    if not isinstance(decision, Decision):
        return []
    record = await source.at(cause_of(decision.id)[0])
    cause = decoded(record) if record is not None else None
    if cause is None:
        return []
    service = service_of(source.subjects, decided.record)
    behind: Found | None = None
    match cause.event:
        case TimerFired(key=key):
            slot = source.subjects.parse(cause.record.subject).slot
            subject = source.subjects.decision(slot, service, "timer", "", key)
            behind = next(
                iter([f for r in await source.last([subject], cause.seq) if (f := decoded(r))]), None
            )
        case Outcome(decision=of):
            try:
                behind = await by_id(source, of)
            except BadInput:  # it has aged out
                behind = None
        case Decision():
            behind = await answered_by(source, cause.event)
    chain = [cause] if behind is None else [cause, behind]
    known = {entry.seq for entry in chain}
    return chain + [entry for entry in await _expected_by(source, decision) if entry.seq not in known]


async def _expected_by(source: Source, decision: Decision) -> list[Found]:
    """Decisions to scale by which a plan expects pods, and what they answer; those that are still on the log."""
    if not isinstance(decision, PlanScaleUp):
        return []
    found: list[Found] = []
    for identity in list(dict.fromkeys(share.decision for share in decision.expected))[:MOST_EXPECTED]:
        try:
            scaled = await by_id(source, identity) if identity else None
        except BadInput:  # it has aged out
            continue
        if scaled is not None and isinstance(scaled.event, Decision):
            sampled = await answered_by(source, scaled.event)
            found += [scaled] if sampled is None else [scaled, sampled]
    return found


async def answered_by(source: Source, decision: Decision) -> Found | None:
    """The event that a decision answers; None when it has aged out."""
    record = await source.at(cause_of(decision.id)[0])
    return decoded(record) if record is not None else None


def decided_about(source: Source, service: str, about: Reference) -> str:
    """A filter: decisions of a service (`*`: of any) about an object, in the slot where it takes them."""
    slot = _slot_of(source, service, about.namespace)
    return f"{source.subjects.root}.decision.{slot}.{service}.{about.kind}.{escape(about.namespace)}.{escape(about.name)}"


def ledger_of(source: Source, service: str, about: Reference) -> str:
    """A filter: entries of a ledger of a service."""
    slot = _slot_of(source, service, about.namespace)
    return f"{source.subjects.root}.ledger.{slot}.{service}.{escape(about.namespace)}.{escape(about.name)}"


def _slot_of(source: Source, name: str, namespace: str) -> str:
    """Where a service decides about a namespace; a wildcard for one that is not known here."""
    service = BY_NAME.get(name)
    if service is None or service.role is not Role.DECIDER:
        return "*"
    if service.partition == "cluster":
        return ALL
    return slot_of(namespace, source.slots) if namespace else "*"


def reference_of(target: ObjectRef) -> Reference:
    """A target as subjects name it."""
    return Reference(target.kind.lower(), target.namespace, target.name)
