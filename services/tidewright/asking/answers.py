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


ANSWERS: dict[str, type[msgspec.Struct]] = {"events": LoggedEvent, "get": KindList, "list": ObjectList}
"""By question, as the schemas are named."""


def builtins(answer: Any) -> Any:
    """An answer as JSON and YAML are made of it."""
    return msgspec.to_builtins(answer)
