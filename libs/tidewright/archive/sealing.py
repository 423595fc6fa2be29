"""One segment more: what is sealed is found in the archive, and nothing is remembered elsewhere."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.archive.chain import LATEST, Latest, judged, name_of, segments_of
from tidewright.archive.errors import BadArchive, Overtaken
from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.segment import LIKELY_BYTES, Head, Seal, gaps_of, known_by, seal_of, seal_size, sealed
from tidewright.archive.store import Store
from tidewright.log.envelope import BATCH_COMMIT, BATCH_ID
from tidewright.log.export import ExportWriter, Manifest
from tidewright.log.keyfiles import encoded
from tidewright.log.reader import Record
from tidewright.log.snapshots import Snapshot


async def latest_of(store: Store) -> Latest | None:
    """What an archive says of its last segment.

    Raises:
        BadArchive: it says it in no way that is understood.
        StoreUnavailable: as ever.
    """
    data = await store.read(LATEST)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Latest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadArchive(f"archive {store.url}: {LATEST} does not decode ({error})") from error


async def seal_at(store: Store, name: str) -> Seal:
    """The seal of one segment.

    Raises:
        BadArchive: it has none.
        StoreUnavailable: as ever.
    """
    end = await store.end(name, LIKELY_BYTES)
    if (size := seal_size(end)) > len(end):
        end = await store.end(name, size)
    return seal_of(end)


def whole_commits(records: Sequence[Record]) -> int:
    """How many of some records lie before what may be a part of a commit at their end."""
    for count in range(len(records), 0, -1):
        headers = records[count - 1].headers
        if BATCH_COMMIT in headers or BATCH_ID not in headers:
            return count
    return 0


@dataclass(frozen=True)
class Stretch:
    """What is to be sealed next.

    Attributes:
        manifest: of the export; its range is that of the segment.
        records: at least one.
        snapshots: the states to begin with, where what was before is not in the archive.
    """

    manifest: Manifest
    records: Sequence[Record]
    snapshots: Sequence[Snapshot] = ()


class Sealer:
    """Seals one cluster's log; several may run beside one another, and each segment is sealed by one of them.

    Attributes:
        tail: the seal of the last segment; None: there is none yet.
    """

    def __init__(self, store: Store, keys: ArchiverKeys) -> None:
        self._store, self._keys = store, keys
        self.tail: Seal | None = None

    async def look(self) -> None:
        """Find the end of the chain.

        Raises:
            BadArchive: it is not whole there.
            BadKey: the key that is to sign next is not ours.
            StoreUnavailable: as ever.
        """
        latest = await latest_of(self._store)  # first: what is sealed meanwhile is no riddle then
        names = segments_of(await self._store.names())
        if not names:
            if latest is not None:
                raise BadArchive(f"archive {self._store.url}: {judged([], latest)[0]}")
            self.tail = None
            return
        name = names[-1]
        try:
            seal = await seal_at(self._store, name)
        except BadArchive as error:
            raise BadArchive(f"archive {self._store.url}: segment {name}: {error}") from error
        number = seal.head.number
        if name != name_of(number) or not seal.good or len(names) != number:
            raise BadArchive(
                f"archive {self._store.url} ends with {name}, which is not segment {len(names)} as it was sealed: "
                "`tidewright verify --archive` says what is wrong"
            )
        if latest is not None and (
            latest.number > number or (latest.number == number and latest.seal != seal.digest)
        ):
            raise BadArchive(
                f"archive {self._store.url}: its tail was cut off or replaced: {LATEST} names segment {latest.number} another way"
            )
        self._keys.expected(seal.head.next_key)
        self.tail = seal
        if latest is None or latest.number < number:  # who sealed it has ended before it said so
            await self._say(seal)

    def _key(self) -> Ed25519PrivateKey:
        return self._keys.begin() if self.tail is None else self._keys.expected(self.tail.head.next_key)

    async def seal(self, stretch: Stretch) -> Seal:
        """Seal what comes next.

        Raises:
            Overtaken: another archiver did; `look` again.
            BadKey: the key that is to sign is not ours.
            StoreUnavailable: as ever; what became of it is found by `look`.
        """
        key = self._key()
        content = await asyncio.to_thread(_exported, stretch)
        manifest, records, before = stretch.manifest, stretch.records, self.tail
        head = Head(
            number=before.head.number + 1 if before else 1,
            cluster=manifest.cluster, stream=manifest.stream,
            first=manifest.first_seq, last=records[-1].seq, records=len(records),
            gaps=gaps_of(manifest.first_seq, records), known=known_by(records),
            digest=sha256(content).hexdigest(), previous=before.digest if before else "",
            sealed_at=time.time(), key=encoded(key.public_key()), successor=self._keys.successor(key),
        )  # fmt: skip
        data = sealed(content, head, key)
        seal, name = seal_of(data), name_of(head.number)
        if not await self._store.create(name, data):
            there = await seal_at(self._store, name)
            if there.digest != seal.digest:  # else it was ours, and its answer was lost
                raise Overtaken(f"archive {self._store.url}: {name} was sealed by another archiver")
        await self._say(seal)
        self.tail = seal
        return seal

    async def _say(self, seal: Seal) -> None:
        """Name the last segment; a later one that is named already stays."""
        latest = await latest_of(self._store)
        if latest is None or latest.number < seal.head.number:
            said = Latest(number=seal.head.number, last=seal.head.last, seal=seal.digest)
            await self._store.replace(LATEST, msgspec.json.encode(said))


def _exported(stretch: Stretch) -> bytes:
    """A stretch as the bytes of an export."""
    manifest = msgspec.structs.replace(stretch.manifest, last_seq=stretch.records[-1].seq)
    with tempfile.TemporaryDirectory(prefix="tidewright-segment-") as folder:
        path = Path(folder) / "segment"
        with ExportWriter(path, manifest) as writer:
            for snapshot in stretch.snapshots:
                writer.snapshot(snapshot)
            for record in stretch.records:
                writer.record(record)
        return path.read_bytes()
