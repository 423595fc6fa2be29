"""Room on a disk: how much there is, how much is kept free, and the words when there is none.

The log stops before the disk is full: a nats-server that meets the end of its disk takes no append to that
stream any more until it is started again, and says so to nobody who waits.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_KEPT_FREE: Final = 64 << 20
"""Bytes that the log leaves on a disk: more than all writers append between two looks, and room to work."""
SHARE_KEPT_FREE: Final = 0.1
"""Of a small disk, this much at most."""
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


@dataclass(frozen=True)
class Space:
    """What a disk has, in bytes; `free` is what is there for us."""

    folder: Path
    total: int
    free: int

    @property
    def kept_free(self) -> int:
        """What the log leaves of it, bytes."""
        return min(MOST_KEPT_FREE, int(self.total * SHARE_KEPT_FREE))

    @property
    def full(self) -> str:
        """Why nothing more is appended here; empty while there is room."""
        if self.free >= self.kept_free:
            return ""
        return f"{no_space(self.folder)} ({_mb(self.free)} free, the last {_mb(self.kept_free)} are kept)"


def space(folder: Path) -> Space:
    """What the disk has on which a folder lies.

    Raises:
        OSError: there is no such folder.
    """
    filesystem = os.statvfs(folder)
    return Space(folder, filesystem.f_blocks * filesystem.f_frsize, filesystem.f_bavail * filesystem.f_frsize)


def size_of(folder: Path) -> int:
    """Bytes that the files in a folder take; what vanishes meanwhile is not counted."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(where) / name).lstat().st_blocks * 512
            except OSError:
                continue
    return total


def no_space(folder: Path | str) -> str:
    """The words that every surface uses."""
    return f"no space left on {folder}: make room on that disk"


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk, or a quota on it, is used up."""
    return isinstance(error, OSError) and error.errno in _FULL


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
