"""Whose keys are believed when a log is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tidewright.asking import postponed  # noqa: F401  # before the NATS client
from tidewright.asking.options import AskedLogOptions, LogOptions
from tidewright.log.errors import NoKeys
from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from tidewright.log.keyring import Keyring


Anchors: TypeAlias = "Sequence[Ed25519PublicKey] | None"
"""Root keys that vouch for key records; None: nobody asked."""
KEYS = "keys"
"""The part of the configuration that holds key records."""


def vouching(anchors: Anchors) -> str:
    """Who vouches for what is read; empty where everything is believed."""
    return "" if anchors is None else " ".join(sorted(key.public_bytes_raw().hex() for key in anchors))


def anchors_of(where: LogOptions | None) -> Anchors:
    trust = where.trust if isinstance(where, AskedLogOptions) else None
    if trust is None:
        return None
    from tidewright.log.keyfiles import read_anchors

    return read_anchors(trust)


def keyring_of(subjects: Subjects, records: Sequence[Record], anchors: Anchors) -> Keyring | None:
    """A keyring that has taken some key records; None without any, where no anchor asks for one.

    Raises:
        NoKeys: the anchors vouch for none of them.
    """
    if not records and anchors is None:
        return None
    from tidewright.log.belief import refused
    from tidewright.log.keyring import Keyring

    keyring = Keyring(subjects, anchors)
    for record in records:
        if refused(subjects, record.subject, record.headers) is None:
            keyring.take(record)
    if keyring.latest is None and anchors is not None:
        raise NoKeys(f"there is no key record on {keyring.subject} that the trust anchor vouches for")
    return keyring
