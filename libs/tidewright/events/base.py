"""The four classes of events, and the values that all of them share.

Event
|- Fact        something observed, written by the watcher alone
|- Decision    what a decider concluded, written by that decider's host
|- Outcome     what came of a decision, written by the actuator alone
`- Timer       a wake-up that a decider had asked for, written by the log server when it fires

The wire name is the tag (`fact.pod-observed.v1`), never the class path: moving a class breaks no
history. An additive change keeps the tag and gives the new field a default; anything else is a new
tag and a pure upcast. Every subclass repeats `frozen=True`, because type checkers read it there.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = Any
"""A JSON value that no decider takes apart before it has validated it (a custom resource's spec)."""
JsonObject: TypeAlias = dict[str, Any]

Scalar: TypeAlias = int | float | str | bool | None


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Anything on the log.

    Attributes:
        at: log time in seconds since the Unix epoch, stamped once by the shell that saw the thing.
            For decisions it is the log time of the cause, for timers their due time.
    """

    at: float


class Fact(Event, frozen=True, kw_only=True):
    """Something observed outside. Written by the watcher alone.

    Attributes:
        refresh: the fact only says again what was said before, so that retention does not age it
            out. It changes no state.
    """

    refresh: bool = False


class Because(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One application of a rule: a step on the way to a decision.

    Attributes:
        rule: CamelCase name from the deciding service's list of rules.
        values: the numbers and names that the rule worked with, in the order in which a sentence
            mentions them. Units are in the names (`mark_milli`, `window_s`).
    """

    rule: str
    values: dict[str, Scalar] = {}


class Decision(Event, frozen=True, kw_only=True):
    """What a decider concluded, with its reasons.

    A decider leaves `id` and `prev` alone: its host fills them in.

    Attributes:
        id: `<service>.<slot>.<sequence of the cause>.<n>`: the same for every recomputation.
        because: the rules that led here, in the order of their application.
        prev: digest of the previous decision of the same service and slot, so that an altered
            decision breaks the chain.
        shadow: what would have been decided: recorded, and nothing else comes of it, because the mode in
            force does not let the service act. The last of `because` says why.
    """

    id: str = ""
    because: tuple[Because, ...] = ()
    prev: str = ""
    shadow: bool = False


class Outcome(Event, frozen=True, kw_only=True):
    """What came of a decision, exactly one each. Written by the actuator alone.

    Attributes:
        decision: id of the decision that this answers.
        attempts: requests made to the outside, 0 when none was needed.
        reason: CamelCase, low cardinality; the label of the actuator's metrics.
        message: for people.
    """

    decision: str
    attempts: int = 0
    reason: str = ""
    message: str = ""


class Timer(Event, frozen=True, kw_only=True):
    """A wake-up that a decider had asked for. Published by the log server at its due time."""

    key: str
    """The decider's own name for the timer, unique within its slot."""


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One object of the Kubernetes API (or of the cloud, with `api_version` `cloud/v1`).

    Attributes:
        api_version: `group/version`, or `v1` for the core group.
        namespace: empty for cluster-scoped objects.
        uid: when given, a precondition: another object of the same name is not meant.
    """

    api_version: str
    kind: str
    namespace: str = ""
    name: str
    uid: str = ""


def target_of(event: Event) -> ObjectRef | None:
    """The object that a decision names as its target; None for one that names none."""
    target = getattr(event, "target", None)
    return target if isinstance(target, ObjectRef) else None
