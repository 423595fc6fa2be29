"""A service's position in a slot. Position is the checkpoint: there is no other bookkeeping.

A checkpoint is committed in one batch with the decisions and timers that it covers, under the
expected sequence of the checkpoint before it, so only one writer can advance a slot.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

DIGEST_BYTES = 16
EMPTY_DIGEST = ""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="checkpoint.v1"):
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
        partial: more decisions than fit into one batch are on their way: some of those for events
            beyond `position` lie before it, and the rest follows. Says nothing else new.
    """

    at: float
    position: int
    epoch: int
    incarnation: str
    commit: int
    folded: int = 0
    digest: str = EMPTY_DIGEST
    chain: str = ""
    version: str = ""
    partial: bool = False


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Checkpoint)


def encode(checkpoint: Checkpoint) -> bytes:
    return _encoder.encode(checkpoint)


def decode(body: bytes) -> Checkpoint:
    """Raises msgspec.ValidationError for bytes that are no checkpoint of a version known here."""
    return _decoder.decode(body)


def rolled(digest: bytes, sequence: int, body: bytes) -> bytes:
    """The rolling digest after one more event."""
    return blake2b(digest + sequence.to_bytes(8, "big") + body, digest_size=DIGEST_BYTES).digest()


def digest_of(body: bytes) -> str:
    """The digest by which a decision is referred to as the one before."""
    return blake2b(body, digest_size=DIGEST_BYTES).hexdigest()
