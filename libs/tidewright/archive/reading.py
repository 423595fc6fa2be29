"""A whole archive, read as one exported file is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tidewright.archive.chain import Found, altered, judged, segments_of
from tidewright.archive.errors import BadArchive
from tidewright.archive.sealing import latest_of
from tidewright.archive.segment import Head, Seal, seal_of
from tidewright.archive.store import FolderStore, Store
from tidewright.log.export import BadExport, ExportFile, Manifest
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot


class Altered(BadArchive):
    """An archive is not what was sealed.

    Attributes:
        url: of the archive.
        found: what is wrong, in the order of the chain; at least one thing.
    """

    reason = "AlteredArchive"

    def __init__(self, url: str, found: Sequence[Found]) -> None:
        super().__init__(
            f"archive {url}: {found[0]}" + (f" (and {len(found) - 1} more)" if found[1:] else "")
        )
        self.url, self.found = url, tuple(found)


class SeveralFiles:
    """Exports that follow one another, in place of one (`ExportFile`)."""

    def __init__(self, path: Path, files: Sequence[ExportFile]) -> None:
        """`path` names all of them for people; there is at least one."""
        self.path = path
        self._files = tuple(files)
        first, last = files[0].manifest, files[-1].manifest
        keys = {record.seq: record for file in files for record in file.manifest.keys}
        self.manifest: Manifest = msgspec.structs.replace(
            last, first_seq=first.first_seq, since=first.since, keys=tuple(keys[seq] for seq in sorted(keys))
        )
        self.kinds: dict[str, int] = {}

    def content(self) -> str:
        """As `ExportFile.content`, of all of them."""
        return " ".join(file.content() for file in self._files)

    def snapshots(self) -> Iterator[Snapshot]:
        """The states that the first one begins with."""
        return self._files[0].snapshots()

    def records(self) -> Iterator[Record]:
        """All records in stream order; raises as those of one file."""
        for file in self._files:
            yield from file.records()

    def bodies(self) -> Iterator[Record]:
        """As `ExportFile.bodies`."""
        for file in self._files:
            yield from file.bodies()


class Segments:
    """The segments of an archive that was checked."""

    def __init__(self, url: str, seals: Sequence[Seal], files: Sequence[ExportFile]) -> None:
        self.url, self.seals, self.files = url, tuple(seals), tuple(files)

    @property
    def heads(self) -> tuple[Head, ...]:
        """What is signed about each."""
        return tuple(seal.head for seal in self.seals)

    @property
    def holes(self) -> list[tuple[int, int]]:
        """Ranges of sequences that were gone before they could be sealed."""
        heads = self.heads
        return [
            (before.last + 1, head.first - 1)
            for before, head in pairwise(heads)
            if head.first > before.last + 1
        ]


async def checked(store: Store, folder: Path, anchors: Sequence[Ed25519PublicKey] | None = None) -> Segments:
    """Every segment, found to be what was sealed; copies are put into a folder where they lie elsewhere.

    Raises:
        Altered: something is not.
        BadArchive: there is nothing.
        StoreUnavailable: as ever.
    """
    latest = await latest_of(store)  # first: what is sealed meanwhile is not taken for cut off
    names = segments_of(await store.names())
    if not names and latest is None:
        raise BadArchive(
            f"archive {store.url} is empty: nothing was sealed there; is this the URL, and the cluster's name?"
        )
    seals: list[tuple[str, Seal | str]] = []
    contents: list[Found] = []
    for name in names:
        data = await store.read(name)
        if data is None:
            seals.append((name, "it was taken away while it was read"))
            continue
        try:
            seal = seal_of(data)
        except BadArchive as error:
            seals.append((name, str(error)))
            continue
        seals.append((name, seal))
        if (problem := altered(name, seal, data)) is not None:
            contents.append(problem)
        if not isinstance(store, FolderStore):
            await asyncio.to_thread((folder / name).write_bytes, data)
    found = sorted([*judged(seals, latest, anchors), *contents], key=lambda one: one.segment)
    if found:
        raise Altered(store.url, found)
    where = store.folder if isinstance(store, FolderStore) else folder
    try:
        files = [ExportFile(where / name) for name in names]
    except BadExport as error:
        raise BadArchive(f"archive {store.url}: {error}") from error
    return Segments(store.url, [seal for _, seal in seals if isinstance(seal, Seal)], files)
