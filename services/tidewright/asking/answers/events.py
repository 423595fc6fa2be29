"""What happened."""

from __future__ import annotations

from typing import Any

import msgspec


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to `events`, one of these each: a message of the log.

    Attributes:
        at: its log time; empty where it does not decode.
        class_: fact, decision, outcome, timer, config, ledger or halt.
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
