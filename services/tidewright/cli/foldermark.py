"""Whose a data folder is: told by a file that Tidewright puts into a folder that was empty, and by nothing else.

Only a folder with the mark is ever cleared. One that an earlier version left has none; it may be gone on with, and
is marked then if everything in it is of our making.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Literal, TypeAlias, get_args

MARK = ".tidewright"

MadeBy: TypeAlias = Literal["up", "demo"]
"""The command whose folder it is: a demo clears its folder at each start, and no other."""

_KNOWN = frozenset(
    (MARK, "lock", "ports.json", "kubeconfig", "nats", "cluster", "tokens", "metrics.yaml", "services.log", "demo", "demos")
)  # fmt: skip
"""What versions of Tidewright put into a data folder; the user's own one has those of demos in it."""
_NOTHING_YET = frozenset(("lock", "demo", "demos"))
_IN_NATS = frozenset(("jetstream", "nats-server.conf", "asked.conf", "nats-server.log", "ports"))
_IN_CLUSTER = frozenset(("objects.journal", "objects.new", "cloud.json", "cloud.new"))
_NOTE = "Tidewright keeps its data in this folder. --fresh, and a demo in its own, clear it: keep nothing of yours here."


class Whose(Enum):
    """Whose a folder is."""

    MARKED = "marked"
    EMPTY = "nobody's yet"
    EARLIER = "an earlier version's, and nothing else is in it"
    MIXED = "an earlier version's, with other things in it"
    FOREIGN = "somebody else's"


def made_by(folder: Path) -> MadeBy | None:
    """What the mark of a folder says; None without a mark that can be read."""
    try:
        content = json.loads((folder / MARK).read_text())
    except (OSError, ValueError):
        return None
    said = content.get("made_by") if isinstance(content, dict) else None
    return next((name for name in get_args(MadeBy) if name == said), None)


def put(folder: Path, by: MadeBy) -> None:
    """Mark a folder."""
    (folder / MARK).write_text(json.dumps({"made_by": by, "note": _NOTE}, indent=2) + "\n")


def whose(folder: Path) -> Whose:
    """Whose a folder is that exists.

    Raises:
        OSError: it cannot be read.
    """
    if made_by(folder) is not None:
        return Whose.MARKED
    names = _names(folder)
    locked = "lock" not in names or _is_lock(folder / "lock")
    if locked and names <= _NOTHING_YET:
        return Whose.EMPTY
    if not (locked and (_are_ports(folder / "ports.json") or _is_store(folder / "nats"))):
        return Whose.FOREIGN
    return Whose.MIXED if strangers(folder) or "lock" not in names else Whose.EARLIER


def strangers(folder: Path) -> list[str]:
    """What no version of Tidewright put into a folder: relative names, folders with a slash."""
    unknown = _names(folder) - _KNOWN
    if "nats" in _names(folder) and not _is_store(folder / "nats"):
        unknown.add("nats")
    if "cluster" in _names(folder) and not _names(folder / "cluster") <= _IN_CLUSTER:
        unknown.add("cluster")
    return sorted(f"{name}/" if (folder / name).is_dir() else name for name in unknown)


def _names(folder: Path) -> set[str]:
    """What is in a folder; a file, or a link elsewhere, has a name that nobody knows."""
    if folder.is_symlink() and folder.name in ("nats", "cluster"):
        return {"->"}
    try:
        return {entry.name for entry in folder.iterdir()}
    except NotADirectoryError:
        return {"-"}


def _is_lock(path: Path) -> bool:
    try:
        content = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False
    return not content or content.isdigit()


def _are_ports(path: Path) -> bool:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and all(isinstance(port, int) for port in content.values())


def _is_store(path: Path) -> bool:
    """Whether a folder is a server's store as we make it: our configuration, and nothing beside the store."""
    try:
        configuration = (path / "nats-server.conf").read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return "jetstream {" in configuration and _names(path) <= _IN_NATS
