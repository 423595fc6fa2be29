"""What was decided, why, what became of it, what would have changed it.

What is the same for every service is done here; what only a service knows about itself, its
explainer says (`tidewright.host.fold.explainer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Sequence
from importlib import import_module
from typing import Any

import msgspec

from tidewright.asking import aftermath, lookups
from tidewright.asking.errors import BadInput
from tidewright.asking.following import Step
from tidewright.asking.lines import subject_object
from tidewright.asking.lookups import Found, reference_of
from tidewright.asking.objects import KNOWN, speaks_of
from tidewright.asking.point_in_time import Moment
from tidewright.asking.service_state import Asked, Hands, hands_on, restored, seen_by
from tidewright.asking.services import BY_NAME, SERVICES, Service
from tidewright.asking.source import Source
from tidewright.asking.told_time import told
from tidewright.events.base import Because, Decision, Event, target_of
from tidewright.events.decisions import CancelTimer, Effect, SetStatus, SetTimer
from tidewright.events.registry import Unknown
from tidewright.host.fold.explainer import Explainer, Reference

EARLIER = 5
"""Decisions before the explained one that are shown in a line each."""


class Why(msgspec.Struct, frozen=True):
    """One decision explained.

    Attributes:
        because: each rule's application, and its sentence.
        causes: the event that it answers first, and what stands behind that.
        rests_on: the last facts of what it was computed from.
        beside: other decisions that the same event gave; `others` is how many more there were, about others than what was asked for.
        unwatched: it has no outcome, and the actuator carries nothing out at present since no watcher looks.
    """

    service: str
    decided: Found
    because: tuple[Because, ...]
    sentences: tuple[str, ...]
    causes: tuple[Found, ...] = ()
    rests_on: tuple[Found, ...] = ()
    outcome: Found | None = None
    opposite: tuple[str, ...] = ()
    beside: tuple[Found, ...] = ()
    unwatched: bool = False
    others: int = 0


class Explanation(msgspec.Struct):
    """All that is known about an object as of a moment.

    Attributes:
        last_word: the last fact about the object itself.
        why: its latest decision of each service that has one.
        earlier: what was decided before, the last one first.
        led_to: of the last decision to scale, or plan for pods of a workload, what came of it step by step.
        standing: service to sentences about the present, and why nothing happens.
        absent: why services that look after such objects have nothing to say.
        hands: service to who folded and who decided, where these are two.
    """

    log: str
    asked: Reference
    moment: Moment
    last_word: Found | None = None
    why: list[Why] = []
    earlier: list[Found] = []
    led_to: list[Step] = []
    standing: dict[str, tuple[str, ...]] = {}
    absent: tuple[str, ...] = ()
    hands: dict[str, Hands] = {}

    def times(self) -> dict[int, float]:
        """Sequence to the time that is shown of each event of it, seconds."""
        entries = [*self.earlier, *([self.last_word] if self.last_word is not None else [])]
        for why in self.why:
            entries += [why.decided, *why.causes, *why.rests_on, *why.beside]
            entries += [why.outcome] if why.outcome is not None else []
        entries += [step.found for step in self.led_to]
        return {entry.seq: told(entry.event) for entry in entries}

    @property
    def at(self) -> float:
        """The log time that it is as of, seconds: not before what was decided by then."""
        times, later = self.times(), {why.outcome.seq for why in self.why if why.outcome is not None}
        later |= {step.found.seq for step in self.led_to}
        return max([self.moment.at, *(at for seq, at in times.items() if seq not in later)])


def explainer_of(service: Service) -> Explainer[Any] | None:
    """What a service knows to say; its module is imported here. None: it has nothing to say."""
    if not service.explainer:
        return None
    module, _, name = service.explainer.partition(":")
    explainer: Explainer[Any] = getattr(import_module(module), name)
    return explainer


def speakers(kind: str) -> list[tuple[Service, Explainer[Any]]]:
    """The services that know about objects of a kind; the others are not imported."""
    return _imported(_candidates(kind))


async def speakers_on(source: Source, kind: str) -> list[tuple[Service, Explainer[Any]]]:
    """Those of them that have run on a log, which alone are imported: what the others would think of it, nobody has decided by."""
    candidates = _candidates(kind)
    patterns = [f"{source.subjects.root}.checkpoint.*.{service.name}" for service in candidates]
    records = await source.last(patterns) if patterns else []
    ran = {source.subjects.parse(record.subject).rest[0] for record in records}
    return _imported([service for service in candidates if service.name in ran])


def _candidates(kind: str) -> list[Service]:
    return [service for service in SERVICES if speaks_of(service, kind)]


def _imported(services: Sequence[Service]) -> list[tuple[Service, Explainer[Any]]]:
    speaking = [(service, explainer_of(service)) for service in services]
    return [(service, explainer) for service, explainer in speaking if explainer is not None]


async def explained(source: Source, asked: Reference, moment: Moment) -> Explanation:
    """Explain an object as of a moment.

    Raises:
        BadInput: nothing on the log is about such an object.
    """
    explanation = Explanation(source.name, asked, moment)
    deciding, words, speaking = await asyncio.gather(
        _deciding_about(source, asked, moment),
        lookups.last_words(source, asked, moment.bound),
        speakers_on(source, asked.kind),
    )
    if not words and asked.kind not in KNOWN:
        speaking = []  # a kind that there is not: no state is read for it
    heard = {service.name for service, _ in speaking}
    others = sorted(deciding - heard)
    explanation.absent = tuple(_absent(source, asked.kind, heard))
    parts = await asyncio.gather(
        *(_spoken(source, asked, moment, service, explainer) for service, explainer in speaking),
        *(_by_another(source, asked, moment, name) for name in others),
    )
    explanation.last_word = words[0] if words else None
    for part in parts:
        if part.why is not None:
            explanation.why.append(part.why)
        explanation.earlier += part.earlier
        if part.standing:
            explanation.standing[part.service] = part.standing
            if part.hands.folded_by:
                explanation.hands[part.service] = part.hands
    leading = [one for part in parts for one in part.leading]
    explanation.led_to = await aftermath.chain(source, asked, leading, moment.bound)
    if explanation.last_word is None and not any(part.why or part.knows_it for part in parts):
        from tidewright.asking.suggestions import unknown

        raise await unknown(source, asked, moment)
    return explanation


def _absent(source: Source, kind: str, heard: Container[str]) -> Iterator[str]:
    for service in SERVICES:
        if kind not in service.explains or service.name in heard:
            continue
        if service.partition == "cluster" and not source.everywhere:
            yield f"{service.name} decides over the whole cluster, and is left out of this part of the log."
        else:
            yield f"{service.name} looks after objects of this kind, and has never run on this log."


class _Part(msgspec.Struct, frozen=True):
    """What one service has to say."""

    service: str
    why: Why | None
    earlier: list[Found]
    standing: tuple[str, ...] = ()
    knows_it: bool = False
    hands: Hands = Hands()
    leading: Sequence[Found] = ()


async def _spoken(
    source: Source, asked: Reference, moment: Moment, service: Service, explainer: Explainer[Any]
) -> _Part:
    """What a service that knows about the object has to say."""
    about = Asked.about(source, service, asked.namespace)
    fold = await restored(source, about, moment.seq)
    whereabouts = explainer.told(fold.state, asked)
    places = dict.fromkeys((asked, *whereabouts.decisions))
    patterns = [lookups.decided_about(source, service.name, place) for place in places]
    patterns += [lookups.ledger_of(source, service.name, ledger) for ledger in whereabouts.ledgers]

    def wanted(entry: Found) -> bool:
        if isinstance(entry.event, Decision) and subject_object(entry.record.subject)[0] == "ledger":
            return False  # the decision once more, for who reads the ledger alone
        event = entry.event
        if not isinstance(event, Event):
            return False
        before = whereabouts.before_it if event.at <= whereabouts.came_at else ()
        return explainer.concerns(event, asked) or any(explainer.concerns(event, one) for one in before)

    decided = await lookups.decisions(source, patterns, moment.seq, wanted, enough=EARLIER + 1)
    standing = tuple(explainer.standing(fold.state, asked, max(fold.at, moment.at)))

    async def leading() -> Sequence[Found]:
        if asked.kind in KNOWN and asked.kind not in aftermath.ASKED_OF:
            return []
        among = [entry for entry in decided if aftermath.leads_on(entry)]
        if among or len(decided) <= EARLIER:
            return among

        def leads(entry: Found) -> bool:
            return wanted(entry) and aftermath.leads_on(entry)

        # Others may be behind these, but not where only what is no scale is said.
        behind = [
            pattern
            for place, pattern in zip(places, patterns, strict=False)
            if place.kind not in aftermath.SCALERS
        ]
        return await lookups.decisions(source, behind, moment.seq, leads, enough=1)

    async def hands() -> Hands:
        return await hands_on(source, about, moment.bound) if standing or decided else Hands()

    (why, earlier), of_hands, led = await asyncio.gather(
        _latest(source, decided, service, explainer, asked), hands(), leading()
    )
    if of_hands.halted:
        standing = (f"Nothing is decided: {of_hands.halted}.", *standing)
    return _Part(service.name, why, earlier, standing, bool(standing), of_hands, led)


async def _deciding_about(source: Source, asked: Reference, moment: Moment) -> set[str]:
    """The services that decided about the object."""
    records = await source.last([lookups.decided_about(source, "*", asked)], moment.bound)
    return {lookups.service_of(source.subjects, record) for record in records}


async def _by_another(source: Source, asked: Reference, moment: Moment, name: str) -> _Part:
    pattern = lookups.decided_about(source, name, asked)
    decided = await lookups.decisions(source, [pattern], moment.seq, _tells, enough=EARLIER + 1)
    why, earlier = await _latest(source, decided, None, None, asked)
    return _Part(name, why, earlier)


async def _latest(
    source: Source,
    decided: Sequence[Found],
    service: Service | None,
    explainer: Explainer[Any] | None,
    asked: Reference,
) -> tuple[Why | None, list[Found]]:
    """Explain the latest decision that has reasons; the others are listed."""
    if not decided:
        return None, []
    main = next((candidate for candidate in decided if getattr(candidate.event, "because", ())), decided[0])
    return await why_of(source, main, service, explainer, asked), [
        other for other in decided if other is not main
    ]


def _tells(entry: Found) -> bool:
    return not isinstance(entry.event, SetTimer | CancelTimer | SetStatus)


async def why_of(
    source: Source,
    decided: Found,
    service: Service | None,
    explainer: Explainer[Any] | None,
    concerned: Reference | None = None,
) -> Why:
    """Explain one decision, or what of it concerns an object: reasons, causes, outcome, and what would have changed it.

    What is over stays as it is, and is worked out once.
    """
    question = (decided.record.body, decided.seq, service.name if service is not None else "", concerned)
    why: Why | None = source.answered.get(question)
    if why is None:
        why = await _worked_out(source, decided, service, explainer, concerned)
        if why.outcome is not None or not isinstance(decided.event, Effect):
            source.answered.put(question, why)
    return why


async def _worked_out(
    source: Source,
    decided: Found,
    service: Service | None,
    explainer: Explainer[Any] | None,
    concerned: Reference | None,
) -> Why:
    event = decided.event
    name = lookups.service_of(source.subjects, decided.record)
    because = getattr(event, "because", ())
    causes, outcome, beside = await asyncio.gather(
        lookups.causes(source, decided), lookups.outcome_of(source, decided), lookups.beside(source, decided)
    )
    whole = len(beside)
    if concerned is not None and explainer is not None:
        beside = [found for found in beside if not of_another(found, decided, concerned, explainer)]
    unwatched = (
        isinstance(event, Effect) and outcome is None and not event.shadow and await source.unwatched()
    )
    if explainer is None or service is None or not isinstance(event, Decision):
        sentences = tuple(explainer.sentences(event)) if explainer is not None else _bare(because)  # type: ignore[arg-type]  # known types only
        return Why(
            name,
            decided,
            because,
            sentences,
            tuple(causes),
            outcome=outcome,
            beside=tuple(beside),
            unwatched=unwatched,
            others=whole - len(beside),
        )
    rests_on: tuple[Found, ...] = ()
    opposite: tuple[str, ...] = ()
    part: Event = event
    if causes:
        asked = Asked.about(source, service, _namespace(event))
        seen = await seen_by(source, asked, causes[0].record, causes[0].event, event)
        state = seen.fold.state
        behind = await lookups.last_facts(source, explainer.facts(state, event), causes[0].seq, seen.words)
        rests_on = tuple(fact for fact in behind if fact.seq != causes[0].seq)
        part = event if concerned is None else explainer.part(state, event, concerned)
        opposite = tuple(explainer.opposite(state, event))
    sentences = tuple(explainer.sentences(part))
    return Why(
        name,
        decided,
        because,
        sentences,
        tuple(causes),
        rests_on,
        outcome,
        opposite,
        tuple(beside),
        unwatched,
        whole - len(beside),
    )


_EACH_ITS_OWN = frozenset({"pod", "node", "provisioningrequest", "capacitybuffer"})
"""Kinds of which one event decides about many, each for itself."""


def of_another(found: Found, decided: Found, concerned: Reference, explainer: Explainer[Any]) -> bool:
    """Whether what was decided at the same time is about another object, whose own explanation tells it."""
    event = found.event
    if isinstance(event, Unknown) or explainer.concerns(event, concerned):
        return False
    _, kind, namespace, name = subject_object(found.record.subject)
    if kind != "none":
        own = kind == concerned.kind and name == concerned.name and namespace in ("", concerned.namespace)
        if own or found.record.subject == decided.record.subject:
            return False
        return kind in _EACH_ITS_OWN or (kind == concerned.kind and kind != "nodegroup")
    if about := getattr(event, "name", ""):
        return (getattr(event, "namespace", ""), about) != (concerned.namespace, concerned.name)
    if concerned.kind == "provisioningrequest" and hasattr(event, "request"):
        return bool(event.request != f"{concerned.namespace}/{concerned.name}")
    return concerned.kind != "pod" and hasattr(event, "shape")


def _namespace(decision: Decision) -> str:
    target = target_of(decision)
    return target.namespace if target is not None else ""


def _bare(because: Sequence[Because]) -> tuple[str, ...]:
    """Rules whose service has no sentences for them."""
    return tuple(
        f"{step.rule}: {', '.join(f'{key}={value}' for key, value in step.values.items())}".removesuffix(": ")
        + "."
        for step in because
    )


async def explained_decision(source: Source, identity: str, asked: Reference | None = None) -> Explanation:
    """Explain the decision of an id, which is about an object where one is named.

    Raises:
        BadInput: there is no such decision, or it is about another object.
    """
    decided = await lookups.by_id(source, identity)
    event = decided.event
    service = BY_NAME.get(lookups.service_of(source.subjects, decided.record))
    explainer = explainer_of(service) if service is not None else None
    target = target_of(event) if isinstance(event, Event) else None
    about = asked or (reference_of(target) if target is not None else Reference("decision", "", identity))
    if asked is not None and not await _is_about(source, decided, asked, service, explainer):
        shown = f" is about {reference_of(target)}" if target is not None else " is about no object"
        raise BadInput(f"--decision {identity}{shown}, not about {asked}")
    moment = Moment(decided.seq, getattr(event, "at", 0.0))
    explanation = Explanation(source.name, about, moment)
    explanation.why.append(await why_of(source, decided, service, explainer))
    explanation.led_to = await aftermath.chain(source, about, [decided], 0)
    return explanation


async def _is_about(
    source: Source,
    decided: Found,
    asked: Reference,
    service: Service | None,
    explainer: Explainer[Any] | None,
) -> bool:
    """Whether an answer about an object would hold this decision."""
    place = Reference(*subject_object(decided.record.subject)[1:])
    if place == asked:
        return True
    if service is None or explainer is None or not speaks_of(service, asked.kind):
        return False
    fold = await restored(source, Asked.about(source, service, asked.namespace), decided.seq)
    return place in explainer.told(fold.state, asked).decisions and explainer.concerns(decided.event, asked)  # type: ignore[arg-type]  # decoded by id
