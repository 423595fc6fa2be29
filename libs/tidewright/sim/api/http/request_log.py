"""The request log: what was asked of the server, by whom, and what came of it.

Tests read it to count effects. The latest entries are kept in memory; with a file, each is also written
there as a line of JSON.
"""

from __future__ import annotations

import hashlib
from collections import deque
from pathlib import Path
from typing import IO, Any

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """One request. `rv` is the resourceVersion that a write gave the object; `body` a digest of what was sent.

    `noted`, where the log goes to a file, is what the store held at that moment: of an eviction its pod and the pod's
    budget, of a deletion of machines (`POST /cloud/v1/groups/ID/delete-nodes`) the pods on them.
    """

    at: float  # seconds since the epoch
    method: str
    path: str  # with the query
    user_agent: str
    code: int
    body: str = ""
    rv: int = 0
    noted: dict[str, Any] = {}


class RequestLog:
    """The last `limit` requests, oldest first."""

    def __init__(self, limit: int = 10_000, path: Path | None = None) -> None:
        self.entries: deque[Entry] = deque(maxlen=limit)
        self._file: IO[bytes] | None = path.open("ab", buffering=0) if path is not None else None

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        if self._file is not None:
            self._file.write(msgspec.json.encode(entry) + b"\n")

    def writes(self) -> list[Entry]:
        """The requests that were to change something."""
        return [entry for entry in self.entries if entry.method not in {"GET", "HEAD"}]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def digest(body: bytes) -> str:
    """A short digest of a body, to tell whether two requests said the same."""
    return hashlib.blake2b(body, digest_size=8).hexdigest() if body else ""
