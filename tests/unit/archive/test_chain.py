"""Whatever is done to an archive is named, by the segment that it was done to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.archive.world import archive, recorded, stretches
from tidewright.archive.chain import LATEST, name_of
from tidewright.archive.errors import BadArchive
from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.reading import Altered, SeveralFiles, checked
from tidewright.archive.sealing import Sealer
from tidewright.archive.segment import Head, seal_of, sealed
from tidewright.archive.store import FolderStore
from tidewright.log.export import ExportFile
from tidewright.log.keyfiles import encoded, read_anchors


async def found(folder: Path, anchor: Path | None = None) -> list[str]:
    try:
        await checked(FolderStore(folder), folder, read_anchors(anchor) if anchor else None)
    except Altered as error:
        return [str(one) for one in error.found]
    return []


async def test_an_archive_reads_as_the_log_that_was_sealed(tmp_path: Path) -> None:
    store = await archive(tmp_path, tmp_path / "key")
    segments = await checked(store, tmp_path, read_anchors(tmp_path / "key.pub"))
    manifest, records = recorded()
    whole = SeveralFiles(store.folder, segments.files)
    assert list(whole.records()) == list(records)
    assert [record.seq for record in whole.bodies()] == [record.seq for record in records]
    assert (whole.manifest.first_seq, whole.manifest.last_seq) == (1, records[-1].seq)
    assert whole.manifest.keys == manifest.keys
    assert len(segments.heads) == 5
    assert segments.holes == []
    there = {record.seq for record in records}
    for head in segments.heads:
        gone = {seq for first, last in head.gaps for seq in range(first, last + 1)}
        assert gone == set(range(head.first, head.last + 1)) - there
        assert head.records + len(gone) == head.last - head.first + 1
    assert any(head.gaps for head in segments.heads)
    # A segment alone is an export, which the reader of exports reads.
    assert len(list(ExportFile(store.folder / name_of(2)).records())) == segments.heads[1].records
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def change(data: bytes, **fields: object) -> bytes:
    """A segment whose head says something else, under the signature of before."""
    seal = seal_of(data)
    content = data[: len(data) - seal.size]
    changed = sealed(content, msgspec.structs.replace(seal.head, **fields), Ed25519PrivateKey.generate())
    return changed.replace(seal_of(changed).signature, seal.signature)


def sealed_again(data: bytes, key: Ed25519PrivateKey, **fields: object) -> bytes:
    """A segment that somebody else sealed."""
    seal = seal_of(data)
    head: Head = msgspec.structs.replace(seal.head, key=encoded(key.public_key()), **fields)
    return sealed(data[: len(data) - seal.size], head, key)


def alter_content(folder: Path) -> None:
    path = folder / name_of(3)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def alter_head(folder: Path) -> None:
    path = folder / name_of(3)
    path.write_bytes(change(path.read_bytes(), sealed_at=1.0))


def alter_signature(folder: Path) -> None:
    path = folder / name_of(3)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def foreign_key(folder: Path) -> None:
    path = folder / name_of(3)
    path.write_bytes(sealed_again(path.read_bytes(), Ed25519PrivateKey.generate()))


def remove_one(folder: Path) -> None:
    (folder / name_of(3)).unlink()


def remove_and_rename(folder: Path) -> None:
    (folder / name_of(3)).unlink()
    (folder / name_of(4)).rename(folder / name_of(3))
    (folder / name_of(5)).rename(folder / name_of(4))


def reorder(folder: Path) -> None:
    (folder / name_of(3)).rename(folder / "x")
    (folder / name_of(4)).rename(folder / name_of(3))
    (folder / "x").rename(folder / name_of(4))


def cut_tail(folder: Path) -> None:
    (folder / name_of(5)).unlink()


def cut_short(folder: Path) -> None:
    path = folder / name_of(3)
    path.write_bytes(path.read_bytes()[:-100])


def forget_latest(folder: Path) -> None:
    (folder / LATEST).unlink()


@pytest.mark.parametrize(
    ("harm", "segment", "words"),
    [
        (alter_content, 3, "its content"),
        (alter_head, 3, "its signature is not that of key"),
        (alter_signature, 3, "its signature is not that of key"),
        (foreign_key, 3, "a wrong key"),
        (remove_one, 4, f"{name_of(3)} before it is missing: removed"),
        (remove_and_rename, 3, "number 4: segments were put into another order"),
        (reorder, 3, "number 4: segments were put into another order"),
        (cut_tail, 5, "the tail was cut off"),
        (cut_short, 3, "it has no seal at its end"),
        (forget_latest, 0, "whether the tail was cut off is not known"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_what_was_done_to_an_archive_is_named(
    harm: Callable[[Path], None], segment: int, words: str, tmp_path: Path
) -> None:
    store = await archive(tmp_path, tmp_path / "key")
    assert await found(store.folder) == []
    harm(store.folder)
    first = (await found(store.folder))[0]
    assert words in first
    assert first.startswith(f"segment {name_of(segment) if segment else LATEST}: ")


async def test_an_archive_of_another_key_is_none_of_ours(tmp_path: Path) -> None:
    store = await archive(tmp_path, tmp_path / "key", count=2)
    await archive(tmp_path / "other", tmp_path / "other-key", count=2)
    assert await found(store.folder, tmp_path / "key.pub") == []
    [wrong] = await found(store.folder, tmp_path / "other-key.pub")
    assert "a wrong key" in wrong
    # Sealed anew from the first segment on, it holds together, and only the key tells.
    shutil.rmtree(store.folder)
    store = await archive(tmp_path, tmp_path / "third-key", count=2)
    assert await found(store.folder) == []
    assert "a wrong key" in (await found(store.folder, tmp_path / "key.pub"))[0]


async def test_a_segment_that_is_sealed_again_by_its_own_key_is_noticed(tmp_path: Path) -> None:
    store = await archive(tmp_path, tmp_path / "key")
    key = ArchiverKeys(tmp_path / "key").begin()
    path = store.folder / name_of(3)
    path.write_bytes(sealed_again(path.read_bytes(), key, sealed_at=1.0))
    assert "the seal of one of the two was replaced" in (await found(store.folder))[0]
    last = store.folder / name_of(5)
    path.write_bytes(sealed_again(path.read_bytes(), key))
    last.write_bytes(sealed_again(last.read_bytes(), key, sealed_at=2.0))
    assert any("it was replaced" in one for one in await found(store.folder))


async def test_nothing_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="is empty: nothing was sealed there"):
        await checked(FolderStore(tmp_path / "none"), tmp_path)


async def test_what_was_gone_before_it_was_sealed_is_a_hole(tmp_path: Path) -> None:
    store, sealer = FolderStore(tmp_path / "chaos"), None
    sealer = Sealer(store, ArchiverKeys(tmp_path / "key"))
    first, second, third, *_ = stretches()
    for stretch in (first, third):
        await sealer.seal(stretch)
    segments = await checked(store, tmp_path)
    assert segments.holes == [(second.manifest.first_seq, third.manifest.first_seq - 1)]
