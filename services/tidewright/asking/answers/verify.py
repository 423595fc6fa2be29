"""Whether a log is what its services would have written."""

from __future__ import annotations

import msgspec


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
        gone_on_from: sequence up to which an interrupted run before this one had verified it, and this one did not look again; 0: nothing was
            taken from one, all of it was looked at.
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
    gone_on_from: int = 0
