"""What a signature says, and whether it does. Pure.

The last message of a commit carries the signature of its writer over the commit as a whole: a digest
of every message in order (the manifest), the subject of the last one and the sequence that it expects
there. Every other message says how many come after it, so that any single one leads to it: the
messages of a commit lie in consecutive sequences.

The expectation is what makes a signature good for one place only: the server compares it when it
stores the message, and nothing is ever again the last message of a subject once another has followed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.log.belief import Cause
from tidewright.log.envelope import (
    BATCH_COMMIT,
    BATCH_ID,
    BATCH_SEQUENCE,
    EXPECTED,
    LEFT,
    MANIFEST,
    SCHEDULE,
    SIGNATURE,
    SIGNER,
)
from tidewright.log.keyring import Keys
from tidewright.log.reader import Record

FORMAT = b"tidewright-commit-1"
_HASH_BYTES = 16
DIGEST_BYTES = _HASH_BYTES + 1
_NOT_DIGESTED = (BATCH_ID, BATCH_SEQUENCE, BATCH_COMMIT, MANIFEST, SIGNATURE)
"""The batch is named when it is sent, and held against the place of the message; the last two are made of the digests."""
_FEW = 4
_STAYS, _GOES = b"s", b"g"
"""End a digest: a message stays, or may be gone and is not missed."""


def digest(subject: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """What a manifest has of a message as it is stored: of all that it says, and where; and whether it may be gone."""
    kept = dict(headers)
    for name in _NOT_DIGESTED:
        kept.pop(name, None)
    said = "\n".join([subject, *kept, *kept.values(), "\n"]).encode(errors="surrogatepass")
    return sha256(said + body).digest()[:_HASH_BYTES] + (_GOES if SCHEDULE in kept else _STAYS)


def manifest_of(messages: Iterable[tuple[str, bytes, Mapping[str, str]]]) -> bytes:
    """The same of the messages of a commit that is yet to be sent, in order: they have no headers that are not digested.

    All that signatures cost a large commit is this, so it is written out, without a call per message. Half of it
    is SHA-256, which processors do, and no loop of ours.
    """
    manifest = bytearray()
    for subject, body, headers in messages:
        said = "\n".join([subject, *headers, *headers.values(), "\n"])
        manifest += sha256(said.encode() + body).digest()[:_HASH_BYTES]
        manifest += _GOES if SCHEDULE in headers else _STAYS
    return bytes(manifest)


def goes(digest: bytes) -> bool:
    """Whether the server takes a message away again: it is a schedule, and fires or is replaced."""
    return digest.endswith(_GOES)


def _statement(log: str, signer: str, subject: str, expected: str, manifest: bytes) -> bytes:
    said = "\0".join((log, signer, subject, expected, str(len(manifest) // DIGEST_BYTES)))
    return FORMAT + b"\0" + said.encode(errors="surrogatepass") + b"\0" + manifest


def sign(
    key: Ed25519PrivateKey, log: str, signer: str, *, subject: str, headers: dict[str, str], manifest: bytes
) -> None:
    """Sign a commit in the headers of its last message, which `manifest` is of.

    `signer` is already in them, as the expectation is.
    """
    headers[SIGNATURE] = b64encode(
        key.sign(_statement(log, signer, subject, headers[EXPECTED], manifest))
    ).decode()
    if len(manifest) > DIGEST_BYTES:
        headers[MANIFEST] = b64encode(manifest).decode()


@dataclass(frozen=True, slots=True)
class Commit:
    """What the last message of a commit says of all of its messages.

    Attributes:
        cause: why nothing of it is believed; None when it is good.
        service: the signer.
        manifest: digests of its messages, in order.
        batch: the server's name of the batch; empty for a single message.
    """

    cause: Cause | None
    service: str = ""
    manifest: bytes = b""
    batch: str = ""

    @property
    def count(self) -> int:
        """Messages of the commit."""
        return len(self.manifest) // DIGEST_BYTES


def commit_of(record: Record | None, keys: Keys) -> Commit:
    """Read the last message of a commit, under the keys that are in force at it."""
    if record is None:
        return Commit(Cause.INCOMPLETE)
    headers = record.headers
    signer, signature = headers.get(SIGNER, ""), headers.get(SIGNATURE)
    service, _, key_id = signer.partition(" ")
    expected = headers.get(EXPECTED)
    if signature is None or LEFT in headers:
        return Commit(Cause.UNSIGNED)
    key = keys.by_id.get((service, key_id))
    if key is None:
        return Commit(Cause.UNKNOWN_KEY)
    try:
        given = headers.get(MANIFEST)
        manifest = (
            digest(record.subject, record.body, headers) if given is None else b64decode(given, validate=True)
        )
        if expected is None or not manifest or len(manifest) % DIGEST_BYTES:
            return Commit(Cause.ALTERED)
        if given is not None and b64encode(manifest).decode() != given:
            return Commit(Cause.ALTERED)
        said = b64decode(signature, validate=True)
        if b64encode(said).decode() != signature:
            return Commit(Cause.ALTERED)
        key.verify(said, _statement(keys.log, signer, record.subject, expected, manifest))
    except (InvalidSignature, NotBase64, ValueError):
        return Commit(Cause.ALTERED)
    return Commit(None, service, manifest, headers.get(BATCH_ID, ""))


def left_of(record: Record) -> int:
    """How many messages of its commit come after a message; -1 when it says something else."""
    text = record.headers.get(LEFT)
    if text is None:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _FEW and text[0] != "0" else -1


def judged(record: Record, remaining: int, commit: Commit, keys: Keys) -> Cause | None:
    """Why a message of a commit is not believed; None when it is the one that was signed, by who may write there."""
    if commit.cause is not None:
        return commit.cause
    headers, index = record.headers, commit.count - 1 - remaining
    start = index * DIGEST_BYTES
    if index < 0 or commit.manifest[start : start + DIGEST_BYTES] != digest(
        record.subject, record.body, headers
    ):
        return Cause.ALTERED
    if headers.get(BATCH_ID, "") != commit.batch or (
        commit.batch
        and (
            headers.get(BATCH_SEQUENCE) != str(index + 1)
            or headers.get(BATCH_COMMIT) != ("1" if not remaining else None)
        )
    ):
        return Cause.ALTERED
    return None if keys.may(commit.service, record.subject) else Cause.NOT_ALLOWED
