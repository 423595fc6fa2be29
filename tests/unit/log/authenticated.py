"""Keys and signed connections for tests: a root key, services with keys, and a log that believes nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.events import registry
from tidewright.events.config import KeysSet, ServiceKeys
from tidewright.log import keyfiles
from tidewright.log.connection import Log, Message
from tidewright.log.keyring import vouched_for
from tidewright.log.signer import Signer


def _decider(name: str) -> tuple[str, ...]:
    return (*(f"{c}.*.{name}.>" for c in ("decision", "schedule", "ledger")), f"checkpoint.*.{name}")


WRITES = {
    "watcher": ("fact.>", "config.>", "checkpoint.*.watcher", "checkpoint.*.watcher.>"),
    "autoscaler": _decider("autoscaler"),
    "spread": _decider("spread"),
    "actuator": ("outcome.>", "checkpoint.*.actuator"),
}


@dataclass
class Authority:
    """A root key, and the keys of services in files."""

    folder: Path
    root: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    keys: dict[str, list[Ed25519PrivateKey]] = field(default_factory=dict)
    generation: int = 0

    def key(self, service: str) -> Path:
        """The file of a service's signing key; made the first time."""
        path = self.folder / f"{service}.key"
        if not path.exists():
            self.renew(service)
        return path

    def renew(self, service: str) -> Ed25519PrivateKey:
        """Give a service another key; its former ones are kept in `keys`."""
        key = Ed25519PrivateKey.generate()
        self.keys.setdefault(service, []).append(key)
        path = self.folder / f"{service}.key"
        path.unlink(missing_ok=True)
        keyfiles.write_private(path, key)
        return key

    def record(self, *, history: int = 0, generation: int | None = None, at: float = 1.0) -> KeysSet:
        """The next key record: all keys that there are."""
        for service in WRITES:
            self.key(service)
        self.generation = self.generation + 1 if generation is None else generation
        services = tuple(
            ServiceKeys(
                service=name,
                keys=tuple(keyfiles.encoded(k.public_key()) for k in self.keys[name]),
                writes=WRITES[name],
            )
            for name in WRITES
        )
        return KeysSet(at=at, log="test-log", generation=self.generation, history=history, services=services)

    async def install(
        self, log: Log, said: KeysSet | None = None, root: Ed25519PrivateKey | None = None
    ) -> int:
        """Put a key record on the log; its sequence."""
        subject = log.subjects.config("keys")
        body = registry.encode(vouched_for(said or self.record(), subject, root or self.root))
        return (await log.commit([Message(subject, body)])).last_seq

    async def connect(self, url: str, service: str = "", *, believing: bool = True) -> Log:
        """A connection that signs as a service, if one is named, and believes only what is signed."""
        log = await Log.connect(url, "test", timeout_s=10.0)
        log.authenticate(
            signer=Signer(service, self.key(service)) if service else None,
            anchors=[self.root.public_key()] if believing else None,
        )
        await log.adopt_slots()
        return log


async def stored(log: Log, pattern: str = "") -> list[tuple[int, str, bytes]]:
    """What a reader of everything, or of a filter, believes."""
    async with log.reader([pattern or log.subjects.everything]) as reader:
        return [(r.seq, r.subject, r.body) async for r in reader.until_current()]


def bodies(found: Sequence[tuple[int, str, bytes]]) -> list[bytes]:
    """The bodies of what is stored."""
    return [body for _, _, body in found]
