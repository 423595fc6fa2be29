"""Shell completion: printed, or written where the shell looks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tidewright.cli import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("explain", "provisioning", "--nats", "--at"):
        assert word.lstrip("-") in script
    if found := shutil.which(shell):
        subprocess.run([found, "-n"], input=script.encode(), check=True)


def test_it_is_installed_where_the_shell_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert main.run(["completion", "--install"]) == 0
    path = Path(capsys.readouterr().out.partition(":")[0])
    assert path.is_relative_to(tmp_path)
    assert "explain" in path.read_text()
    assert not (tmp_path / ".bashrc").exists()


def test_another_shell_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main.run(["completion"]) == 2
    assert "'/bin/tcsh'" in capsys.readouterr().err
