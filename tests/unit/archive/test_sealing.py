"""Archivers that are killed, or run beside one another, seal each stretch once; keys follow one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.archive.world import archive, recorded, seal_all, stretches
from tidewright.archive.chain import LATEST, name_of, segments_of
from tidewright.archive.errors import BadArchive, Overtaken, StoreUnavailable
from tidewright.archive.keys import ArchiverKeys, made
from tidewright.archive.reading import SeveralFiles, checked
from tidewright.archive.sealing import Sealer, whole_commits
from tidewright.archive.store import BadUrl, FolderStore, opened
from tidewright.cli.main import run
from tidewright.log.errors import BadKey
from tidewright.log.keyfiles import encoded, read_anchors, read_private
from tidewright.log.reader import Record


class Killed(FolderStore):
    """A store whose user is killed at one of its writes: before it, or right after it."""

    def __init__(self, folder: Path, at: int, *, after: bool) -> None:
        super().__init__(folder)
        self.left, self.after = at, after

    async def create(self, name: str, data: bytes) -> bool:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise StoreUnavailable("killed")
        done = await super().create(name, data)
        if self.left == 0:
            raise StoreUnavailable("killed")
        return done

    async def replace(self, name: str, data: bytes) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise StoreUnavailable("killed")
        await super().replace(name, data)
        if self.left == 0:
            raise StoreUnavailable("killed")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 7))
async def test_one_that_is_killed_at_any_write_is_gone_on_from(at: int, after: bool, tmp_path: Path) -> None:
    store, cut = FolderStore(tmp_path / "chaos"), stretches(3)
    with pytest.raises(StoreUnavailable):
        await seal_all(Killed(store.folder, at, after=after), tmp_path / "key", cut)
    again = Sealer(store, ArchiverKeys(tmp_path / "key"))
    await again.look()
    done = again.tail.head.number if again.tail is not None else 0
    for stretch in cut[done:]:
        await again.seal(stretch)
    segments = await checked(store, tmp_path)
    assert list(SeveralFiles(store.folder, segments.files).records()) == list(recorded()[1])
    assert len(segments.heads) == 3


async def test_of_two_archivers_one_seals_a_stretch_and_the_other_is_told(tmp_path: Path) -> None:
    store, cut = FolderStore(tmp_path / "chaos"), stretches(3)
    one, other = (Sealer(store, ArchiverKeys(tmp_path / "key")) for _ in range(2))
    for sealer in (one, other):
        await sealer.look()
    await one.seal(cut[0])
    with pytest.raises(Overtaken):
        await other.seal(cut[0])
    await other.look()
    await other.seal(cut[1])
    with pytest.raises(Overtaken):
        await one.seal(cut[1])
    await one.look()
    await one.seal(cut[2])
    assert len((await checked(store, tmp_path)).heads) == 3
    assert [name for name in await store.names() if name.startswith(".")] == []


async def test_an_archiver_with_another_key_seals_nothing(tmp_path: Path) -> None:
    store = await archive(tmp_path, tmp_path / "key", count=2)
    made(tmp_path / "other")
    for key in ("other", "none"):
        with pytest.raises(BadKey, match="the archive goes on with key"):
            await Sealer(store, ArchiverKeys(tmp_path / key)).look()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_key_hands_over_to_its_successor(
    read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cut, path = FolderStore(tmp_path / "chaos"), stretches(4), tmp_path / "key"
    if read_only:  # as a mounted Secret is
        monkeypatch.setattr(ArchiverKeys, "_follow", lambda _: None)
    sealer = await seal_all(store, path, cut[:1])
    before = read_private(path).public_key()
    assert run(["keys", "archiver", str(path)]) == 0
    after = read_private(ArchiverKeys(path).next).public_key()
    assert run(["keys", "archiver", str(path)]) == 2
    await sealer.seal(cut[1])
    await sealer.seal(cut[2])
    await seal_all(store, path, cut[3:])
    heads = (await checked(store, tmp_path)).heads
    assert [head.key for head in heads] == [encoded(before)] * 2 + [encoded(after)] * 2
    assert [bool(head.successor) for head in heads] == [False, True, False, False]
    # Either key vouches for the whole: one by successors, the other by digests.
    for key in (before, after):
        await checked(store, tmp_path, [key])
    if not read_only:
        assert not ArchiverKeys(path).next.exists()
        assert [encoded(anchor) for anchor in read_anchors(tmp_path / "key.pub")] == [encoded(after)]


@pytest.mark.parametrize("harm", [lambda f: (f / name_of(2)).unlink(), lambda f: (f / name_of(1)).unlink()])
async def test_nothing_is_sealed_behind_a_chain_that_is_not_whole(harm: object, tmp_path: Path) -> None:
    store = await archive(tmp_path, tmp_path / "key", count=2)
    harm(store.folder)  # type: ignore[operator]
    with pytest.raises(BadArchive):
        await Sealer(store, ArchiverKeys(tmp_path / "key")).look()
    (store.folder / LATEST).write_bytes(b"{")
    with pytest.raises(BadArchive, match="does not decode"):
        await Sealer(store, ArchiverKeys(tmp_path / "key")).look()


def test_a_stretch_ends_with_a_whole_commit() -> None:
    def record(seq: int, **headers: str) -> Record:
        return Record(seq, "s", b"", {name.replace("_", "-"): value for name, value in headers.items()})

    alone = record(1)
    begun, ended = record(2, Nats_Batch_Id="a"), record(3, Nats_Batch_Id="a", Nats_Batch_Commit="1")
    assert whole_commits([]) == 0
    assert whole_commits([begun]) == 0
    assert whole_commits([alone, begun]) == 1
    assert whole_commits([alone, begun, ended]) == 3


@pytest.mark.parametrize("url", ["", "http://host/x", "s3://", "s3:///x", "file://host/x"])
async def test_what_is_no_archive_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match=r"s3://BUCKET"):
        async with opened(url, "prod"):
            pass


async def test_folders_have_a_part_for_each_cluster(tmp_path: Path) -> None:
    async with opened(f"file://{tmp_path}", "a.b") as store:
        assert segments_of(await store.names()) == []
        assert await store.create("x", b"1")
        assert not await store.create("x", b"2")
        assert await store.read("x") == b"1"
        await store.replace("x", b"345")
        assert await store.end("x", 2) == b"45"
        assert await store.read("y") is None
    assert (tmp_path / "a%2Eb" / "x").read_bytes() == b"345"
