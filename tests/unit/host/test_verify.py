"""Verification finds what was altered, and an export carries everything that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.exports import write_export
from tests.unit.host.counting import COUNTING
from tests.unit.host.test_host import NAMESPACES, expect_holds, hosting, pod
from tidewright.asking.errors import BadInput
from tidewright.asking.withholding import Withholding
from tidewright.cli.exports import import_
from tidewright.cli.verify import verify
from tidewright.host.fold.inputs import Inputs
from tidewright.host.fold.verify import Difference, Report, Verification, Verifier
from tidewright.log.connection import Log
from tidewright.log.export import BadExport, ExportFile, Manifest
from tidewright.log.reader import Record
from tidewright.log.subjects import SLOT_HASH


async def recorded(log: Log) -> list[Record]:
    """A log with decisions over two lives of the service."""
    for start in (0, 9):
        await log.commit([pod(log, n, i) for n in NAMESPACES for i in range(start, start + 9)])
        async with hosting(log):
            await expect_holds(log, (start + 9) // 3)
    async with log.reader([log.subjects.everything]) as reader:
        return [record async for record in reader.until_current()]


def verified(log: Log, records: Iterable[Record]) -> Report:
    report = Report()
    inputs = Inputs("counting", COUNTING.kinds, log.subjects, log.slots)
    verification = Verification([Verifier(COUNTING, inputs, report)])
    for record in records:
        verification.take(record)
    verification.finish()
    return report


async def test_an_untouched_log_verifies(log: Log) -> None:
    report = verified(log, await recorded(log))
    assert (report.count, report.decisions) == (0, 48)


async def test_an_altered_fact_is_found_by_the_digests(log: Log) -> None:
    records = await recorded(log)
    place = next(i for i, r in enumerate(records) if ".fact." in r.subject)
    records[place] = altered(records[place], records[place].body.replace(b'"p0"', b'"q0"'))
    report = verified(log, records)
    assert {d.cause for d in report.differences} == {"altered or missing fact"}


async def test_a_missing_fact_is_found(log: Log) -> None:
    records = await recorded(log)
    place = next(i for i, r in enumerate(records) if ".fact." in r.subject)
    assert verified(log, records[:place] + records[place + 1 :]).count > 0


async def test_an_altered_decision_is_found_by_the_chain(log: Log) -> None:
    records = await recorded(log)
    place = next(i for i, r in enumerate(records) if b"hold 1" in r.body)
    records[place] = altered(records[place], records[place].body.replace(b"hold 1", b"hold 7"))
    first = verified(log, records).differences[0]
    assert (first.cause, first.seq) == ("altered decision", records[place].seq)
    assert b"hold 7" in first.recorded
    assert b"hold 1" in first.recomputed


@pytest.mark.parametrize(
    ("written", "altered_to"),
    [
        (b'"reason":"hold 1', b'"reason":7,"was":"hold 1'),
        (b'"id":"counting.', b'"id":"counting '),
        (b'"id":"', b'"id":7,"was":"'),
        (b'{"type"', b'{"typ"'),
        (b"{", b"["),
    ],
)
async def test_a_decision_that_is_none_any_more_is_told_and_ends_nothing(
    log: Log, written: bytes, altered_to: bytes
) -> None:
    records = await recorded(log)
    place = next(i for i, r in enumerate(records) if b"hold 1" in r.body)
    assert written in records[place].body
    records[place] = altered(records[place], records[place].body.replace(written, altered_to, 1))
    report = verified(log, records)
    assert {d.cause for d in report.differences} & {"undecodable message", "altered decision"}
    assert records[place].seq in {d.seq for d in report.differences}
    assert report.decisions >= 47  # the others were compared all the same


async def test_an_export_verifies_alone_and_shows_alteration(log: Log, tmp_path: Path) -> None:
    records = await recorded(log)
    path = tmp_path / "log.twlog"
    manifest = Manifest(
        cluster="test",
        stream=log.stream,
        slots=log.slots,
        slot_hash=SLOT_HASH,
        first_seq=1,
        last_seq=records[-1].seq,
    )
    assert write_export(path, manifest, [], records) == len(records)
    file = ExportFile(path)
    assert file.manifest == manifest
    assert list(file.records()) == records
    assert verified(log, file.records()).count == 0
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(BadExport, match=r"cut off|decompress|truncated"):
        list(ExportFile(path).records())
    path.write_bytes(b"no export")
    with pytest.raises(BadExport):
        ExportFile(path)


def altered(record: Record, body: bytes) -> Record:
    return Record(record.seq, record.subject, body, record.headers)


def test_a_report_keeps_the_first_differences_only() -> None:

    report = Report()
    for i in range(150):
        report.add(Difference("s", "1", i, "different decision", "m"))
    assert (report.count, len(report.differences)) == (150, 100)


async def redacted_export(log: Log, path: Path, records: list[Record], *fields: str) -> ExportFile:
    withholding = Withholding(fields)
    manifest = Manifest(
        cluster="test", stream=log.stream, slots=log.slots, slot_hash=SLOT_HASH, first_seq=1,
        last_seq=records[-1].seq, without=withholding.fields,
    )  # fmt: skip
    left = [withholding.record(record, log.subjects.class_token(record.subject)) for record in records]
    write_export(path, manifest, [], left)
    return ExportFile(path)


async def test_an_export_without_fields_says_so_and_its_chain_can_still_be_followed(
    log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = await recorded(log)
    file = await redacted_export(log, tmp_path / "a.twlog", records, "labels,phase", "because")
    bodies = b"".join(record.body for record in file.records())
    assert not any(name in bodies for name in (b'"labels"', b'"because"', b'"phase":"Running"'))
    assert file.kinds["fact pod"] == sum(".fact." in record.subject for record in records)
    code = await asyncio.to_thread(verify, file=tmp_path / "a.twlog", output="table")
    said = capsys.readouterr().out
    assert code == 0
    assert "was exported without labels, phase, because" in said
    assert "through 48 decisions" in said
    assert "The chain is whole" in said
    # Altered, removed: the chain tells although nothing can be decided again.
    decisions = [i for i, r in enumerate(records) if ".decision." in r.subject]
    held = next(i for i in decisions if b"hold 1" in records[i].body)
    for number, wrong in enumerate(
        (
            [r for i, r in enumerate(records) if i != decisions[3]],
            [
                altered(r, r.body.replace(b"hold 1", b"hold 7")) if i == held else r
                for i, r in enumerate(records)
            ],
        )
    ):
        path = tmp_path / f"{number}.twlog"
        await redacted_export(log, path, wrong, "labels")
        assert await asyncio.to_thread(verify, file=path, output="table") == 1
        assert "times it is torn. The first:" in capsys.readouterr().out


async def test_an_export_without_fields_is_no_log_to_go_on_from(log: Log, tmp_path: Path) -> None:
    records = await recorded(log)
    await redacted_export(log, tmp_path / "a.twlog", records, "labels")
    with pytest.raises(BadInput, match="was exported without labels: a log of it would say what never was"):
        import_(tmp_path / "a.twlog")
    with pytest.raises(BadInput, match="--without at: without it nothing on the log could be read"):
        Withholding(["labels,at"])
