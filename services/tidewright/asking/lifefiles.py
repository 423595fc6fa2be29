"""Files that say something for as long as a process of this user lives: each is locked, and one that nobody locks says nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def folder(name: str) -> Path:
    """Where files of one kind lie."""
    import platformdirs

    return platformdirs.user_state_path("tidewright", appauthor=False) / name


@contextmanager
def kept(path: Path, content: bytes) -> Iterator[None]:
    """Have the file say this, until the end of the block. A folder that cannot be written to is no reason to fail."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    except OSError:
        yield
        return
    with file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(content)
            file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def living(where: Path) -> list[bytes]:
    """What the files of processes that live say, in the order of their names."""
    found = []
    with suppress(OSError):
        for path in sorted(where.glob("*.json")):
            with suppress(OSError), path.open("rb") as file:
                if _is_held(file.fileno()):
                    found.append(file.read())
    return found


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
