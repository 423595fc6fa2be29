"""States in files: another command goes on from them, and whatever else lies there is removed and folded anew."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench import asking as bench
from tests.bench.askedlog import MadeUp
from tidewright.asking import fold_files, kept_folds, rendering, seeding, service_state
from tidewright.asking.explain import explained
from tidewright.asking.exported import ExportedLog
from tidewright.asking.fold_files import FoldFiles, KeptFold, Whose
from tidewright.asking.point_in_time import Moment
from tidewright.asking.service_state import Asked, deciders, restored
from tidewright.asking.services import BY_NAME
from tidewright.asking.verify import verified
from tidewright.host.fold.explainer import Reference
from tidewright.log.export import ExportFile
from tidewright.log.reader import Record

LOG = Path(__file__).parents[2] / "recorded" / "chaos.twlog"
WHOSE = Whose("provisioning", 5, "all", "")
KEPT = KeptFold(Record(7, "tw.x.checkpoint.all.provisioning", b"{}", {}), 5, b"a state")


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "folds"


@pytest.fixture
def every_state_has_a_file(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_files, "folder", lambda: where)
    monkeypatch.setattr(kept_folds, "WORTH", 0.0)
    monkeypatch.setattr(kept_folds, "WORTH_A_FILE_S", 0.0)
    monkeypatch.setattr(service_state, "NEAR", 100)
    monkeypatch.setattr(service_state, "FAR", 100)


def state_at(seq: int) -> tuple[bytes, list[int]]:
    """The state of a log that is opened anew, and behind which sequences it was read for that."""
    log, read = ExportedLog(ExportFile(LOG)), list[int]()
    merged = log.merged

    def counted(patterns: Any, after: int = 0) -> Any:
        read.append(after)
        return merged(patterns, after)

    log.merged = counted  # type: ignore[method-assign]  # how far back it reads is the point
    fold = asyncio.run(restored(log, Asked.about(log, BY_NAME["provisioning"], ""), seq))
    return msgspec.json.encode(
        msgspec.to_builtins((fold.state, fold.at, fold.timers), str_keys=True, order="deterministic")
    ), read


def last() -> int:
    return asyncio.run(ExportedLog(ExportFile(LOG)).bounds())[1]


@pytest.mark.usefixtures("every_state_has_a_file")
def test_the_next_command_goes_on_from_what_the_last_one_folded(where: Path) -> None:
    end = last()
    folded, read = state_at(end)
    assert read == [0]
    again, read = state_at(end)
    assert again == folded
    assert end - 500 < read[0] < end
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    files = list(where.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {path.suffix for path in files} == {".fold"}, "nothing is left of how they were written"


@pytest.mark.usefixtures("every_state_has_a_file")
@pytest.mark.parametrize(
    "damage",
    [lambda b: b[: len(b) // 2], lambda b: b[:-3] + b"xyz", lambda b: b"", lambda b: b"{}", lambda b: b[20:]],
    ids=["cut off", "altered", "empty", "something else", "without its head"],
)
def test_what_is_damaged_is_folded_anew_and_replaced(where: Path, damage: Any) -> None:
    end = last()
    folded, _ = state_at(end)
    whole = {path.name: path.read_bytes() for path in where.iterdir()}
    for path in where.iterdir():
        path.write_bytes(damage(whole[path.name]))
    again, read = state_at(end)
    assert (again, read) == (folded, [0])
    sound, read = state_at(end)
    assert (sound, read[0] > 0) == (folded, True)


@pytest.mark.usefixtures("every_state_has_a_file")
def test_a_state_of_another_log_is_not_taken(where: Path) -> None:
    end = last()
    folded, _ = state_at(end)
    log = ExportedLog(ExportFile(LOG))
    asked = Asked.about(log, BY_NAME["provisioning"], "")
    files = FoldFiles(asyncio.run(log.identity()))
    kept = files.nearest(WHOSE, asked.software, end)
    assert kept is not None
    for path in where.iterdir():
        path.unlink()
    elsewhere = msgspec.structs.replace(kept.checkpoint, body=b"{}")
    files.put(WHOSE, asked.software, KeptFold(elsewhere, kept.position, kept.data))
    assert state_at(end) == (folded, [0])
    replaced = files.nearest(WHOSE, asked.software, end)
    assert replaced is not None
    assert replaced.checkpoint == kept.checkpoint


@pytest.mark.usefixtures("every_state_has_a_file")
def test_a_state_that_does_not_read_is_not_gone_on_from() -> None:
    end = last()
    folded, _ = state_at(end)
    log = ExportedLog(ExportFile(LOG))
    asked = Asked.about(log, BY_NAME["provisioning"], "")
    files = FoldFiles(asyncio.run(log.identity()))
    kept = files.nearest(WHOSE, asked.software, end)
    assert kept is not None
    files.put(WHOSE, asked.software, KeptFold(kept.checkpoint, kept.position, b"no snapshot"))
    assert state_at(end)[0] == folded
    replaced = files.nearest(WHOSE, asked.software, end)
    assert replaced is not None
    assert replaced.data != b"no snapshot"


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 4_000), st.integers(1, 4_000))
@pytest.mark.usefixtures("every_state_has_a_file")
def test_in_whatever_order_commands_ask_the_state_is_that_of_the_log(one: int, other: int) -> None:
    first, end = asyncio.run(ExportedLog(ExportFile(LOG)).bounds())
    for seq in (one, other, one):
        seq = first + seq % (end - first + 1)
        log = ExportedLog(ExportFile(LOG))
        log.folds.files = FoldFiles("nothing is kept of this one")
        plain = asyncio.run(restored(log, Asked.about(log, BY_NAME["provisioning"], ""), seq))
        assert state_at(seq)[0] == msgspec.json.encode(
            msgspec.to_builtins((plain.state, plain.at, plain.timers), str_keys=True, order="deterministic")
        )


@pytest.mark.usefixtures("every_state_has_a_file")
def test_who_verified_a_log_goes_on_from_there_at_any_moment(
    tmp_path: Path, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "EVERY", 50)
    path, count = tmp_path / "it.twlog", 6_000
    bench.write(path, MadeUp(count, 0.05), count)
    about = Reference("watermarkpodautoscaler", "team-7", "app-1")

    async def told(log: ExportedLog) -> str:
        return rendering.as_text(await explained(log, about, Moment(count * 3 // 4, 0.0)))

    plain = asyncio.run(told(ExportedLog(ExportFile(path))))
    for file in where.iterdir():
        file.unlink()
    assert asyncio.run(verified(ExportedLog(ExportFile(path)), deciders(("autoscaler",)))).good
    assert len(list(where.iterdir())) > 20
    log = ExportedLog(ExportFile(path))
    asked = Asked.about(log, BY_NAME["autoscaler"], "team-7")
    read: list[int] = []
    merged = log.merged

    def counted(patterns: Any, after: int = 0) -> Any:
        read.append(after)
        return merged(patterns, after)

    log.merged = counted  # type: ignore[method-assign]  # how far back it reads is the point
    asyncio.run(restored(log, asked, count * 3 // 4))
    assert read[0] > count // 3
    assert asyncio.run(told(ExportedLog(ExportFile(path)))) == plain


@pytest.mark.usefixtures("every_state_has_a_file")
def test_an_explanation_is_the_same_from_a_state_of_the_whole_slot(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "EVERY", 50)

    def told() -> list[str]:
        log = ExportedLog(ExportFile(LOG))

        async def texts() -> list[str]:
            _, end = await log.bounds()
            moments = [Moment(end * n // 7, 0.0) for n in range(2, 7)]
            asked = Reference("watermarkpodautoscaler", "team-0", "app-0")
            return [rendering.as_text(await explained(log, asked, moment)) for moment in moments]

        return asyncio.run(texts())

    plain = told()
    assert any("Why:" in text for text in plain)
    for path in where.iterdir():
        path.unlink()
    asyncio.run(verified(ExportedLog(ExportFile(LOG)), deciders(())))
    assert told() == plain


@pytest.mark.parametrize(
    ("log", "whose", "software"),
    [
        ("another", WHOSE, "1+a"),
        ("log", WHOSE._replace(service="spread"), "1+a"),
        ("log", WHOSE._replace(version=6), "1+a"),
        ("log", WHOSE._replace(slot="7"), "1+a"),
        ("log", WHOSE._replace(namespace="shop"), "1+a"),
        ("log", WHOSE, "1+b"),
    ],
)
def test_each_log_service_version_code_slot_and_namespace_has_its_own(
    log: str, whose: Whose, software: str, where: Path
) -> None:
    FoldFiles("log", where=where).put(WHOSE, "1+a", KEPT)
    files = FoldFiles(log, where=where)
    assert files.nearest(whose, software, 100) is None
    # Nor is it believed under the name of another.
    (path,) = where.iterdir()
    path.rename(files._path(whose, software, KEPT.position))
    assert files.nearest(whose, software, 100) is None
    assert not list(where.iterdir())


def test_the_last_one_before_a_sequence_is_found(where: Path) -> None:
    files = FoldFiles("log", where=where)
    for position in (5, 90, 1_000):
        files.put(WHOSE, "1+a", KeptFold(KEPT.checkpoint, position, b"a state"))
    found = [files.nearest(WHOSE, "1+a", up_to) for up_to in (4, 5, 999, 5_000)]
    assert [kept and kept.position for kept in found] == [None, 5, 90, 1_000]


def test_files_are_bounded_and_what_was_used_least_goes_first(where: Path) -> None:
    files = FoldFiles("log", where=where, most_bytes=3_000)
    for position in (1, 2):
        files.put(WHOSE, "1+a", KeptFold(KEPT.checkpoint, position, bytes(1_000)))
    for age, path in enumerate(sorted(where.iterdir(), key=lambda p: p.name)):
        os.utime(path, (1_000 + age, 1_000 + age))
    assert files.nearest(WHOSE, "1+a", 1) is not None  # used now
    files.put(WHOSE, "1+a", KeptFold(KEPT.checkpoint, 3, bytes(1_000)))
    left = [n for n in (1, 2, 3) if files._path(WHOSE, "1+a", n).exists()]
    assert left == [1, 3]
    files.put(WHOSE, "1+a", KeptFold(KEPT.checkpoint, 4, bytes(fold_files.LARGEST + 1)))
    assert not files._path(WHOSE, "1+a", 4).exists()


def test_a_folder_that_others_could_look_into_is_closed(where: Path) -> None:
    where.mkdir(parents=True)
    where.chmod(0o755)
    FoldFiles("log", where=where).put(WHOSE, "1+a", KEPT)
    assert stat.S_IMODE(where.stat().st_mode) == 0o700


def test_where_there_can_be_no_folder_none_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for where in (tmp_path / "file", tmp_path / "file" / "folds", tmp_path / "link"):
        files = FoldFiles("log", where=where)
        files.put(WHOSE, "1+a", KEPT)
        assert files.nearest(WHOSE, "1+a", 100) is None
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}
