"""The keys on the log: which are in force at a message, and who may write what with them.

A key record is believed by the root key's signature over its content, whoever put it there; so the
watcher can say it again before retention takes it, and nobody can bring an earlier one back.
"""

from __future__ import annotations

import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tidewright.events.config import KeysSet
from tidewright.log import keyfiles
from tidewright.log.belief import Cause
from tidewright.log.reader import Record
from tidewright.log.subjects import Subjects

PART = "keys"
"""Of the configuration: the key record lies on `config.all.keys`."""
FORMAT = b"tidewright-keys-1"
AUTHENTICATED = frozenset(("fact", "decision", "outcome", "ledger", "checkpoint", "config", "halt"))
"""Classes of subjects that need a signature. A timer is the server's own message: who may set it is known by the
schedule that it names, and a fold takes only those that a decision of its own asked for. Nobody reads the others."""

_decoder = msgspec.json.Decoder(KeysSet)


class Keys:
    """One key record, ready for use."""

    def __init__(self, said: KeysSet, subjects: Subjects) -> None:
        """Raises ValueError: one of the keys is none."""
        self.said = said
        self.log = said.log
        self.by_id: dict[tuple[str, str], Ed25519PublicKey] = {}
        for service_keys in said.services:
            for text in service_keys.keys:
                key = keyfiles.decoded(text)
                self.by_id[service_keys.service, keyfiles.key_id(key)] = key
        self._may = {entry.service: _pattern(subjects.root, entry.writes) for entry in said.services}
        self.may = lru_cache(maxsize=50_000)(self._may_write)

    def _may_write(self, service: str, subject: str) -> bool:
        pattern = self._may.get(service)
        return pattern is not None and pattern.fullmatch(subject) is not None

    def has(self, service: str, key: Ed25519PublicKey) -> bool:
        """Whether a key is one of a service's."""
        return (service, keyfiles.key_id(key)) in self.by_id


def _pattern(root: str, filters: Sequence[str]) -> re.Pattern[str]:
    """Subjects that match one of the filters, by the bus's rules, as an expression."""
    token, rest = r"[^.]+", r"[^.]+(?:\.[^.]+)*"
    alternatives = [
        r"\.".join(token if t == "*" else rest if t == ">" else re.escape(t) for t in pattern.split("."))
        for pattern in filters
    ]
    return re.compile(f"{re.escape(root)}\\.(?:{'|'.join(alternatives) or '(?!)'})")


class Keyring:
    """The key records of one log, as they are met in its order."""

    def __init__(self, subjects: Subjects, anchors: Sequence[Ed25519PublicKey] | None) -> None:
        """`anchors` are the root keys that vouch for key records; None takes any, which vouches for nothing."""
        self._subjects = subjects
        self._anchors = anchors
        self.subject = subjects.config(PART)
        self._from: list[int] = []
        self._keys: list[Keys] = []
        self._good: dict[int, Record] = {}
        """The key records that are believed, by sequence."""

    @property
    def latest(self) -> Keys | None:
        """The last key record; None before the first."""
        return self._keys[-1] if self._keys else None

    def at(self, seq: int) -> Keys | None:
        """The key record in force at a message; None when there is none on the log."""
        place = bisect_right(self._from, seq)
        # What retention has left of the time before the first record that is left was written under it, too.
        return self._keys[max(place, 1) - 1] if self._keys else None

    def is_history(self, seq: int) -> bool:
        """Whether a message was written before the log had keys."""
        return bool(self._keys) and seq <= self._keys[-1].said.history

    def take(self, record: Record) -> Cause | None:
        """Take the next message on the subject of key records; why it is not believed."""
        if record.seq in self._good:
            return None
        latest = self.latest
        try:
            said = _decoder.decode(record.body)
            keys = Keys(said, self._subjects)
        except (msgspec.MsgspecError, ValueError):
            return Cause.KEYS
        if self._anchors is not None and not self._vouched(said):
            return Cause.KEYS
        if latest is not None:
            again = _content(said) == _content(latest.said)
            if not again and (said.generation <= latest.said.generation or said.log != latest.log):
                return Cause.KEYS
            if again:
                self._good[record.seq] = record
                return None
        self._good[record.seq] = record
        self._from.append(record.seq)
        self._keys.append(keys)
        return None

    def believes(self, record: Record) -> Cause | None:
        """Why a message on the subject of key records, which was taken before, is not believed."""
        recorded = self._good.get(record.seq)
        return None if recorded is not None and recorded.body == record.body else Cause.KEYS

    @property
    def records(self) -> tuple[Record, ...]:
        """The key records that are believed, in order."""
        return tuple(self._good.values())

    def _vouched(self, said: KeysSet) -> bool:
        return any(
            said.root == keyfiles.key_id(anchor)
            and keyfiles.verified(anchor, said.signature, statement(self.subject, said))
            for anchor in self._anchors or ()
        )


def _content(said: KeysSet) -> KeysSet:
    """A key record without what is not signed."""
    return msgspec.structs.replace(said, at=0.0, refresh=False)


def statement(subject: str, said: KeysSet) -> bytes:
    """What the root key signs: a key record's content and the log that it is for."""
    unsigned = msgspec.structs.replace(_content(said), signature="")
    return b"\0".join((FORMAT, subject.encode(), msgspec.json.encode(unsigned)))


def vouched_for(said: KeysSet, subject: str, root: Ed25519PrivateKey) -> KeysSet:
    """A key record as the root key signs it, to lie on `subject`."""
    said = msgspec.structs.replace(said, root=keyfiles.key_id(root.public_key()))
    signature = b64encode(root.sign(statement(subject, said))).decode()
    return msgspec.structs.replace(said, signature=signature)
