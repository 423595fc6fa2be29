"""The store: versions, history, the past, and the journal that outlives the process."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewright.sim.api.errors import ApiError, NoSpace
from tidewright.sim.api.store.journal import FileJournal, JournalError
from tidewright.sim.api.store.store import Record, Store

Object = dict[str, Any]
TABLE = "/configmaps"


def thing(name: str, namespace: str = "ns", value: str = "", owner: str = "") -> Object:
    meta: Object = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if owner:
        meta["ownerReferences"] = [{"uid": owner}]
    return {"metadata": meta, "value": value}


def names(store: Store, rv: int, namespace: str = "") -> list[str]:
    return [record.name for record in store.table(TABLE).scan_at(rv, namespace)]


def test_records_come_in_the_order_of_their_keys() -> None:
    store = Store()
    for name, namespace in (("b", "x"), ("a", "x-y"), ("c", "x"), ("a", "w")):
        store.put(store.table(TABLE), thing(name, namespace))
    assert [record.key for record in store.table(TABLE).scan()] == ["w/a", "x-y/a", "x/b", "x/c"]
    assert [record.name for record in store.table(TABLE).scan("x")] == ["b", "c"]
    assert [record.name for record in store.table(TABLE).scan("x", after="x/b")] == ["c"]
    assert store.table(TABLE).count("x") == 2


def test_the_past_can_be_read_while_history_reaches() -> None:
    store = Store()
    table = store.table(TABLE)
    first = store.put(table, thing("a", value="1"))
    store.put(table, thing("b"))
    then = store.rv
    store.put(table, thing("a", value="2"))
    store.remove(table, table.objects["ns/b"], thing("b"))
    store.put(table, thing("c"))
    assert names(store, store.rv) == ["a", "c"]
    assert names(store, then) == ["a", "b"]
    assert next(iter(table.scan_at(then))).raw == first.raw
    table.forget(store.rv)
    with pytest.raises(ApiError) as refused:
        names(store, then)
    assert refused.value.code == 410


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["x", "x-y", "z"]), st.booleans()), max_size=30
    )
)
def test_every_moment_of_the_past_is_what_it_was(steps: list[tuple[str, str, bool]]) -> None:
    store = Store()
    table = store.table(TABLE)
    moments: dict[int, dict[str, Record]] = {store.rv: {}}
    for name, namespace, wanted in steps:
        known = table.get(namespace, name)
        if wanted:
            store.put(table, thing(name, namespace))
        elif known is not None:
            store.remove(table, known, thing(name, namespace))
        moments[store.rv] = dict(table.objects)
    for rv, then in moments.items():
        for namespace in ("", "x"):
            for after in ("", "x/b"):
                wanted_keys = sorted(
                    key for key, one in then.items() if key > after and namespace in ("", one.namespace)
                )
                found = list(table.scan_at(rv, namespace, after))
                assert [record.key for record in found] == wanted_keys
                assert all(record is then[record.key] for record in found)
                assert table.count_at(rv, namespace, after) == len(wanted_keys)


def test_history_is_bounded() -> None:
    store = Store(history_limit=10)
    table = store.table(TABLE)
    for index in range(50):
        store.put(table, thing("a", value=str(index)))
    assert len(table.history) <= 20
    assert [event.rv for event in table.since(table.floor)] == list(range(table.floor + 1, store.rv + 1))
    with pytest.raises(ApiError):
        table.since(table.floor - 1)


def test_history_of_all_kinds_is_bounded_in_memory() -> None:
    store = Store(history_bytes=100_000)
    quiet, busy = store.table("/quiet"), store.table(TABLE)
    store.put(quiet, thing("q"))
    since = store.rv
    store.put(busy, thing("a"))
    for index in range(1000):
        store.put(busy, thing("a", value="x" * 1000 + str(index)))
        kept = sum(len(event.record.raw) for table in store.tables.values() for event in table.history)
        assert kept <= 100_000
    assert len(busy.history) > 20
    assert [event.rv for event in busy.since(busy.floor)] == list(range(busy.floor + 1, store.rv + 1))
    with pytest.raises(ApiError):
        busy.since(since)
    store.put(quiet, thing("q", value="2"))
    assert [event.record.name for event in quiet.since(since)] == [
        "q"
    ]  # nothing of its own was dropped since


def test_as_much_history_as_there_are_objects_is_kept() -> None:
    store = Store(history_bytes=1000)
    table = store.table(TABLE)
    for index in range(100):
        store.put(table, thing(f"{index:03}", value="x" * 1000))
    then = store.rv
    for index in range(20):
        store.put(table, thing(f"{index:03}", value="y" * 1000))
    assert len(names(store, then)) == 100


def test_the_size_of_what_there_is_is_known(tmp_path: Path) -> None:
    store = journaled(tmp_path)
    table, other = store.table(TABLE), store.table("/other")
    store.put(other, thing("o"))
    for value in ("1", "22", "333"):
        store.put(table, thing("a", value=value))
    store.put(table, thing("b"))
    store.remove(table, table.objects["ns/b"], thing("b"))

    def size(of: Store) -> int:
        return sum(len(record.raw) for each in of.tables.values() for record in each.objects.values())

    assert store.live_bytes == size(store)
    assert reopened(tmp_path).live_bytes == size(store)
    store.drop_table("/other")
    assert store.live_bytes == size(store)


def test_dependents_are_found_by_their_owner() -> None:
    store = Store()
    table = store.table(TABLE)
    store.put(table, thing("child", owner="uid-owner"))
    assert store.dependents == {"uid-owner": {(TABLE, "ns/child")}}
    store.put(table, thing("child", owner="uid-other"))
    assert store.dependents == {"uid-other": {(TABLE, "ns/child")}}
    store.remove(table, table.objects["ns/child"], thing("child"))
    assert store.dependents == {}


def reopened(folder: Path) -> Store:
    store = Store(journal=None)
    journal = FileJournal(folder)
    journal.open(store)
    journal.close()
    return store


def journaled(folder: Path) -> Store:
    journal = FileJournal(folder)
    store = Store(journal=journal)
    journal.open(store)
    return store


def test_a_journal_restores_what_was_acknowledged(tmp_path: Path) -> None:
    store = journaled(tmp_path)
    table = store.table(TABLE)
    store.put(table, thing("a", value="1", owner="uid-x"))
    store.put(table, thing("b"))
    store.put(table, thing("a", value="2", owner="uid-x"))
    store.remove(table, table.objects["ns/b"], thing("b"))
    again = reopened(tmp_path)  # the first one was never closed: its process was killed
    assert again.rv == store.rv
    assert {key: record.raw for key, record in again.table(TABLE).objects.items()} == {
        key: record.raw for key, record in table.objects.items()
    }
    assert again.dependents == store.dependents
    with pytest.raises(ApiError):
        again.table(TABLE).since(again.rv - 1)


@pytest.mark.parametrize("cut", [1, 5, 40, 120])
def test_a_torn_end_is_dropped(tmp_path: Path, cut: int) -> None:
    store = journaled(tmp_path)
    store.put(store.table(TABLE), thing("a"))
    store.put(store.table(TABLE), thing("b"))
    path = tmp_path / "objects.journal"
    path.write_bytes(path.read_bytes()[:-cut])
    again = journaled(tmp_path)
    assert names(again, again.rv) == ["a"]
    again.put(again.table(TABLE), thing("c"))
    assert names(reopened(tmp_path), again.rv) == ["a", "c"]


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "objects.journal").write_bytes(b"something else\n" * 10)
    with pytest.raises(JournalError, match=r"objects\.journal: byte 0: not an entry of a journal"):
        reopened(tmp_path)


def long_journal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store whose journal is mostly history, as an earlier version left it."""
    with monkeypatch.context() as patched:
        patched.setattr(FileJournal, "_shorten", lambda _: None)
        store = journaled(folder)
        for index in range(100):
            store.put(store.table(TABLE), thing("a", value="x" * 100_000 + str(index)))
    return store


def test_a_journal_that_is_mostly_history_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = long_journal(tmp_path, monkeypatch)
    path = tmp_path / "objects.journal"
    before = path.stat().st_size
    again = reopened(tmp_path)
    assert path.stat().st_size < before / 10
    assert again.rv == store.rv
    assert reopened(tmp_path).table(TABLE).objects["ns/a"].raw == store.table(TABLE).objects["ns/a"].raw


def test_a_journal_stays_short_while_it_is_written(tmp_path: Path) -> None:
    store = journaled(tmp_path)
    path, longest = tmp_path / "objects.journal", 0
    store.put(store.table(TABLE), thing("kept", owner="uid-x"))
    for index in range(300):
        store.put(store.table(TABLE), thing("a", value="x" * 100_000 + str(index)))
        longest = max(longest, path.stat().st_size)
    assert longest < 10 * 1024 * 1024
    again = reopened(tmp_path)
    assert whole(again) == whole(store)
    assert (again.rv, again.dependents) == (store.rv, store.dependents)


def test_a_journal_that_cannot_be_shortened_goes_on_growing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tried = journaled(tmp_path), 0

    def full(fd: int) -> None:
        nonlocal tried
        tried += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for index in range(300):
        store.put(store.table(TABLE), thing("a", value="x" * 100_000 + str(index)))
    assert tried == 2  # at 8 MiB, and at twice that
    assert not (tmp_path / "objects.new").exists()
    monkeypatch.undo()
    assert whole(reopened(tmp_path)) == whole(store)


def whole(store: Store) -> dict[str, bytes]:
    return {key: record.raw for key, record in store.table(TABLE).objects.items()}


class Disk:
    """`os.write` of a disk that has room for so many bytes more, and then none."""

    def __init__(self, room: int) -> None:
        self.room, self.write = room, os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.write(fd, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 30, 120])
def test_what_a_full_disk_takes_in_part_is_cut_off_and_refused(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = journaled(tmp_path)
    table = store.table(TABLE)
    store.put(table, thing("a"))
    disk = Disk(room)
    monkeypatch.setattr(os, "write", disk)
    for name in ("b", "a"):
        with pytest.raises(NoSpace, match=f"no space left on {tmp_path}"):
            store.put(table, thing(name, value="refused" * 100))
    assert whole(reopened(tmp_path)) == whole(store)
    assert [r.name for r in table.scan()] == ["a"]
    disk.room = 1 << 20
    store.put(table, thing("c"))
    assert whole(reopened(tmp_path)) == whole(store)
    assert reopened(tmp_path).rv == store.rv


@pytest.mark.parametrize("kept", [1, 10, 60, 150, -3, -1])
def test_a_half_written_entry_in_the_middle_is_left_out(tmp_path: Path, kept: int) -> None:
    """As a version left it that wrote on behind what the disk had taken in part."""
    store = journaled(tmp_path)
    table, path = store.table(TABLE), tmp_path / "objects.journal"
    store.put(table, thing("a"))
    before = path.read_bytes()
    store.put(table, thing("lost"))
    half = path.read_bytes()[len(before) :][:kept]
    path.write_bytes(before)
    store.remove(table, table.objects["ns/lost"], thing("lost"))
    store.put(table, thing("b"))
    after = path.read_bytes()[len(before) :]
    path.write_bytes(before + half + after)
    for _ in range(2):  # the second time from the file that was written anew
        assert whole(reopened(tmp_path)) == whole(store)
    again = journaled(tmp_path)
    again.put(again.table(TABLE), thing("c"))
    assert set(whole(reopened(tmp_path))) == {"ns/a", "ns/b", "ns/c"}


def test_a_journal_that_cannot_be_rewritten_for_want_of_room_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = long_journal(tmp_path, monkeypatch)
    size = (tmp_path / "objects.journal").stat().st_size

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    again = Store(journal=None)
    FileJournal(tmp_path).open(again)
    assert whole(again) == whole(store)
    assert (tmp_path / "objects.journal").stat().st_size == size
    assert not (tmp_path / "objects.new").exists()
