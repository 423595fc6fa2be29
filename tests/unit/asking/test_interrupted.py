"""A verification that is interrupted, and the next one, which goes on from there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tests.bench.askedlog import CLUSTER, SLOTS, MadeUp
from tests.exports import write_export
from tidewright.asking import fold_files, interrupted
from tidewright.asking.answers.verify import LogVerification
from tidewright.asking.errors import BAD_USAGE, Unavailable
from tidewright.asking.exported import ExportedLog
from tidewright.asking.fold_files import FoldFiles
from tidewright.asking.service_state import deciders
from tidewright.asking.verify import answer, verified
from tidewright.cli.main import run as command
from tidewright.log.export import ExportFile, Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import SLOT_HASH

MESSAGES = 6_000
SERVICES = ("autoscaler",)
CUTS = (3_300, 4_200, 5_200)
"""Behind the first checkpoints."""


class Ending(ExportedLog):
    """A log that stops to answer behind a sequence; `read` are the sequences that it gave."""

    def __init__(self, path: Path, until: int) -> None:
        super().__init__(ExportFile(path))
        self.until = until
        self.read: list[int] = []

    async def stored(self, after: int = 0) -> AsyncGenerator[Record, None]:
        async for record in super().stored(after):
            if record.seq > self.until:
                raise Unavailable("it does not answer any more")
            self.read.append(record.seq)
            yield record


class Running(Ending):
    """One that is the same log whatever is on it, as the stream of a running one is."""

    async def identity(self) -> str:
        return self.stream


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test alone keeps what was verified, at each checkpoint."""
    monkeypatch.setattr(interrupted, "PAUSES", 0.0)
    monkeypatch.setattr(fold_files, "folder", lambda: tmp_path / "folds")
    return tmp_path / "folds"


def run(
    path: Path,
    until: int = 1 << 60,
    services: tuple[str, ...] = SERVICES,
    kind: type[Ending] = Ending,
) -> tuple[LogVerification, list[int]]:
    """Verify a log that stops to answer behind a sequence; the answer, and what was read."""
    log = kind(path, until)
    found = asyncio.run(verified(log, deciders(services), resumable=True, kept_every_s=0.0))
    return answer(found, "it"), log.read


def interrupt(
    path: Path, until: int, services: tuple[str, ...] = SERVICES, kind: type[Ending] = Ending
) -> None:
    with pytest.raises(Unavailable):
        run(path, until, services, kind)


def altered(log: Path, behind: int) -> Path:
    """A copy of a log with the same manifest, and another decision behind a sequence."""
    file = ExportFile(log)
    records = list(file.records())
    place = next(n for n, r in enumerate(records) if r.seq > behind and b'"decision.scale-workload' in r.body)
    body = records[place].body.replace(b'"replicas":', b'"replicas":1')
    records[place] = msgspec.structs.replace(records[place], body=body)
    copy = log.with_name(f"altered-behind-{behind}.twlog")
    write_export(copy, file.manifest, [], records)
    return copy


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that the autoscaler of this version has decided."""
    path = tmp_path_factory.mktemp("log") / "it.twlog"
    made = list(MadeUp(MESSAGES, 0.3))
    manifest = Manifest(
        cluster=CLUSTER, stream=f"TW_{CLUSTER}", slots=SLOTS, slot_hash=SLOT_HASH, first_seq=1, last_seq=made[-1].seq
    )  # fmt: skip
    write_export(path, manifest, [], made)
    return path


@pytest.fixture(scope="module")
def whole(log: Path) -> LogVerification:
    """What is found without an interruption."""
    found = answer(asyncio.run(verified(ExportedLog(ExportFile(log)), deciders(SERVICES))), "it")
    assert found.verified
    return found


def test_the_next_one_goes_on_and_finds_the_same(log: Path, whole: LogVerification) -> None:
    for until in CUTS:
        interrupt(log, until)
    found, read = run(log)
    assert CUTS[1] < found.gone_on_from <= CUTS[2]
    assert len(read) < whole.messages / 2
    assert msgspec.structs.replace(found, gone_on_from=0) == whole
    again, read = run(log)
    assert again == whole, "who has come to the end begins anew"
    assert len(read) == whole.messages


def test_what_was_altered_behind_it_is_found(log: Path) -> None:
    interrupt(log, CUTS[0], kind=Running)
    found, _ = run(altered(log, CUTS[1]), kind=Running)
    assert 0 < found.gone_on_from <= CUTS[0]
    assert [difference.cause for difference in found.first][:1] == ["altered decision"]


def test_an_altered_copy_of_a_file_is_another_log(log: Path) -> None:
    interrupt(log, CUTS[1])
    copy = altered(log, 100)
    found, read = run(copy)
    assert (found.verified, found.gone_on_from, read[0]) == (False, 0, 1)
    assert found.first[0].sequence < CUTS[0], "it is in what the run of the other file had verified"
    untouched = log.with_name("untouched.twlog")
    untouched.write_bytes(log.read_bytes())
    assert run(untouched)[0].gone_on_from > CUTS[0], "the very same bytes are the same log"


def test_one_of_other_services_that_cannot_be_removed_is_left_alone(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(log, CUTS[0])
    monkeypatch.setattr(FoldFiles, "drop", lambda *_: None)  # as in a folder that nothing can be written to
    found, read = run(log, services=("spread",))
    assert (found.gone_on_from, read[0]) == (0, 1)


def test_a_day_passes_from_the_first_of_several(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = 0.0
    clock = SimpleNamespace(time=lambda: 1e9 + days * interrupted.COUNTS_S, monotonic=time.monotonic)
    monkeypatch.setattr(interrupted, "time", clock)
    interrupt(log, CUTS[0])
    days = 0.6
    interrupt(log, CUTS[1])
    days = 0.9
    with monkeypatch.context() as kept:
        # It comes to its end, and the next asks for what this one did.
        kept.setattr(FoldFiles, "drop", lambda *_: None)
        assert run(log)[0].gone_on_from > CUTS[0], "the second went on from the first, and is kept"
    days = 1.2
    assert run(log)[0].gone_on_from == 0


def test_the_answer_says_what_was_not_looked_at_again(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["verify", "--log", str(log), *(f"--service={service}" for service in SERVICES)]
    interrupt(log, CUTS[1])
    assert command([*asked, "--resume"]) == 0
    said = capsys.readouterr().out
    assert "that part was NOT LOOKED AT AGAIN" in said
    assert "Every decision is" not in said, "of what was not looked at again nothing is claimed"
    assert command(asked) == 0
    said = capsys.readouterr().out
    assert "Every decision is" in said
    assert "NOT LOOKED AT" not in said


def test_what_is_verified_as_a_whole_is_not_gone_on_with(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, part = ExportFile(log), tmp_path / "part.twlog"
    manifest = msgspec.structs.replace(file.manifest, without=("annotations",))
    write_export(part, manifest, [], file.records())
    assert command(["verify", "--log", str(part)]) == 0
    capsys.readouterr()
    for where in (("--log", str(part)), ("--archive", str(tmp_path / "sealed"))):
        assert command(["verify", "--resume", *where]) == BAD_USAGE
        said = capsys.readouterr().err
        assert "--resume" in said
        assert where[1] in said


def test_other_services_a_day_and_what_is_cut_off_begin_anew(
    log: Path, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(log, CUTS[0])
    assert run(log, services=("spread",))[0].gone_on_from == 0
    interrupt(log, CUTS[0])
    for kept in where.glob("*.fold"):
        kept.write_bytes(kept.read_bytes()[:-1])
    assert run(log)[0].gone_on_from == 0
    interrupt(log, CUTS[0])
    monkeypatch.setattr(interrupted, "COUNTS_S", -1.0)
    assert run(log)[0].gone_on_from == 0
