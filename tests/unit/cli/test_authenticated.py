"""Commands that ask a signed log, running or in a file: with the trust anchor they see what is believed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
import zstandard

from tests.exports import write_export
from tests.nats_server import EmbeddedServer
from tests.unit.log.authenticated import Authority, bodies, stored
from tests.unit.log.test_signed import S1, commit
from tidewright.cli.main import run
from tidewright.log import keyfiles
from tidewright.log.connection import Log, Message
from tidewright.log.export import MAX_FRAME_BYTES, BadExport, ExportFile, ExportWriter, Manifest
from tidewright.log.reader import Record


@pytest.fixture
async def signed(log: Log, nats: EmbeddedServer, tmp_path: Path) -> list[str]:
    """A signed log with something forged on it; the options that name it and the trust anchor."""
    authority = Authority(tmp_path)
    await authority.install(log)
    (tmp_path / "root.pub").write_bytes(keyfiles.public_pem(authority.root.public_key()))
    async with await authority.connect(nats.url, "autoscaler") as own:
        first = await own.commit(commit(own, b"one", 0))
        subject = log.subjects.decision(S1, "autoscaler", "deployment", "shop", "web")
        await log.commit([Message(subject, b"forged")])
        await own.commit(commit(own, b"two", first.last_seq))
    async with await authority.connect(nats.url) as reader:
        assert b"forged" not in bodies(await stored(reader))
    return ["--nats", nats.url, "--cluster", "test"]


async def asked(*arguments: str) -> int:
    return await asyncio.to_thread(run, arguments)


async def test_what_is_forged_is_named_by_verify_and_left_out_elsewhere(
    signed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, anchor = str(tmp_path / "it.twlog"), ["--trust", str(tmp_path / "root.pub")]
    assert await asked("export", file, *signed) == 0
    for where in ([*signed], ["--log", file]):
        for trust in (anchor, []):
            capsys.readouterr()
            assert await asked("verify", *where, *trust, "-o", "json") == 1
            found = json.loads(capsys.readouterr().out)
            assert [(d["cause"], d["sequence"]) for d in found["first"]] == [("not authenticated", 5)]
            assert found["authenticated"] == {
                "keys": 1, "vouched": bool(trust), "history": 0, "commits": 2, "messages": 6, "unknown": 0,
            }  # fmt: skip
    source = [record.body for record in ExportFile(Path(file)).records()]
    assert b"forged" in source
    believed = str(tmp_path / "believed.twlog")
    for where in ([*signed], ["--log", file]):
        assert await asked("export", believed, *where, *anchor) == 0
        assert b"forged" not in [record.body for record in ExportFile(Path(believed)).records()]
        assert ExportFile(Path(believed)).manifest.keys
    assert await asked("events", "--log", file, *anchor, "-o", "json") == 0
    strange = tmp_path / "strange.pub"
    strange.write_bytes(keyfiles.public_pem(Authority(tmp_path).root.public_key()))
    assert await asked("verify", "--log", file, "--trust", str(strange)) == 2


async def test_a_header_or_an_order_that_is_altered_in_a_file_is_named(
    signed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it.twlog"
    assert await asked("export", str(path), *signed) == 0
    file = ExportFile(path)
    records = [record for record in file.records() if record.body != b"forged"]
    changed = list(records)
    changed[1] = Record(2, records[1].subject, records[1].body, records[1].headers | {"Tw-Cause-Seq": "7"})
    removed = [record for record in records if record.seq != 2]
    for n, some in enumerate((records, changed, removed)):
        altered = tmp_path / f"{n}.twlog"
        write_export(altered, file.manifest, [], some)
        capsys.readouterr()
        await asked("verify", "--log", str(altered), "-o", "json")
        found = json.loads(capsys.readouterr().out)["first"]
        assert [(d["cause"], d["sequence"]) for d in found] == [
            [], [("not authenticated", 2)], [("altered message", 2)],
        ][n]  # fmt: skip


def manifest(**fields: int) -> Manifest:
    return msgspec.structs.replace(
        Manifest(cluster="c", stream="s", slots=8, slot_hash="h", first_seq=1, last_seq=1), **fields
    )


def test_a_frame_that_says_it_is_endless_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long.twlog"
    writer = ExportWriter(path, manifest())
    writer._stream.write((900 << 20).to_bytes(4, "big") + b"x" * 100_000)
    writer._stream.flush(zstandard.FLUSH_FRAME)
    writer._file.close()
    writer._partial.replace(path)
    with pytest.raises(
        BadExport, match=f"a frame has {900 << 20} bytes, and none has more than {MAX_FRAME_BYTES}"
    ):
        list(ExportFile(path).records())


def test_a_long_frame_is_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once per piece: what is copied grows with the file, and not with its square."""
    body = b"x" * (20 << 20)
    path = tmp_path / "long.twlog"
    write_export(path, manifest(last_seq=2), [], [Record(1, "a", body, {}), Record(2, "b", b"y", {})])
    file, taken = ExportFile(path), 0
    from tidewright.log import export

    pieces = export._Pieces.__iter__

    def counted(self: export._Pieces) -> object:
        nonlocal taken
        for piece in pieces(self):
            taken += len(piece)
            yield piece

    monkeypatch.setattr(export._Pieces, "__iter__", counted)
    assert [len(record.body) for record in file.records()] == [len(body), 1]
    assert taken < 3 * len(body)
