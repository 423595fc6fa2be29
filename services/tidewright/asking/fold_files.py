"""Folded states in files of the asker's own, so that another command need not fold from far away either.

They lie in the user's cache folder, which nobody else can look into, and never in the buckets of the services: who asks
writes nothing to a log. Each is named by the log, the service, the version of its state, the digest of its code, the slot,
the namespace that alone was folded, and the sequence. Nothing is believed of a file but what its digest and its own words
bear out, and then it counts only where the log has the checkpoint that it was made at: one that is cut off, altered or of
something else is removed, and the log is folded instead. They are bounded; what was used least goes first.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot, decode

MOST_BYTES = 256 * 2**20
"""Of all files together."""
LARGEST = 32 * 2**20
"""Of one of them."""
_MAGIC = b"tidewright fold 1\n"
_SUFFIX = ".fold"
_DIGEST = 32


class Whose(NamedTuple):
    """Which fold a state is one of.

    Attributes:
        version: of the service's state.
        namespace: the one that alone was folded; empty: all of the slot.
    """

    service: str
    version: int
    slot: str
    namespace: str


class KeptFold(msgspec.Struct, frozen=True):
    """A state at a checkpoint.

    Attributes:
        checkpoint: the record of it: where the log has another one there, it is another log by now.
        position: sequence up to which everything is folded.
        data: the state, as snapshots are stored.
    """

    checkpoint: Record
    position: int
    data: bytes

    def snapshot(self) -> Snapshot:
        """What a fold goes on from.

        Raises:
            ValueError: it is none.
        """
        return decode(self.data)


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    log: str
    software: str
    whose: Whose
    position: int
    checkpoint: Record
    data: bytes


def folder() -> Path:
    """Where they lie."""
    import platformdirs

    return platformdirs.user_cache_path("tidewright", appauthor=False) / "folds"


class FoldFiles:
    """The states of one log that are kept in files. Where these cannot be had, none is kept, and nobody is told."""

    def __init__(self, log: str, *, where: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        """`log` tells the log from every other one."""
        self._log = log
        self._where = where or folder()
        self._most_bytes = most_bytes
        self._usable: bool | None = None

    def nearest(self, whose: Whose, software: str, up_to: int) -> KeptFold | None:
        """The last one at or before a sequence, folded by this software."""
        name = self._name(whose, software)
        places = (path.name[len(name) + 1 : -len(_SUFFIX)] for path in self._files(f"{name}-*{_SUFFIX}"))
        for position in sorted((int(p) for p in places if p.isdecimal() and int(p) <= up_to), reverse=True):
            if (kept := self._read(whose, software, position)) is not None:
                return kept
        return None

    def put(self, whose: Whose, software: str, kept: KeptFold) -> None:
        """Keep one, whole or not at all."""
        if len(kept.data) > LARGEST or not self._made():
            return
        body = msgspec.msgpack.encode(
            _Stored(self._log, software, whose, kept.position, kept.checkpoint, kept.data)
        )
        import tempfile  # for what takes long alone

        with suppress(OSError):
            descriptor, temporary = tempfile.mkstemp(dir=self._where, suffix=".new")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(body).digest() + body)
                Path(temporary).replace(self._path(whose, software, kept.position))
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
        self._bound()

    def drop(self, whose: Whose, software: str, position: int) -> None:
        """Remove one: it is not of this log."""
        with suppress(OSError):
            self._path(whose, software, position).unlink(missing_ok=True)

    def _read(self, whose: Whose, software: str, position: int) -> KeptFold | None:
        path = self._path(whose, software, position)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                content = file.read(2 * LARGEST)
            stored = _stored(content)
        except OSError:
            return None
        if stored is None or (stored.log, stored.software, stored.whose, stored.position) != (
            self._log, software, whose, position,
        ):  # fmt: skip
            self.drop(whose, software, position)
            return None
        with suppress(OSError):
            os.utime(path)
        return KeptFold(stored.checkpoint, position, stored.data)

    def _name(self, whose: Whose, software: str) -> str:
        return hashlib.sha256(msgspec.msgpack.encode((self._log, software, whose))).hexdigest()[:32]

    def _path(self, whose: Whose, software: str, position: int) -> Path:
        return self._where / f"{self._name(whose, software)}-{position}{_SUFFIX}"

    def _files(self, pattern: str) -> list[Path]:
        return list(self._where.glob(pattern)) if self._is_ours() else []

    def _made(self) -> bool:
        with suppress(OSError):
            self._where.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._is_ours()

    def _is_ours(self) -> bool:
        """Whether the folder is there, ours, and closed to others."""
        if self._usable:
            return True
        try:
            found = self._where.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                return False
            if stat.S_IMODE(found.st_mode) != 0o700:
                self._where.chmod(0o700)
        except OSError:
            return False
        self._usable = True
        return True

    def _bound(self) -> None:
        """Remove what was used least, until what is left is few enough."""
        files = sorted(self._sizes())
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self._most_bytes:
                return
            with suppress(OSError):
                path.unlink()
            total -= size

    def _sizes(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._files("*"):
            with suppress(OSError):
                found = path.lstat()
                yield found.st_mtime, found.st_size, path


def _stored(content: bytes) -> _Stored | None:
    """What a file says; None for one that is not as it was written."""
    head = len(_MAGIC) + _DIGEST
    body = content[head:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[len(_MAGIC) : head]:
        return None
    try:
        return msgspec.msgpack.decode(body, type=_Stored)
    except msgspec.MsgspecError:
        return None
