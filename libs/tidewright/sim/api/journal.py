"""The journal: what makes the store survive the death of its process.

One append-only file in the data folder. A line of head (`P` or `D`, version, uid, length, table, key, owners)
is followed by the object's JSON; it is handed to the operating system before the write is answered, so a killed
process loses nothing that it acknowledged (a machine that loses power may lose the last moments). On start
the file is read, a torn last entry is dropped, and a file that is mostly history is rewritten.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tidewright.sim.api.store import Change, Record, Store

FORMAT = 1
_REWRITE_FROM_BYTES = 8 * 1024 * 1024
_REWRITE_RATIO = 3


class JournalError(RuntimeError):
    """A journal that cannot be read; the message names the file and what is wrong with it."""


class _Head(msgspec.Struct, array_like=True):
    operation: str
    rv: int
    length: int = 0
    table: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    owners: tuple[str, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode


class FileJournal:
    """The journal of one store, in one folder that one process uses."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "objects.journal"
        self._fd = -1

    def open(self, store: Store) -> None:
        """Read the journal into the store, then write on behind it. Raises JournalError, OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        size = self._read(store) if self._path.exists() else 0
        live = sum(len(record.raw) for table in store.tables.values() for record in table.objects.values())
        if size == 0 or (size > _REWRITE_FROM_BYTES and size > _REWRITE_RATIO * live):
            self._rewrite(store)
        else:
            os.truncate(self._path, size)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def append(self, change: Change, table: str, record: Record) -> None:
        """Hand one change to the operating system."""
        if self._fd < 0:
            return
        data = _entry(change, table, record)
        written = os.write(self._fd, data)
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def close(self) -> None:
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self, store: Store) -> int:
        """Restore the store; returns the length of what could be read whole."""
        data = self._path.read_bytes()
        position, rv = 0, 1
        while position < len(data):
            end = data.find(b"\n", position)
            if end < 0:
                break
            try:
                head = _decode_head(data[position:end])
            except msgspec.DecodeError as error:
                raise JournalError(
                    f"{self._path}: byte {position}: not an entry of a journal ({error}); move the file away to start anew"
                ) from error
            if head.operation == "F":
                if head.rv != FORMAT:
                    raise JournalError(f"{self._path}: format {head.rv}, this version reads {FORMAT}")
                position = end + 1
                continue
            body_end = end + 1 + head.length
            if body_end + 1 > len(data):
                break
            rv = max(rv, head.rv)
            if head.operation == "P":
                record = Record(
                    head.namespace, head.name, head.uid, head.rv, data[end + 1 : body_end], tuple(head.owners)
                )
                store.restore(store.table(head.table), record)
            elif head.operation == "D":
                store.restore_removal(store.table(head.table), f"{head.namespace}/{head.name}")
            position = body_end + 1
        store.restored(rv)
        return position

    def _rewrite(self, store: Store) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(_encode(_Head("F", FORMAT)) + b"\n")
            file.write(_encode(_Head("V", store.rv)) + b"\n\n")
            for table in store.tables.values():
                for record in table.objects.values():
                    file.write(_entry("ADDED", table.name, record))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


def _entry(change: Change, table: str, record: Record) -> bytes:
    if change == "DELETED":
        return _encode(_Head("D", record.rv, 0, table, record.namespace, record.name)) + b"\n\n"
    head = _Head(
        "P", record.rv, len(record.raw), table, record.namespace, record.name, record.uid, record.owners
    )
    return b"%s\n%s\n" % (_encode(head), record.raw)
