"""Which messages are believed: what speaks against one, whoever reads it and however. Pure.

What lies on the log was not necessarily put there by who may write it. The server appends a message on
its own in two ways that bus permissions do not see: a schedule fires on whatever subject it names, and
an answer goes to whatever subject the question named for it. Both leave marks in the stored headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tidewright.log.envelope import SCHEDULER
from tidewright.log.subjects import Subjects

PUT_BACK = frozenset(("Nats-Stream", "Nats-Subject", "Nats-Sequence"))
"""Headers that the server gives to the answer of a look-up, and no writer to a message."""
TWICE = ":twice"
"""Marks, in the headers of an answer as `tidewright.log.batched_get` gets it, that the stored message has them too.
No header on the wire can have this name."""


class Cause(StrEnum):
    """Why a message is not believed; the label of the metric."""

    PUT_BACK = "put-back"
    SCHEDULED = "foreign-schedule"
    MISNAMED = "misnamed"
    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown-key"
    ALTERED = "altered"
    NOT_ALLOWED = "not-allowed"
    INCOMPLETE = "incomplete"
    KEYS = "keys"


SAID = {
    Cause.PUT_BACK: "the server stored it as an answer that somebody had sent onto the log",
    Cause.SCHEDULED: "a schedule published it where it has no business",
    Cause.MISNAMED: "its subject is none that a service would write: names are escaped to ASCII",
    Cause.UNSIGNED: "it is not signed",
    Cause.UNKNOWN_KEY: "it is signed with a key that the key record does not have",
    Cause.ALTERED: "it is not what was signed, or not where",
    Cause.NOT_ALLOWED: "its signer may not write there",
    Cause.INCOMPLETE: "the end of its commit, which carries the signature, is not on the log",
    Cause.KEYS: "a key record that the trust anchor does not vouch for, or an earlier one again",
}
"""The causes for people."""


def refused(subjects: Subjects, subject: str, headers: Mapping[str, str]) -> Cause | None:
    """Why a stored message is not believed; None when nothing in its headers speaks against it."""
    if not subject.isascii():
        return Cause.MISNAMED
    if not headers:
        return None
    if not PUT_BACK.isdisjoint(headers):
        return Cause.PUT_BACK
    scheduler = headers.get(SCHEDULER)
    if scheduler is not None and subjects.forged(subject, scheduler):
        return Cause.SCHEDULED
    return None
