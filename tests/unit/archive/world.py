"""Archives of the recorded log, made without a server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.sealing import Sealer, Stretch, whole_commits
from tidewright.archive.store import FolderStore, Store
from tidewright.log.export import ExportFile, Manifest
from tidewright.log.reader import Record

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"


@cache
def recorded() -> tuple[Manifest, tuple[Record, ...]]:
    """The recorded log."""
    file = ExportFile(LOG)
    return file.manifest, tuple(file.records())


def stretches(count: int = 5, records: Sequence[Record] = ()) -> list[Stretch]:
    """The recorded log, or some of its records, in so many stretches."""
    manifest, every = recorded()
    rest, size = list(records or every), 1 + len(records or every) // count
    cut: list[Stretch] = []
    first = 1
    while rest:
        taken = rest[: max(size if len(cut) < count - 1 else len(rest), 1)]
        taken = taken[: whole_commits(taken) or len(taken)]
        cut.append(Stretch(msgspec.structs.replace(manifest, first_seq=first), taken))
        first, rest = taken[-1].seq + 1, rest[len(taken) :]
    return cut


async def archive(folder: Path, key: Path, count: int = 5) -> FolderStore:
    """An archive of the recorded log in a folder; `key` is made with it."""
    store = FolderStore(folder / "chaos")
    await seal_all(store, key, stretches(count))
    return store


async def seal_all(store: Store, key: Path, what: Sequence[Stretch]) -> Sealer:
    """Seal some stretches as an archiver that has just started would."""
    sealer = Sealer(store, ArchiverKeys(key))
    await sealer.look()
    for stretch in what:
        await sealer.seal(stretch)
    return sealer
