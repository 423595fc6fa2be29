"""The signing key of one service: read from its file, and read again when that changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.log import keyfiles, seals, signing
from tidewright.log.diagnostics import get_logger
from tidewright.log.envelope import LEFT, MAX_BATCH, SIGNER
from tidewright.log.errors import BadKey
from tidewright.log.keyring import Keys

LOOK_S = 1.0
"""How often the file is looked at, beside the commits."""

_COUNTS = tuple(str(count) for count in range(1, MAX_BATCH))
"""Made once: a commit counts down what is left of it."""

logger = get_logger(__name__)


class Signer:
    """Signs the commits of one service."""

    def __init__(self, service: str, path: Path) -> None:
        """Raises BadKey: the file holds no signing key."""
        self.service, self._path = service, path
        self._seen = _stamp(path)
        self._use(keyfiles.read_private(path))
        self._next: Ed25519PrivateKey | None = None
        self._looked_at = time.monotonic()
        self.log = ""
        """The log's name in its key record, which every signature names."""

    def _use(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._name = f"{self.service} {keyfiles.key_id(key.public_key())}"

    @property
    def name(self) -> str:
        """Service and key, as the header has them."""
        return self._name

    def changed(self) -> bool:
        """Whether the file holds another key since, which is to be used once the key record has it."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return False
        self._looked_at = time.monotonic()
        stamp = _stamp(self._path)
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._next = keyfiles.read_private(self._path)
            except BadKey as error:
                logger.error("the signing key cannot be read, the one before is used on", error=str(error))
        return self._next is not None

    def follow(self, keys: Keys) -> None:
        """Sign for this log, and with the new key if the record has it."""
        self.log = keys.log
        if self._next is not None and keys.has(self.service, self._next.public_key()):
            self._use(self._next)
            self._next = None
            logger.info("signing with another key", signer=self._name)

    def known_to(self, keys: Keys) -> bool:
        """Whether what this key signs is believed."""
        return keys.has(self.service, self._key.public_key())

    def sealed(self, data: bytes) -> bytes:
        """Content with a signature behind it."""
        return seals.sealed(self._key, self.log, self._name, data)

    def sign(self, messages: Sequence[tuple[str, bytes, dict[str, str]]]) -> None:
        """Sign a commit in the headers of its messages, which are as they will be stored but for those of a batch."""
        subject, _, headers = messages[-1]
        headers[SIGNER] = self._name
        for (_, _, others), remaining in zip(messages[-2::-1], _COUNTS, strict=False):
            others[LEFT] = remaining
        signing.sign(
            self._key, self.log, self._name,
            subject=subject, headers=headers, manifest=signing.manifest_of(messages),
        )  # fmt: skip


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when a file is written, or another takes its place."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_ino)
