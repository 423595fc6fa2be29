"""Names on the bus: `tw.<cluster>.<class>.<slot>...`.

A Kubernetes name may contain dots and a NATS token may not; metric queries contain anything. A name
becomes a token by percent-encoding every byte outside `A-Za-z0-9-_=/:,` and is read back exactly.
The empty name (a cluster-scoped object's namespace) is `_`, and a name that is `_` is `%5F`.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NewType
from urllib.parse import unquote

import msgspec

Slot = NewType("Slot", str)
"""A slot as it stands in a subject: `0` to `<slots - 1>`, or `all`."""

ALL = Slot("all")
NO_NAMESPACE = "_"
CLUSTER_ID = "tw.cluster-id"
"""Of the stream's metadata: the uid of the cluster's `kube-system` namespace."""
STORE = "tw.store"
"""Of the stream's metadata: machine and folder of the server's store, `MACHINE:FOLDER`, where it is known."""
SLOT_HASH = "blake2b-8"
"""Name of the hash below, kept in the stream's metadata."""

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=/:,")


@lru_cache(maxsize=200_000)
def escape(name: str) -> str:
    """A name as one subject token."""
    if not name:
        return NO_NAMESPACE
    if name == NO_NAMESPACE:
        return "%5F"
    if _PLAIN.issuperset(name):
        return name
    return "".join(c if c in _PLAIN else "".join(f"%{b:02X}" for b in c.encode()) for c in name)


def unescape(token: str) -> str:
    """The name that `escape` made this token of."""
    if "%" not in token:  # almost every one
        return "" if token == NO_NAMESPACE else token
    return unquote(token, errors="strict")


@lru_cache(maxsize=100_000)
def slot_of(namespace: str, slots: int) -> Slot:
    """The slot of a namespace: `blake2b(namespace) mod slots`; cluster-scoped things are in `all`."""
    if not namespace:
        return ALL
    return Slot(str(int.from_bytes(blake2b(namespace.encode(), digest_size=8).digest(), "big") % slots))


class Parsed(msgspec.Struct, frozen=True):
    """A subject taken apart. `rest` are the tokens after the slot, still escaped."""

    cls: str
    slot: Slot
    rest: tuple[str, ...]


class Subjects:
    """The subjects of one cluster's stream."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.root = f"tw.{escape(cluster)}"
        self._after = len(self.root) + 1

    @property
    def everything(self) -> str:
        """The subject space of the stream."""
        return f"{self.root}.>"

    def fact(self, slot: Slot, kind: str, namespace: str, name: str) -> str:
        """`kind` is the kind of the object: the last message there is the last word on it."""
        return f"{self.root}.fact.{slot}.{kind}.{escape(namespace)}.{escape(name)}"

    def facts(self, slot: str, kind: str) -> str:
        """A filter: all facts of a kind in a slot (`*`: in all slots)."""
        return f"{self.root}.fact.{slot}.{kind}.>"

    def decision(self, slot: Slot, service: str, kind: str, namespace: str, name: str) -> str:
        return f"{self.root}.decision.{slot}.{service}.{kind}.{escape(namespace)}.{escape(name)}"

    def decisions(self, slot: str, service: str) -> str:
        """A filter: all decisions of a service in a slot (`*` for either)."""
        return f"{self.root}.decision.{slot}.{service}.>"

    def outcome(self, slot: Slot, kind: str, namespace: str, name: str) -> str:
        """`slot` is the slot of the decision that is answered, so that its decider sees it."""
        return f"{self.root}.outcome.{slot}.{kind}.{escape(namespace)}.{escape(name)}"

    def outcomes(self, slot: str) -> str:
        return f"{self.root}.outcome.{slot}.>"

    def ledger(self, slot: Slot, service: str, namespace: str, name: str) -> str:
        return f"{self.root}.ledger.{slot}.{service}.{escape(namespace)}.{escape(name)}"

    def ledgers(self, slot: str, service: str) -> str:
        return f"{self.root}.ledger.{slot}.{service}.>"

    def checkpoint(self, slot: Slot, service: str, part: str = "") -> str:
        """`part` names one of several positions of a service in a slot (a watcher's kinds)."""
        return f"{self.root}.checkpoint.{slot}.{service}" + (f".{escape(part)}" if part else "")

    def halt(self, slot: Slot, service: str) -> str:
        """Where a service says that it has stopped in a slot."""
        return f"{self.root}.halt.{slot}.{service}"

    def schedule(self, slot: Slot, service: str, key: str) -> str:
        return f"{self.root}.schedule.{slot}.{service}.{escape(key)}"

    def timer(self, slot: Slot, service: str, key: str) -> str:
        return f"{self.root}.timer.{slot}.{service}.{escape(key)}"

    def timers(self, slot: str, service: str) -> str:
        return f"{self.root}.timer.{slot}.{service}.>"

    def config(self, name: str) -> str:
        return f"{self.root}.config.{ALL}.{escape(name)}"

    @property
    def configs(self) -> str:
        return f"{self.root}.config.{ALL}.>"

    def parse(self, subject: str) -> Parsed:
        """Take a subject of this stream apart.

        Raises:
            ValueError: the subject is not one of this cluster's.
        """
        if not subject.startswith(self.root + "."):
            raise ValueError(
                f"subject {subject!r} is not one of cluster {self.cluster!r}: expected {self.root}.<class>.<slot>"
            )
        cls, _, place = subject[self._after :].partition(".")
        slot, *rest = place.split(".")
        return Parsed(cls, Slot(slot), tuple(rest))

    def slot_token(self, subject: str) -> Slot:
        """The slot of a subject of this stream, without the rest."""
        start = subject.index(".", self._after) + 1
        end = subject.find(".", start)
        return Slot(subject[start:] if end < 0 else subject[start:end])

    def class_token(self, subject: str) -> str:
        """The class of a subject of this stream, without the rest."""
        return subject[self._after :].partition(".")[0]

    def forged(self, subject: str, scheduler: str) -> bool:
        """Whether a message that a schedule published has no business on this subject.

        Bus permissions do not look at a schedule's target, so whoever may schedule could have a
        message stored anywhere. A schedule may only fire its own service's timer of the same key.
        What lies on `schedule` itself (cancellations name a schedule, too) is read by nobody.
        """
        if subject.startswith(f"{self.root}.schedule."):
            return False
        prefix = f"{self.root}.timer."
        return not (
            subject.startswith(prefix) and scheduler == f"{self.root}.schedule.{subject[len(prefix) :]}"
        )
