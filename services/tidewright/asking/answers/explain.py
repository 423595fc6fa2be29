"""What was decided about an object and why, and what became of it."""

from __future__ import annotations

from typing import Any

import msgspec

from tidewright.asking.answers.form import Answer


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event in an explanation.

    Attributes:
        at: the log time that was reached with it: along the sequences it never goes back. Its own is in `event`.
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


class OtherHands(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was folded here was decided on by other software, or by other inputs.

    Attributes:
        folded_by, decided_by: version and code of each, and the set of inputs where these differ.
    """

    folded_by: str
    decided_by: str


class TakenStep(Told, frozen=True, kw_only=True):
    """One step of what a decision to scale led to.

    Attributes:
        what: what it is, in words.
    """

    what: str


class ObjectExplanation(Answer, frozen=True, kw_only=True):
    """Answer to `explain`.

    Attributes:
        last_word: the last fact about the object; null where there is none.
        decisions: the latest of each service that has one.
        standing: service to sentences about the present, and why nothing happens.
        absent: why services that look after such objects have nothing to say.
        earlier: what was decided before, the last one first.
        hands: service to who folded and who decided, where these are two.
        led_to: of the last decision to scale, or plan for pods of a workload that were about to come, what came of it.
    """

    kind: str
    namespace: str
    name: str
    last_word: Told | None
    decisions: tuple[ExplainedDecision, ...]
    standing: dict[str, tuple[str, ...]]
    absent: tuple[str, ...]
    earlier: tuple[Told, ...]
    hands: dict[str, OtherHands] = {}
    led_to: tuple[TakenStep, ...] = ()
