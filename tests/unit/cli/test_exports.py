"""An export is written whole, or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tidewright.cli import exports, main
from tidewright.log.export import ExportFile, ExportWriter
from tidewright.log.reader import Record

LOG = str(Path(__file__).parents[2] / "recorded" / "chaos.twlog")


def test_it_is_there_when_it_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["export", str(tmp_path / "it.twlog"), "--log", LOG]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["it.twlog"]
    assert "records written to" in capsys.readouterr().out


def test_a_full_disk_leaves_nothing_and_the_file_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it.twlog"
    path.write_text("of before")

    def full(writer: ExportWriter, record: Record) -> None:
        class Full:
            def flush(self, _mode: int) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(writer, "_stream", Full())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ExportWriter, "record", full)
    assert main.run(["export", str(path), "--log", LOG]) == 69
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"it.twlog": "of before"}


def test_one_that_is_told_to_stop_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = ExportFile(Path(LOG)).manifest

    async def stopped(*arguments: Any) -> Any:
        with ExportWriter(arguments[1], manifest):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)

    monkeypatch.setattr(exports, "exported", stopped)
    assert main.run(["export", str(tmp_path / "it.twlog"), "--log", LOG]) == 1
    assert "stopped before the end of the log" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        assert main.run(["export", str(path), "--log", LOG]) == 2
        assert "is no file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert pipe.is_fifo()
