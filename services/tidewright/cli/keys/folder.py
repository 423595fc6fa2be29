"""A folder of keys: `root.key` and `root.pub`, and of each service `<name>.key` and `<name>.<id>.pub`.

The record on the log is made of the `.pub` files: several of one service while a key takes another's
place, and a key is withdrawn by deleting its file. The root key signs the record and is used for
nothing else; it is kept where no service runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.asking.errors import BadInput
from tidewright.cli.contract.writing import WRITES
from tidewright.events.config import ServiceKeys
from tidewright.log import keyfiles

ROOT = "root"


@dataclass(frozen=True)
class KeyFolder:
    """Keys on this machine."""

    path: Path

    def key(self, name: str) -> Path:
        """The file of a private key."""
        return self.path / f"{name}.key"

    @property
    def anchor(self) -> Path:
        """The trust anchor: the root key's public half."""
        return self.path / f"{ROOT}.pub"

    def make(self, renewed: Iterable[str] = ()) -> list[Path]:
        """Make the keys that are missing, and other ones for `renewed` services; returns the private files written.

        Raises:
            BadInput: the folder cannot be written, or a name is no service's.
        """
        again = set(renewed)
        if unknown := sorted(again - WRITES.keys()):
            raise BadInput(f"--renew {unknown[0]!r}: no such service: valid are {', '.join(WRITES)}")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)
            new_files = [
                self._made(name) for name in (ROOT, *WRITES) if name in again or not self.key(name).exists()
            ]
        except OSError as error:
            raise BadInput(f"{self.path} cannot be written: {error.strerror}") from error
        return new_files

    def _made(self, name: str) -> Path:
        key, path = Ed25519PrivateKey.generate(), self.key(name)
        public = key.public_key()
        beside = path.with_name(f"{name}.key.new")
        beside.unlink(missing_ok=True)
        keyfiles.write_private(beside, key)
        stored = self.anchor if name == ROOT else self.path / f"{name}.{keyfiles.key_id(public)}.pub"
        stored.write_bytes(keyfiles.public_pem(public))
        beside.replace(path)
        return path

    def root(self) -> Ed25519PrivateKey:
        """The root key. Raises BadKey: it is not there, or none."""
        return keyfiles.read_private(self.key(ROOT))

    def services(self) -> tuple[ServiceKeys, ...]:
        """What the record says: of every service its public keys, and what it may write.

        Raises:
            BadKey: a file is no public key.
            BadInput: a service has none.
        """
        services: list[ServiceKeys] = []
        for name, writes in WRITES.items():
            files = sorted(self.path.glob(f"{name}.*.pub"))
            keys = [key for file in files for key in keyfiles.read_anchors(file)]
            if not keys:
                raise BadInput(
                    f"{self.path} has no public key of {name}: run `tidewright keys new {self.path}`"
                )
            services.append(ServiceKeys(service=name, keys=tuple(map(keyfiles.encoded, keys)), writes=writes))
        return tuple(services)
