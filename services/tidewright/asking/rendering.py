"""An explanation as text and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tidewright.asking.answers.explain import (
    ExplainedDecision,
    ObjectExplanation,
    OtherHands,
    Reason,
    TakenStep,
    Told,
)
from tidewright.asking.answers.form import stamp
from tidewright.asking.lines import line, object_of, title
from tidewright.asking.lookups import Found
from tidewright.events.base import Decision, Outcome
from tidewright.events.decisions import Effect
from tidewright.kube.times import readable
from tidewright.log.envelope import VERSION

if TYPE_CHECKING:
    from tidewright.asking.explain import Explanation, Why
    from tidewright.asking.service_state import Hands

Times: TypeAlias = Mapping[int, float]
"""Sequence to the log time that is shown, seconds."""


def as_text(explanation: Explanation) -> str:
    """For people."""
    asked, moment, times = (
        explanation.asked,
        msgspec.structs.replace(explanation.moment, at=explanation.at),
        explanation.times(),
    )
    lines = [f"{asked}, {moment.told(explanation.log)}"]
    if explanation.last_word is not None:
        lines.append(f"  last seen     {_event(explanation.last_word, times)}")
    for why in explanation.why:
        lines += ["", *_why(why, times)]
    if explanation.led_to:
        steps = [f"  {step.what}: {_event(step.found, times)}" for step in explanation.led_to]
        to = "its end" if asked.kind == "node" else "the pods that came of it"
        lines += ["", f"Step by step, to {to}:", *steps]
    for service, sentences in explanation.standing.items():
        hands = explanation.hands.get(service)
        told = f" ({hands.told})" if hands is not None else ""
        lines += ["", f"Now, as {service} sees it{told}:", *(f"  {sentence}" for sentence in sentences)]
    if not explanation.why and not explanation.standing:
        none = "Nothing was decided about it" + (
            "." if explanation.absent else ", and no service looks after it."
        )
        lines += ["", none, *explanation.absent]
    if explanation.earlier:
        lines += [
            "",
            "Before that:",
            *(f"  {_event(entry, times)}" for entry in reversed(_in_time(explanation.earlier, times))),
        ]
    return "\n".join(lines)


def _why(why: Why, times: Times) -> list[str]:
    event = why.decided.event
    identity = f", decision {event.id}" if isinstance(event, Decision) and event.id else ""
    software = why.decided.record.headers.get(VERSION, "")
    written = f", of {why.service} {software}" if software else ""
    lines = [
        f"{readable(times[why.decided.seq])}  {why.service}: {line(event)}{_stamped(why.decided, times)}",
        f"  sequence {why.decided.seq}{identity}{written}",
    ]
    if why.sentences:
        lines += ["  Why:", *(f"    {n}. {sentence}" for n, sentence in enumerate(why.sentences, 1))]
    if why.causes:
        lines.append("  Caused by:")
        lines.append(f"    {_event(why.causes[0], times)}")
        lines += [f"    which goes back to {_event(cause, times)}" for cause in why.causes[1:]]
    elif isinstance(event, Decision):
        lines.append("  Caused by an event that is no longer on the log.")
    if why.rests_on:
        lines += ["  It rests on:", *(f"    {_event(fact, times)}" for fact in _in_time(why.rests_on, times))]
    if why.beside or why.others:
        repeated = Counter(_beside(other, why) for other in why.beside)
        lines += [
            "  With it:",
            *(f"    {text}{f' ({n} times)' if n > 1 else ''}" for text, n in repeated.items()),
        ]
    if why.others:
        more = f"{why.others} decision{'s' * (why.others != 1)}"
        lines.append(f"    {'and ' if why.beside else ''}{more} about others")
    if why.outcome is not None:
        lines += ["  What came of it:", f"    {_outcome(why.outcome, times)}"]
    elif isinstance(event, Effect):
        lines += ["  What came of it:", "    The actuator has not said yet."]
        if why.unwatched:
            from tidewright.host.loop.lookout import NOBODY

            lines.append(f"    It waits: {NOBODY} (tidewright run watcher); then it goes on by itself.")
    if why.opposite:
        lines += ["  What would have changed it:", *(f"    {sentence}" for sentence in why.opposite)]
    return lines


def _in_time(entries: Sequence[Found], times: Times) -> list[Found]:
    return sorted(entries, key=lambda entry: (times[entry.seq], entry.seq))


def _outcome(entry: Found, times: Times) -> str:
    event = entry.event
    attempts = event.attempts if isinstance(event, Outcome) else 0
    requests = "no request was needed" if not attempts else f"{attempts} request{'s' * (attempts != 1)}"
    return f"{readable(times[entry.seq])}  {line(event)}, {requests} (sequence {entry.seq})"


def _event(entry: Found, times: Times) -> str:
    object_, stamped = object_of(entry.record.subject), _stamped(entry, times)
    what = f"{title(entry.event)} {object_}".rstrip()
    return f"{readable(times[entry.seq])}  {entry.seq}  {what}  {line(entry.event)}{stamped}"


def _beside(other: Found, why: Why) -> str:
    """What was decided with something else; an effect on another object with that object."""
    object_ = object_of(other.record.subject)
    is_another = isinstance(other.event, Effect) and object_ != object_of(why.decided.record.subject)
    return f"{object_}: {line(other.event)}" if is_another else line(other.event)


def _stamped(entry: Found, times: Times) -> str:
    """The own time of a decision, where it is told as of a later one that it quotes."""
    own = readable(entry.event.at)
    return "" if own == readable(times[entry.seq]) else f" (stamped {own})"


def answer(explanation: Explanation) -> ObjectExplanation:
    """For programs."""
    times = explanation.times()
    return ObjectExplanation(
        log=explanation.log,
        sequence=explanation.moment.seq,
        at=stamp(explanation.at),
        kind=explanation.asked.kind,
        namespace=explanation.asked.namespace,
        name=explanation.asked.name,
        last_word=_told_if(explanation.last_word, times),
        decisions=tuple(_decision(why, times) for why in explanation.why),
        standing={service: tuple(sentences) for service, sentences in explanation.standing.items()},
        absent=tuple(explanation.absent),
        hands=by_others(explanation.hands),
        earlier=tuple(_told(entry, times) for entry in reversed(_in_time(explanation.earlier, times))),
        led_to=tuple(TakenStep(**_parts(step.found, times), what=step.what) for step in explanation.led_to),
    )


def by_others(hands: Mapping[str, Hands]) -> dict[str, OtherHands]:
    """Who folded and who decided, where these are two."""
    return {
        service: OtherHands(folded_by=two.folded_by, decided_by=two.decided_by)
        for service, two in hands.items()
    }


def _decision(why: Why, times: Times) -> ExplainedDecision:
    because = tuple(
        Reason(rule=step.rule, values=dict(step.values), sentence=sentence)
        for step, sentence in zip(why.because, why.sentences, strict=False)
    )
    return ExplainedDecision(
        **_parts(why.decided, times),
        service=why.service,
        software=why.decided.record.headers.get(VERSION, ""),
        because=because or tuple(Reason(sentence=sentence) for sentence in why.sentences),
        causes=tuple(_told(entry, times) for entry in why.causes),
        rests_on=tuple(_told(entry, times) for entry in _in_time(why.rests_on, times)),
        outcome=_told_if(why.outcome, times),
        unwatched=why.unwatched,
        opposite=tuple(why.opposite),
        beside=tuple(_told(entry, times) for entry in why.beside),
    )


def _told_if(entry: Found | None, times: Times) -> Told | None:
    return None if entry is None else _told(entry, times)


def _told(entry: Found, times: Times) -> Told:
    return Told(**_parts(entry, times))


def _parts(entry: Found, times: Times) -> dict[str, Any]:
    return {
        "sequence": entry.seq,
        "at": stamp(times[entry.seq]),
        "subject": entry.record.subject,
        "text": line(entry.event),
        "event": msgspec.to_builtins(entry.event),
    }
