"""The code of the version before, out of the history of this repository."""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
UNTAGGED = "5421c57766"
"""Stands for the version before while none is tagged: deciders had states of older forms then."""


@dataclass(frozen=True)
class Version:
    """A version of the code in a folder."""

    name: str
    folder: Path

    def tidewright(self, *arguments: str) -> tuple[str, ...]:
        """A command line of this version, without what is installed here as ours."""
        return (sys.executable, "-S", "-m", "tidewright.cli.main", *arguments)

    @property
    def environment(self) -> dict[str, str]:
        """What its command lines need."""
        # -S leaves out what would add our own code: libraries have to be named.
        paths = [self.folder / "libs", self.folder / "services", Path(sysconfig.get_path("purelib"))]
        return {"PYTHONPATH": ":".join(map(str, paths))}

    def run(self, *arguments: str) -> str:
        """What Python code or a module says, run by this version."""
        answer = subprocess.run(
            [sys.executable, "-S", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout


def before(folder: Path) -> Version:
    """The last version that was tagged, else the commit that stands for it; skips where history is not there."""
    name = _git("describe", "--tags", "--abbrev=0", "HEAD^").decode().strip() or UNTAGGED
    archive = _git("archive", "--format=tar", name, "libs", "services")
    if not archive:
        pytest.skip(f"the code of {name} is not here: a checkout with its history (not a shallow one) has it")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    version = Version(name, folder)
    path = version.run("-c", "from tidewright.events import registry; print(registry.__file__)").strip()
    assert Path(path).is_relative_to(folder), path
    return version


def _git(*arguments: str) -> bytes:
    """What git says; nothing where it, or what is asked for, is not there."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        return b""
    return answer.stdout if answer.returncode == 0 else b""
