"""A verification that is interrupted, and the next one, which goes on from there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from tests.bench.askedlog import CLUSTER, SLOTS, MadeUp
from tests.exports import write_export
from tidewright.asking import fold_files, interrupted
from tidewright.asking.answers import LogVerification
from tidewright.asking.errors import Unavailable
from tidewright.asking.exported import ExportedLog
from tidewright.asking.service_state import deciders
from tidewright.asking.verify import answer, verified
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


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test alone keeps what was verified, at each checkpoint."""
    monkeypatch.setattr(interrupted, "PAUSES", 0.0)
    monkeypatch.setattr(fold_files, "folder", lambda: tmp_path / "folds")
    return tmp_path / "folds"


def run(
    path: Path, until: int = 1 << 60, services: tuple[str, ...] = SERVICES
) -> tuple[LogVerification, list[int]]:
    """Verify a log that stops to answer behind a sequence; the answer, and what was read."""
    log = Ending(path, until)
    found = asyncio.run(verified(log, deciders(services), resumable=True, kept_every_s=0.0))
    return answer(found, "it"), log.read


def interrupt(path: Path, until: int, services: tuple[str, ...] = SERVICES) -> None:
    with pytest.raises(Unavailable):
        run(path, until, services)


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


def test_what_was_altered_behind_it_is_found(log: Path, tmp_path: Path) -> None:
    interrupt(log, CUTS[0])
    file = ExportFile(log)
    records = list(file.records())
    place = next(
        n for n, r in enumerate(records) if r.seq > CUTS[1] and b'"decision.scale-workload' in r.body
    )
    body = records[place].body.replace(b'"replicas":', b'"replicas":1')
    records[place] = msgspec.structs.replace(records[place], body=body)
    altered = tmp_path / "altered.twlog"
    write_export(altered, file.manifest, [], records)
    found, _ = run(altered)
    assert 0 < found.gone_on_from <= CUTS[0]
    assert [difference.cause for difference in found.first][:1] == ["altered decision"]


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
