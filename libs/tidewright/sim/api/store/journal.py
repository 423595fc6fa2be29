"""The journal: what makes the store survive the death of its process.

One append-only file in the data folder. A line of head (`P` or `D`, version, uid, length, table, key, owners)
is followed by the object's JSON; it is handed to the operating system before the write is answered, so a killed
process loses nothing that it acknowledged (a machine that loses power may lose the last moments). What could not be
written whole, because the disk is full, is cut off again, and the write is refused. On start the file is read, a
half-written entry is dropped (the last one, or one that an earlier version left in the middle), and a file that is
mostly history is rewritten: on start, and while it is written.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import structlog

from tidewright.log.disk import is_full, no_space
from tidewright.sim.api import errors
from tidewright.sim.api.store.store import Change, Record, Store

FORMAT = 1
_REWRITE_FROM_BYTES = 8 * 1024 * 1024
_REWRITE_RATIO = 3
_BEGINNING = re.compile(rb'\["[PD]",\d+,')
"""How an entry begins; in an object's JSON these bytes would stand behind a name and a colon, or in quotes."""

logger = structlog.get_logger(__name__)


class JournalError(RuntimeError):
    """A journal that cannot be read, or begun; the message names the file and what is wrong with it."""


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
        self._size = 0
        self._torn = False
        self._store: Store | None = None
        self._rewrite_from = 0

    def open(self, store: Store) -> None:
        """Read the journal into the store, then write on behind it. Raises JournalError, OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        size = self._read(store) if self._path.exists() else 0
        cut = False
        if size == 0 or self._torn or _is_mostly_history(size, store):
            cut = self._rewritten(store, needed=size == 0)
        if not cut:
            os.truncate(self._path, size)
            self._go_on(os.open(self._path, os.O_WRONLY | os.O_APPEND))
        self._store, self._rewrite_from = store, 0

    def _go_on(self, fd: int) -> None:
        """Write on behind what this file holds."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._torn, self._size = fd, False, os.fstat(fd).st_size

    def append(self, change: Change, table: str, record: Record) -> None:
        """Hand one change to the operating system.

        Raises:
            ApiError: the disk is full; nothing of the change is in the journal.
        """
        if self._fd < 0:
            return
        self._shorten()
        data, written = _entry(change, table, record), 0
        try:
            if self._torn:
                self._cut()
            while written < len(data):
                self._torn = True
                written += os.write(self._fd, data[written:])
        except OSError as error:
            if self._torn:
                self._cut()
            if is_full(error):
                raise errors.no_space(self._path.parent) from error
            raise
        self._torn = False
        self._size += len(data)

    def _shorten(self) -> None:
        """Rewrite the file when it is mostly history. Where that fails it is tried again once the file is twice as long."""
        store = self._store
        if store is None or self._size < self._rewrite_from or not _is_mostly_history(self._size, store):
            return
        try:
            self._rewrite(store)
        except OSError as error:
            self._path.with_suffix(".new").unlink(missing_ok=True)
            self._rewrite_from = 2 * self._size
            logger.warning("the journal cannot be shortened", journal=str(self._path), error=str(error))

    def _cut(self) -> None:
        """Take away what was written in part: what comes next must begin where an entry ends."""
        os.ftruncate(self._fd, self._size)
        self._torn = False

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
                if position and (following := _following(data, position)):
                    position = self._skip(position, following)
                    continue
                raise JournalError(
                    f"{self._path}: byte {position}: not an entry of a journal ({error}); move the file away to start anew"
                ) from error
            if head.operation == "F":
                if head.rv != FORMAT:
                    raise JournalError(f"{self._path}: format {head.rv}, this version reads {FORMAT}")
                position = end + 1
                continue
            body_end = end + 1 + head.length
            if data[body_end : body_end + 1] != b"\n":
                if following := _following(data, position):
                    position = self._skip(position, following)
                    continue
                break
            rv = max(rv, head.rv)
            if head.operation == "P":
                record = Record(
                    head.namespace,
                    head.name,
                    head.uid,
                    rv=head.rv,
                    raw=data[end + 1 : body_end],
                    owners=tuple(head.owners),
                )
                store.restore(store.table(head.table), record)
            elif head.operation == "D":
                store.restore_removal(store.table(head.table), f"{head.namespace}/{head.name}")
            position = body_end + 1
        store.restored(rv)
        return position

    def _skip(self, position: int, following: int) -> int:
        """Where to read on behind a half-written entry, of a change that nobody was told of."""
        logger.warning(
            "a half-written entry of the journal is left out",
            journal=str(self._path), byte=position, bytes=following - position,
        )  # fmt: skip
        self._torn = True  # the file is written anew without it
        return following

    def _rewritten(self, store: Store, *, needed: bool) -> bool:
        """Whether the file was written anew; a full disk leaves it as it is, unless that is `needed`."""
        try:
            self._rewrite(store)
        except OSError as error:
            if not is_full(error):
                raise
            self._path.with_suffix(".new").unlink(missing_ok=True)
            if needed or self._torn:
                raise JournalError(no_space(self._path.parent)) from error
            return False
        return True

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
        fd = os.open(fresh, os.O_WRONLY | os.O_APPEND)
        try:
            fresh.replace(self._path)
        except OSError:
            os.close(fd)
            raise
        self._go_on(fd)


def _is_mostly_history(size: int, store: Store) -> bool:
    return size > _REWRITE_FROM_BYTES and size > _REWRITE_RATIO * store.live_bytes


def _following(data: bytes, position: int) -> int:
    """Where the first whole entry begins behind a half-written one at `position`; 0 when there is none."""
    for match in _BEGINNING.finditer(data, position + 1):
        begin = match.start()
        end = data.find(b"\n", begin)
        if end < 0:
            return 0
        try:
            head = _decode_head(data[begin:end])
        except msgspec.DecodeError:
            continue
        body_end = end + 1 + head.length
        if data[body_end : body_end + 1] == b"\n":
            return begin
    return 0


def _entry(change: Change, table: str, record: Record) -> bytes:
    if change == "DELETED":
        return _encode(_Head("D", record.rv, 0, table, record.namespace, record.name)) + b"\n\n"
    head = _Head(
        "P", record.rv, len(record.raw), table, record.namespace, record.name, record.uid, record.owners
    )
    return b"%s\n%s\n" % (_encode(head), record.raw)
