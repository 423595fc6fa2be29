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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
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

_HASH_BYTES = 16
DIGEST_BYTES = _HASH_BYTES + 1
_NOT_DIGESTED = (BATCH_ID, BATCH_SEQUENCE, BATCH_COMMIT, MANIFEST, SIGNATURE)
"""The batch is named when it is sent, and held against the place of the message; the last two are made of the digests."""
_FEW = 4
_STAYS, _GOES = b"s", b"g"
"""End a digest: a message stays, or may be gone and is not missed."""
_encode = msgspec.msgpack.Encoder().encode
"""One call that says where each string ends: the shortest encoding, headers in their order."""


@dataclass(frozen=True, slots=True)
class Format:
    """How a commit is signed.

    Attributes:
        tag: begins what is signed.
        said: all that a message says, as bytes: of its subject, body and headers.
        manifest: what is signed of a manifest.
    """

    tag: bytes
    said: Callable[[str, bytes, dict[str, str]], bytes]
    manifest: Callable[[bytes], bytes]


def _lines(subject: str, body: bytes, headers: dict[str, str]) -> bytes:
    return "\n".join([subject, *headers, *headers.values(), "\n"]).encode(errors="surrogatepass") + body


FORMATS = {
    "": Format(b"tidewright-commit-1", _lines, bytes),
    "2 ": Format(
        b"tidewright-commit-2",
        lambda subject, body, headers: _encode((subject, body, headers)),
        lambda manifest: sha256(manifest).digest(),
    ),
}
"""By what a signature begins with. The first is read and written no more: it took a quarter longer."""
_WRITTEN = "2 "


def digest(form: Format, subject: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """What a manifest has of a message as it is stored: of all that it says, and where; and whether it may be gone.

    Empty, which is no message's, where a header is no text.
    """
    kept = dict(headers)
    for name in _NOT_DIGESTED:
        kept.pop(name, None)
    try:
        said = form.said(subject, body, kept)
    except UnicodeEncodeError:
        return b""
    return sha256(said).digest()[:_HASH_BYTES] + (_GOES if SCHEDULE in kept else _STAYS)


def manifest_of(messages: Sequence[tuple[str, bytes, dict[str, str]]]) -> bytes:
    """The same of the messages of a commit that is yet to be sent, in order: they have no headers that are not digested.

    All that signatures cost a large commit is this, so it is written out, without a call of ours per message. Most
    of it is SHA-256, which processors do, and no loop of ours.
    """
    return b"".join(
        [
            part
            for message in messages
            for part in (
                sha256(_encode(message)).digest()[:_HASH_BYTES],
                _GOES if SCHEDULE in message[2] else _STAYS,
            )
        ]
    )


def goes(digest: bytes) -> bool:
    """Whether the server takes a message away again: it is a schedule, and fires or is replaced."""
    return digest.endswith(_GOES)


def _statement(form: Format, log: str, signer: str, subject: str, *, expected: str, manifest: bytes) -> bytes:
    said = "\0".join((log, signer, subject, expected, str(len(manifest) // DIGEST_BYTES)))
    return b"\0".join((form.tag, said.encode(errors="surrogatepass"), form.manifest(manifest)))


def sign(
    key: Ed25519PrivateKey, log: str, signer: str, *, subject: str, headers: dict[str, str], manifest: bytes
) -> None:
    """Sign a commit in the headers of its last message, which `manifest` is of.

    `signer` is already in them, as the expectation is.
    """
    statement = _statement(
        FORMATS[_WRITTEN], log, signer, subject, expected=headers[EXPECTED], manifest=manifest
    )
    headers[SIGNATURE] = _WRITTEN + b64encode(key.sign(statement)).decode()
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
        form: how it is signed.
    """

    cause: Cause | None
    service: str = ""
    manifest: bytes = b""
    batch: str = ""
    form: Format = FORMATS[_WRITTEN]

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
    written = signature.startswith(_WRITTEN)
    signature, form = signature.removeprefix(_WRITTEN), FORMATS[_WRITTEN if written else ""]
    try:
        given = headers.get(MANIFEST)
        manifest = (
            digest(form, record.subject, record.body, headers)
            if given is None
            else b64decode(given, validate=True)
        )
        if expected is None or not manifest or len(manifest) % DIGEST_BYTES:
            return Commit(Cause.ALTERED)
        if given is not None and b64encode(manifest).decode() != given:
            return Commit(Cause.ALTERED)
        said = b64decode(signature, validate=True)
        if b64encode(said).decode() != signature:
            return Commit(Cause.ALTERED)
        key.verify(
            said,
            _statement(form, keys.log, signer, record.subject, expected=expected, manifest=manifest),
        )
    except (InvalidSignature, NotBase64, ValueError):
        return Commit(Cause.ALTERED)
    return Commit(None, service, manifest, headers.get(BATCH_ID, ""), form)


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
        commit.form, record.subject, record.body, headers
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
