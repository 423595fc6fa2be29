"""The archiver's key: made at its first start, and nobody else's.

Beside `FILE` lies `FILE.pub`, which whoever verifies is given, and while another key is to follow `FILE.next`. Which of the
two signs is what the chain says, so that a mounted Secret with both serves as well as files that are renamed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.archive.segment import named
from tidewright.log.errors import BadKey
from tidewright.log.keyfiles import encoded, public_pem, read_private, write_private


class ArchiverKeys:
    """The key files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.next = path.with_name(f"{path.name}.next")

    def begin(self) -> Ed25519PrivateKey:
        """The key of a new archive, made when there is none.

        Raises:
            BadKey: it cannot be read or written.
        """
        try:
            made(self.path)
        except FileExistsError:
            pass
        except OSError as error:
            raise BadKey(f"the archiver's key {self.path} cannot be written: {error.strerror}") from error
        key = read_private(self.path)
        with suppress(
            OSError
        ):  # who made it may have been killed before it said which it is; in a Secret nothing is written
            _tell(self.path, key)
        return key

    def expected(self, public: str) -> Ed25519PrivateKey:
        """The key that the chain says is to sign now, by its public half.

        Raises:
            BadKey: it is not here.
        """
        there = [path for path in (self.path, self.next) if path.exists()]
        keys = [(path, read_private(path)) for path in there]
        for path, key in keys:
            if encoded(key.public_key()) == public:
                if path == self.next:
                    self._follow()
                return key
        has = ", ".join(f"{path} ({named(encoded(key.public_key()))})" for path, key in keys)
        raise BadKey(
            f"the archive goes on with key {named(public)}, and here is {has or f'no file {self.path}'}: put that key there; "
            "where it is lost, begin another archive (docs/operations/backup.md, When the key is lost)"
        )

    def successor(self, current: Ed25519PrivateKey) -> str:
        """The public half of the key that is to follow the current one; empty while none is."""
        if not self.next.exists():
            return ""
        public = encoded(read_private(self.next).public_key())
        return "" if public == encoded(current.public_key()) else public

    def _follow(self) -> None:
        """Put the next key in the place of the one before, where files may be written."""
        with suppress(OSError):
            public = self.path.with_name(f"{self.path.name}.pub")
            self.next.replace(self.path)
            self.next.with_name(f"{self.next.name}.pub").replace(public)


def made(path: Path) -> Ed25519PrivateKey:
    """Make a key that only its owner may read, whole or not at all, and its public half beside it.

    Raises:
        FileExistsError: there is a file already: a key is never overwritten.
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    write_private(partial, key)
    try:
        os.link(partial, path)
    finally:
        partial.unlink()
    _tell(path, key)
    return key


def _tell(path: Path, key: Ed25519PrivateKey) -> None:
    """Write the public half beside a key."""
    path.with_name(f"{path.name}.pub").write_bytes(public_pem(key.public_key()))
