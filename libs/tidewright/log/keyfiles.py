"""Key files: PEM, as every other tool writes and reads them.

A private key is PKCS #8 without a password, for its owner's eyes alone; a trust anchor is one or more
public keys one after the other in a file (several while a root key is replaced).
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import blake2b
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tidewright.log.errors import BadKey

_PUBLIC = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


def private_pem(key: Ed25519PrivateKey) -> bytes:
    """The stored form of a private key."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: Ed25519PublicKey) -> bytes:
    """The stored form of a public key."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def write_private(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a private key that only its owner may read.

    Raises:
        FileExistsError: there is a file already: a key is never overwritten.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private_pem(key))


def read_private(path: Path) -> Ed25519PrivateKey:
    """A private key from its file.

    Raises:
        BadKey: it cannot be read, or is no Ed25519 private key without a password.
    """
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise BadKey(f"signing key {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadKey(
            f"{path} is no private key in PEM form without a password: make one with `tidewright keys new`"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey(f"{path} is a key of another kind: expected Ed25519, as `tidewright keys new` makes it")
    return key


def read_anchors(path: Path) -> tuple[Ed25519PublicKey, ...]:
    """The public root keys of a trust anchor.

    Raises:
        BadKey: it cannot be read, or holds none, or one of another kind.
    """
    try:
        blocks = _PUBLIC.findall(path.read_bytes())
    except OSError as error:
        raise BadKey(f"trust anchor {path} cannot be read: {error.strerror}") from error
    try:
        keys = tuple(load_pem_public_key(pem) for pem in blocks)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKey(f"{path}: a public key in it cannot be read ({error})") from error
    anchors = tuple(key for key in keys if isinstance(key, Ed25519PublicKey))
    if not anchors or len(anchors) < len(keys):
        raise BadKey(f"{path} holds no Ed25519 public key in PEM form: `tidewright keys new` writes root.pub")
    return anchors


def raw(key: Ed25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes_raw()


def encoded(key: Ed25519PublicKey) -> str:
    """A public key as `KeysSet` has it."""
    return b64encode(raw(key)).decode()


def decoded(text: str) -> Ed25519PublicKey:
    """A public key of a `KeysSet`.

    Raises:
        ValueError: it is none.
    """
    return Ed25519PublicKey.from_public_bytes(b64decode(text, validate=True))


def key_id(key: Ed25519PublicKey) -> str:
    """The short name of a public key, in headers and for people."""
    return blake2b(raw(key), digest_size=8).hexdigest()


def verified(key: Ed25519PublicKey, signature: str, statement: bytes) -> bool:
    """Whether a base64 signature over a statement is this key's."""
    try:
        key.verify(b64decode(signature, validate=True), statement)
    except (InvalidSignature, NotBase64, ValueError):
        return False
    return True
