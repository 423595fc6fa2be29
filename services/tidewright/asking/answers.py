"""What each question is answered with: one type per question, the same for the command line, HTTP and tests.

Their JSON Schemas are in `proto/answers/`. Members are camelCase as in Kubernetes objects; a time is RFC 3339 in UTC
with milliseconds, an amount has its unit in its name. Fields are added with a default and never renamed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec


def stamp(at: float) -> str:
    """Seconds since the epoch as answers say times; empty for a time that no calendar has."""
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def stamp_if_set(at: float | None) -> str | None:
    """The same; None for none."""
    return None if at is None else stamp(at)


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every answer says of itself.

    Attributes:
        log: the log that was asked, for people.
        sequence: the last sequence that the answer speaks of.
        at: the log time that it speaks of.
    """

    log: str
    sequence: int
    at: str


class ListedKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind that is decided on.

    Attributes:
        services: who decides on objects of the kind.
        objects: how many there are; of kinds that others look after (pods, nodes): how many were decided on.
    """

    kind: str
    services: tuple[str, ...]
    objects: int


class KindList(Answer, frozen=True, kw_only=True):
    """Answer to `get`: the kinds that are decided on."""

    items: tuple[ListedKind, ...]


class ListedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object in a list.

    Attributes:
        service: who decides on it.
        now, wanted: how it is and how it shall be; the same where nothing is to change.
        why: a few words.
        held_until: the time before which nothing changes; null where nothing holds it.
        last_change: when it last changed; null when it never did.
        last_decision: id of the last decision about it; empty when there was none.
    """

    kind: str
    namespace: str
    name: str
    service: str
    now: str
    wanted: str
    why: str
    held_until: str | None = None
    last_change: str | None = None
    last_decision: str = ""


class ObjectList(Answer, frozen=True, kw_only=True):
    """Answer to `get KIND`: its objects, by namespace and name."""

    kind: str
    items: tuple[ListedObject, ...]


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `events`, one of these each: a message of the log.

    Attributes:
        at: its log time; empty where it does not decode.
        class_: fact, decision, outcome, timer, config or ledger.
        kind, namespace, name: the object that its subject names.
        text: what it says, in a line.
        decision: of a decision its id, of an outcome that of the decision; empty otherwise.
        headers: those of the message, without those of its transport.
        event: its content as stored; as text where it does not decode.
        problem: why it does not decode.
    """

    sequence: int
    at: str
    class_: str = msgspec.field(name="class")
    kind: str
    namespace: str
    name: str
    text: str
    decision: str
    subject: str
    headers: dict[str, str]
    event: Any
    problem: str = ""


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event in an explanation.

    Attributes:
        subject: where it stands on the log.
        text: what it says, in a line.
        event: its content as stored.
    """

    sequence: int
    at: str
    subject: str
    text: str
    event: Any


class Reason(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule that was applied, with its numbers (empty where only the sentence is known)."""

    sentence: str
    rule: str = ""
    values: dict[str, str | int | float | bool | None] = {}


class ExplainedDecision(Told, frozen=True, kw_only=True):
    """A decision and what belongs to it.

    Attributes:
        service, software: who decided, and which version and code of it.
        causes: the event that it answers, and what stands behind that.
        rests_on: the last facts of what it was computed from.
        outcome: what the actuator did; null when it has not said.
        unwatched: it has no outcome, and nothing is carried out since no watcher looks.
        opposite: which single input would have had to be what for the opposite.
        beside: what else the same event led the service to decide.
    """

    service: str
    software: str
    because: tuple[Reason, ...]
    causes: tuple[Told, ...]
    rests_on: tuple[Told, ...]
    outcome: Told | None
    unwatched: bool
    opposite: tuple[str, ...]
    beside: tuple[Told, ...]


class ObjectExplanation(Answer, frozen=True, kw_only=True):
    """Answer to `explain`.

    Attributes:
        last_word: the last fact about the object; null where there is none.
        decisions: the latest of each service that has one.
        standing: service to sentences about the present, and why nothing happens.
        absent: why services that look after such objects have nothing to say.
        earlier: what was decided before, the last one first.
    """

    kind: str
    namespace: str
    name: str
    last_word: Told | None
    decisions: tuple[ExplainedDecision, ...]
    standing: dict[str, tuple[str, ...]]
    absent: tuple[str, ...]
    earlier: tuple[Told, ...]


class LastFact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last fact about an object."""

    sequence: int
    at: str
    event: Any


class ObjectState(Answer, frozen=True, kw_only=True):
    """Answer to `state`.

    Attributes:
        fact: the last one about the object; null where there is none.
        state: service to what it held of the object.
    """

    kind: str
    namespace: str
    name: str
    fact: LastFact | None
    state: dict[str, dict[str, Any]]


class Authenticated(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which messages were signed, and by what keys.

    Attributes:
        keys: generation of the key record; 0 on a log without one.
        vouched: a trust anchor vouches for it.
        history: sequence up to which nothing is signed.
        commits, messages: that are signed.
        unknown: messages of a part of a log, the ends of whose commits are left out of it.
    """

    keys: int
    vouched: bool
    history: int
    commits: int
    messages: int
    unknown: int


class FoundDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a log is not what its services would have written.

    Attributes:
        recorded, recomputed: the bytes of both, as text.
    """

    service: str
    slot: str
    sequence: int
    cause: str
    message: str
    recorded: str
    recomputed: str


class LogVerification(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `verify`.

    Attributes:
        messages: that were read; `events`, `decisions`, `checkpoints` are those that were verified.
        undecided: events at the end that nobody has decided about yet.
        set_aside: messages that do not decode.
        written_by: software to how many decisions it took.
        differences: how many there are; `first` are the first of them.
    """

    log: str
    verified: bool
    messages: int
    authenticated: Authenticated
    services: tuple[str, ...]
    events: int
    decisions: int
    checkpoints: int
    undecided: int
    set_aside: int
    written_by: dict[str, int]
    differences: int
    first: tuple[FoundDifference, ...]


ANSWERS: dict[str, type[msgspec.Struct]] = {
    "events": LoggedEvent,
    "explain": ObjectExplanation,
    "get": KindList,
    "list": ObjectList,
    "state": ObjectState,
    "verify": LogVerification,
}
"""By question, as the schemas are named."""


def builtins(answer: Any) -> Any:
    """An answer as JSON and YAML are made of it."""
    return msgspec.to_builtins(answer)
