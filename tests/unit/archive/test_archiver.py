"""An archiver beside a log: what it seals, what it refuses, and how archive and log are asked together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.nats_server import EmbeddedServer
from tests.unit.archive.world import LOG, recorded
from tidewright.archive.chain import name_of
from tidewright.archive.errors import BadArchive
from tidewright.archive.keys import ArchiverKeys
from tidewright.archive.reading import checked
from tidewright.archive.store import FolderStore
from tidewright.archiver import stretches
from tidewright.archiver.service import Archiver
from tidewright.asking.exports import rolls_up
from tidewright.asking.running_log import RunningLog
from tidewright.cli.main import run
from tidewright.log.connection import Log, Message


async def asked(*arguments: str) -> int:
    return await asyncio.to_thread(run, arguments)


@pytest.fixture
async def running(nats: EmbeddedServer) -> AsyncIterator[Log]:
    """The recorded log on a server."""
    assert await asked("import", str(LOG), "--cluster", "chaos", "--nats", nats.url) == 0
    async with await Log.connect(nats.url, "chaos", timeout_s=10.0) as log:
        log.directly = True
        await log.adopt_slots()
        yield log


def archiver(log: Log, folder: Path) -> Archiver:
    return Archiver(RunningLog(log), FolderStore(folder / "chaos"), ArchiverKeys(folder / "key"), 0.001)


async def verified(capsys: pytest.CaptureFixture[str], *where: str) -> dict[str, Any]:
    """What `verify` says of a log, but for its name and what is not decided yet at its end."""
    capsys.readouterr()
    code = await asked("verify", *where, "-o", "json")
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {key: value for key, value in answer.items() if key not in ("log", "undecided")} | {"code": code}


async def shown(capsys: pytest.CaptureFixture[str], *where: str) -> dict[str, Any]:
    capsys.readouterr()
    assert await asked("get", *where, "-A", "wpa", "-o", "json") == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {key: value for key, value in answer.items() if key not in ("log", "sequence")}


async def everything_sealed(sealing: Archiver) -> Archiver:
    async with asyncio.timeout(90):
        await sealing.turn()
        while sealing.behind:
            await asyncio.sleep(0.002)
            await sealing.turn()
    return sealing


async def test_a_log_is_sealed_and_verified_with_what_is_not_sealed_yet(
    running: Log,
    nats: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stretches, "MAX_RECORDS", 1000)
    records = [record for record in recorded()[1] if not rolls_up(record)]
    sealing = await everything_sealed(archiver(running, tmp_path))
    running_alone = ["--cluster", "chaos", "--nats", nats.url]
    whole, listed = await verified(capsys, *running_alone), await shown(capsys, *running_alone)
    store = FolderStore(tmp_path / "chaos")
    segments = await checked(store, tmp_path)
    assert [record.seq for file in segments.files for record in file.records()] == [r.seq for r in records]
    assert (sealing.last, sealing.behind, sealing.waits_s) == (records[-1].seq, 0, 0.0)
    # What comes later is on the log alone, until another archiver seals it.
    subject = f"{running.subjects.root}.note.all.it"  # nobody reads it
    await running.commit([Message(subject, b"{}")])
    where = ["--archive", str(tmp_path), "--cluster", "chaos", "--archive-key", str(tmp_path / "key.pub")]
    both, alone = [*where, "--nats", nats.url], [*where, "--nats", "nats://127.0.0.1:1"]
    for place, messages in ((alone, len(records)), (both, len(records) + 1)):
        assert await verified(capsys, *place) == whole | {"messages": messages}
        assert await shown(capsys, *place) == listed
    again = await everything_sealed(archiver(running, tmp_path))
    assert again.last == records[-1].seq + 1


async def test_an_altered_archive_is_named_by_verify_and_asked_nothing(
    running: Log, nats: EmbeddedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await everything_sealed(archiver(running, tmp_path))
    path = tmp_path / "chaos" / name_of(1)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    where = ["--archive", str(tmp_path), "--cluster", "chaos", "--nats", nats.url]
    capsys.readouterr()
    assert await asked("verify", *where) == 1
    said = capsys.readouterr().out
    assert (
        f"The first: altered archive, the archive, sequence 1:\n  segment {name_of(1)}: its content" in said
    )
    assert await asked("get", *where, "wpa", "-A") == 1
    assert "it was altered" in capsys.readouterr().err


async def test_a_message_that_was_altered_on_the_log_behind_the_archivers_back_is_named(
    nats: EmbeddedServer, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.directly = True
    for n in range(6):
        await log.commit([Message(log.subjects.config(f"c{n}"), b'{"n":%d}' % n)])
    sealing = Archiver(
        RunningLog(log), FolderStore(tmp_path / "a" / "test"), ArchiverKeys(tmp_path / "key"), 0.001
    )
    await everything_sealed(sealing)
    assert sealing.last == 6
    # Made anew with another message in the place of the third, and without the fourth.
    await log.api(f"STREAM.DELETE.{log.stream}", {})
    await log.ensure(8)
    for n in range(6):
        await log.commit(
            [Message(log.subjects.config("gone" if n == 3 else f"c{n}"), b'{"n":%d}' % (7 if n == 2 else n))]
        )
    await log.api(f"STREAM.PURGE.{log.stream}", {"filter": log.subjects.config("gone")})
    capsys.readouterr()
    code = await asked(
        "verify", "--archive", str(tmp_path / "a"), "--cluster", "test", "--nats", nats.url, "-o", "json"
    )
    found = json.loads(capsys.readouterr().out)
    assert code == 1
    assert [(d["sequence"], d["cause"]) for d in found["first"]] == [
        (3, "altered message"),
        (4, "altered message"),
    ]
    assert [
        word in found["first"][n]["message"] for n, word in enumerate(("not what was sealed", "was removed"))
    ] == [True] * 2
    assert (found["first"][0]["recorded"], found["first"][0]["recomputed"]) == ('{"n":7}', '{"n":2}')


async def test_a_log_that_is_another_is_not_sealed_behind_the_one_before(log: Log, tmp_path: Path) -> None:
    log.directly = True
    for n in range(3):
        await log.commit([Message(log.subjects.config(f"c{n}"), b"1")])
    source = RunningLog(log)
    sealing = Archiver(source, FolderStore(tmp_path), ArchiverKeys(tmp_path / "key"), 0.001)
    await everything_sealed(sealing)
    assert sealing.last == 3
    await log.api(f"STREAM.DELETE.{log.stream}", {})
    await log.ensure(8)
    with pytest.raises(BadArchive, match="put it back from the archive"):
        await sealing.turn()
    for n in range(4):
        await log.commit([Message(log.subjects.config(f"c{n}"), b"2")])
    with pytest.raises(BadArchive, match="it is another log"):
        await sealing.turn()
