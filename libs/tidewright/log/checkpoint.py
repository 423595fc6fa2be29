"""A service's position in a slot. Position is the checkpoint: there is no other bookkeeping.

A checkpoint is committed in one batch with the decisions and timers that it covers, under the
expected sequence of the checkpoint before it, so only one writer can advance a slot.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

import msgspec

from tidewright.log.errors import Unsound
from tidewright.log.input_set import InputSet
from tidewright.log.reader import Record

DIGEST_BYTES = 16
EMPTY_DIGEST = ""


DO = (
    "find out who wrote it (`tidewright events --parked`), take the right to write there away, and put the last good "
    "one back: docs/durability.md, A log that cannot be gone on from"
)


T = TypeVar("T")


class Checkpoint(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="checkpoint.v1"
):
    """Where a service stands in a slot.

    Attributes:
        at: log time of the last event folded, seconds.
        position: stream sequence up to which everything of the slot is folded and decided.
        epoch: grows by one with every claim of the slot.
        incarnation: the process that wrote it, as in its headers.
        commit: counts the commits of that incarnation, so that a lost answer can be told from
            another writer.
        folded: events folded since the log began.
        digest: rolling digest over (sequence, body) of these events.
        chain: digest of the last decision of the service in the slot.
        version: of the software that wrote it.
        inputs: digest of the set of inputs that these events are of, see `InputSet`; empty from software that
            named none. One that names another set than the one before it: what lies up to its position is of
            the set before, then come the last words up to there on what is new in the set, then the set holds.
        reads: that set itself, in the first checkpoint of each claim.
        state_version: of the state that the decider keeps; 0 from software that did not say.
        partial: more decisions than fit into one batch are on their way: some of those for events
            beyond `position` lie before it, and the rest follows. Says nothing else new.
    """

    # Stored in this order: what stays first, see `tidewright.log.envelope`.
    epoch: int
    incarnation: str
    version: str = ""
    inputs: str = ""
    state_version: int = 0
    reads: InputSet | None = None
    partial: bool = False
    at: float
    position: int
    commit: int
    folded: int = 0
    digest: str = EMPTY_DIGEST
    chain: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Checkpoint)


def encode(checkpoint: Checkpoint) -> bytes:
    return _encoder.encode(checkpoint)


def decode(body: bytes) -> Checkpoint:
    """Raises msgspec.ValidationError for bytes that are no checkpoint of a version known here."""
    return _decoder.decode(body)


def usable(record: Record) -> Checkpoint:
    """The checkpoint in a message, when it can be gone on from.

    Raises:
        Unsound: it is none, or covers what it cannot.
    """
    return sound(record, _decoder)


def sound(record: Record, decoder: msgspec.json.Decoder[T]) -> T:
    """A position of whatever kind in a message, when it can be gone on from: who takes it for none, or goes on behind it, errs.

    Raises:
        Unsound: it is not readable, or names a position that does not lie before it.
    """
    where = f"checkpoint on {record.subject} at sequence {record.seq}"
    try:
        decoded = decoder.decode(record.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unsound(
            f"{where} is not readable ({error}; found {_shown(record.body)}): nothing is acted on; {DO}"
        ) from error
    position = getattr(decoded, "position", 0)
    if not 0 <= position < record.seq:
        raise Unsound(
            f"{where} says that everything up to {position} is done, which it cannot know: nothing is acted on; {DO}"
        )
    return decoded


def _shown(body: bytes) -> str:
    return repr(body[:60].decode(errors="replace")) + ("..." if len(body) > 60 else "")


def rolled(digest: bytes, sequence: int, body: bytes) -> bytes:
    """The rolling digest after one more event."""
    return blake2b(digest + sequence.to_bytes(8, "big") + body, digest_size=DIGEST_BYTES).digest()


def digest_of(body: bytes) -> str:
    """The digest by which a decision is referred to as the one before."""
    return blake2b(body, digest_size=DIGEST_BYTES).hexdigest()
