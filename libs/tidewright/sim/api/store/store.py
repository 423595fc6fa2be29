"""The store: encoded objects by kind and key, one counter of resourceVersions, a bounded history.

Objects are kept as the JSON bytes that go over the wire; a `Record` is never changed, only replaced.
Every write takes the next resourceVersion (one counter over all kinds, as etcd has), is appended to the
kind's history, handed to the kind's listeners and, with a journal, written to it before anything is
answered. A list as of an earlier version is the present one with the history undone, which is what
makes the pages of a `continue` consistent; what the history no longer covers is Expired (410).

The history is bounded in number, per kind, and in memory, over all kinds: whoever is further behind lists anew.

Nothing here knows about HTTP, validation or defaults. Not safe for several threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from heapq import merge
from typing import Any, Literal, Protocol

import msgspec

from tidewright.sim.api import errors

Change = Literal["ADDED", "MODIFIED", "DELETED"]

HISTORY_BYTES = 64 * 1024 * 1024
"""What the changes of all kinds that can still be watched may take; as much as the objects themselves, where that is more."""
EVENT_BYTES = 400
"""What a change takes beside the JSON of its object: the event, the record, its key and names."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Record:
    """One stored version of one object: `raw` is its JSON, `owners` the uids of its owners."""

    __slots__ = ("key", "name", "namespace", "owners", "raw", "rv", "uid")

    def __init__(
        self, namespace: str, name: str, uid: str, *, rv: int, raw: bytes, owners: tuple[str, ...]
    ) -> None:
        self.key = f"{namespace}/{name}"
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.rv = rv
        self.raw = raw
        self.owners = owners

    def decode(self) -> dict[str, Any]:
        """A fresh copy of the object, the caller's to change."""
        return _decode(self.raw)  # type: ignore[no-any-return]  # an object by construction


class Event:
    """One change: `record` is the object after it (for DELETED its last state under the new version)."""

    __slots__ = ("change", "previous", "record", "rv")

    def __init__(self, change: Change, rv: int, record: Record, previous: Record | None) -> None:
        self.change = change
        self.rv = rv
        self.record = record
        self.previous = previous


class Listener(Protocol):
    """Who is told of each change, in order, while it is being made: must be quick and not write."""

    def __call__(self, event: Event, /) -> None: ...


class Journal(Protocol):
    """Where writes are made durable before they are answered."""

    def append(self, change: Change, table: str, record: Record) -> None: ...


def _key(record: Record) -> str:
    return record.key


class Table:
    """The objects of one kind (`group/plural`)."""

    def __init__(self, name: str, floor: int, history_limit: int) -> None:
        self.name = name
        self.objects: dict[str, Record] = {}
        self.keys: list[str] = []
        self.history: list[Event] = []
        self.floor = floor  # changes at or below this version are no longer in the history
        self.changed_rv = floor  # the version of the last change
        self.listeners: list[Listener] = []
        self._limit = history_limit

    def get(self, namespace: str, name: str) -> Record | None:
        return self.objects.get(f"{namespace}/{name}")

    def count(self, namespace: str = "") -> int:
        if not namespace:
            return len(self.keys)
        low, high = self._bounds(namespace)
        return high - low

    def _bounds(self, namespace: str) -> tuple[int, int]:
        # "0" is the character after "/": every key of the namespace lies between the two
        return bisect_left(self.keys, f"{namespace}/"), bisect_left(self.keys, f"{namespace}0")

    def scan(self, namespace: str = "", after: str = "") -> Iterator[Record]:
        """Records in key order, of one namespace or of all, behind the key `after`."""
        low, high = self._bounds(namespace) if namespace else (0, len(self.keys))
        if after:
            low = max(low, bisect_right(self.keys, after))
        objects = self.objects
        return (objects[key] for key in self.keys[low:high])

    def scan_at(self, rv: int, namespace: str = "", after: str = "") -> Iterator[Record]:
        """Records as they were at version `rv`. Raises Expired when the history does not reach back."""
        undone = self._undone(rv)
        if not undone:
            return self.scan(namespace, after)
        kept = (record for record in self.scan(namespace, after) if record.key not in undone)
        back = sorted(self._put_back(undone, namespace, after), key=_key)
        return merge(kept, back, key=_key)

    def count_at(self, rv: int, namespace: str = "", after: str = "") -> int:
        """How many records `scan_at` gives, without going through them."""
        low, high = self._bounds(namespace) if namespace else (0, len(self.keys))
        if after:
            low = max(low, bisect_right(self.keys, after))
        undone = self._undone(rv)
        present = sum(
            key in self.objects and key > after and (not namespace or key.startswith(f"{namespace}/"))
            for key in undone
        )
        return max(high - low, 0) - present + len(self._put_back(undone, namespace, after))

    def _undone(self, rv: int) -> dict[str, Record | None]:
        """What changed after a version, as it was before. Raises Expired."""
        if rv >= self.changed_rv:
            return {}
        undone: dict[str, Record | None] = {}
        for event in self.since(rv):
            undone.setdefault(event.record.key, event.previous)
        return undone

    @staticmethod
    def _put_back(undone: dict[str, Record | None], namespace: str, after: str) -> list[Record]:
        return [
            record
            for record in undone.values()
            if record is not None and record.key > after and (not namespace or record.namespace == namespace)
        ]

    def since(self, rv: int) -> list[Event]:
        """Changes after version `rv`, oldest first. Raises Expired when they are no longer all there."""
        if rv < self.floor:
            raise errors.too_old(rv, self.floor)
        return self.history[bisect_right(self.history, rv, key=lambda event: event.rv) :]

    def forget(self, floor: int) -> None:
        """Drop the history up to `floor`, so that older watches and pages expire."""
        self.history = self.since(floor) if floor > self.floor else self.history
        self.floor = max(self.floor, floor)

    def trim(self, rv: int) -> None:
        """Drop the changes up to version `rv`; a kind that has none of them keeps how far back it reaches."""
        count = bisect_right(self.history, rv, key=lambda event: event.rv)
        if count:
            self.floor = self.history[count - 1].rv
            del self.history[:count]

    def apply(self, event: Event) -> None:
        record = event.record
        if event.change == "DELETED":
            del self.objects[record.key]
            del self.keys[bisect_left(self.keys, record.key)]
        else:
            if event.previous is None:
                insort(self.keys, record.key)
            self.objects[record.key] = record
        self.changed_rv = event.rv
        self.history.append(event)
        if len(self.history) > 2 * self._limit:  # in chunks, so that trimming is cheap per change
            self.floor = self.history[-self._limit - 1].rv
            del self.history[: -self._limit]


class Store:
    """All tables, the counter and the index of owners.

    Attributes:
        live_bytes: JSON of all objects that there are.
    """

    def __init__(
        self,
        *,
        history_limit: int = 20_000,
        history_bytes: int = HISTORY_BYTES,
        journal: Journal | None = None,
    ) -> None:
        """`history_limit`: changes per kind that are kept (up to twice as many); `history_bytes`: see `HISTORY_BYTES`."""
        self.rv = 1
        self.live_bytes = 0
        self.tables: dict[str, Table] = {}
        self.journal = journal
        self.dependents: dict[str, set[tuple[str, str]]] = {}  # owner's uid to (table, key)
        self._history_limit = history_limit
        self._history_bytes = history_bytes
        self._kept_bytes = 0  # of the history; no less than it is

    def table(self, name: str) -> Table:
        """The table of a kind; made when it is first asked for."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = Table(name, self.rv, self._history_limit)
        return table

    def put(self, table: Table, obj: dict[str, Any]) -> Record:
        """Store an object (new or changed) under the next version, which is written into it."""
        metadata = obj["metadata"]
        self.rv += 1
        metadata["resourceVersion"] = str(self.rv)
        references = metadata.get("ownerReferences")
        owners = tuple([reference["uid"] for reference in references]) if references else ()
        record = Record(
            metadata.get("namespace", ""),
            metadata["name"],
            metadata["uid"],
            rv=self.rv,
            raw=_encode(obj),
            owners=owners,
        )
        previous = table.objects.get(record.key)
        self._commit(table, Event("MODIFIED" if previous else "ADDED", self.rv, record, previous))
        return record

    def remove(self, table: Table, record: Record, obj: dict[str, Any]) -> Record:
        """Remove an object for good; `obj` is its last state, which watchers are shown."""
        self.rv += 1
        obj["metadata"]["resourceVersion"] = str(self.rv)
        last = Record(
            record.namespace, record.name, record.uid, rv=self.rv, raw=_encode(obj), owners=record.owners
        )
        self._commit(table, Event("DELETED", self.rv, last, record))
        return last

    def drop_table(self, name: str) -> None:
        """Forget a kind that is no longer served."""
        table = self.tables.pop(name, None)
        if table is not None:
            self.live_bytes -= sum(len(record.raw) for record in table.objects.values())

    def restore(self, table: Table, record: Record) -> None:
        """Put back what a journal holds: no history, no listeners; keys are sorted by `restored`."""
        previous = table.objects.get(record.key)
        if previous is not None:
            self._unlink(table, previous)
        table.objects[record.key] = record
        self._link(table, record)

    def restore_removal(self, table: Table, key: str) -> None:
        """Take away what the journal says was removed."""
        record = table.objects.pop(key, None)
        if record is not None:
            self._unlink(table, record)

    def restored(self, rv: int) -> None:
        """End of `restore`: continue at version `rv`; what came before it can no longer be watched."""
        self.rv = max(self.rv, rv)
        self.live_bytes = 0
        for table in self.tables.values():
            self.live_bytes += sum(len(record.raw) for record in table.objects.values())
            table.keys = sorted(table.objects)
            table.floor = table.changed_rv = self.rv

    def forget_history(self) -> None:
        """What a restart of the API server does to watches: older versions are gone."""
        for table in self.tables.values():
            table.forget(self.rv)

    def _commit(self, table: Table, event: Event) -> None:
        if self.journal is not None:
            self.journal.append(event.change, table.name, event.record)
        if event.previous is not None and event.previous.owners:
            self._unlink(table, event.previous)
        if event.change != "DELETED" and event.record.owners:
            self._link(table, event.record)
        table.apply(event)
        size = len(event.record.raw)
        self.live_bytes += (size if event.change != "DELETED" else 0) - (
            len(event.previous.raw) if event.previous is not None else 0
        )
        self._kept_bytes += size + EVENT_BYTES
        if self._kept_bytes > max(self._history_bytes, self.live_bytes):
            self._trim()
        for listener in table.listeners:
            listener(event)

    def _trim(self) -> None:
        """Drop the oldest changes, of whatever kind, until the history takes half of what it may."""
        most, kept = max(self._history_bytes, self.live_bytes) // 2, 0
        newest_first = merge(
            *(reversed(table.history) for table in self.tables.values()),
            key=lambda event: event.rv,
            reverse=True,
        )
        for event in newest_first:
            size = len(event.record.raw) + EVENT_BYTES
            if kept + size > most:
                for table in self.tables.values():
                    table.trim(event.rv)
                break
            kept += size
        self._kept_bytes = kept

    def _link(self, table: Table, record: Record) -> None:
        for uid in record.owners:
            self.dependents.setdefault(uid, set()).add((table.name, record.key))

    def _unlink(self, table: Table, record: Record) -> None:
        for uid in record.owners:
            dependents = self.dependents.get(uid)
            if dependents is not None:
                dependents.discard((table.name, record.key))
                if not dependents:
                    del self.dependents[uid]
