"""An explanation as text and as JSON. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tidewright.asking.answers import ExplainedDecision, ObjectExplanation, Reason, Told, stamp
from tidewright.asking.lines import line, object_of, title
from tidewright.asking.lookups import Found
from tidewright.events.base import Decision, Outcome
from tidewright.events.decisions import Effect
from tidewright.host.loop.lookout import NOBODY
from tidewright.kube.times import readable
from tidewright.log.envelope import VERSION

if TYPE_CHECKING:
    from tidewright.asking.explain import Explanation, Why


def as_text(explanation: Explanation) -> str:
    """For people."""
    asked, moment = explanation.asked, explanation.moment
    lines = [f"{asked}, {moment.told(explanation.log)}"]
    if explanation.last_word is not None:
        lines.append(f"  last seen     {_event(explanation.last_word)}")
    for why in explanation.why:
        lines += ["", *_why(why)]
    for service, sentences in explanation.standing.items():
        lines += ["", f"Now, as {service} sees it:", *(f"  {sentence}" for sentence in sentences)]
    if not explanation.why and not explanation.standing:
        none = "Nothing was decided about it" + (
            "." if explanation.absent else ", and no service looks after it."
        )
        lines += ["", none, *explanation.absent]
    if explanation.earlier:
        lines += ["", "Before that:", *(f"  {_event(entry)}" for entry in explanation.earlier)]
    return "\n".join(lines)


def _why(why: Why) -> list[str]:
    event = why.decided.event
    identity = f", decision {event.id}" if isinstance(event, Decision) and event.id else ""
    software = why.decided.record.headers.get(VERSION, "")
    written = f", of {why.service} {software}" if software else ""
    lines = [
        f"{readable(event.at)}  {why.service}: {line(event)}",
        f"  sequence {why.decided.seq}{identity}{written}",
    ]
    if why.sentences:
        lines += ["  Why:", *(f"    {n}. {sentence}" for n, sentence in enumerate(why.sentences, 1))]
    if why.causes:
        lines.append("  Caused by:")
        lines.append(f"    {_event(why.causes[0])}")
        lines += [f"    which goes back to {_event(cause)}" for cause in why.causes[1:]]
    elif isinstance(event, Decision):
        lines.append("  Caused by an event that is no longer on the log.")
    if why.rests_on:
        lines += ["  It rests on:", *(f"    {_event(fact)}" for fact in why.rests_on)]
    if why.beside:
        lines += ["  With it:", *(f"    {line(other.event)}" for other in why.beside)]
    if why.outcome is not None:
        lines += ["  What came of it:", f"    {_outcome(why.outcome)}"]
    elif isinstance(event, Effect):
        lines += ["  What came of it:", "    The actuator has not said yet."]
        if why.unwatched:
            lines.append(f"    It waits: {NOBODY} (tidewright run watcher); then it goes on by itself.")
    if why.opposite:
        lines += ["  What would have changed it:", *(f"    {sentence}" for sentence in why.opposite)]
    return lines


def _outcome(entry: Found) -> str:
    event = entry.event
    attempts = event.attempts if isinstance(event, Outcome) else 0
    requests = "no request was needed" if not attempts else f"{attempts} request{'s' * (attempts != 1)}"
    return f"{readable(event.at)}  {line(event)}, {requests} (sequence {entry.seq})"


def _event(entry: Found) -> str:
    object_ = object_of(entry.record.subject)
    return f"{readable(entry.event.at)}  {entry.seq}  {title(entry.event)} {object_}  {line(entry.event)}"


def answer(explanation: Explanation) -> ObjectExplanation:
    """For programs."""
    return ObjectExplanation(
        log=explanation.log,
        sequence=explanation.moment.seq,
        at=stamp(explanation.moment.at),
        kind=explanation.asked.kind,
        namespace=explanation.asked.namespace,
        name=explanation.asked.name,
        last_word=_told_if(explanation.last_word),
        decisions=tuple(map(_decision, explanation.why)),
        standing={service: tuple(sentences) for service, sentences in explanation.standing.items()},
        absent=tuple(explanation.absent),
        earlier=tuple(map(_told, explanation.earlier)),
    )


def _decision(why: Why) -> ExplainedDecision:
    because = tuple(
        Reason(rule=step.rule, values=dict(step.values), sentence=sentence)
        for step, sentence in zip(why.because, why.sentences, strict=False)
    )
    return ExplainedDecision(
        **_parts(why.decided),
        service=why.service,
        software=why.decided.record.headers.get(VERSION, ""),
        because=because or tuple(Reason(sentence=sentence) for sentence in why.sentences),
        causes=tuple(map(_told, why.causes)),
        rests_on=tuple(map(_told, why.rests_on)),
        outcome=_told_if(why.outcome),
        unwatched=why.unwatched,
        opposite=tuple(why.opposite),
        beside=tuple(map(_told, why.beside)),
    )


def _told_if(entry: Found | None) -> Told | None:
    return None if entry is None else _told(entry)


def _told(entry: Found) -> Told:
    return Told(**_parts(entry))


def _parts(entry: Found) -> dict[str, Any]:
    return {
        "sequence": entry.seq,
        "at": stamp(entry.event.at),
        "subject": entry.record.subject,
        "text": line(entry.event),
        "event": msgspec.to_builtins(entry.event),
    }
