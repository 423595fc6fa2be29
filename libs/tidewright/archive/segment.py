"""One segment: a stretch of the log as an export, and behind it what is signed about it. Pure.

Who reads exports reads a segment: the seal is a frame that Zstandard skips. It holds the digest of the
seal before, so segments form a chain, in which nothing can be altered, left out or put elsewhere unnoticed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tidewright.archive.errors import BadArchive
from tidewright.log.envelope import SCHEDULE
from tidewright.log.keyfiles import decoded, key_id
from tidewright.log.reader import Record

FORMAT = "tidewright-segment-1"
MAGIC = b"TWSEGM1\n"
SIGNATURE_BYTES = 64
_SKIPPED = struct.Struct("<II")
"""Begins a frame that Zstandard skips: its magic number, and how long it is."""
_SKIPPABLE = 0x184D2A5E
_END = struct.Struct(">I8s")
LIKELY_BYTES = 1 << 16
"""In which the seal of most segments lies: so much of the end is read first."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed about a segment.

    Attributes:
        number: its place in the chain, from 1 on.
        first, last: range of sequences; what lay between the segment before and `first` was gone before it was sealed.
        records: how many there are.
        gaps: ranges of sequences in it that were gone: schedules that fired, or were replaced.
        known: sequence and digest of the last record that stays on the log, by which the log is known again.
        digest: SHA-256 of the export, in hexadecimal digits.
        previous: SHA-256 of the seal of the segment before; empty for the first one.
        sealed_at: wall time, seconds.
        key: the public key that signs it, base64.
        successor: the one that signs what follows, base64; empty: the same.
    """

    format: str = FORMAT
    number: int
    cluster: str
    stream: str
    first: int
    last: int
    records: int
    gaps: tuple[tuple[int, int], ...] = ()
    known: tuple[int, str]
    digest: str
    previous: str = ""
    sealed_at: float
    key: str
    successor: str = ""

    @property
    def next_key(self) -> str:
        """The public key that is to sign what follows."""
        return self.successor or self.key


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """A head as it was signed.

    Attributes:
        said: its bytes, which the signature is over.
        size: bytes of the seal at the end of the segment.
    """

    head: Head
    said: bytes
    signature: bytes
    size: int

    @property
    def digest(self) -> str:
        """What the next segment names as the one before."""
        return sha256(self.said + self.signature).hexdigest()

    @property
    def good(self) -> bool:
        """Whether the signature is that of the key that the head names."""
        try:
            public: Ed25519PublicKey = decoded(self.head.key)
            public.verify(self.signature, _statement(self.said))
        except (InvalidSignature, ValueError):
            return False
        return True

    @property
    def signer(self) -> str:
        """The short name of the key."""
        return named(self.head.key)


_heads = msgspec.json.Decoder(Head)


def named(key: str) -> str:
    """The short name of a public key in base64."""
    try:
        return key_id(decoded(key))
    except ValueError:
        return "that cannot be read"


def _statement(said: bytes) -> bytes:
    return FORMAT.encode() + b"\0" + said


def sealed(content: bytes, head: Head, key: Ed25519PrivateKey) -> bytes:
    """An export with its seal."""
    said = msgspec.json.encode(head)
    seal = said + key.sign(_statement(said)) + _END.pack(len(said), MAGIC)
    return content + _SKIPPED.pack(_SKIPPABLE, len(seal)) + seal


def seal_size(end: bytes) -> int:
    """How many bytes the seal has that some bytes end with.

    Raises:
        BadArchive: they are no end of a segment.
    """
    if len(end) < _END.size or not end.endswith(MAGIC):
        raise BadArchive("it has no seal at its end: it is cut off, or no segment")
    size, _ = _END.unpack(end[-_END.size :])
    return _SKIPPED.size + int(size) + SIGNATURE_BYTES + _END.size


def seal_of(end: bytes) -> Seal:
    """The seal that some bytes end with.

    Raises:
        BadArchive: they are no end of a segment, or too few.
    """
    size = seal_size(end)
    if size > len(end):
        raise BadArchive("its seal is cut off")
    said = end[_SKIPPED.size - size : -SIGNATURE_BYTES - _END.size]
    try:
        head = _heads.decode(said)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadArchive(f"its seal does not decode ({error})") from error
    if head.format != FORMAT:
        raise BadArchive(f"its seal has format {head.format!r}; this version reads {FORMAT!r}")
    return Seal(head=head, said=said, signature=end[-SIGNATURE_BYTES - _END.size : -_END.size], size=size)


def digest_of(record: Record) -> str:
    """By which a record is known again: sequence, subject and body."""
    return sha256(b"\0".join((str(record.seq).encode(), record.subject.encode(), record.body))).hexdigest()


def known_by(records: Sequence[Record]) -> tuple[int, str]:
    """Sequence and digest of the last of some records that is no schedule, which goes when it fires; of the last one, where all are."""
    for record in reversed(records):
        if SCHEDULE not in record.headers:
            return record.seq, digest_of(record)
    return records[-1].seq, digest_of(records[-1])


def gaps_of(first: int, records: Sequence[Record]) -> tuple[tuple[int, int], ...]:
    """The ranges of sequences from `first` on that some records leave out."""
    gaps: list[tuple[int, int]] = []
    expected = first
    for record in records:
        if record.seq > expected:
            gaps.append((expected, record.seq - 1))
        expected = record.seq + 1
    return tuple(gaps)
